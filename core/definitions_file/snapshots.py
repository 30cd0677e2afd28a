"""The definitions of a running broker, from its snapshots: what was declared, and not what comes with connections.

Snapshots are plain values, from this process or over any protocol. They take the same way as a file: first into the
form that RabbitMQ writes, then through every check. So what is exported can be read again.

Left out: the built-in exchanges, exclusive queues and those that a broker named, the bindings of these.
"""

from collections.abc import Iterable, Mapping, Sequence

from core.definitions_file.document import Document
from core.definitions_file.json_values import finding_problems
from core.definitions_file.reading import Reading, examining
from core.engine.topology import RESERVED_PREFIX
from core.slices import Walk, at_a_stretch, gathered

KINDS = ("exchanges", "queues", "bindings", "policies")
"""The kinds of snapshots that definitions are made from."""

Row = Mapping[str, object]


def from_snapshots(rows: Mapping[str, Sequence[Row]]) -> Reading:
    """The definitions in snapshots of each of :data:`KINDS`. Problems are what JSON has no form for."""
    return at_a_stretch(reading_snapshots(rows))


def reading_snapshots(rows: Mapping[str, Iterable[Row]]) -> Walk[Reading]:
    """The same as a walk; the rows of each kind may be made while it goes on."""
    read: dict[str, list[Row]] = {}
    for kind in KINDS:
        read[kind] = yield from gathered(rows[kind])
    connected: set[str] = set()
    for row in read["queues"]:
        if _is_passing(row):
            connected.add(_name(row))
        yield
    value: dict[str, object] = {
        "exchanges": (
            yield from gathered(_kept(row, _EXCHANGE) for row in read["exchanges"] if not _is_reserved(_name(row)))
        ),
        "queues": (yield from gathered(_kept(row, _QUEUE) for row in read["queues"] if _name(row) not in connected)),
        "bindings": (
            yield from gathered(
                {**_kept(row, _BINDING), "destination_type": "queue" if row.get("destination_is_queue") else "exchange"}
                for row in read["bindings"]
                if not (row.get("destination_is_queue") and row.get("destination") in connected)
            )
        ),
        "policies": [_kept(row, _POLICY) for row in read["policies"]],
    }
    problems = yield from finding_problems(value)
    if problems:
        return Reading(document=Document(), problems=problems, notes=[])
    return (yield from examining(value))


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
