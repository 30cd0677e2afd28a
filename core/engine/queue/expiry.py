"""When messages expire, deliveries time out and unused queues expire. This module only calculates; the queue acts.

A message expires by its own time-to-live or the queue's, whichever is lower. Only the first message of each priority
level (sub-queue) is checked. A message that expires behind others is removed when it comes to the front, and is never
delivered. Expiry times are wall-clock seconds, since they survive a restart. Everything else is in monotonic seconds.
"""

from collections import deque
from math import inf

from core.clock import Now
from core.engine.ready.batch import Batch
from core.engine.ready.sub_queue import SubQueue

EXPIRY_GRAIN_MS = 10
"""Expiry times are rounded up to a multiple of this, so that messages which follow each other closely have the same. It
equals the backings' ``ARRIVAL_GRAIN`` and is far finer than any time-to-live."""

TIMEOUT_GRAINS = 16
"""Deliveries within this fraction (1/16) of a consumer's time-out share one mark. So 17 marks are enough for any number
of deliveries, and each is taken back late by at most this fraction of the time-out."""


def expires_at(ttl_ms: int | None, message_ttl_ms: int | None, now: Now) -> float | None:
    """When a message with this time-to-live that is taken on now expires (wall-clock seconds); None for never.
    ``message_ttl_ms`` is the queue's.

    A time-to-live of 0 expires at once: such a message reaches only a consumer that already waits for it.
    """
    if ttl_ms is None or (message_ttl_ms is not None and message_ttl_ms < ttl_ms):
        ttl_ms = message_ttl_ms
    if ttl_ms is None:
        return None
    if ttl_ms == 0:
        return now.wall
    grains = -(-(round(now.wall * 1000) + ttl_ms) // EXPIRY_GRAIN_MS)
    return grains * EXPIRY_GRAIN_MS / 1000


def has_expired(batch: Batch, now: Now) -> bool:
    """Return whether the first message has expired and may not be delivered any more."""
    expiry = batch.first_expires_at
    return expiry is not None and expiry <= now.wall


def one_end(sub_queue: SubQueue, batch: Batch, now: Now) -> Batch:
    """Of messages that were fetched, keep the first ones that have all expired, or have all not; put the others
    back."""
    expiries = batch.expires_at
    if not isinstance(expiries, list):
        return batch
    first = has_expired(batch, now)
    wall = now.wall
    for place, expiry in enumerate(expiries):
        if (expiry is not None and expiry <= wall) is not first:
            sub_queue.put_back(batch.part(place, len(batch)))
            return batch.part(0, place)
    return batch


def monotonic(wall: float, now: Now) -> float:
    """Convert a wall-clock time to a monotonic one, by the current difference of the two clocks."""
    return now.monotonic + (wall - now.wall)


class Disuse:
    """How long a queue has been unused: no consumer, and no client has declared it [x-expires]."""

    __slots__ = ("_since", "expired")

    def __init__(self) -> None:
        self._since: float | None = None
        """None if the queue was used since the last call of ``look``."""
        self.expired = False

    def used(self) -> None:
        """A client declared the queue, or a consumer left it: the time begins again."""
        self._since = None

    def look(self, expires_ms: int | None, in_use: bool, now: Now) -> float:
        """Set ``expired`` if the queue was unused for too long. Returns when to call again (monotonic seconds)."""
        if expires_ms is None or in_use:
            self._since = None
            return inf
        if self._since is None:
            self._since = now.monotonic
        deadline = self._since + expires_ms / 1000
        self.expired = now.monotonic >= deadline
        return deadline


class DeliveryTimes:
    """The approximate times of one consumer's deliveries, kept as marks instead of one time for each delivery.

    A mark is a time and a delivery number. It stands for all deliveries below the number that no earlier mark covers.
    Marks ascend in time and number. Only the first is asked for its time, so these are no
    :class:`core.waiting.times.Times`.
    """

    __slots__ = ("_marks", "_timeout", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._timeout = timeout_ms / 1000
        self._marks: deque[tuple[float, int]] = deque()

    def delivered(self, below: int, now: Now) -> None:
        """All deliveries below this number have been made by now."""
        marks = self._marks
        if marks and marks[-1][1] >= below:
            return
        if marks and now.monotonic - marks[-1][0] <= self._timeout / TIMEOUT_GRAINS:
            marks[-1] = (marks[-1][0], below)
        else:
            marks.append((now.monotonic, below))

    def overdue(self, now: Now) -> int:
        """Return the number below which all deliveries are overdue, and drop their marks; 0 if none is."""
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
