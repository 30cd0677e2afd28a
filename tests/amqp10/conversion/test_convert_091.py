"""Messages of one protocol read as the other's: the table of docs/protocol/conversion.md line by line, and at
random."""

import uuid
from decimal import Decimal

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from amqp10.conversion.convert_091 import APPLICATION_BYTES_MAX, HEADER_BYTES_MAX, LEADS_MAX, Rendering
from amqp10.conversion.converter import MessageConverter
from amqp10.wire.codec import format_codes as code
from amqp10.wire.sections import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    Properties,
    decode_map_section,
    decode_properties,
    encode_properties,
    encode_section,
    scan,
)
from amqp10.wire.types import (
    Array,
    Byte,
    Char,
    Decimal64,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    plain,
)
from core.amqp091 import properties as basic
from core.amqp091 import table
from core.amqp091.content import PROPERTIES_AT, body_of, entry_of, header_length
from core.amqp091.properties import BasicProperties
from core.amqp091.table import OpaqueString
from core.interface import Death, DeathReason
from core.message import Attributes, Origin

CONVERTER = MessageConverter()
PLAIN = Attributes()
BODY = encode_section(DATA, b"body")
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def as_091(entry: bytes, attributes: Attributes = PLAIN) -> tuple[BasicProperties, bytes]:
    rendered = CONVERTER.render(entry, attributes, Origin.AMQP091)
    return basic.decode_properties(rendered, PROPERTIES_AT, header_length(rendered)), body_of(rendered)


def as_10(body: bytes = b"body", **properties) -> bytes:
    entry = entry_of(basic.encode_properties(BasicProperties(**properties)), body)
    return CONVERTER.render(entry, Attributes(Origin.AMQP091), Origin.AMQP10)


def message(
    annotations: dict | None = None, properties: Properties | None = None, application: dict | None = None, body=BODY
) -> bytes:
    return b"".join(
        (
            encode_section(MESSAGE_ANNOTATIONS, annotations) if annotations is not None else b"",
            encode_properties(properties) if properties is not None else b"",
            encode_section(APPLICATION_PROPERTIES, application) if application is not None else b"",
            body,
        )
    )


def sections(entry: bytes) -> tuple[dict, Properties, dict, bytes]:
    bounds = scan(entry)
    assert bounds.header is None
    assert bounds.delivery_annotations is None
    assert bounds.body is not None
    return (
        decode_map_section(entry, *bounds.message_annotations) if bounds.message_annotations else {},
        decode_properties(entry, *bounds.properties) if bounds.properties else Properties(),
        decode_map_section(entry, *bounds.application_properties) if bounds.application_properties else {},
        entry[bounds.body[0] :],
    )


# --- AMQP 1.0 as 0.9.1


