"""The outcomes of messages that were sent, in ranges.

:class:`Outcomes` stands for the messages of one call. It keeps one record per range of messages with the same outcome,
so its size does not depend on their number when all are accepted. A sender holds it in :class:`OpenOutcomes` only while
outcomes are missing; afterwards it exists as long as its user keeps it.

Besides the four outcomes of the specification [3.4] the client itself reports three more.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from amqp10.wire.messaging import Accepted, DeliveryState, Modified, Rejected, Released


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


def as_fate(state: DeliveryState | None) -> Fate:
    """The fate of messages that the broker settled with this state; None stands for no state."""
    return state if isinstance(state, Fate) else Uncertain("the broker settled without an outcome")


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


class Outcomes:
    """The outcomes of the messages with a sender's numbers ``first`` to before ``end``."""

    __slots__ = ("_closed", "_missing", "_ranges", "end", "first", "when_done")

    def __init__(self, first: int) -> None:
        self.first = first
        self.end = first
        self.when_done: Callable[[], object] | None = None
        """Called when the last outcome is known."""
        self._missing = 0
        self._closed = False
        self._ranges: list[FateRange] = []

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def done(self) -> bool:
        """The fate of every message is known, and no further message will be added."""
        return self._closed and self._missing == 0

    def so_far(self) -> list[FateRange]:
        """The fates that are known now, in order."""
        self._ranges = merged(self._ranges)
        return list(self._ranges)

    def extend(self, n: int) -> None:
        """Add ``n`` more messages, or with a negative number take the newest away, which must have no fate."""
        self.end += n
        self._missing += n

    def close(self) -> None:
        """No further message will be added."""
        self._closed = True
        self._tell()

    def note(self, first: int, last: int, fate: Fate) -> int:
        """Record the fate of the messages in this range that are among these. Returns how many they are."""
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
        if self.done and self.when_done is not None:
            self.when_done()


class OpenOutcomes:
    """The outcomes of one sender of which some are missing, oldest first."""

    __slots__ = ("_open", "missing")

    def __init__(self) -> None:
        self._open: deque[Outcomes] = deque()
        self.missing = 0
        """Messages whose fate is not known."""

    def add(self, outcomes: Outcomes, n: int) -> None:
        """Add ``n`` more messages to these outcomes, which are the newest; a negative number takes some away."""
        if not self._open or self._open[-1] is not outcomes:
            self._open.append(outcomes)
        outcomes.extend(n)
        self.missing += n

    def note(self, first: int, last: int, fate: Fate) -> None:
        """Record the fate of a range of messages in the outcomes to which they belong."""
        for outcomes in self._open:
            if outcomes.first > last:
                break
            self.missing -= outcomes.note(first, last, fate)
        while self._open and self._open[0].done:
            self._open.popleft()

    def give_up(self, fate: Fate) -> None:
        """Give all messages without a fate this one."""
        for outcomes in list(self._open):
            for first, last in outcomes.missing_ranges():
                self.note(first, last, fate)
