"""One network connection while it lasts: a byte stream, the sans-IO engine behind it, and the time.

Two tasks: one reads, one writes and keeps the engine's deadlines. They decide nothing. Events of the engine go to
``take_event`` as they come, and ``after_events`` hears when those at hand are taken; ``before_output`` hears when
something may be sent. Whoever gives the engine something to send calls :meth:`Wire.wake`.

Bounds: the reader takes one read at a time, and the engine holds deliveries back while more than its
``unsent_bytes_max`` waits for the stream.
"""

from collections.abc import Callable

import trio

from amqp10.connection import Connection
from amqp10.events import Event
from amqp10.lifecycle import ConnectionState

READ_BYTES = 65_536
"""As much as a socket's buffer usually holds."""


class Wire:
    """A stream and its engine. ``run`` once; it returns when the connection is over, whyever."""

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
        """There is something to send, or to look at."""
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
        """Wait until somebody wakes us, or for the engine's deadline."""
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
        if self._engine.handshake.complete and self._engine.state is ConnectionState.START:
            self._engine.open()
            self.wake()
