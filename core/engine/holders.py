"""All consumers that may hold messages of one queue, and for how long.

- *Consumers* are served in turn (``consumers.py``).
- *Getters* take what is ready when they ask for it, behind the consumers, and are not counted among them.
- *Leaving* are those of both that were cancelled and hold something still: they get nothing more, and settle what they
  hold. One that has settled everything is forgotten.

Invariants: an attachment that is not gone is exactly one of these; one that is gone holds nothing.

This module does not know what becomes of messages that a consumer gives back.
"""

from collections.abc import Iterator
from itertools import chain
from math import inf

from core.clock import Now
from core.engine.consumers import Attachment, Consumers
from core.engine.expiry import Marks
from core.engine.stretch import Stretch
from core.errors import EngineError
from core.interface import Cancelled, TakenBack


class Holders:
    """Of one queue; iterating goes over all of them."""

    __slots__ = ("_consumers", "_others", "timed")

    def __init__(self, consumers: Consumers) -> None:
        self._consumers = consumers
        self._others: dict[Attachment, None] = {}
        """Getters, and who is leaving."""
        self.timed = False
        """There is a time-out for some deliveries, or there was one until now: ``mark`` looks at all holders."""

    def __iter__(self) -> Iterator[Attachment]:
        return chain(self._consumers, self._others)

    @property
    def unacknowledged(self) -> int:
        """Messages that they hold."""
        return sum(holder.unsettled.count for holder in self)

    # --- coming and going

    def attach(self, holder: Attachment) -> None:
        """A consumer or getter comes."""
        if holder.options.getter:
            self._others[holder] = None
        else:
            self._consumers.attach(holder)

    def leave(self, holder: Attachment) -> None:
        """It gets nothing more. It may hold something, and then be told to leave once more."""
        if holder.options.getter or holder.detached:
            holder.detached = True
        else:
            self._consumers.detach(holder)
        if holder.unsettled.count:
            self._others[holder] = None
        else:
            self._forget(holder)

    def vacated(self, holder: Attachment) -> bool:
        """It has nothing unsettled. True when another consumer becomes the active one for it."""
        if holder.detached:
            self._forget(holder)
            return False
        return self._consumers.vacated(holder)

    def dissolve(self, error: EngineError) -> None:
        """The queue is deleted."""
        for holder in list(self):
            if not holder.detached:
                holder.mailbox.put(Cancelled(holder, error))
            holder.detached = True
            holder.unsettled.remove_all()
            self._forget(holder)

    def _forget(self, holder: Attachment) -> None:
        holder.gone = True
        self._others.pop(holder, None)

    # --- deliveries that are held too long

    def limit(self, holder: Attachment, *timeouts_ms: int | None) -> None:
        """The lowest of these is the time-out for its deliveries; None for none."""
        given = [timeout for timeout in timeouts_ms if timeout is not None]
        holder.marks = Marks(min(given)) if given else None
        self.timed = self.timed or holder.marks is not None

    def mark(self, now: Now) -> float:
        """Note what has been delivered up to now. Returns when the next delivery is overdue (monotonic seconds)."""
        deadline = inf
        self.timed = False
        for holder in self:
            marks = holder.marks
            if marks is not None:
                self.timed = True
                if holder.unsettled.count:
                    marks.delivered(holder.next_number, now)
                else:
                    marks.clear()
                deadline = min(deadline, marks.deadline)
        return deadline

    def overdue(self, now: Now) -> Iterator[tuple[Attachment, list[Stretch]]]:
        """Take from each holder what was held too long, and say so."""
        for holder in list(self):
            below = holder.marks.overdue(now) if holder.marks is not None else 0
            for first, last in holder.unsettled.numbers(below):
                holder.mailbox.put(TakenBack(holder, first, last))
                yield holder, holder.unsettled.remove(first, last)
            if below and not holder.unsettled.count:
                self.vacated(holder)
