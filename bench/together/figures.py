"""Rates from counters: of a whole run, and over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.together.job import Sample

Counter = Callable[[Sample], int]
Point = tuple[float, float]
"""Seconds, and messages per second."""
AXIS_STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


def published(number: int) -> Counter:
    """The counter of one publisher."""
    return lambda sample: sample.published[number]


def consumed(sample: Sample) -> int:
    """The counter of the consumer."""
    return sample.consumed


def rates_over_time(samples: Sequence[Sample], counter: Counter, *, window: int = 3) -> list[Point]:
    """The rate at each sample except the first, over the last ``window`` steps."""
    points = []
    for index in range(1, len(samples)):
        begin, end = samples[max(0, index - window)], samples[index]
        if end.seconds > begin.seconds:
            points.append((end.seconds, (counter(end) - counter(begin)) / (end.seconds - begin.seconds)))
    return points


def round_up(value: float) -> float:
    """The end of an axis: the next number that divides well by five. It may be 1 % too small."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(step * power for step in AXIS_STEPS if step * power >= value * 0.99)
