"""Every row has a test, and the page of rows is fresh."""

from tests.conformance.rows import PAGE, named_tests, render, unshown


def test_every_row_has_a_test_that_is_named_after_it() -> None:
    assert unshown(named_tests()) == []


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(named_tests()), "run make docs"
