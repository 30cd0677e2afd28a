"""Messages of one layout become the same columns at once as one by one; the latter takes what is wrong among them."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.wire.sections import (
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    MESSAGE_ANNOTATIONS,
    Properties,
    encode_properties,
    encode_section,
)
from amqp10.wire.types import Byte, Int, Short, Symbol, Timestamp, UByte, UInt, ULong, UShort
from pyspark_amqp10.columns import SCHEMA, TEXT_MAP, wanted_parts
from pyspark_amqp10.layouts import layout_of, take_at_once
from pyspark_amqp10.parts import PartsReader
from pyspark_amqp10.rows import AT_ONCE_MIN, MessageRows
from tests.pyspark_amqp10.measure_decode import FIRST_NUMBER, KINDS, mixed

NEVER = 2**62
MANY = 400
FEW = pa.schema([SCHEMA.field(name) for name in ("body", "offset", "subject")])
TEXTS = pa.schema([SCHEMA.field("enqueued"), pa.field("properties", TEXT_MAP), pa.field("annotations", TEXT_MAP)])
ONE_LAYOUT = [kind for kind in KINDS if kind is not mixed]
BODY = encode_section(DATA, b"body")


def both(entries: list[bytes], schema: pa.Schema, *, at_once_min: int = AT_ONCE_MIN) -> MessageRows:
    """Take messages at once and one by one: the same rows, numbers and bad ones. Returns those at once."""
    made, single = (MessageRows("/queues/q", schema, at_once_min=least) for least in (at_once_min, NEVER))
    for rows in (made, single):
        rows.take(entries)
    assert made.columns().equals(single.columns())
    assert made.numbers == single.numbers
    assert made.bad == single.bad
    assert len(made) == len(entries)
    return made


def at_once(entries: list[bytes], schema: pa.Schema = SCHEMA) -> int:
    """How many messages are cut at once by the layout of the first."""
    wanted = wanted_parts(schema.names)
    layout = layout_of(entries[0], PartsReader(wanted).read(entries[0]), wanted)
    block = None if layout is None else take_at_once(entries, layout, "/queues/q", schema, least=1)
    return 0 if block is None else block.rows


@pytest.mark.parametrize("schema", [SCHEMA, FEW, TEXTS], ids=["all", "few", "texts"])
@pytest.mark.parametrize("kind", KINDS)
def test_messages_of_all_kinds_give_the_same_columns(kind: Callable[[int], bytes], schema: pa.Schema):
    both([kind(number) for number in range(MANY)], schema)


@pytest.mark.parametrize("kind", ONE_LAYOUT)
def test_usual_messages_are_cut_at_once(kind: Callable[[int], bytes]):
    """Otherwise a message costs ten times as much."""
    assert at_once([kind(number) for number in range(MANY)]) == MANY


def test_runs_of_different_layouts_follow_one_another():
    runs = [kind(number) for kind in ONE_LAYOUT for number in range(AT_ONCE_MIN + 10)]
    both(runs, SCHEMA)
    both(runs[5:] + runs[:5], SCHEMA)


def test_rows_of_layouts_that_take_turns_keep_their_order():
    """None of them is cut one by one, but for the few that no other message resembles."""
    kinds = [*ONE_LAYOUT, *ONE_LAYOUT[1:3]]
    entries = [kinds[number % len(kinds)](number) for number in range(MANY * 4)]
    for number in (0, 700, 1599):
        entries[number] = b"\x00\x53\x75"
    rows = both(entries, SCHEMA)
    both(entries, FEW)
    assert [bad.place for bad in rows.bad] == [0, 700, 1599]
    kept = rows.columns(left_out={0, 700, 1599}).column("offset").to_pylist()
    assert kept == [FIRST_NUMBER + number for number in range(MANY * 4) if number not in (0, 700, 1599)]


WHOLE = (
    [kind(value) for kind, bits in ((Byte, 8), (Short, 16), (Int, 32), (int, 64)) for value in (-1, -(2 ** (bits - 1)))]
    + [kind(2**bits - 1) for kind, bits in ((UByte, 8), (UShort, 16), (UInt, 32), (ULong, 63), (ULong, 64))]
    + [UInt(0), ULong(0), UInt(200), ULong(200), 100, 300, Int(100), Int(300), Timestamp(-5)]
)


@given(st.lists(st.sampled_from(WHOLE), min_size=1, max_size=4))
def test_whole_numbers_of_all_types_are_the_same_texts(values: list[object]):
    entries = [encode_section(APPLICATION_PROPERTIES, {"k": values[place % len(values)]}) + BODY for place in range(40)]
    both(entries, SCHEMA, at_once_min=1)
    both(entries, TEXTS, at_once_min=1)


def test_many_takes_are_as_good_as_one():
    entries = [kind(number) for number in range(MANY) for kind in ONE_LAYOUT[:1]] + [mixed(n) for n in range(MANY)]
    rows = MessageRows("/queues/q", SCHEMA)
    for begin in range(0, len(entries), 150):
        rows.take(entries[begin : begin + 150])
    whole = MessageRows("/queues/q", SCHEMA, at_once_min=NEVER)
    whole.take(entries)
    assert rows.columns().equals(whole.columns())
    assert rows.columns(left_out={1, 500}).num_rows == len(entries) - 2


@given(st.sampled_from(KINDS), st.integers(0, MANY - 1), st.integers(0, 400), st.integers(0, 255))
def test_a_changed_byte_changes_no_other_row(kind: Callable[[int], bytes], place: int, at: int, byte: int):
    entries = [kind(number) for number in range(MANY)]
    changed = bytearray(entries[place])
    changed[at % len(changed)] = byte
    entries[place] = bytes(changed)
    both(entries, SCHEMA)
    both(entries, FEW)


@given(st.sampled_from(ONE_LAYOUT), st.integers(0, MANY - 1), st.integers(0, 200))
def test_a_message_that_is_cut_short_is_no_other_message(kind: Callable[[int], bytes], place: int, size: int):
    entries = [kind(number) for number in range(MANY)]
    entries[place] = entries[place][:size]
    both(entries, SCHEMA)


@pytest.mark.parametrize(
    "wrong",
    [
        encode_properties(Properties(subject="wörter")).replace("ö".encode(), b"\xff\xff") + BODY,
        encode_properties(Properties(content_type="text")).replace(b"text", b"te\xfft") + BODY,
        encode_section(APPLICATION_PROPERTIES, {"k": "ab"}).replace(b"ab", b"\xff\xff") + BODY,
        encode_section(AMQP_VALUE, "text").replace(b"text", b"te\xff\xff"),
        encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-opt-sequence"): ULong(2**63 + 2**62)}) + BODY,
    ],
)
def test_a_wrong_value_among_right_ones_is_a_bad_row_or_none(wrong: bytes):
    like = {
        "subject": [encode_properties(Properties(subject="w\u00f6rter")) + BODY],
        "rest": [encode_section(APPLICATION_PROPERTIES, {"k": "cd"}) + BODY, encode_section(AMQP_VALUE, "more")],
    }
    for right in (*like["subject"], *like["rest"]):
        both([right] * AT_ONCE_MIN + [wrong] + [right] * AT_ONCE_MIN, SCHEMA)
        both([wrong] * 3 + [right] * AT_ONCE_MIN, SCHEMA, at_once_min=1)


@pytest.mark.parametrize(
    "entry",
    [
        encode_section(APPLICATION_PROPERTIES, {}) + BODY,
        encode_section(APPLICATION_PROPERTIES, {"k": [1, 2]}) + BODY,
        encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-a"): 1, Symbol("x-opt-sequence"): ULong(2**40)}) + BODY,
        encode_section(
            MESSAGE_ANNOTATIONS, {Symbol("x-opt-sequence"): ULong(2**40), Symbol("x-stream-offset"): ULong(2**40)}
        )
        + BODY,
        encode_section(DATA, b"two") + BODY,
        encode_section(AMQP_VALUE, [1]),
        encode_section(APPLICATION_PROPERTIES, {"k": "v" * 300}) + BODY,
    ],
)
def test_unusual_messages_are_taken_one_by_one(entry: bytes):
    assert at_once([entry]) == 0
    both([entry] * MANY, SCHEMA)


def test_times_are_those_of_the_broker_or_of_the_sender():
    stamp = {Symbol("x-opt-enqueued-time"): Timestamp(1_767_225_600_000)}
    stamped = encode_section(MESSAGE_ANNOTATIONS, stamp) + BODY
    created = encode_properties(Properties(creation_time=2**62)) + BODY
    other = encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-opt-enqueued-time"): ULong(5)}) + BODY
    for entry in (stamped, created, other):
        both([entry] * MANY, SCHEMA)
        both([stamped] * AT_ONCE_MIN + [entry] * AT_ONCE_MIN, TEXTS)


def test_long_bodies_and_empty_ones():
    entries = [encode_section(DATA, bytes([number % 256]) * (number * 7 % 900)) for number in range(MANY)]
    both(entries, SCHEMA)
    both([encode_section(DATA, b"")] * MANY, SCHEMA)


def test_the_last_message_may_end_before_the_size_of_its_body():
    rows = both([encode_section(DATA, b"")] * MANY + [encode_section(DATA, b"")[:-1]], SCHEMA)
    assert [bad.place for bad in rows.bad] == [MANY]


def test_values_of_one_map_may_be_texts_of_very_different_sizes():
    entries = [
        encode_section(APPLICATION_PROPERTIES, {"a": "ü" * (number % 100), "b": Symbol("b" * (number % 3)), "c": "c"})
        + BODY
        for number in range(MANY)
    ]
    both(entries, SCHEMA)
    both(entries, TEXTS)
