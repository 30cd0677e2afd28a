"""The interval that :mod:`bench.watched` prints, and the configurations that it measures."""

import math
from itertools import product

import pytest

from bench.watched import interval


def test_twenty_pairs_give_the_sixth_values_from_both_ends():
    assert interval([float(n) for n in range(20, 0, -1)]) == (6.0, 15.0)


def test_too_few_pairs_say_nothing():
    assert interval([1.0, 2.0, 3.0]) == (-math.inf, math.inf)


@pytest.mark.parametrize("pairs", [6, 9, 12])
def test_the_interval_has_the_median_as_often_as_it_says(pairs: int):
    """All ways in which values fall below (-1) or above (1) a median of 0, which are equally likely."""
    held = 0
    for signs in product((-1.0, 1.0), repeat=pairs):
        low, high = interval(signs)
        held += low <= 0.0 <= high
    assert held / 2**pairs >= 0.95
