"""The content of messages: order of sections, reserved annotations, user-id, sizes, the bare message unchanged
[3.2]."""

import pytest

from amqp10.wire.messaging import ACCEPTED
from amqp10.wire.performatives import Detach, Disposition, End
from amqp10.wire.sections import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    Header,
    Properties,
    encode_header,
    encode_properties,
    encode_section,
)
from amqp10.wire.types import Array, Decimal32, Decimal64, Decimal128, Symbol
from core.interface import Binding
from tests.kit.cases import case
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, data_message

HEADER = encode_header(Header(durable=True))
DELIVERY = encode_section(DELIVERY_ANNOTATIONS, {Symbol("x-hop"): True})
MESSAGE = encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-note"): "n"})
PROPERTIES = encode_properties(Properties(subject="s"))
APPLICATION = encode_section(APPLICATION_PROPERTIES, {"k": 1})
BODY = data_message(b"body")
SEQUENCE = encode_section(AMQP_SEQUENCE, [1, 2])
VALUE = encode_section(AMQP_VALUE, "v")
FOOT = encode_section(FOOTER, {Symbol("x-sum"): b"\x01"})


def both_ways(broker: InProcessBroker, address: str, **open_fields: object) -> WirePeer:
    """A client with a sender at handle 0 and a receiver at handle 1 on the queue q."""
    peer = broker.connect(**open_fields)
    peer.begin()
    peer.attach_sender(address)
    peer.attach_receiver("/queues/q")
    peer.frames.clear()
    return peer


def through(peer: WirePeer, payload: bytes) -> bytes:
    """Send a message and receive it."""
    peer.transfer(payload=payload)
    assert peer.pick(Disposition).state == ACCEPTED
    peer.grant(1)
    ((_, received),) = peer.deliveries()
    return received


@pytest.mark.parametrize(
    "payload",
    [
        MESSAGE + HEADER + BODY,
        DELIVERY + HEADER + BODY,
        HEADER + MESSAGE + DELIVERY + BODY,
        PROPERTIES + MESSAGE + BODY,
        APPLICATION + PROPERTIES + BODY,
        BODY + PROPERTIES,
        BODY + APPLICATION,
        FOOT + BODY,
        BODY + FOOT + FOOT,
        HEADER + HEADER + BODY,
        BODY + SEQUENCE,
        VALUE + VALUE,
        BODY + b"\x00\x53\x7a\x45",
        b"\x00\x53\x75\xa0\xff" + b"short",
        b"garbage",
    ],
)
@case("amqp_client_SUITE", "sections_out_of_order")
@case("MalformedMessageTest", "malformedMessage")
@case("DecodeErrorTest", "illegalMessage")
def test_malformed_messages(payload: bytes):
    """sections_out_of_order (amqp_client_SUITE)
    malformedMessage (MalformedMessageTest)
    illegalMessage (DecodeErrorTest): the link is detached, the session stays, and a good message before it is kept."""
    broker = InProcessBroker()
    peer = both_ways(broker, broker.queue())
    peer.publish([b"good"])
    peer.frames.clear()
    peer.transfer(payload=payload)
    assert peer.detached_with("amqp:decode-error")
    assert not peer.take(End)
    peer.grant(9)
    assert peer.bodies() == [b"good"]


@pytest.mark.parametrize("key", ["reserved", "amqp:x", ""])
@case("amqp_client_SUITE", "reserved_annotation")
def test_reserved_annotations(key: str):
    """reserved_annotation (amqp_client_SUITE)"""
    broker = InProcessBroker()
    peer = both_ways(broker, broker.queue())
    peer.transfer(payload=encode_section(MESSAGE_ANNOTATIONS, {Symbol(key): 1}) + BODY)
    assert peer.detached_with("amqp:decode-error")
    assert broker.ready() == 0


