"""A view shows the same as the decoded message, and refuses the same bytes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.client import Message, MessageView
from amqp10.errors import DecodeError
from amqp10.wire.sections import AMQP_SEQUENCE, DATA, Properties, PropertyFields, encode_section
from tests.kit.amqp10_frames import headers, properties
from tests.kit.amqp10_values import names, scalars, texts, values
from tests.kit.stream_broker import connected

ITEMS = st.dictionaries(names, scalars, max_size=2)
MESSAGES = st.builds(
    Message,
    body=st.binary(max_size=300) | values,
    properties=st.none() | properties,
    application_properties=st.dictionaries(texts, scalars, max_size=2),
    annotations=ITEMS,
    header=st.none() | headers,
    delivery_annotations=ITEMS,
    footer=ITEMS,
)


def seen(encoded: bytes) -> tuple[object, ...] | None:
    """Everything that a view shows; None when a part of it cannot be decoded."""
    try:
        view = MessageView(encoded)
        properties = Properties(**view.properties._asdict())
        return view.body, properties, view.application_properties, view.annotations, view.header
    except DecodeError:
        return None


def decoded(encoded: bytes) -> tuple[object, ...] | None:
    """The same of the decoded message, without delivery annotations and footer, which a view does not have."""
    try:
        message = Message.decode(encoded)
    except DecodeError:
        return None
    return (
        message.body,
        message.properties or Properties(),
        message.application_properties,
        message.annotations,
        message.header,
    )


@given(MESSAGES)
def test_a_view_tells_what_the_message_says(message):
    encoded = message.encode()
    assert seen(encoded) == decoded(encoded)
    assert decoded(encoded) is not None


PLAIN = Message(b"body", properties=Properties(message_id="id", to="/queues/q", correlation_id=b"c"))


@given(st.builds(Message, body=st.binary(max_size=9), properties=properties, annotations=ITEMS), st.data())
@example(PLAIN, None)
def test_a_wrong_byte_is_wrong_for_both(message, data):
    encoded = bytearray(message.encode())
    wrong = [(at, octet) for at in range(len(encoded)) for octet in (0x00, 0x40, 0xA1, 0xFF)]
    if data is not None:
        wrong = [(data.draw(st.integers(0, len(encoded) - 1)), data.draw(st.integers(0, 255)))]
    for at, octet in wrong:
        broken = bytes(encoded[:at]) + bytes((octet,)) + bytes(encoded[at + 1 :])
        assert seen(broken) == decoded(broken)


@given(MESSAGES, st.data())
def test_a_cut_message_is_cut_for_both(message, data):
    message = Message(message.body, properties=message.properties, annotations=message.annotations)
    encoded = message.encode()
    cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
    assert seen(cut) == decoded(cut)


def test_bodies_of_several_sections_are_one():
    assert MessageView(encode_section(DATA, b"one") + encode_section(DATA, b"two")).body == b"onetwo"
    assert MessageView(encode_section(AMQP_SEQUENCE, [1]) + encode_section(AMQP_SEQUENCE, [2])).body == [1, 2]


def test_a_message_that_says_nothing():
    view = MessageView(b"")
    assert (view.body, view.header, view.properties) == (None, None, PropertyFields())
    assert (view.annotations, view.application_properties) == ({}, {})


def test_sections_out_of_order_are_refused_at_once():
    with pytest.raises(DecodeError, match="out of order"):
        MessageView(encode_section(DATA, b"body") + PLAIN.encode())


async def test_the_view_of_a_delivery(library):
    async with connected() as (_, connection):
        sender = await connection.open_sender("/queues/q")
        receiver = await connection.open_receiver("/queues/q")
        await sender.send(PLAIN)
        delivery = await receiver.receive()
        assert (delivery.view.body, delivery.view.properties.to) == (b"body", "/queues/q")
        assert delivery.view.encoded == delivery.encoded
