"""Runs an async test under Trio and under asyncio, with a clock that jumps to the next time at which something is due.

Trio has such a clock: :class:`trio.testing.MockClock`. For asyncio there is one here, which does the same: when no
callback is ready and no socket has bytes, the time of the event loop jumps. So a test that sleeps for minutes takes
milliseconds, and the times that it sees are exact.
"""

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Mapping
from functools import partial, wraps
from inspect import iscoroutinefunction
from selectors import SelectorKey
from typing import Any, Literal

import anyio
import pytest
import sniffio
import trio.testing

Library = Literal["asyncio", "trio"]
LIBRARIES: tuple[Library, ...] = ("trio", "asyncio")


class JumpingSelector:
    """A selector that, in place of waiting, lets the time of its loop jump."""

    def __init__(self) -> None:
        self.now = 0.0
        self.idle_waiters: list[asyncio.Future[None]] = []
        """They are told when nothing can happen any more without time passing."""
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """What is ready now; else the time jumps by ``timeout`` seconds."""
        if timeout is not None and timeout <= 0 and not self.idle_waiters:
            return self._real.select(0)
        if ready := self._real.select(0):
            return ready
        if timeout is not None and timeout <= 0:
            return []
        if self.idle_waiters:
            waiters, self.idle_waiters = self.idle_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            return []
        if timeout is None:
            return self._real.select(None)
        self.now += timeout
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, SelectorKey]:
        return self._real.get_map()

    def get_key(self, fileobj: Any) -> SelectorKey:
        return self._real.get_key(fileobj)

    def close(self) -> None:
        self._real.close()


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is that of a :class:`JumpingSelector`."""

    def __init__(self) -> None:
        self.jumping = JumpingSelector()
        super().__init__(self.jumping)  # type: ignore[arg-type]  # it has all methods that the loop calls

    def time(self) -> float:
        """The time of the test in seconds."""
        return self.jumping.now


async def settle() -> None:
    """Let everything happen that can happen without time passing."""
    if sniffio.current_async_library() == "trio":
        await trio.testing.wait_all_tasks_blocked(0.0)
        return
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    idle = loop.create_future()
    loop.jumping.idle_waiters.append(idle)
    await idle


def run(library: Library, function: Callable[[], Awaitable[object]]) -> None:
    """Run an async function with a clock that jumps, until it returns. An error comes out by itself."""
    options: dict[str, object] = (
        {"clock": trio.testing.MockClock(autojump_threshold=0)} if library == "trio" else {"loop_factory": JumpingLoop}
    )
    anyio.run(function, backend=library, backend_options=options)


def under_each_library(item: pytest.Item) -> None:
    """Have an async test run under the library that its fixture ``library`` names."""
    test = getattr(item, "obj", None)
    if not isinstance(item, pytest.Function) or not iscoroutinefunction(test) or "library" not in item.fixturenames:
        return

    @wraps(test)
    def under(library: Library, **arguments: object) -> None:
        run(library, partial(test, library=library, **arguments))

    item.obj = under
