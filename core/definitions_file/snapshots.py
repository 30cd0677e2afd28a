"""The definitions of a running broker, from its snapshots: what was declared, and not what comes with connections.

Snapshots are plain values, from this process or over any protocol. They take the same way as a file: first into the
form that RabbitMQ writes, then through every check. So what is exported can be read again.

Left out: the built-in exchanges, exclusive queues and those that a broker named, the bindings of these.
"""

from collections.abc import Mapping, Sequence

from core.definitions_file.document import Document
from core.definitions_file.json_values import problems_of
from core.definitions_file.reading import Reading, examine
from core.engine.topology import RESERVED_PREFIX

KINDS = ("exchanges", "queues", "bindings", "policies")
"""The kinds of snapshots that definitions are made from."""

Row = Mapping[str, object]


def from_snapshots(rows: Mapping[str, Sequence[Row]]) -> Reading:
    """The definitions in snapshots of each of :data:`KINDS`. Problems are what JSON has no form for."""
    connected = {_name(row) for row in rows["queues"] if _is_passing(row)}
    value: dict[str, object] = {
        "exchanges": [_kept(row, _EXCHANGE) for row in rows["exchanges"] if not _is_reserved(_name(row))],
        "queues": [_kept(row, _QUEUE) for row in rows["queues"] if _name(row) not in connected],
        "bindings": [
            {**_kept(row, _BINDING), "destination_type": "queue" if row.get("destination_is_queue") else "exchange"}
            for row in rows["bindings"]
            if not (row.get("destination_is_queue") and row.get("destination") in connected)
        ],
        "policies": [_kept(row, _POLICY) for row in rows["policies"]],
    }
    problems = problems_of(value)
    return Reading(document=Document(), problems=problems, notes=[]) if problems else examine(value)


_EXCHANGE = {name: name for name in ("name", "type", "durable", "auto_delete", "internal", "arguments")}
_QUEUE = {name: name for name in ("name", "durable", "auto_delete", "arguments")}
_BINDING = {"source": "source", "destination": "destination", "routing_key": "binding_key", "arguments": "arguments"}
_POLICY = {
    "name": "name",
    "pattern": "pattern",
    "apply-to": "apply_to",
    "priority": "priority",
    "definition": "definition",
}
"""For each kind: what a field is called in a file, and in a snapshot."""


def _kept(row: Row, fields: Mapping[str, str]) -> dict[str, object]:
    return {written: row[name] for written, name in fields.items() if name in row}


def _name(row: Row) -> str:
    return str(row.get("name"))


def _is_reserved(name: str) -> bool:
    return not name or name.startswith(RESERVED_PREFIX)


def _is_passing(row: Row) -> bool:
    """A queue that goes with a connection."""
    return bool(row.get("exclusive")) or _is_reserved(_name(row))