@pytest.mark.parametrize(
    ("attributes", "properties"),
    [
        (Attributes(), {"delivery_mode": 1}),
        (Attributes(durable=True), {"delivery_mode": 2}),
        (Attributes(priority=9, ttl_ms=0), {"delivery_mode": 1, "priority": 9, "expiration": "0"}),
        (Attributes(durable=True, priority=4, ttl_ms=60_000), {"delivery_mode": 2, "expiration": "60000"}),
    ],
)
def test_what_the_header_section_said(attributes, properties):
    for _ in range(2):
        assert as_091(BODY, attributes) == (BasicProperties(**properties), b"body")


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"message_id": "m", "correlation_id": "c"}, {"message_id": "m", "correlation_id": "c"}),
        ({"message_id": ID, "correlation_id": ULong(7)}, {"message_id": ID.urn, "correlation_id": "7"}),
        (
            {"message_id": b"\x01", "correlation_id": "c" * 256},
            {"headers": {"x-message-id": b"\x01", "x-correlation-id": "c" * 256}},
        ),
        ({"user_id": b"guest"}, {"user_id": "guest"}),
        ({"user_id": b"\xff"}, {}),
        ({"user_id": b"a\0"}, {}),
        ({"to": "/queues/q", "subject": "s"}, {}),
        ({"absolute_expiry_time": 1, "group_sequence": 1, "reply_to_group_id": "r"}, {}),
        ({"reply_to": "/queues/a%20b"}, {"reply_to": "a b"}),
        ({"reply_to": "/exchanges/e/k"}, {"reply_to": "/exchanges/e/k"}),
        ({"reply_to": "somewhere"}, {"reply_to": "somewhere"}),
        ({"reply_to": "s" * 256}, {}),
        ({"reply_to": 1}, {}),
        (
            {"content_type": "text/plain", "content_encoding": "gzip"},
            {"content_type": "text/plain", "content_encoding": "gzip"},
        ),
        ({"creation_time": 1_999}, {"timestamp": 1}),
        ({"creation_time": -1}, {}),
        ({"group_id": "g"}, {"app_id": "g"}),
        ({"group_id": "ü" * 128}, {}),
    ],
)
def test_properties_as_properties(properties, expected):
    assert as_091(message(properties=Properties(**properties))) == (
        BasicProperties(delivery_mode=1, **expected),
        b"body",
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        ("text", "text"),
        ("t" * 300, "t" * 300),
        (b"bytes", b"bytes"),
        (Symbol("symbol"), "symbol"),
        (Char("ü"), "ü"),
        (UByte(255), 255),
        (UShort(65535), 65535),
        (UInt(2**32 - 1), 2**32 - 1),
        (ULong(2**63 - 1), 2**63 - 1),
        (ULong(2**63), "9223372036854775808"),
        (Byte(-1), -1),
        (Short(-1), -1),
        (Int(-1), -1),
        (-(2**63), -(2**63)),
        (Float(0.5), 0.5),
        (0.25, 0.25),
        (Timestamp(1_999), table.Amqp091Timestamp(1)),
        (Timestamp(-1), None),
        (ID, ID.urn),
        (Decimal64(bytes(8)), None),
        (Described(Symbol("d"), UInt(1)), 1),
    ],
)
def test_values_as_values_of_a_table(value, expected):
    properties, _ = as_091(message(application={"key": value}))
    assert properties.headers == {"key": expected}


def test_annotations_as_headers():
    annotations = {
        Symbol("x-map"): {Symbol("a"): [UInt(1), Array(code.STRING_8, ("b",))], 2: True, "k" * 256: 1},
        Symbol("x-cc"): ["k1", "k2"],
        Symbol("x-basic-type"): "order",
        Symbol("x-basic-priority"): UByte(3),
        Symbol("x-exchange"): "e",
        Symbol("x-routing-key"): "k",
        Symbol("x-death"): ["made up"],
        Symbol("x-opt-deaths"): "made up",
        Symbol("x-" + "n" * 254): 1,
        Symbol("other"): 1,
        ULong(5): 1,
    }
    properties, _ = as_091(message(annotations, application={"x-map": 1, "a": 1, "n" * 256: 2}))
    assert properties.type == "order"
    assert properties.headers == {"x-map": {"a": [1, ["b"]], "2": True}, "CC": ["k1", "k2"], "a": 1}


def test_what_is_nested_too_deeply_is_void():
    value: object = "core"
    for _ in range(40):
        value = [value]
    properties, _ = as_091(message({Symbol("x-deep"): value}))
    assert properties.headers is not None
    levels, found = 0, properties.headers["x-deep"]
    while isinstance(found, list):
        levels, found = levels + 1, found[0]
    assert (levels, found) == (table.DEPTH_MAX - 1, None)


VALUE = encode_section(AMQP_VALUE, {"a": [1]})
SEQUENCES = encode_section(AMQP_SEQUENCE, [1]) + encode_section(AMQP_SEQUENCE, ["x"])
CLOSING = encode_section(FOOTER, {Symbol("x-f"): 1})


@pytest.mark.parametrize(
    ("sent", "type_", "body"),
    [
        (BODY, None, b"body"),
        (encode_section(DATA, b"x" * 70_000), None, b"x" * 70_000),
        (BODY + encode_section(DATA, b"x" * 300) + encode_section(DATA, b""), None, b"body" + b"x" * 300),
        (BODY + CLOSING, None, b"body"),
        (VALUE, "amqp-1.0", VALUE),
        (VALUE + CLOSING, "amqp-1.0", VALUE + CLOSING),
        (SEQUENCES, "amqp-1.0", SEQUENCES),
        (b"", None, b""),
    ],
)
def test_bodies(sent, type_, body):
    for annotations in (None, {Symbol("x-basic-type"): "own"}):
        properties, found = as_091(message(annotations, body=sent))
        assert found == body
        assert properties.type == (type_ or (annotations and "own"))


