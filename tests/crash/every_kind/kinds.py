"""The kinds of things in a data folder that no broker uses, as the store's own readers find them.

A kind is a pair of texts: a field or a table of the store, and the sort of value that was found there. A field of a
record has sorts for nothing, one and several, an enumeration has one for each member. So a new field of a record
brings new kinds, and a folder that was made before has only one of its sorts.
"""

from array import array
from collections.abc import Iterator, Mapping, Sized
from contextlib import closing
from dataclasses import fields, is_dataclass
from enum import Enum
from math import inf
from pathlib import Path

import cbor2

from core.engine.options.arguments import queue_type
from core.engine.quorum.commands import CommandType
from core.engine.quorum.commands import decode as decode_command
from core.engine.quorum.machine import QuorumMachine
from core.store.checkpoint import read_checkpoint
from core.store.definitions import COPY_FILE, DEFAULT_HOST, DEFINITIONS_FILE
from core.store.descriptions import queue_folders
from core.store.disk import Disk, FolderDisk
from core.store.index_codec import decode_published
from core.store.inspect import EntryVerdict, entries, read_definitions
from core.store.lost import lost_entries
from core.store.record import RecordKind, SoundRecord, scan
from core.store.sealed_file import opened_image
from core.store.stream_chunk import TAG
from core.store.stream_chunk import decode as decode_chunk
from core.store.stream_segment import SegmentReader

Kind = tuple[str, str]
MARK = ("generation", "batch", "whole", "everywhere", "definitions", "files", "left")
"""The values of a mark in their order (docs/storage-format.md)."""
FIELDS = "fields"
"""The sort of a value that has fields, which have kinds of their own."""
STARTS_MAX = 100
"""More starts than the folder has."""


def kinds_of(folder: Path) -> set[Kind]:
    """All kinds in a folder. Raises AssertionError for a damaged record."""
    found: set[Kind] = set()
    with closing(FolderDisk(folder, open_files_max=64, read_only=True)) as disk:
        for entry in entries(disk):
            assert entry.verdict is EntryVerdict.SOUND, entry
            found.add(("record", str(entry.kind)))
        for path in folder.rglob("*.*"):
            if path.suffix in (".idx", ".log", ".seg", ".marks"):
                for record in _records(disk, str(path.relative_to(folder))):
                    found.update(_of_record(record))
        for path in folder.rglob("*.seg"):
            found.update(sorts("head", SegmentReader(disk).head(str(path.relative_to(folder)))))
        found.update(_of_checkpoint(disk))
        found.update(_of_snapshot(disk))
    found.update(_of_definitions(folder))
    return found


def sorts(name: str, value: object) -> Iterator[Kind]:
    """The kinds of a value and of all its fields. ``name`` is the value's own."""
    match value:
        case None:
            yield name, "nothing"
        case Enum():
            yield name, value.name
        case array():
            yield name, _count([item for item in value if item != inf])
        case _ if is_dataclass(value):
            yield name, FIELDS
            for field in fields(value):
                if field.init:
                    yield from sorts(f"{name}.{field.name}", getattr(value, field.name))
        case tuple() if hasattr(value, "_fields"):
            yield name, FIELDS
            for field_name in value._fields:
                yield from sorts(f"{name}.{field_name}", getattr(value, field_name))
        case Sized():
            yield name, _count(value)
        case _:
            yield name, "one" if value else "nothing"


def _count(values: Sized) -> str:
    return ("nothing", "one", "several")[min(len(values), 2)]


def _named(name: str, values: Mapping[str, object]) -> Iterator[Kind]:
    for field, value in values.items():
        yield from sorts(f"{name}.{field}", value)


def _records(disk: Disk, path: str) -> Iterator[SoundRecord]:
    """The records of a file. A file of marks ends with zeros, which are none."""
    for record in scan(lambda offset, length: disk.read(path, offset, length), disk.size(path)):
        if isinstance(record, SoundRecord):
            yield record


def _of_record(record: SoundRecord) -> Iterator[Kind]:
    match record.kind:
        case RecordKind.PUBLISH | RecordKind.PUBLISH_STORED:
            yield from sorts("message", decode_published(record.kind, record.offset, record.payload, {}))
        case RecordKind.COMMAND:
            kind = CommandType(record.payload[0])
            yield "command", kind.name
            yield from sorts(f"command {kind.name}", decode_command(record.payload)[1])
        case RecordKind.STREAM_CHUNK if record.payload[0] == TAG:
            chunk = decode_chunk(record.payload)
            facts = ("attributes", "filters", "route", "entries")
            yield from _named("chunk", {name: getattr(chunk, name) for name in facts})
        case RecordKind.MARK:
            yield from _named("mark", dict(zip(MARK, cbor2.loads(record.payload), strict=True)))


def _of_checkpoint(disk: Disk) -> Iterator[Kind]:
    checkpoint = read_checkpoint(disk, oldest=1, newest=STARTS_MAX)
    if checkpoint is None:
        return
    yield from sorts("checkpoint", checkpoint)
    for state in checkpoint.indexes.values():
        yield from sorts("checkpoint index", state)
        for segment in state.segments.values():
            yield from sorts("checkpoint segment", segment)


def _of_snapshot(disk: Disk) -> Iterator[Kind]:
    if "snapshot" not in disk.names("quorum"):
        return
    _, *parts = (record.payload for record in _records(disk, "quorum/snapshot"))
    for machine in QuorumMachine.restored(parts).values():
        facts = ("next_sequence", "delivered_below", "histories", "discards", "blocks")
        yield from _named("snapshot", {name: getattr(machine, name) for name in facts})
        for history in machine.histories.values():
            yield from sorts("snapshot.history", history)
        for block in machine.blocks:
            facts = ("attributes", "route", "expiries", "sizes")
            yield from _named("snapshot.block", {name: getattr(block, name) for name in facts})


def _of_definitions(folder: Path) -> Iterator[Kind]:
    for file in (DEFINITIONS_FILE, COPY_FILE):
        with closing(opened_image((folder / file).read_bytes())) as database:
            for (table,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
                rows = database.execute(f"SELECT * FROM {table} LIMIT 2").fetchall()
                yield f"table {file}", f"{table} has {_count(rows)}"
    found = read_definitions(folder)
    assert not found.problems, found.problems
    definitions = found.hosts[DEFAULT_HOST]
    for queue in definitions.queues:
        yield from sorts("queue", queue)
        kind = queue_type(queue.declaration.arguments)
        yield from ((f"argument of {kind}", name) for name in queue.declaration.arguments)
    for exchange in definitions.exchanges:
        yield from sorts("exchange", exchange)
        yield from (("argument of exchange", name) for name in exchange.arguments)
    for binding in definitions.bindings:
        yield from sorts("binding", binding)
    for policy in definitions.policies:
        yield from sorts("policy", policy)
        yield "applies to", policy.apply_to
        yield from (("policy key", key) for key in policy.definition)
    for described in queue_folders(folder):
        yield "described", described.kind
        yield from sorts("description", described.description)
    yield from (("lost", lost.kind) for lost in lost_entries(folder))
