"""The memory backing: order, sequence numbers, and records that are shared."""

import sys
from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given

from core.clock import Now
from core.engine.ready.backing import ARRIVAL_GRAIN, RECORD_ENTRIES_MAX, MemoryBacking, Pages
from core.engine.ready.remains import Remains
from core.message import Attributes, Origin, Route, Run, RunPart, each_of
from tests.kit.engine import NOW, PLAIN, bodies, later


class Published:
    """A backing, and the sequence numbers of the messages published to it."""

    def __init__(self) -> None:
        self.backing = MemoryBacking()
        self.next_sequence = 0

    def publish(
        self,
        entries: list[bytes],
        attributes: Attributes = PLAIN,
        now: Now = NOW,
        *,
        expires_at: float | None = None,
        route: Route | None = None,
    ) -> None:
        run_part = RunPart(Run(0, entries, attributes, routes=route), 0, len(entries), expires_at)
        self.backing.publish_run(run_part, self.next_sequence, now)
        self.next_sequence += len(entries)

    def drain(self, n: int = 10**9) -> list[tuple[Sequence[int], list[bytes]]]:
        taken = []
        while (batch := self.backing.fetch(n)) is not None:
            taken.append((batch.sequences, batch.entries))
        return taken


def test_single_publishes_within_the_grain_share_a_record():
    one = Published()
    for number in range(5):
        one.publish(bodies(1, number), now=later(number * ARRIVAL_GRAIN / 5))
    assert one.drain() == [(range(5), bodies(5))]


def test_a_record_ends_after_the_grain():
    one = Published()
    one.publish(bodies(1))
    one.publish(bodies(1, 1), now=later(2 * ARRIVAL_GRAIN))
    assert [sequences for sequences, _ in one.drain()] == [range(1), range(1, 2)]


@pytest.mark.parametrize("other", [{"redelivered": True}, {"origin": Origin.AMQP091}])
def test_a_record_ends_where_origin_or_history_differ(other):
    one = Published()
    one.publish(bodies(1))
    one.publish(bodies(1, 1), Attributes(**other))
    one.publish(bodies(1, 2), Attributes(**other))
    assert [sequences for sequences, _ in one.drain()] == [range(1), range(1, 3)]


def test_unlike_messages_share_a_record():
    one = Published()
    urgent = Attributes(priority=9)
    one.publish(bodies(2))
    one.publish(bodies(1, 2), urgent, expires_at=5.0)
    assert one.backing.head_expires_at is None
    batch = one.backing.fetch(1)
    assert batch is not None
    assert (batch.attributes, batch.expires_at) == ([PLAIN], [None])
    batch = one.backing.fetch(9)
    assert batch is not None
    assert (batch.attributes, batch.expires_at) == ([PLAIN, urgent], [None, 5.0])


def test_messages_with_different_routes_share_a_record():
    one = Published()
    route, other = Route("x", ("k",)), Route("x", ("l",))
    one.publish(bodies(2), route=route)
    one.publish(bodies(1, 2), route=other)
    one.publish(bodies(2, 3))
    assert one.backing.fetch(1).routes == [route]
    assert one.backing.fetch(3).routes == [route, other, None]
    assert one.backing.fetch(1).routes == [None]


def test_attributes_of_a_part_are_those_of_fetched_messages():
    one = Published()
    one.publish(bodies(2), expires_at=5.0, route=Route("x", ("k",)))
    assert one.backing.head_expires_at == 5.0
    batch = one.backing.fetch(1)
    assert batch is not None
    assert (batch.expires_at, batch.routes, batch.stored) == (5.0, Route("x", ("k",)), False)


def test_part_of_a_run():
    backing = MemoryBacking()
    backing.publish_run(RunPart(Run(7, bodies(9), PLAIN), 3, 5), 40, NOW)
    batch = backing.fetch(9)
    assert batch is not None
    assert (batch.sequences, batch.entries) == (range(40, 42), bodies(2, 3))


def test_numbers_that_do_not_adjoin_are_told_apart():
    one = Published()
    one.publish(bodies(1))
    one.next_sequence = 9
    one.publish(bodies(1, 1))
    assert one.drain() == [(range(1), bodies(1)), (range(9, 10), bodies(1, 1))]


def test_records_are_bounded():
    one = Published()
    one.publish(bodies(RECORD_ENTRIES_MAX + 1))
    one.publish(bodies(RECORD_ENTRIES_MAX))
    assert [len(entries) for _, entries in one.drain()] == [RECORD_ENTRIES_MAX, 1, RECORD_ENTRIES_MAX]


def test_the_publishers_list_is_not_kept():
    one = Published()
    entries = bodies(2)
    one.publish(entries)
    one.publish(bodies(1, 2))
    assert entries == bodies(2)


def test_messages_passed_straight_on_are_never_ready():
    backing = MemoryBacking()
    entries = bodies(2)
    batch, position = backing.pass_run(RunPart(Run(0, entries, PLAIN), 0, 2, 5.0), 7, NOW)
    assert (batch.sequences, batch.entries, batch.expires_at, position) == (range(7, 9), entries, 5.0, None)
    assert batch.entries is not entries
    assert (backing.depth, backing.ready_bytes) == (0, 0)


def test_purge_drops_all():
    one = Published()
    one.publish(bodies(3))
    assert one.backing.purge(Remains().let_go) == 3
    assert (one.backing.depth, one.backing.ready_bytes, one.backing.fetch(1)) == (0, 0, None)
    assert one.backing.head_expires_at is None


def test_counts():
    one = Published()
    one.publish([b"abc", b"d"])
    assert one.backing.counts() == {"alpha": 2, "ram_messages": 2, "ram_bytes": 4}
    assert not isinstance(one.backing, Pages)


def test_a_backlog_of_single_publishes_costs_a_pointer_each():
    one = Published()
    for _ in range(RECORD_ENTRIES_MAX):
        one.publish([b"x"])
    batch = one.backing.fetch(RECORD_ENTRIES_MAX)
    assert batch is not None
    assert sys.getsizeof(batch.entries) < 10 * RECORD_ENTRIES_MAX


@given(st.lists(st.tuples(st.integers(1, 7), st.booleans(), st.integers(1, 9))))
def test_everything_leaves_once_in_order_with_its_own_number(steps):
    one = Published()
    published: list[tuple[bytes, bool]] = []
    taken: list[tuple[int, bytes, bool]] = []
    for count, durable, n in steps:
        entries = bodies(count, len(published))
        published += [(entry, durable) for entry in entries]
        one.publish(entries, Attributes(durable=durable))
        batch = one.backing.fetch(n)
        assert batch is not None
        assert 1 <= len(batch) <= n
        facts = zip(batch.sequences, batch.entries, each_of(batch.attributes, len(batch)), strict=True)
        taken += [(sequence, entry, attributes.durable) for sequence, entry, attributes in facts]
        assert one.backing.depth == len(published) - len(taken)
        assert one.backing.ready_bytes == sum(len(entry) for entry, _ in published[len(taken) :])
    assert taken == [(place, *published[place]) for place in range(len(taken))]
