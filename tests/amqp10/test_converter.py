"""What the engine may ask about the inside of a message."""

import pytest

from amqp10.converter import MessageConverter
from amqp10.sections import (
    APPLICATION_PROPERTIES,
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
    Properties,
    encode_properties,
    encode_section,
)
from amqp10.types import Symbol, UInt
from core.message import Origin
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


def test_other_protocols_are_not_looked_into():
    assert CONVERTER.routing_headers(APPLICATION + BODY, Origin.AMQP091) == {}


def test_a_message_in_its_own_encoding_is_itself():
    assert CONVERTER.render(BODY, Origin.AMQP10, Origin.AMQP10) is BODY
    with pytest.raises(AssertionError):
        CONVERTER.render(BODY, Origin.AMQP10, Origin.AMQP091)


@pytest.mark.parametrize(
    ("annotations", "value"),
    [
        ({}, None),
        ({"x-stream-filter-value": "eu"}, "eu"),
        ({"x-stream-filter-value": 7}, None),
        ({"x-other": "eu"}, None),
    ],
)
def test_the_value_that_streams_filter_by(annotations, value):
    entry = encode_section(MESSAGE_ANNOTATIONS, {Symbol(key): item for key, item in annotations.items()}) + BODY
    assert CONVERTER.filter_value(entry, Origin.AMQP10) == value


def test_a_message_without_annotations_has_no_filter_value():
    assert CONVERTER.filter_value(BODY, Origin.AMQP10) is None
    assert CONVERTER.filter_value(b"\x00", Origin.AMQP10) is None
    assert CONVERTER.filter_value(BODY, Origin.AMQP091) is None
