"""The errors of the client: all that it raises for causes outside of it.

``str(error)`` tells what happened and, if the broker gave a reason, why; ``condition`` is then the broker's symbol for
the reason [2.8.14]. Mistakes in calling the client (for example a negative number of messages) are ValueError.
"""

from amqp10.wire.messaging import Error


class ClientError(Exception):
    """An error that the user has to handle; one of the subclasses."""

    def __init__(self, text: str, condition: str | None = None) -> None:
        super().__init__(text, condition)
        self.text = text
        self.condition = condition

    def __str__(self) -> str:
        return self.text if self.condition is None else f"{self.text} ({self.condition})"


class BadUrl(ClientError):
    """A text that is no URL of a broker."""


class Unreachable(ClientError):
    """No server answers at the address."""


class NotEncrypted(ClientError):
    """The server at the address speaks no TLS, or its certificate is not accepted."""


class NotLetIn(ClientError):
    """The broker ended the handshake: wrong credentials, no mechanism in common, or it speaks no AMQP 1.0."""


class ConnectionLost(ClientError):
    """The connection broke, or was closed; operations in flight on it may or may not have happened."""


class SessionClosed(ClientError):
    """The session is over, and so is every link on it."""


class LinkClosed(ClientError):
    """The link is over: refused, detached by the broker, or closed by the user."""


class LinkRefused(ClientError):
    """The broker did not attach a link, or ended it: the address does not exist, or this use of it is not allowed.

    ``description`` is the broker's own text, where the broker has sent one [2.8.14].
    """

    def __init__(self, text: str, condition: str | None = None, *, description: str | None = None) -> None:
        super().__init__(text, condition)
        self.description = description


class MessageTooLarge(ClientError):
    """A message is larger than the broker accepts. No part of it was sent."""


class RequestRefused(ClientError):
    """A management request was answered with an error status; ``text`` is the broker's explanation."""

    def __init__(self, text: str, condition: str | None = None, *, status: int = 0) -> None:
        super().__init__(text, condition)
        self.status = status


class TimedOut(ClientError):
    """The broker did not answer in time."""


class SendTimedOut(ClientError):
    """A message has no outcome in time. ``sent`` says whether it was sent: one that was not can be sent again without
    making a duplicate."""

    def __init__(self, text: str, condition: str | None = None, *, sent: bool = False) -> None:
        super().__init__(text, condition)
        self.sent = sent


def told(what: str, error: Error | None) -> tuple[str, str | None]:
    """Text and condition for an error about something that ended, with the peer's reason if there is one."""
    if error is None:
        return what, None
    return (f"{what}: {error.description}" if error.description else what), error.condition
