"""The unsettled map and the batch of dispositions, situation by situation."""

import pytest

from amqp10.flow.unsettled import DeliveryIdRange, DispositionBatch, PendingDisposition, UnsettledLimit, UnsettledMap


def ten_of_each() -> UnsettledMap[str]:
    """Ids 100 to 109 are link a's numbers from 0, 110 to 119 b's from 50, 120 to 129 a's from 10."""
    unsettled: UnsettledMap[str] = UnsettledMap()
    unsettled.add(100, 10, "a", 0)
    unsettled.add(110, 10, "b", 50)
    unsettled.add(120, 10, "a", 10)
    return unsettled


def test_a_new_map_is_empty():
    unsettled: UnsettledMap[str] = UnsettledMap()
    assert unsettled.count == 0
    assert unsettled.ranges() == []
    assert unsettled.settle(0, 2**40) == []
    assert unsettled.overlap(0, 2**40) == []
    assert unsettled.forget("a") == []


def test_how_many_an_owner_has():
    unsettled = ten_of_each()
    assert (unsettled.held_by("a"), unsettled.held_by("b"), unsettled.held_by("c")) == (20, 10, 0)
    unsettled.settle(105, 111)
    assert (unsettled.held_by("a"), unsettled.held_by("b")) == (15, 8)


def test_deliveries_in_a_row_are_one_record():
    unsettled: UnsettledMap[str] = UnsettledMap()
    for i in range(1000):
        unsettled.add(2**32 - 500 + i, 1, "a", 7 + i)
    assert unsettled.ranges() == [DeliveryIdRange("a", 2**32 - 500, 2**32 + 499, 7)]
    assert unsettled.ranges()[0].last_number == 1006
    assert unsettled.count == 1000


@pytest.mark.parametrize(
    ("first", "owner", "number"), [(11, "a", 10), (10, "b", 10), (10, "a", 11)], ids=["gap", "owner", "number"]
)
def test_what_does_not_adjoin_is_another_record(first, owner, number):
    unsettled: UnsettledMap[str] = UnsettledMap()
    unsettled.add(0, 10, "a", 0)
    unsettled.add(first, 1, owner, number)
    assert unsettled.ranges() == [DeliveryIdRange("a", 0, 9, 0), DeliveryIdRange(owner, first, first, number)]


@pytest.mark.parametrize("first", [9, 5, 0])
def test_ids_only_grow(first):
    unsettled: UnsettledMap[str] = UnsettledMap()
    unsettled.add(0, 10, "a", 0)
    with pytest.raises(AssertionError):
        unsettled.add(first, 1, "a", 10)


def test_owners_that_look_alike_are_told_apart():
    unsettled: UnsettledMap[object] = UnsettledMap()
    one, other = object(), object()
    unsettled.add(0, 1, one, 0)
    unsettled.add(1, 1, other, 1)
    assert [piece.owner is one for piece in unsettled.ranges()] == [True, False]
    assert [piece.first for piece in unsettled.forget(other)] == [1]


@pytest.mark.parametrize(
    ("first", "last", "taken"),
    [
        (100, 109, [DeliveryIdRange("a", 100, 109, 0)]),
        (100, 100, [DeliveryIdRange("a", 100, 100, 0)]),
        (109, 109, [DeliveryIdRange("a", 109, 109, 9)]),
        (103, 105, [DeliveryIdRange("a", 103, 105, 3)]),
        (105, 114, [DeliveryIdRange("a", 105, 109, 5), DeliveryIdRange("b", 110, 114, 50)]),
        (0, 99, []),
        (130, 2**40, []),
        (0, 100, [DeliveryIdRange("a", 100, 100, 0)]),
        (129, 2**32, [DeliveryIdRange("a", 129, 129, 19)]),
        (
            109,
            120,
            [DeliveryIdRange("a", 109, 109, 9), DeliveryIdRange("b", 110, 119, 50), DeliveryIdRange("a", 120, 120, 10)],
        ),
        (
            0,
            2**40,
            [DeliveryIdRange("a", 100, 109, 0), DeliveryIdRange("b", 110, 119, 50), DeliveryIdRange("a", 120, 129, 10)],
        ),
        (-5, 99, []),
        (105, 104, []),
    ],
)
def test_a_range_is_intersected_with_what_exists(first, last, taken):
    unsettled = ten_of_each()
    assert unsettled.overlap(first, last) == taken
    assert unsettled.count == 30
    assert unsettled.settle(first, last) == taken
    assert unsettled.overlap(first, last) == []
    assert unsettled.settle(first, last) == []
    assert unsettled.count == 30 - sum(piece.last - piece.first + 1 for piece in taken)
    left = unsettled.settle(0, 2**40)
    assert sum(piece.last - piece.first + 1 for piece in left) == 30 - sum(p.last - p.first + 1 for p in taken)


