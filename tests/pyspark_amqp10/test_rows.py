"""Rows: the same as the generic decoder's for any message, whatever layouts were learned before."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.errors import DecodeError
from amqp10.wire.sections import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    Header,
    Properties,
    encode_header,
    encode_properties,
    encode_section,
)
from amqp10.wire.types import Int, Symbol, Timestamp, ULong
from pyspark_amqp10.columns import FIELD_PLACES, SCHEMA, TEXT_MAP, wanted_parts
from pyspark_amqp10.parts import PartsReader, number_in, read_any
from pyspark_amqp10.rows import BadRow, MessageRows
from tests.kit.amqp10_values import values
from tests.pyspark_amqp10.measure_decode import KINDS

SEQUENCE = Symbol("x-opt-sequence")
OFFSET = Symbol("x-stream-offset")
ENQUEUED = Symbol("x-opt-enqueued-time")
BROKEN = b"\x00\x53\x75\xa0\x05ab"
"""A data section of five bytes that ends behind two."""


def numbered(number: int, body: bytes, key: Symbol = SEQUENCE) -> bytes:
    """As Headgate delivers a durable message without properties."""
    annotations = encode_section(MESSAGE_ANNOTATIONS, {key: ULong(number)})
    return encode_header(Header(durable=True)) + annotations + encode_section(DATA, body)


NEVER = 2**62
"""So many messages are not there: each is cut by itself."""


def table(entries: Sequence[bytes], schema: pa.Schema = SCHEMA, *, at_once_min: int = 1) -> list[dict[str, object]]:
    """The rows; messages of one layout are cut at once, whatever their number."""
    rows = MessageRows("/queues/q", schema, at_once_min=at_once_min)
    rows.take(entries)
    return rows.columns().to_pylist()


def one_by_one(entries: Sequence[bytes]) -> list[dict[str, object]]:
    return [row for entry in entries for row in table([entry], at_once_min=NEVER)]


keys = st.text(st.characters(codec="ascii"), min_size=1, max_size=5).map(lambda name: Symbol(f"x-{name}"))
numbers = st.integers(0, 2**63 - 1) | st.sampled_from([0, 1, 255, 256, 2**32, 2**63 - 1])
annotations = st.dictionaries(keys, values, max_size=2).flatmap(
    lambda others: st.one_of(
        st.none(),
        st.just(others),
        numbers.map(lambda number: {SEQUENCE: ULong(number)} | others),
        numbers.map(lambda number: others | {OFFSET: ULong(number)}),
    )
)
texts = st.none() | st.text(max_size=4)
properties = st.none() | st.builds(
    Properties,
    message_id=st.none() | st.text(max_size=4) | st.uuids() | st.binary(max_size=4) | st.integers(0, 9).map(ULong),
    correlation_id=texts,
    subject=texts,
    group_id=texts,
    content_type=st.none() | st.just("text/plain"),
    creation_time=st.none() | st.integers(0, 2**41),
)
bodies = st.one_of(
    st.just(b""),
    st.binary(max_size=300).map(lambda body: encode_section(DATA, body)),
    st.lists(st.binary(max_size=3), min_size=2, max_size=3).map(
        lambda parts: b"".join(encode_section(DATA, part) for part in parts)
    ),
    values.map(lambda value: encode_section(AMQP_VALUE, value)),
    st.lists(values, max_size=2).map(lambda value: encode_section(AMQP_SEQUENCE, value)),
)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    header = draw(st.none() | st.builds(Header, durable=st.booleans(), priority=st.integers(0, 255)))
    stamped, named, application = (
        draw(annotations),
        draw(properties),
        draw(st.none() | st.just({"k": "v", "n": Int(1)})),
    )
    return b"".join(
        (
            encode_header(header) if header else b"",
            encode_section(MESSAGE_ANNOTATIONS, stamped) if stamped is not None else b"",
            encode_properties(named) if named else b"",
            encode_section(APPLICATION_PROPERTIES, application) if application else b"",
            draw(bodies),
            draw(st.sampled_from([b"", encode_section(FOOTER, {})])),
        )
    )


@st.composite
def repeating(draw: st.DrawFn) -> list[bytes]:
    """Messages of a few kinds in any order, some of them numbered, some cut."""
    kinds = draw(st.lists(messages(), min_size=1, max_size=3))
    entries = []
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.integers(0, len(kinds)))
        if kind < len(kinds):
            cut = draw(st.sampled_from([0, 0, 0, 1, 2]))
            entries.append(kinds[kind][: len(kinds[kind]) - cut])
        else:
            entries.append(numbered(draw(numbers), draw(st.binary(max_size=300))))
    return entries


@pytest.mark.slow
@given(repeating(), st.sampled_from([1, 2, NEVER]))
def test_many_messages_give_the_rows_of_each(entries: list[bytes], at_once_min: int):
    assert table(entries, at_once_min=at_once_min) == one_by_one(entries)


@pytest.mark.slow
@given(repeating(), st.sampled_from([1, 2, NEVER]))
def test_bad_are_exactly_those_that_the_generic_decoder_refuses(entries: list[bytes], at_once_min: int):
    def refused(entry: bytes) -> bool:
        try:
            read_any(entry, wanted_parts(SCHEMA.names))
        except DecodeError:
            return True
        return False

    rows = MessageRows("/queues/q", SCHEMA, at_once_min=at_once_min)
    rows.take(entries)
    assert [bad.place for bad in rows.bad] == [place for place, entry in enumerate(entries) if refused(entry)]


def full_message() -> bytes:
    """A message that has everything but a footer."""
    return b"".join(
        (
            encode_header(
                Header(durable=True, priority=255, ttl=60_000, first_acquirer=True, delivery_count=2**32 - 1)
            ),
            encode_section(
                MESSAGE_ANNOTATIONS,
                {OFFSET: ULong(12), ENQUEUED: Timestamp(1_767_225_600_000), Symbol("x-a"): [1, b"\xff"]},
            ),
            encode_properties(
                Properties(
                    message_id=ULong(9),
                    user_id=b"guest",
                    to="/queues/b",
                    subject="s",
                    reply_to="/queues/c",
                    correlation_id=b"\x01\xff",
                    content_type="text/plain",
                    content_encoding="gzip",
                    absolute_expiry_time=2000,
                    creation_time=1000,
                    group_id="g",
                    group_sequence=2**32 - 1,
                    reply_to_group_id="r",
                )
            ),
            encode_section(APPLICATION_PROPERTIES, {"k": "v", "n": Int(5), "t": True, "none": None}),
            encode_section(DATA, b"body"),
        )
    )  # fmt: skip


def test_a_row_has_all_that_the_message_has():
    (row,) = table([full_message()])
    assert {name: value for name, value in row.items() if value is not None} == {
        "body": b"body",
        "bodyType": "data",
        "address": "/queues/q",
        "offset": 12,
        "enqueued": datetime(2026, 1, 1, tzinfo=UTC),
        "messageId": "9",
        "messageIdType": "ulong",
        "correlationId": "01ff",
        "correlationIdType": "binary",
        "userId": b"guest",
        "to": "/queues/b",
        "replyTo": "/queues/c",
        "subject": "s",
        "contentType": "text/plain",
        "contentEncoding": "gzip",
        "expiryTime": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
        "creationTime": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "groupId": "g",
        "groupSequence": 2**32 - 1,
        "replyToGroupId": "r",
        "durable": True,
        "priority": 255,
        "ttl": 60_000,
        "firstAcquirer": True,
        "deliveryCount": 2**32 - 1,
        "properties": [
            ("k", {"type": "string", "text": "v", "encoded": b"\xa1\x01v"}),
            ("n", {"type": "int", "text": "5", "encoded": b"\x54\x05"}),
            ("t", {"type": "boolean", "text": "true", "encoded": b"\x41"}),
            ("none", {"type": "null", "text": None, "encoded": b"\x40"}),
        ],
        "annotations": [
            ("x-a", {"type": "list", "text": '[1,"ff"]', "encoded": b"\xc0\x06\x02\x55\x01\xa0\x01\xff"}),
        ],
    }


def test_maps_may_have_texts_only():
    texts = pa.schema([pa.field(name, TEXT_MAP) for name in ("properties", "annotations", "footer")])
    assert table([full_message()], texts) == [
        {
            "properties": [("k", "v"), ("n", "5"), ("t", "true"), ("none", None)],
            "annotations": [("x-a", '[1,"ff"]')],
            "footer": None,
        }
    ]


def test_without_a_header_the_defaults_of_the_specification_hold():
    (row,) = table([encode_section(DATA, b"")])
    assert (row["durable"], row["priority"], row["deliveryCount"]) == (False, 4, 0)
    assert (row["offset"], row["properties"], row["annotations"]) == (None, None, None)


def test_creation_time_stands_in_where_no_broker_stamped_a_time():
    (row,) = table([encode_properties(Properties(creation_time=1000)) + encode_section(DATA, b"")])
    assert row["enqueued"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("section", "value", "body"),
    [
        (AMQP_VALUE, "gr\u00fcn", "gr\u00fcn".encode()),
        (AMQP_VALUE, b"\x00\x01", b"\x00\x01"),
        (AMQP_VALUE, {"a": [1, None]}, b'{"a":[1,null]}'),
        (AMQP_VALUE, None, b"null"),
        (AMQP_SEQUENCE, [1, "x"], b'[1,"x"]'),
    ],
)
def test_bodies_that_are_not_data(section: int, value: object, body: bytes):
    (row,) = table([encode_section(section, value)])
    assert row["body"] == body


def test_a_run_of_like_messages_is_taken_without_decoding_each():
    entries = [numbered(number, bytes([number % 256]) * (number % 300)) for number in range(1000)]
    rows = MessageRows("/queues/q", SCHEMA)
    rows.take(entries)
    assert rows.numbers == list(range(1000))
    bodies = [row["body"] for row in rows.columns().to_pylist()]
    assert bodies == [bytes([number % 256]) * (number % 300) for number in range(1000)]
    assert not rows.bad


def test_a_message_that_is_broken_keeps_its_bytes_and_its_number():
    stamped = encode_section(MESSAGE_ANNOTATIONS, {SEQUENCE: ULong(7)})
    rows = MessageRows("/queues/q", SCHEMA)
    rows.take([numbered(6, b"good"), stamped + BROKEN, numbered(8, b"good")])
    assert [bad.place for bad in rows.bad] == [1]
    assert rows.numbers == [6, 7, 8]
    all_rows = rows.columns().to_pylist()
    assert all_rows[1]["body"] == stamped + BROKEN
    assert {name for name, value in all_rows[1].items() if value is not None} == {"body", "address", "offset"}
    kept = rows.columns(left_out={1}).to_pylist()
    assert [row["offset"] for row in kept] == [6, 8]


def test_what_is_no_message_at_all_is_a_bad_row():
    rows = MessageRows("/queues/q", SCHEMA)
    rows.take([b"", b"no message", numbered(1, b"x")])
    assert [bad.place for bad in rows.bad] == [1]
    assert isinstance(rows.bad[0], BadRow)
    assert "no section" in rows.bad[0].reason or "offset" in rows.bad[0].reason


@pytest.mark.parametrize("number", [0, 200, 70_000, 2**40])
def test_the_number_of_a_message_is_found_in_any_width(number: int):
    short = encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-a"): "b", OFFSET: ULong(number)}) + encode_section(
        DATA, b"x"
    )
    assert number_in(short) == number
    assert number_in(encode_section(DATA, b"x")) is None
    assert number_in(b"rubbish") is None


def test_numbers_that_no_column_holds_are_none():
    entries = [numbered(5, b"a"), numbered(2**63, b"b"), numbered(6, b"c")]
    assert [row["offset"] for row in table(entries)] == [5, None, 6]


def test_columns_can_be_left_out():
    narrow = pa.schema([field for field in SCHEMA if field.name in ("offset", "body")])
    assert table([numbered(1, b"x")], narrow) == [{"body": b"x", "offset": 1}]


def test_a_message_without_a_body_has_none_and_an_empty_map_is_empty():
    (row,) = table([encode_section(APPLICATION_PROPERTIES, {})])
    assert (row["body"], row["bodyType"], row["properties"], row["footer"]) == (None, None, [], None)


def test_only_parts_that_are_asked_for_are_checked():
    wrong = b"\x00\x53\x74\xc1\x04\x02\xa1\x01\xff" + encode_section(DATA, b"x")
    few = pa.schema([SCHEMA.field("body")])
    rows = MessageRows("/queues/q", few)
    rows.take([wrong])
    assert (rows.bad, rows.columns().to_pylist()) == ([], [{"body": b"x"}])
    rows = MessageRows("/queues/q", SCHEMA)
    rows.take([wrong])
    assert [bad.place for bad in rows.bad] == [0]


@given(messages(), st.sets(st.sampled_from(SCHEMA.names), min_size=1))
def test_the_quick_way_gives_the_parts_that_the_generic_decoder_gives(entry: bytes, names: set[str]):
    wanted = wanted_parts(names)
    quick = PartsReader(wanted).quick(entry)
    if quick is not None:
        assert quick == read_any(entry, wanted)


@given(st.lists(messages(), min_size=1, max_size=4), st.sampled_from(SCHEMA.names))
def test_a_column_alone_is_the_same_as_among_all(entries: list[bytes], name: str):
    alone = pa.schema([SCHEMA.field(name)])
    good = [entry for entry in entries if not rows_of(entry).bad]
    assert table(good, alone) == [{name: row[name]} for row in table(good)]


def rows_of(entry: bytes) -> MessageRows:
    rows = MessageRows("/queues/q", SCHEMA)
    rows.take([entry])
    return rows


def test_usual_messages_go_the_quick_way():
    """Otherwise a message costs five times as much."""
    reader = PartsReader(wanted_parts(SCHEMA.names))
    assert all(reader.quick(kind(number)) is not None for kind in KINDS for number in range(10))
    assert set(FIELD_PLACES) < set(SCHEMA.names)


def test_values_that_json_does_not_know_are_texts_in_it():
    (row,) = table([encode_section(AMQP_VALUE, [Symbol("s"), Timestamp(5), b"\x00", {1: True}])])
    assert json.loads(row["body"]) == ["s", 5, "00", {"1": True}]  # type: ignore[arg-type]


def test_times_beyond_the_calendar_are_null():
    (row,) = table([encode_properties(Properties(creation_time=2**62)) + encode_section(DATA, b"")])
    assert row["enqueued"] is None
