"""The message stores: large bodies, each stored once for all queues that hold the message.

There are two. The persistent store is kept over a start; the transient store, with bodies that were only paged out, is
emptied. A body is appended once and gets an id; queue indexes hold ids. Files ``<n>.rdq`` are append-only, the lowest
number is the oldest. A file is full at ``msg_store_file_size_limit``. A file without live bodies is removed.

Invariants:

- References are counted in memory only; a start counts them again from the queue indexes.
- An id is never used twice, even after a power cut, because its high bits are the generation of its start. So an
  outdated index entry can at worst name a missing body, never a wrong one.
- A body is *flying* until the next batch is taken. If its last reference is released before, it is never written.
- A file is removed only when the settlements that made its bodies garbage are synced, and the copies of its live
  bodies.

Memory: one dictionary entry for each body, its value packed into one integer: about 150 bytes.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.message import Run
from core.store.errors import StoreDamaged
from core.store.places import TRANSIENT, store_file
from core.store.record import RecordKind, record_bytes
from core.store.staging import Staging

NO_BODY = 0
"""An id that no body gets; recovery fills holes with it."""
_ID_BYTES = 8
_GENERATION_SHIFT = 40
"""The position of the generation in an id: each start has 2^39 ids for each store. With fewer than 2^20 starts an id
takes 32 bytes of memory, else 36."""
_SIZE_BITS = 32
_OFFSET_BITS = 40
_SIZE_MASK = (1 << _SIZE_BITS) - 1
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
_FILE_SHIFT = _OFFSET_BITS + _SIZE_BITS


@dataclass(slots=True)
class FileSummary:
    """One file of a message store, in bytes of whole records."""

    total: int = 0
    live: int = 0


@dataclass(slots=True)
class StoreState:
    """The state of a message store at a start; for the packed places see :func:`pack_place`."""

    current: int = 0
    """The number of the file to append to."""
    files: dict[int, FileSummary] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)
    references: dict[int, int] = field(default_factory=dict)
    """By id, the references of bodies that have more than one."""


class MessageStore:
    """One of the two stores. Used by the event loop only."""

    def __init__(self, folder: str, *, staging: Staging, file_bytes_max: int, state: StoreState | None = None) -> None:
        state = state or StoreState()
        self.folder = folder
        self.file_bytes_max = file_bytes_max
        self.total_bytes = sum(file.total for file in state.files.values())
        self.live_bytes = sum(file.live for file in state.files.values())
        self.cancelled = 0
        """How many bodies were never written, because all their references were released before their batch was
        taken."""
        self._staging = staging
        self._current = state.current
        self._files = state.files
        self._places = state.places
        self._references = state.references
        self._flying: dict[int, bytes] = {}
        self._dead: list[int] = []
        self._next_id = (staging.lane.generation << _GENERATION_SHIFT) + (folder == TRANSIENT)

    @property
    def files(self) -> Mapping[int, FileSummary]:
        """The files by number. The caller must not change them."""
        return self._files

    @property
    def current(self) -> int:
        """The number of the file that is being written, which may not exist yet."""
        return self._current

    def __len__(self) -> int:
        return len(self._places) + len(self._flying)

    def state(self) -> StoreState:
        """Return the state for a clean shutdown to save."""
        assert not self._flying, "bodies that are not written"
        return StoreState(self._current, self._files, self._places, self._references)

    # --- references

    def put(self, body: bytes) -> int:
        """Store a body, with one reference. Returns its id."""
        body_id = self._next_id
        self._next_id += 2
        self._flying[body_id] = body
        if len(self._flying) == 1:
            self._staging.later(self)
        return body_id

    def retain(self, body_id: int) -> bool:
        """Add a reference. Returns False if the store does not have the body any more."""
        if body_id not in self._places and body_id not in self._flying:
            return False
        self._references[body_id] = self._references.get(body_id, 1) + 1
        return True

    def release(self, body_id: int) -> None:
        """Release a reference. A body without references is garbage."""
        references = self._references.get(body_id, 1)
        if references > 2:
            self._references[body_id] = references - 1
        elif references == 2:
            del self._references[body_id]
        elif self._flying.pop(body_id, None) is not None:
            self.cancelled += 1
        else:
            self._discard(self._places.pop(body_id))

    def _discard(self, place: int) -> None:
        """Count the body at this place as garbage."""
        number, _, size = unpack_place(place)
        file = self._files[number]
        file.live -= body_record_bytes(size)
        self.live_bytes -= body_record_bytes(size)
        if not file.live and number != self._current:
            self._bury(number)

    def _bury(self, number: int) -> None:
        """Remove the file with the next batch, which also takes the settlements made so far."""
        self.total_bytes -= self._files.pop(number).total
        self._dead.append(number)
        self._staging.later(self)

    # --- files

    def stage(self) -> None:
        """See :class:`core.store.staging.Stager`."""
        for body_id, body in self._flying.items():
            self._append(body_id, body)
        self._flying.clear()
        for number in self._dead:
            self._staging.lane.remove(store_file(self.folder, number))
        self._dead.clear()

    def move(self, body_id: int, body: bytes) -> None:
        """Append a copy of a live body; the old copy becomes garbage."""
        old = self._places[body_id]
        self._append(body_id, body)
        self._discard(old)

    def _append(self, body_id: int, body: bytes) -> None:
        number = self._current
        file = self._files.get(number)
        if file is None:
            file = self._files[number] = FileSummary()
        self._places[body_id] = pack_place(number, file.total, len(body))
        payload = (body_id.to_bytes(_ID_BYTES, "little"), body)
        self._staging.append(store_file(self.folder, number), file.total, RecordKind.BODY, payload)
        size = body_record_bytes(len(body))
        file.total += size
        file.live += size
        self.total_bytes += size
        self.live_bytes += size
        if file.total >= self.file_bytes_max:
            self._current = number + 1

    def place(self, body_id: int) -> int | None:
        """Return the packed place of a body; None if it is flying or unknown."""
        return self._places.get(body_id)

    def read(self, body_id: int) -> bytes:
        """Read a body. Raises StoreFailure, StoreDamaged."""
        flying = self._flying.get(body_id)
        if flying is not None:
            return flying
        number, offset, size = unpack_place(self._places[body_id])
        path = store_file(self.folder, number)
        payload = self._staging.record(path, offset, body_record_bytes(size))
        if payload[:_ID_BYTES] != body_id.to_bytes(_ID_BYTES, "little"):
            raise StoreDamaged(f"{path} at {offset}: another body than {body_id}")
        return payload[_ID_BYTES:]


class MessageStores:
    """Both stores behind one interface. Ids of the transient store are odd."""

    def __init__(self, persistent: MessageStore, transient: MessageStore) -> None:
        self.persistent = persistent
        self.transient = transient

    def keep(self, run: Run, start: int, stop: int, transient: bool) -> "array[int]":
        """Store these entries of a run; add a reference to those that another queue has stored already. Returns their
        ids."""
        store = self.transient if transient else self.persistent
        known = run.stored_ids
        if known is None:
            known = run.stored_ids = [None] * len(run.entries)
        ids = array("Q")
        for number in range(start, stop):
            body_id = known[number]
            if body_id is None or not store.retain(body_id):
                body_id = known[number] = store.put(run.entries[number])
            ids.append(body_id)
        return ids

    def release(self, body_id: int) -> None:
        """Release a reference."""
        self._of(body_id).release(body_id)

    def read(self, ids: Sequence[int]) -> tuple[list[bytes], int]:
        """Read bodies. Also returns how many reads that took."""
        return [self._of(body_id).read(body_id) for body_id in ids], len(ids)

    def _of(self, body_id: int) -> MessageStore:
        return self.transient if body_id & 1 else self.persistent


def body_record_bytes(size: int) -> int:
    """Return the bytes of a body's record in a file."""
    return record_bytes(_ID_BYTES + size)


def split_body(payload: bytes) -> tuple[int, bytes]:
    """Return id and body of a ``BODY`` record."""
    return int.from_bytes(payload[:_ID_BYTES], "little"), payload[_ID_BYTES:]


def pack_place(number: int, offset: int, size: int) -> int:
    """Pack file number, offset of the record and bytes of the body into one integer."""
    return (number << _FILE_SHIFT) | (offset << _SIZE_BITS) | size


def unpack_place(place: int) -> tuple[int, int, int]:
    """Return file number, offset of the record and bytes of the body."""
    return place >> _FILE_SHIFT, (place >> _SIZE_BITS) & _OFFSET_MASK, place & _SIZE_MASK
