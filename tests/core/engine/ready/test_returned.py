"""Returned messages come out in order of position, and never to a consumer that they are barred for."""

import hypothesis.strategies as st
from hypothesis import given

from core.engine.ready.batch import Batch
from core.engine.ready.returned import JOINED_MAX, ReturnedMessages
from tests.kit.engine import PLAIN


def batch(sequences: range, *barred: object) -> Batch:
    return Batch(sequences, [b"%d" % s for s in sequences], PLAIN, 0, False, None, frozenset(barred))


def positions(returned: ReturnedMessages, n: int = 100) -> list[list[int]]:
    out = []
    while (taken := returned.fetch(n)) is not None:
        assert taken.entries == [b"%d" % sequence for sequence in taken.sequences]
        out.append(list(taken.sequences))
    return out


def test_interleaved_positions_merge():
    returned = ReturnedMessages()
    for start in (1, 0):
        returned.add(batch(range(start, 10, 2)))
    assert returned.count == 10
    assert positions(returned) == [list(range(10))]
    assert returned.count == 0


def test_no_more_is_taken_than_asked_for():
    returned = ReturnedMessages()
    returned.add(batch(range(0, 10, 2)))
    returned.add(batch(range(1, 4, 2)))
    assert positions(returned, 3) == [[0, 1, 2], [3, 4, 6], [8]]


def test_joining_is_bounded():
    returned = ReturnedMessages()
    for sequence in range(JOINED_MAX + 10):
        returned.add(batch(range(sequence, sequence + 1)))
    assert [len(part) for part in positions(returned, 10**6)] == [JOINED_MAX, 10]


def test_annotated_messages_are_joined_with_no_others():
    returned = ReturnedMessages()
    for sequences in (range(2), range(2, 4)):
        annotated = batch(sequences)
        annotated.annotate({"x-a": 1})
        returned.add(annotated)
    returned.add(batch(range(4, 6)))
    assert positions(returned) == [[0, 1], [2, 3], [4, 5]]


def test_messages_are_never_taken_for_a_barred_consumer():
    returned = ReturnedMessages()
    returned.add(batch(range(2), "a"))
    assert returned.has_barred
    returned.add(batch(range(2, 4)))
    returned.add(batch(range(4, 6), "a", "b"))
    for_a = returned.fetch_for("a", 10)
    assert for_a is not None
    assert list(for_a.sequences) == [2, 3]
    assert returned.fetch_for("a", 10) is None
    for_b = returned.fetch_for("b", 10)
    assert for_b is not None
    assert list(for_b.sequences) == [0, 1]
    assert returned.fetch_for("b", 10) is None
    returned.lift_bars("a")
    returned.lift_bars("b")
    assert not returned.has_barred
    assert positions(returned) == [[4, 5]]


def test_everything_is_taken_out_at_once():
    returned = ReturnedMessages()
    returned.add(batch(range(3)))
    returned.add(batch(range(3, 5), "a"))
    assert [[list(batch.sequences) for _, batch in heap] for heap in returned.take_all()] == [[[0, 1, 2]], [[3, 4]]]
    assert (returned.count, returned.bytes) == (0, 0)
    assert not returned.has_barred
    assert returned.fetch(1) is None


@given(
    owners=st.lists(st.integers(0, 3), max_size=40),
    order=st.permutations(range(4)),
    sizes=st.lists(st.integers(1, 9), min_size=40, max_size=40),
)
def test_returned_messages_are_in_order_whatever_the_order_of_their_return(owners, order, sizes):
    returned = ReturnedMessages()
    for owner in order:
        for position in [place for place, held_by in enumerate(owners) if held_by == owner]:
            returned.add(batch(range(position, position + 1)))
    out: list[int] = []
    for n in sizes:
        part = returned.fetch(n)
        if part is not None:
            assert len(part) == min(n, len(owners) - len(out))
            out += part.sequences
    assert out == list(range(len(out)))
    assert returned.count == len(owners) - len(out)
