"""Declaring what was deleted a moment ago: where many bindings went with it, it takes a moment until they are gone."""

from collections.abc import Callable

from core.errors import StillGoing
from core.slices import Found, Walk


def once_gone(declare: Callable[[], Found]) -> Walk[Found]:
    """What a declaration returns, as soon as nothing is left of what had its name. What else it raises is raised."""
    while True:
        try:
            return declare()
        except StillGoing:
            yield
