"""What a channel has delivered and not had acknowledged: delivery tags, in ranges, to consumers' delivery numbers.

Delivery tags count from 1 on a channel, over all its consumers; the engine's delivery numbers count per consumer
[0-9-1 basic.deliver]. Deliveries of one consumer that follow each other in both are one record, however many they
are. An acknowledgement is intersected with the records by bisection: O(log n) and what it touches.

Invariants: records are in ascending order of their tags, none is empty, and they do not overlap. ``total`` is the sum
of the consumers' counts.

A tag that was never given out, or is acknowledged already, is the peer's fault, and nothing else is. Where a queue
is gone, its deliveries can still be acknowledged: their records stay, as nobody's, and count for nothing.
"""

from bisect import bisect_right
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

Owner = TypeVar("Owner", bound=Hashable)


class Piece(NamedTuple, Generic[Owner]):
    """Deliveries that were taken out: a consumer's delivery numbers, both inclusive."""

    consumer: Owner
    first: int
    last: int


class UnknownDeliveryTag(Exception, Generic[Owner]):
    """The peer named a delivery tag that is not outstanding: 406 PRECONDITION_FAILED."""

    def __init__(self, tag: int, taken: list[Piece[Owner]]) -> None:
        super().__init__(f"unknown delivery tag {tag}")
        self.tag = tag
        self.taken = taken
        """What was taken out before this tag was found to be unknown; it is acknowledged."""


class _Record(NamedTuple, Generic[Owner]):
    """Tags ``first`` to ``last`` are the consumer's delivery numbers from ``number`` up; None for nobody's."""

    consumer: Owner | None
    first: int
    last: int
    number: int


class Unacked(Generic[Owner]):
    """The outstanding deliveries of one channel."""

    __slots__ = ("_counts", "_firsts", "_last_tag", "_records", "_used_up", "total")

    def __init__(self) -> None:
        self.total = 0
        """Deliveries outstanding, of all consumers."""
        self._last_tag = 0
        self._records: list[_Record[Owner]] = []
        self._firsts: list[int] = []
        self._used_up = 0
        """Places at the front of both lists that count no longer. Acknowledgements come in order, and a list that
        lost its front each time would be moved each time."""
        self._counts: dict[Owner, int] = {}
        """Without those that have nothing outstanding."""

    def count(self, consumer: Owner) -> int:
        """Deliveries outstanding of one consumer."""
        return self._counts.get(consumer, 0)

    def append(self, consumer: Owner, first_number: int, n: int) -> int:
        """``n`` deliveries of a consumer, with its numbers from ``first_number`` up. Returns the first one's tag."""
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
        """``n`` deliveries that want no acknowledgement use up tags all the same. Returns the first one's."""
        first = self._last_tag + 1
        self._last_tag += n
        return first

    def take(self, tag: int) -> list[Piece[Owner]]:
        """Take out one delivery. Raises UnknownDeliveryTag."""
        return self.take_range(tag, tag)

    def take_range(self, first: int, last: int) -> list[Piece[Owner]]:
        """Take out the deliveries with these tags (both inclusive), as if one by one.

        Raises UnknownDeliveryTag for the first one that is not outstanding, with what was taken out before it.
        """
        if self._cuts_front(first, last):
            return self._cut_front(last)
        low = high = self._place(first)
        due = first
        while high < len(self._records) and due <= last and self._firsts[high] <= due <= self._records[high].last:
            due = self._records[high].last + 1
            high += 1
        taken = self._take(low, high, first, min(last, due - 1))
        if due <= last:
            raise UnknownDeliveryTag(due, taken)
        return taken

    def take_up_to(self, tag: int) -> list[Piece[Owner]]:
        """Take out all deliveries up to this tag, in order; 0 stands for the last one there is.

        Raises UnknownDeliveryTag for a tag that is itself not outstanding; nothing is taken out then.
        """
        if tag == 0:
            return self.take_all()
        place = self._place(tag)
        if place == len(self._records) or not self._firsts[place] <= tag <= self._records[place].last:
            raise UnknownDeliveryTag[Owner](tag, [])
        return self._take(self._used_up, place + 1, 1, tag)

    def take_all(self) -> list[Piece[Owner]]:
        """Take out everything, in order."""
        return self._take(self._used_up, len(self._records), 1, self._last_tag)

    def forget(self, consumer: Owner) -> None:
        """The consumer's queue is gone: what it has outstanding is nobody's. Linear in the number of records."""
        n = self._counts.pop(consumer, 0)
        if not n:
            return
        self.total -= n
        kept: list[_Record[Owner]] = []
        for record in self._records[self._used_up :]:
            if record.consumer is not consumer:
                kept.append(record)
            elif kept and kept[-1].consumer is None and kept[-1].last + 1 == record.first:
                kept[-1] = _Record(None, kept[-1].first, record.last, 0)
            else:
                kept.append(_Record(None, record.first, record.last, 0))
        self._records = kept
        self._firsts = [record.first for record in kept]
        self._used_up = 0

    def _cuts_front(self, first: int, last: int) -> bool:
        """The range is the front of the oldest record, and not all of it, as acknowledgements in order mostly are."""
        place = self._used_up
        return bool(self._records) and self._firsts[place] == first <= last < self._records[place].last

    def _cut_front(self, last: int) -> list[Piece[Owner]]:
        """Take the tags up to ``last`` out of the oldest record, which has more."""
        place = self._used_up
        consumer, first, its_last, number = self._records[place]
        n = last + 1 - first
        self._records[place] = _Record(consumer, last + 1, its_last, number + n)
        self._firsts[place] = last + 1
        if consumer is None:
            return []
        self._took(consumer, n)
        return [Piece(consumer, number, number + n - 1)]

    def _place(self, tag: int) -> int:
        """Where the record of this tag is, if there is one; else where some other one is, or none."""
        return max(self._used_up, bisect_right(self._firsts, tag, self._used_up) - 1)

    def _take(self, low: int, high: int, first: int, last: int) -> list[Piece[Owner]]:
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
        taken: list[Piece[Owner]] = []
        for consumer, its_first, its_last, number in records:
            if consumer is None:
                continue
            from_tag, to_tag = max(first, its_first), min(last, its_last)
            taken.append(Piece(consumer, number + from_tag - its_first, number + to_tag - its_first))
            self._took(consumer, to_tag - from_tag + 1)
        self._replace(low, high, kept)
        return taken

    def _took(self, consumer: Owner, n: int) -> None:
        self.total -= n
        left = self._counts[consumer] - n
        if left:
            self._counts[consumer] = left
        else:
            del self._counts[consumer]

    def _replace(self, low: int, high: int, kept: list[_Record[Owner]]) -> None:
        """Put what is left of some records in their place."""
        if low == self._used_up:  # at the front, only what is left is written
            low = max(low, high - len(kept))
            self._used_up = low
        self._records[low:high] = kept
        self._firsts[low:high] = [record.first for record in kept]
        if 2 * self._used_up > len(self._records):
            del self._records[: self._used_up]
            del self._firsts[: self._used_up]
            self._used_up = 0
