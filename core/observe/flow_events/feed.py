"""The flow events of one connection for its own client: a small ring, and the time of the next message.

Activity is sent ten times a second at most, so that a busy connection does not mostly send reports about itself. An
event that a link is blocked, or is not any more, is sent at once.
"""

from collections.abc import Callable
from math import inf

from core.clock import Now
from core.observe.flow_events.packing import Packer
from core.observe.flow_events.ring import RecordRing
from core.observe.flow_events.schema import EventKind, FlowEventRecord

INTERVAL_S = 0.1
URGENT = frozenset({EventKind.BLOCKED, EventKind.UNBLOCKED})


class Feed:
    """The events of one connection, for its own client.

    Events that the client does not fetch in time are dropped and counted.
    """

    __slots__ = ("_clock", "_closed", "_next_due", "_notify", "_packer", "_ready_at", "_tell_due", "_took_at", "ring")

    def __init__(
        self,
        *,
        records_max: int,
        node: str,
        interval_s: float,
        clock: Callable[[], Now],
        notify: Callable[[], None],
        next_due: Callable[[], float],
        tell_due: Callable[[], None],
        closed: Callable[[], None],
    ) -> None:
        """``next_due`` returns when the next account is due, and ``tell_due`` makes the records of due accounts."""
        self.ring = RecordRing(records_max)
        self._packer = Packer(self.ring, node=node, interval_s=interval_s)
        self._clock = clock
        self._notify = notify
        self._next_due = next_due
        self._tell_due = tell_due
        self._closed = closed
        self._took_at = -inf
        self._ready_at = inf

    def put(self, record: FlowEventRecord) -> None:
        """Add a record for the client."""
        now = self._clock().monotonic
        self.ring.put(record)
        if record.kind in URGENT:
            self._ready_at = now
            self._notify()
        else:
            self._ready_at = min(self._ready_at, max(now, self._took_at + INTERVAL_S))

    @property
    def due(self) -> float | None:
        """The monotonic time at which there is something to take; None while nothing is expected."""
        due = self._ready_at if len(self.ring) else max(self._next_due(), self._took_at + INTERVAL_S)
        return None if due == inf else due

    def take(self) -> bytes | None:
        """Take the next packed events; None when there are none."""
        self._tell_due()
        packet = self._packer.take()
        self._took_at = self._clock().monotonic
        self._ready_at = self._took_at if len(self.ring) else inf
        return packet

    def close(self) -> None:
        """End the feed: the client wants no more."""
        self.ring.clear()
        self._closed()
