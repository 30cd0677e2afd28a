"""The SASL layer of AMQP 1.0 [5.3], by which a peer authenticates before the connection opens, for both ends.

The server announces mechanisms, the client chooses one in its init, challenges and responses follow, and an outcome
ends the exchange. Both ends are sans-IO here: a SASL frame goes in, the bytes to send come out, and ``result`` is set
at the end. The connection handles the protocol headers around this layer.

The server knows no user and no password. The caller provides the mechanisms that do (:class:`SaslServerMechanism`), and
all randomness. A mechanism may need time, for example to hash a password in another thread; the server then takes
nothing from the client until the answer is there. A client has one attempt and :data:`CLIENT_FRAMES_MAX` frames, so
every guess costs a connection. The reason of a failed attempt goes only to our log; the peer gets code 1, or 4 when
nothing has been decided.

A client has credentials for one or more mechanisms (:class:`Credentials`). Those of ANONYMOUS and PLAIN are here, those
of SCRAM in ``amqp10/client_core/scram.py``.

A peer that breaks the protocol itself (an empty frame, an AMQP frame, the other side's performative) gets no outcome:
:class:`~amqp10.errors.ConnectionFault` is raised and the connection ends.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

from amqp10.errors import ConnectionFault, DecodeError, ErrorCondition, quote
from amqp10.wire.codec.composite import (
    BINARY,
    STRING,
    SYMBOL,
    SYMBOLS,
    UBYTE,
    Composite,
    by_descriptor,
    read_descriptor,
    restricted,
)
from amqp10.wire.codec.decode import DEPTH_BEFORE_OPEN
from amqp10.wire.framing import SASL_FRAME, FrameBounds, encode_frame

CLIENT_FRAMES_MAX = 4
"""An init and three responses. SCRAM, the longest of our mechanisms, needs an init and two."""


OUTCOME_OK = 0
OUTCOME_AUTH = 1
OUTCOME_SYS_TEMP = 4
"""Codes of an outcome [5.3.3.6]; 2 and 3 are the other kinds of system failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslMechanisms:
    """The mechanisms that the server offers [5.3.3.1]."""

    sasl_server_mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslInit:
    """The client's choice, with its first response if the mechanism lets the client begin [5.3.3.2]."""

    mechanism: str
    initial_response: bytes | None = None
    hostname: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslChallenge:
    """The server's question to the client [5.3.3.3]."""

    challenge: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslResponse:
    """The client's answer [5.3.3.4]."""

    response: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslOutcome:
    """The result of the exchange [5.3.3.5]."""

    code: int
    additional_data: bytes | None = None


SaslPerformative = SaslMechanisms | SaslInit | SaslChallenge | SaslResponse | SaslOutcome

_COMPOSITES: tuple[Composite[SaslPerformative], ...] = (
    Composite(SaslMechanisms, 0x40, "amqp:sasl-mechanisms:list", (SYMBOLS,)),
    Composite(SaslInit, 0x41, "amqp:sasl-init:list", (SYMBOL, BINARY, STRING)),
    Composite(SaslChallenge, 0x42, "amqp:sasl-challenge:list", (BINARY,)),
    Composite(SaslResponse, 0x43, "amqp:sasl-response:list", (BINARY,)),
    Composite(SaslOutcome, 0x44, "amqp:sasl-outcome:list", (restricted(UBYTE, range(5)), BINARY)),
)
_BY_DESCRIPTOR = by_descriptor(_COMPOSITES)
_BY_TYPE = {composite.type: composite for composite in _COMPOSITES}


