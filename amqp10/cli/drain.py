"""``headgate drain``: a broker finishes its work, so that its stop disturbs no client."""

import sys
from time import monotonic, sleep
from typing import TYPE_CHECKING

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import Row, print_json
from amqp10.cli.remote import ask, row_of, with_broker

if TYPE_CHECKING:
    from amqp10.blocking.requests import BlockingManagement

POLL_SECONDS = 0.25


def drain(*, wait: float | None, force: bool, json: bool, url: str) -> None:
    """Begin maintenance mode, and wait until no message is unsettled or ``wait`` seconds are over."""
    if wait is not None and wait < 0:
        raise CommandError(Exit.USAGE, f"--wait {wait}: must be 0 or more")

    def drained(broker: "BlockingManagement") -> Row:
        progress = row_of(ask(broker, "drain", force=force or None))
        deadline = monotonic() + (wait or 0)
        while progress["unsettled"] and monotonic() < deadline:
            print(_left(progress), file=sys.stderr)
            progress = _changed(broker, progress, deadline)
        return progress

    progress = with_broker(url, drained)
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


def _changed(broker: "BlockingManagement", before: Row, deadline: float) -> Row:
    """The progress, as soon as it differs from ``before`` or the time is over."""
    progress = before
    while progress == before and monotonic() < deadline:
        sleep(min(POLL_SECONDS, deadline - monotonic()))
        progress = row_of(ask(broker, "drain.status"))
    return progress


def _left(progress: Row) -> str:
    """The remaining work in words. The connections include the one of this command."""
    return f"{progress['connections']} connections, {progress['unsettled']} messages unsettled"
