"""The unsettled map and the batch of dispositions against models that keep every delivery by itself."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from amqp10.flow.unsettled import DeliveryIdRange, DispositionBatch, UnsettledMap

OWNERS = ("a", "b", "c")
STATES = ("accepted", "released")
starts = st.sampled_from([0, 7, 2**31 - 20, 2**32 - 20])
owners = st.sampled_from(OWNERS)


class UnsettledMachine(RuleBasedStateMachine):
    """Deliveries of three links come, are settled in any ranges, and go when their link goes."""

    @initialize(start=starts)
    def begin(self, start: int) -> None:
        self.map: UnsettledMap[str] = UnsettledMap()
        self.start = self.next_id = start
        self.next_number = dict.fromkeys(OWNERS, 0)
        self.model: dict[int, tuple[str, int]] = {}

    @rule(owner=owners, n=st.integers(1, 12), gap=st.sampled_from([0, 0, 0, 1, 5]), skipped=st.sampled_from([0, 0, 3]))
    def add(self, owner: str, n: int, gap: int, skipped: int) -> None:
        """Add deliveries. ``gap`` ids belong to deliveries sent settled, ``skipped`` numbers to deliveries of another
        session."""
        self.next_id += gap
        self.next_number[owner] += skipped
        self.map.add(self.next_id, n, owner, self.next_number[owner])
        for _ in range(n):
            self.model[self.next_id] = (owner, self.next_number[owner])
            self.next_id += 1
            self.next_number[owner] += 1

    @rule(offset=st.integers(-5, 60), length=st.integers(0, 30) | st.just(2**31))
    def settle(self, offset: int, length: int) -> None:
        """Settle a range, also before, behind and between the deliveries that exist. The newest ids are the
        likeliest."""
        first = max(self.start - 5, self.next_id - 1 - offset)
        last = first + length - 1
        expected = [id_ for id_ in sorted(self.model) if first <= id_ <= last]
        assert self._taken_apart(self.map.overlap(first, last)) == [(id_, *self.model[id_]) for id_ in expected]
        pieces = self.map.settle(first, last)
        assert self._taken_apart(pieces) == [(id_, *self.model.pop(id_)) for id_ in expected]

    @rule(owner=owners)
    def forget(self, owner: str) -> None:
        expected = [id_ for id_ in sorted(self.model) if self.model[id_][0] == owner]
        assert self._taken_apart(self.map.forget(owner)) == [(id_, *self.model.pop(id_)) for id_ in expected]

    @staticmethod
    def _taken_apart(pieces: list[DeliveryIdRange[str]]) -> list[tuple[int, str, int]]:
        """One entry for each delivery. A piece without deliveries is an error."""
        assert all(piece.first <= piece.last for piece in pieces)
        return [
            (piece.first + i, piece.owner, piece.number + i)
            for piece in pieces
            for i in range(piece.last - piece.first + 1)
        ]

    @invariant()
    def agrees(self) -> None:
        assert self.map.count == len(self.model)
        ranges = self.map.ranges()
        assert self._taken_apart(ranges) == [(id_, *self.model[id_]) for id_ in sorted(self.model)]
        assert all(piece.last_number == self.model[piece.last][1] for piece in ranges)


class DispositionBatchMachine(RuleBasedStateMachine):
    """Dispositions are made one range at a time. The frames, taken together, say the same in the same order."""

    @initialize(start=starts)
    def begin(self, start: int) -> None:
        self.batch: DispositionBatch[str] = DispositionBatch()
        self.next_id = start
        self.made: list[tuple[int, bool, str]] = []

    @rule(
        n=st.integers(1, 5),
        jump=st.sampled_from([0, 0, 0, 0, 1, 10, -10]),
        settled=st.sampled_from([True, True, True, False]),
        state=st.sampled_from(STATES),
    )
    def add(self, n: int, jump: int, settled: bool, state: str) -> None:
        first = max(0, self.next_id + jump)
        self.next_id = first + n
        self.batch.add(first, first + n - 1, state, settled=settled)
        self.made += [(first + i, settled, state) for i in range(n)]

    @rule()
    def take(self) -> None:
        assert bool(self.batch.pending) is bool(self.made)
        pending = self.batch.take()
        said = [(id_, one.settled, one.state) for one in pending for id_ in range(one.first, one.last + 1)]
        assert said == self.made
        changes = sum(
            (before[0] + 1, *before[1:]) != behind for before, behind in zip(self.made, self.made[1:], strict=False)
        )
        assert len(pending) == (changes + 1 if self.made else 0), "neighbours that were not made one"
        assert not self.batch.pending
        self.made = []


TestUnsettled = UnsettledMachine.TestCase
TestDispositionBatch = DispositionBatchMachine.TestCase
TestUnsettled.settings = TestDispositionBatch.settings = settings(stateful_step_count=30)
