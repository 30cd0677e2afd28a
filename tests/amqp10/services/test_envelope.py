"""The form of messages: any decoder reads what the templates write, and the quick reader agrees with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.client import Message
from amqp10.errors import DecodeError
from amqp10.services.envelope import (
    CACHED_MAX,
    IDENTITY_CHARACTERS,
    EnvelopeReader,
    answer_template,
    as_resent,
    encode_answer,
    request_template,
)
from amqp10.wire.sections import APPLICATION_PROPERTIES, Header, Properties, encode_header, encode_section
from amqp10.wire.types import ULong

IDENTITY = b"0123456789ab000000000001"
BODIES = st.one_of(
    st.binary(max_size=300), st.text(max_size=20), st.lists(st.integers(-9, 9), max_size=3), st.none(), st.booleans()
)
TIMES = st.none() | st.floats(0.001, 1e7)
WORDS = st.text(max_size=300)


def delivered(encoded: bytes, *, first: bool, annotations: bool) -> bytes:
    """The message as the broker delivers it: with its own header, and with annotations of its route."""
    message = Message.decode(encoded)
    header = message.header or Header()
    own = encode_header(Header(durable=header.durable, ttl=header.ttl, first_acquirer=first))
    came_by = encode_section(0x72, {}) if annotations else b""
    return own + came_by + encoded[len(encode_header(header)) :]


def differences(encoded: bytes) -> list[object]:
    """The differences between the quick reader and the generic one, which does not know the form."""
    quick = EnvelopeReader()
    quick.read(encoded)
    one, other = quick.read(encoded), EnvelopeReader().read(b"\x00\x53\x70\xd0\0\0\0\4\0\0\0\0" + bare(encoded))
    return [
        (name, getattr(one, name), getattr(other, name))
        for name in ("identity", "answers", "command", "reply_to", "idempotent", "body")
        if getattr(one, name) != getattr(other, name)
    ]


def bare(encoded: bytes) -> bytes:
    """The message without its header."""
    return encoded[encoded.index(b"\x00\x53\x73") :]


@given(WORDS, st.none() | WORDS, st.booleans(), st.booleans(), TIMES, BODIES, st.booleans(), st.booleans())
def test_a_request_is_read_as_it_was_written(command, reply_to, idempotent, durable, ttl_s, body, first, annotations):
    template = request_template(command, reply_to=reply_to, idempotent=idempotent, durable=durable, ttl_s=ttl_s)
    encoded = delivered(template.encode(IDENTITY, body), first=first, annotations=annotations)
    envelope = EnvelopeReader().read(encoded)
    assert (envelope.identity, envelope.answers, envelope.command) == (IDENTITY, False, command)
    assert (envelope.reply_to, envelope.idempotent, envelope.redelivered) == (reply_to, idempotent, not first)
    assert envelope.body == body
    assert differences(encoded) == []
    if ttl_s is None:
        assert envelope.ttl_s is None
    else:
        assert envelope.ttl_s is not None
        assert min(ttl_s, 4e6) <= envelope.ttl_s < ttl_s + 1


@given(TIMES, BODIES)
def test_an_answer_is_read_as_it_was_written(ttl_s, body):
    encoded = delivered(
        answer_template(condition=None, durable=True, ttl_s=ttl_s).encode(IDENTITY, body), first=True, annotations=False
    )
    envelope = EnvelopeReader().read(encoded)
    assert (envelope.identity, envelope.answers, envelope.command, envelope.body) == (IDENTITY, True, "", body)
    assert differences(encoded) == []
    assert Message.decode(encoded).properties == Properties(correlation_id=IDENTITY.decode())


def test_an_error_is_an_answer_with_a_condition():
    encoded = answer_template(condition="shop:closed", durable=True, ttl_s=5.0).encode(IDENTITY, "why")
    assert encoded == encode_answer(IDENTITY.decode(), "why", condition="shop:closed", durable=True, ttl_s=5.0)
    envelope = EnvelopeReader().read(encoded)
    assert (envelope.answers, envelope.command, envelope.body) == (True, "shop:closed", "why")


@given(st.booleans(), BODIES)
def test_what_is_sent_again_carries_a_mark_and_is_else_the_same(idempotent, body):
    template = request_template("do", reply_to="/queues/a", idempotent=idempotent, durable=True, ttl_s=1.0)
    once = as_resent(template.encode(IDENTITY, body))
    encoded = delivered(once, first=True, annotations=False)
    envelope = EnvelopeReader().read(encoded)
    assert (envelope.redelivered, envelope.idempotent, envelope.body) == (True, idempotent, body)
    assert differences(encoded) == []
    assert as_resent(once) == once


@given(st.binary(max_size=60), st.integers(0, 200))
def test_the_reader_raises_only_what_the_decoder_raises(noise, cut):
    """The reader refuses what the generic decoder refuses, and raises no other error."""
    good = delivered(
        request_template("do", reply_to=None, idempotent=True, durable=True, ttl_s=1.0).encode(IDENTITY, b"x" * 20),
        first=True,
        annotations=True,
    )
    for encoded in (good[:cut] + noise, noise + good, good[:cut] + noise + good[cut:]):
        try:
            body = EnvelopeReader().read(encoded).body
            message = Message.decode(encoded)
        except DecodeError:
            continue
        assert body == message.body


def test_other_application_properties_are_read_too():
    flags = encode_section(APPLICATION_PROPERTIES, {"idempotent": True, "tenant": "a"})
    template = request_template("do", reply_to=None, idempotent=False, durable=True, ttl_s=1.0)
    encoded = template.before + IDENTITY + template.after + flags + b"\x00\x53\x75\xa0\x01x"
    assert EnvelopeReader().read(encoded).idempotent


FORMS = st.tuples(
    st.sampled_from(["request", "cast", "answer", "error"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.binary(max_size=2) | st.none(),
)


def of_form(kind: str, idempotent: bool, resent: bool, first: bool, cut: bool, body: object, identity: bytes) -> bytes:
    """A message of this form, perhaps without its last byte."""
    if kind in ("request", "cast"):
        reply_to = "/queues/a" if kind == "request" else None
        template = request_template("do", reply_to=reply_to, idempotent=idempotent, durable=True, ttl_s=1.0)
    else:
        template = answer_template(condition="a:b" if kind == "error" else None, durable=True, ttl_s=1.0)
    encoded = template.encode(identity, body)
    marked = as_resent(encoded) if resent and kind in ("request", "cast") else encoded
    return delivered(marked, first=first, annotations=True)[: -1 if cut else None]


def whole(reader: EnvelopeReader, encoded: bytes) -> tuple[object, ...]:
    """All fields that a reader finds in a message."""
    try:
        envelope = reader.read(encoded)
        return (*envelope, envelope.body)
    except DecodeError as error:
        return (str(error),)


@given(st.lists(FORMS, max_size=6))
def test_messages_read_before_make_no_difference(forms):
    reader = EnvelopeReader()
    for number, form in enumerate(forms):
        encoded = of_form(*form, b"%024d" % number)
        assert whole(reader, encoded) == whole(EnvelopeReader(), encoded)


def test_a_request_that_comes_again_is_marked_although_the_one_before_was_not():
    reader = EnvelopeReader()
    template = request_template("do", reply_to="/queues/a", idempotent=False, durable=True, ttl_s=1.0)
    encoded = delivered(template.encode(IDENTITY, b"x"), first=True, annotations=True)
    assert [reader.read(one).redelivered for one in (encoded, as_resent(encoded), encoded)] == [False, True, False]


@pytest.mark.parametrize("tenant", ["a", "a" * 300])
def test_a_flag_of_another_client_is_read_whatever_the_size_of_its_map(tenant):
    template = request_template("do", reply_to=None, idempotent=False, durable=True, ttl_s=1.0)
    flags = encode_section(APPLICATION_PROPERTIES, {"idempotent": True, "tenant": tenant})
    reader = EnvelopeReader()
    reader.read(template.encode(IDENTITY, b"x"))
    assert reader.read(template.before + IDENTITY + template.after + flags + b"\x00\x53\x75\xa0\x01x").idempotent


def test_what_is_learnt_is_bounded():
    reader = EnvelopeReader()
    for number in range(2 * CACHED_MAX):
        template = request_template(str(number), reply_to=None, idempotent=False, durable=True, ttl_s=number + 1)
        assert reader.read(template.encode(IDENTITY, b"")).command == str(number)
    assert max(len(reader._headers), len(reader._requests)) <= CACHED_MAX


@pytest.mark.parametrize("message_id", [7, b"\x01", "short", "x" * 300])
def test_ids_of_other_clients_keep_their_type(message_id):
    name = ULong(message_id) if isinstance(message_id, int) else message_id
    encoded = Message(b"", properties=Properties(message_id=name, subject="do", reply_to="/queues/a")).encode()
    envelope = EnvelopeReader().read(encoded)
    assert (envelope.message_id, envelope.command) == (name, "do")
    assert len(IDENTITY) == IDENTITY_CHARACTERS
