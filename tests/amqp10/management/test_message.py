"""Messages as requests: requests that cannot be answered, bodies that are refused, and arguments of any type."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.management.message import REQUEST_BYTES_MAX, REQUEST_DEPTH_MAX
from amqp10.management.node import RequestError
from amqp10.wire.codec.encode import encode_map_of, encode_value
from amqp10.wire.sections import (
    AMQP_VALUE,
    Header,
    Properties,
    encode_header,
    encode_properties,
    encode_section,
)
from amqp10.wire.types import (
    Array,
    Byte,
    Decimal32,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from tests.kit.management import (
    Console,
    binding_to_queue,
    decode_answer,
    encode_request,
)

CLASSIC = {"x-queue-type": "classic"}


@pytest.fixture
def console():
    return Console()


# --- requests that end the link ---------------------------------------------------------------------------------

ID = Properties(message_id="id", reply_to="$me", to="/queues/q", subject="GET")


@pytest.mark.parametrize(
    ("message", "condition"),
    [
        (encode_request("GET", "/queues/q", reply_to="/queues/answers"), "amqp:invalid-field"),
        (encode_request("GET", "/queues/q", reply_to=None), "amqp:invalid-field"),
        (encode_request("GET", "/queues/q", reply_to=Symbol("$me")), "amqp:invalid-field"),
        (encode_request("GET", "/queues/q", message_id=None), "amqp:invalid-field"),
        (encode_section(AMQP_VALUE, None), "amqp:invalid-field"),
        (b"", "amqp:invalid-field"),
        (b"\x00", "amqp:decode-error"),
        (b"GET /queues/q HTTP/1.1\r\n\r\n", "amqp:invalid-field"),
        (encode_request("GET", "/queues/q")[:-1], "amqp:decode-error"),
        (encode_properties(ID) + encode_properties(ID), "amqp:decode-error"),
        (b"\x00\x53\x73\xc0\x06\x01\x83" + b"\x00" * 8, "amqp:decode-error"),
        (b"\x00\x53\x73\xc0\x03\x01\x52\x01", "amqp:invalid-field"),
        (encode_properties(ID) + b"\x00" * REQUEST_BYTES_MAX, "amqp:link:message-size-exceeded"),
    ],
)
def test_a_message_that_cannot_be_answered(console, message, condition):
    with pytest.raises(RequestError) as refused:
        console.respond(message)
    assert refused.value.condition == condition
    assert str(refused.value) == refused.value.description


def test_sections_besides_properties_and_body_are_passed_over(console):
    request = encode_request("PUT", "/queues/q", {})
    message = (
        encode_header(Header(durable=True))
        + encode_section(0x71, {Symbol("x-a"): 1})
        + encode_section(0x72, {Symbol("x-b"): 2})
        + request
        + encode_section(0x78, {Symbol("x-c"): 3})
    )
    assert decode_answer(console.respond(message)).status == 201


def test_no_body_section_is_a_null_body(console):
    assert decode_answer(console.respond(encode_properties(ID))).status == 404


@pytest.mark.parametrize(
    "body",
    [
        encode_section(0x75, b"{}"),
        encode_section(0x75, b"") + encode_section(0x75, b"{}"),
        encode_section(0x76, [None]),
    ],
)
def test_a_body_that_is_no_amqp_value(console, body):
    assert decode_answer(console.respond(encode_properties(ID) + body)).status == 400


@pytest.mark.parametrize("body", [encode_section(0x75, b""), encode_section(0x76, []), encode_section(0x77, None)])
def test_an_empty_body_is_null_wherever_it_stands(console, body):
    for message in (encode_properties(ID) + body, body + encode_properties(ID)):
        assert decode_answer(console.respond(message)).status == 404


def nested(levels):
    value = None
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [1, REQUEST_DEPTH_MAX - 3, REQUEST_DEPTH_MAX - 2, 40, 55])
def test_depth_is_bounded_and_what_is_taken_is_shown_again(console, levels):
    # The section, the body and the arguments take three levels.
    status = console.ask("PUT", "/queues/q", {"arguments": {"x": nested(levels)}}).status
    assert status == (201 if levels <= REQUEST_DEPTH_MAX - 3 else 400)
    if status == 201:
        assert console.ask("GET", "/queues/q").body["arguments"] == {"x": nested(levels)}
        assert console.ask("GET", "/headgate/queues").status == 200


def test_a_body_that_does_not_decode_is_answered(console):
    twice = encode_map_of([encode_value("durable"), encode_value(True)] * 2)
    answer = decode_answer(console.respond(encode_properties(ID) + b"\x00\x53\x77" + twice))
    assert answer.status == 400
    assert "does not decode" in answer.body


@given(st.binary(max_size=80))
def test_any_bytes_are_answered_or_refused(junk):
    console = Console()
    for message in (junk, encode_properties(ID) + junk):
        try:
            response = console.respond(message)
        except RequestError:
            continue
        assert decode_answer(response).correlation_id is not None


@given(
    method=st.sampled_from(["GET", "PUT", "POST", "DELETE"]),
    path=st.text(st.sampled_from("/queuesxchangbid=;&?%20+.headgt~"), max_size=24),
)
def test_any_path_is_answered(method, path):
    assert Console().ask(method, path).status in (200, 201, 204, 400, 403, 404, 405)


@pytest.mark.parametrize(
    "body",
    [
        "text",
        [],
        b"bytes",
        7,
        {1: True},
        {None: True},
        {"durable": 1},
        {"durable": "true"},
        {"exclusive": UInt(1)},
        {"arguments": []},
        {"arguments": "x-max-length=1"},
        {"arguments": {1: 2}},
        {"arguments": {"x": {1: 2}}},
        {"arguments": {"x": b"bytes"}},
        {"arguments": {"x": uuid.UUID(int=1)}},
        {"arguments": {"x": Decimal32(b"\x00" * 4)}},
        {"arguments": {"x": Described(ULong(1), "x")}},
        {"arguments": {"x": [Described(ULong(1), "x")]}},
        {"durable": True, Symbol("durable"): True},
        {"Durable": True},
        {"type": "classic"},
    ],
    ids=repr,
)
def test_a_bad_body_of_a_queue(console, body):
    answer = console.ask("PUT", "/queues/q", body)
    assert answer.status == 400
    assert isinstance(answer.body, str)
    assert console.ask("GET", "/queues/q").status == 404


def test_a_null_body_and_null_fields_mean_the_defaults(console):
    assert console.ask("PUT", "/queues/q1").status == 201
    assert console.ask("PUT", "/queues/q1", {"durable": None, "arguments": None}).status == 200


@pytest.mark.parametrize("body", [{"type": 1}, {"type": True}, {"internal": "no"}, {"type": ""}, "direct"], ids=repr)
def test_a_bad_body_of_an_exchange(console, body):
    assert console.ask("PUT", "/exchanges/e", body).status == 400


@pytest.mark.parametrize(
    "change",
    [
        {"source": None},
        {"source": 1},
        {"destination_queue": None},
        {"destination_exchange": "amq.topic"},
        {"binding_key": 1},
        {"binding_key": "k" * 256},
        {"arguments": []},
        {"routing_key": "k"},
    ],
    ids=repr,
)
def test_a_bad_body_of_a_binding(console, change):
    console.ask("PUT", "/queues/q", {})
    assert console.ask("POST", "/bindings", binding_to_queue("amq.direct", "q", "k") | change).status == 400
    assert console.broker.snapshot("bindings") == []


# --- arguments ------------------------------------------------------------------------------------------------

SAME_NUMBER = [7, Int(7), Short(7), Byte(7), UByte(7), UShort(7), UInt(7), ULong(7), Timestamp(7)]


@pytest.mark.parametrize("number", SAME_NUMBER, ids=repr)
def test_integers_of_any_width_are_the_same_argument(console, number):
    assert console.ask("PUT", "/queues/q", {"arguments": {"x-max-length": 7}}).status == 201
    assert console.ask("PUT", "/queues/q", {"arguments": {Symbol("x-max-length"): number}}).status == 200


def test_symbols_and_strings_are_the_same_argument(console):
    assert console.ask("PUT", "/queues/q", {"arguments": CLASSIC}).status == 201
    body = {Symbol("arguments"): {Symbol("x-queue-type"): Symbol("classic")}}
    assert console.ask("PUT", "/queues/q", body).status == 200


def test_arguments_of_every_type_are_shown_again(console):
    arguments = {
        "ulong": ULong(2**64 - 1),
        "long": -(2**63),
        "float": Float(0.5),
        "double": 1e300,
        "null": None,
        "list": [1, "two", [False]],
        "map": {Symbol("inner"): {"deep": UInt(3)}},
        "array": Array(0xA3, (Symbol("a"), Symbol("b"))),
    }
    assert console.ask("PUT", "/queues/q", {"arguments": arguments}).status == 201
    shown = console.ask("GET", "/queues/q").value["arguments"]
    assert shown == {
        "ulong": ULong(2**64 - 1),
        "long": -(2**63),
        "float": 0.5,
        "double": 1e300,
        "null": None,
        "list": [1, "two", [False]],
        "map": {"inner": {"deep": 3}},
        "array": ["a", "b"],
    }


def test_a_boolean_is_not_a_number(console):
    assert console.ask("PUT", "/queues/q", {"arguments": {"x-max-length": True}}).status == 409
