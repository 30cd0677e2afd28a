"""The engine's questions about the inside of a message."""

import pytest

from amqp10.conversion.converter import DESCRIBED_BYTES_MAX, MessageConverter
from amqp10.wire.codec import format_codes as code
from amqp10.wire.sections import (
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
    Properties,
    decode_map_section,
    encode_properties,
    encode_section,
    scan,
)
from amqp10.wire.types import Array, Symbol, UInt, ULong
from core.amqp091.content import entry_of
from core.amqp091.inspection import PREVIEW_BYTES, SEARCHED_BYTES_MAX
from core.amqp091.properties import BasicProperties
from core.amqp091.properties import encode_properties as encode_basic_properties
from core.errors import Invalid
from core.interface import Death, DeathReason
from core.message import Attributes, Origin
from core.taken_numbers import NAMED_BYTES_MAX, PublishingId
from tests.kit.wire import data_message

CONVERTER = MessageConverter()
ANNOTATIONS = encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-kind"): Symbol("a"), Symbol("x-number"): UInt(3)})
APPLICATION = encode_section(APPLICATION_PROPERTIES, {"colour": "red", "x-number": UInt(4)})
BODY = data_message(b"body")


@pytest.mark.parametrize(
    ("entry", "fields"),
    [
        (BODY, {}),
        (ANNOTATIONS + BODY, {"x-kind": "a", "x-number": 3}),
        (APPLICATION + BODY, {"colour": "red", "x-number": 4}),
        (
            ANNOTATIONS + encode_properties(Properties(subject="s")) + APPLICATION + BODY,
            {
                "x-kind": "a",
                "colour": "red",
                "x-number": 4,
            },
        ),
        (encode_section(DELIVERY_ANNOTATIONS, {Symbol("x-hop"): 1}) + BODY, {}),
    ],
)
def test_fields_of_a_headers_exchange(entry, fields):
    assert CONVERTER.routing_headers(entry, Origin.AMQP10) == fields


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"\x00",
        APPLICATION[:-1],
        encode_section(MESSAGE_ANNOTATIONS, {1: 2})[:-1] + b"\xff" + BODY,
        b"\x00\x53\x74\xc1\x03\x02\xa1\x09" + BODY,
    ],
)
def test_what_cannot_be_decoded_has_no_fields(entry):
    assert CONVERTER.routing_headers(entry, Origin.AMQP10) == {}


def test_keys_of_other_types_are_left_out():
    entry = encode_section(APPLICATION_PROPERTIES, {"a": 1, Symbol("b"): 2}) + BODY
    assert CONVERTER.routing_headers(entry, Origin.AMQP10) == {"a": 1}


def basic_message(body: bytes = b"body", **properties) -> bytes:
    """A message in 0.9.1 encoding."""
    return entry_of(encode_basic_properties(BasicProperties(**properties)), body)


def test_messages_of_the_other_protocol_are_looked_into_as_such():
    entry = basic_message(message_id="m", headers={"colour": "red", "x-stream-filter-value": "eu"})
    origin = Origin.AMQP091
    assert CONVERTER.routing_headers(entry, origin) == {"colour": "red", "x-stream-filter-value": "eu"}
    assert CONVERTER.filter_values([entry], origin) == ["eu"]
    entry = CONVERTER.dead_lettered(entry, origin, DEATH)
    assert CONVERTER.deaths(entry, origin) == [("q", DeathReason.REJECTED)]
    assert CONVERTER.describe(entry, origin) == {
        "message_id": "m",
        "deaths": [{"queue": "q", "reason": "rejected", "count": 1}],
        "body": b"body",
    }


def test_what_consumers_added_becomes_headers_of_the_other_protocol():
    entry = CONVERTER.annotated(
        basic_message(headers={"x-a": 1}), Origin.AMQP091, {Symbol("x-a"): UInt(2), "x-stream-offset": 7, ULong(1): 3}
    )
    assert CONVERTER.routing_headers(entry, Origin.AMQP091) == {"x-a": 2, "x-stream-offset": 7}


def test_a_message_in_its_own_encoding_is_itself():
    assert CONVERTER.render(BODY, Attributes(Origin.AMQP10), Origin.AMQP10) is BODY
    entry = basic_message()
    assert CONVERTER.render(entry, Attributes(Origin.AMQP091), Origin.AMQP091) is entry


