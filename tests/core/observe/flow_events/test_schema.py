"""The schema: records of every kind are decoded as they were encoded, and other bytes are refused."""

from typing import get_args

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.observe.flow_events.packing import Packer
from core.observe.flow_events.ring import RecordRing
from core.observe.flow_events.schema import (
    DECODED_BYTES_MAX,
    DECODED_FIELDS_MAX,
    EVENT_SCHEMAS,
    HEADER,
    PACKET_BYTES_MAX,
    PACKET_RECORDS_MAX,
    TEXT_MAX,
    VERSION,
    VERSION_KEY,
    EventKind,
    Field,
    FlowEventRecord,
    SchemaError,
    decode,
    encode_header,
    encode_record,
)

FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=64)
VALUES = {
    str: st.text(max_size=TEXT_MAX),
    int: st.integers(-(2**63), 2**63 - 1),
    float: FLOATS,
    bool: st.booleans(),
}


@st.composite
def records(draw: st.DrawFn) -> FlowEventRecord:
    kind = draw(st.sampled_from(list(EventKind)))
    fields = {
        field.name: draw(VALUES[field.type])
        for field in EVENT_SCHEMAS[kind].fields
        if field.always or draw(st.booleans())
    }
    return FlowEventRecord(kind, draw(FLOATS), fields)


def packet(*items: object, **header: object) -> bytes:
    given = {VERSION_KEY: VERSION, "node": "n", "sequence": 0, "records": len(items), "interval": 0.01} | header
    return b"".join(map(cbor2.dumps, (given, *items)))


@given(st.lists(records(), max_size=20))
def test_what_is_encoded_is_decoded(told: list[FlowEventRecord]):
    header = encode_header(node="headgate@here", sequence=7, records=len(told), interval=0.01)
    read = decode(header + b"".join(map(encode_record, told)))
    assert (read.node, read.sequence, read.interval) == ("headgate@here", 7, 0.01)
    assert read.records == told


@given(st.binary(max_size=200))
def test_nothing_but_schema_errors_comes_of_any_bytes(data: bytes):
    with pytest.raises(SchemaError):
        decode(data)


@given(st.lists(records(), min_size=1, max_size=3), st.data())
def test_nothing_but_schema_errors_comes_of_damage(told: list[FlowEventRecord], data: st.DataObject):
    whole = bytearray(packet() + b"".join(map(encode_record, told)))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        read = decode(bytes(whole))
    except SchemaError:
        return
    assert len(read.records) <= len(told)


def test_kinds_and_fields_of_later_are_kept():
    (record,) = decode(packet({"kind": "tide", "at": 1.5, "moon": "full"})).records
    assert record == FlowEventRecord("tide", 1.5, {"moon": "full"})
    (record,) = decode(packet({"kind": "paging", "at": 2, "on": True, "why": "x"}, tone="high")).records
    assert record.fields == {"on": True, "why": "x"}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no CBOR"),
        (b"\xa1", "no CBOR"),
        (b"\x81" * 100_000, "no CBOR"),
        (cbor2.dumps([1]), "a map of at most"),
        (packet(**{VERSION_KEY: VERSION + 1}), "this is version 1"),
        (packet(node=5), "node of the header is no str"),
        (packet(sequence=True), "sequence of the header is no int"),
        (packet(records=1), "0 records, and the header says 1"),
        (packet({"kind": "paging", "at": 1.0}), "a record of kind paging has no on"),
        (packet({"kind": "paging", "at": 1.0, "on": 1}), "on of a record of kind paging is no bool"),
        (packet({"kind": "x", "at": 10**400}), "at of a record is no float"),
        (packet({"at": 1.0}), "a record has no kind"),
        (packet({"kind": "x", "at": 1.0, "deep": [1]}), "values texts, numbers or booleans"),
        (packet({1: 2}), "keys must be texts"),
        (packet({str(n): n for n in range(DECODED_FIELDS_MAX + 1)}), "a map of at most"),
        (packet(*[{"kind": "x", "at": 1.0}] * (PACKET_RECORDS_MAX + 1)), "more than 1000 records"),
        (bytes(DECODED_BYTES_MAX + 1), "at most"),
    ],
)
def test_what_is_no_packet_is_refused(data: bytes, says: str):
    with pytest.raises(SchemaError, match=says):
        decode(data)


def test_the_largest_packet_that_is_made_can_be_read():
    ring = RecordRing(10 * PACKET_RECORDS_MAX)
    wide = {
        field.name: "\N{GRINNING FACE}" * TEXT_MAX if field.type is str else field.type(1)
        for field in EVENT_SCHEMAS[EventKind.UNBLOCKED].fields
    }
    for _ in range(100):
        ring.put(FlowEventRecord(EventKind.UNBLOCKED, 1.0, wide))
    first = Packer(ring, node="n", interval_s=0.01).take()
    assert first is not None
    assert PACKET_BYTES_MAX < len(first) < DECODED_BYTES_MAX
    assert 1 < len(decode(first).records) < 100


def test_many_records_are_many_packets_with_numbers():
    ring = RecordRing(10_000)
    told = [FlowEventRecord(EventKind.PAGING, float(n), {"on": bool(n % 2)}) for n in range(2_500)]
    for record in told:
        ring.put(record)
    packer = Packer(ring, node="n", interval_s=0.01)
    packets = [decode(data) for data in iter(packer.take, None) if data is not None]
    assert [read.sequence for read in packets] == [0, 1, 2]
    assert [record for read in packets for record in read.records] == told


def test_fields_are_of_the_types_that_can_be_told():
    allowed = {str, int, float, bool}
    fields: list[Field] = [*HEADER, *(field for schema in EVENT_SCHEMAS.values() for field in schema.fields)]
    assert {field.type for field in fields} <= allowed
    assert set(EVENT_SCHEMAS) == set(EventKind)
    assert len(get_args(Field.__annotations__["type"])) == 1
