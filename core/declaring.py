"""Declaring again what was deleted a moment ago: removing its many bindings may take some turns."""

from collections.abc import Callable

from core.errors import StillGoing
from core.slices import Found, Walk


def once_gone(declare: Callable[[], Found]) -> Walk[Found]:
    """Call ``declare`` until nothing is left of the old thing of that name, and return its result. Other errors are
    raised."""
    while True:
        try:
            return declare()
        except StillGoing:
            yield
