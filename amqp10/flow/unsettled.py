"""Unsettled deliveries by delivery-id, in ranges, and outgoing dispositions, coalesced [2.6.12].

Delivery-ids belong to a session, deliveries to a link: a disposition names a range of ids that may cover several
links, gaps, and ids that were never used. A range is therefore intersected with the deliveries that exist, and no code
loops over the range. Ids here are extended (unbounded), so ordinary arithmetic holds.

Consecutive deliveries of one link are one record, whatever their number. With one link on a session the map has one
record, and settling in order is constant work for any number of messages.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

Owner = TypeVar("Owner")
State = TypeVar("State")


class DeliveryIdRange(NamedTuple, Generic[Owner]):
    """The delivery-ids ``first`` to ``last`` of one owner, which have the owner's numbers from ``number`` up."""

    owner: Owner
    first: int
    last: int
    number: int

    @property
    def last_number(self) -> int:
        """The owner's number of the last delivery."""
        return self.number + self.last - self.first


class UnsettledMap(Generic[Owner]):
    """Which deliveries of a session are unsettled in one direction.

    Each delivery has an extended delivery-id and a number that its owner chose; numbers count up with the ids inside a
    record. Invariant: records are sorted by id and do not overlap.
    """

    __slots__ = ("_firsts", "_owned", "_records", "count")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._records: list[DeliveryIdRange[Owner]] = []
        self._owned: dict[Owner, int] = {}
        """How many deliveries of the map each owner has; an owner without any is absent."""
        self.count = 0
        """Deliveries in the map."""

    def add(self, first: int, n: int, owner: Owner, number: int) -> None:
        """Add ``n`` deliveries from id ``first`` up; ids only grow."""
        self.count += n
        self._owned[owner] = self._owned.get(owner, 0) + n
        records = self._records
        if records:
            tail = records[-1]
            assert first > tail.last
            if tail.last + 1 == first and tail.owner is owner and tail.number + first - tail.first == number:
                records[-1] = DeliveryIdRange(owner, tail.first, first + n - 1, tail.number)
                return
        self._firsts.append(first)
        records.append(DeliveryIdRange(owner, first, first + n - 1, number))

    def settle(self, first: int, last: int, most: int | None = None) -> list[DeliveryIdRange[Owner]]:
        """Take out the deliveries with ids in a range, both inclusive, in order of their ids; not more than ``most``
        ranges at a time. Settling in order takes the head of the first record, or all of it."""
        records = self._records
        if not records or first > last:
            return []
        if first == records[0].first and last <= records[0].last:
            owner, first, end, number = record = records[0]
            self._took(owner, last + 1 - first)
            if last == end:
                del records[0], self._firsts[0]
                return [record]
            records[0] = DeliveryIdRange(owner, last + 1, end, number + last + 1 - first)
            self._firsts[0] = last + 1
            return [DeliveryIdRange(owner, first, last, number)]
        begin = max(0, bisect_right(self._firsts, first) - 1)
        end = bisect_right(self._firsts, last)
        if begin < end and records[begin].last < first:
            begin += 1
        if most is not None:
            end = min(end, begin + most)
        taken: list[DeliveryIdRange[Owner]] = []
        kept: list[DeliveryIdRange[Owner]] = []
        for record in records[begin:end]:
            if first <= record.first and record.last <= last:
                taken.append(record)
                continue
            low, high = max(first, record.first), min(last, record.last)
            taken.append(DeliveryIdRange(record.owner, low, high, record.number + low - record.first))
            if record.first < low:
                kept.append(DeliveryIdRange(record.owner, record.first, low - 1, record.number))
            if high < record.last:
                kept.append(
                    DeliveryIdRange(record.owner, high + 1, record.last, record.number + high + 1 - record.first)
                )
        records[begin:end] = kept
        self._firsts[begin:end] = [record.first for record in kept]
        for delivery_ids in taken:
            self._took(delivery_ids.owner, delivery_ids.last - delivery_ids.first + 1)
        return taken

    def held_by(self, owner: Owner) -> int:
        """How many deliveries of one owner are in the map."""
        return self._owned.get(owner, 0)

    def overlap(self, first: int, last: int, most: int | None = None) -> list[DeliveryIdRange[Owner]]:
        """The deliveries with ids in a range, both inclusive, in order; they stay in the map. Not more than ``most``
        records are looked at."""
        begin = max(0, bisect_right(self._firsts, first) - 1)
        end = bisect_right(self._firsts, last)
        if most is not None:
            end = min(end, begin + most)
        found = []
        for record in self._records[begin:end]:
            low, high = max(first, record.first), min(last, record.last)
            if low <= high:
                found.append(DeliveryIdRange(record.owner, low, high, record.number + low - record.first))
        return found

    def forget(self, owner: Owner) -> list[DeliveryIdRange[Owner]]:
        """Take out all deliveries of one owner, in order. Takes constant time for an owner without any."""
        if owner not in self._owned:
            return []
        taken = [record for record in self._records if record.owner is owner]
        self._records = [record for record in self._records if record.owner is not owner]
        self._firsts = [record.first for record in self._records]
        self._took(owner, self._owned[owner])
        return taken

    def clear(self) -> None:
        """Forget everything."""
        self._records.clear()
        self._firsts.clear()
        self._owned.clear()
        self.count = 0

    def _took(self, owner: Owner, n: int) -> None:
        self.count -= n
        left = self._owned[owner] - n
        if left:
            self._owned[owner] = left
        else:
            del self._owned[owner]

    def ranges(self) -> list[DeliveryIdRange[Owner]]:
        """All records, in order of their ids."""
        return list(self._records)