def decode_sasl_frame(buffer: bytes, frame: FrameBounds) -> SaslPerformative:
    """The performative that is the whole body of a SASL frame. Raises ConnectionFault for any other frame."""
    start, end = frame.body_start, frame.body_end
    if frame.frame_type != SASL_FRAME:
        raise ConnectionFault(ErrorCondition.FRAMING_ERROR, f"frame type {frame.frame_type} before the SASL outcome")
    if start == end:
        raise ConnectionFault(ErrorCondition.FRAMING_ERROR, "an empty SASL frame")
    try:
        descriptor, position = read_descriptor(buffer, start, end, DEPTH_BEFORE_OPEN)
        composite = _BY_DESCRIPTOR.get(descriptor)
        if composite is None:
            raise DecodeError(f"descriptor {quote(descriptor)} is that of no SASL performative")
        performative, position = composite.decode_list(buffer, position, end, DEPTH_BEFORE_OPEN)
    except IndexError:
        raise ConnectionFault(ErrorCondition.DECODE_ERROR, "a SASL performative is cut") from None
    except DecodeError as fault:
        raise ConnectionFault(fault.condition, fault.description) from None
    if position != end:
        raise ConnectionFault(ErrorCondition.DECODE_ERROR, f"{end - position} bytes behind a SASL performative")
    return performative


def encode_sasl_frame(performative: SaslPerformative) -> bytes:
    """A SASL frame with this performative."""
    return encode_frame(0, _BY_TYPE[type(performative)].encode(performative), frame_type=SASL_FRAME)


class Challenge(NamedTuple):
    """The exchange goes on: send this challenge to the client."""

    data: bytes


class Success(NamedTuple):
    """The client has proved its identity."""

    identity: str
    additional_data: bytes | None = None
    """The mechanism's last data, sent inside the outcome."""


class Failure(NamedTuple):
    """The client has not proved its identity, or its response is invalid."""

    reason: str = "wrong credentials"
    """For our log."""
    code: int = OUTCOME_AUTH


class AnswerPending:
    """The answer is not known yet: another part of the program computes it."""


class SaslServerExchange(Protocol):
    """One attempt with one mechanism, on the server's side."""

    def respond(self, response: bytes) -> Challenge | Success | Failure | AnswerPending:
        """Take the client's initial or next response. Called again only after a Challenge, and with b"" after an
        AnswerPending until there is an answer. Raises nothing."""


class SaslServerMechanism(Protocol):
    """A way to authenticate that the server offers."""

    @property
    def name(self) -> str:
        """The registered name, for example PLAIN."""

    def start(self) -> SaslServerExchange:
        """Begin an attempt."""


class Authenticated(NamedTuple):
    """The authentication succeeded: the AMQP protocol header comes next."""

    identity: str
    mechanism: str


class Refused(NamedTuple):
    """The authentication failed: nothing comes next."""

    reason: str


_SPEAKS_FOR_ITSELF = frozenset({"ANONYMOUS", "EXTERNAL"})
"""Mechanisms in which an absent response means the same as an empty one, and clients leave it out [RFC 4422 A, 4505].
"""


