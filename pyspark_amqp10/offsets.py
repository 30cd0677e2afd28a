"""Offsets as Spark keeps them, and the arithmetic on them.

Spark writes an offset as JSON into the checkpoint and compares texts, so equal offsets must have equal texts: addresses
are sorted. Each offset carries a version and the mode, so that a checkpoint of another query is recognised.

*Streams*: the next offset to be read of each address. A range is from one, inclusive, to the other, exclusive. Offsets
may leap, so their difference is an upper bound of rows and never a count.

Beside the offsets are the identities of the streams and queues to which they belong, where the broker sends them. A
stream or queue that was deleted and declared again counts from the beginning, and its identity differs. Checkpoints of
earlier versions have no identities.

*Queues*: the committed sequence numbers of each address, as ranges. One number would not do: a message that another
consumer gave back, or that overtook others by its priority, has a number below some committed ones, and is not a
repetition. At most :data:`RANGES_MAX` ranges are kept, and the oldest are dropped first. A message of a dropped range
that comes again counts as new: it may be read twice, but is never lost.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from pyspark_amqp10.errors import BadOffset

VERSION: Final = 1
RANGES_MAX: Final = 256
"""Ranges of committed numbers for an address: 10 KB of JSON. More than one range is needed only for gaps."""

Json = dict[str, object]


class OffsetRange(NamedTuple):
    """Offsets of one stream, ``first`` inclusive, ``end`` exclusive."""

    address: str
    first: int
    end: int
    identity: str | None = None
    """The identity of the stream's declaration, where it is known."""


# --- both ----------------------------------------------------------------------------------------------------------


def with_identities(json: Json, identities: Mapping[str, str]) -> Json:
    """Offsets, with the identities of the streams or queues to which they belong."""
    return json | {"identities": dict(sorted(identities.items()))} if identities else json


def identities_in(json: Mapping[str, object]) -> dict[str, str]:
    """The identities beside offsets; a missing one was not known. Raises BadOffset for values that cannot be
    identities."""
    identities = json.get("identities", {})
    if not isinstance(identities, dict) or not all(isinstance(one, str) for one in identities.values()):
        raise BadOffset(f"the checkpoint has the identities {identities!r}; they must be texts")
    return dict(identities)


def are_two(one: str | None, other: str | None) -> bool:
    """True when both identities are known and not the same."""
    return one is not None and other is not None and one != other


# --- streams -------------------------------------------------------------------------------------------------------


def stream_json(offsets: Mapping[str, int]) -> Json:
    """The checkpoint's form of the next offset of each address."""
    return {"amqp10": VERSION, "mode": "stream", "offsets": dict(sorted(offsets.items()))}


def stream_offsets(json: Mapping[str, object], addresses: Sequence[str] | None) -> dict[str, int]:
    """The next offset of each address; ``addresses`` None: of whatever streams it has. Raises BadOffset for an offset
    of another query."""
    offsets = _offsets(json, "stream", addresses)
    if not all(isinstance(offset, int) and offset >= 0 for offset in offsets.values()):
        raise BadOffset(f"the checkpoint has the offsets {offsets!r}; they must be whole numbers")
    return {address: offset for address, offset in offsets.items() if isinstance(offset, int)}


def first_offsets(json: Mapping[str, object]) -> dict[str, int]:
    """Where streams begin that a micro-batch has found, and the one before it did not have. Raises BadOffset."""
    found = json.get("found", {})
    if not isinstance(found, dict) or not all(isinstance(offset, int) and offset >= 0 for offset in found.values()):
        raise BadOffset(f"the checkpoint has found streams at {found!r}; they must be whole numbers")
    return dict(found)


def with_found(json: Json, found: Mapping[str, int]) -> Json:
    """Offsets, with the first offsets of streams that were found."""
    return json | {"found": dict(sorted(found.items()))} if found else json


def _offsets(json: Mapping[str, object], mode: str, addresses: Sequence[str] | None) -> dict[str, object]:
    offsets = json.get("offsets")
    if json.get("amqp10") != VERSION or not isinstance(offsets, dict):
        raise BadOffset("the checkpoint is not of an amqp10 source of this version: use another checkpointLocation")
    if json.get("mode") != mode:
        raise BadOffset(
            f"the checkpoint is of a query with mode {json.get('mode')!r}, this one has {mode!r}: use another "
            "checkpointLocation, or the former mode"
        )
    if addresses is not None and set(offsets) != set(addresses):
        raise BadOffset(
            f"the checkpoint is of a query that reads {', '.join(sorted(map(str, offsets)))}, this one reads "
            f"{', '.join(sorted(addresses))}: use another checkpointLocation, or the former addresses"
        )
    return offsets


