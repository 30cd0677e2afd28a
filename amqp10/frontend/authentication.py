"""Adapts the SASL mechanisms of the broker, which know the users, to the interface of the SASL layer."""

from dataclasses import dataclass

from amqp10.protocol.sasl import OUTCOME_SYS_TEMP, AnswerPending, Challenge, Failure, Success
from core.access import exchange


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism of :mod:`core.access` as a :class:`amqp10.protocol.sasl.SaslServerMechanism`."""

    inner: exchange.SaslMechanism

    @property
    def name(self) -> str:
        """The name as registered with IANA."""
        return self.inner.name

    def start(self) -> "LoginAttempt":
        """Begin an attempt."""
        return LoginAttempt(self.inner.start())


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """One attempt to log in: replies of :mod:`core.access` become the classes of the SASL layer."""

    inner: exchange.SaslExchange

    def respond(self, response: bytes) -> Challenge | Success | Failure | AnswerPending:
        """Answer a response of the peer."""
        kind, data = self.inner.respond(response)
        match kind:
            case "success":
                return Success(data.decode())
            case "challenge":
                return Challenge(data)
            case "wait":
                return AnswerPending()
            case "later":
                return Failure("too many logins have failed or wait", OUTCOME_SYS_TEMP)
            case "failure":
                return Failure("the credentials are wrong")
