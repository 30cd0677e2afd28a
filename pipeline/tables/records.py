"""The columns of ``flow_events``, and which fields the records of flow events have (docs/flow-events.md, version 1).

The pipeline does not import the broker's schema: it has its own copy from the page, as any other reader would. A test
compares this copy with the broker's schema.

A field becomes the column of its name. A later kind or field, or a known field with a value of another type, is kept as
JSON in the column ``rest``.
"""

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

VERSION = 1
VERSION_KEY = "headgate-flow"
HEADER_FIELDS = (VERSION_KEY, "node", "sequence", "records", "interval")

_LINK = ("connection", "link", "direction")
_STALL = (*_LINK, "address", "reason", "culprit", "since")
COUNTS = ("transfers", "accepted", "rejected", "released", "modified", "granted", "link_credit")
"""The counts of an activity record, in messages."""
WINDOWS = ("session_window", "window", "used_per_second", "share_per_second")
"""What an activity record says about windows, in transfers or messages."""

FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "connection-opened": ("connection", "peer", "protocol", "container_id", "user"),
        "connection-closed": ("connection",),
        "link-attached": ("connection", "link", "name", "direction", "address"),
        "link-detached": _LINK,
        "activity": (*_LINK, *COUNTS, *WINDOWS, "round_trip_ms", "limited_by"),
        "blocked": _STALL,
        "unblocked": (*_STALL, "seconds"),
        "window-closed": ("connection", "session", "side"),
        "window-opened": ("connection", "session", "side"),
        "stage": ("connection", "stage", "name", "blocks", "blocked", "held_up_by"),
        "paging": ("on",),
        "alarm": ("alarm", "on"),
        "dropped": ("records", "until"),
    }
)
"""Every kind of record with its own fields."""

FLOW_EVENTS: Mapping[str, str] = MappingProxyType(
    {
        # The origin: null when it was generated. `position` counts the records of a packet from 0.
        "offset": "bigint",
        "node": "string",
        "sequence": "bigint",
        "position": "int",
        "interval": "double",
        # The content. `kind` is null for a packet that could not be read.
        "kind": "string",
        "at": "timestamp",
        "connection": "string",
        "session": "string",
        "link": "string",
        "name": "string",
        "direction": "string",
        "address": "string",
        "peer": "string",
        "protocol": "string",
        "container_id": "string",
        "user": "string",
        **dict.fromkeys((*COUNTS, *WINDOWS), "bigint"),
        "round_trip_ms": "double",
        "limited_by": "string",
        "reason": "string",
        "culprit": "string",
        "since": "timestamp",
        "seconds": "double",
        "side": "string",
        "stage": "string",
        "blocks": "bigint",
        "blocked": "boolean",
        "held_up_by": "string",
        "alarm": "string",
        "on": "boolean",
        "records": "bigint",
        "until": "timestamp",
        "rest": "string",
        # A packet that could not be read, as received, and the reason.
        "packet": "binary",
        "fault": "string",
    }
)
"""Columns with Spark's types. Times are UTC."""

_ARROW = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def spark_schema(columns: Mapping[str, str]) -> str:
    """The columns in the form of Spark's ``schema`` arguments."""
    return ", ".join(f"`{name}` {type_}" for name, type_ in columns.items())


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    """The columns as an Arrow schema."""
    return pa.schema([(name, _ARROW[type_]) for name, type_ in columns.items()])
