"""Errors between Spark and a broker. Each text names what was wanted, what prevented it, and the remedy.

Spark shows a Python error by its type and text, behind a stack, so the first line of the text must be enough. All of
them are :class:`~amqp10.client_core.errors.ClientError`; those that any client has come from there.
"""

from amqp10.client_core.errors import (
    ClientError,
    ConnectionLost,
    LinkRefused,
    NotEncrypted,
    NotLetIn,
    RequestRefused,
    TimedOut,
    Unreachable,
)

__all__ = [
    "BadColumn",
    "BadMessage",
    "BadOffset",
    "BadOption",
    "ClientError",
    "ConnectionLost",
    "DataLost",
    "LinkRefused",
    "MessageRefused",
    "NoLongerHeld",
    "NotEncrypted",
    "NotLetIn",
    "RequestRefused",
    "TimedOut",
    "Unreachable",
]


class BadOption(ClientError):
    """An option that does not exist, is missing, or has an invalid value."""


class BadMessage(ClientError):
    """A message that cannot become a row, or a row that cannot become a message."""


class BadColumn(ClientError):
    """A column that a sink does not know, or that has the wrong type."""


class MessageRefused(ClientError):
    """The broker did not accept a row that was written: it rejected, released or modified it."""


class BadOffset(ClientError):
    """A checkpoint, or an option, with offsets that do not belong to this query."""


class DataLost(ClientError):
    """Messages that a query still needs are gone: retention, expiry, another consumer took them, or their queue or
    stream was deleted and declared anew."""


class NoLongerHeld(ClientError):
    """The messages of a micro-batch are ready again before all tasks have read them: the driver's link has ended, or
    the consumer time-out has passed. Nothing is lost: the query continues from its checkpoint."""
