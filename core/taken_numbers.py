"""Which publishing ids a queue has taken on, by publisher: what tells a repeated message from a new one.

A publisher names its messages with its own name and a *publishing id*, a number that it uses for one message only. Ids
that follow each other are one range, so a publisher that counts up costs one range, however many messages it sends.
What is remembered is bounded: see :meth:`TakenNumbers.add`.

Invariants: the ranges of a publisher are ascending and do not touch; ``ranges`` is the number of all ranges; publishers
are in the order in which they were last added to.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from core.errors import Invalid

NO_LIMIT = 2**63
KEYS: Final = (("x-opt-publisher", "x-opt-publishing-id"), ("x-opt-spark-batch", "x-opt-spark-row"))
"""The keys by which a message says its publisher and its publishing id. The second pair is that of Spark's sink."""
ENCODED_KEYS: Final = tuple(key.encode() for pair in KEYS for key in pair)
NAMED_BYTES_MAX: Final = 2048
"""The most bytes of annotations, properties or headers in which these keys are looked up: to decode them takes 0.4 ms
at most."""
PUBLISHER_BYTES_MAX: Final = 255
"""The longest name of a publisher, in bytes of UTF-8; queue names have the same limit."""

Packed: TypeAlias = list[list[str | int]]
"""Plain values for the disk, a list for each publisher: its name, the id below which nothing is known, and the ranges:
the first id of each, and the id after its last one."""


class PublishingId(NamedTuple):
    """What identifies a message of a publisher."""

    publisher: str
    number: int


class KnownId(Enum):
    """What is known about a publishing id."""

    NEW = "new"
    TAKEN = "taken"
    FORGOTTEN = "forgotten"
    """It is lower than what is remembered of its publisher."""


class _Ids:
    __slots__ = ("bounds", "floor")

    def __init__(self) -> None:
        self.bounds: list[int] = []
        """The first id of each range and the id after its last one, in turn."""
        self.floor = 0
        """Nothing is known of ids below it."""

    def add(self, first: int, stop: int) -> None:
        bounds = self.bounds
        if bounds and bounds[-1] == first:  # nearly always
            bounds[-1] = stop
            return
        low, high = bisect_left(bounds, first), bisect_right(bounds, stop)
        bounds[low:high] = [*(() if low % 2 else (first,)), *(() if high % 2 else (stop,))]


class TakenNumbers:
    """The publishing ids that were taken on."""

    __slots__ = ("_of", "ranges", "ranges_max")

    def __init__(self, ranges_max: int = NO_LIMIT) -> None:
        """``ranges_max``: the most ranges of all publishers together, 2 or more."""
        self.ranges_max = ranges_max
        self.ranges = 0
        self._of: dict[str, _Ids] = {}

    def known(self, name: PublishingId) -> KnownId:
        """Return whether this message was taken on before."""
        ids = self._of.get(name.publisher)
        if ids is None:
            return KnownId.NEW
        if name.number < ids.floor:
            return KnownId.FORGOTTEN
        return KnownId.TAKEN if bisect_right(ids.bounds, name.number) % 2 else KnownId.NEW

    def add(self, publisher: str, first: int, stop: int) -> None:
        """Remember the ids from ``first`` (inclusive) to ``stop`` (exclusive), but for those below the floor of this
        publisher.

        If that makes too many ranges, others are forgotten: the lowest of this publisher while it has more than half of
        all, else those of the publisher that was last added to the longest time ago.
        """
        ids = self._of.pop(publisher, None) or _Ids()
        self._of[publisher] = ids
        bounds = ids.bounds
        before = len(bounds)
        if stop > ids.floor:
            ids.add(max(first, ids.floor), stop)
        self.ranges += (len(bounds) - before) // 2
        while self.ranges > self.ranges_max:
            if len(bounds) > self.ranges_max:
                ids.floor = bounds[1]
                del bounds[:2]
                self.ranges -= 1
            else:
                oldest = next(iter(self._of))
                self.ranges -= len(self._of.pop(oldest).bounds) // 2

    def merge(self, packed: Packed) -> None:
        """Remember also what these plain values say."""
        for publisher, floor, *bounds in packed:
            assert isinstance(publisher, str)
            for first, stop in zip(bounds[::2], bounds[1::2], strict=True):
                self.add(publisher, int(first), int(stop))
            ids = self._of.get(publisher)
            if ids is not None and int(floor) > ids.floor:
                self._raise_floor(ids, int(floor))

    def packed(self) -> Packed:
        """Return everything as plain values."""
        return [[publisher, ids.floor, *ids.bounds] for publisher, ids in self._of.items()]

    def copy(self) -> "TakenNumbers":
        """Return a copy that changes by itself."""
        copy = TakenNumbers(self.ranges_max)
        copy.merge(self.packed())
        return copy

    def still_in(self, others: "TakenNumbers") -> "TakenNumbers":
        """Return what of this the others still remember: their publishers, above their floors."""
        kept = TakenNumbers()
        for publisher, ids in self._of.items():
            other = others._of.get(publisher)
            if other is not None:
                kept.merge([[publisher, max(ids.floor, other.floor), *ids.bounds]])
        return kept

    def _raise_floor(self, ids: _Ids, floor: int) -> None:
        """Forget the ids of one publisher below ``floor``."""
        before = len(ids.bounds)
        low = bisect_right(ids.bounds, floor)
        ids.bounds[:low] = [floor] if low % 2 else []
        ids.floor = floor
        self.ranges -= (before - len(ids.bounds)) // 2


def publishing_id(fields: Mapping[str, object]) -> PublishingId | None:
    """Return what these fields of a message say of its publisher; None if they say nothing. Raises Invalid."""
    for publisher_key, number_key in KEYS:
        if publisher_key not in fields and number_key not in fields:
            continue
        publisher, number = fields.get(publisher_key), fields.get(number_key)
        if not isinstance(publisher, str) or not 0 < len(publisher.encode()) <= PUBLISHER_BYTES_MAX:
            bounds = f"a text of 1 to {PUBLISHER_BYTES_MAX} bytes"
            raise Invalid(f"{publisher_key} is {_shown(publisher)}, beside {number_key} it must be {bounds}")
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < NO_LIMIT:
            bounds = "an integer from 0 to 2^63 - 1"
            raise Invalid(f"{number_key} is {_shown(number)}, beside {publisher_key} it must be {bounds}")
        return PublishingId(publisher, number)
    return None


def check_size(size: int) -> None:
    """Raises Invalid for fields that are too large to look a publishing id up in them."""
    if size > NAMED_BYTES_MAX:
        raise Invalid(
            f"the fields with {KEYS[0][1]} have {size} bytes, a queue that drops repeats reads {NAMED_BYTES_MAX}; "
            "make them smaller, or publish without a publishing id"
        )


def _shown(value: object) -> str:
    return "not set" if value is None else repr(value)[:80]


def packed(names: Sequence[PublishingId | None]) -> Packed:
    """Return the names of messages as plain values."""
    gathered = TakenNumbers()
    for name in present(names):
        gathered.add(name.publisher, name.number, name.number + 1)
    return gathered.packed()


def present(names: Iterable[PublishingId | None]) -> Iterable[PublishingId]:
    """Iterate over the names that messages have."""
    return (name for name in names if name is not None)
