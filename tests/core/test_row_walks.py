"""Walks over rows: pages of rows, and one row by its identity."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.interface import Snapshot
from core.row_walks import page_of, row_of
from core.slices import run_at_once

NAMES = st.lists(st.text("abc", max_size=2), max_size=40)


class Made:
    """Rows of these names, which counts how many were made."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.made = 0

    def rows(self, kind: str, identity: str | None = None) -> Iterator[Snapshot]:
        for name in self._names:
            self.made += 1
            yield {"name": name}


def pages(names: list[str], limit: int) -> Iterator[list[str]]:
    """All pages, as a client reads them that asks for each page behind the one before."""
    after: str | None = None
    while True:
        rows, after = run_at_once(page_of(Made(*names).rows("any"), after=after, limit=limit))
        yield [str(row["name"]) for row in rows]
        if after is None:
            return


@given(NAMES, st.integers(1, 5))
def test_all_pages_together_have_every_row_in_order(names: list[str], limit: int):
    assert [name for page in pages(names, limit) for name in page] == sorted(names)


@given(NAMES, st.integers(1, 5))
def test_a_page_has_its_limit_and_never_parts_rows_of_one_identity(names: list[str], limit: int):
    *full, last = pages(names, limit)
    for page in full:
        assert page
        assert len(page[: page.index(page[-1])]) < limit <= len(page)
    assert not last or len(last[: last.index(last[-1])]) < limit


def test_others_have_their_turn_behind_each_row():
    source = Made(*(str(number) for number in range(1000)))
    walk = page_of(source.rows("any"), after=None, limit=10)
    for made in range(1, 1001):
        next(walk)
        assert source.made == made


def test_a_row_is_looked_for_one_by_one():
    source = Made("a", "b", "c")
    walk = row_of(source, "any", "b")
    next(walk)
    assert source.made == 1
    with pytest.raises(StopIteration) as end:
        next(walk)
    assert end.value.value == {"name": "b"}
    assert run_at_once(row_of(source, "any", "d")) is None