def admitted(start: Mapping[str, int], latest: Mapping[str, int], rows_max: int | None) -> dict[str, int]:
    """The end of a micro-batch that begins at ``start`` and has at most ``rows_max`` rows, shared out by backlog.

    It is never beyond ``latest`` or before ``start``, and beyond ``start`` for each address with a backlog while rows
    are left.
    """
    backlog = {address: max(0, latest[address] - offset) for address, offset in start.items()}
    total = sum(backlog.values())
    if rows_max is None or total <= rows_max:
        return {address: start[address] + rows for address, rows in backlog.items()}
    ends = dict(start)
    left_rows, left_total = rows_max, total
    for address in sorted(backlog, key=lambda one: (backlog[one], one)):
        rows = min(backlog[address], -(-left_rows * backlog[address] // left_total) if left_total else 0, left_rows)
        ends[address] += rows
        left_rows -= rows
        left_total -= backlog[address]
    return ends


def split(ranges: Sequence[OffsetRange], partitions: int | None) -> list[OffsetRange]:
    """The ranges that are not empty, cut into at least ``partitions`` ranges where there are enough offsets.

    Each is cut into equal pieces by its share of all offsets; every offset is in exactly one piece.
    """
    ranges = [one for one in ranges if one.end > one.first]
    if partitions is None or len(ranges) >= partitions:
        return ranges
    total = sum(one.end - one.first for one in ranges)
    pieces: list[OffsetRange] = []
    for one in ranges:
        size = one.end - one.first
        count = min(size, max(1, -(-partitions * size // total)))
        cuts = [one.first + size * index // count for index in range(count + 1)]
        pieces += [one._replace(first=low, end=high) for low, high in pairwise(cuts)]
    return pieces


# --- queues --------------------------------------------------------------------------------------------------------


class Numbers:
    """A set of sequence numbers, as ranges. Immutable: every change makes another one."""

    __slots__ = ("ranges",)

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self.ranges = tuple(ranges)
        """Both ends inclusive, ascending, neither overlapping nor adjoining."""

    def __contains__(self, number: int) -> bool:
        index = bisect_right(self.ranges, number, key=lambda one: one[0]) - 1
        return index >= 0 and number <= self.ranges[index][1]

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numbers) and self.ranges == other.ranges

    def __hash__(self) -> int:
        return hash(self.ranges)

    def __repr__(self) -> str:
        return f"Numbers({list(self.ranges)})"

    def __or__(self, other: "Numbers") -> "Numbers":
        return Numbers(_joined(sorted((*self.ranges, *other.ranges))))

    def __sub__(self, other: "Numbers") -> "Numbers":
        left: list[tuple[int, int]] = []
        for first, last in self.ranges:
            at = first
            for low, high in other.ranges:
                if high < at or low > last:
                    continue
                if low > at:
                    left.append((at, low - 1))
                at = max(at, high + 1)
            if at <= last:
                left.append((at, last))
        return Numbers(left)

    def __and__(self, other: "Numbers") -> "Numbers":
        return self - (self - other)

    def pieces(self, count: int) -> "list[Numbers]":
        """The set cut into ``count`` pieces in order, whose sizes differ by one at most; fewer where there are fewer
        numbers."""
        total = len(self)
        cuts = [total * index // count for index in range(count + 1)]
        return [self._between(low, high) for low, high in pairwise(cuts) if low < high]

    def _between(self, low: int, high: int) -> "Numbers":
        """The numbers at these places, ``high`` exclusive."""
        found: list[tuple[int, int]] = []
        at = 0
        for first, last in self.ranges:
            begin, end = max(low - at, 0), min(high - at, last - first + 1)
            if begin < end:
                found.append((first + begin, first + end - 1))
            at += last - first + 1
        return Numbers(found)

    @classmethod
    def of_ranges(cls, ranges: Iterable[tuple[int, int]]) -> "Numbers":
        """Make the set of ranges in any order, both ends inclusive."""
        return cls(_joined(sorted(ranges)))

    @classmethod
    def of(cls, numbers: Iterable[int]) -> "Numbers":
        """Make the set of single numbers in any order."""
        return cls(_joined(sorted((number, number) for number in numbers)))

    def newest(self, ranges_max: int) -> "Numbers":
        """The set without its lowest ranges, so that ``ranges_max`` ranges are left."""
        return Numbers(self.ranges[-ranges_max:])


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


class QueueOffset(NamedTuple):
    """How far one queue has been read.

    ``committed`` are the sequence numbers, for a broker that stamps them. ``fetched`` is the number of messages that
    were fetched: it makes every batch's offset different, and where there are no numbers it gives the batch's size.
    """

    committed: Numbers
    fetched: int


def queue_json(offsets: Mapping[str, QueueOffset], lag: Json | None = None) -> Json:
    """The checkpoint's form of how far each address has been read; ``lag`` is for readers of a query's progress."""
    read: Json = {
        "amqp10": VERSION,
        "mode": "queue",
        "offsets": {
            address: {"fetched": offset.fetched, "committed": [list(one) for one in offset.committed.ranges]}
            for address, offset in sorted(offsets.items())
        },
    }
    return read if lag is None else read | {"lag": lag}


def queue_offsets(json: Mapping[str, object], addresses: Sequence[str]) -> dict[str, QueueOffset]:
    """How far each address has been read. Raises BadOffset for an offset of another query."""
    read: dict[str, QueueOffset] = {}
    for address, offset in _offsets(json, "queue", addresses).items():
        try:
            fetched, ranges = offset["fetched"], offset["committed"]  # type: ignore[index]
            read[address] = QueueOffset(Numbers((int(first), int(last)) for first, last in ranges), int(fetched))
        except (TypeError, KeyError, ValueError):
            raise BadOffset(f"the checkpoint has {offset!r} for {address}; it is no offset of a queue") from None
    return read
