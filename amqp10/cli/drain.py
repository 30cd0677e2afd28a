"""``headgate drain`` and ``headgate undrain``: a broker finishes its work, so that its stop disturbs no client."""

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
        float | None,
        Parameter(help="Wait at most so many seconds until no message is unsettled, and show the progress."),
    ] = None,
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Let a broker finish its work before it is stopped.

    The broker says that it is not ready (/readyz), refuses new connections and links, gives publishers no link credit,
    and sends no messages to consumers. Connections stay open, and consumers can settle the messages that they have. The
    broker still accepts connections from its own machine, for commands. headgate undrain ends this state.

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
    """End what headgate drain has begun: the broker serves as usual again.

    For example:

        headgate undrain
    """
    progress = with_broker(url, lambda broker: _ask(broker, "DELETE"))
    if json:
        print_json(progress)
    else:
        print("the broker serves as usual")


def _changed(broker: "BlockingManagement", before: Row, deadline: float) -> Row:
    """The progress, as soon as it differs from ``before`` or the time is over."""
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
    """The remaining work in words. The connections include the one of this command."""
    return f"{progress['connections']} connections, {progress['unsettled']} messages unsettled"
