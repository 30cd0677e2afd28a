"""Rows to messages: the same bytes as the generic encoder makes, whatever columns there are."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.client_core.message import Message
from amqp10.wire.sections import Header, Properties
from amqp10.wire.types import ULong
from pyspark_amqp10.encoding import BATCH_ANNOTATION, PRIORITY, ROW_ANNOTATION, RowEncoder
from pyspark_amqp10.errors import BadMessage

TEXT = st.one_of(st.text(max_size=20), st.integers(250, 260).map(lambda size: "x" * size))
OPTIONAL_TEXT = st.none() | TEXT
TYPES = {
    "body": pa.binary(),
    "messageId": pa.string(),
    "correlationId": pa.string(),
    "subject": pa.string(),
    "groupId": pa.string(),
    "contentType": pa.string(),
    "durable": pa.bool_(),
    "priority": pa.int8(),
    "properties": pa.map_(pa.string(), pa.string()),
}
VALUES = {
    "body": st.one_of(st.binary(max_size=20), st.sampled_from([255, 256, 70_000]).map(bytes)),
    "messageId": OPTIONAL_TEXT,
    "correlationId": OPTIONAL_TEXT,
    "subject": OPTIONAL_TEXT,
    "groupId": OPTIONAL_TEXT,
    "contentType": st.none() | st.text(st.characters(codec="ascii"), max_size=20),
    "durable": st.none() | st.booleans(),
    "priority": st.none() | st.integers(0, 127),
    "properties": st.none() | st.dictionaries(TEXT, OPTIONAL_TEXT, min_size=1, max_size=4),
}
Row = dict[str, object]


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    """Rows that all have the same columns, body among them."""
    columns = draw(st.sets(st.sampled_from([name for name in TYPES if name != "body"]))) | {"body"}
    return draw(st.lists(st.fixed_dictionaries({name: VALUES[name] for name in sorted(columns)}), max_size=8))


def arrow(rows: list[Row]) -> pa.RecordBatch:
    names = list(rows[0]) if rows else ["body"]
    arrays = []
    for name in names:
        values = [row[name] for row in rows]
        if name == "properties":
            values = [None if value is None else list(value.items()) for value in values]
        arrays.append(pa.array(values, TYPES[name]))
    return pa.record_batch(arrays, names=names)


def message(row: Row, *, durable: bool) -> Message:
    """What the generic encoder is to make of a row."""
    fields = {
        "message_id": row.get("messageId"),
        "subject": row.get("subject"),
        "correlation_id": row.get("correlationId"),
        "content_type": row.get("contentType"),
        "group_id": row.get("groupId"),
    }
    own, priority = row.get("durable"), row.get("priority")
    return Message(
        body=row["body"],
        header=Header(durable=durable if own is None else own, priority=PRIORITY if priority is None else priority),
        properties=None if set(fields.values()) == {None} else Properties(**fields),
        application_properties=row.get("properties") or {},
    )


@given(tables(), st.booleans())
def test_the_bytes_are_those_of_the_generic_encoder(rows: list[Row], durable: bool):
    encoded = RowEncoder(durable=durable, batch=None).encode(arrow(rows), 0)
    assert encoded == [message(row, durable=durable).encode() for row in rows]


@given(tables(), st.integers(0, 2**40), TEXT)
def test_each_message_says_which_row_of_which_batch_it_is(rows: list[Row], first: int, batch: str):
    encoded = RowEncoder(durable=True, batch=batch).encode(arrow(rows), first)
    expected = [
        replace(message(row, durable=True), annotations={BATCH_ANNOTATION: batch, ROW_ANNOTATION: ULong(number)})
        for number, row in enumerate(rows, first)
    ]
    assert list(map(Message.decode, encoded)) == expected


@given(tables(), st.data())
def test_part_of_a_batch_is_that_part(rows: list[Row], data: st.DataObject):
    """Spark hands slices over, whose columns share what lies before them."""
    at = data.draw(st.integers(0, len(rows)))
    encoder = RowEncoder(durable=True, batch=None)
    assert encoder.encode(arrow(rows).slice(at), at) == encoder.encode(arrow(rows), 0)[at:]


def test_bodies_may_be_text_and_columns_may_be_large():
    batch = pa.record_batch({"body": pa.array(["é"], pa.large_string()), "subject": pa.array(["s"], pa.large_string())})
    (encoded,) = RowEncoder(durable=False, batch=None).encode(batch, 0)
    assert Message.decode(encoded).body == "é".encode()


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"body": pa.array([b"", None])}, "row 8: column body is null; a body may be empty"),
        (
            {"body": pa.array([b"", b""]), "priority": pa.array([4, -1], pa.int8())},
            "row 8: column priority is -1; a priority is 0 to 255, and 4 by default",
        ),
        (
            {"body": pa.array([b"", b""]), "contentType": pa.array([None, "tëxt"])},
            "row 8: column contentType is 'tëxt'; a content type or encoding has ASCII characters only",
        ),
    ],
)
def test_what_no_message_can_be_made_of(columns: dict[str, pa.Array], complaint: str):
    with pytest.raises(BadMessage) as raised:
        RowEncoder(durable=True, batch="b").encode(pa.record_batch(columns), 7)
    assert str(raised.value) == complaint
