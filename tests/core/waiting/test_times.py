"""The times of numbered things, known from marks: never too late, right to a share of the age, and few."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from core.waiting.times import AGE_SHARE, GRAIN_S, THINNED_FROM, Times


def worst(age: float) -> float:
    """The highest age that may be shown for a message of this age."""
    return age + max(GRAIN_S, AGE_SHARE * age) + 1e-6


@given(st.lists(st.tuples(st.floats(0.0, 300.0), st.integers(1, 50)), min_size=1, max_size=40), st.integers(1, 40))
def test_an_age_is_never_too_low_and_too_high_by_no_more_than_is_said(steps: list[tuple[float, int]], repeats: int):
    times = Times()
    added: list[tuple[int, float]] = []
    now, sequence = 100.0, 0
    for pause, count in steps * repeats:
        now += pause
        if now >= times.due:
            times.mark(sequence, now)
        added.append((sequence, now))
        sequence += count
    now += 1.0
    for first, at in added:
        told = times.age(first, now)
        assert told is not None
        assert now - at - 1e-6 <= told <= worst(now - at)


@pytest.mark.parametrize(("seconds", "marks"), [(60, 110), (86_400, 260), (10 * 365 * 86_400, 440)])
def test_marks_are_few_however_long_a_queue_is_busy(seconds: int, marks: int):
    """Each step between marks is a tenth of the time since then, or a grain. A queue that is never idle has no more
    marks."""
    times = Times()
    now = most = 0.0
    sequence = 0
    while now < seconds:
        for _ in range(THINNED_FROM):  # many marks at each age
            now += GRAIN_S
            times.mark(sequence, now)
            sequence += 1
        most = max(most, len(times))
        now *= 1.05
    assert most <= 2 * marks + THINNED_FROM


def test_nothing_is_known_without_a_number_or_a_mark():
    times = Times()
    assert times.age(0, 5.0) is None
    times.mark(7, 5.0)
    assert times.age(None, 6.0) is None
    assert times.age(3, 6.0) == 1.0  # the first mark stands for everything before it


def test_when_nothing_is_left_the_marks_begin_anew():
    times = Times()
    for number in range(10):
        times.mark(number, float(number))
    times.clear()
    times.mark(10, 10.0)
    assert (len(times), times.age(10, 12.0)) == (1, 2.0)
