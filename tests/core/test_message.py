"""What is known of several messages, kept once where it is the same for all."""

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from core.message import (
    Attributes,
    Expiries,
    Origin,
    Route,
    Routes,
    Run,
    RunAttributes,
    RunPart,
    as_redelivered,
    by_durable,
    each_of,
    joined,
    like_ranges,
    may_join,
    part_of,
)

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


ATTRIBUTES = [Attributes(), Attributes(durable=True), Attributes(priority=9), Attributes(ttl_ms=5)]
EXPIRIES = [None, 5.0, 7.0]


def facts(values: list, count: int) -> st.SearchStrategy:
    """One of the values for all messages, or a list with one for each."""
    return st.sampled_from(values) | st.lists(st.sampled_from(values), min_size=count, max_size=count)


@st.composite
def messages(draw: st.DrawFn) -> tuple[int, RunAttributes, Routes, Expiries]:
    """A number of messages and what is known of them."""
    count = draw(st.integers(1, 6))
    return count, draw(facts(ATTRIBUTES, count)), draw(facts(ROUTES, count)), draw(facts(EXPIRIES, count))


@given(group=messages())
def test_ranges_of_like_messages_are_as_long_as_can_be(group: tuple[int, RunAttributes, Routes, Expiries]):
    count, *of_all = group
    ranges = list(like_ranges(*group))
    told = [fact for start, stop, *fact in ranges for _ in range(start, stop)]
    assert told == [list(fact) for fact in zip(*(each_of(values, count) for values in of_all), strict=True)]
    assert [start for start, *_ in ranges] == [0, *(stop for _, stop, *_ in ranges[:-1])]
    assert all(before[2:] != behind[2:] for before, behind in itertools.pairwise(ranges))


@given(group=messages(), start=st.integers(0, 5), stop=st.integers(1, 6))
def test_a_part_of_a_run_is_cut_where_its_messages_are_unlike(
    group: tuple[int, RunAttributes, Routes, Expiries], start: int, stop: int
):
    count, attributes, routes, expiries = group
    stop = min(count, stop)
    start = min(start, stop - 1)
    run = Run(0, [b"%d" % number for number in range(count)], attributes, routes=routes)
    part = RunPart(run, 0, count, expiries).part(start, stop)
    told = [(entry, *fact) for piece, *fact in part.alike() for entry in piece.entries]
    each = zip(run.entries, *(each_of(values, count) for values in (attributes, routes, expiries)), strict=True)
    assert told == list(each)[start:stop]
    assert all(piece.expires_at == expiry for piece, _, _, expiry in part.alike())


@given(group=messages())
def test_ranges_of_durable_messages(group: tuple[int, RunAttributes, Routes, Expiries]):
    count, attributes, _, _ = group
    ranges = list(by_durable(attributes, count))
    told = [durable for start, stop, durable in ranges for _ in range(start, stop)]
    assert told == [each.durable for each in each_of(attributes, count)]


@given(group=messages())
def test_redelivered_messages_keep_everything_else(group: tuple[int, RunAttributes, Routes, Expiries]):
    count, attributes, _, _ = group
    changed = as_redelivered(attributes)
    assert isinstance(changed, list) == isinstance(attributes, list)
    assert all(each.redelivered for each in each_of(changed, count))
    assert [replace(each, redelivered=False) for each in each_of(changed, count)] == each_of(attributes, count)
    assert as_redelivered(changed) is changed


def test_messages_of_two_protocols_or_histories_are_never_in_one_run():
    plain = Attributes()
    assert may_join(plain, [Attributes(durable=True), Attributes(priority=0)])
    assert not may_join(plain, replace(plain, origin=Origin.AMQP091))
    assert not may_join([plain], [replace(plain, redelivered=True)])
