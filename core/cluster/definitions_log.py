"""The order of the changes of definitions, which all nodes of a cluster have in common, as one node takes part in it.

Each change has a number. It is put together with what it changes, in one transaction, if its number is the next one:
so it is put only by a node that knows every change before it. A node makes the changes in their order, those of others
and its own; a client is answered when its own node has made its change.

A node that is new, or was away for longer than changes are kept, reads the state instead, and makes the difference. At
the first time it deletes nothing: what only it has, it offers to the others.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple, Protocol

from core.cluster.definitions import StateReading, TooLarge, decoded
from core.cluster.definitions_engine import READ_MAX, ChangesRead, DefinitionsEngine
from core.engine.routing.agreement import AgreedChange, AgreedRemoval, Answered, ChangeKind, ChangeVerdict

WAITING_MAX = 10_000
"""The most changes of this node that wait for their turn."""
END = object()
"""Behind the last offer."""
NOTHING = AgreedChange(ChangeKind.REMOVAL, "/", "", AgreedRemoval())
"""In place of a change that only a newer version knows."""


class Follower(Protocol):
    """Makes changes on this node."""

    @property
    def kept(self) -> bool:
        """Whether the disk has what was made."""

    def make(self, changes: "deque[Numbered]") -> list[int]:
        """Make the first of these changes, as far as there is time, and take them out. Returns their numbers."""

    def differences(self, state: Iterable[AgreedChange], *, removes: bool) -> Iterator[AgreedChange | None]:
        """The changes that make of what this node has the state; without ``removes``, nothing is removed. None where
        other tasks may run."""

    def offers(self, state: Iterable[AgreedChange]) -> Iterator[AgreedChange | None]:
        """What this node has and the state has not; None where other tasks may run."""


class Numbered(NamedTuple):
    """A change in the order; 0 for one that is a difference to the state."""

    number: int
    change: AgreedChange


class _Asked(NamedTuple):
    change: AgreedChange
    checked_at: int
    """The last change that was made here when this one was checked."""
    answered: Answered


class DefinitionsLog:
    """One node's part in the order."""

    def __init__(
        self,
        engine: DefinitionsEngine,
        follower: Follower,
        log: Callable[[str, Mapping[str, object]], None],
        *,
        first_time: bool,
    ) -> None:
        """``first_time``: whether this node has never had the state of the cluster."""
        self.made = -1
        """The number of the last change that this node has made; -1 before it has read the state."""
        self._told = -1
        """Up to which change the engine knows that this node has made them, and its disk has them."""
        self.first_time = first_time
        self.refused = ""
        """Why this node puts no changes: it takes no part in the cluster."""
        self._engine, self._follower, self._log = engine, follower, log
        self._known = -1
        """The number of the last change that this node has read."""
        self._latest = -1
        """The number of the last change that there is, as far as this node knows."""
        self._to_make: deque[Numbered] = deque()
        self._differences: Iterator[AgreedChange | None] | None = None
        """What is left to make of a state, whose number is then the last one that was made."""
        self._state_number = 0
        self._offers: Iterator[AgreedChange | None] | None = None
        self._offered_again: deque[AgreedChange] = deque()
        """Offers before which another change came, or which the engine has not answered."""
        self._asked: deque[_Asked] = deque()
        self._landed: dict[int, Answered] = {}
        """Who waits for changes that are in the order, by their numbers, which grow."""
        self._putting = self._reading = self._read_again = False
        """Whether a request is under way, and whether one that reads is wanted behind it."""

    # --- what the owner calls

    @property
    def busy(self) -> bool:
        """Whether changes wait to be made here."""
        return bool(self._to_make) or self._differences is not None

    @property
    def unkept(self) -> bool:
        """Whether the disk may not have all that was made."""
        return self._told != self.made

    @property
    def settled(self) -> bool:
        """Whether this node has what the cluster has, and has offered what only it had."""
        return self.made >= 0 and not (self.busy or self._offers or self._offered_again or self._asked or self._putting)

    def heard(self, number: int) -> None:
        """There are so many changes."""
        self._latest = max(self._latest, number)
        if self._latest > self._known or (self._known > number >= 0 and not self._putting):
            self._read()

    def read_upto(self, number: int) -> None:
        """Another node has made the change of this number: read now, and not with the next look."""
        if number > self._known >= 0:
            self._read_again = self._reading
            self._latest = max(self._latest, number)
            self._read()

    def submit(self, change: AgreedChange, answered: Answered) -> None:
        """Put a change, unless another one comes first. See :data:`core.engine.routing.agreement.Answered`."""
        if self.refused:
            answered(ChangeVerdict.REFUSED, self.refused)
        elif self.made < 0:
            trouble = self._engine.trouble or "it has not read the definitions of the cluster yet"
            answered(ChangeVerdict.REFUSED, f"this node cannot ask the others: {trouble}; try again in a moment")
        elif len(self._asked) >= WAITING_MAX:
            answered(ChangeVerdict.REFUSED, f"{WAITING_MAX} changes wait at this node; try again later")
        else:
            self._asked.append(_Asked(change, self.made, answered))
            self._go_on()

    def step(self) -> bool:
        """Make changes, and put what waits. Returns whether something was made."""
        if self._differences is not None and not self._to_make:
            self._take_differences()
        made = self._follower.make(self._to_make) if self._to_make else []
        if numbers := [number for number in made if number]:
            self.made = numbers[-1]
        self._tell_made()
        answers = self._answer_landed()
        self._go_on()
        return bool(made) or answers

    def _tell_made(self) -> None:
        if self._told != self.made and self._follower.kept:
            self._told = self.made
            self._engine.tell_made(self.made)

    def _answer_landed(self) -> bool:
        """Answer those whose change this node has made, and the others too where that is waited for."""
        upto, answers = min(self.made, self._engine.everywhere), False
        while self._landed and (number := next(iter(self._landed))) <= upto:
            self._landed.pop(number)(ChangeVerdict.MADE, "")
            answers = True
        return answers

    # --- putting

    def _go_on(self) -> None:
        while self._asked and not (self._putting or self.busy or self._reading):
            asked = self._asked.popleft()
            if asked.checked_at != self.made:
                asked.answered(ChangeVerdict.STALE, "")
            else:
                self._put(asked.change, asked.answered)
        if (self._offers or self._offered_again) and not (self._asked or self._putting or self.busy or self._reading):
            self._offer()

    def _put(self, change: AgreedChange, answered: Answered) -> None:
        number = self.made + 1

        def come_back(read: ChangesRead | None) -> None:
            self._putting = False
            if read is None:
                self._known = self._latest = number
                self._to_make.append(Numbered(number, change))
                self._landed[number] = answered
                return
            self._asked.appendleft(_Asked(change, self.made, answered))  # stale, as soon as the others are made
            self._take(read)

        def unanswered() -> None:
            self._putting = False
            self._latest += 1  # it may have landed: what there is now decides
            why = (
                f"the nodes cannot agree on it, because {self._engine.name} does not answer ({self._engine.trouble}); "
                f"it may still be made. {self._engine.advice}"
            )
            refused, self._asked = [answered, *(one.answered for one in self._asked)], deque()
            for one in refused:
                one(ChangeVerdict.REFUSED, why)
            self._read()

        self._putting = True
        try:
            self._engine.put(number, change, self._known, come_back, unanswered)
        except TooLarge as error:
            self._putting = False
            answered(ChangeVerdict.REFUSED, str(error))

    # --- reading

    def _read(self) -> None:
        if self._reading or self._putting or self._differences is not None:  # changes come after the state
            return
        if self._known < 0:
            self._read_state()
            return
        self._reading = True

        def come_back(read: ChangesRead) -> None:
            self._reading = False
            self._take(read)
            if self._read_again:
                self._read_again = False
                self._read()

        self._engine.read(self._known, come_back, self._not_read)

    def _not_read(self) -> None:
        self._reading = False

    def _take(self, read: ChangesRead) -> None:
        """Take the changes after the last one that is known."""
        self._latest = read.latest
        for number, data in read.changes:
            if number != self._known + 1:
                break
            self._known += 1
            change = decoded(data)
            if change is None:
                self._log("definition-not-known", {"number": self._known})
                change = NOTHING
            self._to_make.append(Numbered(self._known, change))
        if not read.changes and self._latest != self._known:  # they were cut away, or the engine is another one
            self._known = -1
            self._read_state()
        elif self._latest > self._known:
            self._read()

    def _read_state(self) -> None:
        self._reading = True
        self._engine.read_state(self._has_state, self._not_read)

    def _has_state(self, number: int, state: StateReading) -> None:
        self._reading = False
        for key in state.unreadable:
            self._log("definition-not-known", {"key": repr(key)})
        self._to_make.clear()
        self._known = self._state_number = number
        self._latest = max(self._latest, number)
        removes = number > 0 and not self.first_time  # an engine that has lost everything deletes nothing here
        self._differences = self._follower.differences(state.changes(), removes=removes)
        self._offers = None if removes else self._follower.offers(state.changes())

    def _take_differences(self) -> None:
        assert self._differences is not None
        for change in islice(self._differences, READ_MAX):
            if change is None:
                return
            self._to_make.append(Numbered(0, change))
        if not self._to_make:
            self._differences = None
            self.made = self._state_number
            self._log("definitions-read", {"number": self.made})
            landed, self._landed = self._landed, {}
            for answered in landed.values():  # the state has them
                answered(ChangeVerdict.MADE, "")

    # --- offers

    def _offer(self) -> None:
        """Offer something to the other nodes, if it is not time for a pause."""
        change = self._offered_again.popleft() if self._offered_again else next(self._offers or iter(()), END)
        if change is END:
            self._offers = None
        if not isinstance(change, AgreedChange):
            return
        offered = change

        def answered(verdict: ChangeVerdict, why: str) -> None:
            unanswered = verdict is ChangeVerdict.REFUSED and self._engine.trouble and not self.refused
            if verdict is ChangeVerdict.STALE or unanswered:
                self._offered_again.append(offered)
            elif verdict is ChangeVerdict.REFUSED:
                self._log("definition-not-shared", {"definition": str(offered), "why": why})

        self.submit(offered, answered)
