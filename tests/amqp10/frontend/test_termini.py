"""Which termini are accepted, what the engine makes of them, and why others are refused [3.5.3, 3.5.4]."""

import pytest

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.frontend import termini
from amqp10.frontend.stream_filters import stream_filters
from amqp10.protocol.link import RECEIVER, SENDER
from amqp10.wire.messaging import ACCEPTED, RELEASED, Coordinator, Source, Target
from amqp10.wire.performatives import Attach
from amqp10.wire.types import Byte, Described, Int, Symbol, UInt, ULong
from core.interface import ExchangeTarget, QueueTarget


def attach(**given: object) -> Attach:
    return Attach(**({"name": "l", "handle": 0, "role": SENDER} | given))  # type: ignore[arg-type]


def refused(condition: ErrorCondition, match: str = ""):
    return pytest.raises(LinkFault, match=f"^{condition}: .*{match}")


@pytest.mark.parametrize("target", [Target(), Target(address="/queues/q"), Target(dynamic=True)])
def test_targets_that_may_be_asked_for(target):
    assert termini.requested_target(attach(target=target)) is target


@pytest.mark.parametrize(
    ("target", "condition"),
    [
        (None, ErrorCondition.INVALID_FIELD),
        (Coordinator(), ErrorCondition.NOT_IMPLEMENTED),
        (Described(ULong(0x99), []), ErrorCondition.NOT_IMPLEMENTED),
        (Target(address=Symbol("q")), ErrorCondition.INVALID_FIELD),
        (Target(address=7), ErrorCondition.INVALID_FIELD),
    ],
)
def test_targets_that_are_refused(target, condition):
    with refused(condition):
        termini.requested_target(attach(target=target))


@pytest.mark.parametrize(
    "source",
    [Source(address="/queues/q"), Source(dynamic=True), Source(address="/queues/q", outcomes=("amqp:accepted:list",))],
)
def test_sources_that_may_be_asked_for(source):
    assert termini.requested_source(attach(role=RECEIVER, source=source)) is source


@pytest.mark.parametrize(
    ("source", "condition"),
    [
        (None, ErrorCondition.INVALID_FIELD),
        (Described(ULong(0x99), []), ErrorCondition.INVALID_FIELD),
        (Source(), ErrorCondition.INVALID_FIELD),
        (Source(address=b"q"), ErrorCondition.INVALID_FIELD),
        (Source(address="q", outcomes=("amqp:accepted:list", "my:outcome:list")), ErrorCondition.NOT_IMPLEMENTED),
    ],
)
def test_sources_that_are_refused(source, condition):
    with refused(condition):
        termini.requested_source(attach(role=RECEIVER, source=source))


@pytest.mark.parametrize("resuming", [{"unsettled": {b"t": ACCEPTED}}, {"incomplete_unsettled": True}])
@pytest.mark.parametrize("ask", [termini.requested_source, termini.requested_target])
def test_nothing_is_resumed(resuming, ask):
    with refused(ErrorCondition.NOT_IMPLEMENTED, "not resumed"):
        ask(attach(source=Source(address="q"), target=Target(), **resuming))


def test_addresses_of_targets_and_sources():
    assert termini.engine_target("/queues/a%20b") == QueueTarget("a b")
    assert termini.engine_target("/exchanges/e/key") == ExchangeTarget("e", "key")
    assert termini.queue_of("/queues/a%20b") == "a b"
    for address in ("nowhere", "/exchanges/", "/queues/%zz"):
        with refused(ErrorCondition.INVALID_FIELD):
            termini.engine_target(address)
        with refused(ErrorCondition.INVALID_FIELD):
            termini.queue_of(address)


def test_names_of_dynamic_nodes_are_the_brokers_choice():
    name = termini.dynamic_name("client", "link", "random", address=None)
    assert "random" in name
    assert name != termini.dynamic_name("client", "link", "other", address=None)
    with refused(ErrorCondition.INVALID_FIELD, "must not name"):
        termini.dynamic_name("client", "link", "random", address="/queues/mine")


