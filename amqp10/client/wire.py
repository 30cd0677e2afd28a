"""Runs one network connection: a byte stream, the sans-IO engine behind it, and the engine's deadlines.

There are two tasks: one reads, the other writes and keeps the engine's deadlines. They make no decisions. Each event of
the engine goes to ``take_event``. ``after_events`` is called when the pending events are processed, ``before_output``
before output is taken from the engine. A caller that gives the engine output calls :meth:`Wire.wake`.

Bounds: the reader takes one read at a time, and the engine holds deliveries back while more than its
``unsent_bytes_max`` waits for the stream.
"""

from collections.abc import Callable

import trio

from amqp10.client_core.opening import open_if_let_in
from amqp10.protocol.connection import Connection, Event

READ_BYTES = 65_536
"""The usual size of a socket's buffer."""


class Wire:
    """A stream and its engine. Call ``run`` once; it returns when the connection is over for any reason."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        engine: Connection,
        *,
        take_event: Callable[[Event], None],
        after_events: Callable[[], None],
        before_output: Callable[[], None],
        write_time_out_s: float,
    ) -> None:
        self._stream = stream
        self._engine = engine
        self._take_event = take_event
        self._after_events = after_events
        self._before_output = before_output
        self._write_time_out_s = write_time_out_s
        self._woken = trio.Event()

    def wake(self) -> None:
        """Wake the writing task: there is output, or a changed state."""
        self._woken.set()

    async def run(self) -> None:
        """Read and write until the connection is over, and close the stream."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read)
                await self._write()
                nursery.cancel_scope.cancel()
        finally:
            self._engine.receive_eof()
            self._take_events()
            await trio.aclose_forcefully(self._stream)

    async def _read(self) -> None:
        try:
            while not self._engine.finished:
                data = await self._stream.receive_some(READ_BYTES)
                if not data:
                    break
                self._engine.receive_data(bytes(data), trio.current_time())
                self._take_events()
                self.wake()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self._engine.receive_eof()
        self._take_events()
        self.wake()

    async def _write(self) -> None:
        engine = self._engine
        try:
            while True:
                self._before_output()
                data = engine.data_to_send(trio.current_time())
                self._take_events()
                if data:
                    engine.output_backlog(len(data))
                    with trio.move_on_after(self._write_time_out_s) as scope:
                        await self._stream.send_all(data)
                    if scope.cancelled_caught:
                        return
                    engine.output_backlog(0)
                elif engine.finished:
                    return
                else:
                    await self._idle()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _idle(self) -> None:
        """Wait until :meth:`wake` is called, or for the engine's deadline."""
        deadline = self._engine.deadline()
        with trio.move_on_at(float("inf") if deadline is None else deadline) as scope:
            await self._woken.wait()
        self._woken = trio.Event()
        if scope.cancelled_caught:
            self._engine.tick(trio.current_time())
            self._take_events()

    def _take_events(self) -> None:
        while (event := self._engine.next_event()) is not None:
            self._take_event(event)
        self._after_events()
        if open_if_let_in(self._engine):
            self.wake()
