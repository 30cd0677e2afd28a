"""Outstanding deliveries of a channel: tags, ranges, and tags that do not exist."""

import pytest

from core.amqp091.unacked import DeliveryRange, Unacked, UnknownDeliveryTag


def take_all(unacked: Unacked[str]) -> list[DeliveryRange[str]]:
    """Take everything, in order."""
    taken: list[DeliveryRange[str]] = []
    while unacked.newest:
        taken += unacked.take_up_to(unacked.newest)[0]
    return taken


def filled(*appended: tuple[str, int, int]) -> Unacked[str]:
    """Deliveries of consumers, each given as name, first number, and how many."""
    unacked: Unacked[str] = Unacked()
    for consumer, first, n in appended:
        unacked.append(consumer, first, n)
    return unacked


def test_tags_count_from_one_over_all_consumers_and_those_without_acknowledgement():
    unacked: Unacked[str] = Unacked()
    assert unacked.append("a", 100, 3) == 1
    assert unacked.skip(5) == 4
    assert unacked.append("b", 7, 1) == 9
    assert (unacked.total, unacked.count("a"), unacked.count("b"), unacked.count("c")) == (4, 3, 1, 0)
    with pytest.raises(UnknownDeliveryTag, match="unknown delivery tag 4"):
        unacked.take(4)
    assert take_all(unacked) == [DeliveryRange("a", 100, 102), DeliveryRange("b", 7, 7)]
    assert unacked.append("a", 103, 1) == 10


def test_a_range_over_several_consumers():
    unacked = filled(("a", 0, 5), ("b", 50, 5), ("a", 5, 5))
    assert unacked.take_range(3, 12) == (
        [DeliveryRange("a", 2, 4), DeliveryRange("b", 50, 54), DeliveryRange("a", 5, 6)],
        13,
    )
    assert (unacked.total, unacked.count("a"), unacked.count("b")) == (5, 5, 0)
    assert take_all(unacked) == [DeliveryRange("a", 0, 1), DeliveryRange("a", 7, 9)]


def test_a_range_with_a_hole_is_taken_up_to_the_hole():
    unacked = filled(("a", 0, 10))
    unacked.take(5)
    with pytest.raises(UnknownDeliveryTag, match="unknown delivery tag 5") as raised:
        unacked.take_range(3, 8)
    assert raised.value.tag == 5
    assert raised.value.taken == [DeliveryRange("a", 2, 3)]
    assert unacked.total == 7


def test_up_to_a_tag_passes_over_holes_but_not_over_the_tag_itself():
    unacked = filled(("a", 0, 10))
    unacked.take(5)
    with pytest.raises(UnknownDeliveryTag) as raised:
        unacked.take_up_to(5)
    assert raised.value.taken == []
    assert unacked.total == 9
    assert unacked.take_up_to(6) == ([DeliveryRange("a", 0, 3), DeliveryRange("a", 5, 5)], 7)


@pytest.mark.parametrize("tag", [-1, 0, 3, 2**64 - 1])
def test_tags_that_never_were(tag):
    unacked = filled(("a", 0, 2))
    with pytest.raises(UnknownDeliveryTag):
        unacked.take(tag)
    with pytest.raises(UnknownDeliveryTag):
        unacked.take_up_to(tag)
    assert unacked.total == 2


def test_the_newest_is_the_highest_tag_outstanding():
    unacked = filled(("a", 0, 2))
    assert unacked.newest == 2
    unacked.take(2)
    assert unacked.newest == 1
    unacked.take(1)
    assert unacked.newest == 0


def with_gaps(n: int) -> Unacked[str]:
    """Outstanding deliveries in ``n`` records of one delivery each, of which two at a time are taken out."""
    unacked: Unacked[str] = Unacked(records_at_once=2)
    for number in range(n):
        unacked.append("a", 2 * number, 1)
        unacked.skip(1)
    return unacked


def test_many_records_are_taken_out_some_at_a_time():
    unacked = with_gaps(5)
    assert unacked.take_up_to(9) == ([DeliveryRange("a", 0, 0), DeliveryRange("a", 2, 2)], 4)
    assert unacked.total == 3
    assert unacked.take_up_to(9) == ([DeliveryRange("a", 4, 4), DeliveryRange("a", 6, 6)], 8)
    assert unacked.take_up_to(9) == ([DeliveryRange("a", 8, 8)], 10)
    unacked = filled(*(("a", 2 * number, 1) for number in range(200)))
    taken, due = unacked.take_range(1, 200)
    assert (len(taken), due) == (64, 65)
    assert unacked.take_range(due, 70) == ([DeliveryRange("a", 2 * number, 2 * number) for number in range(64, 70)], 71)


def test_a_hole_behind_a_step_is_found_by_the_next():
    unacked: Unacked[str] = Unacked(records_at_once=1)
    unacked.append("a", 0, 1)
    unacked.append("a", 5, 1)
    unacked.skip(1)
    assert unacked.take_range(1, 3) == ([DeliveryRange("a", 0, 0)], 2)
    assert unacked.take_range(2, 3) == ([DeliveryRange("a", 5, 5)], 3)
    with pytest.raises(UnknownDeliveryTag, match="3") as raised:
        unacked.take_range(3, 3)
    assert raised.value.taken == []


def test_deliveries_of_a_queue_that_is_gone_can_be_acknowledged_and_count_for_nothing():
    unacked = filled(("a", 0, 2), ("gone", 0, 2), ("gone", 9, 2), ("b", 0, 2))
    unacked.forget("gone")
    assert (unacked.total, unacked.count("gone")) == (4, 0)
    assert unacked.take(4) == []
    with pytest.raises(UnknownDeliveryTag):
        unacked.take(4)
    assert unacked.take_range(5, 7) == ([DeliveryRange("b", 0, 0)], 8)
    assert unacked.take_up_to(3) == ([DeliveryRange("a", 0, 1)], 4)
    assert take_all(unacked) == [DeliveryRange("b", 1, 1)]


def test_consecutive_deliveries_are_one_range():
    unacked = filled(*(("a", number, 1) for number in range(100)))
    assert unacked.take_up_to(50) == ([DeliveryRange("a", 0, 49)], 51)
    unacked = filled(("a", 0, 1), ("a", 2, 1))
    assert take_all(unacked) == [DeliveryRange("a", 0, 0), DeliveryRange("a", 2, 2)]