class SaslServer:
    """The server's side of one attempt.

    Send the bytes that :meth:`start` returns, then pass each frame to :meth:`frame_received`; ``result`` is set
    together with the last bytes to send.
    """

    def __init__(
        self,
        mechanisms: Sequence[SaslServerMechanism],
        withheld: Mapping[str, str] = MappingProxyType({}),
        not_offered: Callable[[str], None] = lambda name: None,
    ) -> None:
        """``withheld`` are names of mechanisms that are not offered, with the reason for the log. ``not_offered`` is
        called with the name of a mechanism that the client has chosen and that is not offered."""
        self._mechanisms = {mechanism.name: mechanism for mechanism in mechanisms}
        self._withheld = withheld
        self._not_offered = not_offered
        self._mechanism = ""
        self._exchange: SaslServerExchange | None = None
        self._frames = 0
        self.waiting = False
        """The answer to a response is being computed: ask :meth:`go_on` for it before the next frame."""
        self.result: Authenticated | Refused | None = None

    def start(self) -> bytes:
        """The frame that offers the mechanisms."""
        return encode_sasl_frame(SaslMechanisms(sasl_server_mechanisms=tuple(self._mechanisms)))

    def frame_received(self, buffer: bytes, frame: FrameBounds) -> bytes:
        """Take a frame of the client; returns the bytes to send. Raises ConnectionFault for a broken protocol."""
        assert self.result is None, "the SASL layer is over"
        assert not self.waiting, "it has to answer first"
        performative = decode_sasl_frame(buffer, frame)
        self._frames += 1
        match performative:
            case SaslInit() if self._exchange is None:
                return self._init_received(performative)
            case SaslResponse() if self._exchange is not None:
                return self._respond(self._exchange, performative.response)
        raise ConnectionFault(ErrorCondition.NOT_ALLOWED, f"{type(performative).__name__} is not expected here")

    def go_on(self) -> bytes | None:
        """The bytes to send if the answer that was being computed is there; else None."""
        assert self._exchange is not None
        output = self._respond(self._exchange, b"")
        return None if self.waiting else output

    def _init_received(self, init: SaslInit) -> bytes:
        mechanism = self._mechanisms.get(init.mechanism)
        if mechanism is None:
            self._not_offered(init.mechanism)
            why = self._withheld.get(init.mechanism)
            told = f"the mechanism {quote(init.mechanism)} is not offered"
            return self._refuse(told if why is None else f"{told}: {why}")
        self._mechanism = mechanism.name
        self._exchange = mechanism.start()
        if init.initial_response is not None or mechanism.name in _SPEAKS_FOR_ITSELF:
            return self._respond(self._exchange, init.initial_response or b"")
        # An empty challenge asks a client for its first response if its init had none [RFC 4422 5].
        return encode_sasl_frame(SaslChallenge(challenge=b""))

    def _respond(self, exchange: SaslServerExchange, response: bytes) -> bytes:
        answer = exchange.respond(response)
        self.waiting = isinstance(answer, AnswerPending)
        match answer:
            case AnswerPending():
                return b""
            case Success(identity, additional_data):
                self.result = Authenticated(identity, self._mechanism)
                return encode_sasl_frame(SaslOutcome(code=OUTCOME_OK, additional_data=additional_data))
            case Failure(reason, code):
                return self._refuse(reason, code)
            case Challenge(data):
                if self._frames == CLIENT_FRAMES_MAX:
                    return self._refuse(f"not authenticated within {CLIENT_FRAMES_MAX} frames")
                return encode_sasl_frame(SaslChallenge(challenge=data))

    def _refuse(self, reason: str, code: int = OUTCOME_AUTH) -> bytes:
        self.result = Refused(reason)
        return encode_sasl_frame(SaslOutcome(code=code))


class ClientExchange(Protocol):
    """One attempt with one mechanism, on the client's side. Methods raise ValueError for an invalid server message."""

    def initial_response(self) -> bytes:
        """The response inside the client's init. All our mechanisms let the client begin."""

    def respond(self, challenge: bytes) -> bytes:
        """The answer to a challenge."""

    def finish(self, additional_data: bytes) -> None:
        """Check the server's last data, b"" for none, after an outcome of ok."""


class Credentials(Protocol):
    """The mechanism and secrets with which a client authenticates."""

    @property
    def mechanism(self) -> str:
        """The registered name of the mechanism that uses these credentials."""

    @property
    def identity(self) -> str:
        """The user that the client claims to be."""

    def start(self) -> ClientExchange:
        """Begin an attempt. Raises ValueError for credentials that the mechanism cannot carry."""


class _OneResponse(NamedTuple):
    """The exchange of a mechanism that consists of the initial response."""

    response: bytes

    def initial_response(self) -> bytes:
        return self.response

    def respond(self, challenge: bytes) -> bytes:
        if challenge:
            raise ValueError("the server asks a question that the mechanism does not have")
        return self.response

    def finish(self, additional_data: bytes) -> None:
        """Check nothing: the server proves nothing in these mechanisms."""


