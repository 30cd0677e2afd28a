"""The schema of flow events: the kinds of records, their fields, and their encoding.

A *packet* is a CBOR sequence [RFC 8742]: one header, then records, oldest first. Each is a map with text keys and plain
values: text, integers, floats, booleans. ``docs/flow-events.md`` has the tables of this module; a test compares them.

Version rule: a new kind or a new field leaves :data:`VERSION` as it is, and readers ignore what they do not know. A
field that is removed or changes its meaning makes it the next number, and readers of the old version refuse packets.

Any client that may publish into a stream may put any bytes there, so :func:`decode` trusts nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import cbor2

VERSION = 1
VERSION_KEY = "headgate-flow"
"""The first key of a header; it tells a packet from other CBOR."""

PACKET_BYTES_MAX = 65_536
"""No further record is added to a packet of this size. So it is larger by less than one record."""
PACKET_RECORDS_MAX = 1_000
"""Records of one packet: 5 ms to encode."""
TEXT_MAX = 256
"""Characters of a text. Identities, addresses and reasons are shorter; a client may choose any container-id."""
DECODED_BYTES_MAX = 2 * PACKET_BYTES_MAX
DECODED_FIELDS_MAX = 32
"""Fields of one record that :func:`decode` accepts: twice as many as the largest kind has."""

Value: TypeAlias = str | int | float | bool


class EventKind(StrEnum):
    """The kinds of records."""

    CONNECTION_OPENED = "connection-opened"
    CONNECTION_CLOSED = "connection-closed"
    LINK_ATTACHED = "link-attached"
    LINK_DETACHED = "link-detached"
    ACTIVITY = "activity"
    BLOCKED = "blocked"
    UNBLOCKED = "unblocked"
    WINDOW_CLOSED = "window-closed"
    WINDOW_OPENED = "window-opened"
    STAGE = "stage"
    PAGING = "paging"
    ALARM = "alarm"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a header or record."""

    name: str
    type: type[Value]
    unit: str
    what: str
    always: bool = True
    """False when the field may be absent."""


@dataclass(frozen=True, slots=True)
class EventSchema:
    """A kind of record: its meaning and its fields."""

    what: str
    fields: tuple[Field, ...]


HEADER = (
    Field(VERSION_KEY, int, "", "version of this schema"),
    Field("node", str, "", "the broker's name"),
    Field(
        "sequence", int, "packets", "number of the packet, from 0 up without gaps, since the broker or receiver began"
    ),
    Field("records", int, "records", "how many follow"),
    Field("interval", float, "s", "the longest time that an activity record adds up"),
)

_AT = Field("at", float, "s", "wall-clock time since 1970; of what is added up, when it began")
_CONNECTION = Field("connection", str, "", "identity of the connection")
_LINK = Field("link", str, "", "identity of the link; of a 0.9.1 channel, its own")
_DIRECTION = Field("direction", str, "", "`in` from publishers, `out` to consumers")
_ADDRESS = Field("address", str, "", "what it is attached to", always=False)
_SESSION = Field("session", str, "", "identity of the session")
_SIDE = Field("side", str, "", "`broker` or `client`: whose incoming-window it is")
_STALL = (
    _CONNECTION,
    Field("link", str, "", "identity of the link; absent for a 0.9.1 reader", always=False),
    _DIRECTION,
    _ADDRESS,
    Field("reason", str, "", "one of the closed list of reasons"),
    Field("culprit", str, "", "what has to change"),
    Field("since", float, "s", "wall-clock time at which it began"),
)


def _messages(name: str, what: str) -> Field:
    return Field(name, int, "messages", what, always=False)