def test_neighbours_with_the_same_sections_before_their_bodies():
    """The sections remembered from the last message are used for messages with the same bytes, and for no others."""
    red, blue = (message(application={"colour": colour}, body=b"") for colour in ("red", "blue"))
    bodies = [encode_section(DATA, text) for text in (b"", b"1", b"22", b"3" * 255, b"4" * 256)]
    bodies += [BODY + BODY, VALUE, encode_section(DATA, b"\x00\x53\x75\xa0\x01a")]
    for attributes in (Attributes(), Attributes(durable=True)):
        for body in bodies:
            for before in (red, b"", blue, red, red):
                fresh = Rendering().as_091(before + body, attributes)
                assert CONVERTER.render(before + body, attributes, Origin.AMQP091) == fresh


@pytest.mark.parametrize(
    "entry", [b"", b"\x00", b"\x00\x53\x75\xa0", b"\x00\x53\x75\xa0\x05a", BODY[:-1], b"\x00\x53\x99\x40"]
)
def test_what_has_no_sections_travels_whole(entry):
    properties, body = as_091(entry)
    assert body == entry
    assert properties.type == ("amqp-1.0" if entry else None)


def test_sections_that_cannot_be_decoded_are_left_out():
    """The second key of each map is a string of bytes that are not UTF-8; the properties have a message-id of true."""
    broken = b"\xc1\x06\x02\xa1\x02\xff\xff\x41"
    for section in (b"\x00\x53\x72" + broken, b"\x00\x53\x73\xc0\x02\x01\x41", b"\x00\x53\x74" + broken):
        assert as_091(section + BODY) == (BasicProperties(delivery_mode=1), b"body")


def test_headers_fit_into_a_frame():
    large = {"a": "x" * APPLICATION_BYTES_MAX}
    properties, _ = as_091(message({Symbol("x-a"): 1}, application=large))
    assert properties.headers == {"x-a": 1}
    half = "x" * (HEADER_BYTES_MAX // 2 - 100)
    assert as_091(message({Symbol("x-a"): half}, application={"b": half[:-6_000]}))[0].headers is not None
    assert as_091(message({Symbol("x-a"): half * 3}))[0] == BasicProperties(delivery_mode=1)


# --- 0.9.1 as AMQP 1.0


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, {}),
        ({"delivery_mode": 2, "priority": 3, "expiration": "5", "cluster_id": "c"}, {}),
        ({"message_id": "m", "correlation_id": ID.urn}, {"message_id": "m", "correlation_id": ID}),
        ({"message_id": "urn:uuid:no", "correlation_id": ""}, {"message_id": "urn:uuid:no", "correlation_id": ""}),
        ({"message_id": f"urn:uuid:{{{ID}}}"}, {"message_id": f"urn:uuid:{{{ID}}}"}),
        ({"user_id": "guest"}, {"user_id": b"guest"}),
        ({"reply_to": "a b"}, {"reply_to": "/queues/a%20b"}),
        ({"reply_to": "/queues/q"}, {"reply_to": "/queues/q"}),
        ({"reply_to": "/exchanges/e/k"}, {"reply_to": "/exchanges/e/k"}),
        ({"reply_to": ""}, {}),
        (
            {"content_type": "text/plain", "content_encoding": "gzip"},
            {"content_type": "text/plain", "content_encoding": "gzip"},
        ),
        ({"content_type": "ü", "content_encoding": "ü"}, {}),
        ({"timestamp": 2}, {"creation_time": 2_000}),
        ({"timestamp": 2**64 - 1}, {}),
        ({"app_id": "a"}, {"group_id": "a"}),
    ],
)
def test_properties_as_a_section(properties, expected):
    assert sections(as_10(**properties)) == ({}, Properties(**expected), {}, BODY)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (-5, -5),
        (0.5, 0.5),
        ("text", "text"),
        (OpaqueString(b"\xff"), b"\xff"),
        (b"bytes", b"bytes"),
        (Decimal("1.25"), "1.25"),
        (table.Amqp091Timestamp(3), Timestamp(3_000)),
        (table.Amqp091Timestamp(2**63), None),
    ],
)
def test_values_of_a_table_as_values(value, expected):
    annotations, _, application, _ = sections(as_10(headers={"key": value, "x-key": [value], "x-map": {"ü": value}}))
    assert application == {"key": expected}
    assert annotations == {Symbol("x-key"): [expected], Symbol("x-map"): {"ü": expected}}


