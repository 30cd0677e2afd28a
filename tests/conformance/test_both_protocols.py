"""Between the protocols, as RabbitMQ's suites show it: published with AMQP 1.0 and consumed with 0.9.1, and the
reverse."""

import pytest

from amqp10.wire.codec import format_codes as code
from amqp10.wire.messaging import ACCEPTED
from amqp10.wire.performatives import Disposition
from amqp10.wire.sections import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    Header,
    Properties,
    decode_header,
    decode_map_section,
    encode_header,
    encode_properties,
    encode_section,
    scan,
)
from amqp10.wire.types import Array, Int, Symbol, UByte, UInt, plain
from core.amqp091.methods import BasicGet, BasicNack, BasicQos, BasicQosOk, BasicReject
from core.amqp091.properties import BasicProperties
from core.amqp091.table import FieldTable
from tests.kit.cases import case
from tests.kit.wire import InProcessBroker, WirePeer
from tests.kit.wire091 import Wire091Peer, connect

DURABLE = encode_header(Header(durable=True))
ID = "my correlation ID"
CORRELATED = encode_properties(Properties(correlation_id=ID))
VALUE = encode_section(AMQP_VALUE, b"\x00\xff")


def on_both(kind: str) -> tuple[WirePeer, Wire091Peer]:
    """A broker with a queue q: a client of AMQP 1.0 with a link each way, and one of 0.9.1."""
    broker = InProcessBroker(durable=True)
    address = broker.queue(x_queue_type=kind)
    new = broker.connect()
    new.begin()
    new.attach_sender(address)
    if kind != "stream":
        new.attach_receiver(address)
    old = connect(broker)
    old.call(1, BasicQos(prefetch_count=100), BasicQosOk)
    return new, old


def read_by_091(kind: str, *messages: bytes) -> list[tuple[BasicProperties, bytes]]:
    """What a 0.9.1 consumer reads of messages of AMQP 1.0."""
    new, old = on_both(kind)
    for message in messages:
        new.transfer(payload=message)
    old.consume(arguments={"x-stream-offset": "first"} if kind == "stream" else {})
    deliveries = old.deliveries()
    assert [method.redelivered for method, _, _ in deliveries] == [False] * len(messages)
    return [(properties, body) for _, properties, body in deliveries]


BODIES = [
    # sections, type, body of the 0.9.1 message
    (VALUE, "amqp-1.0", VALUE),
    (encode_section(AMQP_VALUE, False), "amqp-1.0", encode_section(AMQP_VALUE, False)),
    (encode_section(AMQP_SEQUENCE, [b"\x00\xff"]), "amqp-1.0", encode_section(AMQP_SEQUENCE, [b"\x00\xff"])),
    (
        encode_section(AMQP_SEQUENCE, [-1]) + encode_section(AMQP_SEQUENCE, [True, "🐇"]),
        "amqp-1.0",
        encode_section(AMQP_SEQUENCE, [-1]) + encode_section(AMQP_SEQUENCE, [True, "🐇"]),
    ),
    (encode_section(DATA, b"\x00\xff"), None, b"\x00\xff"),
    (encode_section(DATA, b"\x00\x01") + encode_section(DATA, b"\x02\x03"), None, b"\x00\x01\x02\x03"),
]


@pytest.mark.parametrize("kind", ["quorum", "stream"])
@case("amqp_client_SUITE", "amqp_quorum_queue_amqpl")
@case("amqp_client_SUITE", "amqp_stream_amqpl")
def test_every_kind_of_body_is_read_by_0_9_1(kind: str):
    """amqp_quorum_queue_amqpl (amqp_client_SUITE)
    amqp_stream_amqpl (amqp_client_SUITE): data sections are joined, and every other body is kept as it is encoded."""
    read = read_by_091(kind, *(DURABLE + sent for sent, _, _ in BODIES))
    assert [(properties.type, body) for properties, body in read] == [(type_, body) for _, type_, body in BODIES]
    assert {properties.delivery_mode for properties, _ in read} == {2}


@pytest.mark.parametrize("kind", ["quorum", "stream"])
@case("amqp_client_SUITE", "amqp_quorum_queue_amqpl")
@case("amqp_client_SUITE", "amqp_stream_amqpl")
def test_every_other_section_is_read_by_0_9_1(kind: str):
    """amqp_quorum_queue_amqpl (amqp_client_SUITE)
    amqp_stream_amqpl (amqp_client_SUITE)"""
    array = encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-array"): Array(code.STRING_8, ("e1", "e2"))})
    footer = encode_section(FOOTER, {Symbol("x-my footer"): UByte(255)})
    read = read_by_091(
        kind,
        DURABLE + encode_section(APPLICATION_PROPERTIES, {"my int": Int(-2)}) + VALUE,
        DURABLE + CORRELATED + VALUE,
        DURABLE + CORRELATED + encode_section(APPLICATION_PROPERTIES, {"my long": -9_000_000_000}) + VALUE,
        VALUE + footer,
        DURABLE + array + VALUE,
        encode_header(Header(durable=False)) + VALUE,
    )
    headers = [dict(properties.headers or {}) for properties, _ in read]
    for number, each in enumerate(headers):
        assert each.pop("x-stream-offset", number) == number
    assert headers == [{"my int": -2}, {}, {"my long": -9_000_000_000}, {}, {"x-array": ["e1", "e2"]}, {}]
    assert [properties.correlation_id for properties, _ in read] == [None, ID, ID, None, None, None]
    assert [body for _, body in read] == [VALUE, VALUE, VALUE, VALUE + footer, VALUE, VALUE]
    assert [properties.delivery_mode for properties, _ in read] == [2, 2, 2, 1, 2, 1]


