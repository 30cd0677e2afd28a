"""A batch: messages of one queue that have the same history, with their positions, attributes, routes and expiry.

Inside a queue messages move as batches: from the backing to a consumer, into the consumer's unsettled deliveries, and
back to the queue. Positions are the queue's sequence numbers, which are ascending and never used twice.

A batch is divided among consumers that are served in turn by slicing with a step, so that a range of positions with
step 1 becomes ranges with step 2, 3 and so on. Slicing a ``range`` takes constant time. Only a batch that was joined
from unrelated positions has a list of positions.

A batch owns its lists. Front ends get copies (not of the entries), which they may change.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from core.message import (
    Attributes,
    Expiries,
    Origin,
    Route,
    Routes,
    RunAttributes,
    first_of,
    joined,
    like_ranges,
    may_join,
)

NOWHERE = -1
"""The level of copies that are in no backing."""

ANNOTATIONS_MAX = 256
"""The most annotation keys that consumers can add to one message."""


@dataclass(eq=False, slots=True)
class Batch:
    """Messages in ascending positions with the same history."""

    sequences: Sequence[int]
    entries: list[bytes]
    attributes: RunAttributes
    delivery_count: int = 0
    first_acquirer: bool = True
    annotations: Mapping[object, object] | None = None
    """Annotations that consumers added with the modified outcome, shared by all messages and never changed in place."""
    barred: frozenset[object] = frozenset()
    """The consumers that called these messages undeliverable and must not get them again."""
    expires_at: Expiries = None
    routes: Routes = None
    level: int = 0
    """The priority level of the messages in the queue; 0 if it has only one, ``NOWHERE`` for copies."""
    stored: bool = False
    """Whether the backing has them on disk, and so has to be told when they are settled."""
    paged: bool = False
    """Whether the entries are on disk only (the list is empty). ``Backing.restore`` reads them back."""

    def __len__(self) -> int:
        return len(self.sequences)

    def part(self, start: int, stop: int, step: int = 1) -> "Batch":
        """Return the messages selected by a slice with these bounds."""
        attributes, expires_at, routes = self.attributes, self.expires_at, self.routes
        return Batch(  # without part_of: three calls less for each consumer that gets a part
            self.sequences[start:stop:step],
            self.entries[start:stop:step],
            attributes[start:stop:step] if isinstance(attributes, list) else attributes,
            self.delivery_count,
            self.first_acquirer,
            self.annotations,
            self.barred,
            expires_at[start:stop:step] if isinstance(expires_at, list) else expires_at,
            routes[start:stop:step] if isinstance(routes, list) else routes,
            self.level,
            self.stored,
            self.paged,
        )

    @property
    def origin(self) -> Origin:
        """The protocol in whose encoding the entries are."""
        return first_of(self.attributes).origin

    @property
    def first_expires_at(self) -> float | None:
        """When the first message expires; None if never."""
        return first_of(self.expires_at)

    def alike(self) -> "Iterator[tuple[Batch, Attributes, Route | None]]":
        """Cut the batch into batches whose messages have the same attributes and route."""
        for start, stop, attributes, route, _ in like_ranges(len(self), self.attributes, self.routes):
            yield self if stop - start == len(self) else self.part(start, stop), attributes, route

    def like(self, other: "Batch") -> bool:
        """Return whether both may be joined into one batch, in this order."""
        return (
            self.sequences[-1] < other.sequences[0]
            and may_join(self.attributes, other.attributes)
            and self.delivery_count == other.delivery_count
            and self.first_acquirer == other.first_acquirer
            and self.annotations is None
            and other.annotations is None
            and self.barred == other.barred
            and self.level == other.level
            and self.stored is other.stored
            and self.paged is other.paged
        )

    def annotate(self, annotations: Mapping[object, object]) -> None:
        """Merge annotations over those that consumers have added already.

        If there are more than ``ANNOTATIONS_MAX`` keys, the oldest are dropped, because a consumer that returns a
        message again and again could add keys without end.
        """
        merged = {**(self.annotations or {}), **annotations}
        self.annotations = dict(list(merged.items())[-ANNOTATIONS_MAX:])

    def join(self, other: "Batch") -> None:
        """Append a batch that is ``like`` this one."""
        count, further = len(self.sequences), len(other.sequences)
        self.attributes = joined(self.attributes, count, other.attributes, further)
        self.expires_at = joined(self.expires_at, count, other.expires_at, further)
        self.routes = joined(self.routes, count, other.routes, further)
        self.sequences = join_positions(self.sequences, other.sequences)
        self.entries += other.entries


def join_positions(left: Sequence[int], right: Sequence[int]) -> Sequence[int]:
    """Join two sequences of positions: into a range if all positions have the same step, else into a list."""
    step = right[0] - left[-1]
    if _has_step(left, step) and _has_step(right, step):
        return range(left[0], right[-1] + 1, step)
    return [*left, *right]


def _has_step(positions: Sequence[int], step: int) -> bool:
    return len(positions) == 1 or (isinstance(positions, range) and positions.step == step)
