"""``headgate policies``: settings for all queues and exchanges whose names match a pattern."""

import json as json_module
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

from cyclopts import App, Parameter

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.listing import fetch_all
from amqp10.cli.printing import AsJson, print_json, print_rows, tell
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker
from amqp10.wire.percent import percent_encode

if TYPE_CHECKING:
    from amqp10.client_core.requests import Answer

policies_app = App(name="policies", help="Policies: settings for all queues and exchanges whose names match a pattern.")

LONG_MAX = 2**63 - 1
"""The largest integer in a request: a long has 64 bits."""
COLUMNS = ("name", "pattern", "apply_to", "priority", "definition")

Host = Annotated[str, Parameter(name=["-p", "--vhost"], help="The virtual host; there is only '/'.")]


@policies_app.command(name="set")
def set_(
    name: str,
    pattern: Annotated[str, Parameter(help="A regular expression. A name matches when it contains a match.")],
    definition: Annotated[str, Parameter(help="The keys and values, as a JSON object.")],
    /,
    *,
    priority: Annotated[int, Parameter(help="The policy with the highest priority applies to a queue.")] = 0,
    apply_to: Annotated[
        str, Parameter(help="all, queues, classic_queues, quorum_queues, streams or exchanges.")
    ] = "all",
    vhost: Host = "/",
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Make a policy, or change the policy with this name. It applies at once.

    For example:

        headgate policies set limit "^work" '{"max-length": 100000, "overflow": "reject-publish"}'
        headgate policies set Lazy "^myqueue$" '{"queue-mode":"lazy"}' --apply-to queues
    """
    body = {"pattern": pattern, "priority": priority, "apply_to": apply_to, "definition": _definition(definition)}
    _request(url, "PUT", name, vhost, body)
    tell(f"policy {name} is set", {"policy": name, **body}, as_json=json)


@policies_app.command
def clear(name: str, /, *, vhost: Host = "/", json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Remove a policy. Its settings end at once.

    For example:

        headgate policies clear Lazy
    """
    _request(url, "DELETE", name, vhost)
    tell(f"policy {name} is cleared", {"policy": name}, as_json=json)


@policies_app.command(name="list")
def list_(*, vhost: Host = "/", json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """List all policies.

    For example:

        headgate policies list
    """
    _check_host(vhost)
    print_rows(fetch_all(url, "policies"), COLUMNS, as_json=json)


@policies_app.command
def explain(queue: str, /, *, vhost: Host = "/", json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show which policy applies to a queue, the effect of each key, and why the other policies do not apply.

    For example:

        headgate policies explain myqueue
    """
    body = _request(url, "GET", f"explain/{percent_encode(queue)}", vhost, encoded=True).body
    if not isinstance(body, dict):
        raise CommandError(Exit.REFUSED, "the broker's answer is not understood; is it a Headgate of another version?")
    if json:
        print_json(body)
        return
    winner = body.get("policy")
    print(f"no policy holds for queue {queue}" if winner is None else f"policy {winner} holds for queue {queue}")
    for key in _rows(body.get("keys")):
        print(f"  {key.get('key')} = {json_module.dumps(key.get('value'))}: {key.get('effect')}, {key.get('why')}")
    for loser in _rows(body.get("losers")):
        print(f"policy {loser.get('name')} does not hold: {loser.get('why')}")
    if body.get("notice") is not None:
        print(f"{body.get('copies')}: {body.get('notice')}")


def _rows(value: object) -> list[Mapping[object, object]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _definition(text: str) -> dict[str, object]:
    try:
        definition = json_module.loads(text, parse_int=_integer, parse_constant=_no_number)
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"the definition {text!r} is not JSON: {error}") from None
    except RecursionError:
        raise CommandError(Exit.USAGE, "the definition is nested too deeply") from None
    if not isinstance(definition, dict):
        raise CommandError(
            Exit.USAGE, f"the definition {text!r} must be a JSON object, like '{{\"max-length\": 1000}}'"
        )
    return definition


def _integer(text: str) -> int:
    value = int(text)
    if abs(value) > LONG_MAX:
        raise ValueError(f"{text} is too large; the largest number is {LONG_MAX}")
    return value


def _no_number(text: str) -> float:
    """Refuse NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(f"{text} is no number")


def _check_host(vhost: str) -> None:
    if vhost != "/":
        raise CommandError(Exit.NOT_FOUND, f"there is no virtual host '{vhost}'; there is '/'")


def _request(url: str, method: str, name: str, vhost: str, body: object = None, *, encoded: bool = False) -> "Answer":
    path = f"/headgate/policies/{name if encoded else percent_encode(name)}?{urlencode({'vhost': vhost})}"
    return with_broker(url, lambda broker: broker.request(method, path, body))
