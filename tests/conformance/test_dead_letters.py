"""Dead letters, length limits, priorities and expiry, as RabbitMQ's client suite shows them."""

import pytest

from amqp10.wire.messaging import ACCEPTED, Modified, Rejected
from amqp10.wire.performatives import Disposition, Flow
from amqp10.wire.sections import (
    APPLICATION_PROPERTIES,
    Header,
    decode_header,
    decode_map_section,
    encode_header,
    encode_section,
    scan,
)
from amqp10.wire.types import Symbol, plain
from core.interface import Binding
from tests.kit.cases import case
from tests.kit.queue_types import for_each_queue_type, from_first
from tests.kit.wire import InProcessBroker, WirePeer, body_of, data_message, numbered

DEAD_LETTERS = "dead-letters"


def with_dead_letters(kind: str, *, target: str = "quorum", **arguments: object) -> InProcessBroker:
    """A broker with the queue q, whose dead letters go to another queue through the default exchange."""
    broker = InProcessBroker(durable=True)
    broker.queue(DEAD_LETTERS, x_queue_type=target)
    broker.queue(x_queue_type=kind, x_dead_letter_exchange="", x_dead_letter_routing_key=DEAD_LETTERS, **arguments)
    return broker


def consumer(broker: InProcessBroker, name: str = "q", link_credit: int = 1000) -> WirePeer:
    """A client that consumes a queue."""
    peer = broker.connect()
    peer.begin()
    address = f"/queues/{name}"
    peer.attach_receiver(address, source=from_first(address))
    peer.grant(link_credit)
    return peer


def annotations_of(payload: bytes) -> dict[str, object]:
    """The message annotations, as plain values."""
    bounds = scan(payload).message_annotations
    assert bounds is not None
    return {key.value: plain(value) for key, value in decode_map_section(payload, *bounds).items()}


# --- dead letters ----------------------------------------------------------------------------------------------------


@for_each_queue_type
@case("amqp_client_SUITE", "dead_letter_reject")
def test_a_rejected_message_tells_its_deaths(kind: str):
    """dead_letter_reject (amqp_client_SUITE): the message expires first and is rejected later. It has two entries, the
    newest first."""
    broker = with_dead_letters("quorum", target=kind)
    broker.queue("first", x_queue_type=kind, x_message_ttl=20, x_dead_letter_exchange="", x_dead_letter_routing_key="q")
    broker.fill([b"m"], "first")
    broker.advance(0.05)
    peer = consumer(broker)
    assert peer.bodies() == [b"m"]
    peer.dispose(0, state=Rejected())
    ((_, payload),) = consumer(broker, DEAD_LETTERS).deliveries()
    assert body_of(payload) == b"m"
    told = annotations_of(payload)
    assert {key: value for key, value in told.items() if key != "x-opt-deaths"} == {
        "x-first-death-queue": "first",
        "x-first-death-reason": "expired",
        "x-first-death-exchange": "",
        "x-last-death-queue": "q",
        "x-last-death-reason": "rejected",
        "x-last-death-exchange": "",
    }
    deaths = told["x-opt-deaths"]
    assert isinstance(deaths, list)
    assert [(death["queue"], death["reason"], death["count"]) for death in deaths] == [
        ("q", "rejected", 1),
        ("first", "expired", 1),
    ]
    header = scan(payload).header
    assert header is not None
    assert decode_header(payload, *header).delivery_count == 0


@case("amqp_client_SUITE", "dead_letter_headers_exchange")
def test_dead_letters_are_routed_by_their_headers():
    """dead_letter_headers_exchange (amqp_client_SUITE): application-properties and x- annotations are compared."""
    broker = InProcessBroker(durable=True)
    for name, compared in (("matching", {"colour": "red"}), ("dead", {"x-first-death-reason": "expired"})):
        broker.queue(name, x_queue_type="quorum")
        arguments = {"x-match": "all-with-x", **compared}
        binding = Binding(
            source="amq.headers", destination=name, destination_is_queue=True, binding_key="", arguments=arguments
        )
        broker.engine.bind(binding, broker)
    address = broker.queue(x_queue_type="quorum", x_message_ttl=10, x_dead_letter_exchange="amq.headers")
    publisher = broker.connect()
    publisher.begin()
    publisher.attach_sender(address)
    for colour in ("red", "green"):
        properties = encode_section(APPLICATION_PROPERTIES, {"colour": colour})
        publisher.transfer(payload=properties + data_message(colour.encode()))
    broker.advance(0.1)
    assert consumer(broker, "matching").bodies() == [b"red"]
    assert consumer(broker, "dead").bodies() == [b"red", b"green"]
    assert broker.ready() == 0


