"""Patterns that match everything are found in every name without a search, as the search would find them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.patterns import EVERYTHING, Pattern, PatternError


@pytest.mark.parametrize("name", ["", "q", "a.b", "two\nlines", "\n", "ä", "x" * 255])
def test_a_pattern_that_matches_everything_is_found_as_a_search_finds_it(name: str):
    for text in EVERYTHING:
        assert Pattern(text).found_in(name)
        assert Pattern(f"(?:{text})").found_in(name)


def test_a_pattern_is_found_anywhere_in_the_name():
    assert Pattern("b").found_in("abc")
    assert not Pattern("^b").found_in("abc")
    assert not Pattern("^.*$").found_in("two\nlines")
    assert Pattern("^.*").text == "^.*"


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ("^orders", "orders"), ("^orders$", "orders"), ("^orders\\.eu", "orders"), ("^ab*", "a"), ("^ab?c", "a"),
        ("^ab{0,2}", "a"), ("^ab+", "ab"), ("^a|b", ""), ("orders", ""), ("^", ""), ("^(?i)a", ""), ("^[ab]", ""),
        ("^ä.", "ä"), (".*", ""), ("^.*", ""),
    ],
)  # fmt: skip
def test_how_each_name_begins_in_which_a_pattern_is_found(text, beginning):
    assert Pattern(text).beginning == beginning


@given(st.text("ab^$.*+?{}()|[]\\1,", max_size=8), st.text("ab", max_size=5))
def test_no_name_is_found_that_begins_in_another_way(text, name):
    try:
        pattern = Pattern("^" + text)
    except PatternError:
        return
    assert name.startswith(pattern.beginning) or not pattern.found_in(name)
