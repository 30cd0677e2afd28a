"""The outcomes of messages that were sent, in ranges, awaited without a task for each message.

A :class:`Receipt` stands for the messages of one ``post``. It keeps one record per range of messages with the same
outcome, so its size does not depend on their number when all are accepted. The sender holds a receipt only while
outcomes are missing; afterwards it exists as long as the user keeps it.

Besides the four outcomes of the specification [3.4] the client itself reports three more.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import trio

from amqp10.wire.messaging import Accepted, Modified, Rejected, Released


@dataclass(frozen=True, slots=True)
class Sent:
    """The message was sent settled, so no outcome will come."""


@dataclass(frozen=True, slots=True)
class Unsent:
    """The message was never sent: it can be sent again without making a duplicate."""

    reason: str


@dataclass(frozen=True, slots=True)
class Uncertain:
    """The message was sent, and its outcome will never be known: sending it again may make a duplicate."""

    reason: str


SENT = Sent()

Fate = Accepted | Rejected | Released | Modified | Sent | Unsent | Uncertain
"""The outcome of a message. Only :class:`Accepted` means that the broker has taken it."""


class FateRange(NamedTuple):
    """Messages ``first`` to ``last`` (both inclusive), which all have the same fate."""

    first: int
    last: int
    fate: Fate

    @property
    def messages(self) -> int:
        """The number of messages."""
        return self.last - self.first + 1


def merged(ranges: Iterable[FateRange]) -> list[FateRange]:
    """The ranges in order, with adjoining ones of the same fate merged."""
    result: list[FateRange] = []
    for piece in sorted(ranges, key=lambda piece: piece.first):
        if result and result[-1].last + 1 == piece.first and result[-1].fate == piece.fate:
            result[-1] = FateRange(result[-1].first, piece.last, piece.fate)
        else:
            result.append(piece)
    return result


class Receipt:
    """The messages of one ``post``: the sender's numbers ``first`` to before ``end``."""

    __slots__ = ("_closed", "_missing", "_ranges", "_waiters", "end", "first")

    def __init__(self, first: int) -> None:
        self.first = first
        self.end = first
        self._missing = 0
        self._closed = False
        self._ranges: list[FateRange] = []
        self._waiters = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def done(self) -> bool:
        """The fate of every message is known, and no further message will be added."""
        return self._closed and self._missing == 0

    async def fates(self) -> list[FateRange]:
        """Wait for the fate of every message; returns all of them, in ranges, in order."""
        if self.done:
            await trio.lowlevel.checkpoint()
        while not self.done:
            await self._waiters.park()
        self._ranges = merged(self._ranges)
        return list(self._ranges)

    def so_far(self) -> list[FateRange]:
        """The fates that are known now."""
        return merged(self._ranges)

    # --- the sender's side -----------------------------------------------------------------------------------------

    def extend(self, n: int) -> None:
        """Add ``n`` more messages."""
        self.end += n
        self._missing += n

    def close(self) -> None:
        """No further message will be added."""
        self._closed = True
        self._tell()

    def note(self, first: int, last: int, fate: Fate) -> int:
        """Record the fate of the messages in this range that belong to this receipt. Returns how many they are."""
        low, high = max(first, self.first), min(last, self.end - 1)
        if low > high:
            return 0
        tail = self._ranges[-1] if self._ranges else None
        if tail is not None and tail.last + 1 == low and tail.fate == fate:
            self._ranges[-1] = FateRange(tail.first, high, fate)
        else:
            self._ranges.append(FateRange(low, high, fate))
        self._missing -= high - low + 1
        self._tell()
        return high - low + 1

    def missing_ranges(self) -> list[tuple[int, int]]:
        """Messages whose fate is not known yet, as ranges, both ends inclusive."""
        ranges, following = [], self.first
        for piece in merged(self._ranges):
            if following < piece.first:
                ranges.append((following, piece.first - 1))
            following = piece.last + 1
        if following < self.end:
            ranges.append((following, self.end - 1))
        return ranges

    def _tell(self) -> None:
        if self.done:
            self._waiters.unpark_all()


class OpenReceipts:
    """The receipts of one sender for which fates are missing, oldest first."""

    __slots__ = ("_receipts", "missing")

    def __init__(self) -> None:
        self._receipts: deque[Receipt] = deque()
        self.missing = 0
        """Messages whose fate is not known."""

    def add(self, receipt: Receipt, n: int) -> None:
        """Add ``n`` more messages to this receipt, which is the newest."""
        if not self._receipts or self._receipts[-1] is not receipt:
            self._receipts.append(receipt)
        receipt.extend(n)
        self.missing += n

    def note(self, first: int, last: int, fate: Fate) -> None:
        """Record the fate of a range of messages in the receipts to which they belong."""
        for receipt in self._receipts:
            if receipt.first > last:
                break
            self.missing -= receipt.note(first, last, fate)
        while self._receipts and self._receipts[0].done:
            self._receipts.popleft()

    def give_up(self, fate: Fate) -> None:
        """Give all messages without a fate this one."""
        for receipt in list(self._receipts):
            for first, last in receipt.missing_ranges():
                self.note(first, last, fate)