@for_each_queue_type
@case("amqp_client_SUITE", "dead_letter_reject_message_order_classic")
@case("amqp_client_SUITE", "dead_letter_reject_message_order_quorum")
def test_dead_letters_come_in_the_order_of_rejection(kind: str):
    """dead_letter_reject_message_order_classic (amqp_client_SUITE)
    dead_letter_reject_message_order_quorum (amqp_client_SUITE)"""
    broker = with_dead_letters(kind, target=kind)
    broker.fill(numbered(4))
    peer = consumer(broker)
    for number in (2, 0, 3, 1):
        peer.dispose(number, state=Rejected())
    assert consumer(broker, DEAD_LETTERS).bodies() == [b"2", b"0", b"3", b"1"]


@for_each_queue_type
@case("amqp_client_SUITE", "dead_letter_reject_many_message_order_classic")
@case("amqp_client_SUITE", "dead_letter_reject_many_message_order_quorum")
def test_dead_letters_of_ranges_come_in_order(kind: str):
    """dead_letter_reject_many_message_order_classic (amqp_client_SUITE): ranges of 100.
    dead_letter_reject_many_message_order_quorum (amqp_client_SUITE)"""
    broker = with_dead_letters(kind, target=kind)
    broker.fill(numbered(500))
    peer = consumer(broker)
    for first in (0, 300, 100, 400):
        peer.dispose(first, first + 99, state=Rejected())
    peer.dispose(200, 299, state=ACCEPTED)
    expected = [*numbered(100), *numbered(100, first=300), *numbered(100, first=100), *numbered(100, first=400)]
    assert consumer(broker, DEAD_LETTERS).bodies() == expected
    assert broker.unacknowledged() == 0


@case("amqp_client_SUITE", "dead_letter_into_stream")
def test_dead_letters_can_be_kept_in_a_stream():
    """dead_letter_into_stream (amqp_client_SUITE)"""
    broker = with_dead_letters("quorum", target="stream", x_message_ttl=1)
    broker.fill([b"m"])
    broker.advance(0.1)
    for _ in range(2):
        ((_, payload),) = consumer(broker, DEAD_LETTERS).deliveries()
        told = annotations_of(payload)
        assert told["x-stream-offset"] == 0
        assert (told["x-first-death-reason"], told["x-last-death-queue"]) == ("expired", "q")
        assert body_of(payload) == b"m"


@for_each_queue_type
def test_a_message_that_was_delivered_too_often_dies(kind: str):
    """A quorum queue gives a message up after its delivery limit; a classic queue has none."""
    limit = {"x_delivery_limit": 2} if kind == "quorum" else {}
    broker = with_dead_letters(kind, **limit)
    broker.fill([b"m"])
    peer = consumer(broker)
    for number in range(3):
        assert peer.bodies() == [b"m"]
        peer.dispose(number, state=Modified(delivery_failed=True))
    if kind == "classic":
        assert peer.bodies() == [b"m"]
        return
    assert peer.bodies() == []
    ((_, payload),) = consumer(broker, DEAD_LETTERS).deliveries()
    assert annotations_of(payload)["x-last-death-reason"] == "delivery_limit"


# --- length limits ---------------------------------------------------------------------------------------------------


@case("amqp_client_SUITE", "detach_requeues_drop_head_classic_queue")
def test_what_goes_back_over_the_limit_is_dead_lettered():
    """detach_requeues_drop_head_classic_queue (amqp_client_SUITE)"""
    broker = with_dead_letters("classic", x_max_length=1, x_overflow="drop-head")
    broker.fill([b"m1"])
    peer = consumer(broker, link_credit=1)
    broker.fill([b"m2"])
    assert peer.bodies() == [b"m1"]
    assert broker.ready() == 1
    peer.detach(1)
    assert consumer(broker, DEAD_LETTERS).bodies() == [b"m1"]
    assert consumer(broker).bodies() == [b"m2"]


