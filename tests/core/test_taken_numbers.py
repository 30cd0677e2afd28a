"""What is remembered of publishing ids: exactly what was added, within the bound; and how messages say them."""

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from core.errors import Invalid
from core.taken_numbers import KnownId, PublishingId, TakenNumbers, packed, publishing_id

PUBLISHERS = ("a", "b", "c")
ADDED = st.lists(st.tuples(st.sampled_from(PUBLISHERS), st.integers(0, 40), st.integers(1, 9)), max_size=40)
EVERY_ID = [PublishingId(publisher, number) for publisher in PUBLISHERS for number in range(60)]


def added(them, ranges_max=1000):
    taken = TakenNumbers(ranges_max)
    for publisher, first, count in them:
        taken.add(publisher, first, first + count)
    return taken


def known(taken):
    return {name for name in EVERY_ID if taken.known(name) is KnownId.TAKEN}


@given(ADDED)
def test_what_was_added_is_known_and_nothing_else(them):
    taken = added(them)
    expected = {
        PublishingId(publisher, number) for publisher, first, count in them for number in range(first, first + count)
    }
    assert known(taken) == expected
    for _, floor, *bounds in taken.packed():
        assert floor == 0
        assert bounds == sorted(set(bounds)), "the ranges are ascending and do not touch"
    assert taken.ranges == sum(len(bounds) // 2 for _, _, *bounds in taken.packed())


@given(ADDED, st.integers(2, 6))
def test_a_bound_forgets_and_never_invents(them, ranges_max):
    taken, whole = added(them, ranges_max), added(them)
    assert taken.ranges <= ranges_max
    for name in EVERY_ID:
        if taken.known(name) is not KnownId.FORGOTTEN:
            assert taken.known(name) is KnownId.NEW or whole.known(name) is KnownId.TAKEN
    if them:
        publisher, first, count = them[-1]
        newest = PublishingId(publisher, first + count - 1)
        assert taken.known(newest) is not KnownId.NEW, "what was added last may be too low, but never counts as new"


@given(ADDED, st.integers(2, 6))
@example([("a", 0, 1), ("b", 0, 1), ("b", 2, 1), ("b", 0, 2)], 2)  # ids below the floor came again
def test_plain_values_and_copies_say_the_same(them, ranges_max):
    taken = added(them, ranges_max)
    copy = taken.copy()
    assert copy.packed() == taken.packed()
    assert [copy.known(name) for name in EVERY_ID] == [taken.known(name) for name in EVERY_ID]
    copy.add("a", 100, 101)
    assert taken.known(PublishingId("a", 100)) is KnownId.NEW


@given(ADDED, ADDED, st.integers(2, 6))
def test_only_what_others_remember_is_kept(them, others, ranges_max):
    taken, other = added(them), added(others, ranges_max)
    kept = taken.still_in(other)
    publishers = {publisher for publisher, *_ in other.packed()}
    for name in EVERY_ID:
        if name.publisher not in publishers:
            assert kept.known(name) is KnownId.NEW
        elif other.known(name) is KnownId.FORGOTTEN:
            assert kept.known(name) in (KnownId.FORGOTTEN, KnownId.NEW)
        else:
            assert kept.known(name) is taken.known(name)


def test_a_publisher_that_counts_up_costs_one_range():
    taken = TakenNumbers(2)
    for number in range(10_000):
        taken.add("a", number, number + 1)
    assert taken.ranges == 1


def test_the_publisher_of_longest_ago_is_forgotten_first():
    taken = TakenNumbers(3)
    for publisher in ("a", "b", "c", "a", "d"):
        taken.add(publisher, 0, 5)
    assert [taken.known(PublishingId(publisher, 0)) for publisher in "abcd"] == [
        KnownId.TAKEN,
        KnownId.NEW,
        KnownId.TAKEN,
        KnownId.TAKEN,
    ]


def test_a_publisher_with_many_gaps_forgets_its_own_lowest_ids_and_no_others():
    taken = TakenNumbers(6)
    taken.add("quiet", 0, 5)
    for number in range(0, 40, 2):
        taken.add("a", number, number + 1)
    assert taken.known(PublishingId("quiet", 0)) is KnownId.TAKEN
    assert taken.known(PublishingId("a", 0)) is KnownId.FORGOTTEN
    assert taken.known(PublishingId("a", 38)) is KnownId.TAKEN
    assert taken.known(PublishingId("a", 37)) is KnownId.NEW


def test_names_are_packed_by_publisher():
    names = [PublishingId("a", 1), None, PublishingId("a", 2), PublishingId("b", 7)]
    assert packed(names) == [["a", 0, 1, 3], ["b", 0, 7, 8]]


@pytest.mark.parametrize(
    "fields",
    [
        {"x-opt-publisher": "p", "x-opt-publishing-id": 7},
        {"x-opt-spark-batch": "p", "x-opt-spark-row": 7, "other": 1},
    ],
)
def test_a_message_says_its_publisher_and_its_id(fields):
    assert publishing_id(fields) == PublishingId("p", 7)


def test_a_message_may_say_nothing():
    assert publishing_id({"x-opt-other": 1}) is None


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"x-opt-publishing-id": 7}, "x-opt-publisher is not set"),
        ({"x-opt-publisher": "p"}, "x-opt-publishing-id is not set"),
        ({"x-opt-publisher": "", "x-opt-publishing-id": 7}, "x-opt-publisher is ''"),
        ({"x-opt-publisher": "p" * 256, "x-opt-publishing-id": 7}, "1 to 255 bytes"),
        ({"x-opt-publisher": 5, "x-opt-publishing-id": 7}, "x-opt-publisher is 5"),
        ({"x-opt-publisher": "p", "x-opt-publishing-id": -1}, "x-opt-publishing-id is -1"),
        ({"x-opt-publisher": "p", "x-opt-publishing-id": 2**63}, "0 to 2\\^63 - 1"),
        ({"x-opt-publisher": "p", "x-opt-publishing-id": True}, "x-opt-publishing-id is True"),
        ({"x-opt-publisher": "p", "x-opt-publishing-id": "7"}, "x-opt-publishing-id is '7'"),
    ],
)
def test_nonsense_is_refused_with_its_value(fields, wrong):
    with pytest.raises(Invalid, match=wrong):
        publishing_id(fields)
