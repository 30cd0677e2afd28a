"""Batches that are split and joined keep positions and entries together."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from core.engine.ready.batch import ANNOTATIONS_MAX, Batch, join_positions
from core.message import Attributes, Origin, Route

PLAIN = Attributes()


@pytest.mark.parametrize(
    ("left", "right", "joined"),
    [
        (range(3), range(3, 5), range(5)),
        (range(1), range(4, 5), range(0, 5, 4)),
        (range(0, 6, 2), range(6, 10, 2), range(0, 10, 2)),
        (range(0, 6, 2), range(6, 9), [0, 2, 4, 6, 7, 8]),
        (range(3), range(5, 7), [0, 1, 2, 5, 6]),
        ([0, 3, 4], range(5, 7), [0, 3, 4, 5, 6]),
        ([7], range(8, 10), range(7, 10)),
    ],
)
def test_positions_stay_a_range_while_they_have_one_step(left, right, joined):
    assert join_positions(left, right) == joined


@given(
    st.lists(st.integers(0, 50), min_size=1, unique=True).map(sorted),
    st.lists(st.integers(51, 99), min_size=1, unique=True).map(sorted),
)
def test_joined_positions_are_all_there(left, right):
    assert list(join_positions(left, right)) == left + right


def test_annotations_that_are_added_for_ever_push_out_the_oldest():
    batch = Batch(range(1), [b"a"], PLAIN)
    for number in range(ANNOTATIONS_MAX + 2):
        batch.annotate({f"x-{number}": number})
    assert batch.annotations is not None
    assert list(batch.annotations.values()) == list(range(2, ANNOTATIONS_MAX + 2))


def test_a_join_appends():
    batch = Batch(range(1), [b"a"], PLAIN)
    batch.join(Batch(range(1, 2), [b"b"], PLAIN))
    assert (batch.sequences, batch.entries, batch.attributes) == (range(2), [b"a", b"b"], PLAIN)


def test_unlike_messages_that_are_joined_keep_what_is_known_of_each():
    urgent, route = Attributes(priority=9), Route("x", ("k",))
    batch = Batch(range(1), [b"a"], PLAIN)
    batch.join(Batch(range(1, 3), [b"b", b"c"], urgent, expires_at=5.0, routes=route))
    assert batch.attributes == [PLAIN, urgent, urgent]
    assert batch.expires_at == [None, 5.0, 5.0]
    assert batch.routes == [None, route, route]
    part = batch.part(0, 3, 2)
    assert (part.attributes, part.expires_at, part.routes) == ([PLAIN, urgent], [None, 5.0], [None, route])
    assert (batch.first_expires_at, batch.part(1, 3).first_expires_at) == (None, 5.0)


def test_a_part_keeps_the_history():
    batch = Batch(range(4), [b"a", b"b", b"c", b"d"], PLAIN, 2, False, None, frozenset({"x"}))
    part = batch.part(1, 4, 2)
    assert (part.sequences, part.entries) == (range(1, 5, 2), [b"b", b"d"])
    assert (part.delivery_count, part.first_acquirer, part.barred) == (2, False, {"x"})


@pytest.mark.parametrize(
    ("difference", "alike"),
    [
        ({}, True),
        ({"attributes": Attributes()}, True),
        ({"attributes": Attributes(durable=True)}, True),
        ({"attributes": Attributes(redelivered=True)}, False),
        ({"attributes": Attributes(Origin.AMQP091)}, False),
        ({"expires_at": 5.0}, True),
        ({"stored": True}, False),
        ({"delivery_count": 1}, False),
        ({"first_acquirer": False}, False),
        ({"annotations": {}}, False),
        ({"barred": frozenset({"x"})}, False),
        ({"sequences": range(1)}, False),
    ],
)
def test_only_messages_with_the_same_history_in_order_may_be_joined(difference, alike):
    first = Batch(range(1, 2), [b"a"], PLAIN)
    fields = {"sequences": range(2, 3), "entries": [b"b"], "attributes": PLAIN} | difference
    assert first.like(Batch(**fields)) is alike