def test_a_message_is_rendered_for_the_other_protocol():
    assert CONVERTER.render(BODY, Attributes(Origin.AMQP10), Origin.AMQP091) == basic_message(delivery_mode=1)
    assert CONVERTER.render(basic_message(), Attributes(Origin.AMQP091), Origin.AMQP10) == BODY


@pytest.mark.parametrize(
    ("annotations", "value"),
    [
        ({}, None),
        ({"x-stream-filter-value": "eu"}, "eu"),
        ({"x-stream-filter-value": 7}, None),
        ({"x-stream-filter-value": ""}, None),
        ({"x-other": "eu"}, None),
        ({"x-other": "x-stream-filter-value"}, None),
        ({"x-other": "a" * 200, "x-stream-filter-value": "eu"}, "eu"),
        ({"x-other": "a" * 300, "x-stream-filter-value": "eu"}, "eu"),
        ({"x-other": "a" * 300}, None),
    ],
)
def test_the_value_that_streams_filter_by(annotations, value):
    section = encode_section(MESSAGE_ANNOTATIONS, {Symbol(key): item for key, item in annotations.items()})
    for body in (BODY, data_message(bytes(SEARCHED_BYTES_MAX))):
        found = CONVERTER.filter_values([BODY, section + body], Origin.AMQP10)
        assert found == (None if value is None else [None, value])


def test_a_message_without_annotations_has_no_filter_value():
    for entry in (BODY, b"\x00", b"\x00\x53\x72\xc1", b"\x00\x53\x72\xc1" + bytes(SEARCHED_BYTES_MAX)):
        assert CONVERTER.filter_values([entry], Origin.AMQP10) is None
    assert CONVERTER.filter_values([basic_message()], Origin.AMQP091) is None


# --- annotations that consumers have added

HISTORY = {Symbol("x-list"): ["l1"], Symbol("x-map"): {"m": 1}, Symbol("x-array"): Array(code.STRING_8, ("a1",))}
DEATH = Death(queue="q", reason=DeathReason.REJECTED, at=1.0, exchange="", routing_keys=("q",))


def annotations_of(entry: bytes) -> dict[object, object]:
    bounds = scan(entry).message_annotations
    assert bounds is not None
    return decode_map_section(entry, *bounds)


@pytest.mark.parametrize("own", [b"", ANNOTATIONS])
def test_what_consumers_added_is_merged_and_nothing_else_changes(own):
    added = {**HISTORY, Symbol("x-kind"): Symbol("b")}
    entry = CONVERTER.annotated(own + APPLICATION + BODY, Origin.AMQP10, {**HISTORY, "x-kind": Symbol("b")})
    assert annotations_of(entry) == {**(annotations_of(own) if own else {}), **added}
    assert entry.endswith(APPLICATION + BODY)


def test_modified_dead_letter_history():
    """A list, a map and an array survive two deaths, and annotations added later stand beside them."""
    entry = BODY
    for number in range(2):
        entry = CONVERTER.annotated(entry, Origin.AMQP10, {**HISTORY, Symbol(f"x-round-{number}"): UInt(number)})
        entry = CONVERTER.dead_lettered(entry, Origin.AMQP10, DEATH)
    kept = annotations_of(entry)
    assert {key: kept[key] for key in HISTORY} == HISTORY
    assert (kept[Symbol("x-round-0")], kept[Symbol("x-round-1")]) == (UInt(0), UInt(1))
    assert CONVERTER.describe(entry, Origin.AMQP10)["deaths"] == [{"queue": "q", "reason": "rejected", "count": 2}]


@pytest.mark.parametrize(
    ("entry", "origin", "body"),
    [(b"\x00", Origin.AMQP10, b""), (entry_of(b"\x80\x00\x05", b"body"), Origin.AMQP091, b"body")],
)
def test_what_cannot_be_decoded_stays_as_it_is(entry, origin, body):
    assert CONVERTER.annotated(entry, origin, HISTORY) == entry
    assert CONVERTER.dead_lettered(entry, origin, DEATH) == entry
    assert CONVERTER.describe(entry, origin) == {"message_id": None, "deaths": [], "body": body}


# --- what operators see