@case("amqp_client_SUITE", "user_id")
def test_a_user_id_that_is_not_the_peers_own():
    """user_id (amqp_client_SUITE)"""
    broker = InProcessBroker()
    peer = both_ways(broker, broker.queue())
    peer.transfer(payload=encode_properties(Properties(user_id=b"guest")) + BODY)
    assert peer.pick(Disposition).state == ACCEPTED
    peer.transfer(payload=encode_properties(Properties(user_id=b"somebody")) + BODY)
    assert peer.detached_with("amqp:unauthorized-access")
    assert broker.ready() == 1


@pytest.mark.parametrize("body", [BODY, BODY + BODY, SEQUENCE + SEQUENCE, VALUE])
@case("amqp_client_SUITE", "immutable_bare_message")
@case("amqp_dotnet_SUITE", "footer")
def test_the_bare_message_leaves_as_it_came(body: bytes):
    """immutable_bare_message (amqp_client_SUITE)
    footer (amqp_dotnet_SUITE): the bytes are equal but for the delivery-annotations of the hop, which are removed."""
    broker = InProcessBroker()
    peer = both_ways(broker, broker.queue())
    received = through(peer, HEADER + DELIVERY + MESSAGE + PROPERTIES + APPLICATION + body + FOOT)
    assert received.endswith(MESSAGE + PROPERTIES + APPLICATION + body + FOOT)
    assert DELIVERY not in received


@case("amqp_dotnet_SUITE", "message_without_body")
def test_a_message_without_a_body():
    """message_without_body (amqp_dotnet_SUITE): [3.2] forbids it and clients do it, so it passes if it has at least one
    section."""
    broker = InProcessBroker()
    peer = both_ways(broker, broker.queue())
    assert through(peer, HEADER + PROPERTIES).endswith(PROPERTIES)


@case("amqp_client_SUITE", "decimal_types")
@case("amqp_dotnet_SUITE", "data_types")
def test_every_type_passes_through():
    """decimal_types (amqp_client_SUITE)
    data_types (amqp_dotnet_SUITE)"""
    broker = InProcessBroker()
    peer = both_ways(broker, broker.queue())
    values = [
        Decimal32(b"\x22\x50\x00\x00"),
        Decimal64(bytes(8)),
        Decimal128(bytes(16)),
        Array(0x40, (None, None)),
        [None, True, 1, 1.5, "text", b"bytes", {"k": ["v"]}],
    ]
    for value in values:
        message = encode_section(AMQP_VALUE, value)
        assert through(peer, message).endswith(message)


@case("amqp_client_SUITE", "message_headers_conversion")
@case("amqp_dotnet_SUITE", "message_annotations")
def test_header_and_annotations_reach_the_consumer():
    """message_headers_conversion (amqp_client_SUITE): priority and ttl, as far as one protocol can show them.
    message_annotations (amqp_dotnet_SUITE)"""
    broker = InProcessBroker()
    peer = both_ways(broker, broker.queue())
    sent = Header(durable=True, priority=7, ttl=60_000)
    received = through(peer, encode_header(sent) + MESSAGE + BODY)
    header = encode_header(Header(durable=True, priority=7, ttl=60_000, first_acquirer=True, delivery_count=0))
    assert received == header + MESSAGE + BODY


@pytest.mark.parametrize("settled", [False, True])
@case("amqp_client_SUITE", "max_message_size_client_to_server")
@case("messaging.TransferTest", "exceedMaxMessageSizeLimit")
def test_a_message_larger_than_the_broker_takes(settled: bool):
    """max_message_size_client_to_server (amqp_client_SUITE)
    exceedMaxMessageSizeLimit (messaging.TransferTest): the link is detached, the session stays."""
    broker = InProcessBroker(make_settings(amqp10={"max_message_size": 2000}))
    address = broker.queue()
    peer = broker.connect()
    peer.begin()
    assert peer.attach_sender(address).max_message_size == 2000
    peer.transfer(b"x" * 1900, settled=settled)
    peer.transfer(b"x" * 2100, settled=settled)
    assert peer.detached_with("amqp:link:message-size-exceeded")
    assert not peer.take(End)
    assert broker.ready() == 1


