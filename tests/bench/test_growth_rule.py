"""The rule of the growth benchmark: logarithmic costs always pass, and faster growth fails, whatever the noise."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.growth.rule import NOISE, Point, excess, judged

COLUMNS = st.sampled_from([(1, 100, 10_000), (1, 100, 1000), (1, 10, 100, 1000), (1, 100, 10_000, 1_000_000)])
COSTS = st.floats(1e-7, 10.0)
OFF = st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4)


def measured(columns, cost: Callable[[int], float], off, resolution: float = 0.0, resolution_off=(0.0,) * 4):
    """Measurements of a true cost, each off by a share of the noise and a share of the resolution."""
    return [
        Point(things, cost(things) * (1 + NOISE * noise) + resolution * shift, resolution)
        for things, noise, shift in zip(columns, off, resolution_off, strict=False)
    ]


@given(COLUMNS, COSTS, st.floats(0.0, 10.0), OFF, st.floats(0.0, 1.0), OFF)
def test_constant_and_logarithmic_costs_pass(columns, constant, slope, off, resolution, resolution_off):
    series = measured(columns, lambda n: constant + slope * math.log(n), off, resolution, resolution_off)
    # A hair of room, because a measurement may be exactly on its bound.
    assert excess([Point(one.things, one.cost, one.resolution + 1e-9 * one.cost) for one in series]) is None


@given(COLUMNS, COSTS, OFF)
@pytest.mark.parametrize(
    "growth",
    [lambda n: n, lambda n: n * (1 + math.log(n)), lambda n: n * n, lambda n: math.sqrt(n) ** 1.5],
    ids=["n", "n log n", "n^2", "n^0.75"],
)
def test_faster_growth_fails(growth, columns, unit, off):
    assert excess(measured(columns, lambda n: unit * growth(n), off)) is not None


@given(COSTS, st.floats(3.7, 1e6), OFF)
def test_a_linear_part_fails_once_it_is_large_beside_the_rest(constant, times, off):
    columns = (1, 100, 10_000)
    slope = (times - 1) * constant / 10_000
    assert excess(measured(columns, lambda n: constant + slope * n, off)) is not None


@given(COSTS, st.floats(3.7, 1e6), OFF)
def test_a_million_more_things_show_a_smaller_linear_part(constant, times, off):
    columns = (1, 100, 10_000, 1_000_000)
    slope = (times - 1) * constant / 1_000_000
    assert excess(measured(columns, lambda n: constant + slope * n, off)) is not None


@given(COLUMNS, COSTS, OFF)
def test_costs_that_fall_or_level_off_pass(columns, constant, off):
    falling = measured(columns, lambda n: constant / n, off)
    levelling = measured(columns, lambda n: constant * (1.0 if n == 1 else 50.0), off)
    assert excess(falling) is None
    assert excess([Point(one.things, one.cost, 1e-9 * one.cost) for one in levelling]) is None


@given(COLUMNS, st.floats(1e-7, 1e-3), OFF)
def test_growth_within_the_resolution_passes(columns, resolution, off):
    assert (
        excess([Point(n, resolution * (1 + noise) / 2, resolution) for n, noise in zip(columns, off, strict=False)])
        is None
    )


def test_the_worst_three_are_named():
    series = [Point(1, 10.0), Point(100, 10.0), Point(10_000, 50.0), Point(1_000_000, 4000.0)]
    found = excess(series)
    assert found is not None
    assert found.last.things == 1_000_000
    assert found.factor == pytest.approx(4000 / 1.2 / found.allowed)
    assert found.allowed < 62.6


def test_two_measurements_are_not_judged():
    assert not judged([Point(1, 1.0), Point(100, 100.0)])
    assert excess([Point(1, 1.0), Point(100, 100.0)]) is None
    assert judged([Point(1, 1.0), Point(100, 1.0), Point(200, 1.0)])