def test_what_is_left_of_a_record_keeps_its_numbers():
    unsettled = ten_of_each()
    unsettled.settle(103, 105)
    assert unsettled.ranges()[:2] == [DeliveryIdRange("a", 100, 102, 0), DeliveryIdRange("a", 106, 109, 6)]


def test_a_range_may_begin_behind_a_record_and_end_before_the_next():
    unsettled: UnsettledMap[str] = UnsettledMap()
    unsettled.add(0, 5, "a", 0)
    unsettled.add(10, 5, "a", 5)
    assert unsettled.settle(5, 9) == []
    assert unsettled.settle(5, 10) == [DeliveryIdRange("a", 10, 10, 5)]
    assert unsettled.ranges() == [DeliveryIdRange("a", 0, 4, 0), DeliveryIdRange("a", 11, 14, 6)]


def test_a_record_grows_behind_what_was_settled():
    unsettled: UnsettledMap[str] = UnsettledMap()
    unsettled.add(0, 10, "a", 0)
    unsettled.settle(0, 4)
    unsettled.add(10, 10, "a", 10)
    assert unsettled.ranges() == [DeliveryIdRange("a", 5, 19, 5)]


def test_forgetting_an_owner_takes_all_of_it_and_nothing_else():
    unsettled = ten_of_each()
    assert unsettled.forget("c") == []
    assert unsettled.forget("a") == [DeliveryIdRange("a", 100, 109, 0), DeliveryIdRange("a", 120, 129, 10)]
    assert unsettled.ranges() == [DeliveryIdRange("b", 110, 119, 50)]
    assert unsettled.count == 10
    assert unsettled.settle(105, 112) == [DeliveryIdRange("b", 110, 112, 50)]


# --- dispositions on their way out ----------------------------------------------------------------------------------


def test_an_empty_batch_is_false_and_gives_nothing():
    batch: DispositionBatch[str] = DispositionBatch()
    assert not batch.pending
    assert batch.take() == []


def test_dispositions_that_adjoin_are_one():
    batch: DispositionBatch[str] = DispositionBatch()
    for i in range(100):
        batch.add(2**32 - 50 + i, 2**32 - 50 + i, "accepted", settled=True)
    batch.add(2**32 + 50, 2**32 + 60, "accepted", settled=True)
    assert batch.pending
    assert batch.take() == [PendingDisposition(2**32 - 50, 2**32 + 60, True, "accepted")]
    assert not batch.pending


@pytest.mark.parametrize(
    ("first", "state", "settled"),
    [(6, "accepted", True), (4, "accepted", True), (5, "released", True), (5, "accepted", False)],
    ids=["gap", "behind", "state", "settled"],
)
def test_dispositions_that_do_not_adjoin_keep_their_order(first, state, settled):
    batch: DispositionBatch[str] = DispositionBatch()
    batch.add(0, 4, "accepted", settled=True)
    batch.add(first, first, state, settled=settled)
    batch.add(20, 20, "accepted", settled=True)
    assert batch.take() == [
        PendingDisposition(0, 4, True, "accepted"),
        PendingDisposition(first, first, settled, state),
        PendingDisposition(20, 20, True, "accepted"),
    ]


def test_owners_are_held_at_the_limit_and_released_below_it():
    limit: UnsettledLimit[str] = UnsettledLimit(10)
    assert not limit.tell("a", 9)
    assert limit.tell("b", 1)
    assert limit.count == 10
    assert list(limit.released()) == []
    assert not limit.tell("a", 8)
    assert list(limit.released()) == ["b"]
    assert list(limit.released()) == []
    assert not limit.tell("b", 1)


def test_an_owner_that_is_over_counts_no_more():
    limit: UnsettledLimit[str] = UnsettledLimit(10)
    limit.tell("a", 6)
    assert limit.tell("b", 6)
    limit.forget("a")
    limit.forget("never told")
    assert limit.count == 6
    assert list(limit.released()) == ["b"]
    assert limit.tell("b", 10)
    limit.forget("b")
    assert (limit.count, list(limit.released())) == (0, [])


def test_nothing_is_held_once_all_is_forgotten():
    limit: UnsettledLimit[str] = UnsettledLimit(1)
    limit.tell("a", 5)
    limit.clear()
    assert (limit.count, list(limit.released())) == (0, [])
