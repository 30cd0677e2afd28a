"""The ledger of sent and received messages: the proof that a run lost, duplicated and reordered none.

A message is named by its publisher and its sequence number, counted from 0 by each publisher. The messages of one
consumer are kept as ranges in order of arrival, so a run of consecutive numbers costs as much as one message. The
verdict is made once, at the end, over all consumers together.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

Range = tuple[int, int]
"""First sequence number and count."""


class Arrivals:
    """The messages of one consumer from one publisher, as ranges in order of arrival."""

    __slots__ = ("_counts", "_firsts", "_next")

    def __init__(self) -> None:
        self._firsts = array("Q")
        self._counts = array("Q")
        self._next = -1

    def add(self, first: int, count: int) -> None:
        if first == self._next:
            self._counts[-1] += count
        else:
            self._firsts.append(first)
            self._counts.append(count)
        self._next = first + count

    def ranges(self) -> list[Range]:
        return list(zip(self._firsts, self._counts, strict=True))


class Ledger:
    """The messages of one consumer, by publisher."""

    __slots__ = ("_arrivals", "total")

    def __init__(self) -> None:
        self._arrivals: dict[int, Arrivals] = {}
        self.total = 0

    def add(self, publisher: int, first: int, count: int) -> None:
        """Note that `count` messages of one publisher arrived, numbered from `first` on without a gap."""
        arrivals = self._arrivals.get(publisher)
        if arrivals is None:
            arrivals = self._arrivals[publisher] = Arrivals()
        arrivals.add(first, count)
        self.total += count

    def ranges(self) -> dict[int, list[Range]]:
        return {publisher: arrivals.ranges() for publisher, arrivals in self._arrivals.items()}


@dataclass(frozen=True, slots=True)
class LedgerVerdict:
    """Counts of errors, in messages; a run is valid only when all are 0."""

    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    foreign: int = 0

    @property
    def clean(self) -> bool:
        return not (self.lost or self.duplicated or self.reordered or self.foreign)

    def __add__(self, other: LedgerVerdict) -> LedgerVerdict:
        return LedgerVerdict(
            lost=self.lost + other.lost,
            duplicated=self.duplicated + other.duplicated,
            reordered=self.reordered + other.reordered,
            foreign=self.foreign + other.foreign,
        )

    def __str__(self) -> str:
        return (
            f"{self.lost} lost, {self.duplicated} duplicated, {self.reordered} reordered, "
            f"{self.foreign} that no publisher sent"
        )


def judge(published: Mapping[int, int], consumers: Iterable[Mapping[int, list[Range]]]) -> LedgerVerdict:
    """Compare the number of messages that each publisher sent with the messages that all consumers got.

    A message is *reordered* when a consumer gets it after a later one of the same publisher, and for the first time.
    """
    got = list(consumers)
    verdict = LedgerVerdict()
    for publisher in {*published, *(name for consumer in got for name in consumer)}:
        per_consumer = [consumer[publisher] for consumer in got if publisher in consumer]
        verdict += _judge_publisher(published.get(publisher, 0), per_consumer)
    return verdict


def _judge_publisher(sent: int, per_consumer: list[list[Range]]) -> LedgerVerdict:
    everything = [one for ranges in per_consumer for one in ranges]
    arrived = sum(count for _, count in everything)
    distinct = _distinct(everything)
    foreign = distinct - _distinct(_below(everything, sent))
    return LedgerVerdict(
        lost=sent - (distinct - foreign),
        duplicated=arrived - distinct,
        reordered=sum(_reordered(ranges) for ranges in per_consumer),
        foreign=foreign,
    )


def _below(ranges: list[Range], end: int) -> list[Range]:
    return [(first, min(count, end - first)) for first, count in ranges if first < end]


def _distinct(ranges: list[Range]) -> int:
    """How many different numbers the ranges cover."""
    total = reached = 0
    for first, count in sorted(ranges):
        total += max(0, first + count - max(first, reached))
        reached = max(reached, first + count)
    return total


def _reordered(ranges: list[Range]) -> int:
    """How many numbers came after a higher one, not counting repeated numbers."""
    if all(a[0] + a[1] <= b[0] for a, b in pairwise(ranges)):
        return 0
    late = highest = 0
    for first, count in ranges:
        late += max(0, min(first + count, highest) - first)
        highest = max(highest, first + count)
    repeated = sum(count for _, count in ranges) - _distinct(ranges)
    return late - repeated
