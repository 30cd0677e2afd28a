"""Requests under /headgate/policies, with the engine's own policies behind them."""

import pytest

from amqp10.wire.types import Symbol, UInt
from tests.kit.engine import queue
from tests.kit.management import Console

POLICIES = "/headgate/policies"
BODY = {"pattern": "^q", "definition": {"max-length": 5}}


@pytest.fixture
def console():
    """A broker with one queue."""
    console = Console()
    console.broker.declare_queue(queue("q/1"), "x")
    return console


def shown(console, name):
    return console.ask("GET", f"{POLICIES}/{name}").body


def test_a_policy_is_made_changed_shown_and_cleared(console):
    assert console.ask("PUT", f"{POLICIES}/p", BODY).status == 204
    assert shown(console, "p") == {
        "name": "p",
        "pattern": "^q",
        "apply_to": "all",
        "priority": 0,
        "definition": {"max-length": 5},
    }
    changed = {**BODY, "priority": 3, "apply_to": "queues"}
    assert console.ask("PUT", f"{POLICIES}/p?vhost=%2F", changed).status == 204
    assert shown(console, "p")["priority"] == 3
    assert console.ask("DELETE", f"{POLICIES}/p").status == 204
    for method in ("GET", "DELETE"):
        answer = console.ask(method, f"{POLICIES}/p")
        assert (answer.status, answer.body) == (404, "there is no policy 'p'")


def test_names_are_percent_encoded(console):
    console.ask("PUT", f"{POLICIES}/my%20policy%2F1", BODY)
    assert [row["name"] for row in console.broker.snapshot("policies")] == ["my policy/1"]
    assert console.ask("PUT", f"{POLICIES}/%FF", BODY).status == 400


def test_types_of_the_wire_do_not_matter(console):
    body = {Symbol("pattern"): "", "priority": UInt(7), "definition": {Symbol("expires"): UInt(9)}}
    console.ask("PUT", f"{POLICIES}/p", body)
    assert (shown(console, "p")["priority"], shown(console, "p")["definition"]) == (7, {"expires": 9})


def test_which_policy_holds_for_a_queue(console):
    console.ask("PUT", f"{POLICIES}/p", BODY)
    answer = console.ask("GET", f"{POLICIES}/explain/q%2F1")
    assert (answer.status, answer.body["queue"], answer.body["policy"]) == (200, "q/1", "p")
    assert answer.body["keys"][0]["effect"] == "acts"
    assert console.ask("GET", f"{POLICIES}/explain/other").status == 404


def test_a_policy_may_be_called_explain(console):
    console.ask("PUT", f"{POLICIES}/explain", BODY)
    assert shown(console, "explain")["name"] == "explain"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (None, "pattern is missing"),
        ([], "the body must be a map"),
        ({}, "pattern is missing"),
        ({**BODY, "pattern": 1}, "pattern must be a string, not 1"),
        ({**BODY, "priority": "one"}, "priority must be a number from -2147483647 to 2147483647, not 'one'"),
        ({**BODY, "priority": True}, "priority must be a number from -2147483647 to 2147483647, not True"),
        ({**BODY, "apply_to": 5}, "apply_to must be a string, not 5"),
        ({"pattern": ""}, "definition is missing"),
        ({"pattern": "", "definition": {1: 2}}, "definition must be a map with strings as keys"),
        ({**BODY, "applies-to": "all"}, "no parameter 'applies-to' here; there are: pattern, definition, priority"),
        ({**BODY, 1: "all"}, "there is no parameter 1 here"),
        ({"pattern": "", "definition": {"speed": "high"}}, "there is no key 'speed'"),
        ({"pattern": "", "definition": {"max-length": {"deep": []}}}, "max-length is {'deep'"),
    ],
)
def test_a_body_that_is_wrong(console, body, text):
    answer = console.ask("PUT", f"{POLICIES}/p", body)
    assert answer.status == 400
    assert text in answer.body
    assert console.broker.snapshot("policies") == []


def test_there_is_one_virtual_host(console):
    answer = console.ask("PUT", f"{POLICIES}/p?vhost=other", BODY)
    assert (answer.status, answer.body) == (404, "there is no virtual host 'other'; headgate vhosts list shows them")


@pytest.mark.parametrize("segments", ["a/b", "explain/q/x"])
def test_other_paths_lead_nowhere(console, segments):
    assert console.ask("GET", f"{POLICIES}/{segments}").status == 404
