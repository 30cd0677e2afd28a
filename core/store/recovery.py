"""Recovery of the files of classic queues at a start without a usable checkpoint.

First everything is read and nothing changed: the files of the message store, then the queue indexes, segment by
segment. Damage to synced records ends the recovery with :class:`StoreDamaged`. With ``salvage`` these records are lost
instead; they are reported, and stay in the file until it is removed. Then damage by a crash or a power cut is repaired:

- a torn end of a file is cut off;
- a hole, where a power cut lost a record but kept later ones, is filled with a record without effect, so that a later
  start does not take it for damage to a synced record;
- the kept records that were not synced are synced.

A persistent message without its body is dropped. References to bodies are counted again. All remaining messages count
as delivered before.

**Numbering.** The newest file of an index was begun by some start, at an unused number. Since then each start may have
used numbers and lost what it wrote, but at most ``FREE_SEGMENTS`` segments of them, because everything is synced long
before. So this start continues ``FREE_SEGMENTS * starts since then`` segments higher, and need not write anything
first.

Memory: an entry for each live body in the message store, one segment, and the needs of a scan; not the bodies.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from core.store.checkpoint import Checkpoint
from core.store.damage import LostRecord, lost_record, refusal
from core.store.disk import Disk
from core.store.errors import StoreDamaged
from core.store.index_codec import NOTHING
from core.store.marks import Marks
from core.store.message_store import (
    NO_BODY,
    FileSummary,
    StoreState,
    body_record_bytes,
    pack_place,
    split_body,
    unpack_place,
)
from core.store.places import (
    PERSISTENT,
    QUEUES,
    SEGMENT_BITS,
    SegmentSummary,
    index_folder,
    numbered,
    segment_name,
    store_file,
)
from core.store.queue_index import FREE_SEGMENTS, IndexState
from core.store.record import HEADER_BYTES, Damaged, RecordKind, SoundRecord, encode, scan
from core.store.segment_replay import SegmentReplay

SHOWN_MAX = 1000
"""The most places of damage that a report lists. It counts all."""


@dataclass(frozen=True, slots=True)
class TornTail:
    """The torn end of a file that was being written, or a hole. It is dropped; it was not confirmed to any client."""

    path: str
    offset: int
    bytes: int


@dataclass(slots=True)
class Report:
    """The findings of a start, counted as it proceeds."""

    clean: bool = False
    """Whether there was a usable checkpoint."""
    queues: int = 0
    messages: int = 0
    bytes: int = 0
    """Bytes of the messages' bodies."""
    files: int = 0
    """How many files were read."""
    read_bytes: int = 0
    transient_dropped: int = 0
    """Messages that were dropped because they were only paged out."""
    without_body: int = 0
    """Messages that were dropped because their bodies are not in the message store."""
    torn: list[TornTail] = field(default_factory=list)
    torn_count: int = 0
    lost: list[LostRecord] = field(default_factory=list)
    lost_count: int = 0
    gone: list[str] = field(default_factory=list)
    """Files that are missing or too short, and other damage that does not prevent a start."""
    seconds: float = 0.0
    """How long recovery took; set by the caller, which has a clock."""


@dataclass(slots=True)
class _FileFacts:
    """Facts found while reading one file."""

    end: int = 0
    """The offset after the last record that is not torn."""
    synced_end: int = 0
    """The offset before which everything was synced."""
    generation: int = 1
    """The generation of the start that began the file; 1 if unknown."""


