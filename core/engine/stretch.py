"""A stretch: messages of one queue that are alike, with their positions.

Inside a queue everything moves as stretches: from the backing to a consumer, into the consumer's unsettled
deliveries, and back again. Positions are the queue's sequence numbers; they only grow and are never used
twice.

Between consumers that are served in turn, a stretch is dealt out by slicing with a step, so that a position
range of step 1 becomes ranges of step 2, 3 and so on. ``range`` does all of that in constant time. Only
stretches that were joined from unrelated positions carry a list.

A stretch owns its list of entries: front ends get a copy of the list (never of the entries), which is theirs to
take apart as they send.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.message import Attributes, Route

NOWHERE = -1
"""The level of copies that stand in no backing."""

ANNOTATIONS_MAX = 256
"""Keys of annotations that consumers may have added to one message."""


@dataclass(eq=False, slots=True)
class Stretch:
    """Messages in ascending positions with the same attributes and the same history."""

    sequences: Sequence[int]
    entries: list[bytes]
    attributes: Attributes
    delivery_count: int = 0
    first_acquirer: bool = True
    annotations: Mapping[object, object] | None = None
    """What consumers added with modified, shared by all messages and never changed."""
    barred: frozenset[object] = frozenset()
    """The consumers that must not get these messages again."""
    expires_at: float | None = None
    """Wall-clock seconds; None when the messages live for ever."""
    route: Route | None = None
    """How they came into the queue; None when they were published straight into it."""
    level: int = 0
    """The priority level of the queue that they stand on; 0 where a queue has only one, ``NOWHERE`` for copies."""
    stored: bool = False
    """The backing keeps them on disk: settling them has to be told to it."""
    paged: bool = False
    """The entries are on disk only (the list is empty); ``Backing.restore`` reads them back."""

    def __len__(self) -> int:
        return len(self.sequences)

    def part(self, start: int, stop: int, step: int = 1) -> "Stretch":
        """The messages that slicing with these bounds picks."""
        return Stretch(
            self.sequences[start:stop:step],
            self.entries[start:stop:step],
            self.attributes,
            self.delivery_count,
            self.first_acquirer,
            self.annotations,
            self.barred,
            self.expires_at,
            self.route,
            self.level,
            self.stored,
            self.paged,
        )

    def like(self, other: "Stretch") -> bool:
        """True when the messages of both may stand in one stretch, in this order."""
        return (
            self.sequences[-1] < other.sequences[0]
            and (self.attributes is other.attributes or self.attributes == other.attributes)
            and self.delivery_count == other.delivery_count
            and self.first_acquirer == other.first_acquirer
            and self.annotations is None
            and other.annotations is None
            and self.barred == other.barred
            and self.expires_at == other.expires_at
            and (self.route is other.route or self.route == other.route)
            and self.level == other.level
            and self.stored is other.stored
            and self.paged is other.paged
        )

    def annotate(self, annotations: Mapping[object, object]) -> None:
        """Merge annotations over those that consumers have added already.

        Where one message gathers too many keys, the oldest go: a consumer that returns it for ever adds for ever.
        """
        merged = {**(self.annotations or {}), **annotations}
        self.annotations = dict(list(merged.items())[-ANNOTATIONS_MAX:])

    def join(self, other: "Stretch") -> None:
        """Append a stretch that is ``like`` this one."""
        self.sequences = join_positions(self.sequences, other.sequences)
        self.entries += other.entries


def join_positions(left: Sequence[int], right: Sequence[int]) -> Sequence[int]:
    """Both sequences of positions as one: a range when they have one step between them, else a list."""
    step = right[0] - left[-1]
    if _has_step(left, step) and _has_step(right, step):
        return range(left[0], right[-1] + 1, step)
    return [*left, *right]


def _has_step(positions: Sequence[int], step: int) -> bool:
    return len(positions) == 1 or (isinstance(positions, range) and positions.step == step)
