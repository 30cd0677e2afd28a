"""All attachments that may hold messages of one queue, and the time-outs of their deliveries.

- *Consumers* are served in turn (``consumers.py``).
- *Getters* (basic.get) take messages that are ready when they ask, after the consumers. They do not count as consumers.
- *Leaving* are consumers and getters that were cancelled and still hold messages. They get no more messages but may
  settle those that they hold. Once everything is settled they are forgotten.

Invariants: an attachment that is not gone is in exactly one of these groups; one that is gone holds nothing.

This module does not know what happens to messages that a consumer returns.
"""

from collections.abc import Iterator
from itertools import chain
from math import inf

from core.clock import Now
from core.engine.queue.consumers import Attachment, Consumers
from core.engine.queue.expiry import Marks
from core.engine.ready.remains import LetGo
from core.engine.ready.stretch import Stretch
from core.errors import EngineError
from core.interface import Cancelled, TakenBack


class Holders:
    """All attachments of one queue. Iterating goes over all groups."""

    __slots__ = ("_consumers", "_others", "timed")

    def __init__(self, consumers: Consumers) -> None:
        self._consumers = consumers
        self._others: dict[Attachment, None] = {}
        """Getters, and attachments that are leaving."""
        self.timed = False
        """Whether some deliveries have a time-out, or had one at the last ``mark``. If so, ``mark`` has to be
        called."""

    def __iter__(self) -> Iterator[Attachment]:
        return chain(self._consumers, self._others)

    @property
    def unacknowledged(self) -> int:
        """How many messages the attachments hold."""
        return sum(holder.unsettled.count for holder in self)

    # --- coming and going

    def attach(self, holder: Attachment) -> None:
        """Add a consumer or getter."""
        if holder.options.getter:
            self._others[holder] = None
        else:
            self._consumers.attach(holder)

    def leave(self, holder: Attachment) -> None:
        """The attachment gets no more messages. If it still holds messages, ``leave`` may be called for it once
        more."""
        if holder.options.getter or holder.detached:
            holder.detached = True
        else:
            self._consumers.detach(holder)
        if holder.unsettled.count:
            self._others[holder] = None
        else:
            self._forget(holder)

    def vacated(self, holder: Attachment) -> bool:
        """The attachment has nothing unsettled any more. Returns True if another consumer becomes the active one in its
        place."""
        if holder.detached:
            self._forget(holder)
            return False
        return self._consumers.vacated(holder)

    def dissolve(self, error: EngineError, let_go: LetGo) -> None:
        """The queue is deleted: cancel all attachments with ``error``."""
        for holder in list(self):
            if not holder.detached:
                holder.mailbox.put(Cancelled(holder, error))
            holder.detached = True
            let_go(holder.unsettled.remove_all())
            self._forget(holder)

    def _forget(self, holder: Attachment) -> None:
        holder.gone = True
        self._others.pop(holder, None)

    # --- deliveries that are held too long

    def limit(self, holder: Attachment, *timeouts_ms: int | None) -> None:
        """Set the time-out of an attachment's deliveries to the lowest of these; None means no time-out."""
        given = [timeout for timeout in timeouts_ms if timeout is not None]
        holder.marks = Marks(min(given)) if given else None
        self.timed = self.timed or holder.marks is not None

    def mark(self, now: Now) -> float:
        """Set marks for the deliveries made up to now. Returns when the next delivery becomes overdue (monotonic
        seconds)."""
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
        """Take overdue deliveries back from each attachment and tell it so. Yields the attachment with these
        messages."""
        for holder in list(self):
            below = holder.marks.overdue(now) if holder.marks is not None else 0
            for first, last in holder.unsettled.numbers(below):
                holder.mailbox.put(TakenBack(holder, first, last))
                yield holder, holder.unsettled.remove(first, last)
            if below and not holder.unsettled.count:
                self.vacated(holder)
