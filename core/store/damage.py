"""Descriptions of damage: its place, the kind of record, and what was lost with it."""

from dataclasses import dataclass

from core.store.errors import StoreDamaged
from core.store.record import Damaged, RecordKind, record_bytes


@dataclass(frozen=True, slots=True)
class LostRecord:
    """A record that was synced and is damaged."""

    path: str
    offset: int
    bytes: int
    kind: str | None
    """None if the header is damaged too, as for the next two fields; then it may have been several records."""
    generation: int | None
    batch: int | None
    messages: int | None
    """How many messages were lost with it; None if unknown."""
    why: str

    def __str__(self) -> str:
        kind = self.kind or "no header"
        origin = "" if self.batch is None else f" of start {self.generation}, batch {self.batch}"
        return f"{self.path} at {self.offset}: {kind}{origin}, {self.bytes} bytes: {self.why}"


def lost_record(path: str, damaged: Damaged) -> LostRecord:
    """Describe damage that a scan found in a file of classic queues."""
    header = damaged.header
    if header is None:
        return LostRecord(path, damaged.offset, damaged.end - damaged.offset, None, None, None, None, damaged.why)
    return LostRecord(
        path,
        damaged.offset,
        record_bytes(header.payload_bytes),
        RecordKind(header.kind).name if header.kind in set(RecordKind) else f"kind {header.kind}",
        header.generation,
        header.batch,
        {RecordKind.BODY: 1, RecordKind.SETTLE: 0}.get(RecordKind(header.kind))
        if header.kind in set(RecordKind)
        else None,
        damaged.why,
    )


def refusal(path: str, damaged: Damaged) -> StoreDamaged:
    """Return the error that refuses a store because of this damage."""
    return StoreDamaged(
        f"{lost_record(path, damaged)}. It was synced, so this is no trace of a crash. Put back a copy of the data "
        "folder, or set store.salvage to go on without it"
    )
