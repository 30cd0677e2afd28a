"""What ends the store's work, or forbids it to begin. The engine's refusals are in :mod:`core.errors`."""

import errno


class StoreFailure(Exception):
    """The disk has failed a lane while serving. Nothing of the lane may be confirmed any more; the process ends.

    After a failed sync nobody knows what the disk holds, and asking again would be answered "all is well": the
    system reports such an error once and drops the pages.
    """

    def __init__(self, operation: str, path: str, error: OSError) -> None:
        super().__init__(operation, path, error)
        self.operation = operation
        self.path = path
        self.error = error

    def __str__(self) -> str:
        name = errno.errorcode.get(self.error.errno or 0, "unknown error")
        return (
            f"the store cannot {self.operation} {self.path!r}: {self.error.strerror} ({name}). Nothing is confirmed "
            "any more and the broker ends; check the disk and the data folder, then start it again"
        )


class NoSpace(Exception):
    """A write found no room. It may be run again as it is: what was written of it is written over."""

    def __init__(self, path: str) -> None:
        super().__init__(f"no space in the store for {path!r}")
        self.path = path


class StoreRefused(Exception):
    """The data folder cannot be used: it is another's, newer, locked or unreadable. It was left as it was."""


class StoreUnavailable(StoreRefused):
    """It cannot be used now, and a later start may find it usable: another process has it, or the disk is full or
    fails."""


def refusal(error: OSError, text: str) -> StoreRefused:
    """What a start says that an error of the operating system has stopped."""
    lasting = (PermissionError, NotADirectoryError, IsADirectoryError)
    return StoreRefused(text) if isinstance(error, lasting) or error.errno in _LASTING else StoreUnavailable(text)


_LASTING = frozenset({errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""What stays so until somebody changes it."""


class StoreDamaged(Exception):
    """Records that were synced are damaged. With ``store.salvage`` the broker starts without them."""
