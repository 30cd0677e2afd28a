"""What a queue promised before its broker was killed, and whether what it holds afterwards keeps the promise.

Messages are numbers. A number is *confirmed* when the broker said accepted, *uncertain* when it was sent and nothing
was heard. It is *gone* when it was settled and something that was sent after the settlement was confirmed: the lane
writes in order, so the settlement was written before. It is *going* when it was settled and nothing after it was
confirmed. Only what is confirmed may be demanded, and only what is gone must not come back.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

BARRIERS = 10**9
"""Numbers from here on are of another publisher than those below: each has its own order."""


@dataclass(frozen=True, slots=True)
class Found:
    """A message that the queue delivered after the restart."""

    number: int
    redelivered: bool


@dataclass(slots=True)
class Verdict:
    """The sum over audits. Each of the first five must stay 0."""

    lost: int = 0
    unexpected: int = 0
    came_back: int = 0
    unflagged: int = 0
    """Delivered before the kill and again after it, without saying so; or twice in one go."""
    reordered: int = 0
    confirmed: int = 0
    uncertain: int = 0
    recovered: int = 0
    """Uncertain ones that were there."""
    duplicated: int = 0
    """Delivered again, and flagged: allowed."""
    settled: int = 0

    def add(self, other: "Verdict") -> None:
        """Sum up."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def broken(self) -> int:
        """How many promises were not kept."""
        return self.lost + self.unexpected + self.came_back + self.unflagged + self.reordered

    def __str__(self) -> str:
        return ", ".join(f"{name} {getattr(self, name):,}" for name in self.__slots__)


@dataclass(slots=True)
class Ledger:
    """The numbers of one queue since it was last empty and sure."""

    confirmed: set[int] = field(default_factory=set)
    uncertain: set[int] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)
    """Delivered to a consumer at least once."""
    gone: set[int] = field(default_factory=set)
    going: set[int] = field(default_factory=set)

    def audit(self, found: Sequence[Found], *, settles: bool = True) -> Verdict:
        """Compare with what the queue delivered, in its order. ``settles`` is False for a stream: it keeps all."""
        numbers = [one.number for one in found]
        present = set(numbers)
        demanded = self.confirmed - self.gone - self.going if settles else self.confirmed
        known = self.confirmed | self.uncertain
        verdict = Verdict(
            lost=len(demanded - present),
            unexpected=len(present - known),
            came_back=len(present & self.gone) if settles else 0,
            unflagged=len(numbers) - len(present),
            reordered=_falls([n for n in numbers if n < BARRIERS]) + _falls([n for n in numbers if n >= BARRIERS]),
            confirmed=len(self.confirmed),
            uncertain=len(self.uncertain),
            recovered=len(present & self.uncertain),
            settled=len(self.gone),
        )
        if settles:
            again = [one for one in found if one.number in self.seen]
            verdict.duplicated = sum(one.redelivered for one in again)
            verdict.unflagged += sum(not one.redelivered for one in again)
        return verdict

    def begin_again(self, found: Iterable[Found]) -> None:
        """What was found is the truth from now on: it is there, and it was seen."""
        present = {one.number for one in found}
        self.gone |= self.going - present
        self.confirmed = present
        self.uncertain = set()
        self.seen = set(present)
        self.going = set()


def _falls(numbers: Sequence[int]) -> int:
    """How often a number is lower than the one before it."""
    return sum(later < earlier for earlier, later in itertools.pairwise(numbers))
