"""The bytes that a consumer holds, against a model that has the size of each delivery."""

from hypothesis import given
from hypothesis import strategies as st

from amqp10.flow.unsettled_bytes import RUN_MAX, UnsettledBytes


def test_a_consumer_that_holds_nothing_gets_one_message_of_any_size():
    held = UnsettledBytes()
    assert held.room(1) == 1
    held.delivered(0, [1000])
    assert (held.held, held.excess(1, 1), held.room(1)) == (1000, 0, 0)
    held.gone(0, 0)
    assert (held.held, held.count, held.room(1)) == (0, 0, 1)


def test_as_many_messages_are_asked_for_as_there_is_room_for():
    held = UnsettledBytes()
    held.delivered(0, [10, 30])
    assert held.room(100) == 3
    held.delivered(2, [59])
    assert held.room(100) == 1
    held.delivered(3, [1])
    assert held.room(100) == 0


def test_the_size_of_a_message_rises_at_once_and_falls_by_tenths():
    held = UnsettledBytes()
    held.delivered(0, [100])
    held.delivered(1, [1000])
    assert held.room(11_100) == 10
    held.delivered(2, [0])
    assert held.room(10_100) == 10


def test_what_is_too_much_goes_back_newest_first_and_nothing_is_asked_for_until_something_is_settled():
    held = UnsettledBytes()
    held.delivered(0, [40, 40, 40, 5])
    assert held.excess(100, 4) == 2
    assert held.excess(100, 1) == 1, "only what waits can go back"
    held.gone(2, 3)
    held.full = True
    assert (held.held, held.room(100)) == (80, 0)
    held.gone(0, 0)
    assert held.room(100) == 1


def test_one_message_stays_however_large():
    held = UnsettledBytes()
    held.delivered(0, [500, 500])
    assert held.excess(1, 2) == 1


def test_numbers_that_are_not_known_are_skipped():
    held = UnsettledBytes()
    held.gone(0, 10)
    held.delivered(5, [1, 2, 3])
    held.gone(0, 4)
    held.gone(8, 2**70)
    assert (held.held, held.count) == (6, 3)
    held.gone(0, 2**70)
    assert (held.held, held.count) == (0, 0)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("delivered"), st.lists(st.integers(0, 50), min_size=1, max_size=12), st.integers(0, 2)),
        st.tuples(st.just("many"), st.integers(RUN_MAX - 1, 2 * RUN_MAX + 1), st.integers(0, 2)),
        st.tuples(st.just("gone"), st.integers(0, 60), st.integers(0, 300)),
    ),
    max_size=40,
)


@given(steps, st.integers(1, 200), st.integers(0, 20))
def test_what_is_held_is_what_a_plain_table_says(steps, most, waiting):
    held, sizes, next_number = UnsettledBytes(), {}, 0
    for step, argument, offset in steps:
        if step == "gone":
            numbers = sorted(sizes)
            first = numbers[min(argument, len(numbers) - 1)] if numbers else argument
            held.gone(first, first + offset)
            sizes = {number: size for number, size in sizes.items() if not first <= number <= first + offset}
        else:
            came = argument if isinstance(argument, list) else [7] * argument
            next_number += offset
            held.delivered(next_number, came)
            sizes |= dict(enumerate(came, next_number))
            next_number += len(came)
        assert (held.held, held.count) == (sum(sizes.values()), len(sizes))
        newest = [sizes[number] for number in sorted(sizes, reverse=True)]
        stay = held.held
        excess = held.excess(most, waiting)
        assert 0 <= excess <= max(0, min(waiting, len(newest) - 1))
        left = stay - sum(newest[:excess])
        assert left <= most or excess == max(0, min(waiting, len(newest) - 1))
        assert excess == 0 or left + newest[excess - 1] > most
        assert (held.room(most) == 0) == (bool(sizes) and held.held >= most)
