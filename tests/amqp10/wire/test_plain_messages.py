"""Messages that are read in one pass, against the scan and the decoders of their sections."""

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.errors import DecodeError
from amqp10.wire.codec.encode import encode_value
from amqp10.wire.columns import COLUMNS_MIN
from amqp10.wire.plain_messages import NOT_PLAIN, NULL_FIELD, TEXT_BYTES_MAX, PlainMessageReader
from amqp10.wire.sections import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    Header,
    Properties,
    check_annotations,
    decode_header,
    decode_map_section,
    decode_properties,
    encode_header,
    encode_properties,
    encode_section,
    scan,
)
from amqp10.wire.types import Symbol, Timestamp, ULong
from tests.kit.amqp10_frames import headers, properties
from tests.kit.amqp10_values import names, scalars, texts, values

USER_IDS = (None, NULL_FIELD, encode_value(b"guest"))
KEY = b"x-cc"
BODY = encode_section(DATA, b"Hello, world")


def long_form(section: bytes) -> bytes:
    """The section with the long encoding of its list or map, which some clients always write."""
    match section[3]:
        case 0x45:
            return section[:3] + b"\xd0\x00\x00\x00\x04\x00\x00\x00\x00"
        case 0xC0 | 0xC1:
            size, count = section[4] + 3, section[5]
            return section[:3] + bytes((section[3] + 0x10,)) + size.to_bytes(4) + count.to_bytes(4) + section[6:]
    return section


def in_any_form(sections: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """These sections, or none, in either encoding."""
    return st.just(b"") | sections | sections.map(long_form)


ascii_texts = st.text(st.characters(codec="ascii"), max_size=TEXT_BYTES_MAX)
ids = st.none() | ascii_texts | st.binary(max_size=TEXT_BYTES_MAX) | st.uuids() | st.integers(0, 2**64 - 1).map(ULong)
stamps = st.integers(-(2**63), 2**63 - 1)
times = st.none() | stamps
ordinary_properties = st.builds(
    Properties,
    message_id=ids,
    user_id=st.sampled_from([None, None, b"guest"]),
    to=st.none() | ascii_texts,
    subject=st.none() | ascii_texts,
    reply_to=st.none() | ascii_texts,
    correlation_id=ids,
    content_type=st.none() | ascii_texts,
    content_encoding=st.none() | ascii_texts,
    absolute_expiry_time=times,
    creation_time=times,
    group_id=st.none() | ascii_texts,
    group_sequence=st.none() | st.integers(0, 2**32 - 1),
    reply_to_group_id=st.none() | ascii_texts,
).map(encode_properties)
application_properties = st.dictionaries(texts, scalars, max_size=3) | st.just({"long": "x" * 300})
bodies = st.binary(max_size=300).map(lambda content: encode_section(DATA, content)) | st.one_of(
    st.binary(max_size=300), texts
).map(lambda content: encode_section(AMQP_VALUE, content))
ordinary = st.tuples(
    in_any_form(headers.map(encode_header)),
    st.just(b"")
    | st.dictionaries(
        names.map("x-{}".format).filter(lambda key: key != "x-cc").map(Symbol),
        st.booleans()
        | ascii_texts
        | ascii_texts.map(Symbol)
        | stamps.map(Timestamp)
        | st.integers(0, 2**64 - 1).map(ULong),
        max_size=2,
    ).map(lambda items: encode_section(MESSAGE_ANNOTATIONS, items)),
    in_any_form(ordinary_properties),
    in_any_form(application_properties.map(lambda items: encode_section(APPLICATION_PROPERTIES, items))),
    bodies,
).map(b"".join)


def read_plain(message: bytes) -> tuple[int, bytes] | None:
    """The same for one message that has others around it; None if it is not plain."""
    header_ends, addresses = PlainMessageReader(USER_IDS, KEY).read([BODY, message, b"", message])
    assert (header_ends[0], header_ends[2]) == (0, NOT_PLAIN)
    assert header_ends[1] == header_ends[3]
    return None if header_ends[1] == NOT_PLAIN else (header_ends[1], addresses[1])


@given(ordinary)
@settings(max_examples=200)
def test_messages_as_programs_make_them_are_plain(message):
    bounds = scan(message)
    plain = read_plain(message)
    assert plain is not None
    header_end, to = plain
    assert header_end == (bounds.header[1] if bounds.header else 0)
    address = decode_properties(message, *bounds.properties).to if bounds.properties else None
    assert to == encode_value(address)


any_sections = st.tuples(
    in_any_form(headers.map(encode_header)),
    st.just(b"") | st.just(encode_section(DELIVERY_ANNOTATIONS, {Symbol("x-hop"): 1})),
    st.just(b"")
    | st.dictionaries((names | st.just("x-cc")).map(Symbol), values, max_size=2).map(
        lambda items: encode_section(MESSAGE_ANNOTATIONS, items)
    ),
    in_any_form(properties.map(encode_properties)),
    in_any_form(st.dictionaries(texts, scalars, max_size=2).map(lambda items: encode_section(0x74, items))),
    bodies | values.map(lambda value: encode_section(AMQP_VALUE, value)),
    st.sampled_from([b"", b"", BODY, encode_section(FOOTER, {})]),
).map(b"".join)


@given(ordinary | any_sections, st.data())
@settings(max_examples=400)
def test_a_plain_message_is_one_that_the_scan_and_the_decoders_accept(whole, data):
    """The message is whole, or has been cut, or some bytes are wrong."""
    message = bytearray(whole)
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(message)))
        match data.draw(st.sampled_from(["change", "cut", "insert"])):
            case "change" if at < len(message):
                message[at] = data.draw(st.integers(0, 255) | st.sampled_from(b"\x40\x43\xa0\xa1\xa3\xc0\xc1\xd0\xd1"))
            case "cut":
                del message[at : at + data.draw(st.integers(1, 8))]
            case _:
                message[at:at] = data.draw(st.binary(min_size=1, max_size=4))
    payload = bytes(message)
    plain = read_plain(payload)
    if plain is None:
        return
    header_end, to = plain
    bounds = scan(payload)
    assert bounds.body is not None
    assert bounds.delivery_annotations is None
    assert header_end == (bounds.header[1] if bounds.header else 0)
    if bounds.header is not None:
        assert bounds.header[0] == 0
    if bounds.message_annotations is not None:
        annotations = decode_map_section(payload, *bounds.message_annotations)
        check_annotations(annotations)
        assert Symbol("x-cc") not in annotations
    told = decode_properties(payload, *bounds.properties) if bounds.properties else Properties()
    assert told.user_id in (None, b"guest")
    assert encode_value(told.to) == to


