"""The broker's SASL mechanisms, which know users, in the shape that the SASL layer knows."""

from dataclasses import dataclass

from amqp10.sasl import Challenge, Failure, Success
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

    def respond(self, response: bytes) -> Challenge | Success | Failure:
        """Answer a response of the peer's."""
        kind, data = self.inner.respond(response)
        if kind == "success":
            return Success(data.decode())
        if kind == "challenge":
            return Challenge(data)
        return Failure("the credentials are wrong")