class Recovery:
    """The recovery of one start. Used by one thread, which may be a worker."""

    def __init__(
        self,
        disk: Disk,
        *,
        generation: int,
        marks: Marks,
        salvage: bool,
        report: Report,
        progress: Callable[[Report], None] = lambda report: None,
    ) -> None:
        """``marks``: those of the lane of classic queues. ``progress`` is called after each file."""
        self._disk = disk
        self._generation = generation
        self._marks = marks
        self.kept: dict[str, int] = {}
        """Files that were read, each with the length that is kept and synced after ``mend``."""
        self._salvage = salvage
        self._report = report
        self._progress = progress
        self._unclaimed: dict[int, int] = {}
        """Places of bodies for which no message was found yet."""
        self._cuts: list[TornTail] = []
        self._holes: list[TornTail] = []
        self._unsynced: list[str] = []
        self._unlink: list[str] = []

    def everything(self, queue_ids: Sequence[str]) -> Checkpoint:
        """Read the message store and the indexes of these queues. Changes nothing. Raises StoreDamaged, OSError."""
        found = Checkpoint()
        self._find_bodies(found.bodies)
        for queue_id in queue_ids:
            for level in self._disk.names(f"{QUEUES}/{queue_id}"):
                if level.isdigit():
                    found.indexes[queue_id, int(level)] = self._index(index_folder(queue_id, int(level)), found.bodies)
            self._report.queues += 1
        self._unlink += (store_file(PERSISTENT, number) for number, file in found.bodies.files.items() if not file.live)
        found.bodies.files = {number: file for number, file in found.bodies.files.items() if file.live}
        return found

    def complete(self, checkpoint: Checkpoint) -> None:
        """Read the segments that a checkpoint does not describe exactly. All of its records were synced. Raises
        StoreDamaged, OSError."""
        self.kept.update((store_file(PERSISTENT, n), file.total) for n, file in checkpoint.bodies.files.items())
        for (queue_id, level), state in checkpoint.indexes.items():
            folder = index_folder(queue_id, level)
            for number, segment in list(state.segments.items()):
                path = f"{folder}/{segment_name(number, segment.incarnation)}"
                if segment.incarnation:  # transient messages only
                    del state.segments[number]
                    self._unlink.append(path)
                    continue
                self.kept[path] = segment.file_bytes
                if segment.live and (segment.mixed or segment.live < segment.published):
                    facts = _FileFacts(synced_end=segment.file_bytes)
                    state.segments[number] = self._segment(number, path, facts, None)
                    if facts.end != segment.file_bytes:
                        raise StoreDamaged(f"{path} is to have {segment.file_bytes} bytes, it has {facts.end}")
                self._count(state.segments[number])
        self._report.queues = len({queue_id for queue_id, _ in checkpoint.indexes})
        known = checkpoint.bodies.files
        self._unlink += (
            store_file(PERSISTENT, number) for number in self._numbers(PERSISTENT, ".rdq") if number not in known
        )

    @property
    def unlinked(self) -> Sequence[str]:
        """Files that :meth:`mend` removes."""
        return self._unlink

    def mend(self) -> None:
        """Repair torn files, sync what is kept, remove files without live messages. Raises OSError."""
        disk = self._disk
        for cut in self._cuts:
            disk.truncate(cut.path, cut.offset)
        for hole in self._holes:
            disk.write(hole.path, hole.offset, _filler(hole))
        for path in self._unsynced:
            disk.sync(path)
        for folder in {folder for path in self._unsynced for folder in _folders_above(path)}:
            disk.sync_folder(folder)
        for path in self._unlink:
            disk.unlink(path)
            self.kept.pop(path, None)

    # --- the message store

    def _find_bodies(self, bodies: StoreState) -> None:
        """Find all bodies in the files; they are unclaimed until a message refers to them."""
        for number in self._numbers(PERSISTENT, ".rdq"):
            path = store_file(PERSISTENT, number)
            facts = _FileFacts()
            for record in self._records(path, facts):
                body_id, body = split_body(record.payload)
                if body_id != NO_BODY:
                    self._unclaimed[body_id] = pack_place(number, record.offset, len(body))
            bodies.files[number] = FileSummary(facts.end)
            bodies.current = number + 1

    def _claim(self, body_id: int, bodies: StoreState) -> bool:
        """Count a reference to a body. Returns False if there is no such body."""
        if body_id in bodies.places:
            bodies.references[body_id] = bodies.references.get(body_id, 1) + 1
            return True
        place = self._unclaimed.pop(body_id, None)
        if place is None:
            return False
        number, _, size = unpack_place(place)
        bodies.places[body_id] = place
        bodies.files[number].live += body_record_bytes(size)
        return True

    # --- queue indexes

    def _index(self, folder: str, bodies: StoreState) -> IndexState:
        state = IndexState()
        numbers = self._numbers(folder, ".idx")
        facts = _FileFacts()
        for number in numbers:
            path = f"{folder}/{segment_name(number, 0)}"
            facts = _FileFacts()
            segment = self._segment(number, path, facts, bodies)
            if segment.live or number == numbers[-1] or segment.settled is not None or segment.taken is not None:
                state.segments[number] = segment
                self._count(segment)
            else:
                self._unlink.append(path)
        self._unlink += (f"{folder}/{name}" for name in self._disk.names(folder) if "-" in name)
        floor = first_free(numbers[-1] if numbers else 0, self._generation - facts.generation)
        state.next_sequence_floor = state.delivered_below = floor
        return state

    def _segment(self, number: int, path: str, facts: _FileFacts, bodies: StoreState | None) -> SegmentSummary:
        """Summarise the live messages of a file. With ``bodies``: claim their bodies there, and drop messages without a
        body."""
        replay = SegmentReplay(number, path=path, generation=self._generation)
        for record in self._records(path, facts):
            replay.add(record.kind, record.generation, record.offset, record.payload)
        self._report.transient_dropped += replay.passed_over
        settled: list[range | list[int]] | None = None
        if bodies is not None and replay.stored:
            missing = [sequence for sequence, body_id in replay.stored_ids() if not self._claim(body_id, bodies)]
            if missing:
                settled = [missing]
                replay.settle(settled)
                self._report.without_body += len(missing)
        return SegmentSummary(
            published=replay.published,
            live=replay.live,
            live_bytes=replay.live_bytes(),
            file_bytes=facts.end,
            stored=replay.stored,
            settled=settled,
            taken=replay.taken,
        )

    def _count(self, segment: SegmentSummary) -> None:
        self._report.messages += segment.live
        self._report.bytes += segment.live_bytes

    # --- files

    def _numbers(self, folder: str, suffix: str) -> list[int]:
        """Return the numbers of the files in a folder, ascending."""
        numbers = (numbered(name, suffix) for name in self._disk.names(folder))
        return sorted(number for number in numbers if number is not None)

    def _records(self, path: str, facts: _FileFacts) -> Iterator[SoundRecord]:
        """Yield the sound records of a file. At its end, damage is judged and the facts are complete."""
        size = self._disk.size(path)
        facts.synced_end = max(facts.synced_end, self._marks.files.get(path, 0))
        damaged: list[Damaged] = []
        unsynced = False
        for record in scan(lambda offset, length: self._disk.read(path, offset, length), size):
            if isinstance(record, Damaged):
                damaged.append(record)
                continue
            if not record.offset:
                facts.generation = max(1, record.generation)
            if (record.generation, record.batch) <= self._marks.synced:
                facts.synced_end = max(facts.synced_end, record.end)
            else:
                unsynced = True
            facts.end = record.end
            yield record
        torn = [record for record in damaged if not self._is_lost(path, record, facts)]
        holes = [
            TornTail(path, record.offset, record.end - record.offset) for record in torn if record.end <= facts.end
        ]
        self._holes += holes
        tail = [TornTail(path, facts.end, size - facts.end)] if size > facts.end else []
        self._cuts += tail
        self._report_torn(holes + tail)
        if unsynced or torn or not size:  # an empty file too: its number determines the numbering
            self._unsynced.append(path)
        self.kept[path] = min(size, facts.end)
        self._report.files += 1
        self._report.read_bytes += size
        self._progress(self._report)

    def _is_lost(self, path: str, damaged: Damaged, facts: _FileFacts) -> bool:
        """Return whether damaged bytes were synced; such damage is reported and left in the file. Raises StoreDamaged
        without ``salvage``."""
        if damaged.offset >= facts.synced_end and not self._marks.proves(path, damaged):
            return False
        if not self._salvage:
            raise refusal(path, damaged)
        lost = lost_record(path, damaged)
        facts.end = max(facts.end, lost.offset + lost.bytes)  # new records are written after the damaged one
        self._report.lost_count += 1
        if len(self._report.lost) < SHOWN_MAX:
            self._report.lost.append(lost)
        return True

    def _report_torn(self, torn: Sequence[TornTail]) -> None:
        self._report.torn_count += len(torn)
        self._report.torn += torn[: SHOWN_MAX - len(self._report.torn)]


def first_free(newest: int, starts: int) -> int:
    """Return the first sequence number that no start can have used: see "Numbering" above."""
    return (newest + FREE_SEGMENTS * starts) << SEGMENT_BITS


def _filler(hole: TornTail) -> list[bytes]:
    """Return a record without effect, as long as the hole, with generation 0. Its kind depends on the file: index or
    message store."""
    size = hole.bytes - HEADER_BYTES
    if hole.path.startswith(QUEUES):
        return encode(RecordKind.SETTLE, (NOTHING * size,), 0, 0)
    return encode(RecordKind.BODY, (bytes(size),), 0, 0)


def _folders_above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path
