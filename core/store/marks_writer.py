"""Makes the marks of a lane (:mod:`core.store.marks`), without I/O: the contents and the place of the next mark.

The lane asks for a mark with a write batch, or for a mark that announces removals with a sync. Two workers write them
to the same file, but at different offsets, so that no byte is written twice.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from core.store.marks import ROOM_BYTES, Marks, mark, marks_file, outlives, whole_mark, within
from core.store.record import RecordKind, encode

MARKS_BYTES_MAX = 2**20
"""A file of marks is full at 1 MiB: some 10,000 marks of a few files each."""
WHOLE_SHARE = 4
"""Or at this multiple of the size of its first mark, which names every file, if that is more. So the first mark is at
most a quarter of the file."""
NAMES_IN_TURN_MAX = 1_000
"""A mark that begins a file and names more files is encoded in a worker only: that takes 1 us for each, and 2 us where
folders have gone."""
_NOTHING: Mapping[str, int] = MappingProxyType({})


class Mark(NamedTuple):
    """One mark to be written to a file of marks."""

    path: str
    offset: int
    end: int
    """The offset after the record. In a new file, room follows."""
    chunks: list[bytes]
    full: str | None = None
    """The full file that the new file replaces; None if the mark does not begin a file."""
    encode: Callable[[], None] | None = None
    """Adds the chunks of a mark that begins a file, in the worker that writes it; idempotent."""


class _FirstMark:
    """The mark that begins a file. While it is out, nothing changes the files that it names."""

    def __init__(self, files: dict[str, int], gone: Container[str], payload: Callable[..., bytes]) -> None:
        """``gone``: folders whose files it does not name. ``payload`` encodes the files."""
        self.files = files
        self.chunks: list[bytes] = []
        self.end = 0
        self._gone = gone
        self._payload = payload

    def encode(self, generation: int, batch: int) -> None:
        if not self.chunks:
            if self._gone:
                self.files = {path: end for path, end in self.files.items() if not within(path, self._gone)}
            chunks = encode(RecordKind.MARK, (self._payload(files=self.files),), generation, batch)
            self.end = sum(map(len, chunks))
            self.chunks += (*chunks, bytes(ROOM_BYTES))


class MarksWriter:
    """The marks of one lane and one start. Used by the event loop only."""

    def __init__(self, lane: str, generation: int, found: Marks) -> None:
        """``found``: the marks that the start has begun, or empty ones."""
        self.definitions = found.definitions
        """The generation of the definitions. The code that changes definitions sets it."""
        self.path = marks_file(lane, found.number)
        """The file of the next mark."""
        self.end = found.end
        self._first: _FirstMark | None = None
        self.synced_batch = 0
        self._lane = lane
        self._generation = generation
        self._number = found.number
        self._full = max(MARKS_BYTES_MAX, WHOLE_SHARE * found.end) if found.number else 0
        """The offset at which the file is full. Without a file, the first mark begins one and names all files."""
        self._synced_before = found.synced
        """Generation and batch up to which the lane was synced before this start; used until a batch of this start is
        synced."""
        self._everywhere = found.everywhere
        self._proven = found.files
        """Every file that outlives the broker and was synced, with its synced length."""
        self._news: dict[str, int] = {}
        """The entries of it that are in no mark yet."""
        self._gone: set[str] = set()
        """Removed folders that this file of marks has announced. Their files may still be in ``_proven``."""
        self._left: list[str] = []
        """The last announced files and folders, until the announcement is known to be written."""

    @property
    def beginning(self) -> bool:
        """Whether the batch that begins a file is out. Until it is written, removals cannot be announced."""
        return self._first is not None

    @property
    def next_is_large(self) -> bool:
        """Whether the next mark begins a file and names very many."""
        return self.end >= self._full and len(self._proven) > NAMES_IN_TURN_MAX

    def proven(self, path: str) -> int:
        """Return the synced length of a file; -1 for an unknown file."""
        return self._news.get(path, self._proven.get(path, -1))

    def synced(self, files: Mapping[str, int], leaving: Container[str]) -> None:
        """Note the synced length of files. Files that are ``leaving``, or in a folder that is, are ignored."""
        news = {path: end for path, end in files.items() if outlives(path) and not (leaving and within(path, leaving))}
        self._news |= news
        if self._first is None:
            self._proven |= news

    def next(self, batch: int) -> Mark:
        """Return the mark for this write batch."""
        news, self._news = self._news, {}
        if self.end < self._full:
            return self._mark(batch, files=news)
        full = self.path if self._number else None
        self._number += 1
        self.path = marks_file(self._lane, self._number)
        gone, self._gone = self._gone, set()
        payload = partial(whole_mark, synced=self._synced(), everywhere=self._everywhere, definitions=self.definitions)
        self._first = first = _FirstMark(self._proven, gone, payload)
        return Mark(self.path, 0, 0, first.chunks, full, partial(first.encode, self._generation, batch))

    def has_begun(self) -> None:
        """The mark that begins a file is written."""
        assert self._first is not None
        self._proven, self.end = self._first.files, self._first.end
        self._proven |= self._news
        self._full = max(MARKS_BYTES_MAX, WHOLE_SHARE * self.end)
        self._first = None

    def announcement(self, removals: Sequence[tuple[str, bool]], batch: int, *, synced: int) -> Mark | None:
        """Return the mark that announces removals (path, and whether it is a folder); None if no mark names any of
        them. ``synced``: the last batch that will be synced when the mark is written."""
        left, self._left = self._left, []
        for path, is_folder in removals:
            if self._proven.pop(path, None) is not None:
                self._news.pop(path, None)
                left.append(path)
            elif is_folder and outlives(path):
                self._gone.add(path)
                left.append(path)
        if not left or not self._full:
            return None
        if self._gone and self._news:
            self._news = {path: end for path, end in self._news.items() if not within(path, self._gone)}
        self._left = left
        return self._mark(batch, left=left, synced=synced)

    def announced(self) -> None:
        """The last announcement is written and synced."""
        self._left = []

    def _mark(
        self,
        batch: int,
        *,
        files: Mapping[str, int] = _NOTHING,
        left: Sequence[str] = (),
        synced: int = 0,
    ) -> Mark:
        payload = mark(
            synced=self._synced(synced),
            files=files,
            left=left,
            everywhere=self._everywhere,
            definitions=self.definitions,
        )
        chunks = encode(RecordKind.MARK, (payload,), self._generation, batch)
        offset = self.end
        self.end += sum(map(len, chunks))
        return Mark(self.path, offset, self.end, chunks)

    def _synced(self, batch: int = 0) -> tuple[int, int]:
        """Generation and batch up to which the lane is synced, or will be with this batch."""
        batch = batch or self.synced_batch
        return (self._generation, batch) if batch else self._synced_before