@given(st.lists(ordinary | any_sections, min_size=1, max_size=3), st.data())
@settings(max_examples=400)
def test_what_a_reader_remembers_changes_nothing_that_it_finds(wholes, data):
    """Messages with one length, and mostly one layout: bytes of them are changed, and none is inserted."""
    reader, messages = PlainMessageReader(USER_IDS, KEY), []
    for whole in wholes:
        messages += [whole] * data.draw(st.sampled_from([4, COLUMNS_MIN]))
        for _ in range(data.draw(st.integers(1, 8))):
            message = bytearray(whole)
            for at in data.draw(st.lists(st.integers(0, max(0, len(message) - 1)), max_size=2)):
                if message:
                    message[at] = data.draw(st.integers(0, 255) | st.sampled_from(b"\x40\x43\xa0\xa1\xa3\xff"))
            messages.append(bytes(message))
    cut = data.draw(st.integers(0, len(messages)))
    parts = [reader.read(messages[:cut]), reader.read(messages[cut:])]
    found = [one for ends, addresses in parts for one in zip(ends, addresses, strict=True)]
    alone = [PlainMessageReader(USER_IDS, KEY).read([message]) for message in messages]
    assert found == [(ends[0], addresses[0]) for ends, addresses in alone]


def test_every_byte_of_a_message_whose_layout_is_known_is_compared_or_free():
    properties = Properties(message_id="id", user_id=b"guest", to="/queues/q", correlation_id=uuid.UUID(int=7))
    message = b"".join(
        (
            encode_header(Header(priority=3)),
            encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-a"): "b", Symbol("x-c"): ULong(2**33)}),
            encode_properties(properties),
            encode_section(APPLICATION_PROPERTIES, {"number": 7}),
            BODY,
        )
    )
    reader = PlainMessageReader(USER_IDS, KEY)
    reader.read([message] * 4)
    for at in range(len(message)):
        for value in range(256):
            changed = message[:at] + bytes((value,)) + message[at + 1 :]
            alone = PlainMessageReader(USER_IDS, KEY).read([changed])
            assert reader.read([changed]) == alone
            header_ends, addresses = reader.read([*[message] * COLUMNS_MIN, changed])
            assert (header_ends[-1:], addresses[-1:]) == alone


