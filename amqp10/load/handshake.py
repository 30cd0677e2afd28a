"""Opens a connection up to the point where links can be attached: blocking, step by step, as clients do.

Each step has the same time limit. Bytes behind the last awaited frame are kept in `rest`.
"""

from __future__ import annotations

import socket
import ssl
import struct
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from amqp10.load import wire
from amqp10.load.endpoint import BegunSession, closing_reason
from amqp10.load.wire import Amqp10Frame, WireError

STEP_SECONDS = 30.0
READ_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Place:
    """A broker's address, and our user and password."""

    host: str
    port: int
    user: str
    password: str
    encrypted: bool = False

    @staticmethod
    def of(url: str) -> Place:
        """Parse amqp://user:password@host:port, or amqps; guest and 5672, or 5671 with TLS, are the defaults."""
        parts = urlsplit(url)
        if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
            raise ValueError(f"{url!r} is not of the form amqp://user:password@host:port")
        return Place(
            host=parts.hostname,
            port=parts.port or (5671 if parts.scheme == "amqps" else 5672),
            user=unquote(parts.username or "guest"),
            password=unquote(parts.password or "guest"),
            encrypted=parts.scheme == "amqps",
        )

    def connect(self) -> socket.socket:
        """A blocking socket, with TLS if the URL wants it. The certificate is not checked: the broker is on this
        machine, and the check would only cost the load process."""
        plain = socket.create_connection((self.host, self.port), timeout=STEP_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self.encrypted:
            return plain
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context.wrap_socket(plain)


class Amqp10Conversation:
    """A blocking connection with a session on channel 0, and further sessions on request."""

    def __init__(self, url: str, *, max_frame_size: int, container_id: str) -> None:
        place = Place.of(url)
        self.rest = b""
        self._channel = 0  # of the last frame read
        self.socket = place.connect()
        try:
            self._authenticate(place)
            self._max_frame_size, self.properties = self._open(place, max_frame_size, container_id)
            self.session = self.begin()
        except BaseException:
            self.socket.close()
            raise

    def _authenticate(self, place: Place) -> None:
        self.socket.sendall(wire.SASL_HEADER)
        self._expect_header(wire.SASL_HEADER)
        self.await_frame(wire.SASL_MECHANISMS)
        response = f"\0{place.user}\0{place.password}".encode()
        init = wire.composite(wire.SASL_INIT, wire.symbol("PLAIN"), wire.binary(response))
        self.socket.sendall(wire.frame(init, kind=wire.SASL_FRAME))
        outcome = self.await_frame(wire.SASL_OUTCOME)
        if outcome.number(0) != 0:
            raise WireError(f"the broker refused user {place.user!r}: SASL outcome {outcome.number(0)}")
        self.socket.sendall(wire.AMQP_HEADER)
        self._expect_header(wire.AMQP_HEADER)

    def _open(self, place: Place, max_frame_size: int, container_id: str) -> tuple[int, dict[str, wire.Value]]:
        self.send(
            wire.frame(
                wire.composite(
                    wire.OPEN, wire.string(container_id), wire.string(place.host), wire.uint(max_frame_size),
                    wire.ushort(0x7FFF),
                )
            )
        )  # fmt: skip
        opened = self.await_frame(wire.OPEN)
        properties = opened.field(9)
        return opened.number(2, 2**32 - 1), properties if isinstance(properties, dict) else {}

    def begin(self, channel: int = 0) -> BegunSession:
        """Begin a session on this channel of ours."""
        begin = wire.composite(wire.BEGIN, wire.NULL, wire.uint(0), wire.uint(2**31 - 1), wire.uint(2**32 - 1))
        self.send(wire.frame(begin, channel=channel))
        begun = self.await_frame(wire.BEGIN)
        return BegunSession(self._max_frame_size, begun.number(1), begun.number(2), self._channel)

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def await_frame(self, code: int) -> Amqp10Frame:
        """Return the next frame with this performative; others are skipped, but a detach, end or close raises."""
        while True:
            frame = self.next_frame()
            if frame is None:
                continue
            if frame.code == code:
                return frame
            if frame.code in (wire.DETACH, wire.END, wire.CLOSE):
                raise WireError(closing_reason(frame))

    def next_frame(self) -> Amqp10Frame | None:
        """Return the next frame; None for an empty one."""
        while len(self.rest) < 8 or len(self.rest) < (size := struct.unpack_from(">I", self.rest)[0]):
            self._read()
        self._channel = int.from_bytes(self.rest[6:8], "big")
        frame = wire.decode_frame(self.rest[:size], 0, size)
        self.rest = self.rest[size:]
        return frame

    def _expect_header(self, header: bytes) -> None:
        while len(self.rest) < 8:
            self._read()
        answer, self.rest = self.rest[:8], self.rest[8:]
        if answer != header:
            raise WireError(f"the broker answered {header!r} with {answer!r}")

    def _read(self) -> None:
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise WireError("the broker closed the socket without a word")
        self.rest += data

    def close(self) -> None:
        """Send close and wait for the broker's close, so that the broker has processed everything."""
        try:
            self.socket.settimeout(STEP_SECONDS)
            self.send(wire.frame(wire.composite(wire.CLOSE)))
            while (frame := self.next_frame()) is None or frame.code != wire.CLOSE:
                pass
        except (WireError, OSError):
            pass  # it is closed already, which is the aim
        finally:
            self.socket.close()
