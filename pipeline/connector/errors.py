"""What can go wrong between Spark and a broker. Each says what was wanted, what stood against it, and what helps.

Spark shows a Python error by its type and text, behind a stack, so the first line of the text has to be enough.
"""

from amqp10.messaging import Error


class ConnectorError(Exception):
    """Something that the owner of a query has to know; one of the subclasses.

    ``condition`` is the broker's own symbol for it, where it told one [2.8.14].
    """

    def __init__(self, text: str, condition: str | None = None) -> None:
        super().__init__(text, condition)
        self.text = text
        self.condition = condition

    def __str__(self) -> str:
        return self.text if self.condition is None else f"{self.text} ({self.condition})"


class BadOption(ConnectorError):
    """An option that does not exist, is missing, or has a value that it cannot have."""


class Unreachable(ConnectorError):
    """Nobody answers at the address, or nobody who opens a connection in time."""


class NotLetIn(ConnectorError):
    """The broker ended the handshake: wrong credentials, no mechanism in common, or it speaks no AMQP 1.0."""


class ConnectionLost(ConnectorError):
    """The connection broke or was closed; what was under way on it may or may not have happened."""


class LinkRefused(ConnectorError):
    """The broker did not attach a link, or ended it: there is no such address, or it may not be used so."""


class TimedOut(ConnectorError):
    """The broker did not answer in time."""


class RequestRefused(ConnectorError):
    """A management request was answered with an error status, or the broker takes none."""


class BadMessage(ConnectorError):
    """A message that cannot become a row, or a row that cannot become a message."""


class BadColumn(ConnectorError):
    """A column that a sink does not know, or that has another type than it must have."""


class MessageRefused(ConnectorError):
    """The broker did not accept a row that was written: it rejected, released or modified it."""


class BadOffset(ConnectorError):
    """A checkpoint, or an option, with offsets that do not belong to this query."""


class DataLost(ConnectorError):
    """Messages that a query still needs are gone: retention, expiry, another consumer took them, or their queue or
    stream was deleted and declared anew."""


def told(what: str, error: Error | None) -> tuple[str, str | None]:
    """Text and condition for something that ended, with the reason that the peer gave, if it gave one."""
    if error is None:
        return what, None
    return (f"{what}: {error.description}" if error.description else what), error.condition
