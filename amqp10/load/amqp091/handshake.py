"""Opens an AMQP 0.9.1 connection and its channels: blocking, step by step, as clients do."""

from __future__ import annotations

import contextlib
import struct

from amqp10.load.amqp091 import wire
from amqp10.load.amqp091.wire import ChannelFrame
from amqp10.load.handshake import READ_BYTES, STEP_SECONDS, Place
from amqp10.load.wire import WireError

_TRUE = b"t\x01"


class Amqp091Conversation:
    """A blocking connection; bytes behind the last awaited frame are kept in `rest`."""

    def __init__(self, url: str, *, name: str, frame_max: int = 131072) -> None:
        place = Place.of(url)
        self.rest = b""
        self.properties: dict[str, str] = {}
        self.frame_max = frame_max
        self._channels: list[int] = []
        self.socket = place.connect()
        try:
            self._open(place, name)
        except BaseException:
            self.socket.close()
            raise

    def _open(self, place: Place, name: str) -> None:
        self.socket.sendall(wire.PROTOCOL_HEADER)
        started = self.expect(wire.CONNECTION_START)
        self.properties = wire.texts(started.payload, 6)
        capabilities = wire.table({"authentication_failure_close": _TRUE, "connection.blocked": _TRUE})
        ours = wire.table(
            {
                "product": b"S" + wire.long_string(b"amqp10.load"),
                "connection_name": b"S" + wire.long_string(name.encode()),
                "capabilities": b"F" + capabilities,
            }
        )
        response = wire.long_string(f"\0{place.user}\0{place.password}".encode())
        self._say(
            0, wire.CONNECTION_START_OK, ours + wire.short_string("PLAIN") + response + wire.short_string("en_US")
        )
        channel_max, theirs, _ = struct.unpack_from(">HIH", self.expect(wire.CONNECTION_TUNE).payload, 4)
        self.frame_max = min(self.frame_max, theirs or self.frame_max)
        without_heartbeats = struct.pack(">HIH", channel_max, self.frame_max, 0)
        self._say(0, wire.CONNECTION_TUNE_OK, without_heartbeats)
        self._say(0, wire.CONNECTION_OPEN, wire.short_string("/") + b"\0\0")
        self.expect(wire.CONNECTION_OPEN_OK)

    def open_channel(self, channel: int, *, confirms: bool = False, prefetch_count: int = 0) -> None:
        """Open a channel, with confirm mode or with a prefetch count for its consumers where wanted."""
        self._say(channel, wire.CHANNEL_OPEN, b"\0")
        self.expect(wire.CHANNEL_OPEN_OK)
        self._channels.append(channel)
        if confirms:
            self._say(channel, wire.CONFIRM_SELECT, b"\0")
            self.expect(wire.CONFIRM_SELECT_OK)
        if prefetch_count:
            self.socket.sendall(wire.qos(channel, prefetch_count))
            self.expect(wire.BASIC_QOS_OK)

    def _say(self, channel: int, ids: tuple[int, int], arguments: bytes = b"") -> None:
        self.socket.sendall(wire.method(channel, ids, arguments))

    def expect(self, ids: tuple[int, int]) -> ChannelFrame:
        """Return the next frame with this method; other frames are skipped, but a close raises."""
        while True:
            frame = self._next_frame()
            if frame.method == ids:
                return frame
            if frame.method in (wire.CONNECTION_CLOSE, wire.CHANNEL_CLOSE):
                raise WireError(wire.closing_reason(frame))

    def _next_frame(self) -> ChannelFrame:
        while (found := wire.frame_at(self.rest, 0)) is None:
            data = self.socket.recv(READ_BYTES)
            if not data:
                raise WireError("the broker closed the socket without a word; was the password right?")
            self.rest += data
        frame, end = found
        self.rest = self.rest[end:]
        return frame

    def close(self) -> None:
        """Close channel by channel, so that the broker has processed every publish on them."""
        with contextlib.suppress(WireError, OSError):  # it is closed already, which is the aim
            self.socket.settimeout(STEP_SECONDS)
            nothing = struct.pack(">HBHH", 200, 0, 0, 0)
            for channel in self._channels:
                self._say(channel, wire.CHANNEL_CLOSE, nothing)
                self.expect(wire.CHANNEL_CLOSE_OK)
            self._say(0, wire.CONNECTION_CLOSE, nothing)
            self.expect(wire.CONNECTION_CLOSE_OK)
        self.socket.close()
