"""One bit of a store is wrong: the error is detected, no wrong message is delivered, and salvaging loses one record at
most.

Everything in the store is synced, after an orderly stop or after a kill. The kinds of files are hit equally often,
because the small ones matter most, and the files of a kind in proportion to their size. A flip has one of these
results:

- *refused*: the start raises StoreDamaged, which names the file and the record.
- *refused when read*: the start after an orderly stop does not read everything; a later read of the record raises.
- *passed over*: a stream goes on without the record, and counts it.
- *rebuilt*: the content of the file is found out in another way, as with the checkpoint and the snapshot.
- *found by check*: nothing that is delivered depends on the bit, as on the marks of the lanes, on bodies that were only
  paged out, on the head of a stream's segment, and on what an orderly stop knows to be settled; ``headgate store
  check`` names it.

With the last three the same messages are delivered, but for those of the record that a stream has passed over.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from random import Random
from typing import NamedTuple

from core.store.checkpoint import read_checkpoint
from core.store.errors import StoreDamaged
from core.store.index_codec import decode_published
from core.store.inspect import LANE_FOLDERS, EntryVerdict, entries_of_file
from core.store.marks import SUFFIX as MARKS
from core.store.marks import read_marks
from core.store.message_store import split_body
from core.store.places import CHECKPOINT, TRANSIENT
from core.store.record import RecordKind, SoundRecord, scan
from core.store.stream_segment import HEAD_TAG
from tests.faults.messages import numbers_in
from tests.faults.simulation import SETTINGS, World
from tests.kit.faulty_disk import FaultyDisk, MemoryDisk
from tests.kit.storage import drain

FLIPS_PER_STORE = 50
STEPS = 600
SALVAGE = SETTINGS.model_copy(update={"salvage": True})
SNAPSHOT = "quorum/snapshot"

Content = Mapping[str, Sequence[int]]
"""The messages that each queue delivers."""


class Hit(NamedTuple):
    """A bit, and the record that holds it."""

    path: str
    bit: int
    record: SoundRecord | None
    """The record; None in a file without records."""

    def __str__(self) -> str:
        record = "no record" if self.record is None else f"{self.record.kind.name} at {self.record.offset}"
        return f"bit {self.bit % 8} of byte {self.bit // 8} of {self.path}: {record}"


class FlippedStore:
    """A store, and copies of it with one bit flipped."""

    def __init__(self, seed: int, *, orderly: bool) -> None:
        self.rng = Random(seed)
        self.orderly = orderly
        world = self._world = World(seed)
        world.run(STEPS)
        world.settle_down()
        if orderly:
            world.conclude()
        else:
            drain(world.storage, world.now)
        assert isinstance(world.disk.disk, MemoryDisk)
        self.disk = world.disk.disk
        self.disk.sync_everything()
        self.content = self._content(self._started(self._copy()))
        self._files = self._by_kind()
        self._numbers_of_ids = self._stored()

    def _by_kind(self) -> dict[str, list[str]]:
        """The files that have any bytes, by kind."""
        kinds: dict[str, list[str]] = {}
        for path in self.disk.paths:
            if self.disk.size(path):
                folder = path.split("/")[0]
                kinds.setdefault(path if path.endswith((MARKS, SNAPSHOT)) else folder, []).append(path)
        return kinds

    def _stored(self) -> dict[int, int]:
        """Which message the message store has under each id."""
        numbers = {}
        for path in self._files.get("msg_store_persistent", ()):
            for record in self._records(path):
                body_id, body = split_body(record.payload)
                numbers |= dict.fromkeys([body_id], *numbers_in(body))
        return numbers

    # --- one flip

    def choose(self) -> Hit:
        """Choose any bit."""
        paths = self._files[self.rng.choice(sorted(self._files))]
        path = self.rng.choices(paths, [self.disk.size(path) for path in paths])[0]
        records = [] if path == CHECKPOINT else self._records(path)
        size = records[-1].end if path.endswith(MARKS) else self.disk.size(path)  # room for marks is no part of a store
        bit = self.rng.randrange(8 * size)
        record = next((record for record in records if record.offset <= bit // 8 < record.end), None)
        return Hit(path, bit, record)

    def flip(self, hit: Hit) -> str:
        """Flip the bit; returns the result, as listed above. Raises AssertionError for any other."""
        if hit.record is not None:
            self._check_tells(hit)
        became = self._start_without_salvage(hit)
        salvaged = self._content(self._started(self._flipped(hit), salvage=True))
        self._compare(hit, salvaged)
        return became

    def _check_tells(self, hit: Hit) -> None:
        disk = self._flipped(hit)
        folder = hit.path.split("/")[0]
        (lane,) = [lane for lane, folders in LANE_FOLDERS.items() if folder in folders]
        damaged = [
            entry
            for entry in entries_of_file(disk, hit.path, read_marks(disk, lane))
            if entry.verdict != EntryVerdict.SOUND
        ]
        assert hit.record is not None
        ends = {hit.record.end}
        if hit.path.endswith(MARKS) and hit.record == self._records(hit.path)[-1]:
            ends.add(disk.size(hit.path))  # without its header, the last mark cannot be told from the room behind it
        (entry,) = damaged
        assert entry.offset == hit.record.offset, entry
        assert entry.end in ends, entry

    def _start_without_salvage(self, hit: Hit) -> str:
        disk = self._flipped(hit)
        rebuilt = hit.path == CHECKPOINT and read_checkpoint(disk, oldest=0, newest=10**6) is None
        try:
            world = self._started(disk)
        except StoreDamaged as damage:
            self._names(hit, damage)
            return "refused"
        rebuilt |= hit.path == SNAPSHOT and bool(world.storage.quorum.problems)
        try:
            content = self._content(world)
        except StoreDamaged as damage:
            self._names(hit, damage)
            return "refused when read"
        if self._passed_over(world):
            self._compare(hit, content)
            return "passed over"
        assert content == self.content
        assert rebuilt or (hit.record is not None and (self.orderly or _may_stay_unread(hit.path, hit.record)))
        return "rebuilt" if rebuilt else "found by check"

    def _names(self, hit: Hit, damage: StoreDamaged) -> None:
        assert hit.record is not None
        assert hit.path in str(damage), damage
        assert str(hit.record.offset) in str(damage), damage

    def _passed_over(self, world: World) -> bool:
        (row,) = world.broker.snapshot("queues", "stream")
        return bool(row["damaged_records"])

    def _compare(self, hit: Hit, content: Content) -> None:
        """Check that no message is missing but those of the record, and that none is back but those that the record
        settled."""
        about = self._messages(hit.record) if hit.record is not None else set()
        settles = hit.record is not None and hit.record.kind in (RecordKind.SETTLE, RecordKind.COMMAND)
        for subject in self._world.subjects:
            before, after = set(self.content[subject.name]), content[subject.name]
            missing, back = before - set(after), set(after) - before
            assert missing <= about, f"{subject.name} has lost {sorted(missing - about)[:20]}"
            assert not back or settles, f"{subject.name} has got back {sorted(back)[:20]}"
            assert back <= subject.ledger.gone, f"{subject.name} has {sorted(back)[:20]}"
            assert sorted(set(after)) == list(after), f"{subject.name} is out of order"

    def _messages(self, record: SoundRecord) -> set[int]:
        if record.kind is RecordKind.PUBLISH_STORED:
            ids = decode_published(record.kind, record.offset, record.payload, {}).ids or ()
            return {self._numbers_of_ids[body_id] for body_id in ids if body_id in self._numbers_of_ids}
        return numbers_in(record.payload)

    # --- disks and brokers

    def _records(self, path: str) -> list[SoundRecord]:
        size = self.disk.size(path)
        records = list(scan(lambda offset, length: self.disk.read(path, offset, length), size))
        return [record for record in records if isinstance(record, SoundRecord)]

    def _copy(self) -> MemoryDisk:
        return self.disk.power_cut(self.rng)  # everything is synced, so no message is lost

    def _flipped(self, hit: Hit) -> MemoryDisk:
        disk = self._copy()
        disk.flip_bit(hit.path, hit.bit)
        return disk

    def _started(self, disk: MemoryDisk, *, salvage: bool = False) -> World:
        world = copy(self._world)
        world.disk = FaultyDisk(disk)
        world.start(SALVAGE if salvage else SETTINGS)
        return world

    def _content(self, world: World) -> Content:
        return {subject.name: [one.number for one in world.read_all(subject)] for subject in world.subjects}


def _may_stay_unread(path: str, record: SoundRecord) -> bool:
    """True when a start that reads everything that matters may skip the record."""
    is_head = record.kind is RecordKind.STREAM_CHUNK and record.payload[0] == HEAD_TAG
    return is_head or record.kind is RecordKind.MARK or path.startswith(TRANSIENT)


def flip_many(flips: int, seed: int) -> Counter[str]:
    """Flip bits in several stores; returns the results. Raises AssertionError, which names the flip."""
    became: Counter[str] = Counter()
    done = 0
    while done < flips:
        store = FlippedStore(seed + done, orderly=done // FLIPS_PER_STORE % 2 == 1)
        for _ in range(min(FLIPS_PER_STORE, flips - done)):
            hit = store.choose()
            try:
                became[store.flip(hit)] += 1
            except Exception as error:
                error.add_note(f"store {seed + done}, {'orderly' if store.orderly else 'killed'}, {hit}")
                raise
        done += FLIPS_PER_STORE
    return became
