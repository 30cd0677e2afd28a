"""Turns packets of flow events into rows. A packet that cannot be read becomes a row too: it is kept, and reading goes
on.

Any client that may publish to ``$flow`` can put any bytes there, so the decoder trusts nothing.
"""

import json
from collections.abc import Iterator, Mapping
from io import BytesIO
from math import isfinite

import cbor2

from pipeline.tables.records import FIELDS, FLOW_EVENTS, HEADER_FIELDS, VERSION, VERSION_KEY

PACKET_BYTES_MAX = 131_072
"""Twice the largest packet of the broker; longer ones are kept unread."""
RECORDS_MAX = 1_000
"""Records of one packet: the most that the broker puts into one."""
MICROSECONDS = 1_000_000
SECONDS_MAX = 253_402_300_800
"""The end of the year 9999: Spark's timestamps end there."""
INTEGER_MAX = 2**63

Row = dict[str, object]
COMMON = frozenset({"kind", "at"})


class UnreadPacket(ValueError):
    """Bytes that are no packet of this version. The text says what is wrong."""


def rows_of(packet: bytes | None, *, offset: int | None = None) -> list[Row]:
    """The rows of ``flow_events`` for a message's body: its records, or the packet itself when it cannot be read."""
    try:
        rows = list(read_packet(packet or b""))
    except UnreadPacket as problem:
        rows = [{"packet": packet, "fault": str(problem)}]
    for row in rows:
        row["offset"] = offset
    return rows


def read_packet(packet: bytes) -> Iterator[Row]:
    """Yield a row for each record. Raises UnreadPacket, also after the first rows: use all rows or none."""
    if len(packet) > PACKET_BYTES_MAX:
        raise UnreadPacket(f"{len(packet)} bytes; at most {PACKET_BYTES_MAX} are read")
    stream = BytesIO(packet)
    header = _next_map(stream)
    if header.get(VERSION_KEY) != VERSION:
        raise UnreadPacket(f"version {header.get(VERSION_KEY)!r} of the schema; this reads version {VERSION}")
    missing = [name for name in HEADER_FIELDS if name not in header]
    if missing or not _fits(header["sequence"], "bigint") or not _fits(header["interval"], "double"):
        raise UnreadPacket(f"a header without {', '.join(missing) or 'a sequence and an interval that are numbers'}")
    read = 0
    while stream.tell() < len(packet):
        if read == RECORDS_MAX:
            raise UnreadPacket(f"more than {RECORDS_MAX} records")
        row = _row(_next_map(stream))
        row.update(
            node=str(header["node"]), sequence=header["sequence"], interval=header["interval"], position=read
        )  # fmt: skip
        yield row
        read += 1
    if read != header["records"]:
        raise UnreadPacket(f"{read} records, and the header says {header['records']!r}")


def _row(record: Mapping[str, object]) -> Row:
    kind, at = record.get("kind"), record.get("at")
    if not isinstance(kind, str) or not _fits(at, "timestamp"):
        raise UnreadPacket("a record without a kind and a time")
    row: Row = {"kind": kind, "at": _microseconds(at)}
    rest: Row = {}
    known = FIELDS.get(kind, ())
    for name, value in record.items():
        if name in COMMON:
            continue
        type_ = FLOW_EVENTS[name] if name in known else ""
        if not _fits(value, type_):
            rest[name] = value
        elif type_ == "timestamp":
            row[name] = _microseconds(value)
        else:
            row[name] = float(str(value)) if type_ == "double" else value
    if rest:
        row["rest"] = json.dumps(rest, default=repr, sort_keys=True)
    return row


def _microseconds(seconds: object) -> int:
    assert isinstance(seconds, int | float)
    return round(seconds * MICROSECONDS)


def _fits(value: object, type_: str) -> bool:
    """Whether a column of this type can hold the value. A float column also takes whole numbers: encoders shorten
    floats."""
    if isinstance(value, bool):
        return type_ == "boolean"
    match type_:
        case "bigint":
            return isinstance(value, int) and abs(value) < INTEGER_MAX
        case "double":
            return isinstance(value, int | float) and abs(value) < INTEGER_MAX
        case "timestamp":
            return isinstance(value, int | float) and isfinite(value) and abs(value) < SECONDS_MAX
        case "string":
            return isinstance(value, str)
    return False


def _next_map(stream: BytesIO) -> dict[str, object]:
    try:
        item: object = cbor2.load(stream)
    except Exception as error:  # the decoder raises many kinds of errors, and all mean the same
        raise UnreadPacket(f"no CBOR: {type(error).__name__}") from None
    if not isinstance(item, dict) or not all(isinstance(key, str) for key in item):
        raise UnreadPacket("no map with names as keys")
    return item
