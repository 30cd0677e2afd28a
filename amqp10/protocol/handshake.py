"""The exchange before the open: protocol headers and the SASL layer, for the server and the client [2.2, 5.3].

The server answers the SASL header with its own SASL header and its mechanisms, and the AMQP header that follows with
its own. It accepts an AMQP header without SASL only where anonymous peers are allowed. Otherwise, and for bytes that
are no known header, it answers with the header that it would accept and ends the connection [2.2]. While a mechanism
computes its answer (``waiting``), nothing is taken from the peer; each call of ``advance`` looks whether the answer is
ready. A refused authentication is reported late, after a delay that the caller provides: this slows down guessing of
passwords, and costs the server only a deadline.

The client speaks first and waits for each answer. ``complete`` turns true when AMQP frames follow, ``refused`` is set
when nothing follows.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from amqp10.errors import ConnectionFault
from amqp10.protocol.sasl import Authenticated, Credentials, Refused, SaslClient, SaslServer, SaslServerMechanism
from amqp10.wire.framing import (
    PROTOCOL_HEADER_AMQP,
    PROTOCOL_HEADER_BYTES,
    PROTOCOL_HEADER_SASL,
    PROTOCOL_HEADER_TLS,
    FrameBounds,
    ProtocolId,
    ReceiveBuffer,
    parse_protocol_header,
)

ANONYMOUS = "anonymous"
"""The identity of a peer that did not authenticate."""


class Handshake(Protocol):
    """One side of the handshake."""

    complete: bool
    refused: str | None
    """Why the connection ends here; set once the refusal is in the output."""
    identity: str
    refuse_at: float | None
    """The monotonic time at which ``tick`` ends a refused handshake."""
    output: bytes
    """Bytes to send. The connection takes them."""

    @property
    def waiting(self) -> bool:
        """The answer of a mechanism is being computed; nothing is taken from the peer until it is there."""

    def advance(self, buffer: ReceiveBuffer, monotonic: float) -> bool:
        """Take the next header or frame. False when the buffer holds no whole one. Raises ConnectionFault."""

    def tick(self, monotonic: float) -> None:
        """Act on the deadline ``refuse_at`` if it has come."""


class NoHandshake:
    """No handshake, or none any more: AMQP frames follow at once, in both directions.

    A connection has it instead of a handshake that is complete. So nothing that the login needed, such as a password,
    is kept with the connection.
    """

    __slots__ = ("complete", "identity", "output", "refuse_at", "refused", "waiting")

    def __init__(self, identity: str = ANONYMOUS, output: bytes = b"") -> None:
        """``identity`` is that of the peer; ``output`` is what a handshake has left to send."""
        self.complete = True
        self.refused: str | None = None
        self.identity = identity
        self.waiting = False
        self.refuse_at: float | None = None
        self.output = output

    def advance(self, buffer: ReceiveBuffer, monotonic: float) -> bool:
        """There is nothing to take."""
        return False

    def tick(self, monotonic: float) -> None:
        """There are no deadlines."""


class _SaslSide(Protocol):
    result: Authenticated | Refused | None

    def frame_received(self, buffer: bytes, frame: FrameBounds) -> bytes: ...


class ServerHandshake:
    """The server's side."""

    def __init__(
        self,
        mechanisms: Sequence[SaslServerMechanism],
        *,
        withheld: Mapping[str, str] = MappingProxyType({}),
        not_offered: Callable[[str], None] = lambda name: None,
        bare_allowed: bool,
        refusal_delay_s: Callable[[], float],
        frame_size_max: int,
    ) -> None:
        """``withheld``, ``not_offered``: see :class:`SaslServer`. ``bare_allowed``: a peer may skip SASL and is
        anonymous then. ``refusal_delay_s`` returns, for each refusal, the delay in seconds before it is sent."""
        self.complete = False
        self.refused: str | None = None
        self.identity = ANONYMOUS
        self.refuse_at: float | None = None
        self._sasl = SaslServer(mechanisms, withheld, not_offered)
        self._in_sasl = False
        self._bare_allowed = bare_allowed
        self._refusal_delay_s = refusal_delay_s
        self._frame_size_max = frame_size_max
        self.output = b""
        self._late_output = b""
        self._reason = ""

    def advance(self, buffer: ReceiveBuffer, monotonic: float) -> bool:
        """Take the next header or frame [2.2, 5.3.1]."""
        if self.refuse_at is not None or self.refused is not None:
            return False
        if self._sasl.waiting:
            output = self._sasl.go_on()
            return output is not None and self._answer(output, monotonic)
        if self._in_sasl and self._sasl.result is None:
            return self._take_frame(buffer, monotonic)
        return self._take_header(buffer)

    @property
    def waiting(self) -> bool:
        """See :class:`Handshake`."""
        return self._sasl.waiting

    def tick(self, monotonic: float) -> None:
        """Send the refusal if its time has come."""
        if self.refuse_at is not None and monotonic >= self.refuse_at:
            self.refuse_at = None
            self.output += self._late_output
            self.refused = self._reason

    def _take_header(self, buffer: ReceiveBuffer) -> bool:
        header = buffer.take(PROTOCOL_HEADER_BYTES)
        if header is None:
            return False
        protocol = parse_protocol_header(header)
        if protocol is ProtocolId.SASL and not self._in_sasl:
            self._in_sasl = True
            self.output += PROTOCOL_HEADER_SASL + self._sasl.start()
        elif protocol is ProtocolId.AMQP and (self._in_sasl or self._bare_allowed):
            self.output += PROTOCOL_HEADER_AMQP
            self.complete = True
        else:
            self.output += PROTOCOL_HEADER_AMQP if self._in_sasl else PROTOCOL_HEADER_SASL
            self.refused = f"protocol header {header!r} is not accepted here"
        return True

    def _take_frame(self, buffer: ReceiveBuffer, monotonic: float) -> bool:
        try:
            frame = buffer.next_frame(self._frame_size_max)
            if frame is None:
                return False
            output = self._sasl.frame_received(buffer.data, frame)
        except ConnectionFault as fault:
            self.refused = fault.description
            raise
        return self._answer(output, monotonic)

    def _answer(self, output: bytes, monotonic: float) -> bool:
        if isinstance(self._sasl.result, Refused):
            self._late_output = output
            self._reason = self._sasl.result.reason
            self.refuse_at = monotonic + self._refusal_delay_s()
            return True
        self.output += output
        if self._sasl.result is not None:
            self.identity = self._sasl.result.identity
        return True


