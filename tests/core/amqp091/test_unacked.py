"""Outstanding deliveries of a channel: tags, pieces, and what happens with tags that are not there."""

import pytest

from core.amqp091.unacked import Piece, Unacked, UnknownDeliveryTag


def filled(*appended: tuple[str, int, int]) -> Unacked[str]:
    """Deliveries of consumers: name, first number, how many."""
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
    assert unacked.take_all() == [Piece("a", 100, 102), Piece("b", 7, 7)]
    assert unacked.append("a", 103, 1) == 10


def test_a_range_over_several_consumers():
    unacked = filled(("a", 0, 5), ("b", 50, 5), ("a", 5, 5))
    assert unacked.take_range(3, 12) == [Piece("a", 2, 4), Piece("b", 50, 54), Piece("a", 5, 6)]
    assert (unacked.total, unacked.count("a"), unacked.count("b")) == (5, 5, 0)
    assert unacked.take_all() == [Piece("a", 0, 1), Piece("a", 7, 9)]


def test_a_range_with_a_hole_is_taken_up_to_the_hole():
    unacked = filled(("a", 0, 10))
    unacked.take(5)
    with pytest.raises(UnknownDeliveryTag, match="unknown delivery tag 5") as raised:
        unacked.take_range(3, 8)
    assert raised.value.tag == 5
    assert raised.value.taken == [Piece("a", 2, 3)]
    assert unacked.total == 7


def test_up_to_a_tag_passes_over_holes_but_not_over_the_tag_itself():
    unacked = filled(("a", 0, 10))
    unacked.take(5)
    with pytest.raises(UnknownDeliveryTag) as raised:
        unacked.take_up_to(5)
    assert raised.value.taken == []
    assert unacked.total == 9
    assert unacked.take_up_to(6) == [Piece("a", 0, 3), Piece("a", 5, 5)]


@pytest.mark.parametrize("tag", [-1, 0, 3, 2**64 - 1])
def test_tags_that_never_were(tag):
    unacked = filled(("a", 0, 2))
    with pytest.raises(UnknownDeliveryTag):
        unacked.take(tag)
    if tag:
        with pytest.raises(UnknownDeliveryTag):
            unacked.take_up_to(tag)
    assert unacked.total == 2


def test_zero_is_everything_even_when_there_is_nothing():
    unacked = filled(("a", 0, 2))
    assert unacked.take_up_to(0) == [Piece("a", 0, 1)]
    assert unacked.take_up_to(0) == []


def test_deliveries_of_a_queue_that_is_gone_can_be_acknowledged_and_count_for_nothing():
    unacked = filled(("a", 0, 2), ("gone", 0, 2), ("gone", 9, 2), ("b", 0, 2))
    unacked.forget("gone")
    assert (unacked.total, unacked.count("gone")) == (4, 0)
    assert unacked.take(4) == []
    with pytest.raises(UnknownDeliveryTag):
        unacked.take(4)
    assert unacked.take_range(5, 7) == [Piece("b", 0, 0)]
    assert unacked.take_up_to(3) == [Piece("a", 0, 1)]
    assert unacked.take_all() == [Piece("b", 1, 1)]


def test_consecutive_deliveries_are_one_piece():
    unacked = filled(*(("a", number, 1) for number in range(100)))
    assert unacked.take_up_to(50) == [Piece("a", 0, 49)]
    unacked = filled(("a", 0, 1), ("a", 2, 1))
    assert unacked.take_all() == [Piece("a", 0, 0), Piece("a", 2, 2)]
