"""Messages are encoded to bytes and decoded again."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.client import Message
from amqp10.errors import DecodeError
from amqp10.wire.sections import AMQP_SEQUENCE, AMQP_VALUE, DATA, Header, Properties, encode_section
from amqp10.wire.types import Symbol, UInt, ULong

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.binary(),
    st.text(),
    st.uuids(),
    st.integers(0, 2**32 - 1).map(UInt),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=10
)
ANNOTATIONS = st.dictionaries(
    st.text(st.characters(min_codepoint=33, max_codepoint=126)).map("x-{}".format), SCALARS, max_size=3
)
PROPERTIES = st.builds(
    Properties,
    message_id=st.one_of(st.none(), st.text(), st.uuids(), st.integers(0, 2**64 - 1).map(ULong)),
    to=st.none() | st.text(),
    subject=st.none() | st.text(),
    content_type=st.none() | st.just("text/plain"),
    creation_time=st.none() | st.integers(0, 2**62),
)
HEADERS = st.builds(
    Header, durable=st.booleans(), priority=st.integers(0, 255), ttl=st.none() | st.integers(0, 2**32 - 1)
)


@given(
    st.builds(
        Message,
        body=VALUES,
        properties=st.none() | PROPERTIES,
        application_properties=st.dictionaries(st.text(), SCALARS, max_size=3),
        annotations=ANNOTATIONS,
        header=st.none() | HEADERS,
        delivery_annotations=ANNOTATIONS,
        footer=ANNOTATIONS,
    )
)
def test_what_is_encoded_decodes_to_the_same(message):
    assert Message.decode(message.encode()) == message


@pytest.mark.parametrize(
    ("body", "section"), [(b"binary", AMQP_VALUE), ([1, "two"], AMQP_SEQUENCE), ([1, "two"], None), (b"data", None)]
)
def test_the_kind_of_section_is_kept_where_the_body_does_not_tell_it(body, section):
    message = Message(body, section=section)
    assert Message.decode(message.encode()) == message


def test_bytes_are_one_data_section_and_the_rest_is_a_value():
    assert Message(b"hello").encode() == b"\x00\x53\x75\xa0\x05hello"
    assert Message("hello").encode() == b"\x00\x53\x77\xa1\x05hello"
    assert Message(None).encode() == b"\x00\x53\x77\x40"


def test_a_body_in_several_sections_is_one():
    data = encode_section(DATA, b"one") + encode_section(DATA, b"two")
    assert Message.decode(data) == Message(b"onetwo")
    sequence = encode_section(AMQP_SEQUENCE, [1]) + encode_section(AMQP_SEQUENCE, [2, 3])
    assert Message.decode(sequence) == Message([1, 2, 3], section=AMQP_SEQUENCE)


def test_a_message_without_a_body_has_none():
    assert Message.decode(b"") == Message(None)


def test_keys_of_annotations_are_symbols_on_the_wire():
    encoded = Message(annotations={"x-key": Symbol("value")}).encode()
    assert b"\xa3\x05x-key\xa3\x05value" in encoded


@pytest.mark.parametrize(
    "encoded", [b"hello", b"\x00", b"\x00\x53\x75\xa0\x05he", b"\x00\x53\x99\x45", uuid.UUID(int=0).bytes]
)
def test_what_is_no_message_is_a_decode_error(encoded):
    with pytest.raises(DecodeError):
        Message.decode(encoded)