class ClientHandshake:
    """The client's side. Without credentials it skips SASL."""

    def __init__(self, credentials: Sequence[Credentials], *, hostname: str | None, frame_size_max: int) -> None:
        self.complete = False
        self.refused: str | None = None
        self.identity = ANONYMOUS
        self.waiting = False
        self.refuse_at: float | None = None
        self._sasl = SaslClient(credentials, hostname) if credentials else None
        self._frame_size_max = frame_size_max
        self._expected = PROTOCOL_HEADER_SASL if credentials else PROTOCOL_HEADER_AMQP
        self._in_frames = False
        self.output = self._expected

    def advance(self, buffer: ReceiveBuffer, monotonic: float) -> bool:
        """Take the next header or frame [2.2, 5.3.1]."""
        if self.refused is not None:
            return False
        if self._in_frames:
            assert self._sasl is not None
            return self._take_frame(self._sasl, buffer)
        header = buffer.take(PROTOCOL_HEADER_BYTES)
        if header is None:
            return False
        if header != self._expected:
            needs_tls = header == PROTOCOL_HEADER_TLS
            self.refused = (
                "the port needs TLS; use amqps://"
                if needs_tls
                else f"the server answered with {header!r}; it does not accept {self._expected!r}"
            )
        elif header == PROTOCOL_HEADER_SASL:
            self._in_frames = True
        else:
            self.complete = True
        return True

    def tick(self, monotonic: float) -> None:
        """A client's handshake has no deadlines."""

    def _take_frame(self, sasl: _SaslSide, buffer: ReceiveBuffer) -> bool:
        try:
            frame = buffer.next_frame(self._frame_size_max)
            if frame is None:
                return False
            self.output += sasl.frame_received(buffer.data, frame)
        except ConnectionFault as fault:
            self.refused = fault.description
            raise
        if isinstance(sasl.result, Refused):
            self.refused = sasl.result.reason
        elif sasl.result is not None:
            self.identity = sasl.result.identity
            self._in_frames = False
            self._expected = PROTOCOL_HEADER_AMQP
            self.output += PROTOCOL_HEADER_AMQP
        return True
