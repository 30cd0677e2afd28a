"""All attachments that may hold messages of one queue, and the time-outs of their deliveries.

- *Consumers* are served in turn (``consumers.py``).
- *Getters* (basic.get) take messages that are ready when they ask, after the consumers. They do not count as consumers.
- *Leaving* are consumers and getters that were cancelled and still hold messages. They get no more messages but may
  settle those that they hold. Once everything is settled they are forgotten.

Invariants: each attachment is in exactly one of these groups; one that is forgotten holds nothing.

This module does not know what happens to messages that a consumer returns.
"""

from collections.abc import Iterator
from itertools import chain
from math import inf

from core.clock import Now
from core.engine.queue.consumers import Attachment, Consumers
from core.engine.queue.expiry import DeliveryTimes
from core.engine.ready.batch import Batch
from core.engine.ready.remains import LetGo
from core.errors import EngineError, Locked, PreconditionFailed
from core.interface import Cancelled, Consumer, TakenBack


class Attachments:
    """All attachments of one queue. Iterating goes over all groups."""

    __slots__ = ("_consumers", "holders", "others", "timed")

    def __init__(self, consumers: Consumers) -> None:
        self._consumers = consumers
        self.others: dict[Consumer, Attachment] = {}
        """The attachment of each getter, and of each consumer that is leaving. For reading only."""
        self.holders: dict[str, Attachment] = {}
        """The consumers that hold messages without being sent them, by the names that they have given themselves. For
        reading only."""
        self.timed = False
        """Whether some deliveries have a time-out, or had one at the last ``mark``. If so, ``mark`` has to be
        called."""

    def __iter__(self) -> Iterator[Attachment]:
        return chain(self._consumers, self.others.values())

    def of(self, consumer: Consumer) -> Attachment | None:
        """What is known of a consumer; None for one that has left and holds nothing."""
        return self._consumers.attached.get(consumer) or self.others.get(consumer)

    @property
    def unacknowledged(self) -> int:
        """How many messages the attachments hold."""
        return sum(attachment.unsettled.count for attachment in self)

    # --- coming and going

    def attach(self, attachment: Attachment) -> None:
        """Add a consumer or getter. Raises Locked for a holder with the name of another one, PreconditionFailed for one
        whose messages would have no numbers."""
        options = attachment.consumer.options
        if options.holder or options.copies is not None:
            self._check_numbered(attachment)
        if attachment.consumer.options.getter:
            self.others[attachment.consumer] = attachment
        else:
            self._consumers.attach(attachment)

    def _check_numbered(self, attachment: Attachment) -> None:
        queue, holder = attachment.consumer.queue_name, attachment.consumer.options.holder
        if not attachment.sequence_key:
            raise PreconditionFailed(
                f"queue '{queue}': messages are held and copied by their sequence numbers, so it needs x-sequence"
            )
        if holder in self.holders:
            raise Locked(f"queue '{queue}': another consumer holds messages under the name '{holder}'")
        if holder:
            self.holders[holder] = attachment

    def leave(self, attachment: Attachment) -> None:
        """The attachment gets no more messages. If it still holds messages, ``leave`` may be called for it once
        more."""
        holder = attachment.consumer.options.holder
        if holder and self.holders.get(holder) is attachment:
            del self.holders[holder]
        if attachment.consumer.options.getter or attachment.detached:
            attachment.detached = True
        else:
            self._consumers.detach(attachment)
        if attachment.unsettled.count:
            self.others[attachment.consumer] = attachment
        else:
            self.others.pop(attachment.consumer, None)

    def vacated(self, attachment: Attachment) -> bool:
        """The attachment has nothing unsettled any more. Returns True if another consumer becomes the active one in its
        place."""
        if attachment.detached:
            self.others.pop(attachment.consumer, None)
            return False
        return self._consumers.vacated(attachment)

    def dissolve(self, error: EngineError, let_go: LetGo) -> None:
        """The queue is deleted: cancel all attachments with ``error``."""
        for attachment in list(self):
            if not attachment.detached:
                attachment.consumer.mailbox.put(Cancelled(attachment.consumer, error))
            attachment.detached = True
            let_go(attachment.unsettled.remove_all())
        self.others.clear()
        self.holders.clear()

    # --- deliveries that are held too long

    def limit(self, attachment: Attachment, *timeouts_ms: int | None) -> None:
        """Set the time-out of an attachment's deliveries to the lowest of these; None means no time-out."""
        given = [timeout for timeout in timeouts_ms if timeout is not None]
        attachment.marks = DeliveryTimes(min(given)) if given else None
        self.timed = self.timed or attachment.marks is not None

    def mark(self, now: Now) -> float:
        """Set marks for the deliveries made up to now. Returns when the next delivery becomes overdue (monotonic
        seconds)."""
        deadline = inf
        self.timed = False
        for attachment in self:
            marks = attachment.marks
            if marks is not None:
                self.timed = True
                if attachment.unsettled.count:
                    marks.delivered(attachment.consumer.next_number, now)
                else:
                    marks.clear()
                deadline = min(deadline, marks.deadline)
        return deadline

    def overdue(self, now: Now) -> Iterator[tuple[Attachment, list[Batch]]]:
        """Take overdue deliveries back from each attachment and tell it so. Yields the attachment with these
        messages."""
        for attachment in list(self):
            below = attachment.marks.overdue(now) if attachment.marks is not None else 0
            for first, last in attachment.unsettled.numbers(below):
                attachment.consumer.mailbox.put(TakenBack(attachment.consumer, first, last))
                yield attachment, attachment.unsettled.remove(first, last)
            if below and not attachment.unsettled.count:
                self.vacated(attachment)
