"""Writing the marks of a lane (:mod:`core.store.marks`), without I/O: what the next mark says, and where it goes.

The lane asks for a mark with a batch, or for one that announces removals with a sync. Both are written at offsets of
their own, by two workers, in one file: nothing of it is ever written twice.
"""

from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from core.store.marks import ROOM_BYTES, Marks, mark, marks_file, outlives, within
from core.store.record import Kind, encode

MARKS_BYTES_MAX = 2**20
"""Marks go on in another file behind 1 MiB, some 10,000 marks of a few files each."""
WHOLE_SHARE = 4
"""Or behind so many times what it takes to name every file, where that is more: then naming them is a quarter of it."""
_NOTHING: Mapping[str, int] = MappingProxyType({})


class Mark(NamedTuple):
    """Bytes for a file of marks."""

    path: str
    offset: int
    end: int
    """Behind the record; where a file is begun, room follows."""
    chunks: list[bytes]
    full: str | None = None
    """The file that this mark's file takes the place of."""


class MarksWriter:
    """The marks of one lane and one start. Touched by the loop only."""

    def __init__(self, lane: str, generation: int, found: Marks) -> None:
        """``found``: those that the start has begun, or none."""
        self.definitions = found.definitions
        """The generation of the definitions. Whoever changes definitions sets it."""
        self.path = marks_file(lane, found.number)
        """Where the next mark goes."""
        self.end = found.end
        self.beginning = False
        """The batch that begins a file is out: until it is written, removals cannot be announced."""
        self.synced_batch = 0
        self._lane = lane
        self._generation = generation
        self._number = found.number
        self._full = max(MARKS_BYTES_MAX, WHOLE_SHARE * found.end) if found.number else 0
        """Where the file is full. Without a file, the first mark begins one, and names everything."""
        self._synced_before = found.synced
        """How far the lane was known to be synced before this start: what the start keeps, it may write anew first."""
        self._everywhere = found.everywhere
        self._proven = found.files
        """Every file that outlives the broker and was synced, and up to where."""
        self._news: dict[str, int] = {}
        """What of it the marks do not say yet."""
        self._gone: set[str] = set()
        """Folders that this file has said to be gone, with all that is still known of them."""
        self._left: list[str] = []
        """What was to be announced last, until it is known to be written."""

    def proven(self, path: str) -> int:
        """How much of a file is known to be synced; -1 for one that is not known."""
        return self._proven.get(path, -1)

    def synced(self, files: Mapping[str, int], leaving: Container[str]) -> None:
        """So much of each file is synced. Those that are ``leaving``, or in such a folder, come to no mark again."""
        for path, end in files.items():
            if outlives(path) and not (leaving and within(path, leaving)):
                self._proven[path] = self._news[path] = end

    def next(self, batch: int) -> Mark:
        """The mark that goes with this batch."""
        news, self._news = self._news, {}
        if self.end < self._full:
            return self._mark(batch, files=news)
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

    def announcement(self, removals: Sequence[tuple[str, bool]], batch: int) -> Mark | None:
        """The mark that says what is about to go (path, and whether it is a folder); None when no mark names it."""
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
        return self._mark(batch, left=left)

    def announced(self) -> None:
        """The last announcement is written and synced."""
        self._left = []

    def _mark(
        self, batch: int, *, files: Mapping[str, int] = _NOTHING, left: Sequence[str] = (), whole: bool = False
    ) -> Mark:
        payload = mark(
            synced=(self._generation, self.synced_batch) if self.synced_batch else self._synced_before,
            files=files,
            left=left,
            whole=whole,
            everywhere=self._everywhere,
            definitions=self.definitions,
        )
        chunks = encode(Kind.MARK, (payload,), self._generation, batch)
        offset = self.end
        self.end += sum(map(len, chunks))
        return Mark(self.path, offset, self.end, chunks)
