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


OF_ALARMS = "an alarm of the home node takes link credit, and no session's window"
TIME_OUTS = "what the home node takes back after a time-out is not told to the client"
LEFT_OUT = {
    "test_an_alarm_in_the_middle_of_a_burst": OF_ALARMS,
    "test_an_alarm_that_is_older_than_the_session": OF_ALARMS,
    "test_an_alarm_stops_publishing_and_nothing_else": OF_ALARMS,
    "test_an_alarm_with_one_connection_that_does_both": OF_ALARMS,
    "test_flows_carry_properties": OF_ALARMS,
    "test_many_aborted_deliveries": "the home node does not learn of aborted deliveries, so no link credit follows",
    "test_deliveries_that_are_held_too_long_are_released": TIME_OUTS,
    "test_attaching_to_what_does_not_exist": "the home node's refusal comes after the entry's attach, as a detach",
    "test_one_answer_for_a_message_that_goes_to_three_queues": "its bindings are at home, and the entry routes",
    "test_stopping_a_link_whose_window_is_closed": "a drain that is given up is answered before the home node answers",
}
"""Tests that are left out, and why."""


def _cases() -> Iterator[Any]:
    for module in MODULES:
        for name, test in vars(module).items():
            if not (name.startswith("test_") and inspect.isfunction(test) and test.__module__ == module.__name__):
                continue
            if name in LEFT_OUT:
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
