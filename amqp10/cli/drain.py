"""``headgate drain`` and ``headgate undrain``: empty a broker of work, so that its stop disturbs no client."""

import sys
from time import monotonic, sleep
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import AsJson, Row, print_json
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker

if TYPE_CHECKING:
    from amqp10.blocking.requests import BlockingManagement

POLL_SECONDS = 0.25
PATH = "/headgate/drain"


def drain_command(
    *,
    wait: Annotated[
        float | None, Parameter(help="Wait so many seconds at most until nothing is unsettled, and show how far it is.")
    ] = None,
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Let a broker finish what is under way, before it is stopped.

    It says that it is not ready (/readyz), lets no new connections and links in, gives publishers no link credit,
    and sends consumers nothing more; what they have they go on settling. Connections stay. Undo it with: headgate
    undrain. From the broker's own machine one can still connect, to look and to undo.

    For example:

        headgate drain
        headgate drain --wait 30 && kill -TERM $PID
    """
    if wait is not None and wait < 0:
        raise CommandError(Exit.USAGE, f"--wait {wait}: must be 0 or more")

    def drain(broker: "BlockingManagement") -> Row:
        progress = _ask(broker, "PUT")
        deadline = monotonic() + (wait or 0)
        while progress["unsettled"] and monotonic() < deadline:
            print(_left(progress), file=sys.stderr)
            progress = _changed(broker, progress, deadline)
        return progress

    progress = with_broker(url, drain)
    if json:
        print_json(progress)
    else:
        print(f"the broker is being drained; {_left(progress)}")
    if wait is None:
        return
    if progress["unsettled"]:
        raise CommandError(
            Exit.TIMED_OUT,
            f"not everything was settled within {wait:g} s; what is left when it stops will be delivered again",
        )
    if not json:
        print("it may be stopped")


def undrain_command(*, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Let a broker serve as usual again, after headgate drain.

    For example:

        headgate undrain
    """
    progress = with_broker(url, lambda broker: _ask(broker, "DELETE"))
    if json:
        print_json(progress)
    else:
        print("the broker serves as usual")


def _changed(broker: "BlockingManagement", before: Row, deadline: float) -> Row:
    """How far it is once that is another answer, or the time is over."""
    progress = before
    while progress == before and monotonic() < deadline:
        sleep(min(POLL_SECONDS, deadline - monotonic()))
        progress = _ask(broker, "GET")
    return progress


def _ask(broker: "BlockingManagement", method: str) -> Row:
    answer = broker.request(method, PATH).body
    if not isinstance(answer, dict):
        raise CommandError(Exit.REFUSED, "the broker's answer is not understood; is it a Headgate of another version?")
    return answer


def _left(progress: Row) -> str:
    """In words; the command's own connection is among them."""
    return f"{progress['connections']} connections, {progress['unsettled']} messages unsettled"
