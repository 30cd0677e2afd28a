"""How long answers take, and since when the oldest message waits, compared with a note for each message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.counters.flow_totals import Durations
from core.server.arrivals import STAMPS_MAX, UnansweredArrivals

BOUNDS = (1.0, 2.0)


def durations() -> dict[bool, Durations]:
    return {durable: Durations(BOUNDS) for durable in (False, True)}


@given(
    runs=st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.integers(0, 1), st.integers(0, 2)), max_size=30),
    order=st.randoms(use_true_random=False),
)
def test_each_message_counts_once_whatever_the_order_of_answers(runs: list[tuple[int, bool, int, int]], order) -> None:
    told = durations()
    arrivals = UnansweredArrivals(told)
    came: dict[int, tuple[bool, float]] = {}
    number, now = 0, 0.0
    for n, durable, gap, seconds in runs:
        now += seconds
        number += gap
        arrivals.came(number, n, durable=durable, now=now)
        came |= dict.fromkeys(range(number, number + n), (durable, now))
        number += n
    waiting = list(came)
    order.shuffle(waiting)
    expected = {False: 0.0, True: 0.0}
    while waiting:
        assert arrivals.oldest == min(came[each][1] for each in waiting)
        answered = waiting.pop()
        now += 0.5
        arrivals.answered(answered, answered, now)
        durable, since = came[answered]
        expected[durable] += now - since
    assert arrivals.oldest is None
    assert {durable: told[durable].seconds for durable in told} == pytest.approx(expected)
    assert sum(told[True].counts) == sum(durable for durable, _ in came.values())


def test_a_range_over_several_runs():
    told = durations()
    arrivals = UnansweredArrivals(told)
    arrivals.came(10, 5, durable=False, now=0.0)
    arrivals.came(15, 5, durable=True, now=1.0)
    arrivals.answered(0, 16, 1.5)
    assert (told[False].counts, told[True].counts) == ([0, 5, 0], [2, 0, 0])
    assert arrivals.oldest == 1.0
    arrivals.answered(17, 30, 9.0)
    assert told[True].counts == [2, 0, 3]


def test_neighbours_of_one_turn_share_a_stamp():
    arrivals = UnansweredArrivals(durations())
    for number in range(1000):
        arrivals.came(number, 1, durable=False, now=7.0)
    assert len(arrivals._stamps) == 1


def test_stamps_are_bounded_and_nothing_is_lost():
    told = durations()
    arrivals = UnansweredArrivals(told)
    for number in range(3 * STAMPS_MAX):
        arrivals.came(number, 1, durable=False, now=float(number))
    assert len(arrivals._stamps) == STAMPS_MAX
    arrivals.answered(0, 3 * STAMPS_MAX - 1, 3.0 * STAMPS_MAX)
    assert sum(told[False].counts) == 3 * STAMPS_MAX
    assert arrivals.oldest is None


def test_a_clock_that_is_behind_counts_as_no_time():
    told = durations()
    arrivals = UnansweredArrivals(told)
    arrivals.came(0, 1, durable=False, now=5.0)
    arrivals.answered(0, 0, 4.0)
    assert (told[False].counts, told[False].seconds) == ([1, 0, 0], 0.0)
