"""``headgate check``: questions that scripts and supervisors ask. The answer is the exit code; a line says why.

0 is yes. A broker that cannot be asked ends with the code of every command that cannot ask it; one that answers and is
not as it should be with 10, a damaged data folder with 8.
"""

from collections.abc import Callable

from cyclopts import App

from amqp10.cli.arguments import Data
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import AsJson, Row, print_json
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker

check_app = App(name="check", help="Ask whether the broker is live, is ready, has alarms, or has a sound data folder.")


@check_app.command
def live(*, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Whether the broker accepts connections, lets the user in and answers the open of AMQP 1.0.

    For example:

        headgate check live
    """

    def opened(broker: object) -> None:
        pass  # the connection was opened, which is all that is asked

    def ask() -> str:
        with_broker(url, opened)
        return "the broker is live"

    _answer("live", ask, json=json)


@check_app.command
def ready(*, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Whether the broker is live and is to get new connections. The exit code is 10 while it is being drained.

    An alarm does not make a broker unready: consumers end most alarms, so they must get through.

    For example:

        headgate check ready --json
    """

    def ask() -> str:
        if _shown(url, "drain").get("draining"):
            raise CommandError(Exit.DIFFERS, "the broker is being drained; headgate undrain ends that")
        return "the broker is ready"

    _answer("ready", ask, json=json)


@check_app.command
def alarms(*, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Whether no alarm is on, so that everybody can publish. The exit code is 10 when one is.

    For example:

        headgate check alarms || headgate alarms list
    """

    def ask() -> str:
        rows = _shown(url, "status").get("alarms")
        on = [str(row["name"]) for row in rows if row["on"]] if isinstance(rows, list) else []
        if on:
            raise CommandError(Exit.DIFFERS, f"publishers wait: {', '.join(on)}; headgate alarms list says since when")
        return "no alarm is on"

    _answer("alarms", ask, json=json)


@check_app.command
def store(*, data: Data, json: AsJson = False) -> None:
    """Whether every record of a data folder that no broker uses can be read. The exit code is 8 when one is damaged.

    headgate store check describes each of them.

    For example:

        headgate check store --data /var/lib/headgate
    """

    def ask() -> str:
        from amqp10.cli.store import examined  # here and not above: supervisors ask the rest, many times an hour

        found = examined(data)
        if found.is_damaged:
            raise CommandError(
                Exit.DAMAGED, f"data folder {data}: {found}; headgate store check --data {data} says which"
            )
        return str(found)

    _answer("store", ask, json=json)


def _shown(url: str, what: str) -> Row:
    found = with_broker(url, lambda broker: broker.request("GET", f"/headgate/{what}").body)
    if not isinstance(found, dict):
        raise CommandError(Exit.REFUSED, "the broker's answer is not understood; is it a Headgate of another version?")
    return found


def _answer(question: str, ask: Callable[[], str], *, json: bool) -> None:
    """Print what the answer is; a no is raised on as well, for its exit code."""
    try:
        text = ask()
    except CommandError as error:
        if json:
            print_json({"check": question, "ok": False, "text": error.text})
        raise
    if json:
        print_json({"check": question, "ok": True, "text": text})
    else:
        print(text)
