"""The task that writes the audit log, and the files that it writes: one thread at a time, never the event loop.

Records are gathered for a moment, written together and synced. A file that is full is renamed, and the files before it
too. When a write fails, its records are kept and written again a second later; meanwhile others wait in the queue of
:class:`core.access.audit.AuditLog`, which is bounded. The failure is logged once, and a notice is on until a write
succeeds. The broker goes on.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from math import inf
from pathlib import Path

import trio
from structlog.typing import FilteringBoundLogger

from core.access.audit import WINDOW_SECONDS, AuditLog, AuditRecord, encode_record
from core.clock import Now
from core.config.audit import AuditSettings
from core.errors import Invalid
from core.store.disk import Disk, FolderDisk
from core.version import headgate_version

FILE_MODE = 0o600
BATCH_RECORDS_MAX = 1000
"""Records that one write takes: about 1 MiB."""
GATHER_SECONDS = 0.1
"""How long records are gathered before they are written: at most ten syncs a second share the disk with the store."""
RETRY_SECONDS = 1.0

InThread = Callable[[Callable[[list[AuditRecord]], None], list[AuditRecord]], Awaitable[None]]


class AuditFiles:
    """The file of the audit log, and the full ones before it, on one disk. Every call blocks, and may raise OSError.

    Nothing is remembered between two calls, so another program may rename or remove the files at any time.
    """

    def __init__(self, disk: Disk, name: str, *, size_max: int, files_max: int) -> None:
        self._disk = disk
        self._name = name
        self._size_max = size_max
        self._files_max = files_max

    def append(self, records: list[AuditRecord]) -> None:
        """Write and sync records, and take those out of the list that are written. After an error the file is as it was
        before the last write, as far as the disk allows."""
        lines = [encode_record(record) for record in records]
        while lines:
            size = self._size()
            room = self._size_max - size
            if size and len(lines[0]) > room:
                self._rotate()
                continue
            fitting = list(_fitting(lines, room))
            self._write(size, fitting)
            del lines[: len(fitting)]
            del records[: len(fitting)]

    def _size(self) -> int:
        try:
            return self._disk.size(self._name)
        except FileNotFoundError:
            return 0

    def _write(self, size: int, lines: Sequence[bytes]) -> None:
        torn = bool(size) and self._disk.read(self._name, size - 1, 1) != b"\n"
        try:
            self._disk.write(self._name, size, [b"\n", *lines] if torn else lines)
            self._disk.sync(self._name)
        except OSError:
            with suppress(OSError):
                self._disk.truncate(self._name, size)
            raise

    def _rotate(self) -> None:
        """Give each file the next number; the oldest is deleted."""
        names = [self._name, *(f"{self._name}.{number}" for number in range(1, self._files_max))]
        there = set(self._disk.names(""))
        self._disk.unlink(names[-1])
        for old, new in reversed([*pairwise(names)]):
            if old in there:
                self._disk.rename(old, new)
        self._disk.sync_folder("")


def _fitting(lines: Sequence[bytes], room: int) -> Iterator[bytes]:
    """The first lines, as many as there is room for, and one at least."""
    yield lines[0]
    room -= len(lines[0])
    for line in lines[1:]:
        room -= len(line)
        if room < 0:
            return
        yield line


class AuditWriter:
    """Writes the records of one audit log."""

    def __init__(
        self,
        audit: AuditLog,
        files: AuditFiles,
        *,
        log: FilteringBoundLogger,
        in_thread: InThread = trio.to_thread.run_sync,
    ) -> None:
        """``in_thread`` runs a blocking function."""
        self.audit = audit
        self.notice: Callable[[bool, str], None] = lambda on, cause: None
        """Turns the notice on and off, with its cause."""
        self._in_thread = in_thread
        self._files = files
        self._log = log
        self._came = trio.Event()
        self._failing = False
        self._batch: list[AuditRecord] = []
        """Records that were taken and are not written yet."""
        audit.wake = lambda: self._came.set()

    async def run(self, turn: Callable[[], None]) -> None:
        """Write what comes, until cancelled."""
        while True:
            with trio.move_on_after(WINDOW_SECONDS if self.audit.is_counting else inf):
                await self._came.wait()
            await trio.sleep(GATHER_SECONDS)
            self._came = trio.Event()
            self.audit.end_windows()
            await self._write_all()

    async def _write_all(self) -> None:
        while self._take():
            try:
                await self._in_thread(self._files.append, self._batch)
            except OSError as error:
                self._failed(error)
                await trio.sleep(RETRY_SECONDS)
            else:
                self._written()

    def close(self) -> None:
        """Write what waits, within the caller: for the end of the process. What the disk does not take is lost."""
        self.audit.end_windows(at_once=True)
        while self._take():
            try:
                self._files.append(self._batch)
            except OSError as error:
                self._failed(error)
                return
            self._written()

    def _take(self) -> bool:
        self._batch = self._batch or self.audit.take(BATCH_RECORDS_MAX)
        return bool(self._batch)

    def _written(self) -> None:
        self._batch = []
        if self._failing:
            self._failing = False
            self.notice(False, "")

    def _failed(self, error: OSError) -> None:
        if not self._failing:
            self._failing = True
            reason = f"the audit log cannot be written: {error.strerror or error}"
            self._log.error("audit-not-written", reason=reason)
            self.notice(True, reason)


@contextmanager
def open_audit(
    settings: AuditSettings, *, clock: Callable[[], Now], log: FilteringBoundLogger
) -> Iterator[AuditWriter | None]:
    """Yield the writer of the audit log; None if the settings ask for none. It records the beginning and the end of the
    block. Raises Invalid for a folder that cannot be used."""
    if settings.file is None:
        yield None
        return
    path: Path = settings.file
    try:
        disk = FolderDisk(path.parent, 0, file_mode=FILE_MODE)  # no file stays open, so that it may be renamed
    except OSError as error:
        raise Invalid(f"audit.file: the folder {path.parent} cannot be used: {error.strerror}") from None
    files = AuditFiles(disk, path.name, size_max=settings.file_size_max, files_max=settings.files_max)
    writer = AuditWriter(AuditLog(settings, clock=clock), files, log=log)
    writer.audit.tell("started", version=headgate_version())
    try:
        yield writer
    finally:
        writer.audit.tell("stopped")
        writer.close()
        disk.close()
