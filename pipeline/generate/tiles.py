"""Repeats beats over connections and seconds, as Arrow tables, without a Python object for each record."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from pipeline.generate.workloads import MICROSECONDS, NEWER, RAMP_RECORDS, BeatRecord, Load, ramp
from pipeline.tables.records import FLOW_EVENTS, arrow_schema

BEGIN_US = 1_700_000_000 * MICROSECONDS
"""The first second, in November 2023. It can be any full second that is the same each time."""
CHUNK_RECORDS = 1_000_000
"""Records of one table: 60 MB in memory."""
TRANSFERS_MAX = 200
"""The most messages of one activity record: a run that fills two windows of 100."""
LINK_CREDIT_MAX = 170
TIMES = ("since",)
TEXTS = tuple(
    field.name
    for field in fields(BeatRecord)
    if field.name in FLOW_EVENTS and FLOW_EVENTS[field.name] == "string"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tiling:
    """A load repeated over so many connections until there are so many records."""

    load: Load
    connections: int
    records: int
    """Not counting the records of opened connections and attached links."""
    seed: int
    node: str

    @property
    def records_per_second(self) -> int:
        """Records of all connections in a second."""
        return self.connections * len(self.load.beat)

    @property
    def seconds(self) -> int:
        """The number of seconds; the last one may be cut short."""
        return -(-self.records // self.records_per_second)


def chunks(tiling: Tiling) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """Yield the records in order of time, in tables, with the transfers of each connection in each table."""
    at_once = max(1, CHUNK_RECORDS // tiling.records_per_second)
    dictionaries = _dictionaries(tiling)
    for first in range(0, tiling.seconds, at_once):
        yield _chunk(tiling, dictionaries, first, min(first + at_once, tiling.seconds))


def _dictionaries(tiling: Tiling) -> dict[str, tuple[np.ndarray, pa.Array]]:
    """For each column with texts: the number of each record's text in the beat (-1: none), and the texts of all
    connections, one connection's after the other's."""
    found = {}
    beat = (*({"connection": "c{n}"} | {name: getattr(record, name) for name in TEXTS} for record in tiling.load.beat),)
    for name in ("connection", *TEXTS):
        texts = list(dict.fromkeys(record[name] for record in beat if record[name] is not None))
        numbers = np.array([texts.index(record[name]) if record[name] is not None else -1 for record in beat])
        values = [text.format(n=number) for number in range(tiling.connections) for text in texts]
        found[name] = (numbers, pa.array(values, pa.string()))
    return found


def _chunk(
    tiling: Tiling, dictionaries: dict[str, tuple[np.ndarray, pa.Array]], first: int, end: int
) -> tuple[pa.Table, np.ndarray]:  # fmt: skip
    beat, connections = tiling.load.beat, tiling.connections
    length = min(end * tiling.records_per_second, tiling.records) - first * tiling.records_per_second
    index = np.arange(length)
    record = index % len(beat)
    connection = index // len(beat) % connections
    begin_us = BEGIN_US + (first + index // (len(beat) * connections)) * MICROSECONDS
    active = np.array([one.kind == "activity" for one in beat])[record]
    random = np.random.Generator(np.random.PCG64([tiling.seed, first]))
    transfers = random.integers(1, TRANSFERS_MAX, length, endpoint=True)
    newer = tiling.load.protocol == NEWER
    link_credit = random.integers(0, LINK_CREDIT_MAX, length, endpoint=True)
    columns: dict[str, pa.Array] = {
        "node": pa.DictionaryArray.from_arrays(np.zeros(length, np.int32), [tiling.node]),
        "at": _times(begin_us + _column(beat, "at_us", 0)[record]),
        "since": _times(begin_us + _column(beat, "since_us", 0)[record], _missing(beat, "since_us")[record]),
        "transfers": pa.array(transfers, mask=~active),
        "accepted": pa.array(transfers, mask=~active),
        "granted": pa.array(transfers, mask=~active) if newer else pa.nulls(length, pa.int64()),
        "link_credit": pa.array(link_credit, mask=~active) if newer else pa.nulls(length, pa.int64()),
        "seconds": pa.array(_column(beat, "seconds", 0.0)[record], mask=_missing(beat, "seconds")[record]),
        "blocks": pa.array(_column(beat, "blocks", 0)[record], mask=_missing(beat, "blocks")[record]),
        "blocked": pa.array(_column(beat, "blocked", False)[record], mask=_missing(beat, "blocked")[record]),
    }
    for name, (numbers, values) in dictionaries.items():
        own = numbers[record]
        codes = (connection * (len(values) // connections) + own).astype(np.int32)
        columns[name] = pa.DictionaryArray.from_arrays(pa.array(codes, mask=own < 0), values)
    moved = np.bincount(connection, weights=np.where(active, transfers, 0), minlength=connections)
    return _table(columns, length), moved.astype(np.int64)


def _column(beat: Sequence[BeatRecord], name: str, nothing: object) -> np.ndarray:
    return np.array([nothing if getattr(record, name) is None else getattr(record, name) for record in beat])


def _missing(beat: Sequence[BeatRecord], name: str) -> np.ndarray:
    return np.array([getattr(record, name) is None for record in beat])


def _times(microseconds: np.ndarray, missing: np.ndarray | None = None) -> pa.Array:
    return pa.array(microseconds, pa.int64(), mask=missing).cast(pa.timestamp("us", tz="UTC"))


def _table(columns: dict[str, pa.Array], length: int) -> pa.Table:
    """All columns of ``flow_events``; missing ones are null."""
    schema = arrow_schema(FLOW_EVENTS)
    return pa.table({field.name: columns.get(field.name, pa.nulls(length, field.type)) for field in schema})


def opening(load: Load, connections: int, node: str) -> pa.Table:
    """The records in which the connections open and attach their links."""
    rows: list[dict[str, object]] = []
    for number in range(connections):
        link = load.link.format(n=number)
        own: dict[str, object] = {"node": node, "at": BEGIN_US, "connection": f"c{number}"}
        opened = {
            "protocol": load.protocol,
            "container_id": f"publisher-{number}",
            "user": "guest",
            "peer": "127.0.0.1:1",
        }
        address = None if load.address is None else load.address.format(n=number)
        rows += [
            own | {"kind": "connection-opened"} | opened,
            own | {"kind": "link-attached", "link": link, "direction": "in", "address": address},
        ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(FLOW_EVENTS))


def ramp_table(node: str) -> pa.Table:
    """The records of the ramp: one link, c0/0/0."""
    place = {"node": node, "connection": "c0", "link": "c0/0/0", "direction": "in"}
    stall = place | {"address": "/queues/orders-0", "reason": "store-slow", "culprit": "store"}
    rows: list[dict[str, object]] = []
    for number, second in enumerate(ramp()):
        begin = BEGIN_US + number * MICROSECONDS
        each, more = divmod(second.transfers, RAMP_RECORDS)
        for record in range(RAMP_RECORDS):
            n = each + (record < more)
            at = begin + record * MICROSECONDS // RAMP_RECORDS
            rows.append(place | {"kind": "activity", "at": at, "transfers": n, "accepted": n, "link_credit": n})
        if second.blocked_us:
            since, until = begin + MICROSECONDS - second.blocked_us, begin + MICROSECONDS - 1
            seconds = (until - since) / MICROSECONDS
            rows.append(stall | {"kind": "blocked", "at": since, "since": since})
            rows.append(stall | {"kind": "unblocked", "at": until, "since": since, "seconds": seconds})
    return pa.Table.from_pylist(rows, schema=arrow_schema(FLOW_EVENTS))