EVENT_SCHEMAS: Mapping[EventKind, EventSchema] = MappingProxyType(
    {
        EventKind.CONNECTION_OPENED: EventSchema(
            "A connection was opened.",
            (
                _CONNECTION,
                Field("peer", str, "", "host and port of the client"),
                Field("protocol", str, "", "`amqp-1.0` or `amqp-0-9-1`"),
                Field("container_id", str, "", "what the client calls itself"),
                Field("user", str, "", "who logged in"),
            ),
        ),
        EventKind.CONNECTION_CLOSED: EventSchema("A connection is over, and everything on it.", (_CONNECTION,)),
        EventKind.LINK_ATTACHED: EventSchema(
            "A link was attached; or a 0.9.1 channel published, or delivered, for the first time.",
            (_CONNECTION, _LINK, Field("name", str, "", "the link's name", always=False), _DIRECTION, _ADDRESS),
        ),
        EventKind.LINK_DETACHED: EventSchema("It is over.", (_CONNECTION, _LINK, _DIRECTION)),
        EventKind.ACTIVITY: EventSchema(
            "What happened on a link within one interval. Counts that are 0 are absent.",
            (
                _CONNECTION,
                _LINK,
                _DIRECTION,
                _messages("transfers", "that came in, or went out to the socket"),
                _messages("accepted", "answered so: by the broker (in), by the client (out)"),
                _messages("rejected", "answered so"),
                _messages("released", "answered so: unroutable (in), given back (out)"),
                _messages("modified", "answered so"),
                _messages("granted", "link credit given; below 0 when some was taken back"),
                _messages("link_credit", "link credit left when the record was made; absent in 0.9.1"),
                Field(
                    "session_window",
                    int,
                    "transfers",
                    "what the session may still send in this direction; absent in 0.9.1",
                    always=False,
                ),
                _messages("window", "what a publisher may have under way; this and the next three: adaptive flow only"),
                Field("round_trip_ms", float, "ms", "the measured round trip", always=False),
                _messages("used_per_second", "confirmed in the last round trip, a second"),
                _messages("share_per_second", "what the link may send in a second; absent while nothing limits that"),
                Field(
                    "limited_by",
                    str,
                    "",
                    "what limits a publisher: `rate`, `bound`, `bytes`, `queue`, `distance` or `publisher`",
                    always=False,
                ),
            ),
        ),
        EventKind.BLOCKED: EventSchema("A link, or a 0.9.1 reader, has stood still for 50 ms.", _STALL),
        EventKind.UNBLOCKED: EventSchema(
            "It moves again, stands still for another reason, or is gone.",
            (*_STALL, Field("seconds", float, "s", "how long it stood still")),
        ),
        EventKind.WINDOW_CLOSED: EventSchema(
            "An incoming-window was 0 for longer than the interval.", (_CONNECTION, _SESSION, _SIDE)
        ),
        EventKind.WINDOW_OPENED: EventSchema("It is open again.", (_CONNECTION, _SESSION, _SIDE)),
        EventKind.STAGE: EventSchema(
            "A stage of stage credit (0.9.1) became blocked, or ceased to be, within one interval.",
            (
                _CONNECTION,
                Field("stage", str, "", "`reader`, `channel` or `queue`"),
                Field("name", str, "", "its name"),
                Field("blocks", int, "blocks", "how often it became blocked", always=False),
                Field("blocked", bool, "", "whether it is blocked at the end"),
                Field("held_up_by", str, "", "names of the stages behind it that did it", always=False),
            ),
        ),
        EventKind.PAGING: EventSchema(
            "Queues began, or ceased, to move messages to disk to save memory.",
            (Field("on", bool, "", "whether they do"),),
        ),
        EventKind.ALARM: EventSchema(
            "An alarm came on or went off. While one is on, nothing is published into the stream.",
            (Field("alarm", str, "", "`memory`, `disk` or `drain-mode`"), Field("on", bool, "", "whether it is on")),
        ),
        EventKind.DROPPED: EventSchema(
            "Records are missing here: there was no room to keep them.",
            (
                Field("records", int, "records", "how many"),
                Field("until", float, "s", "wall-clock time of the last of them; `at` is that of the first"),
            ),
        ),
    }
)
COMMON = (Field("kind", str, "", "what the record tells"), _AT)
"""The fields with which every record begins."""


