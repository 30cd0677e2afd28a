"""What a confirm takes by itself, told apart from the wait behind other messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.flow.confirm_time import (
    BELIEVED_SECONDS,
    FALL,
    SHORT_FROM,
    SHORT_SHARE,
    SHORT_WAIT,
    WAIT_FROM,
    WAIT_MIN,
    WAIT_SHARE,
    ConfirmTime,
)


def believing(seconds: float) -> ConfirmTime:
    times = ConfirmTime()
    assert times.period(0.0, seconds, 1000.0, 10.0) is None
    return times


def test_the_first_time_and_a_shorter_one_count():
    times = believing(0.004)
    assert (times.least, times.is_short, times.is_long) == (0.004, True, False)
    times.period(0.1, 0.001, 1000.0, 10.0)
    assert times.least == 0.001
    times.period(0.2, 0.003, 1000.0, 10.0)
    assert (times.least, times.now) == (0.001, 0.003)


def test_the_allowance_is_some_turns_or_some_syncs():
    assert believing(0.0001).allowance == believing(0.001).allowance == WAIT_MIN
    assert believing(0.002).allowance == pytest.approx(SHORT_SHARE * (0.002 - SHORT_FROM))
    assert believing(0.005).allowance == SHORT_WAIT
    assert believing(0.1).allowance == pytest.approx(WAIT_SHARE * (0.1 - WAIT_FROM))
    assert believing(0.1).target == pytest.approx(0.1 + WAIT_SHARE * (0.1 - WAIT_FROM))


def test_a_queue_that_becomes_shorter_is_a_queue():
    """The target confirms as many as before: half of the messages wait for half of the time."""
    times = believing(0.001)
    for seconds in (0.1, 0.05, 0.025, 0.0125):
        assert times.period(1.0, seconds, 1000.0, 10.0) is None
    assert times.least == 0.001


def test_fewer_confirms_that_take_as_long_are_no_queue():
    times = believing(0.001)
    assert times.period(1.0, 0.01, 1000.0, 10.0) is None
    assert times.period(1.1, 0.01, 700.0, 7.0) is None
    assert times.period(1.2, 0.01, 490.0, 4.9) == 10.0
    assert times.least == pytest.approx(0.01)
    assert not times.is_long


@given(
    st.floats(min_value=0.005, max_value=1.0),
    st.floats(min_value=1e-6, max_value=1e-3),
    st.integers(min_value=1, max_value=5000),
)
def test_a_confirm_that_takes_longer_with_more_messages_is_known_without_them(
    alone: float, with_each: float, messages: int
):
    """A disk that takes a time for a sync, and a time for each message of it. Windows are made smaller until that costs
    more than it gains; they are not when the time for the messages is the larger one."""
    times = believing(0.001)
    under_way, returned = float(messages), None
    while under_way > 1 and returned is None:
        seconds = alone + under_way * with_each
        returned = times.period(1.0, seconds, under_way / seconds, under_way)
        under_way *= 0.7
    if returned is not None:
        assert times.least == pytest.approx(alone, rel=1e-6)
    else:
        assert times.least == 0.001


def test_a_target_that_becomes_slower_has_a_queue():
    """Its confirms are fewer before the windows are smaller, and messages wait longer meanwhile."""
    times = believing(0.001)
    times.period(1.0, 0.01, 50_000.0, 10.0)
    for seconds, confirms in ((0.05, 1000.0), (0.1, 1000.0), (0.08, 1000.0), (0.04, 1000.0), (0.02, 1000.0)):
        assert times.period(1.1, seconds, confirms, 5.0) is None
    assert times.least == 0.001


def test_a_queue_that_was_empty_begins_anew():
    times = believing(0.001)
    times.period(1.0, 0.01, 1000.0, 10.0)
    times.period(1.1, 0.001, 800.0, 7.0)
    assert times.period(1.2, 0.01, 490.0, 4.9) is None
    assert times.period(1.3, 0.01, 240.0, 2.4) == 4.9


def test_a_longer_time_is_doubted_by_and_by():
    """Not below what was seen."""
    times = believing(0.001)
    times.period(1.0, 0.01, 1000.0, 10.0)
    times.period(1.1, 0.01, 500.0, 5.0)
    longer = times.least
    times.period(1.1 + BELIEVED_SECONDS, 0.02, 500.0, 5.0)
    assert times.least == longer
    times.period(1.2 + BELIEVED_SECONDS, 0.02, 500.0, 5.0)
    assert times.least == pytest.approx(FALL * longer)
    for number in range(20):
        times.period(2.0 + (2 + number) * BELIEVED_SECONDS, 0.02, 500.0, 5.0)
    assert times.least == 0.001
