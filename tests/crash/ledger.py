"""The promises of a queue before its broker was killed, and whether the queue's content afterwards keeps them.

Messages are numbers. A number is *confirmed* when the broker said accepted, and *uncertain* when it was sent and no
outcome came. It is *gone* when it was settled and a message that was sent after the settlement was confirmed: the lane
writes in order, so the settlement was written before. It is *going* when it was settled and no later message was
confirmed. Only confirmed numbers may be demanded, and only gone numbers must not come back.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

BARRIERS = 10**9
"""Numbers from here on belong to another publisher than those below. Each publisher has its own order."""


@dataclass(frozen=True, slots=True)
class Found:
    """A message that the queue delivered after the restart."""

    number: int
    redelivered: bool


@dataclass(slots=True)
class Verdict:
    """The sum over audits. Each of the first five counts must stay 0."""

    lost: int = 0
    unexpected: int = 0
    came_back: int = 0
    unflagged: int = 0
    """Messages delivered before the kill and again after it without the flag, or twice in one reading."""
    reordered: int = 0
    confirmed: int = 0
    uncertain: int = 0
    recovered: int = 0
    """Uncertain messages that were there."""
    duplicated: int = 0
    """Messages delivered again with the flag, which is allowed."""
    settled: int = 0

    def add(self, other: "Verdict") -> None:
        """Add another verdict to this one."""
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
    """The numbers of one queue since it was last known to be empty."""

    confirmed: set[int] = field(default_factory=set)
    uncertain: set[int] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)
    """Numbers that were delivered to a consumer at least once."""
    gone: set[int] = field(default_factory=set)
    going: set[int] = field(default_factory=set)

    def audit(self, found: Sequence[Found], *, settles: bool = True) -> Verdict:
        """Compare with what the queue delivered, in its order. ``settles`` is False for a stream, which keeps all
        messages."""
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
        """Begin again with the messages that were found. All of them were delivered once."""
        present = {one.number for one in found}
        self.gone |= self.going - present
        self.confirmed = present
        self.uncertain = set()
        self.seen = set(present)
        self.going = set()


def _falls(numbers: Sequence[int]) -> int:
    """How often a number is lower than the number before it."""
    return sum(later < earlier for earlier, later in itertools.pairwise(numbers))
