"""Compaction: frees the space of garbage in a message store.

When a store has at least three files and its share of garbage is above a limit, the sparsest file is emptied: its live
bodies are appended to the newest file like new ones, and the file is removed when the copies are synced. So a body may
be on disk twice for a while, but is never missing. A sparse neighbour is emptied too if the live bodies of both fit
into one file.

Bound: with a limit of 0.5, at least half of a store is live in the long run, except for the contents of two files.
While the limit is exceeded, either a file other than the newest has garbage, or all garbage is in the newest.

The work is done in steps of about 1 MiB, so that the event loop is never blocked for long. Damaged bodies are not
copied: a file with a damaged live body stays, and a reader of that body gets an error.
"""

from collections.abc import Iterator, Mapping

from core.store.message_store import FileSummary, MessageStore, split_body, unpack_place
from core.store.places import store_file
from core.store.record import Damaged, SoundRecord
from core.store.staging import Staging

FILES_MIN = 3
"""Stores with fewer files are not compacted (row 4.7)."""

STEP_BYTES = 1 << 20
"""Bytes of a file read in one step: 1 ms from the system's cache, 10 ms from a slow disk."""

STAGED_BYTES_MAX = 8 << 20
"""Compaction pauses while more bytes than this wait for the disk, because new messages come first."""


def choose(
    files: Mapping[int, FileSummary], *, newest: int, file_bytes_max: int, garbage_fraction: float
) -> tuple[int, ...]:
    """Return the files to be emptied next, ascending; none if it is not worthwhile."""
    total = sum(file.total for file in files.values())
    live = sum(file.live for file in files.values())
    if len(files) < FILES_MIN or total - live <= garbage_fraction * total:
        return ()
    numbers = sorted(number for number, file in files.items() if number != newest and file.live < file.total)
    if not numbers:
        return ()
    share = {number: files[number].live / files[number].total for number in numbers}
    at = min(range(len(numbers)), key=lambda place: share[numbers[place]])
    sparsest = numbers[at]
    for neighbour in numbers[max(0, at - 1) : at] + numbers[at + 1 : at + 2]:
        if share[neighbour] <= 1 - garbage_fraction and files[sparsest].live + files[neighbour].live <= file_bytes_max:
            return (min(sparsest, neighbour), max(sparsest, neighbour))
    return (sparsest,)


class Compactor:
    """Empties sparse files of one message store, step by step."""

    def __init__(self, store: MessageStore, staging: Staging, *, garbage_fraction: float) -> None:
        self._store = store
        self._staging = staging
        self._garbage_fraction = garbage_fraction
        self._chosen: list[int] = []
        self._number = -1
        self._records: Iterator[SoundRecord | Damaged] | None = None
        self._damaged: set[int] = set()
        """Files that cannot be emptied, because a live body is damaged."""

    def step(self) -> bool:
        """Do about 1 MiB of the work. Returns True if there is more to do. Raises StoreFailure."""
        if self._staging.lane.staged_bytes > STAGED_BYTES_MAX:
            return self._records is not None
        if self._records is None and not self._begin():
            return False
        self._copy()
        return True

    def _begin(self) -> bool:
        """Begin with the next file. Returns False if there is none."""
        store = self._store
        if not self._chosen:
            if store.total_bytes - store.live_bytes <= self._garbage_fraction * store.total_bytes:
                return False
            self._chosen += choose(
                {number: file for number, file in store.files.items() if number not in self._damaged},
                newest=store.current,
                file_bytes_max=store.file_bytes_max,
                garbage_fraction=self._garbage_fraction,
            )
        while self._chosen:
            number = self._chosen.pop(0)
            path = store_file(store.folder, number)
            if number in store.files and self._staging.is_written(path):
                self._number = number
                self._records = self._staging.records(path, store.files[number].total)
                return True
        return False

    def _copy(self) -> None:
        """Copy live bodies of the file until the step is complete, the file ends, or none of its bodies is live any
        more."""
        assert self._records is not None
        seen = 0
        while seen < STEP_BYTES and self._number in self._store.files:
            record = next(self._records, None)
            if record is None:
                self._damaged.add(self._number)
                break
            seen += record.end - record.offset
            if isinstance(record, SoundRecord):
                self._move(record)
        else:
            if self._number in self._store.files:
                return
        self._records = None

    def _move(self, record: SoundRecord) -> None:
        body_id, body = split_body(record.payload)
        place = self._store.place(body_id)
        if place is not None and unpack_place(place)[:2] == (self._number, record.offset):
            self._store.move(body_id, body)
