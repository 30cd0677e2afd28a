"""Entries: the place at which a message's header ends and its body begins."""

from hypothesis import given
from hypothesis import strategies as st

from core.amqp091.content import body_of, entry_of, header_length, properties_of
from core.amqp091.properties import BasicProperties, encode_properties

NO_PROPERTIES = b"\x00\x00"
PERSISTENT = encode_properties(BasicProperties(delivery_mode=2))


def test_an_entry_is_the_content_header_and_the_body():
    assert entry_of(PERSISTENT, b"abc") == bytes.fromhex("003c 0000 0000000000000003 1000 02") + b"abc"


def test_an_empty_body():
    entry = entry_of(NO_PROPERTIES, b"")
    assert header_length(entry) == len(entry) == 14
    assert body_of(entry) == b""


@given(st.sampled_from([NO_PROPERTIES, PERSISTENT]), st.binary(max_size=300))
def test_an_entry_falls_into_its_parts(properties: bytes, body: bytes):
    entry = entry_of(properties, bytearray(body))
    assert isinstance(entry, bytes)
    assert header_length(entry) == 12 + len(properties)
    assert properties_of(entry) == properties
    assert body_of(entry) == body
