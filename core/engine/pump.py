"""The only place from which messages move: once per wake-up, over the queues that something happened to.

Verbs leave work behind by touching a queue. A turn then lets each touched queue take on what its stage may,
and serve its consumers. A queue whose budget ran out is touched again for the next turn, so that the others
come first.
"""

from core.clock import Now
from core.engine.confirms import Confirms
from core.engine.queue import Queue


class Pump:
    """The touched queues, in the order of the touch."""

    __slots__ = ("_confirms", "_touched")

    def __init__(self, confirms: Confirms) -> None:
        self._confirms = confirms
        self._touched: dict[Queue, None] = {}

    def touch(self, queue: Queue) -> None:
        """Something happened to this queue that may let messages move."""
        self._touched[queue] = None

    def forget(self, queue: Queue) -> None:
        """The queue is deleted."""
        self._touched.pop(queue, None)

    def turn(self, now: Now) -> bool:
        """One turn for each touched queue. Returns True when work is left for another turn."""
        if not self._touched:
            return False
        touched, self._touched = self._touched, {}
        self._confirms.begin_turn()
        for queue in touched:
            if queue.admit(self._confirms, now):
                self._touched[queue] = None
            queue.dispatch(now)
        self._confirms.end_turn()
        return bool(self._touched)
