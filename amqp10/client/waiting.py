"""Where tasks wait for a change: under asyncio and Trio alike, and without cost while no task waits.

A change wakes all tasks that wait, and each looks at the state again. An :class:`anyio.Event` can be set only once, so
there is a new one for the next change, and only when a task waits for it.
"""

import anyio


class Waiters:
    """The tasks that wait for the next change of something."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: anyio.Event | None = None

    def wake_all(self) -> None:
        """Wake the tasks that wait now."""
        if self._next is not None:
            self._next.set()
            self._next = None

    async def wait(self) -> None:
        """Wait until :meth:`wake_all` is called."""
        if self._next is None:
            self._next = anyio.Event()
        await self._next.wait()
