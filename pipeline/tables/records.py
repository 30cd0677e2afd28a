"""The columns of ``flow_events``, and which fields the records of flow events have (docs/flow-events.md, version 1).

The pipeline imports nothing of the broker: it knows the schema as any other reader does, from its page. A test compares
what stands here with the broker's own.

A field becomes the column of its name. What is not known here, a later kind or field, or a known field with a value of
another type, is kept as JSON in the column ``rest``.
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
"""Of an activity record, in messages."""

FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "connection-opened": ("connection", "peer", "protocol", "container_id", "user"),
        "connection-closed": ("connection",),
        "link-attached": ("connection", "link", "name", "direction", "address"),
        "link-detached": _LINK,
        "activity": (*_LINK, *COUNTS),
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
        # Where it came from: null when it was generated. `position` counts the records of a packet from 0.
        "offset": "bigint",
        "node": "string",
        "sequence": "bigint",
        "position": "int",
        "interval": "double",
        # What it says. `kind` is null for a packet that could not be read.
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
        **dict.fromkeys(COUNTS, "bigint"),
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
        # A packet that could not be read, as it came, and why.
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
    """The columns as Spark's ``schema`` arguments take them."""
    return ", ".join(f"`{name}` {type_}" for name, type_ in columns.items())


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    """The same for Arrow."""
    return pa.schema([(name, _ARROW[type_]) for name, type_ in columns.items()])
