"""Errors between Spark and a broker. Each text names what was wanted, what prevented it, and the remedy.

Spark shows a Python error by its type and text, behind a stack, so the first line of the text must be enough.
"""

from amqp10.wire.messaging import Error


class ConnectorError(Exception):
    """An error for the owner of a query; one of the subclasses.

    ``condition`` is the broker's own symbol for it, where the broker has sent one [2.8.14].
    """

    def __init__(self, text: str, condition: str | None = None) -> None:
        super().__init__(text, condition)
        self.text = text
        self.condition = condition

    def __str__(self) -> str:
        return self.text if self.condition is None else f"{self.text} ({self.condition})"


class BadOption(ConnectorError):
    """An option that does not exist, is missing, or has an invalid value."""


class Unreachable(ConnectorError):
    """No broker answers at the address, or none opens a connection in time."""


class NotLetIn(ConnectorError):
    """The broker ended the handshake: wrong credentials, no mechanism in common, or it speaks no AMQP 1.0."""


class ConnectionLost(ConnectorError):
    """The connection broke or was closed; operations under way on it may or may not have been done."""


class LinkRefused(ConnectorError):
    """The broker did not attach a link, or ended it: the address does not exist, or this use of it is not allowed."""


class TimedOut(ConnectorError):
    """The broker did not answer in time."""


class RequestRefused(ConnectorError):
    """A management request was answered with an error status, or the broker accepts no requests."""


class BadMessage(ConnectorError):
    """A message that cannot become a row, or a row that cannot become a message."""


class BadColumn(ConnectorError):
    """A column that a sink does not know, or that has the wrong type."""


class MessageRefused(ConnectorError):
    """The broker did not accept a row that was written: it rejected, released or modified it."""


class BadOffset(ConnectorError):
    """A checkpoint, or an option, with offsets that do not belong to this query."""


class DataLost(ConnectorError):
    """Messages that a query still needs are gone: retention, expiry, another consumer took them, or their queue or
    stream was deleted and declared anew."""


def told(what: str, error: Error | None) -> tuple[str, str | None]:
    """Text and condition for a link or connection that has ended, with the peer's reason, if it gave one."""
    if error is None:
        return what, None
    return (f"{what}: {error.description}" if error.description else what), error.condition