@case("amqp_client_SUITE", "max_message_size_server_to_client")
def test_a_message_larger_than_the_client_takes():
    """max_message_size_server_to_client (amqp_client_SUITE): the message stays in the queue for another consumer."""
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill([b"small", b"x" * 2000])
    peer = broker.connect()
    peer.begin()
    assert peer.attach_receiver(address, max_message_size=1000).max_message_size == 1000
    peer.grant(1)
    assert peer.bodies() == [b"small"]
    peer.dispose(0, state=ACCEPTED)
    peer.grant(1)
    assert peer.detached_with("amqp:link:message-size-exceeded")
    assert not peer.take(End)
    assert broker.ready() == 1


def bound(broker: InProcessBroker, keys: dict[str, str]) -> None:
    """Queues bound to amq.direct, by binding key."""
    for queue, key in keys.items():
        broker.queue(queue)
        binding = Binding(
            source="amq.direct", destination=queue, destination_is_queue=True, binding_key=key, arguments={}
        )
        broker.engine.bind(binding, broker)


def with_cc(*keys: object) -> bytes:
    """A message with these additional routing keys."""
    return encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-cc"): list(keys)}) + BODY


@pytest.mark.parametrize(
    ("address", "keys", "reached"),
    [
        ("/exchanges/amq.direct/one", ("two", "three"), ["q1", "q2", "q3"]),
        ("/exchanges/amq.direct", ("two",), ["q0", "q2"]),
        ("/queues/q1", ("q2", "q3"), ["q1", "q2", "q3"]),
    ],
)
@case("amqp_client_SUITE", "x_cc_annotation_exchange")
@case("amqp_client_SUITE", "x_cc_annotation_exchange_routing_key_empty")
@case("amqp_client_SUITE", "x_cc_annotation_queue")
def test_more_routing_keys(address: str, keys: tuple[str, ...], reached: list[str]):
    """x_cc_annotation_exchange (amqp_client_SUITE)
    x_cc_annotation_exchange_routing_key_empty (amqp_client_SUITE)
    x_cc_annotation_queue (amqp_client_SUITE)"""
    broker = InProcessBroker()
    bound(broker, {"q0": "", "q1": "one", "q2": "two", "q3": "three"})
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(address)
    peer.transfer(payload=with_cc(*keys))
    assert peer.pick(Disposition).state == ACCEPTED
    assert [name for name in ("q0", "q1", "q2", "q3") if broker.ready(name)] == reached


@case("amqp_client_SUITE", "x_cc_annotation_null")
def test_more_routing_keys_on_the_anonymous_terminus():
    """x_cc_annotation_null (amqp_client_SUITE)"""
    broker = InProcessBroker()
    bound(broker, {"q1": "one", "q2": "two"})
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(None)
    annotations = encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-cc"): ["two"]})
    for to, states in (("/exchanges/amq.direct/one", 1), ("/queues/q1", 2)):
        peer.transfer(payload=annotations + encode_properties(Properties(to=to)) + BODY)
        assert broker.ready("q1") == states
    assert broker.ready("q2") == 1
    assert {type(each.state).__name__ for each in peer.take(Disposition)} == {"Accepted"}


@case("amqp_client_SUITE", "bad_x_cc_annotation_exchange")
def test_invalid_routing_keys():
    """bad_x_cc_annotation_exchange (amqp_client_SUITE): the link is detached, or the message rejected where every
    message has a target of its own."""
    broker = InProcessBroker()
    bound(broker, {"q1": "one"})
    for keys in ((1,), (Symbol("two"), b"x")):
        peer = broker.connect()
        peer.begin()
        peer.attach_sender("/exchanges/amq.direct/one")
        peer.transfer(payload=with_cc(*keys))
        assert peer.detached_with("amqp:invalid-field")

        peer.attach_sender(None, handle=1)
        bad = encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-cc"): list(keys)})
        peer.transfer(handle=1, payload=bad + encode_properties(Properties(to="/queues/q1")) + BODY)
        assert peer.take(Disposition)[-1].state.error.condition == "amqp:invalid-field"
        assert not peer.take(Detach)
    assert broker.ready("q1") == 0
