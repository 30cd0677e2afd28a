"""Sections are found by their sizes alone. The sections that the broker reads decode, and reserved values are
refused."""

import struct
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.errors import DecodeError, EncodeError, ErrorCondition
from amqp10.wire.codec.decode import DEPTH_MAX
from amqp10.wire.codec.encode import encode_value
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
    SectionBounds,
    are_plain_annotations,
    check_annotations,
    decode_header,
    decode_map_section,
    decode_properties,
    decode_property_fields,
    encode_header,
    encode_properties,
    encode_section,
    scan,
)
from amqp10.wire.types import Described, Int, Symbol, UInt, ULong
from tests.kit.amqp10_frames import headers, properties
from tests.kit.amqp10_values import names, scalars, texts, ulongs, values

annotations = st.dictionaries(names.map(Symbol), values, max_size=3)
bodies = st.one_of(
    st.just(b""),
    st.lists(st.binary(max_size=9).map(lambda data: encode_section(DATA, data)), min_size=1, max_size=3).map(b"".join),
    st.lists(st.lists(values, max_size=3), min_size=1, max_size=3).map(
        lambda lists: b"".join(encode_section(AMQP_SEQUENCE, items) for items in lists)
    ),
    values.map(lambda value: encode_section(AMQP_VALUE, value)),
)
parts = st.tuples(
    st.none() | headers.map(encode_header),
    st.none() | annotations.map(lambda items: encode_section(DELIVERY_ANNOTATIONS, items)),
    st.none() | annotations.map(lambda items: encode_section(MESSAGE_ANNOTATIONS, items)),
    st.none() | properties.map(encode_properties),
    st.none()
    | st.dictionaries(texts, scalars, max_size=3).map(lambda items: encode_section(APPLICATION_PROPERTIES, items)),
    bodies,
    st.none() | annotations.map(lambda items: encode_section(FOOTER, items)),
)


@given(parts)
def test_every_section_is_found(message):
    payload = b"".join(part or b"" for part in message)
    found = scan(payload)
    for part, bounds in zip(message, found[:7], strict=True):
        assert (payload[slice(*bounds)] if bounds else b"") == (part or b"")


@given(parts, st.data())
def test_cut_inside_a_section(message, data):
    payload = b"".join(part or b"" for part in message)
    end = data.draw(st.integers(0, len(payload)))
    try:
        scan(payload[:end])
    except DecodeError:
        assert 0 < end < len(payload)
    else:
        # Only whole sections are found: the rest is empty, or begins with the next section.
        assert payload[end : end + 2] in (b"", b"\x00\x53")


def check_refusal(fault: DecodeError) -> None:
    assert fault.condition in (ErrorCondition.DECODE_ERROR, ErrorCondition.INVALID_FIELD)
    assert 0 < len(fault.description) < 400


@given(st.binary(max_size=60) | st.binary(max_size=30).map(lambda tail: b"\x00\x53\x77" + tail))
@settings(max_examples=150)
def test_garbage_raises_nothing_but_decode_error(payload):
    try:
        found = scan(payload)
    except DecodeError as fault:
        check_refusal(fault)
    else:
        assert max((bounds[1] for bounds in found[:7] if bounds), default=0) == len(payload)


@given(parts, st.data())
@settings(max_examples=150)
def test_one_wrong_byte_raises_nothing_but_decode_error(message, data):
    payload = bytearray(b"".join(part or b"" for part in message) or b"\x00")
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    payload = bytes(payload)
    try:
        found = scan(payload)
        if found.header:
            decode_header(payload, *found.header)
        if found.properties:
            decode_properties(payload, *found.properties)
        if found.message_annotations:
            check_annotations(decode_map_section(payload, *found.message_annotations))
    except DecodeError as fault:
        check_refusal(fault)


