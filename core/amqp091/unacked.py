"""The unacknowledged deliveries of a channel: maps ranges of delivery tags to consumers' delivery numbers.

Delivery tags count from 1 on a channel, over all its consumers; the engine's delivery numbers count per consumer [0-9-1
basic.deliver]. Deliveries of one consumer that are consecutive in both are one record, however many they are. An
acknowledgement is intersected with the records by bisection, in O(log n) plus the records that it touches.

Invariants: records are in ascending order of their tags, none is empty, and they do not overlap. ``total`` is the sum
of the consumers' counts.

Acknowledging a tag that was never used, or is acknowledged already, is the peer's fault; nothing else is. When a queue
is deleted, or has taken its deliveries back, these can still be acknowledged: their records stay without a consumer,
and are not counted.

The number of records taken out at once is bounded; the caller continues where the returned value says.
"""

from bisect import bisect_right
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

Owner = TypeVar("Owner", bound=Hashable)

RECORDS_AT_ONCE = 64
"""Records taken out in one step: each is a range that is settled by itself, which takes 10 to 15 us."""


class DeliveryRange(NamedTuple, Generic[Owner]):
    """Deliveries that were taken out: a consumer, and its first and last delivery number."""

    consumer: Owner
    first: int
    last: int


class UnknownDeliveryTag(Exception, Generic[Owner]):
    """The peer named a delivery tag that is not outstanding: 406 PRECONDITION_FAILED."""

    def __init__(self, tag: int, taken: list[DeliveryRange[Owner]]) -> None:
        super().__init__(f"unknown delivery tag {tag}")
        self.tag = tag
        self.taken = taken
        """The ranges before the unknown tag, which were taken out; they are acknowledged."""


class _Record(NamedTuple, Generic[Owner]):
    """Tags ``first`` to ``last`` stand for the consumer's delivery numbers from ``number`` up."""

    consumer: Owner | None  # None: acknowledging these tags has no effect
    first: int
    last: int
    number: int