class FlowEventRecord(NamedTuple):
    """One fact. ``fields`` are the fields of its kind without the common ones."""

    kind: str
    """A :class:`EventKind`; after decoding, possibly one of a later schema."""
    at: float
    fields: Mapping[str, Value]


class Packet(NamedTuple):
    """The values of a header, and the records behind it."""

    node: str
    sequence: int
    interval: float
    records: Sequence[FlowEventRecord]


class SchemaError(ValueError):
    """Bytes that are no packet, or one of another version. The text says what is wrong."""


def encode_header(*, node: str, sequence: int, records: int, interval: float) -> bytes:
    """Encode the header of a packet."""
    return cbor2.dumps(
        {VERSION_KEY: VERSION, "node": node, "sequence": sequence, "records": records, "interval": interval}
    )


def encode_record(record: FlowEventRecord) -> bytes:
    """Encode one record. Its texts must be cut to :data:`TEXT_MAX` already."""
    return cbor2.dumps({"kind": str(record.kind), "at": record.at, **record.fields})


def decode(data: bytes) -> Packet:
    """Decode a packet. Unknown kinds and fields are kept. Raises SchemaError."""
    if len(data) > DECODED_BYTES_MAX:
        raise SchemaError(f"a packet of {len(data)} bytes; at most {DECODED_BYTES_MAX} are read")
    stream = BytesIO(data)
    header = _next_map(stream)
    if header.get(VERSION_KEY) != VERSION:
        raise SchemaError(f"version {header.get(VERSION_KEY)!r} of the schema; this is version {VERSION}")
    _check(HEADER, header, "the header")
    records: list[FlowEventRecord] = []
    while stream.tell() < len(data):
        if len(records) >= PACKET_RECORDS_MAX:
            raise SchemaError(f"more than {PACKET_RECORDS_MAX} records")
        records.append(_record(_next_map(stream)))
    if len(records) != header["records"]:
        raise SchemaError(f"{len(records)} records, and the header says {header['records']}")
    return Packet(str(header["node"]), int(header["sequence"]), float(header["interval"]), records)


def _record(fields: dict[str, Value]) -> FlowEventRecord:
    _check(COMMON, fields, "a record")
    kind, at = str(fields.pop("kind")), float(fields.pop("at"))
    if kind in EVENT_SCHEMAS:
        _check(EVENT_SCHEMAS[EventKind(kind)].fields, fields, f"a record of kind {kind}")
    return FlowEventRecord(kind, at, fields)


def _check(expected: Sequence[Field], found: Mapping[str, Value], where: str) -> None:
    for field in expected:
        value = found.get(field.name)
        if value is None and field.always:
            raise SchemaError(f"{where} has no {field.name}")
        if value is not None and not _fits(value, field.type):
            raise SchemaError(f"{field.name} of {where} is no {field.type.__name__}")


def _fits(value: Value, wanted: type[Value]) -> bool:
    """A whole number also fits where a float is wanted: encoders shorten floats. A boolean fits only a boolean."""
    if wanted is bool or isinstance(value, bool):
        return wanted is bool and isinstance(value, bool)
    if wanted is float and isinstance(value, int):
        return abs(value) < 2**63
    return isinstance(value, wanted)


def _next_map(stream: BytesIO) -> dict[str, Value]:
    """Decode the next item, which must be a flat map. Raises SchemaError for any other item."""
    try:
        item: object = cbor2.load(stream)
    except Exception as error:  # the decoder raises many kinds of errors, and all mean the same
        raise SchemaError(f"no CBOR: {type(error).__name__}") from None
    if not isinstance(item, dict) or len(item) > DECODED_FIELDS_MAX:
        raise SchemaError(f"a map of at most {DECODED_FIELDS_MAX} fields is expected")
    for key, value in item.items():
        if not isinstance(key, str) or not isinstance(value, str | int | float | bool):
            raise SchemaError("keys must be texts, and values texts, numbers or booleans")
    return item
