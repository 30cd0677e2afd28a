"""The arithmetic of goals: quartiles, ratios of pairs of runs, and limits."""

import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.goals import Judgement, Quartiles, figures_of, judge, judge_beside, pair_ratios
from bench.results import Entry
from bench.scenario import Goal

COSTS = st.floats(min_value=0.01, max_value=1e6, allow_subnormal=False)
SERIES = st.lists(COSTS, min_size=1, max_size=9)
PAIRS = st.lists(st.tuples(COSTS, COSTS), min_size=1, max_size=9)


def entry(costs, void=""):
    runs = tuple({"broker_cpu_us": cost, "rate": 1e6 / cost, "void": void} for cost in costs)
    return Entry(scenario="s", parameters={}, broker="b", runs=runs)


def both(pairs):
    return entry([one for one, _ in pairs]), entry([other for _, other in pairs])


@given(SERIES)
def test_quartiles_are_in_order_and_within_the_values(values):
    found = Quartiles.of(values)
    assert min(values) <= found.lower <= found.median <= found.upper <= max(values)
    assert found.median == statistics.median(values)


@given(SERIES, st.randoms(use_true_random=False))
def test_the_order_of_runs_does_not_matter_to_quartiles(values, random):
    shuffled = random.sample(values, len(values))
    assert Quartiles.of(shuffled) == Quartiles.of(values)


@given(SERIES, st.sampled_from([0.25, 2.0, 8.0]))
def test_a_broker_that_costs_so_many_times_as_much_in_every_pair_has_that_ratio(costs, factor):
    found = pair_ratios(entry([cost * factor for cost in costs]), entry(costs), "broker_cpu_us")
    assert found == Quartiles(factor, factor, factor)


@given(PAIRS, COSTS)
def test_other_work_that_slows_both_runs_of_a_pair_changes_no_ratio(pairs, slower):
    slowed = [(pairs[0][0] * slower, pairs[0][1] * slower), *pairs[1:]]
    one, other = (pair_ratios(*both(each), "broker_cpu_us") for each in (pairs, slowed))
    assert one.median == pytest.approx(other.median)


@given(PAIRS.filter(lambda pairs: len(pairs) % 2))
def test_exchanging_the_brokers_gives_the_reciprocal(pairs):
    one, other = both(pairs)
    there, back = pair_ratios(one, other, "broker_cpu_us"), pair_ratios(other, one, "broker_cpu_us")
    assert there.median == pytest.approx(1 / back.median)


@given(SERIES, st.lists(COSTS, min_size=2, max_size=5), st.booleans())
def test_a_goal_that_is_met_is_met_with_any_wider_limit(values, limits, at_least):
    found = Quartiles.of(values)
    judged = [
        Judgement(what="CPU", limit=limit, than="", at_least=at_least, found=found).met
        for limit in sorted(limits, reverse=at_least)
    ]
    assert all(wider >= narrower for narrower, wider in pairwise(judged))


@given(SERIES, st.booleans())
def test_a_figure_on_the_limit_meets_it(values, at_least):
    found = Quartiles.of(values)
    assert Judgement(what="CPU", limit=found.median, than="", at_least=at_least, found=found).met is True


@given(PAIRS, st.sampled_from(["1 lost", "2 duplicated", "3 reordered"]), st.booleans())
def test_a_void_run_on_either_side_is_never_judged(pairs, void, peer_too):
    one, other = both(pairs)
    voided = entry([1.0, 2.0], void)
    sides = (one, voided) if peer_too else (voided, other)
    goal = Goal(rate_ratio_min=0.0, cpu_ratio_max=1e12, cpu_ratio_max_to={"base": 1e12})
    judged = [*judge(goal, *sides), *judge_beside(goal, sides[0], {"base": sides[1]})]
    assert [one.met for one in judged] == [None] * 3
    assert figures_of(voided, "rate") is None


def test_entries_with_unlike_numbers_of_runs_have_no_pairs():
    with pytest.raises(ValueError, match="argument 2 is longer"):
        pair_ratios(entry([1.0]), entry([1.0, 2.0]), "rate")


def test_a_figure_that_one_side_lacks_or_that_is_zero_is_no_ratio():
    bare = Entry(scenario="s", parameters={}, broker="b", runs=({"rate": 0.0, "void": ""},))
    assert pair_ratios(entry([1.0]), bare, "broker_cpu_us") is None
    assert pair_ratios(entry([1.0]), bare, "rate") is None
    assert pair_ratios(entry([1.0]), None, "rate") is None


def test_a_judgement_in_words():
    found = Judgement(what="rate", limit=12.0, than="times the peer's", at_least=True, found=Quartiles(9.0, 8.0, 10.5))
    assert str(found) == "rate at least 12 times the peer's: 9 (8–10.5): MISSED"
    fast = Judgement(what="queues", limit=3000, than="a second", at_least=True, found=Quartiles(12345.6, 999.4, 1e6))
    assert str(fast) == "queues at least 3,000 a second: 12,346 (999–1,000,000): met"
