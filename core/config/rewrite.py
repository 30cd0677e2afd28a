"""The one change that the broker makes to its configuration file: new keys for a password.

Everything else in the file stays as users wrote it. The file is replaced as a whole: a crash leaves the old or the new
one.
"""

import os
import threading
from pathlib import Path

from core.config.access import ScramKeys


class KeysInFile:
    """The keys of users in a configuration file. May be called in any thread."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        """Allows one change at a time, so that none is lost."""

    def replace(self, old: ScramKeys, new: ScramKeys) -> None:
        """Replace a user's keys. Raises OSError, and ValueError when the old keys are not in the file."""
        if self._path is None:
            raise ValueError("there is no configuration file")
        with self._lock:
            path = self._path.resolve(strict=True)  # the file itself, where the path is a symbolic link
            content, line = path.read_bytes(), old.render().encode()
            if content.count(line) != 1:
                raise ValueError(f"the line of this user is not in {path} as it was when the broker read it")
            _replace(path, content.replace(line, new.render().encode()))


def _replace(path: Path, content: bytes) -> None:
    present = path.stat()
    beside = path.with_name(f".{path.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), present.st_mode & 0o7777)
            if (present.st_uid, present.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), present.st_uid, present.st_gid)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
