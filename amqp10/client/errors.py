"""What can go wrong for a user of the client. Everything that the client raises for what happens outside it is here.

``str(error)`` says what happened and, where the broker told one, why; ``condition`` is then the broker's own symbol
for it [2.8.14]. Mistakes in calling the client (a negative number of messages, say) are ValueError as everywhere.
"""

from amqp10.messaging import Error


class ClientError(Exception):
    """Something that the user has to know; one of the subclasses."""

    def __init__(self, text: str, condition: str | None = None) -> None:
        super().__init__(text, condition)
        self.text = text
        self.condition = condition

    def __str__(self) -> str:
        return self.text if self.condition is None else f"{self.text} ({self.condition})"


class BadUrl(ClientError):
    """A text that is no URL of a broker."""


class Unreachable(ClientError):
    """Nobody answers at the address, or nobody who opens a connection in time."""


class NotLetIn(ClientError):
    """The broker ended the handshake: wrong credentials, no mechanism in common, or it speaks no AMQP 1.0."""


class ConnectionLost(ClientError):
    """The connection broke, or was closed; what was under way on it may or may not have happened."""


class SessionClosed(ClientError):
    """The session is over, and every link on it."""


class LinkClosed(ClientError):
    """The link is over: refused, detached by the broker, or closed by the user."""


class MessageTooLarge(ClientError):
    """A message that the broker does not take because of its size. Nothing of it was sent."""


class RequestRefused(ClientError):
    """A management request was answered with an error status; ``text`` is the broker's explanation."""

    def __init__(self, text: str, condition: str | None = None, *, status: int = 0) -> None:
        super().__init__(text, condition)
        self.status = status


class TimedOut(ClientError):
    """The broker did not answer in time."""


def told(what: str, error: Error | None) -> tuple[str, str | None]:
    """Text and condition for something that ended, with the reason that the peer gave, if it gave one."""
    if error is None:
        return what, None
    return (f"{what}: {error.description}" if error.description else what), error.condition
