"""When messages, deliveries and unused queues are due. Arithmetic only; the queue does what follows from it.

A message expires by its own time-to-live or the queue's, whichever is lower. Only the first message of a shelf is ever
looked at: one that expired behind others goes when it comes to the front, and is handed to no consumer. Expiry times
are wall-clock seconds, since they survive a restart. Everything else is in monotonic seconds.
"""

from collections import deque
from math import inf

from core.clock import Now
from core.engine.stretch import Stretch
from core.message import Attributes

EXPIRY_GRAIN_MS = 10
"""Expiry times are rounded up to this, so that messages which follow each other closely stay in one run. As the
backings' grain of arrival times: far finer than anybody can tell."""

TIMEOUT_GRAINS = 16
"""Deliveries within this part of a consumer's time-out share one mark: 17 marks are enough for any number of them,
and none is taken back later than this part of the time-out."""


def expires_at(attributes: Attributes, message_ttl_ms: int | None, now: Now) -> float | None:
    """When a message that is taken on now expires (wall-clock seconds); None for never.

    A time-to-live of 0 is over at once: such a message reaches only a consumer that waits for it.
    """
    ttl_ms = attributes.ttl_ms
    if ttl_ms is None or (message_ttl_ms is not None and message_ttl_ms < ttl_ms):
        ttl_ms = message_ttl_ms
    if ttl_ms is None:
        return None
    if ttl_ms == 0:
        return now.wall
    grains = -(-(round(now.wall * 1000) + ttl_ms) // EXPIRY_GRAIN_MS)
    return grains * EXPIRY_GRAIN_MS / 1000


def has_expired(stretch: Stretch, now: Now) -> bool:
    """True for messages that no consumer may have any more."""
    return stretch.expires_at is not None and stretch.expires_at <= now.wall


def monotonic(wall: float, now: Now) -> float:
    """A wall-clock time as a monotonic one, by how the clocks stand now."""
    return now.monotonic + (wall - now.wall)


class Disuse:
    """How long a queue has been without a consumer and without anybody who declared it [x-expires]."""

    __slots__ = ("_since", "expired")

    def __init__(self) -> None:
        self._since: float | None = None
        """None: it has been used since the last look."""
        self.expired = False

    def used(self) -> None:
        """A client declared the queue, or a consumer left it: its time begins anew."""
        self._since = None

    def look(self, expires_ms: int | None, in_use: bool, now: Now) -> float:
        """See whether the time is over. Returns when to look again (monotonic seconds)."""
        if expires_ms is None or in_use:
            self._since = None
            return inf
        if self._since is None:
            self._since = now.monotonic
        deadline = self._since + expires_ms / 1000
        self.expired = now.monotonic >= deadline
        return deadline


class Marks:
    """When the deliveries of one consumer were made, roughly: in marks, not one by one.

    A mark stands for the deliveries below a number that no earlier mark stands for. Marks ascend in both.
    """

    __slots__ = ("_marks", "_timeout")

    def __init__(self, timeout_ms: int) -> None:
        self._timeout = timeout_ms / 1000
        self._marks: deque[tuple[float, int]] = deque()

    def delivered(self, below: int, now: Now) -> None:
        """Deliveries up to before this number have been made, the newest of them now at the latest."""
        marks = self._marks
        if marks and marks[-1][1] >= below:
            return
        if marks and now.monotonic - marks[-1][0] <= self._timeout / TIMEOUT_GRAINS:
            marks[-1] = (marks[-1][0], below)
        else:
            marks.append((now.monotonic, below))

    def overdue(self, now: Now) -> int:
        """Deliveries below this number have been out for too long; they are not asked for again."""
        below = 0
        while self._marks and self.deadline <= now.monotonic:
            below = self._marks.popleft()[1]
        return below

    def clear(self) -> None:
        """All deliveries are settled."""
        self._marks.clear()

    @property
    def deadline(self) -> float:
        """When the oldest mark will be overdue (monotonic seconds); infinity without one."""
        return self._marks[0][0] + self._timeout * (1 + 1 / TIMEOUT_GRAINS) if self._marks else inf