@case("amqp_dotnet_SUITE", "roundtrip_to_amqp_091")
def test_a_correlation_id_comes_through_and_0_9_1_acknowledges():
    """roundtrip_to_amqp_091 (amqp_dotnet_SUITE)"""
    new, old = on_both("classic")
    new.transfer(payload=encode_header(Header()) + CORRELATED + encode_section(DATA, b"hi"))
    assert new.pick(Disposition).state == ACCEPTED
    old.consume()
    ((method, properties, body),) = old.deliveries()
    assert (properties.correlation_id, body) == (ID, b"hi")
    old.ack(method.delivery_tag)
    assert (new.broker.ready(), new.broker.unacknowledged()) == (0, 0)


@case("amqp_client_SUITE", "message_headers_conversion")
def test_header_and_annotations_become_properties_and_headers():
    """message_headers_conversion (amqp_client_SUITE): from AMQP 1.0 to 0.9.1."""
    new, old = on_both("quorum")
    new.transfer(
        payload=encode_header(Header(durable=True, priority=7, ttl=88_000))
        + encode_section(
            MESSAGE_ANNOTATIONS,
            {
                Symbol("x-string"): "string-value",
                Symbol("x-long"): -3,
                Symbol("x-uint"): UInt(3),
                Symbol("x-bool"): True,
            },
        )
        + encode_section(
            APPLICATION_PROPERTIES, {"string": "string-val", "long": -2, "uint": UInt(2), "bool": False}
        )
        + encode_section(DATA, b"my-body")
    )  # fmt: skip
    old.send(1, BasicGet(queue="q", no_ack=True))
    got = old.got()
    assert got is not None
    _, properties, body = got
    assert (properties.delivery_mode, properties.priority, properties.expiration) == (2, 7, "88000")
    assert properties.headers == {
        "x-string": "string-value",
        "x-long": -3,
        "x-uint": 3,
        "x-bool": True,
        "string": "string-val",
        "long": -2,
        "uint": 2,
        "bool": False,
    }
    assert body == b"my-body"


@case("amqp_client_SUITE", "message_headers_conversion")
def test_properties_and_headers_become_header_and_annotations():
    """message_headers_conversion (amqp_client_SUITE): from 0.9.1 to AMQP 1.0."""
    new, old = on_both("quorum")
    annotations: FieldTable = {
        "x-forwarding": [{"uri": "amqp://localhost/%2F/upstream"}], "x-string": "my-string", "x-int": 92, "x-bool": True
    }  # fmt: skip
    others: FieldTable = {"string": "my-str", "int": 101, "bool": False}
    properties = BasicProperties(delivery_mode=2, priority=5, headers={**annotations, **others})
    old.publish(1, [b"foobar"], routing_key="q", properties=properties)
    new.grant(1)
    ((_, payload),) = new.deliveries()
    bounds = scan(payload)
    assert bounds.header is not None
    header = decode_header(payload, *bounds.header)
    assert (header.durable, header.priority) == (True, 5)
    assert bounds.message_annotations is not None
    told = plain(decode_map_section(payload, *bounds.message_annotations))
    assert isinstance(told, dict)
    assert {key: told[key] for key in annotations} == annotations
    assert bounds.application_properties is not None
    assert decode_map_section(payload, *bounds.application_properties) == others


def requeued(kind: str, method: type[BasicReject] | type[BasicNack]) -> tuple[bool, int]:
    """What a 1.0 consumer reads of a message that 0.9.1 has requeued: first-acquirer and delivery-count."""
    new, old = on_both(kind)
    new.transfer(b"m")
    old.send(1, BasicGet(queue="q"))
    got = old.got()
    assert got is not None
    old.send(1, method(delivery_tag=got[0].delivery_tag, requeue=True))
    new.grant(1)
    ((_, payload),) = new.deliveries()
    bounds = scan(payload)
    assert bounds.header is not None
    header = decode_header(payload, *bounds.header)
    return bool(header.first_acquirer), header.delivery_count or 0


@case("amqp_client_SUITE", "delivery_count_amqpl_reject_nack_classic")
def test_a_reject_counts_and_a_nack_does_not_in_a_classic_queue():
    """delivery_count_amqpl_reject_nack_classic (amqp_client_SUITE)"""
    assert requeued("classic", BasicReject) == (False, 1)
    assert requeued("classic", BasicNack) == (False, 0)


@case("amqp_client_SUITE", "delivery_count_amqpl_reject_nack_quorum")
def test_a_reject_counts_and_a_nack_does_not_in_a_quorum_queue():
    """delivery_count_amqpl_reject_nack_quorum (amqp_client_SUITE)"""
    assert requeued("quorum", BasicReject) == (False, 1)
    assert requeued("quorum", BasicNack) == (False, 0)
