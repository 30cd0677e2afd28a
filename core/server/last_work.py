"""The wait at the beginning of a stop, in which consumers settle the deliveries that they have.

A broker that stops while deliveries are unsettled delivers them again after its next start. So it is drained first, for
a limited time.
"""

from collections.abc import Callable

import trio

LOOK_SECONDS = 0.05
"""Seconds between two checks: a stop is delayed by no more than this."""


async def finish_work(*, drain: Callable[[], object], unsettled: Callable[[], int], seconds: float) -> None:
    """Drain, and wait until nothing is unsettled, for ``seconds`` at most; 0 does neither."""
    if seconds <= 0:
        return
    drain()
    with trio.move_on_after(seconds):
        while True:
            if not unsettled():
                return
            await trio.sleep(LOOK_SECONDS)
