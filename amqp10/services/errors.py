"""What can go wrong between services. Everything that the kit raises for what happens outside it is here.

The classes answer the one question that counts after a failure: *can it have been executed?*

=====================  ================================================================================
error                  the command
=====================  ================================================================================
:class:`NotSent`       was not executed: it never left
:class:`Unroutable`    was not executed: no queue takes it
:class:`Busy`          was not executed: the target, its queue or this service has too much in hand
:class:`RemoteError`   was executed, or refused, by a host, and this is what the host says
:class:`Uncertain`     may have been executed, perhaps in part, and nobody will say more
:class:`CallTimedOut`  may have been executed, and the answer may still come: it will be dropped
=====================  ================================================================================

Mistakes in using the kit (a negative time-out, say) are ValueError as everywhere.
"""


class ServiceError(Exception):
    """Something that the caller has to know; one of the subclasses."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return self.text


class BadName(ServiceError):
    """A type or a host with characters that are not allowed, or too long."""


class DeclaredDifferently(ServiceError):
    """An exchange or a queue of this name exists, and is not what the kit needs."""


class NotSent(ServiceError):
    """The message did not leave in time. ``reason`` is why the broker made the sender wait, in its own words, or None.

    The words are those of the closed list of flow reasons, ``memory`` or ``queue-full`` for example.
    """

    def __init__(self, text: str, reason: str | None = None) -> None:
        super().__init__(text)
        self.reason = reason


class Unroutable(ServiceError):
    """No queue takes the message: there is no host of this name or type, or there was none for too long."""


class Busy(ServiceError):
    """Too much is in hand: at the host, in its queue, or in this service."""


class RemoteError(ServiceError):
    """The host answered with an error. ``condition`` is a word for programs, ``text`` is for people."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(text)
        self.condition = condition

    def __str__(self) -> str:
        return f"{self.text} ({self.condition})"


class Uncertain(ServiceError):
    """Whether the command was executed is not known: a host may have had it before and died with it."""


class CallTimedOut(ServiceError):
    """No answer came in time."""