@pytest.mark.parametrize(
    ("body", "preview"),
    [
        (BODY, b"body"),
        (BODY + data_message(b"more"), b"body"),
        (data_message(b""), b""),
        (data_message(b"x" * 300), b"x" * PREVIEW_BYTES),
        (encode_section(AMQP_VALUE, "grüße"), "grüße".encode()),
        (encode_section(AMQP_VALUE, "y" * 300), b"y" * PREVIEW_BYTES),
        (encode_section(AMQP_VALUE, ULong(7)), b"\x53\x07"),
        (encode_section(AMQP_VALUE, None), b"\x40"),
        (b"\x00\x80" + DATA.to_bytes(8, "big") + b"\xa0\x01z", b"z"),
    ],
)
def test_the_beginning_of_a_body(body, preview):
    assert CONVERTER.describe(ANNOTATIONS + body, Origin.AMQP10)["body"] == preview


@pytest.mark.parametrize(
    ("message_id", "text"), [(None, None), ("m1", "m1"), (ULong(7), "7"), (b"\xff1", "\\xff1"), ("", "")]
)
def test_the_message_id_as_text(message_id, text):
    entry = encode_properties(Properties(message_id=message_id, subject="s")) + BODY
    assert CONVERTER.describe(entry, Origin.AMQP10)["message_id"] == text


def test_sections_that_are_too_large_to_be_shown_are_not_decoded():
    entry = encode_properties(Properties(message_id="m", subject="s" * DESCRIBED_BYTES_MAX)) + BODY
    assert CONVERTER.describe(entry, Origin.AMQP10) == {"message_id": None, "deaths": [], "body": b"body"}


NAMED = {"x-opt-publisher": "p", "x-opt-publishing-id": ULong(7)}
AS_ANNOTATIONS = encode_section(MESSAGE_ANNOTATIONS, {Symbol(key): value for key, value in NAMED.items()})
AS_PROPERTIES = encode_section(APPLICATION_PROPERTIES, NAMED)
OF_SPARK = encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-opt-spark-batch"): "p", Symbol("x-opt-spark-row"): ULong(7)})


def of_091(headers):
    return entry_of(encode_basic_properties(BasicProperties(headers=headers)), b"body")


@pytest.mark.parametrize(
    "entry",
    [
        AS_ANNOTATIONS + BODY,
        AS_PROPERTIES + BODY,
        ANNOTATIONS + AS_PROPERTIES + BODY,
        AS_ANNOTATIONS + APPLICATION + BODY,
        OF_SPARK + BODY,
    ],
)
def test_a_publishing_id_is_an_annotation_or_a_property(entry):
    assert CONVERTER.publishing_id(entry, Origin.AMQP10) == PublishingId("p", 7)


def test_a_publishing_id_is_a_header_in_091():
    entry = of_091({"x-opt-publisher": "p", "x-opt-publishing-id": 7})
    assert CONVERTER.publishing_id(entry, Origin.AMQP091) == PublishingId("p", 7)


@pytest.mark.parametrize("entry", [BODY, ANNOTATIONS + APPLICATION + BODY, data_message(b"x-opt-publishing-id")])
def test_most_messages_have_no_publishing_id(entry):
    assert CONVERTER.publishing_id(entry, Origin.AMQP10) is None
    assert CONVERTER.publishing_id(of_091({"a": "x-opt-publisher"}), Origin.AMQP091) is None


def test_an_annotation_that_names_a_key_as_its_value_is_no_publishing_id():
    entry = encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-kind"): "x-opt-publishing-id"}) + BODY
    assert CONVERTER.publishing_id(entry, Origin.AMQP10) is None


@pytest.mark.parametrize("origin", list(Origin))
def test_a_publishing_id_among_too_many_bytes_is_refused(origin):
    padding = {"x-long": "x" * NAMED_BYTES_MAX}
    if origin is Origin.AMQP091:
        entry = of_091({"x-opt-publisher": "p", "x-opt-publishing-id": 7, **padding})
    else:
        entry = encode_section(APPLICATION_PROPERTIES, {**NAMED, **padding}) + BODY
    with pytest.raises(Invalid, match="2048"):
        CONVERTER.publishing_id(entry, origin)


@pytest.mark.parametrize("number", [-1, "7", None, 2**63])
def test_what_cannot_be_a_publishing_id_is_refused(number):
    value = ULong(number) if number == 2**63 else number
    entry = encode_section(APPLICATION_PROPERTIES, {"x-opt-publisher": "p", "x-opt-publishing-id": value}) + BODY
    with pytest.raises(Invalid, match="x-opt-publishing-id is"):
        CONVERTER.publishing_id(entry, Origin.AMQP10)
