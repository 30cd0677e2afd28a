"""How damage is described: where it is, what it was, what went with it."""

from dataclasses import dataclass

from core.store.errors import StoreDamaged
from core.store.record import Damaged, Kind, record_bytes


@dataclass(frozen=True, slots=True)
class LostRecord:
    """A record that was synced and is damaged."""

    path: str
    offset: int
    bytes: int
    kind: str | None
    """None where not even the header is sound, as for the next two; then it may have been several records."""
    generation: int | None
    batch: int | None
    messages: int | None
    """How many messages went with it; None when that cannot be known."""
    why: str

    def __str__(self) -> str:
        kind = self.kind or "no header"
        origin = "" if self.batch is None else f" of start {self.generation}, batch {self.batch}"
        return f"{self.path} at {self.offset}: {kind}{origin}, {self.bytes} bytes: {self.why}"


def lost_record(path: str, damaged: Damaged) -> LostRecord:
    """What is known of the damage that a scan found in a file of classic queues."""
    header = damaged.header
    if header is None:
        return LostRecord(path, damaged.offset, damaged.end - damaged.offset, None, None, None, None, damaged.why)
    return LostRecord(
        path,
        damaged.offset,
        record_bytes(header.payload_bytes),
        Kind(header.kind).name if header.kind in set(Kind) else f"kind {header.kind}",
        header.generation,
        header.batch,
        {Kind.BODY: 1, Kind.SETTLE: 0}.get(Kind(header.kind)) if header.kind in set(Kind) else None,
        damaged.why,
    )


def refusal(path: str, damaged: Damaged) -> StoreDamaged:
    """Why the store is not used as it is."""
    return StoreDamaged(
        f"{lost_record(path, damaged)}. It was synced, so this is no trace of a crash. Put back a copy of the data "
        "folder, or set store.salvage to go on without it"
    )