@given(properties.map(encode_properties), st.data())
@settings(max_examples=150)
def test_properties_decode_to_the_same_fields_either_way(encoded, data):
    """The section is whole, cut, or has a wrong byte. The rest of the message behind it makes no difference."""
    end = data.draw(st.just(len(encoded)) | st.integers(1, len(encoded)))
    changed = bytearray(encoded + b"\x00\x53\x75\xa0\x01x")
    if data.draw(st.booleans()):
        changed[data.draw(st.integers(0, end - 1))] = data.draw(st.integers(0, 255))
    payload = bytes(changed)

    def decoded(decode) -> object:
        try:
            return decode(payload, 0, end)
        except DecodeError as fault:
            return fault.description

    fields = decoded(decode_property_fields)
    either_way = fields if isinstance(fields, str) else Properties(**fields._asdict())
    assert either_way == decoded(decode_properties)


own_keys = st.builds("x-{}".format, names).filter(lambda key: key != "x-cc").map(Symbol)
plain_values = st.none() | st.booleans() | ulongs.map(ULong) | names | st.integers(-(2**31), 2**31 - 1).map(Int)


@given(st.dictionaries(own_keys | names.map(Symbol) | st.just(Symbol("x-cc")), scalars, max_size=4), st.data())
@settings(max_examples=300)
def test_what_passes_as_plain_annotations_decodes_and_is_allowed(items, data):
    """The section is whole, cut, or has a wrong byte. The rest of the message behind it makes no difference."""
    encoded = encode_section(MESSAGE_ANNOTATIONS, items)
    end = data.draw(st.just(len(encoded)) | st.integers(1, len(encoded)))
    changed = bytearray(encoded + b"\x00\x53\x75\xa0\x01x")
    if data.draw(st.booleans()):
        changed[data.draw(st.integers(0, end - 1))] = data.draw(st.integers(0, 255))
    payload = bytes(changed)
    if are_plain_annotations(payload, 0, end, without=b"x-cc"):
        decoded = decode_map_section(payload, 0, end)
        check_annotations(decoded)
        assert Symbol("x-cc") not in decoded


@given(st.dictionaries(own_keys, plain_values, max_size=4))
def test_annotations_as_programs_make_them_pass_as_plain(items):
    encoded = encode_section(MESSAGE_ANNOTATIONS, items)
    assert are_plain_annotations(encoded, 0, len(encoded), without=b"x-cc")


@pytest.mark.parametrize(
    "items",
    [
        pytest.param({Symbol("x-cc"): ["a"]}, id="the key that is looked for"),
        pytest.param({Symbol("x-cc"): "a"}, id="the key with a plain value"),
        pytest.param({Symbol("reserved"): 1}, id="a reserved key"),
        pytest.param({ULong(5): 1}, id="a number as key"),
        pytest.param({"x-text": 1}, id="a string as key"),
        pytest.param({Symbol("x-list"): [1]}, id="a list"),
        pytest.param({Symbol("x-text"): "ä"}, id="text that is not ASCII"),
    ],
)
def test_annotations_that_have_to_be_decoded(items):
    encoded = encode_section(MESSAGE_ANNOTATIONS, items)
    assert not are_plain_annotations(encoded, 0, len(encoded), without=b"x-cc")


def test_a_key_that_is_there_twice_is_not_plain():
    once = b"\xa3\x03x-a\x40"
    encoded = b"\x00\x53\x72\xc1" + bytes((1 + 2 * len(once), 4)) + once + once
    assert not are_plain_annotations(encoded, 0, len(encoded), without=b"x-cc")
    with pytest.raises(DecodeError, match="twice"):
        decode_map_section(encoded, 0, len(encoded))


