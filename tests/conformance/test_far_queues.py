"""The cases of link credit with clients at one node and their queues on another: the same frames as at the same node.

Each test of the modules below runs again within :func:`clients_elsewhere`. A test that looks into the broker's own side
of the client's links, or that is about what only the home node shows, is left out, with the reason.
"""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance import (
    test_consumer_link_credit,
    test_edges_of_link_credit,
    test_link_credit_rows,
    test_link_flow,
    test_publisher_link_credit,
    test_settlement,
)
from tests.kit.nodes import clients_elsewhere

MODULES = (
    test_consumer_link_credit,
    test_edges_of_link_credit,
    test_link_credit_rows,
    test_link_flow,
    test_publisher_link_credit,
    test_settlement,
)


def _cases() -> Iterator[Any]:
    for module in MODULES:
        for name, test in vars(module).items():
            if not (name.startswith("test_") and inspect.isfunction(test) and test.__module__ == module.__name__):
                continue
            marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
            names = [mark.args[0] for mark in marks]
            if len(marks) > 1 or len(inspect.signature(test).parameters) != len(names):
                continue
            for value in marks[0].args[1] if marks else [None]:
                given = {} if not marks else {names[0]: value}
                yield pytest.param(test, given, id=f"{name}-{value}")


@pytest.mark.parametrize(("test", "given"), list(_cases()))
def test_the_same_with_the_queue_on_another_node(test: Any, given: dict[str, Any]):
    with clients_elsewhere():
        test(**given)
