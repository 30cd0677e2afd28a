"""The properties of class basic: flags, values, and any bytes that a peer may send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.amqp091.errors import Amqp091ConnectionFault, Amqp091EncodeError, ReplyCode
from core.amqp091.properties import BasicProperties, decode_properties, encode_properties
from tests.kit.wire_vectors import Vector, vectors

texts = st.none() | st.text(st.characters(codec="utf-8"), max_size=60)
octets = st.none() | st.integers(0, 255)
any_properties = st.builds(
    BasicProperties,
    content_type=texts,
    content_encoding=texts,
    headers=st.none() | st.dictionaries(st.text("ab", max_size=3), st.integers(-9, 9), max_size=3),
    delivery_mode=octets,
    priority=octets,
    correlation_id=texts,
    reply_to=texts,
    expiration=texts,
    message_id=texts,
    timestamp=st.none() | st.integers(0, 2**64 - 1),
    type=texts,
    user_id=texts,
    app_id=texts,
    cluster_id=texts,
)


def decode_whole(encoded: bytes) -> BasicProperties:
    return decode_properties(encoded, 0, len(encoded))


@pytest.mark.parametrize("vector", vectors("amqp091/properties.txt"), ids=str)
def test_vector(vector: Vector):
    properties = eval(vector.meaning, {"BasicProperties": BasicProperties})
    assert decode_whole(vector.encoded) == properties
    if not vector.alternative:
        assert encode_properties(properties) == vector.encoded


@pytest.mark.parametrize("vector", vectors("amqp091/malformed_properties.txt"), ids=str)
def test_malformed_vector(vector: Vector):
    with pytest.raises(Amqp091ConnectionFault) as caught:
        decode_whole(vector.encoded)
    assert caught.value.code is ReplyCode.SYNTAX_ERROR
    assert caught.value.class_id == 60
    assert vector.meaning in caught.value.text


@given(any_properties, st.binary(max_size=5), st.binary(max_size=5))
def test_round_trip(properties, before, behind):
    encoded = encode_properties(properties)
    start = len(before)
    assert decode_properties(before + encoded + behind, start, start + len(encoded)) == properties


@given(any_properties, st.data())
def test_nothing_behind_the_end_is_read(properties, data):
    encoded = encode_properties(properties)
    stop = data.draw(st.integers(0, len(encoded) - 1))
    for buffer in (encoded, encoded[:stop]):
        with pytest.raises(Amqp091ConnectionFault):
            decode_properties(buffer, 0, stop)


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        (BasicProperties(content_type="t" * 256), "content_type"),
        (BasicProperties(delivery_mode=256), "delivery_mode"),
        (BasicProperties(timestamp=-1), "timestamp"),
        (BasicProperties(headers={"a": "\ud800"}), "headers"),
        (BasicProperties(priority="4"), "priority"),  # type: ignore[arg-type]
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_a_value_without_an_encoding_is_named(properties: BasicProperties, name: str):
    with pytest.raises(Amqp091EncodeError, match=f"^basic properties, {name}: "):
        encode_properties(properties)
