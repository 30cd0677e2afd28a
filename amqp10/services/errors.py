"""The errors of the services kit: all that it raises for causes outside of it.

The classes answer the most important question after a failure: can the command have been executed?

=========================  ================================================================================
error                      the command
=========================  ================================================================================
:class:`NotSent`           was not executed: it was never sent
:class:`Unroutable`        was not executed: no queue takes it
:class:`Busy`              was not executed: the target, its queue or this service has too many requests
:class:`RemoteError`       was executed, or refused, by a host, and this is the error that the host reports
:class:`CommandUncertain`  may have been executed, perhaps in part, and no answer will come
:class:`CallTimedOut`      may have been executed, and the answer may still come: it will be dropped
=========================  ================================================================================

Mistakes in using the kit (for example a negative time-out) are ValueError.
"""


class ServiceError(Exception):
    """An error that the caller has to handle; one of the subclasses."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return self.text


class BadName(ServiceError):
    """A type or a host with characters that are not allowed, or too long."""


class BadBody(ServiceError):
    """A body is not what the command takes, or an answer is not what the caller expects."""


class DeclaredDifferently(ServiceError):
    """An exchange or a queue of this name exists, and is not what the kit needs."""


class NotSent(ServiceError):
    """The message was not sent in time. ``reason`` is why the broker made the sender wait, or None.

    It is a word of the closed list of flow reasons, for example ``memory`` or ``queue-full``.
    """

    def __init__(self, text: str, reason: str | None = None) -> None:
        super().__init__(text)
        self.reason = reason


class Unroutable(ServiceError):
    """No queue takes the message: there is no host of this name or type, or there was none for too long."""


class Busy(ServiceError):
    """There are too many requests: at the host, in its queue, or in this service."""


class RemoteError(ServiceError):
    """The host answered with an error. ``condition`` is a word for programs, ``text`` is for people."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(text)
        self.condition = condition

    def __str__(self) -> str:
        return f"{self.text} ({self.condition})"


class CommandUncertain(ServiceError):
    """Whether the command was executed is not known: a host may have had it before and died with it."""


class CallTimedOut(ServiceError):
    """No answer came in time."""