def test_a_source_as_it_is():
    asked = Source(
        address="/queues/q",
        durable=2,
        expiry_policy="never",
        timeout=9,
        distribution_mode="copy",
        filter={"f": 1},
        default_outcome=ACCEPTED,
        outcomes=("amqp:accepted:list",),
        capabilities=("queue",),
    )
    assert termini.effective_source(asked, "q") == Source(
        address="/queues/q",
        distribution_mode="move",
        default_outcome=RELEASED,
        outcomes=termini.OUTCOMES,
        capabilities=("queue",),
    )
    dynamic = termini.effective_source(Source(dynamic=True), "a b")
    assert (dynamic.address, dynamic.expiry_policy) == ("/queues/a%20b", "link-detach")


def test_a_target_as_it_is():
    asked = Target(address="/queues/q", durable=2, expiry_policy="never", timeout=9, capabilities=("queue",))
    assert termini.effective_target(asked, None) == Target(address="/queues/q", capabilities=("queue",))
    dynamic = termini.effective_target(Target(dynamic=True), "q")
    assert dynamic == Target(
        address="/queues/q",
        dynamic=True,
        expiry_policy="link-detach",
        dynamic_node_properties={"lifetime-policy": termini.DELETE_ON_CLOSE},
    )


@pytest.mark.parametrize(
    ("properties", "priority"),
    [
        (None, 0),
        ({}, 0),
        ({"priority": 5}, 5),
        ({"rabbitmq:priority": Int(-3)}, -3),
        ({"rabbitmq:priority": Byte(7), "priority": 1}, 7),
    ],
)
def test_the_priority_of_a_consumer(properties, priority):
    assert termini.consumer_priority(attach(properties=properties)) == priority


@pytest.mark.parametrize("value", [True, "high", 1.5, None])
def test_invalid_priorities(value):
    with refused(ErrorCondition.INVALID_FIELD, "must be an int"):
        termini.consumer_priority(attach(properties={"priority": value}))


@pytest.mark.parametrize(
    ("value", "most"), [(None, None), (1, 1), (UInt(7), 7), (ULong(2**64 - 1), 2**64 - 1), (Int(5), 5)]
)
def test_the_bytes_that_a_consumer_wants_to_hold(value, most):
    assert termini.unsettled_bytes_max(attach(properties={"headgate:max-unsettled-bytes": value})) == most
    assert termini.unsettled_bytes_max(attach(properties=None)) is None


@pytest.mark.parametrize("value", [0, -1, Int(-5), True, "many", 1.5, ULong(0), [1]])
def test_invalid_bytes_that_a_consumer_wants_to_hold(value):
    with refused(ErrorCondition.INVALID_FIELD, "must be an integer of at least 1"):
        termini.unsettled_bytes_max(attach(properties={"headgate:max-unsettled-bytes": value}))


@pytest.mark.parametrize(("value", "most"), [(None, None), (1, 1), (UInt(4096), 4096), (ULong(2**64 - 1), 2**64 - 1)])
def test_the_link_credit_that_a_publisher_can_use(value, most):
    assert termini.link_credit_wanted(attach(properties={"headgate:max-link-credit": value})) == most
    assert termini.link_credit_wanted(attach(properties=None)) is None


@pytest.mark.parametrize("value", [0, Int(-5), True, "many", 1.5, [1]])
def test_invalid_link_credit_that_a_publisher_can_use(value):
    with refused(ErrorCondition.INVALID_FIELD, "headgate:max-link-credit is .*; it must be an integer of at least 1"):
        termini.requested_target(
            attach(properties={"headgate:max-link-credit": value}, target=Target(address="/queues/q"))
        )


def test_a_consumer_to_which_messages_are_sent_settled_holds_no_bytes():
    with refused(ErrorCondition.INVALID_FIELD, "snd-settle-mode is settled"):
        termini.unsettled_bytes_max(attach(properties={"headgate:max-unsettled-bytes": 9}, snd_settle_mode=1))


def test_a_stream_is_copied_and_tells_the_filters_in_force():
    asked = Source(address="/queues/s", filter={"rabbitmq:stream-offset-spec": "first"})
    answer = termini.effective_source(asked, "s", stream_filters(asked.filter, 0.0))
    assert answer.distribution_mode == "copy"
    assert answer.filter == {"rabbitmq:stream-offset-spec": "first"}
    assert answer.address == "/queues/s"
    without = termini.effective_source(Source(address="/queues/s"), "s", stream_filters(None, 0.0))
    assert (without.distribution_mode, without.filter) == ("copy", None)
