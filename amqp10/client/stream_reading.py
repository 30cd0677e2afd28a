"""Where a receiver stands in a stream, so that it goes on there when it is attached again.

It goes on behind the last message that its user has, which may have waited for the user and been dropped: then it is
read again. Offsets are the same at each node. The first bytes of the last message of a run are kept, and the offset in
them is read only when the link is lost.
"""

from collections.abc import Mapping

from amqp10.protocol.stream_offsets import BEGINS_AT_KEY, OFFSET_SPEC, offset_of
from amqp10.wire.types import Described, Symbol, ULong

HEAD_BYTES = 1024
"""How much is kept of the last message. Headgate puts the offset first; another broker may put it behind annotations
that name an exchange and a routing key, of 255 bytes each. A shorter message is kept without copying it."""
QUEUE_IDENTITY_KEY = "headgate:queue-identity"
"""A property of the attach with which the broker answers: the identity of the stream's declaration."""


class StreamReading:
    """The place of one receiver. The receiver sets ``head`` for each run."""

    __slots__ = ("_identity", "head", "next_offset")

    def __init__(self) -> None:
        self.head = b""
        """The first bytes of the last message that has come on the present link."""
        self.next_offset: int | None = None
        """Where the next link goes on, as the loss of the last one has found; and before a message has come, where the
        broker says that the link begins. None if it is not known: then it begins as its filter says."""
        self._identity: object = None

    def is_lost_with_its_stream(self, properties: Mapping[str, object] | None) -> bool:
        """The broker has attached the link. Returns whether it asked for a place that means nothing, because the stream
        was deleted and declared again. Then the place is forgotten, and the link is to begin as its filter says."""
        former, self._identity = self._identity, (properties or {}).get(QUEUE_IDENTITY_KEY, self._identity)
        if former in (None, self._identity) or self.next_offset is None:
            return False
        self.next_offset = None
        return True

    def began(self, properties: Mapping[str, object] | None) -> None:
        """The broker has attached the link, and may say where that begins."""
        begins_at = (properties or {}).get(BEGINS_AT_KEY)
        if not self.head and isinstance(begins_at, ULong):
            self.next_offset = begins_at.value

    def lost(self, untaken: bytes | None) -> None:
        """The link is lost. ``untaken`` is the first message that the user does not get from it, and that is to be read
        again; None if the user gets all that have come."""
        if untaken is not None:
            self.next_offset = offset_of(untaken[:HEAD_BYTES])
        elif self.head:
            last = offset_of(self.head)
            self.next_offset = None if last is None else last + 1
        self.head = b""

    def filters(self, chosen: Mapping[str, object]) -> dict[str, object]:
        """The filters for the next attach: those of the user, with the offset in place of the beginning."""
        if self.next_offset is None:
            return dict(chosen)
        others = {key: value for key, value in chosen.items() if not is_offset_spec(key, value)}
        return {**others, OFFSET_SPEC: Described(Symbol(OFFSET_SPEC), ULong(self.next_offset))}


def reading_of(chosen: Mapping[str, object], properties: Mapping[str, object] | None = None) -> StreamReading | None:
    """The place of a receiver of a stream, as its filters say, or the broker's answer to its attach; None for one of
    another queue."""
    of_stream = any(is_offset_spec(key, value) for key, value in chosen.items())
    return StreamReading() if of_stream or BEGINS_AT_KEY in (properties or {}) else None


def is_offset_spec(key: str, value: object) -> bool:
    """Whether a filter says where in a stream a link begins. A described value is named by its descriptor."""
    if isinstance(value, Described) and isinstance(value.descriptor, Symbol):
        return value.descriptor.value == OFFSET_SPEC
    return key == OFFSET_SPEC
