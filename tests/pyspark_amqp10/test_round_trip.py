"""Message to row to message to row: nothing is lost, whatever types there are."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.client_core.message import Message
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
from amqp10.wire.types import Decimal64, Int, Symbol, Timestamp, ULong
from pyspark_amqp10.columns import SCHEMA, TEXT_MAP, TYPED_VALUE
from pyspark_amqp10.encoding import BATCH_ANNOTATION, ROW_ANNOTATION, RowEncoder
from pyspark_amqp10.errors import BadMessage
from pyspark_amqp10.rows import MessageRows
from pyspark_amqp10.values import encode_text
from tests.kit.amqp10_values import texts, ulongs, values

TIMES_MS = st.integers(-62_135_596_800_000, 253_402_300_799_999)
"""From year 1 to year 9999: what a timestamp of Python shows."""
CUT = {"type": None, "text": None, "encoded": b"\xa1\x05a"}
"""A string of five bytes that ends behind one."""
IDS = texts | ulongs.map(ULong) | st.uuids() | st.binary(max_size=8)
ANY_USER = st.none() | st.binary(max_size=8)
SYMBOLS = st.text(st.characters(codec="ascii"), max_size=8)


def properties(user_ids: st.SearchStrategy[bytes | None]) -> st.SearchStrategy[Properties]:
    return st.builds(
        Properties,
        message_id=st.none() | IDS,
        user_id=user_ids,
        to=st.none() | texts,
        subject=st.none() | texts,
        reply_to=st.none() | texts,
        correlation_id=st.none() | IDS,
        content_type=st.none() | SYMBOLS,
        content_encoding=st.none() | SYMBOLS,
        absolute_expiry_time=st.none() | TIMES_MS,
        creation_time=st.none() | TIMES_MS,
        group_id=st.none() | texts,
        group_sequence=st.none() | st.integers(0, 2**32 - 1),
        reply_to_group_id=st.none() | texts,
    )


ANNOTATION_KEYS = st.text(st.characters(codec="ascii"), max_size=5).map(lambda name: Symbol(f"x-{name}")) | ulongs.map(
    ULong
)
BODIES = st.one_of(
    st.just(b""),
    st.binary(max_size=300).map(lambda body: encode_section(DATA, body)),
    values.map(lambda value: encode_section(AMQP_VALUE, value)),
    st.lists(values, max_size=2).map(lambda value: encode_section(AMQP_SEQUENCE, value)),
)


@st.composite
def messages(draw: st.DrawFn, user_ids: st.SearchStrategy[bytes | None] = ANY_USER) -> bytes:
    """As a publisher may send them, with any section or without."""
    header = draw(
        st.builds(
            Header, durable=st.booleans(), priority=st.integers(0, 255), ttl=st.none() | st.integers(0, 2**32 - 1)
        )
    )
    annotations = draw(st.none() | st.dictionaries(ANNOTATION_KEYS, values, min_size=1, max_size=3))
    named = draw(st.none() | properties(user_ids))
    application = draw(st.none() | st.dictionaries(texts, values, max_size=3))
    footer = draw(st.none() | st.dictionaries(ANNOTATION_KEYS, values, max_size=2))
    return b"".join(
        (
            encode_header(header),
            b"" if annotations is None else encode_section(MESSAGE_ANNOTATIONS, annotations),
            b"" if named is None else encode_properties(named),
            b"" if application is None else encode_section(APPLICATION_PROPERTIES, application),
            draw(BODIES),
            b"" if footer is None else encode_section(FOOTER, footer),
        )
    )


def batch(entries: list[bytes]) -> pa.RecordBatch:
    rows = MessageRows("/queues/q", SCHEMA)
    rows.take(entries)
    assert not rows.bad
    return rows.columns()


@pytest.mark.slow
@given(st.lists(messages(), min_size=1, max_size=5))
def test_rows_that_were_read_and_written_are_read_again_the_same(entries: list[bytes]):
    first = batch(entries)
    written = RowEncoder(durable=True, batch=None).encode(first, 0)
    assert batch(written).equals(first)
    assert RowEncoder(durable=True, batch=None).encode(batch(written), 0) == written


@given(messages())
def test_the_bare_message_is_the_same_byte_by_byte(entry: bytes):
    """But for what has no effect: a properties section without fields, and null fields at its end."""
    (written,) = RowEncoder(durable=True, batch=None).encode(batch([entry]), 0)
    before, after = Message.decode(with_text_keys(entry)), Message.decode(with_text_keys(written))
    assert after.properties == (None if before.properties == Properties() else before.properties)
    assert (after.application_properties, after.body, after.section, after.header) == (
        before.application_properties,
        before.body,
        before.section,
        before.header,
    )


def with_text_keys(entry: bytes) -> bytes:
    """The message without annotations and footer, whose keys may be numbers, which ``Message`` does not show."""
    names = [name for name in SCHEMA.names if name not in ("annotations", "footer")]
    (bare,) = RowEncoder(durable=True, batch=None).encode(batch([entry]).select(names), 0)
    return bare


def typed(items: list[tuple[str, str, str | None]]) -> pa.Array:
    pairs = [(key, {"type": kind, "text": text, "encoded": None}) for key, kind, text in items]
    return pa.array([pairs], pa.map_(pa.string(), TYPED_VALUE))


def test_types_and_texts_are_enough_to_write_values():
    columns = {
        "body": pa.array([b"x"]),
        "properties": typed(
            [("n", "int", "-5"), ("t", "timestamp", "7"), ("d", "decimal64", "00" * 8), ("s", "string", None)]
        ),
        "annotations": typed([("x-a", "symbol", "b")]),
    }
    (encoded,) = RowEncoder(durable=True, batch="q/1/0").encode(pa.record_batch(columns), 4)
    message = Message.decode(encoded)
    assert message.application_properties == {
        "n": Int(-5),
        "t": Timestamp(7),
        "d": Decimal64(bytes(8)),
        "s": None,
    }
    assert message.annotations == {BATCH_ANNOTATION: "q/1/0", ROW_ANNOTATION: ULong(4), "x-a": Symbol("b")}


def test_a_row_from_a_queue_that_a_sink_wrote_gets_the_batch_of_its_own_write():
    (first,) = RowEncoder(durable=True, batch="first/1/0").encode(pa.record_batch({"body": pa.array([b"x"])}), 0)
    (second,) = RowEncoder(durable=True, batch="second/1/0").encode(batch([first]), 9)
    assert Message.decode(second).annotations == {BATCH_ANNOTATION: "second/1/0", ROW_ANNOTATION: ULong(9)}


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"properties": typed([("n", "int", "x")])}, "row 3: column properties is wrong: 'x' is no int"),
        (
            {"properties": typed([("n", "list", "[]")])},
            "row 3: column properties is wrong: a value of type list needs its encoding in the field encoded",
        ),
        (
            {"annotations": pa.array([[("a", "b")]], TEXT_MAP)},
            "row 3: column annotations is wrong: the key 'a' must begin with x- and have ASCII characters only",
        ),
        (
            {"properties": pa.array([[("k", CUT)]], SCHEMA.field("properties").type)},
            "row 3: column properties is wrong: the bytes in the field encoded are no value",
        ),
        ({"messageId": ["x"], "messageIdType": ["ulong"]}, "row 3: column messageId is wrong: 'x' is no ulong"),
        (
            {"messageId": ["x"], "messageIdType": ["int"]},
            "row 3: column messageIdType is 'int'; it is string, ulong, uuid or binary",
        ),
        ({"ttl": [-1]}, "row 3: column ttl is -1; it is 0 to 4294967295 milliseconds"),
        ({"groupSequence": [2**32]}, "row 3: column groupSequence is 4294967296; it is 0 to 4294967295"),
        (
            {"bodyType": ["map"]},
            "row 3: column bodyType is 'map'; it is data, string or binary, or column bodyEncoded has the body",
        ),
        (
            {"bodyType": ["value"], "bodyEncoded": pa.array([b"\x00\x53\x77\xa1\x05a"])},
            "row 3: column bodyEncoded is wrong: ",
        ),
    ],
)  # fmt: skip
def test_what_no_message_can_be_made_of_is_named(columns: dict[str, object], complaint: str):
    with pytest.raises(BadMessage) as raised:
        RowEncoder(durable=True, batch=None).encode(pa.record_batch({"body": pa.array([b"x"]), **columns}), 3)
    assert str(raised.value).startswith(complaint)


def test_times_are_written_in_milliseconds():
    time = pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    columns = {"body": pa.array([b"x"]), "creationTime": time, "expiryTime": time}
    (encoded,) = RowEncoder(durable=True, batch=None).encode(pa.record_batch(columns), 0)
    assert Message.decode(encoded).properties == Properties(
        creation_time=1_767_225_600_000, absolute_expiry_time=1_767_225_600_000
    )


def test_a_type_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match="'number' is no type of AMQP; there are described, null"):
        encode_text("number", "5")
