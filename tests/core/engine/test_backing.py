"""The memory backing: order, sequence numbers and the sharing of records."""

import sys

import hypothesis.strategies as st
from hypothesis import given

from core.engine.backing import ARRIVAL_GRAIN, RECORD_ENTRIES_MAX, MemoryBacking
from core.message import Attributes
from tests.kit.engine import NOW, PLAIN, bodies, later


def drain(backing: MemoryBacking, n: int = 10**9) -> list[tuple[range, list[bytes]]]:
    taken = []
    while (stretch := backing.fetch(n)) is not None:
        taken.append((stretch.sequences, stretch.entries))
    return taken


def test_single_publishes_within_the_grain_share_a_record():
    backing = MemoryBacking()
    for number in range(5):
        backing.publish_run(bodies(1, number), PLAIN, later(number * ARRIVAL_GRAIN / 5))
    assert drain(backing) == [(range(5), bodies(5))]


def test_a_record_ends_after_the_grain_and_where_attributes_change():
    backing = MemoryBacking()
    backing.publish_run(bodies(1, 0), PLAIN, NOW)
    backing.publish_run(bodies(1, 1), PLAIN, later(2 * ARRIVAL_GRAIN))
    backing.publish_run(bodies(1, 2), Attributes(priority=9), later(2 * ARRIVAL_GRAIN))
    assert [sequences for sequences, _ in drain(backing)] == [range(1), range(1, 2), range(2, 3)]


def test_records_are_bounded():
    backing = MemoryBacking()
    backing.publish_run(bodies(RECORD_ENTRIES_MAX + 1), PLAIN, NOW)
    backing.publish_run(bodies(RECORD_ENTRIES_MAX), PLAIN, NOW)
    assert [len(entries) for _, entries in drain(backing)] == [RECORD_ENTRIES_MAX, 1, RECORD_ENTRIES_MAX]


def test_the_publishers_list_is_not_kept():
    backing = MemoryBacking()
    entries = bodies(2)
    backing.publish_run(entries, PLAIN, NOW)
    backing.publish_run(bodies(1, 2), PLAIN, NOW)
    assert entries == bodies(2)


def test_purge_drops_all_and_sequence_numbers_go_on():
    backing = MemoryBacking()
    backing.publish_run(bodies(3), PLAIN, NOW)
    assert backing.purge() == 3
    assert (backing.depth, backing.fetch(1)) == (0, None)
    backing.publish_run(bodies(1), PLAIN, NOW)
    assert drain(backing) == [(range(3, 4), bodies(1))]


def test_a_backlog_of_single_publishes_costs_a_pointer_each():
    backing = MemoryBacking()
    entry = b"x"
    for _ in range(RECORD_ENTRIES_MAX):
        backing.publish_run([entry], PLAIN, NOW)
    stretch = backing.fetch(RECORD_ENTRIES_MAX)
    assert stretch is not None
    assert sys.getsizeof(stretch.entries) < 10 * RECORD_ENTRIES_MAX


@given(st.lists(st.tuples(st.integers(1, 7), st.booleans(), st.integers(1, 9))))
def test_everything_leaves_once_in_order_with_its_own_number(steps):
    backing = MemoryBacking()
    published: list[tuple[bytes, bool]] = []
    taken: list[tuple[int, bytes, bool]] = []
    for count, durable, n in steps:
        entries = bodies(count, len(published))
        published += [(entry, durable) for entry in entries]
        backing.publish_run(entries, Attributes(durable=durable), NOW)
        stretch = backing.fetch(n)
        assert stretch is not None
        assert 1 <= len(stretch) <= n
        pairs = zip(stretch.sequences, stretch.entries, strict=True)
        taken += [(sequence, entry, stretch.attributes.durable) for sequence, entry in pairs]
        assert backing.depth == len(published) - len(taken)
    assert taken == [(place, *published[place]) for place in range(len(taken))]