class UnsettledLimit(Generic[Owner]):
    """Bounds the deliveries of a session that only their sender can settle: those of links whose rcv-settle-mode is
    second [2.8.3]. Nothing else ends them, so a sender that never settles would fill any memory.

    Owners tell how many they have whenever the receiver has given outcomes and whenever the sender has settled; what
    comes in between is covered by link credit.
    """

    __slots__ = ("_counts", "count", "held", "maximum")

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.count = 0
        """The deliveries that were told."""
        self.held: dict[Owner, None] = {}
        """Owners that get no more link credit before the count is below the maximum again."""
        self._counts: dict[Owner, int] = {}

    def tell(self, owner: Owner, n: int) -> bool:
        """An owner has ``n`` of them now. Returns whether it is held, because the limit is reached."""
        self.count += n - self._counts.get(owner, 0)
        self._counts[owner] = n
        if self.count >= self.maximum:
            self.held[owner] = None
        return owner in self.held

    def forget(self, owner: Owner) -> None:
        """An owner is over, and its deliveries are."""
        self.count -= self._counts.pop(owner, 0)
        self.held.pop(owner, None)

    def released(self) -> Iterable[Owner]:
        """Take the owners that were held and are no longer; none while the limit is reached."""
        if self.count >= self.maximum or not self.held:
            return ()
        released, self.held = self.held, {}
        return released

    def clear(self) -> None:
        """Forget everything."""
        self.count = 0
        self.held.clear()
        self._counts.clear()


class PendingDisposition(NamedTuple, Generic[State]):
    """A disposition frame that will be sent: extended ids, both inclusive."""

    first: int
    last: int
    settled: bool
    state: State


class DispositionBatch(Generic[State]):
    """Dispositions of one direction in the order they were made; adjoining ones with the same state are merged."""

    __slots__ = ("pending",)

    def __init__(self) -> None:
        self.pending: list[PendingDisposition[State]] = []
        """Callers may read it, to save a call when it is empty."""

    def add(self, first: int, last: int, state: State, *, settled: bool) -> None:
        """Add a disposition for a range; it extends the previous one if that adjoins and has the same state."""
        if self.pending:
            tail = self.pending[-1]
            if tail.last + 1 == first and tail.settled == settled and (tail.state is state or tail.state == state):
                self.pending[-1] = PendingDisposition(tail.first, last, settled, state)
                return
        self.pending.append(PendingDisposition(first, last, settled, state))

    def take(self) -> list[PendingDisposition[State]]:
        """All of them, oldest first; the batch is empty afterwards."""
        pending, self.pending = self.pending, []
        return pending
