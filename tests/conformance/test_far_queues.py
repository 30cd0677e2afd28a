"""The cases of link credit with clients at one node and their queues on another: the same frames as at the same node.

Each test of the modules below runs again within :func:`clients_elsewhere`. A test that looks into the broker's own side
of the client's links, or that is about what only the home node shows, is left out, with the reason.
"""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance import (
    test_annotations_of_dead_letters,
    test_both_protocols,
    test_consumer_link_credit,
    test_dead_letters,
    test_deviations,
    test_edges_of_link_credit,
    test_edges_of_sessions,
    test_fields_of_frames,
    test_figures,
    test_link_credit_rows,
    test_link_flow,
    test_message_content,
    test_message_limits,
    test_publisher_link_credit,
    test_serial_numbers,
    test_session_window,
    test_settlement,
    test_sharing_a_queue,
    test_streams,
    test_transfers,
)
from tests.kit.nodes import clients_elsewhere

MODULES = (
    test_annotations_of_dead_letters,
    test_both_protocols,
    test_consumer_link_credit,
    test_dead_letters,
    test_deviations,
    test_edges_of_link_credit,
    test_edges_of_sessions,
    test_fields_of_frames,
    test_figures,
    test_link_credit_rows,
    test_link_flow,
    test_message_content,
    test_message_limits,
    test_publisher_link_credit,
    test_serial_numbers,
    test_session_window,
    test_settlement,
    test_sharing_a_queue,
    test_streams,
    test_transfers,
)

OF_ALARMS = "an alarm of the home node takes link credit, and no session's window"
REFUSALS = "the home node's refusal comes after the entry's attach, as a detach"
BINDINGS = "its bindings are at home, and the entry routes"
LEFT_OUT = {
    "test_an_alarm_in_the_middle_of_a_burst": OF_ALARMS,
    "test_an_alarm_that_is_older_than_the_session": OF_ALARMS,
    "test_an_alarm_stops_publishing_and_nothing_else": OF_ALARMS,
    "test_an_alarm_with_one_connection_that_does_both": OF_ALARMS,
    "test_flows_carry_properties": OF_ALARMS,
    "test_the_tolerance_of_an_alarm": OF_ALARMS,
    "test_an_alarm_that_is_on_when_a_session_begins": OF_ALARMS,
    "test_the_window_opens_when_the_last_alarm_is_over": OF_ALARMS,
    "test_an_alarm_between_the_frames_of_a_message": OF_ALARMS,
    "test_more_routing_keys_on_the_anonymous_terminus": BINDINGS,
    "test_a_reader_begins_behind_what_is_there_unless_it_says_otherwise": "the entry does not know that it is a stream",
    "test_a_session_goes_on_after_links_have_failed": REFUSALS,
    "test_attaching_to_what_does_not_exist": REFUSALS,
    "test_18_what_is_refused_to_a_link_costs_the_link": REFUSALS,
    "test_15_a_message_that_is_partly_sent_is_aborted": "the entry has the rest when it learns of the deletion",
    "test_one_answer_for_a_message_that_goes_to_three_queues": BINDINGS,
    "test_the_link_credit_that_a_publisher_can_use": "the home node gives its ordinary link credit",
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
