"""Errors that stop the store or prevent its start. The engine's errors are in :mod:`core.errors`."""

import errno


class StoreFailure(Exception):
    """The disk has failed while a lane was writing. No message of the lane may be confirmed any more, and the process
    ends.

    After a failed sync the contents of the disk are unknown. A second sync would succeed without meaning anything,
    because the system reports such an error once and drops the pages.
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
    """A write found no space. It may be repeated unchanged: it overwrites what was written of it."""

    def __init__(self, path: str) -> None:
        super().__init__(f"no space in the store for {path!r}")
        self.path = path


class StoreRefused(Exception):
    """The data folder cannot be used: it belongs to another program, is newer, locked or unreadable. It was not
    changed."""


class StoreUnavailable(StoreRefused):
    """The data folder cannot be used now, but a later start may succeed: another process uses it, or the disk is full
    or fails."""


def refusal(error: OSError, text: str) -> StoreRefused:
    """Return the error for a start that failed with an error of the operating system."""
    lasting = (PermissionError, NotADirectoryError, IsADirectoryError)
    return StoreRefused(text) if isinstance(error, lasting) or error.errno in _LASTING else StoreUnavailable(text)


_LASTING = frozenset({errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""Errors that last until an operator changes something."""


class StoreDamaged(Exception):
    """Records that were synced are damaged. With ``store.salvage`` the broker starts without them."""
