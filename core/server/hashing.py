"""Password hashes, and checks of tokens, in worker threads: a bounded number runs at a time, a bounded number waits.

A hash takes a quarter of a second and releases the interpreter, so the event loop goes on beside it. Hashes that wait
for a thread start in order. A login that has waited longer than its handshake may take is dropped: its peer has given
up.
"""

from collections.abc import Callable

import trio

from core.access.login import ThreadWork
from core.clock import Now

WAITED_TOO_LONG = "waited-too-long"


class Hashing:
    """The threads that hash, and the logins that wait for one."""

    def __init__(
        self, *, running_max: int, waiting_max: int, wait_seconds_max: float, clock: Callable[[], Now]
    ) -> None:
        self._limiter = trio.CapacityLimiter(running_max)
        self._running_max = running_max
        self._wait_seconds_max = wait_seconds_max
        self._clock = clock
        self._send, self._receive = trio.open_memory_channel[tuple[float, ThreadWork]](waiting_max)

    def submit(self, check: ThreadWork) -> bool:
        """See :class:`core.access.login.Access`."""
        try:
            self._send.send_nowait((self._clock().monotonic + self._wait_seconds_max, check))
        except trio.WouldBlock:
            return False
        return True

    @property
    def running(self) -> int:
        """Hashes that are being computed."""
        return self._limiter.borrowed_tokens

    @property
    def waiting(self) -> int:
        """Logins that wait for a thread."""
        return self._receive.statistics().current_buffer_used

    async def run(self, turn: Callable[[], None]) -> None:
        """Serve until cancelled. A hash that runs then is left to end by itself."""
        async with trio.open_nursery() as nursery:
            for _ in range(self._running_max):
                nursery.start_soon(self._serve, turn)

    async def _serve(self, turn: Callable[[], None]) -> None:
        async for until, check in self._receive:
            if self._clock().monotonic > until:
                check.give_up(WAITED_TOO_LONG)
            elif (hash_it := check.begin()) is not None:
                check.finish(await trio.to_thread.run_sync(hash_it, abandon_on_cancel=True, limiter=self._limiter))
            turn()