@for_each_queue_type
@case("amqp_client_SUITE", "target_quorum_queue_rejects")
@case("amqp_client_SUITE", "target_classic_queue_rejects")
def test_a_full_queue_rejects(kind: str):
    """target_quorum_queue_rejects (amqp_client_SUITE): the reason names the queue and the limit.
    target_classic_queue_rejects (amqp_client_SUITE): without the queue that is down, because there is one node."""
    broker = InProcessBroker(durable=True)
    address = broker.queue(x_queue_type=kind, x_max_length=1, x_overflow="reject-publish")
    publisher = broker.connect()
    publisher.begin()
    publisher.attach_sender(address)
    for body in numbered(3):  # one after the other, as a message that is not synced yet does not count
        publisher.transfer(body)
    accepted, rejected, also_rejected = publisher.take(Disposition)
    assert (accepted.first, accepted.last, accepted.state) == (0, None, ACCEPTED)
    assert (rejected.first, also_rejected.first) == (1, 2)
    assert rejected.state == also_rejected.state
    assert isinstance(rejected.state, Rejected)
    assert rejected.state.error is not None
    assert rejected.state.error.condition == "amqp:resource-limit-exceeded"
    assert "'q'" in str(rejected.state.error.description)
    assert consumer(broker).bodies() == [b"0"]
    publisher.publish([b"again"])
    assert publisher.pick(Disposition).state == ACCEPTED


# --- priorities and expiry -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{"x_max_priority": 10}, {"x_queue_type": "quorum"}], ids=["classic", "quorum"])
@case("amqp_client_SUITE", "priority_classic")
@case("amqp_client_SUITE", "priority_quorum")
def test_a_higher_priority_comes_first(arguments: dict[str, object]):
    """priority_classic (amqp_client_SUITE)
    priority_quorum (amqp_client_SUITE): priority 5 goes before the default, which is 4."""
    broker = InProcessBroker(durable=True)
    address = broker.queue(**arguments)
    publisher = broker.connect()
    publisher.begin()
    publisher.attach_sender(address)
    for body, header in ((b"default", b""), (b"4", Header(priority=4)), (b"5", Header(priority=5))):
        encoded = encode_header(header) if isinstance(header, Header) else header
        publisher.transfer(payload=encoded + data_message(body))
    peer = consumer(broker)
    received = peer.deliveries()
    assert [body_of(payload) for _, payload in received] == [b"5", b"default", b"4"]
    headers = [decode_header(payload, *scan(payload).header) for _, payload in received]
    assert [header.priority or 4 for header in headers] == [5, 4, 4]


@for_each_queue_type
@case("amqp_client_SUITE", "message_ttl")
def test_an_expired_message_is_passed_over(kind: str):
    """message_ttl (amqp_client_SUITE): a drain gets the message without expiry."""
    broker = InProcessBroker(durable=True)
    address = broker.queue(x_queue_type=kind)
    publisher = broker.connect()
    publisher.begin()
    publisher.attach_sender(address)
    publisher.transfer(payload=encode_header(Header(ttl=1)) + data_message(b"short-lived"))
    publisher.transfer(b"for ever")
    publisher.transfer(payload=encode_header(Header(ttl=100)) + data_message(b"a while"))
    broker.advance(0.05)
    peer = consumer(broker, link_credit=0)
    peer.frames.clear()
    peer.grant(2, drain=True)
    assert peer.bodies() == [b"for ever", b"a while"]
    peer.grant(1, drain=True)
    assert [flow.link_credit for flow in peer.take(Flow)] == [0, 0]
    assert broker.ready() == 0


def test_annotations_are_symbols():
    """The annotations that the broker adds to a dead letter have symbols for keys [3.2.3]."""
    broker = with_dead_letters("classic")
    broker.fill([b"m"])
    consumer(broker).dispose(0, state=Rejected())
    ((_, payload),) = consumer(broker, DEAD_LETTERS).deliveries()
    bounds = scan(payload).message_annotations
    assert bounds is not None
    assert {type(key) for key in decode_map_section(payload, *bounds)} == {Symbol}