@given(parts.map(lambda message: next(part for part in (*message, HEADER) if part)), st.data())
@settings(max_examples=150)
def test_a_section_ends_in_the_same_place_whatever_the_form_of_its_descriptor(section, data):
    """The short form is read at once. The long form, which is eight bytes longer, is read by the generic decoder."""
    value = bytearray(section[3:])
    value[data.draw(st.integers(0, min(4, len(value) - 1)))] = data.draw(st.integers(0, 255))
    end = data.draw(st.just(len(value)) | st.integers(0, len(value)))
    short = section[:3] + bytes(value[:end])
    long = b"\x00\x80" + bytes(7) + section[2:3] + bytes(value[:end])

    def bounds(payload: bytes, shift: int) -> list[tuple[int, int] | None] | None:
        try:
            return [found and (found[0], found[1] - shift) for found in scan(payload)[:7]]
        except DecodeError:
            return None

    assert bounds(short, 3) == bounds(long, 10)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(b"\xc0\x03\x01\x40\x40", id="a field more than the count"),
        pytest.param(b"\xc0\x02\x02\x40", id="a field less than the count"),
        pytest.param(b"\xc0\x03\x01\xa1\x02ab", id="a field that ends behind the list"),
        pytest.param(b"\xc0\x05\x01\xa1\x01ab", id="a field that ends before the list"),
        pytest.param(b"\xc0\x05\x01\xa1\x02\xffb", id="no UTF-8"),
        pytest.param(b"\xc0\x0f\x0e" + b"\x40" * 14, id="fourteen fields"),
    ],
)
def test_lists_of_properties_that_are_almost_right(fields):
    encoded = b"\x00\x53\x73" + fields
    with pytest.raises(DecodeError, match=r"^properties"):
        decode_property_fields(encoded + b"\x40", 0, len(encoded))


def test_a_count_needs_room_in_its_section():
    with pytest.raises(DecodeError, match="count 1 "):
        scan(b"\x00\x53\x73\xc0\x01\x01" + encode_section(DATA, b"x"))


def test_what_clients_send():
    small = b"\x00\x53\x75\xa0\x0chello, world"
    assert scan(small) == SectionBounds(body=(0, 17), body_code=DATA)
    proton = b"\x00\x53\x70\x45" + b"\x00\x53\x73\x45" + b"\x00\x53\x77\xa1\x02hi"
    assert scan(proton) == SectionBounds(header=(0, 4), properties=(4, 8), body=(8, 15), body_code=AMQP_VALUE)
    assert scan(b"\x00\x53\x70\x45\x00\x53\x73\x45").body is None
    assert scan(b"") == SectionBounds()


def test_other_forms_of_the_descriptor():
    by_symbol = b"\x00\xa3\x10amqp:data:binary\xa0\x01x"
    by_ulong = b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x75\xb0\x00\x00\x00\x01x"
    assert scan(by_symbol + by_ulong) == SectionBounds(body=(0, len(by_symbol + by_ulong)), body_code=DATA)


SYMBOLS = {
    "amqp:header:list": [],
    "amqp:delivery-annotations:map": {},
    "amqp:message-annotations:map": {},
    "amqp:properties:list": [],
    "amqp:application-properties:map": {},
    "amqp:data:binary": b"",
    "amqp:amqp-sequence:list": [],
    "amqp:amqp-value:*": None,
    "amqp:footer:map": {},
}


@pytest.mark.parametrize("number", range(9))
def test_symbols_and_numbers_name_the_same_sections(number):
    symbol, value = list(SYMBOLS.items())[number]
    by_symbol = scan(encode_value(Described(Symbol(symbol), value)))
    by_number = scan(encode_section(0x70 + number, value))
    assert [bounds is None for bounds in by_symbol[:7]] == [bounds is None for bounds in by_number[:7]]
    assert by_symbol.body_code == by_number.body_code


HEADER = encode_header(Header())
ANNOTATIONS = encode_section(MESSAGE_ANNOTATIONS, {})
PROPERTIES = encode_properties(Properties())
ONE_DATA = encode_section(DATA, b"x")
ONE_SEQUENCE = encode_section(AMQP_SEQUENCE, [1])
ONE_VALUE = encode_section(AMQP_VALUE, 1)
ONE_FOOTER = encode_section(FOOTER, {})