def test_headers_as_annotations_and_application_properties():
    headers = {"CC": ["k1"], "x-a": {"b": 1}, "x-ü": "told", "list": [1], "map": {"a": 1}, "a": 1, "x-death": "made up"}
    entry = as_10(headers=headers, type="order")
    assert sections(entry) == (
        {Symbol("x-cc"): ["k1"], Symbol("x-a"): {Symbol("b"): 1}, Symbol("x-basic-type"): "order"},
        Properties(),
        {"x-ü": "told", "a": 1},
        BODY,
    )
    assert sections(as_10(headers={"CC": "k"}))[2] == {"CC": "k"}


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_a_body_is_one_data_section(size):
    assert as_10(b"x" * size) == encode_section(DATA, b"x" * size)


@pytest.mark.parametrize("body", [VALUE, VALUE + CLOSING, SEQUENCES, BODY])
def test_a_body_that_is_sections(body):
    assert as_10(body, type="amqp-1.0") == body
    assert sections(as_10(body, type="amqp-1.0", message_id="m")) == ({}, Properties(message_id="m"), {}, body)
    assert sections(as_10(body)) == ({}, Properties(), {}, encode_section(DATA, body))


@pytest.mark.parametrize("body", [b"", b"text", VALUE[:-1], CLOSING, message({Symbol("x-a"): 1})])
def test_a_body_that_only_claims_to_be_sections(body):
    assert sections(as_10(body, type="amqp-1.0")) == (
        {Symbol("x-basic-type"): "amqp-1.0"},
        Properties(),
        {},
        encode_section(DATA, body),
    )


def test_properties_that_cannot_be_decoded_are_left_out():
    entry = entry_of(b"\x80\x00\x05", b"body")
    assert CONVERTER.render(entry, Attributes(Origin.AMQP091), Origin.AMQP10) == BODY


def test_what_is_kept_of_many_properties_is_bounded():
    rendering = Rendering()
    entries = [entry_of(basic.encode_properties(BasicProperties(app_id=str(n))), b"b") for n in range(2 * LEADS_MAX)]
    for entry in entries + entries:
        assert plain(sections(rendering.as_10(entry))[1].group_id) == str(entries.index(entry))


# --- dead letters

CYCLES = [
    ("a", DeathReason.REJECTED),
    ("b", DeathReason.EXPIRED),
    ("a", DeathReason.MAXLEN),
    ("a", DeathReason.REJECTED),
]


def died(entry: bytes, origin: Origin, deaths=CYCLES) -> bytes:
    for number, (queue, reason) in enumerate(deaths):
        death = Death(
            queue=queue,
            reason=reason,
            at=1_000.0 + number,
            exchange=f"x{number}",
            routing_keys=(f"k{number}", "cc"),
            ttl_ms=250 if reason is DeathReason.EXPIRED else None,
        )
        entry = CONVERTER.dead_lettered(entry, origin, death)
    return entry


def test_deaths_are_told_alike_to_both():
    """A 0.9.1 consumer finds the same headers whichever protocol the message came from. A 1.0 consumer finds all but
    the time of the last death."""
    of_10 = died(BODY, Origin.AMQP10)
    of_091 = died(entry_of(basic.encode_properties(BasicProperties(delivery_mode=1)), b"body"), Origin.AMQP091)
    told_091 = basic.decode_properties(of_091, PROPERTIES_AT, header_length(of_091))
    assert as_091(of_10) == (told_091, b"body")
    annotations = sections(of_10)[0]
    rendered = sections(CONVERTER.render(of_091, Attributes(Origin.AMQP091), Origin.AMQP10))[0]
    deaths = Symbol("x-opt-deaths")
    last = Symbol("last-time")
    assert rendered.keys() == annotations.keys()
    assert {key: value for key, value in rendered.items() if key != deaths} == {
        key: value for key, value in annotations.items() if key != deaths
    }
    for one, other in zip(rendered[deaths].items, annotations[deaths].items, strict=True):
        assert {**one, last: None} == {**other, last: None}


