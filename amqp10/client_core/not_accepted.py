"""The error for messages that the broker did not accept, which names each of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from amqp10.client_core.errors import ClientError
from amqp10.client_core.message import Message
from amqp10.client_core.outcomes import Fate, Uncertain, Unsent
from amqp10.client_core.view import MessageView
from amqp10.errors import DecodeError
from amqp10.wire.messaging import Error, Modified, Rejected, Released

REFUSED_MAX = 100
"""Messages that one error names: enough to see what is wrong, and a bound for a batch of any length."""


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """One message that was not accepted."""

    position: int
    """Its place among the messages of the call or the batch, counted from 0."""
    message: Message | bytes
    fate: Fate

    def __str__(self) -> str:
        identity = _message_id(self.message)
        named = "" if identity is None else f" (message-id {identity!r})"
        return f"message {self.position}{named} {_why(self.fate)}"


class NotAccepted(ClientError):
    """Messages were sent, or should have been, and the broker did not accept them.

    ``refused`` has the first :data:`REFUSED_MAX` of them, ``count`` says how many they are, and ``accepted`` how many
    were accepted. ``condition`` is that of the first one.
    """

    def __init__(
        self,
        text: str,
        condition: str | None = None,
        *,
        refused: Sequence[RefusedMessage] = (),
        count: int = 0,
        accepted: int = 0,
    ) -> None:
        super().__init__(text, condition)
        self.refused = tuple(refused)
        self.count = count
        self.accepted = accepted


def not_accepted(refused: Sequence[RefusedMessage], *, count: int, accepted: int) -> NotAccepted:
    """The error for these messages, of which there is one at least."""
    first = refused[0]
    total = count + accepted
    text = str(first) if total == 1 else f"{count} of {total} messages were not accepted; the first: {first}"
    error = _error(first.fate)
    return NotAccepted(
        text, None if error is None else error.condition, refused=refused, count=count, accepted=accepted
    )


def _error(fate: Fate) -> Error | None:
    return fate.error if isinstance(fate, Rejected) else None


def _why(fate: Fate) -> str:
    match fate:
        case Rejected(error=error):
            return "was rejected" if error is None or not error.description else f"was rejected: {error.description}"
        case Released():
            return "was released: no queue takes it, so bind one to the exchange with this routing key"
        case Modified(delivery_failed=True):
            return "was answered with modified: a queue may have it, so that sending it again may make a second one"
        case Unsent(reason):
            return f"was not sent: {reason}"
        case Uncertain(reason):
            return f"was sent, and whether it was accepted is not known: {reason}"
    return f"was not accepted: {fate}"


def _message_id(message: Message | bytes) -> object:
    if isinstance(message, Message):
        return None if message.properties is None else message.properties.message_id
    try:
        return MessageView(message).properties.message_id
    except DecodeError:
        return None
