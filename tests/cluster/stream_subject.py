"""What is known of one stream of a simulated cluster, and the promises about it:

- a confirmed message has the offset that it had when it was confirmed, at every node and for good, until retention has
  removed everything up to there;
- a message that was answered as released is never read, and is in no copy; no message is there twice;
- an offset has the same message and the same time for everyone who ever reads it; times never decrease;
- the messages of each publisher are in order, and offsets have no gap.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from tests.crash.ledger import BARRIERS


class Broken(Exception):
    """A promise was not kept."""


class StreamSubject:
    """One stream, as its clients know it."""

    def __init__(self, name: str) -> None:
        self.confirmed: dict[int, int] = {}
        """The offset of each confirmed message."""
        self._name = name
        self._released: set[int] = set()
        self._read: dict[int, tuple[int, int]] = {}
        """The message and the time at each offset that was read."""

    def took(self, first: int, numbers: Sequence[int]) -> None:
        """These messages were confirmed, with offsets from ``first`` up."""
        for offset, number in enumerate(numbers, first):
            self._check(self.confirmed.setdefault(number, offset) == offset, f"message {number} is confirmed twice")
            there = self._read.get(offset)
            self._check(there is None or there[0] == number, f"offset {offset} was read as {there}, not as {number}")

    def released(self, numbers: Sequence[int]) -> None:
        """These messages were answered as never taken on."""
        self._released.update(numbers)
        found = self._released.intersection(number for number, _ in self._read.values())
        self._check(not found, f"{found} were read, and are answered as never taken on")

    def read(self, first: int, numbers: Sequence[int], stamp_ms: int) -> None:
        """A reader got these messages."""
        for offset, number in enumerate(numbers, first):
            there = self._read.setdefault(offset, (number, stamp_ms))
            self._check(there == (number, stamp_ms), f"offset {offset} is {(number, stamp_ms)}, and was {there}")
            self._check(number not in self._released, f"{number} was answered as never taken on, and is read")

    def audit(self, content: Mapping[int, tuple[int, int]], first: int, end: int) -> None:
        """Check the content of all copies: messages and times by offset, from ``first`` to before ``end``."""
        self._check(sorted(content) == list(range(first, end)), f"the offsets have gaps: {sorted(content)}")
        for number, offset in self.confirmed.items():
            self._check(offset < end, f"{number} was confirmed at {offset}, and the stream ends at {end}")
            if offset >= first:
                self._check(content[offset][0] == number, f"{number} was confirmed at {offset}: {content[offset]}")
        for offset, there in self._read.items():
            self._check(not first <= offset < end or content[offset] == there, f"offset {offset} was {there}")
        numbers = [number for number, _ in content.values()]
        self._check(not self._released.intersection(numbers), "messages that were answered as never taken on")
        for publisher in (0, 1):
            own = [number for number in numbers if (number >= BARRIERS) == publisher]
            self._check(all(one < other for one, other in pairwise(own)), f"not in order, or twice: {own}")
        stamps = [stamp for _, stamp in content.values()]
        self._check(stamps == sorted(stamps), "times go back")

    def _check(self, kept: bool, why: str) -> None:
        if not kept:
            raise Broken(f"{self._name}: {why}")
