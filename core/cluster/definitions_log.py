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

from core.cluster.definitions import StateReading, TooLarge, decoded, encoded, operations
from core.cluster.etcd import Etcd
from core.cluster.etcd_messages import (
    Message,
    deleting,
    found,
    has_value,
    is_absent,
    putting,
    range_of,
    reading,
    transaction,
)
from core.cluster.keys import NUMBER, ClusterKeys
from core.engine.routing.agreement import AgreedChange, AgreedRemoval, Answered, ChangeKind, ChangeVerdict

KEPT = 1_000
"""Changes that are kept for nodes that are behind: minutes, where declarations come by the second."""
READ_MAX = 100
"""The most changes in one answer; each takes 20 µs to decode."""
PAGE = 200
"""The most keys of the state in one answer: 4 ms to decode."""
PUT_S = 1.0
"""How long a transaction may take, as for a batch of messages."""
WAITING_MAX = 10_000
"""The most changes of this node that wait for their turn."""
END = object()
"""Behind the last offer."""
NOTHING = AgreedChange(ChangeKind.REMOVAL, "/", "", AgreedRemoval())
"""In place of a change that only a newer version knows."""


class Follower(Protocol):
    """Makes changes on this node."""

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
        etcd: Etcd,
        keys: ClusterKeys,
        follower: Follower,
        log: Callable[[str, Mapping[str, object]], None],
        *,
        first_time: bool,
    ) -> None:
        """``first_time``: whether this node has never had the state of the cluster."""
        self.made = -1
        """The number of the last change that this node has made; -1 before it has read the state."""
        self.first_time = first_time
        self.refused = ""
        """Why this node puts no changes: it takes no part in the cluster."""
        self._etcd, self._keys, self._follower, self._log = etcd, keys, follower, log
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
        """Offers before which another change came."""
        self._asked: deque[_Asked] = deque()
        self._landed: dict[int, Answered] = {}
        self._putting = self._reading = False

    # --- what the owner calls

    @property
    def busy(self) -> bool:
        """Whether changes wait to be made here."""
        return bool(self._to_make) or self._differences is not None

    @property
    def settled(self) -> bool:
        """Whether this node has what the cluster has, and has offered what only it had."""
        return self.made >= 0 and not (self.busy or self._offers or self._offered_again or self._asked or self._putting)

    def heard(self, number: int) -> None:
        """There are so many changes."""
        self._latest = max(self._latest, number)
        if self._latest > self._known or (self._known > number >= 0 and not self._putting):
            self._read()

    def submit(self, change: AgreedChange, answered: Answered) -> None:
        """Put a change, unless another one comes first. See :data:`core.engine.routing.agreement.Answered`."""
        if self.refused:
            answered(ChangeVerdict.REFUSED, self.refused)
        elif self.made < 0:
            trouble = self._etcd.trouble or "it has not read the definitions of the cluster yet"
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
        for number in made:
            if number:
                self.made = number
                if (answered := self._landed.pop(number, None)) is not None:
                    answered(ChangeVerdict.MADE, "")
        self._go_on()
        return bool(made)

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
        keys, number = self._keys, self.made + 1
        try:
            changed = operations(keys, change)
        except TooLarge as error:
            answered(ChangeVerdict.REFUSED, str(error))
            return
        self._putting = True
        value = keys.topology_number
        is_next = has_value(value, NUMBER.pack(self.made)) if self.made else is_absent(value)
        order = [putting(value, NUMBER.pack(number)), putting(keys.change(number), encoded(change))]
        if number > KEPT:
            order.append(deleting(keys.change(number - KEPT)))
        request = transaction([is_next], [*order, *changed], self._ranges())

        def come_back(response: Message) -> None:
            self._putting = False
            if response.succeeded:
                self._known = self._latest = number
                self._to_make.append(Numbered(number, change))
                self._landed[number] = answered
                return
            self._asked.appendleft(_Asked(change, self.made, answered))  # stale, as soon as the others are made
            self._take(response)

        def unanswered() -> None:
            self._putting = False
            self._latest += 1  # it may have landed: what there is now decides
            why = (
                f"the nodes cannot agree on it, because etcd does not answer ({self._etcd.trouble}); it may still be "
                "made. Try again when headgate cluster status shows no trouble"
            )
            refused, self._asked = [answered, *(one.answered for one in self._asked)], deque()
            for one in refused:
                one(ChangeVerdict.REFUSED, why)
            self._read()

        self._etcd.ask("KV/Txn", request, come_back, unanswered, timeout_s=PUT_S)

    # --- reading

    def _ranges(self) -> list[Message]:
        keys = self._keys
        changes = range_of(keys.change(self._known + 1), keys.change(2**64 - 1), limit=READ_MAX)
        return reading(range_of(keys.topology_number), changes)

    def _read(self) -> None:
        if self._reading or self._putting or self._differences is not None:  # changes come after the state
            return
        if self._known < 0:
            self._read_state()
            return
        self._reading = True

        def come_back(response: Message) -> None:
            self._reading = False
            self._take(response)

        def unanswered() -> None:
            self._reading = False

        self._etcd.ask("KV/Txn", transaction([], self._ranges(), []), come_back, unanswered, timeout_s=PUT_S)

    def _take(self, response: Message) -> None:
        """Take the changes after the last one that is known."""
        number, changes = found(response)
        self._latest = NUMBER.unpack(number[0].value)[0] if number else 0
        for one in changes:
            if self._keys.number_of_change(one.key) != self._known + 1:
                break
            self._known += 1
            change = decoded(one.value)
            if change is None:
                self._log("definition-not-known", {"number": self._known})
                change = NOTHING
            self._to_make.append(Numbered(self._known, change))
        if not changes and self._latest != self._known:  # they were cut away, or the engine is another one
            self._known = -1
            self._read_state()
        elif self._latest > self._known:
            self._read()

    def _read_state(self) -> None:
        self._reading = True
        state = StateReading(self._keys)
        end = self._keys.topology_end

        def page(after: bytes, revision: int) -> None:
            request = range_of(after, end, limit=PAGE, revision=revision)
            number = range_of(self._keys.topology_number, revision=revision)
            asking = transaction([], reading(number, request), [])
            self._etcd.ask("KV/Txn", asking, lambda response: take(response, revision), unanswered, timeout_s=PUT_S)

        def take(response: Message, revision: int) -> None:
            number, keys = found(response)
            state.take(keys)
            if response.responses[1].response_range.more:
                page(keys[-1].key + b"\0", revision or response.header.revision)
            else:
                self._reading = False
                self._has_state(NUMBER.unpack(number[0].value)[0] if number else 0, state)

        def unanswered() -> None:  # also where the revision has been compacted meanwhile
            self._reading = False

        page(self._keys.topology, 0)

    def _has_state(self, number: int, state: StateReading) -> None:
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
            if verdict is ChangeVerdict.STALE:
                self._offered_again.append(offered)
            elif verdict is ChangeVerdict.REFUSED:
                self._log("definition-not-shared", {"definition": str(offered), "why": why})

        self.submit(offered, answered)
