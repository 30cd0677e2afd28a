"""The definitions of a running broker, from its snapshots, without queues that belong to connections.

Snapshots are plain values, from this process or over any protocol. They are treated like a file: converted to
RabbitMQ's format, and then checked. So an exported file can always be read again.

Left out are the built-in exchanges, exclusive queues, queues named by a broker, and the bindings of these queues.
"""

from collections.abc import Iterable, Mapping, Sequence

from core.definitions_file.document import Document
from core.definitions_file.json_values import finding_problems
from core.definitions_file.reading import Reading, examining
from core.engine.routing.names import RESERVED_PREFIX
from core.slices import Walk, gathered, run_at_once

KINDS = ("exchanges", "queues", "bindings", "policies")
"""The kinds of snapshots that definitions are made from."""

Row = Mapping[str, object]


def from_snapshots(rows: Mapping[str, Sequence[Row]]) -> Reading:
    """Read the definitions from snapshots of each of :data:`KINDS`. Values that JSON cannot express are problems."""
    return run_at_once(reading_snapshots(rows))


def reading_snapshots(rows: Mapping[str, Iterable[Row]]) -> Walk[Reading]:
    """``from_snapshots`` as a walk. The rows of each kind may be built while it runs."""
    read: dict[str, list[Row]] = {}
    for kind in KINDS:
        read[kind] = yield from gathered(rows[kind])
    connected: set[str] = set()
    for row in read["queues"]:
        if _is_passing(row):
            connected.add(_name(row))
        yield None
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
"""For each kind, the names of its fields in a file and in a snapshot."""


def _kept(row: Row, fields: Mapping[str, str]) -> dict[str, object]:
    return {written: row[name] for written, name in fields.items() if name in row}


def _name(row: Row) -> str:
    return str(row.get("name"))


def _is_reserved(name: str) -> bool:
    return not name or name.startswith(RESERVED_PREFIX)


def _is_passing(row: Row) -> bool:
    """Return whether a queue belongs to a connection: exclusive, or named by a broker."""
    return bool(row.get("exclusive")) or _is_reserved(_name(row))
