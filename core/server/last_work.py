"""What a broker that was told to stop waits for before it says good-bye: that consumers settle what they have.

A broker that is stopped amid deliveries delivers them again after its next start. So it is drained first, for a time.
"""

from collections.abc import Callable

import trio

LOOK_SECONDS = 0.05
"""Between two looks: a stop is not later by more than that."""


async def finish_work(*, drain: Callable[[], object], unsettled: Callable[[], int], seconds: float) -> None:
    """Drain, and wait until nothing is unsettled, so many seconds at most; 0 for not at all."""
    if seconds <= 0:
        return
    drain()
    with trio.move_on_after(seconds):
        while True:
            if not unsettled():
                return
            await trio.sleep(LOOK_SECONDS)
