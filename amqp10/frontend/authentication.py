"""The broker's SASL mechanisms, which know users, in the shape that the SASL layer knows."""

from dataclasses import dataclass

from amqp10.sasl import OUTCOME_SYS_TEMP, Challenge, Failure, Success, Waiting
from core.access import exchange


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism of :mod:`core.access` as :class:`amqp10.sasl.SaslMechanism`."""

    inner: exchange.SaslMechanism

    @property
    def name(self) -> str:
        """As registered with IANA."""
        return self.inner.name

    def start(self) -> "Exchange":
        """A fresh attempt."""
        return Exchange(self.inner.start())


@dataclass(frozen=True, slots=True)
class Exchange:
    """One attempt, with its replies as classes."""

    inner: exchange.SaslExchange

    def respond(self, response: bytes) -> Challenge | Success | Failure | Waiting:
        """Answer a response of the peer's."""
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
