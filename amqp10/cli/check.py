"""``headgate check``: conditions that scripts and supervisors check. The exit code is the answer; a line says why.

The exit code is 0 if the condition holds, 10 if the broker answers that it does not hold, and 8 for a damaged data
folder. A broker that cannot be asked gives the same codes as with every other command.
"""

from collections.abc import Callable
from pathlib import Path

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import print_json
from amqp10.cli.remote import ask_once, row_of, with_broker


def live(*, json: bool, url: str) -> None:
    """Check that the broker accepts connections, accepts the login and answers the open of AMQP 1.0."""

    def opened(broker: object) -> None:
        pass  # the connection was opened, and no more is needed

    def ask() -> str:
        with_broker(url, opened)
        return "the broker is live"

    _answer("live", ask, json=json)


def ready(*, json: bool, url: str) -> None:
    """Check that the broker is live and accepts new connections. The exit code is 10 after headgate drain.

    A broker with an alarm is ready, because consumers end most alarms and must be able to connect.
    """

    def ask() -> str:
        if row_of(ask_once(url, "drain.status")).get("draining"):
            raise CommandError(Exit.DIFFERS, "the broker is being drained; headgate undrain ends that")
        return "the broker is ready"

    _answer("ready", ask, json=json)


def alarms(*, json: bool, url: str) -> None:
    """Check that no alarm is on. The exit code is 10 when an alarm makes publishers wait."""

    def ask() -> str:
        rows = row_of(ask_once(url, "status")).get("alarms")
        on = [str(row["name"]) for row in rows if row["on"]] if isinstance(rows, list) else []
        if on:
            raise CommandError(Exit.DIFFERS, f"publishers wait: {', '.join(on)}; headgate alarms list says since when")
        return "no alarm is on"

    _answer("alarms", ask, json=json)


def store(*, data: Path, json: bool) -> None:
    """Check that all records in the data folder of a stopped broker can be read. The exit code is 8 for damage.

    headgate store check describes each damaged record.
    """

    def ask() -> str:
        from amqp10.cli.store import examined  # here and not above: the other checks run many times an hour

        found = examined(data)
        if found.is_damaged:
            raise CommandError(
                Exit.DAMAGED, f"data folder {data}: {found}; headgate store check --data {data} says which"
            )
        return str(found)

    _answer("store", ask, json=json)


def _answer(question: str, ask: Callable[[], str], *, json: bool) -> None:
    """Print the answer. Raises the CommandError of ``ask`` again, for its exit code."""
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
