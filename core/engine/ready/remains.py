"""What deleted and purged queues leave behind in memory, freed some objects at a time.

To free 300,000 objects takes 50 to 100 ms, however little Python code asks for it.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

Objects = list[Any] | deque[Any]
LetGo = Callable[[Objects], None]
"""Takes objects over that their owner no longer needs, and frees them later."""

FREED_AT_ONCE = 2_000
"""Objects freed in one step: 0.3 to 1 ms."""

FREE_WORK = 200
"""The cost of such a step, in units of :mod:`core.work`."""


class Remains:
    """The objects that are still to be freed."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left: list[Objects] = []
        """Callers may read it, to save a call when it is empty."""

    def let_go(self, objects: Objects) -> None:
        """Take over these objects, if they are too many to be freed at once. Their owner must not use them any more."""
        if len(objects) > FREED_AT_ONCE:
            self.left.append(objects)

    def free_some(self) -> int:
        """Free the next objects, FREED_AT_ONCE at most. Returns the cost in units of :mod:`core.work`."""
        if not self.left:
            return 0
        objects = self.left[-1]
        for _ in range(min(FREED_AT_ONCE, len(objects))):
            objects.pop()
        if not objects:
            self.left.pop()
        return FREE_WORK
