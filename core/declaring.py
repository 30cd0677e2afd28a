"""Declarations and deletions that take more than the call: what was deleted a moment ago is declared again, and changes
that come together are recorded together."""

from collections.abc import Callable
from typing import Generic

from core.errors import NotFound, PreconditionFailed, StillGoing
from core.slices import Found, Walk


class Recording(Generic[Found]):
    """The result of a change, which is there when the change is on disk."""

    __slots__ = ("_error", "_found", "_then", "done")

    def __init__(self) -> None:
        self.done = False
        self._found: Found
        self._error = ""
        self._then: list[Callable[[], None]] = []

    def when_done(self, then: Callable[[], None]) -> None:
        """Have ``then`` called once the result is there. It must raise nothing."""
        if self.done:
            then()
        else:
            self._then.append(then)

    def _tell(self) -> None:
        waiting, self._then = self._then, []
        for then in waiting:
            then()

    def finish(self, found: Found) -> "Recording[Found]":
        """The change is on disk and made; this is its result. Returns the recording."""
        self.done = True
        self._found = found
        self._tell()
        return self

    def fail(self, error: str) -> None:
        """The change could not be recorded, and was not made."""
        self.done = True
        self._error = error
        self._tell()

    def result(self) -> Found:
        """The result of the change. Raises StillGoing before it is there, and PreconditionFailed when the change could
        not be recorded."""
        if not self.done:
            raise StillGoing("this change is being recorded; ask again in a moment")
        if self._error:
            raise PreconditionFailed(self._error)
        return self._found

    def walk(self) -> Walk[Found]:
        """Wait until the result is there, and return it. Raises PreconditionFailed."""
        while not self.done:
            yield self.when_done
        return self.result()


def once_gone(declare: Callable[[], Found]) -> Walk[Found]:
    """Call ``declare`` until nothing is left of the old thing of that name, and return its result. Other errors are
    raised."""
    while True:
        try:
            return declare()
        except StillGoing as going:
            yield going.when_over


def once_done(change: Callable[[], Found]) -> Walk[Found | None]:
    """Call ``change`` until it is made, and return its result: None for a removal that was made meanwhile. Other errors
    are raised."""
    is_under_way = False
    while True:
        try:
            return change()
        except StillGoing as going:
            is_under_way = True
            yield going.when_over
        except NotFound:
            if not is_under_way:
                raise
            return None
