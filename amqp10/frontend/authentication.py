"""Adapts the SASL mechanisms of the broker, which know the users, to the interface of the SASL layer."""

from dataclasses import dataclass

from amqp10.protocol.sasl import OUTCOME_SYS_TEMP, Challenge, Failure, Success, Waiting
from core.access import exchange


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism of :mod:`core.access` as a :class:`amqp10.protocol.sasl.SaslMechanism`."""

    inner: exchange.SaslMechanism

    @property
    def name(self) -> str:
        """The name as registered with IANA."""
        return self.inner.name

    def start(self) -> "Exchange":
        """Begin an attempt."""
        return Exchange(self.inner.start())


@dataclass(frozen=True, slots=True)
class Exchange:
    """One attempt; its replies become the classes of the SASL layer."""

    inner: exchange.SaslExchange

    def respond(self, response: bytes) -> Challenge | Success | Failure | Waiting:
        """Answer a response of the peer."""
        kind, data = self.inner.respond(response)
        match kind:
            case "success":
                return Success(data.decode())
            case "challenge":
                return Challenge(data)
            case "wait":
                return Waiting()
            case "later":
                return Failure("too many logins have failed or wait", OUTCOME_SYS_TEMP)
            case "failure":
                return Failure("the credentials are wrong")