class Unacked(Generic[Owner]):
    """The outstanding deliveries of one channel."""

    __slots__ = ("_at_once", "_counts", "_firsts", "_last_tag", "_records", "_used_up", "total")

    def __init__(self, records_at_once: int = RECORDS_AT_ONCE) -> None:
        self._at_once = records_at_once
        self.total = 0
        """Deliveries outstanding, of all consumers."""
        self._last_tag = 0
        self._records: list[_Record[Owner]] = []
        self._firsts: list[int] = []
        self._used_up = 0
        """Unused places at the front of both lists. Acknowledgements come in order, and removing the front of a list
        each time would move the whole list each time."""
        self._counts: dict[Owner, int] = {}
        """Outstanding deliveries of each consumer; without consumers that have none."""

    @property
    def newest(self) -> int:
        """The highest tag outstanding; 0 for none."""
        return self._records[-1].last if self._records else 0

    def consumers(self) -> list[Owner]:
        """Consumers with outstanding deliveries."""
        return list(self._counts)

    def count(self, consumer: Owner) -> int:
        """Deliveries outstanding of one consumer."""
        return self._counts.get(consumer, 0)

    def append(self, consumer: Owner, first_number: int, n: int) -> int:
        """Add ``n`` deliveries of a consumer, with its numbers from ``first_number`` up. Returns the first one's
        tag."""
        first = self.skip(n)
        last = self._last_tag
        self.total += n
        self._counts[consumer] = self.count(consumer) + n
        if self._records:
            before = self._records[-1]
            adjoins = before.last + 1 == first and before.number + first - before.first == first_number
            if adjoins and before.consumer is consumer:
                self._records[-1] = _Record(consumer, before.first, last, before.number)
                return first
        self._records.append(_Record(consumer, first, last, first_number))
        self._firsts.append(first)
        return first

    def skip(self, n: int) -> int:
        """Use up ``n`` tags for deliveries that need no acknowledgement. Returns the first tag."""
        first = self._last_tag + 1
        self._last_tag += n
        return first

    def take(self, tag: int) -> list[DeliveryRange[Owner]]:
        """Take out one delivery. Raises UnknownDeliveryTag."""
        return self.take_range(tag, tag)[0]

    def take_range(self, first: int, last: int) -> tuple[list[DeliveryRange[Owner]], int]:
        """Take out the deliveries with these tags (both inclusive), in order, or as many as one step may. Returns them,
        and the tag to continue with, which is beyond ``last`` when that was all.

        Raises UnknownDeliveryTag for the first tag that is not outstanding, with the ranges that were taken out before
        it.
        """
        if self._cuts_front(first, last):
            return self._cut_front(last), last + 1
        low = high = self._place(first)
        stop = low + self._at_once
        due = first
        while high < min(stop, len(self._records)) and self._firsts[high] <= due <= min(last, self._records[high].last):
            due = self._records[high].last + 1
            high += 1
        taken = self._take(low, high, first, min(last, due - 1))
        if due <= last and high < stop:
            raise UnknownDeliveryTag(due, taken)
        return taken, min(due, last + 1)

    def take_up_to(self, tag: int) -> tuple[list[DeliveryRange[Owner]], int]:
        """Take out all deliveries up to this tag, in order, or as many as one step may. Returns them, and the tag to
        continue from, which is beyond ``tag`` when that was all.

        Raises UnknownDeliveryTag for a tag that is itself not outstanding; then nothing is taken out.
        """
        place = self._place(tag)
        if place == len(self._records) or not self._firsts[place] <= tag <= self._records[place].last:
            raise UnknownDeliveryTag[Owner](tag, [])
        high = self._used_up + self._at_once
        last = tag
        if high <= place:
            last = self._records[high - 1].last
        else:
            high = place + 1
        return self._take(self._used_up, high, 1, last), last + 1

    def forget(self, consumer: Owner) -> None:
        """The deliveries of a consumer so far are its own no longer: its queue was deleted, or has taken them back.
        They count no more, and acknowledging their tags has no effect."""
        count = self._counts.pop(consumer, 0)
        if not count:
            return
        self.total -= count
        records: list[_Record[Owner]] = []
        for record in self._records[self._used_up :]:
            if record.consumer is consumer:
                record = _Record(None, record.first, record.last, 0)
            if record.consumer is None and records and records[-1].consumer is None:
                before = records[-1]
                if before.last + 1 == record.first:
                    records[-1] = _Record(None, before.first, record.last, 0)
                    continue
            records.append(record)
        self._records, self._firsts, self._used_up = records, [record.first for record in records], 0

    def _cuts_front(self, first: int, last: int) -> bool:
        """Whether the range is the front of the oldest record and not all of it, as with most acknowledgements in
        order."""
        place = self._used_up
        return bool(self._records) and self._firsts[place] == first <= last < self._records[place].last

    def _cut_front(self, last: int) -> list[DeliveryRange[Owner]]:
        """Take the tags up to ``last`` out of the oldest record, which has more tags."""
        place = self._used_up
        consumer, first, its_last, number = self._records[place]
        n = last + 1 - first
        self._records[place] = _Record(consumer, last + 1, its_last, number + n)
        self._firsts[place] = last + 1
        if consumer is None:
            return []
        self._took(consumer, n)
        return [DeliveryRange(consumer, number, number + n - 1)]

    def _place(self, tag: int) -> int:
        """The index of the record with this tag, if there is one; otherwise the index of another record, or none."""
        return max(self._used_up, bisect_right(self._firsts, tag, self._used_up) - 1)

    def _take(self, low: int, high: int, first: int, last: int) -> list[DeliveryRange[Owner]]:
        """Take the tags in a range out of these records, each of which has some of them."""
        if low == high:
            return []
        records = self._records[low:high]
        kept: list[_Record[Owner]] = []
        head, tail = records[0], records[-1]
        if head.first < first:
            kept.append(_Record(head.consumer, head.first, first - 1, head.number))
        if last < tail.last:
            kept.append(_Record(tail.consumer, last + 1, tail.last, tail.number + last + 1 - tail.first))
        taken: list[DeliveryRange[Owner]] = []
        for consumer, its_first, its_last, number in records:
            if consumer is not None:
                from_tag, to_tag = max(first, its_first), min(last, its_last)
                self._took(consumer, to_tag - from_tag + 1)
                taken.append(DeliveryRange(consumer, number + from_tag - its_first, number + to_tag - its_first))
        self._replace(low, high, kept)
        return taken

    def _took(self, consumer: Owner, n: int) -> None:
        """Count ``n`` deliveries less."""
        outstanding = self._counts[consumer]
        self.total -= n
        if outstanding > n:
            self._counts[consumer] = outstanding - n
        else:
            del self._counts[consumer]

    def _replace(self, low: int, high: int, kept: list[_Record[Owner]]) -> None:
        """Replace some records by what is left of them."""
        if low == self._used_up:  # at the front, only the remaining records are written
            low = max(low, high - len(kept))
            self._used_up = low
        self._records[low:high] = kept
        self._firsts[low:high] = [record.first for record in kept]
        if 2 * self._used_up > len(self._records):
            del self._records[: self._used_up]
            del self._firsts[: self._used_up]
            self._used_up = 0