@pytest.mark.parametrize(
    "payload",
    [
        HEADER + HEADER,
        PROPERTIES + HEADER,
        PROPERTIES + ANNOTATIONS,
        ANNOTATIONS + ANNOTATIONS,
        PROPERTIES + PROPERTIES,
        ANNOTATIONS + encode_section(DELIVERY_ANNOTATIONS, {}),
        encode_section(APPLICATION_PROPERTIES, {}) + PROPERTIES,
        ONE_DATA + HEADER,
        ONE_VALUE + ONE_VALUE,
        ONE_DATA + ONE_VALUE,
        ONE_VALUE + ONE_DATA,
        ONE_DATA + ONE_SEQUENCE,
        ONE_SEQUENCE + ONE_DATA,
        ONE_FOOTER + ONE_DATA,
        ONE_DATA + ONE_FOOTER + ONE_DATA,
        ONE_FOOTER + ONE_FOOTER,
    ],
    ids=lambda payload: payload.hex(" "),
)
def test_order_and_cardinality(payload):
    with pytest.raises(DecodeError, match="twice or out of order"):
        scan(payload)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"\x40", "described value"),
        (b"\x00\x53\x79\x45", "no section"),
        (b"\x00\x53\x10\x45", "no section"),
        (b"\x00\xa3\x01x\x45", "no section"),
        (b"\x00\xa1\x10amqp:data:binary\xa0\x00", "no descriptor"),
        (b"\x00\x53\x70\xc1\x01\x00", "0xc1 at offset 3 in section 0x70"),
        (b"\x00\x53\x72\x45", "in section 0x72"),
        (b"\x00\x53\x73\x40", "in section 0x73"),
        (b"\x00\x53\x75\xa1\x00", "in section 0x75"),
        (b"\x00\x53\x76\xa0\x00", "in section 0x76"),
        (b"\x00\x53\x77\x57", "no format code"),
        (b"\x00\x53\x75\xa0\x02x", "cut at offset 6: it would end at 7"),
        (b"\x00\x53\x75\xb0\xff\xff\xff\xffx", "cut"),
        (b"\x00\x53\x75", "cut"),
        (b"\x00\x53", "cut"),
        (b"\x00", "cut"),
        (b"\x00\x53\x75\xa0\x01xy", "described value"),
        (b"\x00\x53\x77" + b"\x00" * 6000, "nested deeper"),
        (b"\x00" * 6000, "nested deeper"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed_messages(payload, text):
    with pytest.raises(DecodeError, match=text):
        scan(payload)


def test_scanning_a_large_body_looks_at_its_edges_only():
    """The body has 16 MiB. Its content is not valid and its size is right, so the scan finds its end."""
    inside = b"\xff" * (1 << 24)
    payload = HEADER + b"\x00\x53\x77\xd0" + struct.pack(">II", len(inside) + 4, 5) + inside + ONE_FOOTER
    assert scan(payload).body == (4, len(payload) - len(ONE_FOOTER))


@given(headers)
def test_header_round_trip(header):
    payload = encode_header(header) + ONE_DATA
    bounds = scan(payload).header
    assert bounds is not None
    assert decode_header(payload, *bounds) == header


@given(properties)
def test_properties_round_trip(value):
    payload = HEADER + encode_properties(value)
    bounds = scan(payload).properties
    assert bounds is not None
    decoded = decode_properties(payload, *bounds)
    assert decoded == value
    assert repr(decoded) == repr(value)


@given(annotations)
def test_map_round_trip(items):
    payload = HEADER + encode_section(MESSAGE_ANNOTATIONS, items)
    bounds = scan(payload).message_annotations
    assert bounds is not None
    assert decode_map_section(payload, *bounds) == items


def test_header_defaults():
    assert Header() == Header(durable=False, priority=4, ttl=None, first_acquirer=False, delivery_count=0)
    assert encode_header(Header()) == b"\x00\x53\x70\x45"
    assert encode_header(Header(durable=True)) == b"\x00\x53\x70\xc0\x02\x01\x41"
    assert encode_header(Header(delivery_count=2)) == b"\x00\x53\x70\xc0\x07\x05\x40\x40\x40\x40\x52\x02"
    assert decode_header(b"\x00\x53\x70\xc0\x04\x02\x40\x50\x09", 0, 9) == Header(priority=9)


@pytest.mark.parametrize("message_id", [ULong(0), uuid.UUID(int=5), b"", "", "id"])
def test_message_ids_keep_their_type(message_id):
    payload = encode_properties(Properties(message_id=message_id, correlation_id=message_id))
    decoded = decode_properties(payload, 0, len(payload))
    assert repr((decoded.message_id, decoded.correlation_id)) == repr((message_id, message_id))


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"\x00\x53\x73\xc0\x03\x01\x52\x01", "properties.message_id: .*no message-id"),
        (b"\x00\x53\x73\xc0\x05\x03\x40\x40\x57\x00", "properties.to: .*no format code"),
        (b"\x00\x53\x73\xc0\x05\x02\x40\xa1\x01x", "properties.user_id.*binary"),
        (b"\x00\x53\x73\xc0\x0f\x0e" + b"\x40" * 14, "14 fields"),
        (b"\x00\x53\x73\xc0\x0b\x09" + b"\x40" * 8 + b"\x55\x01", "absolute_expiry_time.*timestamp"),
        (b"\x00\x53\x70\x45", "0x70 at offset 0 where 0x73"),
        (b"\x00\x53\x73\x45\x40", "ends at offset 4"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed_properties(payload, text):
    with pytest.raises(DecodeError, match=text):
        decode_properties(payload, 0, len(payload))


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"\x00\x53\x70\xc0\x02\x01\x40\x40", "ends at offset 7"),
        (b"\x00\x53\x70\xc0\x03\x01\x50\x04", "header.durable.*boolean"),
        (b"\x00\x53\x70\xc0\x04\x02\x40\x52\x04", "header.priority.*ubyte"),
        (b"\x00\x53\x70\xc0\x07\x06\x40\x40\x40\x40\x40\x40", "6 fields"),
    ],
)
def test_malformed_headers(payload, text):
    with pytest.raises(DecodeError, match=text):
        decode_header(payload, 0, len(payload))


