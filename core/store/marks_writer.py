"""Makes the marks of a lane (:mod:`core.store.marks`), without I/O: the contents and the place of the next mark.

The lane asks for a mark with a write batch, or for a mark that announces removals with a sync. Two workers write them
to the same file, but at different offsets, so that no byte is written twice.
"""

from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from core.store.marks import ROOM_BYTES, Marks, mark, marks_file, outlives, within
from core.store.record import RecordKind, encode

MARKS_BYTES_MAX = 2**20
"""A file of marks is full at 1 MiB: some 10,000 marks of a few files each."""
WHOLE_SHARE = 4
"""Or at this multiple of the size of its first mark, which names every file, if that is more. So the first mark is at
most a quarter of the file."""
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


class MarksWriter:
    """The marks of one lane and one start. Used by the event loop only."""

    def __init__(self, lane: str, generation: int, found: Marks) -> None:
        """``found``: the marks that the start has begun, or empty ones."""
        self.definitions = found.definitions
        """The generation of the definitions. The code that changes definitions sets it."""
        self.path = marks_file(lane, found.number)
        """The file of the next mark."""
        self.end = found.end
        self.beginning = False
        """Whether the batch that begins a file is out. Until it is written, removals cannot be announced."""
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

    def proven(self, path: str) -> int:
        """Return the synced length of a file; -1 for an unknown file."""
        return self._proven.get(path, -1)

    def synced(self, files: Mapping[str, int], leaving: Container[str]) -> None:
        """Note the synced length of files. Files that are ``leaving``, or in a folder that is, are ignored."""
        for path, end in files.items():
            if outlives(path) and not (leaving and within(path, leaving)):
                self._proven[path] = self._news[path] = end

    def next(self, batch: int) -> Mark:
        """Return the mark for this write batch."""
        news, self._news = self._news, {}
        if self.end < self._full:
            return self._mark(batch, files=news)
        if self._gone:
            self._proven = {path: end for path, end in self._proven.items() if not within(path, self._gone)}
            self._gone.clear()
        full = self.path if self._number else None
        self._number += 1
        self.path = marks_file(self._lane, self._number)
        self.end = 0
        begun = self._mark(batch, files=self._proven, whole=True)
        self._full = max(MARKS_BYTES_MAX, WHOLE_SHARE * begun.end)
        self.beginning = True
        begun.chunks.append(bytes(ROOM_BYTES))
        return begun._replace(full=full)

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
        whole: bool = False,
        synced: int = 0,
    ) -> Mark:
        synced = synced or self.synced_batch
        payload = mark(
            synced=(self._generation, synced) if synced else self._synced_before,
            files=files,
            left=left,
            whole=whole,
            everywhere=self._everywhere,
            definitions=self.definitions,
        )
        chunks = encode(RecordKind.MARK, (payload,), self._generation, batch)
        offset = self.end
        self.end += sum(map(len, chunks))
        return Mark(self.path, offset, self.end, chunks)
