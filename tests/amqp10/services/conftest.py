"""Each async test of this folder runs twice: under Trio and under asyncio."""

import pytest

from tests.kit.both_libraries import LIBRARIES, Library, under_each_library


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Library:
    """The library under which the test runs."""
    chosen: Library = request.param
    return chosen


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run async tests under the library of their parameter; those without one, on a real clock, run under Trio."""
    under_each_library(item)
