"""Patterns that match everything are found in every name without a search, as the search would find them."""

import pytest

from core.patterns import EVERYTHING, Pattern


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
