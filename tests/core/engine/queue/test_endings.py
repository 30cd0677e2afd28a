"""Settlements of many batches are worked off in parts, each message once, in order."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from core.engine.options.in_force import QueueOptions
from core.engine.queue.consumers import Attachment
from core.engine.queue.endings import SETTLED_AT_ONCE, SETTLEMENT_WORK, Endings
from core.engine.queue.queue_counters import QueueCounters
from core.engine.ready.batch import Batch
from core.engine.ready.remains import Remains
from core.engine.ready.sub_queue import SubQueue
from core.interface import ConsumeOptions, Consumer, DeathReason, Disposal, Mailbox
from core.message import Return
from tests.kit.engine import PLAIN

ACCEPTED, REJECTED, RETURNED = Disposal.ACCEPTED, Disposal.REJECTED, Return()


class Shelved:
    """A stand-in for the backing and the dead letters that notes what reaches them."""

    def __init__(self) -> None:
        self.settled: list[int] = []
        self.given_back: list[int] = []
        self.posted: list[tuple[int, DeathReason]] = []

    def settle(self, batch: Batch) -> None:
        self.settled += batch.sequences

    def give_back(self, batch: Batch) -> None:
        self.given_back += batch.sequences

    def post(self, batch: Batch, reason: DeathReason, options: QueueOptions) -> bool:
        self.posted += [(sequence, reason) for sequence in batch.sequences]
        return True


class Settling:
    """The endings of one queue. Each batch holds one message."""

    def __init__(self) -> None:
        self.shelved = Shelved()
        self.counters = QueueCounters()
        sub_queue = SubQueue(0, self.shelved)  # type: ignore[arg-type]
        self.endings = Endings([sub_queue], self.shelved, self.counters, QueueOptions())  # type: ignore[arg-type]
        self.consumer = Attachment(Consumer(0, "q", Mailbox(lambda: None), ConsumeOptions(), None))
        self._next = 0

    def dispose(self, n: int, disposal: Disposal | Return) -> list[int]:
        """Settle ``n`` batches; returns the positions of their messages."""
        positions = range(self._next, self._next + n)
        self._next += n
        batches = [Batch(range(position, position + 1), [b""], PLAIN) for position in positions]
        self.endings.dispose(self.consumer, batches, disposal)
        return list(positions)


@pytest.fixture
def settling() -> Settling:
    return Settling()


def test_a_settlement_within_the_bound_ends_at_once(settling: Settling):
    positions = settling.dispose(SETTLED_AT_ONCE, ACCEPTED)
    assert settling.shelved.settled == positions
    assert (settling.endings.count, settling.counters.accepted) == (0, SETTLED_AT_ONCE)


def test_a_larger_settlement_ends_in_steps(settling: Settling):
    positions = settling.dispose(2 * SETTLED_AT_ONCE + 1, ACCEPTED)
    assert (settling.shelved.settled, settling.endings.count) == ([], len(positions))
    seen = []
    while settling.endings.count:
        seen.append(settling.endings.go_on())
        assert settling.shelved.settled == positions[: len(positions) - settling.endings.count]
    assert seen == [SETTLED_AT_ONCE * SETTLEMENT_WORK] * 2 + [SETTLEMENT_WORK]
    assert settling.endings.go_on() == 0


def test_what_comes_later_waits_behind_and_one_step_may_reach_it(settling: Settling):
    first = settling.dispose(SETTLED_AT_ONCE + 1, ACCEPTED)
    second = settling.dispose(3, REJECTED)
    settling.dispose(0, RETURNED)
    third = settling.dispose(2, RETURNED)
    assert (settling.endings.count, settling.endings.returning) == (SETTLED_AT_ONCE + 6, 1)
    settling.endings.go_on()
    assert settling.shelved.posted == [], "in order"
    settling.endings.go_on()
    assert settling.shelved.settled == first
    assert settling.shelved.posted == [(position, DeathReason.REJECTED) for position in second]
    assert settling.shelved.given_back == third
    assert (settling.endings.count, settling.endings.returning) == (0, 0)


def test_the_queue_knows_until_the_last_that_some_come_back(settling: Settling):
    settling.dispose(SETTLED_AT_ONCE + 1, RETURNED)
    settling.endings.go_on()
    assert (settling.endings.count, settling.endings.returning) == (1, 1)
    settling.endings.go_on()
    assert settling.endings.returning == 0


def test_what_waits_can_be_looked_at_in_order(settling: Settling):
    positions = settling.dispose(SETTLED_AT_ONCE + 5, RETURNED) + settling.dispose(2, ACCEPTED)
    settling.endings.go_on()
    assert [batch.sequences[0] for batch in settling.endings.batches()] == positions[SETTLED_AT_ONCE:]


def test_a_queue_that_is_deleted_has_nothing_waiting(settling: Settling):
    settling.dispose(SETTLED_AT_ONCE + 1, RETURNED)
    settling.endings.clear(Remains().let_go)
    assert (settling.endings.count, settling.endings.returning, settling.endings.go_on()) == (0, 0, 0)


@settings(max_examples=30)
@given(
    st.lists(
        st.one_of(
            st.just("go on"),
            st.tuples(
                st.sampled_from([1, 2, SETTLED_AT_ONCE, SETTLED_AT_ONCE + 1, 2 * SETTLED_AT_ONCE + 300]),
                st.sampled_from([ACCEPTED, REJECTED, RETURNED]),
            ),
        ),
        max_size=8,
    )
)
def test_every_message_ends_once_in_the_order_of_the_settlements(steps):
    settling = Settling()
    expected = {ACCEPTED: [], REJECTED: [], RETURNED: []}
    for step in steps:
        if step == "go on":
            settling.endings.go_on()
        else:
            n, disposal = step
            expected[disposal] += settling.dispose(n, disposal)
        ended = len(settling.shelved.settled) + len(settling.shelved.posted) + len(settling.shelved.given_back)
        assert settling.endings.count == sum(map(len, expected.values())) - ended
        if len(settling.shelved.given_back) < len(expected[RETURNED]):
            assert settling.endings.returning > 0
    while settling.endings.count:
        assert 0 < settling.endings.go_on() <= SETTLED_AT_ONCE * SETTLEMENT_WORK
    assert settling.shelved.settled == expected[ACCEPTED]
    assert [position for position, _ in settling.shelved.posted] == expected[REJECTED]
    assert settling.shelved.given_back == expected[RETURNED]
    assert settling.endings.returning == 0
    counters = settling.counters
    assert (counters.accepted, counters.rejected, counters.returned) == tuple(map(len, expected.values()))
