"""The negotiation before connection.open-ok, on the server's side: header, login, limits, virtual host [0-9-1 2.2.4].

connection.start answers the peer's protocol header, and the next method of ours each of the peer's methods; a method
out of order is command-invalid. A refused login is answered after a delay that is handed in: that makes guessing
passwords slow, and costs us only a deadline. Peers that announce ``authentication_failure_close`` get connection.close;
for others the socket is closed, as the specification says.

Of a limit the lower value applies, 0 being no limit; a peer that asks for more than was offered gets not-allowed. The
peer chooses the heartbeat, as with RabbitMQ: with any other value it could be late.

This module must not know frames, channels other than 0, users, or the clock.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from types import MappingProxyType

from core.access.exchange import SaslExchange, SaslMechanism
from core.amqp091.errors import Amqp091ConnectionFault, ReplyCode, quote
from core.amqp091.framing import FRAME_MIN_SIZE
from core.amqp091.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from core.amqp091.table import FieldTable
from core.config.amqp091 import Amqp091Settings

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
"""The extensions of 0.9.1 that we support, by RabbitMQ's names."""


def only_the_default(virtual_host: str, identity: str) -> str | None:
    """Return why the virtual host cannot be used, because there is only the default one; None for that one."""
    return None if virtual_host == "/" else f"vhost {virtual_host} not found"


def _at_once() -> float:
    return 0.0


class NegotiationStage(Enum):
    """The stages of the negotiation. All but the last name what the peer has to send next."""

    HEADER = auto()
    START_OK = auto()
    SECURE_OK = auto()
    ANSWER = auto()
    """The peer sends nothing: the answer to its response is being computed."""
    NOTHING = auto()
    """The login was refused, and the peer will be told later."""
    TUNE_OK = auto()
    OPEN = auto()
    DONE = auto()


