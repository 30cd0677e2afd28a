"""The ring: it is bounded, and counts every record that it drops."""

from hypothesis import given
from hypothesis import strategies as st

from core.observe.flow_events.ring import RecordRing
from core.observe.flow_events.schema import EventKind, FlowEventRecord


def record(n: int) -> FlowEventRecord:
    return FlowEventRecord(EventKind.PAGING, float(n), {"on": True})


@given(st.integers(1, 5), st.lists(st.integers(0, 8), max_size=30))
def test_every_record_is_told_or_counted(records_max: int, steps: list[int]):
    """Each step puts a number of records and takes one."""
    ring = RecordRing(records_max)
    put = 0
    came: list[FlowEventRecord] = []
    for n in steps:
        for _ in range(n):
            ring.put(record(put))
            put += 1
            assert len(ring) <= records_max + 1
        if len(ring):
            came.append(ring.take())
    while len(ring):
        came.append(ring.take())
    next_number = 0
    for one in came:
        assert one.at == next_number
        if one.kind is EventKind.DROPPED:
            count = one.fields["records"]
            assert isinstance(count, int)
            assert one.fields["until"] == next_number + count - 1
            next_number += count
        else:
            next_number += 1
    assert next_number == put
    assert ring.dropped_ever == sum(int(one.fields["records"]) for one in came if one.kind is EventKind.DROPPED)


def test_the_newest_are_kept():
    ring = RecordRing(2)
    for n in range(5):
        ring.put(record(n))
    assert [ring.take() for _ in range(len(ring))] == [
        FlowEventRecord(EventKind.DROPPED, 0.0, {"records": 3, "until": 2.0}),
        record(3),
        record(4),
    ]


def test_a_cleared_ring_is_empty():
    ring = RecordRing(1)
    ring.put(record(0))
    ring.put(record(1))
    ring.clear()
    assert len(ring) == 0
