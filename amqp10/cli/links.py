"""``headgate links``: see them, hold them up, let them go on, close them."""

from typing import Annotated

from cyclopts import Parameter

from amqp10.cli.closing import Reason, close_one
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.listing import noun
from amqp10.cli.printing import AsJson, tell
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker
from amqp10.wire.percent import percent_encode

links_app = noun(
    "links",
    columns=(
        "identity",
        "direction",
        "address",
        "link_credit",
        "delivery_count",
        "unconfirmed",
        "waiting",
        "paused",
        "name",
    ),
    help_text=(
        "Links with their link credit, as the broker sees them: in is from a publisher, out is to a consumer. Pause and"
        " resume a link, bound its link credit, close it."
    ),
)


@links_app.command
def pause(link: str, /, *, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Stop a link: a publisher loses its link credit, a consumer gets nothing for its own. The client stays attached.

    What is on its way is still taken. The client is told the reason "paused" on its link. The pause ends with the link.

    For example:

        headgate links pause c17/0/1
    """
    _request(url, "PUT", link, "pause")
    tell(f"link {link} is paused", {"link": link, "paused": True}, as_json=json)


@links_app.command
def resume(link: str, /, *, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Let a link go on that was paused.

    For example:

        headgate links resume c17/0/1
    """
    _request(url, "DELETE", link, "pause")
    tell(f"link {link} goes on", {"link": link, "paused": False}, as_json=json)


@links_app.command(name="set-credit")
def set_credit(
    link: str,
    most: Annotated[int | None, Parameter(help="The most link credit that its publisher gets, 1 or more.")] = None,
    /,
    *,
    reset: Annotated[bool, Parameter(negative="", help="Back to what configuration and policies say.")] = False,
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Bound the link credit of a publisher. What it has beyond that is taken back. The bound ends with the link.

    For example:

        headgate links set-credit c17/0/0 10
        headgate links set-credit c17/0/0 --reset
    """
    if reset == (most is not None):
        raise CommandError(Exit.USAGE, "give either a number or --reset")
    if most is None:
        _request(url, "DELETE", link, "credit")
        text = f"link {link} gets as much link credit as configuration and policies say"
        tell(text, {"link": link, "max_link_credit": None}, as_json=json)
        return
    if most < 1:
        raise CommandError(Exit.USAGE, f"{most}: must be 1 or more; to stop the link: headgate links pause {link}")
    _request(url, "PUT", link, f"credit?max={most}")
    tell(f"link {link} gets a link credit of {most} at most", {"link": link, "max_link_credit": most}, as_json=json)


@links_app.command
def close(link: str, /, *, reason: Reason = None, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Detach a link; its client is told that an operator did, with amqp:link:detach-forced.

    For example:

        headgate links close c17/0/1 --reason "this consumer is stuck"
    """
    close_one(url, "links", link, reason)
    tell(f"link {link} is being closed", {"link": link}, as_json=json)


def _request(url: str, method: str, link: str, rest: str) -> None:
    path = f"/headgate/links/{percent_encode(link)}/{rest}"
    with_broker(url, lambda broker: broker.request(method, path))
