"""A content that is put together from its frames; the faults are in test_channels.py."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.amqp091.assembly import ContentAssembly
from core.amqp091.content import body_of, entry_of, properties_of
from core.amqp091.errors import Amqp091ConnectionFault, ChannelFault, ReplyCode
from core.amqp091.methods import BasicPublish
from core.amqp091.properties import BasicProperties, encode_properties

PROPERTIES = encode_properties(BasicProperties(content_type="text/plain", headers={"n": 1}))


def header(body_size: int) -> bytes:
    return b"\x00\x3c\x00\x00" + body_size.to_bytes(8) + PROPERTIES


@given(st.lists(st.binary(max_size=10)))
def test_the_entry_is_header_and_body_as_they_came(pieces):
    body = b"".join(pieces)
    assembly = ContentAssembly(BasicPublish())
    assert not assembly.complete
    assembly.header_received(header(len(body)), 1000)
    for piece in pieces:
        assembly.body_received(piece)
    assert assembly.complete
    assert assembly.entry() == entry_of(PROPERTIES, body)
    assert assembly.properties == properties_of(assembly.entry()) == PROPERTIES
    assert body_of(assembly.entry()) == body


@given(st.lists(st.binary(min_size=1, max_size=10), min_size=1), st.integers(1, 20))
def test_it_is_complete_with_the_last_byte_and_no_more_fits(pieces, missing):
    come = sum(map(len, pieces))
    assembly = ContentAssembly(BasicPublish())
    assembly.header_received(header(come + missing), 10_000)
    for piece in pieces:
        assembly.body_received(piece)
    assert not assembly.complete
    assert assembly.held_bytes == come
    with pytest.raises(Amqp091ConnectionFault) as raised:
        assembly.body_received(bytes(missing + 1))
    assert raised.value.code is ReplyCode.FRAME_ERROR
    assembly.body_received(bytes(missing))
    assert assembly.complete


def test_the_largest_message_is_the_largest_that_is_allowed():
    ContentAssembly(BasicPublish()).header_received(header(10), 10)
    with pytest.raises(ChannelFault) as raised:
        ContentAssembly(BasicPublish()).header_received(header(11), 10)
    assert raised.value.text == "message size 11 is larger than configured max size 10"


def test_many_tiny_frames_cost_no_more_than_their_bytes_and_an_announcement_nothing():
    tracemalloc.start()
    try:
        assembly = ContentAssembly(BasicPublish())
        assembly.header_received(header(2**30), 2**30)
        for _ in range(20_000):
            assembly.body_received(b"x")
            assembly.body_received(b"")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * 20_000 + 10_000
