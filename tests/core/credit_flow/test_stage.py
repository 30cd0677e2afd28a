"""A stage lets messages through in order and within its budget."""

import hypothesis.strategies as st
from hypothesis import given

from core.credit_flow.stage import RUNS_PER_TURN, Stage


def stage_with(*counts: int, budget: int | None) -> Stage[str]:
    stage: Stage[str] = Stage(budget)
    for name, count in zip("abcdef", counts, strict=False):
        stage.put(name, count)
    return stage


def test_everything_leaves_in_one_turn_without_a_budget():
    stage = stage_with(3, 2, budget=None)
    assert stage.take_turn() == [("a", 0, 3), ("b", 0, 2)]
    assert stage.waiting == 0
    assert stage.take_turn() == []


def test_a_run_is_cut_by_the_budget_and_goes_on_where_it_was_cut():
    stage = stage_with(5, 2, budget=3)
    assert [stage.take_turn() for _ in range(3)] == [[("a", 0, 3)], [("a", 3, 5), ("b", 0, 1)], [("b", 1, 2)]]


def test_a_budget_of_nothing_lets_nothing_through():
    stage = stage_with(5, budget=0)
    assert stage.take_turn() == []
    assert stage.stalled
    assert stage.waiting == 5


def test_the_budget_may_change_at_any_time():
    stage = stage_with(5, budget=2)
    stage.take_turn()
    stage.messages_per_turn = None
    assert stage.take_turn() == [("a", 2, 5)]


def test_a_stage_that_is_given_up_hands_out_its_messages():
    stage = stage_with(3, 2, budget=2)
    stage.take_turn()
    assert stage.take_all() == [("a", 2, 3), ("b", 0, 2)]
    assert stage.waiting == 0


@given(
    counts=st.lists(st.integers(1, 20), max_size=10),
    budgets=st.lists(st.integers(1, 15), min_size=200, max_size=200),
)
def test_parts_adjoin_and_add_up(counts, budgets):
    stage: Stage[int] = Stage(1)
    for run, count in enumerate(counts):
        stage.put(run, count)
    left = []
    for budget in budgets:
        stage.messages_per_turn = budget
        waiting = stage.waiting
        parts = stage.take_turn()
        assert sum(stop - start for _, start, stop in parts) == min(budget, waiting) == waiting - stage.waiting
        left += [(run, place) for run, start, stop in parts for place in range(start, stop)]
    assert left == [(run, place) for run, count in enumerate(counts) for place in range(count)]


def test_a_turn_takes_so_many_runs_however_short_they_are():
    stage: Stage[str] = Stage(10_000)
    for number in range(RUNS_PER_TURN + 3):
        stage.put(str(number), 1)
    assert len(stage.take_turn()) == RUNS_PER_TURN
    assert (stage.waiting, stage.runs) == (3, 3)
    assert [run for run, _, _ in stage.take_turn()] == [str(RUNS_PER_TURN + number) for number in range(3)]
    assert stage.waiting == 0