def test_a_map_section_must_hold_a_map():
    with pytest.raises(DecodeError, match="instead of a map"):
        decode_map_section(HEADER, 0, len(HEADER))
    with pytest.raises(DecodeError, match="ends at offset"):
        decode_map_section(ANNOTATIONS + b"\x40", 0, len(ANNOTATIONS) + 1)


def test_annotation_keys():
    check_annotations([Symbol("x-opt-delay"), Symbol("x-"), ULong(7)])
    check_annotations([])
    for reserved in (Symbol("opt"), Symbol(""), Symbol("X-opt"), Symbol("ax-")):
        with pytest.raises(DecodeError, match="reserved"):
            check_annotations([Symbol("x-opt"), reserved])
    for wrong in ("x-opt", 7, UInt(7), b"x-opt", None):
        with pytest.raises(DecodeError, match="no annotation key"):
            check_annotations([wrong])


def test_what_has_no_encoding():
    for header in (Header(priority=256), Header(ttl=-1), Header(delivery_count=2**32), Header(durable=1)):
        with pytest.raises(EncodeError, match="header"):
            encode_header(header)
    with pytest.raises(EncodeError, match=r"properties\.content_type"):
        encode_properties(Properties(content_type="ä"))
    with pytest.raises(EncodeError):
        encode_section(DATA, object())


def test_depth_is_an_argument():
    nested = b"\x00\x53\x77" + b"\x00\x53\x01" * DEPTH_MAX + b"\x40"
    assert scan(nested).body == (0, len(nested))
    with pytest.raises(DecodeError, match="nested deeper"):
        scan(nested, DEPTH_MAX - 1)