class Anonymous(NamedTuple):
    """No credentials [RFC 4505]. ``trace`` is a contact for the operator of the server."""

    trace: str = "anonymous"
    mechanism: str = "ANONYMOUS"

    @property
    def identity(self) -> str:
        """The trace, as there is no user name."""
        return self.trace

    def start(self) -> ClientExchange:
        """Begin an attempt."""
        return _OneResponse(self.trace.encode())


class External(NamedTuple):
    """The client's certificate, which the TLS handshake has proven [RFC 4422 A]."""

    mechanism: str = "EXTERNAL"

    @property
    def identity(self) -> str:
        """Nothing: the server derives the name from the certificate."""
        return ""

    def start(self) -> ClientExchange:
        """Begin an attempt."""
        return _OneResponse(b"")


class Plain(NamedTuple):
    """A user name and a password, readable for anything that can read the connection [RFC 4616]."""

    identity: str
    password: str
    mechanism: str = "PLAIN"

    def start(self) -> ClientExchange:
        """Begin an attempt."""
        return _OneResponse(f"\0{self.identity}\0{self.password}".encode())


class SaslClient:
    """The client's side of one attempt, with the first credentials whose mechanism the server offers."""

    def __init__(self, credentials: Sequence[Credentials], hostname: str | None = None) -> None:
        self._credentials = credentials
        self._hostname = hostname
        self._chosen: Credentials | None = None
        self._exchange: ClientExchange | None = None
        self.result: Authenticated | Refused | None = None

    def frame_received(self, buffer: bytes, frame: FrameBounds) -> bytes:
        """Take a frame of the server; returns the bytes to send. Raises ConnectionFault for a broken protocol."""
        assert self.result is None, "the SASL layer is over"
        performative = decode_sasl_frame(buffer, frame)
        match performative:
            case SaslMechanisms() if self._exchange is None:
                return self._choose(performative.sasl_server_mechanisms)
            case SaslChallenge() if self._exchange is not None:
                return self._respond(self._exchange, performative.challenge)
            case SaslOutcome() if self._exchange is not None:
                self._finish(self._exchange, performative)
                return b""
        raise ConnectionFault(ErrorCondition.NOT_ALLOWED, f"{type(performative).__name__} is not expected here")

    def _choose(self, offered: tuple[str, ...]) -> bytes:
        for credentials in self._credentials:
            if credentials.mechanism in offered:
                return self._init(credentials)
        names = ", ".join(quote(name) for name in offered[:10])
        self.result = Refused(f"the server offers only mechanisms for which there are no credentials: {names}")
        return b""

    def _init(self, credentials: Credentials) -> bytes:
        try:
            exchange = credentials.start()
        except ValueError as fault:
            self.result = Refused(str(fault))
            return b""
        self._chosen, self._exchange = credentials, exchange
        return encode_sasl_frame(
            SaslInit(
                mechanism=credentials.mechanism,
                initial_response=exchange.initial_response(),
                hostname=self._hostname,
            )
        )

    def _respond(self, exchange: ClientExchange, challenge: bytes) -> bytes:
        try:
            return encode_sasl_frame(SaslResponse(response=exchange.respond(challenge)))
        except ValueError as fault:
            self.result = Refused(str(fault))
            return b""

    def _finish(self, exchange: ClientExchange, outcome: SaslOutcome) -> None:
        assert self._chosen is not None
        if outcome.code != OUTCOME_OK:
            kind = "wrong credentials" if outcome.code == OUTCOME_AUTH else "a failure of the server's system"
            self.result = Refused(f"the server refused the authentication with code {outcome.code}: {kind}")
            return
        try:
            exchange.finish(outcome.additional_data or b"")
        except ValueError as fault:
            self.result = Refused(str(fault))
            return
        self.result = Authenticated(self._chosen.identity, self._chosen.mechanism)