@given(
    deaths=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(DeathReason)), max_size=12),
    turn=st.integers(0, 12),
)
@settings(max_examples=60)
def test_deaths_are_counted_alike_in_both(deaths, turn):
    of_10 = died(BODY, Origin.AMQP10, deaths)
    plain_091 = entry_of(b"\x00\x00", b"body")
    of_091 = died(plain_091, Origin.AMQP091, deaths)
    changed = CONVERTER.render(died(BODY, Origin.AMQP10, deaths[:turn]), PLAIN, Origin.AMQP091)
    changed = died(changed, Origin.AMQP091, deaths[turn:])
    back = CONVERTER.render(died(plain_091, Origin.AMQP091, deaths[:turn]), Attributes(Origin.AMQP091), Origin.AMQP10)
    back = died(back, Origin.AMQP10, deaths[turn:])
    expected = CONVERTER.describe(of_10, Origin.AMQP10)
    assert CONVERTER.describe(of_091, Origin.AMQP091) == expected
    assert CONVERTER.describe(changed, Origin.AMQP091) == expected
    assert CONVERTER.describe(back, Origin.AMQP10) == expected


def test_deaths_that_a_publisher_made_up():
    headers = {"x-death": [{"queue": "q", "reason": "maxlen", "count": 3, "original-expiration": "x", "time": 5}, 1]}
    annotations = sections(as_10(headers=headers))[0]
    (record,) = annotations[Symbol("x-opt-deaths")].items
    assert record == {Symbol("queue"): "q", Symbol("reason"): Symbol("maxlen"), Symbol("count"): ULong(3)}
    made_up = {Symbol("x-opt-deaths"): [{Symbol("queue"): "q"}, {Symbol("other"): 1}, 7]}
    assert as_091(message(made_up))[0].headers is None


# --- at random: to the other protocol and back

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
NAMES = TEXTS.map(lambda text: f"n{text}")
ASCII = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
KEPT_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    st.binary(max_size=20),
)
SECONDS = st.integers(0, 2**40)


def nested(scalars: st.SearchStrategy, keys: st.SearchStrategy) -> st.SearchStrategy:
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
    )


SCALARS_10 = KEPT_SCALARS | SECONDS.map(lambda seconds: Timestamp(seconds * 1000))
SCALARS_091 = KEPT_SCALARS | SECONDS.map(table.Amqp091Timestamp)
IDS_10 = st.none() | TEXTS.map(lambda text: f"i{text}") | st.uuids()
BODIES = st.one_of(
    st.binary(max_size=300).map(lambda data: encode_section(DATA, data)),
    st.sampled_from([VALUE, VALUE + CLOSING, SEQUENCES]),
)


@given(
    annotations=st.dictionaries(
        ASCII.map(lambda name: Symbol(f"x-own-{name}")), nested(SCALARS_10, ASCII.map(Symbol)), max_size=4
    ),
    properties=st.builds(
        Properties,
        message_id=IDS_10,
        correlation_id=IDS_10,
        user_id=st.none() | TEXTS.map(str.encode),
        reply_to=st.none() | ASCII.map(lambda name: f"/queues/{name.encode().hex()}"),
        content_type=st.none() | ASCII,
        content_encoding=st.none() | ASCII,
        creation_time=st.none() | SECONDS.map(lambda seconds: seconds * 1000),
        group_id=st.none() | TEXTS,
    ),
    application=st.dictionaries(NAMES, SCALARS_10, max_size=4),
    body=BODIES,
)
@settings(max_examples=150)
def test_amqp_10_there_and_back(annotations, properties, application, body):
    sent = message(annotations, properties, application, body)
    rendered = CONVERTER.render(sent, PLAIN, Origin.AMQP091)
    back = CONVERTER.render(rendered, Attributes(Origin.AMQP091), Origin.AMQP10)
    assert sections(back) == (annotations, properties, application, body)


IDS_091 = st.none() | TEXTS.map(lambda text: f"i{text}") | st.uuids().map(lambda value: value.urn)