def test_messages_of_very_many_lengths_are_read():
    messages = [encode_section(DATA, bytes(n)) for n in range(100) for _ in range(4)]
    header_ends, _ = PlainMessageReader(USER_IDS, KEY).read(messages)
    assert header_ends == [0] * len(messages)


@pytest.mark.parametrize("at", range(13))
@pytest.mark.parametrize("count", range(14))
def test_every_field_of_the_properties_in_lists_of_every_length(at, count):
    given_fields = [
        *(uuid.UUID(int=7), b"guest", "/queues/q", "s", "/queues/r", ULong(300), Symbol("text/plain"), Symbol("gzip")),
        *(None, None, "g", None, "r"),
    ]
    fields = [encode_value(value if place == at else None) for place, value in enumerate(given_fields)]
    fields[8:10] = [b"\x83" + bytes(8) if at in (8, 9) else b"\x40"] * 2
    content = b"".join(fields[:count])
    section = b"\x00\x53\x73\xc0" + bytes((len(content) + 1, count)) + content
    for form in (section, long_form(section)):
        decode_properties(form, 0, len(form))
        assert read_plain(form + BODY) == (0, fields[2] if count > 2 else b"\x40")
    if count < 13:
        longer = b"\x00\x53\x73\xc0" + bytes((len(content) + 1, count + 1)) + content
        assert read_plain(longer + BODY) is None
        assert read_plain(long_form(longer) + BODY) is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x00",
        encode_header(Header(durable=True)),
        encode_properties(Properties(to="q")),
        encode_header(Header(durable=True)) * 2 + BODY,
        BODY + BODY,
        BODY[:-1],
        BODY + b"\x00",
        BODY + encode_section(FOOTER, {}),
        encode_section(DELIVERY_ANNOTATIONS, {}) + BODY,
        encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-cc"): "b"}) + BODY,
        encode_section(MESSAGE_ANNOTATIONS, {Symbol("reserved"): True}) + BODY,
        encode_section(AMQP_SEQUENCE, [1]),
        encode_section(AMQP_VALUE, {"a": 1}),
        encode_properties(Properties(user_id=b"somebody")) + BODY,
        encode_properties(Properties(to="grün")) + BODY,
        encode_properties(Properties(to="q" * (TEXT_BYTES_MAX + 1))) + BODY,
        encode_properties(Properties(to=ULong(7))) + BODY,
        b"\x00\x53\x73\xc0\x04\x01\xa1\x01\xff" + BODY,
        b"\x00\x53\x73\xc0\x04\x01\xa1\x02a" + BODY,
        b"\x00\x53\x73\xc0\x05\x01\xa1\x01ab" + BODY,
        b"\x00\x53\x74\xc1\x01\x01" + BODY,
        b"\x00\x53\x74\xd1\x00\x00\x00\x04\x00\x00\x00\x01" + BODY,
        b"\x00\x53\x70\xc0\x01\x01" + BODY,
        b"\x00\x53\x70\xd0\x00\x00\x00\x04\x00\x00\x00\x01" + BODY,
        b"\x00\x53\x70\xd0\x00\x00\x00\x03\x00\x00\x00\x00" + BODY,
        b"\x00\x53\x70\xd0\xff\xff\xff\xff\x00\x00\x00\x00" + BODY,
        b"\x00\x53\x70\xd0\x00\x00\x00\x04\x00",
        b"\x00\x53\x73\xd0\x00\x00\x00\x04\x00\x00\x00\x01" + BODY,
        b"\x00\x53\x73\xd0\x00\x00\x00\x03\x00\x00\x00\x00" + BODY,
        b"\x00\x53\x73\xd0\xff\xff\xff\xff\x00\x00\x00\x00" + BODY,
        b"\x00\x53\x73\xd0\x00\x00\x00\x05\x00\x00\x00",
        long_form(encode_properties(Properties(user_id=b"somebody"))) + BODY,
        b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x75\xa0\x01x",
    ],
    ids=lambda message: message.hex()[:40],
)
def test_not_plain(message):
    assert read_plain(message) is None


def test_the_content_of_a_header_section_is_left_to_the_caller():
    header = encode_header(Header(priority=9))
    assert read_plain(header + BODY) == (9, b"\x40")
    assert read_plain(long_form(header) + BODY) == (15, b"\x40")
    no_header = b"\x00\x53\x70\xc0\x04\x01\xa1\x01x"
    with pytest.raises(DecodeError):
        decode_header(no_header, 0, len(no_header))
    assert read_plain(no_header + BODY) == (9, b"\x40")
