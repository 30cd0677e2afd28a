"""The routes of several messages, kept once where they are the same."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from core.message import Attributes, Route, Routes, Run, RunPart, joined, like_routes, part_of

ROUTES = [None, Route("x", ("a",)), Route("x", ("b",)), Route("y", ("a", "c"))]
alike = st.tuples(st.sampled_from(ROUTES), st.integers(1, 5))
unlike = st.lists(st.sampled_from(ROUTES), min_size=1, max_size=6).map(lambda some: (some, len(some)))
groups = alike | unlike


def each(routes: Routes, count: int) -> list[Route | None]:
    """The route of each message, one by one."""
    return list(routes) if isinstance(routes, list) else [routes] * count


@given(group=groups, start=st.integers(0, 6), stop=st.integers(0, 6), step=st.integers(1, 3))
def test_a_part_has_the_routes_of_its_messages(group: tuple[Routes, int], start: int, stop: int, step: int):
    routes, count = group
    part = each(routes, count)[start:stop:step]
    assert each(part_of(routes, start, stop, step), len(part)) == part


@given(first=groups, second=groups)
def test_joined_routes_are_those_of_one_group_and_then_of_the_other(
    first: tuple[Routes, int], second: tuple[Routes, int]
):
    expected = each(*first) + each(*second)
    assert each(joined(*first, *second), len(expected)) == expected


def test_like_messages_need_no_list():
    assert joined(Route("x", ("a",)), 2, Route("x", ("a",)), 3) == Route("x", ("a",))
    assert joined(None, 1, None, 1) is None


@given(group=groups)
def test_ranges_of_one_route_are_as_long_as_can_be(group: tuple[Routes, int]):
    ranges = list(like_routes(*group))
    told = [route for start, stop, route in ranges for _ in range(start, stop)]
    assert told == each(*group)
    assert [start for start, _, _ in ranges] == [0, *(stop for _, stop, _ in ranges[:-1])]
    assert all(before[2] != behind[2] for before, behind in itertools.pairwise(ranges))


@given(
    routes=st.lists(st.sampled_from(ROUTES), min_size=5, max_size=5), start=st.integers(0, 4), stop=st.integers(1, 5)
)
def test_a_part_of_a_run_is_cut_by_its_routes(routes: list[Route | None], start: int, stop: int):
    run = Run(0, [b"%d" % number for number in range(5)], Attributes(), routes=routes)
    part = RunPart(run, start, max(start, stop))
    told = [(entry, route) for piece, route in part.by_routes() for entry in piece.entries]
    assert told == list(zip(run.entries, routes, strict=True))[start:stop]
    assert part.routes == routes[start:stop]
