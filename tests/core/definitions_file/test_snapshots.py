"""The definitions in a broker's snapshots, and the text that is written from them."""

import json

from core.definitions_file import KINDS, as_value, from_snapshots, read, text
from core.interface import ExchangeType
from core.store.definitions import PolicyDeclaration
from tests.kit.engine import binding, exchange, make_broker, queue


def definitions(broker):
    return from_snapshots({kind: broker.snapshot(kind) for kind in KINDS})


def test_what_a_broker_has_is_what_was_declared():
    broker = make_broker()
    broker.declare_exchange(exchange("shop", ExchangeType.TOPIC, alternate_exchange="rest"))
    broker.declare_queue(queue("orders", auto_delete=True, x_max_length=5), "me")
    broker.declare_queue(queue("mine", exclusive=True), "me")
    for name in ("orders", "mine"):
        broker.bind(binding("shop", name, "#"), "me")
    policy = PolicyDeclaration(name="p", pattern="^o", priority=3, apply_to="queues", definition={"max-length": 9})
    broker.policies.set(policy)
    assert definitions(broker).document.things() == [
        exchange("shop", ExchangeType.TOPIC, alternate_exchange="rest"),
        queue("orders", auto_delete=True, x_max_length=5),
        binding("shop", "orders", "#"),
        policy,
    ]


def test_what_json_has_no_form_for_is_told_and_not_left_out_in_silence():
    broker = make_broker()
    broker.declare_queue(queue("q", own=[b"\xff"]), "me")
    found = definitions(broker)
    assert [str(problem) for problem in found.problems] == [
        r"queues[0].arguments.own[0]: b'\xff' has no form in JSON",
    ]
    assert found.document.things() == []


def test_the_file_has_the_keys_that_rabbitmq_reads():
    broker = make_broker("b", "a")
    value = json.loads(text(definitions(broker).document, version="1.2.3"))
    assert value == as_value(definitions(broker).document, version="1.2.3")
    assert [key for key, found in value.items() if found == []] == [
        "users", "permissions", "topic_permissions", "parameters", "global_parameters", "policies", "exchanges",
        "bindings",
    ]  # fmt: skip
    assert (value["product_name"], value["product_version"], value["vhosts"]) == ("Headgate", "1.2.3", [{"name": "/"}])
    assert [queue["name"] for queue in value["queues"]] == ["a", "b"]
    assert value["queues"][0] == {
        "name": "a", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {},
    }  # fmt: skip


def test_the_order_of_making_and_of_arguments_does_not_show():
    one, other = make_broker(), make_broker()
    one.declare_queue(queue("q", a=1, b={"c": 1, "d": 2}), "me")
    other.declare_queue(queue("q", b={"d": 2, "c": 1}, a=1), "me")
    for name in ("x", "y"):
        one.declare_exchange(exchange(name))
    for name in ("y", "x"):
        other.declare_exchange(exchange(name))
    written = text(definitions(one).document, version="1")
    assert text(definitions(other).document, version="1") == written
    assert read(written.encode()).notes == []
