"""Packets to rows: no record is lost, and no message that a client publishes stops the query."""

import cbor2
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.observe.flow_events.schema import EventKind, FlowEventRecord, encode_header, encode_record
from pipeline.tables.packets import PACKET_BYTES_MAX, RECORDS_MAX, rows_of
from pipeline.tables.records import FLOW_EVENTS, arrow_schema

BLOCKED = {
    "connection": "c7",
    "link": "c7/0/0",
    "direction": "in",
    "address": "/queues/orders",
    "reason": "disk",
    "culprit": "alarm disk",
    "since": 1_763_704_802.9,
}


def packed(*records: FlowEventRecord, said: int | None = None, sequence: int = 3) -> bytes:
    header = encode_header(
        node="n", sequence=sequence, records=len(records) if said is None else said, interval=0.01
    )  # fmt: skip
    return header + b"".join(encode_record(record) for record in records)


def arrow_row(row: dict[str, object]) -> dict[str, object]:
    """The row as the table has it. Fails where a value does not fit its column."""
    return pa.RecordBatch.from_pylist([row], schema=arrow_schema(FLOW_EVENTS)).to_pylist()[0]


def test_what_the_broker_encodes_is_a_row_with_all_its_fields():
    [row, _] = rows_of(
        packed(
            FlowEventRecord(EventKind.BLOCKED, 1_763_704_803.1, BLOCKED),
            FlowEventRecord(EventKind.PAGING, 2.0, {"on": True}),
        ),
        offset=9,
    )
    found = arrow_row(row)
    assert found["at"].timestamp() == 1_763_704_803.1
    assert found["since"].timestamp() == BLOCKED["since"]
    assert {name: found[name] for name in BLOCKED if name != "since"} == {
        name: value for name, value in BLOCKED.items() if name != "since"
    }
    assert [found[name] for name in ("offset", "node", "sequence", "position", "interval")] == [9, "n", 3, 0, 0.01]
    assert found["rest"] is found["fault"] is found["packet"] is None


def test_unknown_kinds_and_fields_and_values_of_another_type_are_kept():
    rows = rows_of(
        packed(
            FlowEventRecord("weather", 1.0, {"sun": True}),
            FlowEventRecord(EventKind.PAGING, 2.0, {"on": True, "later": 5}),
            FlowEventRecord(EventKind.PAGING, 3.0, {"on": "yes"}),
            FlowEventRecord(EventKind.ACTIVITY, 4.0, {"transfers": 2**70}),
        )
    )
    assert [arrow_row(row)["rest"] for row in rows] == [
        '{"sun": true}',
        '{"later": 5}',
        '{"on": "yes"}',
        '{"transfers": 1180591620717411303424}',
    ]
    assert [row.get("on") for row in rows] == [None, True, None, None]


def test_a_packet_that_cannot_be_read_is_kept_whole_with_the_reason():
    good = packed(FlowEventRecord(EventKind.PAGING, 2.0, {"on": True}))
    newer = cbor2.dumps({"headgate-flow": 2, "node": "n"})
    for packet, fault in [
        (b"", "no CBOR"),
        (b"\x05", "no map"),
        (newer, "version 2 of the schema; this reads version 1"),
        (packed(said=4), "0 records, and the header says 4"),
        (good[:-3], "no CBOR"),
        (good + cbor2.dumps({"kind": "paging"}), "a record without a kind and a time"),
        (packed(FlowEventRecord(EventKind.PAGING, float("nan"), {"on": True})), "a record without a kind and a time"),
        (cbor2.dumps({"headgate-flow": 1, "node": "n"}), "a header without sequence"),
        (bytes(PACKET_BYTES_MAX + 1), f"{PACKET_BYTES_MAX + 1} bytes"),
        (packed(*[FlowEventRecord(EventKind.PAGING, 2.0, {"on": True})] * (RECORDS_MAX + 1)), "more than"),
    ]:
        [row] = rows_of(packet, offset=5)
        assert fault in str(row["fault"]), fault
        assert (row["packet"], row["offset"], row.get("kind")) == (packet, 5, None)


def test_no_body_at_all_is_a_row_too():
    assert "no CBOR" in str(rows_of(None)[0]["fault"])


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)
MAPS = st.dictionaries(
    st.sampled_from([*FLOW_EVENTS, "headgate-flow", "records"]), SCALARS | st.lists(SCALARS, max_size=2), max_size=6
)


@pytest.mark.slow
@given(st.binary(max_size=60) | st.lists(MAPS, max_size=3).map(lambda maps: b"".join(map(cbor2.dumps, maps))))
def test_whatever_comes_becomes_rows_that_the_table_can_hold(packet: bytes):
    rows = rows_of(packet)
    assert rows
    pa.RecordBatch.from_pylist(rows, schema=arrow_schema(FLOW_EVENTS))


@pytest.mark.slow
@given(st.lists(MAPS, max_size=3))
def test_whatever_records_come_in_a_good_header_become_rows_that_the_table_can_hold(maps: list[dict[str, object]]):
    records = [{"kind": "blocked", "at": 1.5} | fields for fields in maps]
    rows = rows_of(packed(said=len(records)) + b"".join(map(cbor2.dumps, records)))
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(FLOW_EVENTS))
    assert batch.num_rows in (1, len(records)) or not records