@given(
    properties=st.builds(
        BasicProperties,
        content_type=st.none() | ASCII,
        content_encoding=st.none() | ASCII,
        headers=st.none()
        | st.builds(
            lambda simple, complex_: {**simple, **complex_},
            st.dictionaries(NAMES, SCALARS_091, min_size=1, max_size=4),
            st.dictionaries(ASCII.map(lambda name: f"x-own-{name}"), nested(SCALARS_091, ASCII), max_size=3),
        ),
        delivery_mode=st.sampled_from([1, 2]),
        priority=st.none() | st.integers(0, 3) | st.integers(5, 255),
        correlation_id=IDS_091,
        reply_to=st.none() | ASCII.map(lambda name: f"q{name}"),
        expiration=st.none() | st.integers(0, 2**32 - 1).map(str),
        message_id=IDS_091,
        timestamp=st.none() | SECONDS,
        type=st.none() | TEXTS,
        user_id=st.none() | TEXTS,
        app_id=st.none() | TEXTS,
    ),
    body=st.binary(max_size=300),
)
@settings(max_examples=150)
def test_091_there_and_back(properties, body):
    sent = entry_of(basic.encode_properties(properties), body)
    rendered = CONVERTER.render(sent, Attributes(Origin.AMQP091), Origin.AMQP10)
    attributes = Attributes(
        durable=properties.delivery_mode == 2,
        priority=4 if properties.priority is None else properties.priority,
        ttl_ms=None if properties.expiration is None else int(properties.expiration),
    )
    assert as_091(rendered, attributes) == (properties, body)


ANY_10 = st.one_of(
    SCALARS_10,
    st.integers(0, 2**64 - 1).map(ULong),
    st.integers(-(2**63), 2**63 - 1).map(Timestamp),
    st.uuids(),
    st.characters(exclude_categories=["Cs"]).map(Char),
    st.just(Decimal64(b"\x22" * 8)),
    st.just(Array(code.MAP_32, ({Symbol("queue"): "q"},))),
    st.just(Described(ULong(7), [1])),
)
KEYS_10 = st.one_of(
    ASCII.map(Symbol),
    ASCII,
    st.integers(0, 9),
    st.sampled_from([Symbol(f"x-{name}") for name in ("opt-deaths", "cc", "basic-type", "death", "own")]),
)


@given(
    annotations=st.dictionaries(KEYS_10, nested(ANY_10, KEYS_10), max_size=4),
    application=st.dictionaries(KEYS_10, nested(ANY_10, KEYS_10), max_size=4),
    reply_to=st.none() | TEXTS | st.integers(0, 9),
    cut=st.integers(0, 40),
)
@settings(max_examples=150)
def test_whatever_an_amqp_10_message_is_it_is_rendered(annotations, application, reply_to, cut):
    whole = message(annotations, Properties(reply_to=reply_to), application)
    for entry in (whole, whole[: len(whole) - cut], whole[cut:]):
        rendered = CONVERTER.render(entry, PLAIN, Origin.AMQP091)
        scan(CONVERTER.render(rendered, Attributes(Origin.AMQP091), Origin.AMQP10))
        CONVERTER.annotated(rendered, Origin.AMQP091, annotations)


ANY_091 = SCALARS_091 | st.decimals(-1000, 1000, places=2) | st.binary(max_size=9).map(OpaqueString)
NAMES_091 = TEXTS | st.sampled_from(["CC", "x-death", "x-cc", "x-opt-deaths", "x-basic-type", "x-message-id"])


@given(
    headers=st.dictionaries(NAMES_091, nested(ANY_091, TEXTS), max_size=5),
    texts=st.lists(TEXTS, min_size=8, max_size=8),
    timestamp=st.integers(0, 2**64 - 1),
    damage=st.none() | st.integers(0, 255),
)
@settings(max_examples=150)
def test_whatever_a_091_message_is_it_is_rendered(headers, texts, timestamp, damage):
    names = (
        "content_type",
        "content_encoding",
        "correlation_id",
        "reply_to",
        "message_id",
        "type",
        "user_id",
        "app_id",
    )
    properties = BasicProperties(headers=headers, timestamp=timestamp, **dict(zip(names, texts, strict=True)))
    encoded = bytearray(basic.encode_properties(properties))
    if damage is not None:
        encoded[damage % len(encoded)] ^= 1 + damage % 7
    rendered = CONVERTER.render(entry_of(bytes(encoded), b"body"), Attributes(Origin.AMQP091), Origin.AMQP10)
    assert sections(rendered)[3] == BODY
    CONVERTER.render(rendered, PLAIN, Origin.AMQP091)
