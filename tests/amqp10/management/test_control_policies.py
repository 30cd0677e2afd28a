"""Requests under /headgate/policies, with the engine's own policies behind them."""

import pytest

from amqp10.management.control_policies import policy_operations
from amqp10.management.message import RequestRefusal
from amqp10.wire.types import Symbol, UInt
from core.engine.options.policies import Policies
from core.errors import Invalid, NotFound
from core.store.definitions import PolicyDeclaration
from tests.kit.engine import queue

BODY = {"pattern": "^q", "definition": {"max-length": 5}}


class Plant:
    """A control plane of policies. Every queue whose name begins with q exists."""

    def __init__(self):
        self.policies = Policies()

    def set_policy(self, **fields):
        self.policies.set(PolicyDeclaration(**fields))

    def clear_policy(self, name):
        self.policies.clear(name)

    def policy(self, name):
        return next((shown for shown in self.policies.snapshot() if shown["name"] == name), None)

    def explain_policies(self, name):
        if not name.startswith("q"):
            raise NotFound(f"there is no queue '{name}'")
        return self.policies.explain(queue(name)).shown()


@pytest.fixture
def plant():
    return Plant()


def ask(plant, method, *segments, body=None, **query):
    operations = policy_operations(plant, list(segments), query, body)
    return operations[method]()


def test_a_policy_is_made_changed_shown_and_cleared(plant):
    assert ask(plant, "PUT", "p", body=BODY).status == 204
    assert ask(plant, "GET", "p").body == {
        "name": "p",
        "pattern": "^q",
        "apply_to": "all",
        "priority": 0,
        "definition": {"max-length": 5},
    }
    assert ask(plant, "PUT", "p", body={**BODY, "priority": 3, "apply_to": "queues"}, vhost="/").status == 204
    assert ask(plant, "GET", "p").body["priority"] == 3
    assert ask(plant, "DELETE", "p").status == 204
    with pytest.raises(RequestRefusal, match="there is no policy 'p'") as refused:
        ask(plant, "GET", "p")
    assert refused.value.status == 404
    with pytest.raises(NotFound):
        ask(plant, "DELETE", "p")


def test_names_are_percent_encoded(plant):
    ask(plant, "PUT", "my%20policy%2F1", body=BODY)
    assert plant.policy("my policy/1") is not None
    with pytest.raises(RequestRefusal) as refused:
        ask(plant, "PUT", "%FF", body=BODY)
    assert refused.value.status == 400


def test_types_of_the_wire_do_not_matter(plant):
    ask(
        plant, "PUT", "p", body={Symbol("pattern"): "", "priority": UInt(7), "definition": {Symbol("expires"): UInt(9)}}
    )
    assert (plant.policy("p")["priority"], plant.policy("p")["definition"]) == (7, {"expires": 9})


def test_which_policy_holds_for_a_queue(plant):
    ask(plant, "PUT", "p", body=BODY)
    shown = ask(plant, "GET", "explain", "q%2F1")
    assert (shown.status, shown.body["queue"], shown.body["policy"]) == (200, "q/1", "p")
    assert shown.body["keys"][0]["effect"] == "acts"
    with pytest.raises(NotFound):
        ask(plant, "GET", "explain", "other")


def test_a_policy_may_be_called_explain(plant):
    ask(plant, "PUT", "explain", body=BODY)
    assert ask(plant, "GET", "explain").body["name"] == "explain"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (None, "the body of a policy must be a map, not None"),
        ([], "must be a map"),
        ({}, "policy field pattern must be a string, not None"),
        ({**BODY, "pattern": 1}, "policy field pattern must be a string, not 1"),
        ({**BODY, "priority": "1"}, "policy field priority must be an integer, not '1'"),
        ({**BODY, "priority": True}, "policy field priority must be an integer, not True"),
        ({**BODY, "apply_to": None}, "policy field apply_to must be a string, not None"),
        ({"pattern": ""}, "policy field definition must be a map with strings as keys, not None"),
        ({"pattern": "", "definition": {1: 2}}, "must be a map with strings as keys"),
        ({**BODY, "applies-to": "all"}, "bad policy field 'applies-to'; there are pattern, definition, priority"),
        ({**BODY, 1: "all"}, "bad policy field 1"),
    ],
)
def test_a_body_that_is_wrong(plant, body, text):
    with pytest.raises(RequestRefusal, match=text) as refused:
        ask(plant, "PUT", "p", body=body)
    assert refused.value.status == 400
    assert plant.policies.snapshot() == []


def test_what_the_engine_refuses(plant):
    with pytest.raises(Invalid, match="there is no key 'speed'"):
        ask(plant, "PUT", "p", body={"pattern": "", "definition": {"speed": "high"}})
    with pytest.raises(Invalid, match=r"max-length is {'deep'"):
        ask(plant, "PUT", "p", body={"pattern": "", "definition": {"max-length": {"deep": []}}})


def test_there_is_one_virtual_host(plant):
    with pytest.raises(RequestRefusal, match="there is no virtual host 'other'; there is '/'") as refused:
        ask(plant, "PUT", "p", body=BODY, vhost="other")
    assert refused.value.status == 404


@pytest.mark.parametrize("segments", [("a", "b"), ("explain", "q", "x")])
def test_other_paths_lead_nowhere(plant, segments):
    assert policy_operations(plant, list(segments), {}, None) == {}