class Negotiation:
    """The server's side of the negotiation, and its results."""

    def __init__(
        self,
        settings: Amqp091Settings,
        mechanisms: Sequence[SaslMechanism],
        *,
        withheld: Mapping[str, str] = MappingProxyType({}),
        not_offered: Callable[[str], None] = lambda name: None,
        server_properties: FieldTable | None = None,
        refusal_delay_s: Callable[[], float] = _at_once,
        refuse_virtual_host: Callable[[str, str], str | None] = only_the_default,
        first_frame_max: int = FRAME_MIN_SIZE,
    ) -> None:
        """``mechanisms`` are offered in this order. ``withheld`` are names of mechanisms that are not, with the reason
        to tell. ``not_offered`` is called with the name of any mechanism that the peer has chosen and that is not
        offered. ``server_properties`` describe the server in connection.start, beside its capabilities.
        ``refusal_delay_s`` returns the delay before the next refused login is answered.
        ``refuse_virtual_host`` returns why an identity must not use a virtual host; None when it may.
        ``first_frame_max`` is the size of the largest frame before the limits are agreed."""
        self.stage = NegotiationStage.HEADER
        self.identity = ""
        """The name with which the peer has authenticated; "" before that."""
        self.client_properties: FieldTable = {}
        self.client_capabilities: Mapping[str, object] = {}
        self.mechanism = ""
        self.frame_max = first_frame_max
        self.channel_max = 0
        """0 until it is agreed; never 0 after that."""
        self.heartbeat_s = 0
        self.virtual_host = ""
        self.refuse_at: float | None = None
        """When the peer is to be told of its refused login: see ``refusal``."""
        self._settings = settings
        self._server_properties = server_properties or {}
        self._refusal_delay_s = refusal_delay_s
        self._refuse_virtual_host = refuse_virtual_host
        self._mechanisms = {mechanism.name: mechanism for mechanism in mechanisms}
        self._withheld = withheld
        self._not_offered = not_offered
        self._exchange: SaslExchange | None = None
        self._put_off = False

    def start(self) -> ConnectionStart:
        """Begin, after the protocol header of this version has arrived."""
        assert self.stage is NegotiationStage.HEADER
        self.stage = NegotiationStage.START_OK
        properties: FieldTable = {"capabilities": dict.fromkeys(CAPABILITIES, True), **self._server_properties}
        return ConnectionStart(server_properties=properties, mechanisms=" ".join(self._mechanisms).encode())

    def impossible(self) -> Amqp091ConnectionFault | None:
        """The fault to send behind connection.start to a peer for which there is no mechanism; else None."""
        if self._mechanisms or not self._withheld:
            return None
        return Amqp091ConnectionFault(ReplyCode.ACCESS_REFUSED, next(iter(self._withheld.values())))

    def method_received(self, method: Method, now: float) -> Method | None:
        """Take the peer's next method and return the answer; None where there is none (``refuse_at``, and after
        tune-ok).

        Raises Amqp091ConnectionFault.
        """
        match self.stage, method:
            case NegotiationStage.START_OK, ConnectionStartOk():
                return self._start_ok_received(method, now)
            case NegotiationStage.SECURE_OK, ConnectionSecureOk():
                return self._response_received(method.response, now)
            case NegotiationStage.TUNE_OK, ConnectionTuneOk():
                self._tune_ok_received(method)
                return None
            case NegotiationStage.OPEN, ConnectionOpen():
                return self._open_received(method)
            case _:
                expected = self.stage.name.lower().replace("_", "-")
                raise Amqp091ConnectionFault(
                    ReplyCode.COMMAND_INVALID,
                    f"{type(method).__name__} before the connection is open: connection.{expected} is expected",
                    *method.ID,
                )

    def go_on(self, now: float) -> Method | None:
        """In stage ANSWER: return our next method; None while there is none."""
        return self._response_received(b"", now)

    def refusal(self) -> Amqp091ConnectionFault | None:
        """The fault to send to a peer whose login is refused; None when the peer would not understand it."""
        if self.client_capabilities.get("authentication_failure_close") is not True:
            return None
        if self._put_off:
            return Amqp091ConnectionFault(
                ReplyCode.RESOURCE_ERROR,
                "Login was put off: too many logins have failed or wait. Try again in a minute.",
            )
        return Amqp091ConnectionFault(
            ReplyCode.ACCESS_REFUSED,
            f"Login was refused using authentication mechanism {self.mechanism}. For details see the broker logfile.",
        )

    def _start_ok_received(self, method: ConnectionStartOk, now: float) -> Method | None:
        mechanism = self._mechanisms.get(method.mechanism)
        if mechanism is None:
            self._not_offered(method.mechanism)
        if mechanism is None and method.mechanism in self._withheld:
            raise Amqp091ConnectionFault(ReplyCode.ACCESS_REFUSED, self._withheld[method.mechanism], *method.ID)
        if mechanism is None:
            raise Amqp091ConnectionFault(
                ReplyCode.COMMAND_INVALID,
                f"unknown authentication mechanism {quote(method.mechanism)}",
                *method.ID,
            )
        self.client_properties = method.client_properties
        capabilities = method.client_properties.get("capabilities")
        if isinstance(capabilities, dict):
            self.client_capabilities = capabilities
        self.mechanism = mechanism.name
        self._exchange = mechanism.start()
        return self._response_received(method.response, now)

    def _response_received(self, response: bytes, now: float) -> Method | None:
        assert self._exchange is not None
        kind, data = self._exchange.respond(response)
        if kind == "challenge":
            self.stage = NegotiationStage.SECURE_OK
            return ConnectionSecure(challenge=data)
        if kind == "wait":
            self.stage = NegotiationStage.ANSWER
            return None
        self._exchange = None
        if kind != "success":
            self._put_off = kind == "later"
            self.stage = NegotiationStage.NOTHING
            self.refuse_at = now + self._refusal_delay_s()
            return None
        self.identity = data.decode()
        self.stage = NegotiationStage.TUNE_OK
        own = self._settings
        return ConnectionTune(channel_max=own.channel_max, frame_max=own.frame_max, heartbeat=own.heartbeat)

    def _tune_ok_received(self, method: ConnectionTuneOk) -> None:
        settings = self._settings
        self.frame_max = _agreed("frame_max", method.frame_max, least=FRAME_MIN_SIZE, most=settings.frame_max)
        self.channel_max = _agreed("channel_max", method.channel_max, least=1, most=settings.channel_max)
        self.heartbeat_s = method.heartbeat
        self.stage = NegotiationStage.OPEN

    def _open_received(self, method: ConnectionOpen) -> Method:
        reason = self._refuse_virtual_host(method.virtual_host, self.identity)
        if reason is not None:
            raise Amqp091ConnectionFault(ReplyCode.NOT_ALLOWED, reason, *method.ID)
        self.virtual_host = method.virtual_host
        self.stage = NegotiationStage.DONE
        return ConnectionOpenOk()


def _agreed(name: str, value: int, *, least: int, most: int) -> int:
    """The limit that applies. Raises Amqp091ConnectionFault (not-allowed) for one that was not offered [0-9-1
    tune-ok]."""
    if value == 0:
        return most
    if value < least:
        problem = f"lower than the minimum allowed value ({least})"
    elif value > most:
        problem = f"higher than the maximum allowed value ({most})"
    else:
        return value
    raise Amqp091ConnectionFault(ReplyCode.NOT_ALLOWED, f"negotiated {name} = {value} is {problem}", *ConnectionTune.ID)
