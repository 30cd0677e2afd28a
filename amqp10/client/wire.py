"""Runs one network connection: a byte stream, the sans-IO engine behind it, and the engine's deadlines.

There are three tasks: one reads, one writes, and one wakes the writer at the engine's deadline and ends a write that
takes too long. They make no decisions. A task for the times costs less than a cancel scope around each wait and each
write, of which there is one for each message that is awaited.

Each event of the engine goes to ``take_event``. ``after_events`` is called when the pending events are processed,
``before_output`` before output is taken from the engine. A caller that gives the engine output calls
:meth:`Wire.wake`.

Bounds: the reader takes one read at a time, and the engine holds deliveries back while more than its
``unsent_bytes_max`` waits for the stream.
"""

from collections.abc import Callable
from math import inf
from ssl import SSLError

import anyio
from anyio.abc import ByteStream

from amqp10.client.waiting import Waiters
from amqp10.client_core.opening import open_if_let_in
from amqp10.protocol.connection import Connection, Event

READ_BYTES = 65_536
"""The usual size of a socket's buffer."""
STREAM_OVER = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, SSLError)
"""What a stream raises that cannot be used any more."""


class Wire:
    """A stream and its engine. Call ``run`` once; it returns when the connection is over for any reason."""

    def __init__(
        self,
        stream: ByteStream,
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
        self._woken = False
        self._writer = Waiters()
        self._write_by = inf
        """The write in progress ends the connection at this time."""
        self._look_at = inf
        """When the task for the times looks again; never later than what is due next."""
        self._look_sooner = Waiters()
        self._tick_due = False

    def wake(self) -> None:
        """Wake the writing task: there is output, or a changed state."""
        self._woken = True
        self._writer.wake_all()

    async def run(self) -> None:
        """Read and write until the connection is over, and close the stream."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read)
                tasks.start_soon(self._keep_times, tasks.cancel_scope)
                await self._write()
                tasks.cancel_scope.cancel()
        finally:
            self._engine.receive_eof()
            self._take_events()
            await anyio.aclose_forcefully(self._stream)

    async def _read(self) -> None:
        try:
            while not self._engine.finished:
                data = await self._stream.receive(READ_BYTES)
                self._engine.receive_data(data, anyio.current_time())
                self._take_events()
                self.wake()
        except STREAM_OVER:
            pass
        self._engine.receive_eof()
        self._take_events()
        self.wake()

    async def _write(self) -> None:
        engine = self._engine
        try:
            while True:
                self._before_output()
                now = anyio.current_time()
                data = engine.data_to_send(now)
                self._take_events()
                if data:
                    engine.output_backlog(len(data))
                    self._write_by = now + self._write_time_out_s
                    self._look_no_later_than(self._write_by)
                    await self._stream.send(data)
                    self._write_by = inf
                    engine.output_backlog(0)
                elif engine.finished:
                    return
                else:
                    await self._idle()
        except STREAM_OVER:
            pass

    async def _idle(self) -> None:
        """Wait until :meth:`wake` is called, or for the engine's deadline."""
        deadline = self._engine.deadline()
        if deadline is not None:
            self._look_no_later_than(deadline)
        if not self._woken:
            await self._writer.wait()
        self._woken = False
        if self._tick_due:
            self._tick_due = False
            self._engine.tick(anyio.current_time())
            self._take_events()

    def _look_no_later_than(self, when: float) -> None:
        if when < self._look_at:
            self._look_at = when
            self._look_sooner.wake_all()

    async def _keep_times(self, connection: anyio.CancelScope) -> None:
        """Wake the writer at the engine's deadline, and end the connection when a write takes too long.

        A deadline that has moved is not looked for: the writer is woken at the former one, and finds nothing due.
        """
        while True:
            with anyio.CancelScope(deadline=self._look_at):
                await self._look_sooner.wait()
            now = anyio.current_time()
            if now >= self._write_by:
                connection.cancel()
                return
            if now >= self._look_at:
                self._look_at = self._write_by
                self._tick_due = True
                self.wake()

    def _take_events(self) -> None:
        while (event := self._engine.next_event()) is not None:
            self._take_event(event)
        self._after_events()
        if open_if_let_in(self._engine):
            self.wake()
