"""Holders: consumers that hold messages without being sent them, and the copies that others get.

A request moves ready messages into the unsettled ones of the holder, as a delivery does, but nothing goes into its
mailbox. Everything else is as for any consumer: the messages are paged out with others, are settled once, and return
to their positions when the holder leaves. A getter with ``copies`` reads what is held, in the order in which it was
given to the holder, and changes nothing.

Requests are walks, because one may be about many messages. Each step leaves the queue as it may be between turns.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence

from core.clock import Now
from core.engine.queue.attachments import Attachments
from core.engine.queue.budgets import DELIVERY_WORK, DISPATCH_WORK
from core.engine.queue.consumers import Attachment, Level
from core.engine.queue.dead_letter import DeadLetters
from core.engine.queue.endings import Endings
from core.engine.queue.expiry import has_expired, one_end
from core.engine.queue.kinds import AnyQueue
from core.engine.queue.led import Led
from core.engine.queue.queue_counters import QueueCounters
from core.engine.ready.batch import Batch
from core.engine.ready.sub_queue import SubQueue
from core.errors import NotFound, PreconditionFailed
from core.held import HOLD_RANGES_MAX, Held, HeldRange, Hold
from core.interface import Disposal
from core.message import Return
from core.slices import Walk

HELD_AT_ONCE = 1024
"""The most messages of one step. Those of a step that are on disk are read from it: 256 KiB, or one larger message."""

BATCHES_AT_ONCE = 256
"""The most batches of what is held that are looked at in one step, or in one dispatch for a reader of copies."""


class Holding:
    """The requests of one holder, at one time."""

    __slots__ = ("_attachment", "_counters", "_endings", "_led", "_letters", "_queue", "_sub_queues", "_touch")

    def __init__(
        self,
        queue: AnyQueue,
        sub_queues: Sequence[SubQueue],
        counters: QueueCounters,
        letters: DeadLetters,
        endings: Endings,
        led: Led | None,
        holder: str,
        touch: Callable[[], None],
    ) -> None:
        """The parts are those of the queue; ``touch`` gives it a turn. Raises NotFound."""
        self._queue, self._sub_queues, self._touch = queue, sub_queues, touch
        self._counters, self._letters, self._endings, self._led = counters, letters, endings, led
        self._attachment = holder_named(queue.attachments, holder, queue.name)

    def hold(self, wanted: Hold, clock: Callable[[], Now]) -> Walk[Held]:
        """Give ready messages to the holder, in the order of their deliveries.

        Fewer than are wanted come when there are no more, when the queue's policy allows the holder no more, and when
        they have too many ranges of numbers. Raises PreconditionFailed if another consumer is the active one, NotFound
        if the holder is gone.
        """
        ranges: list[tuple[int, int]] = []
        messages = size = 0
        while messages < wanted.messages and len(ranges) < HOLD_RANGES_MAX:
            batch = self._next(wanted, messages, size, clock())
            if batch is None:
                break
            messages += len(batch)
            size += sum(map(len, batch.entries))
            self._give(batch)
            _extend(ranges, batch.sequences)
            yield None
        return Held(ranges, messages, size)

    def _next(self, wanted: Hold, messages: int, size: int, now: Now) -> Batch | None:
        """Take the next messages out of the queue; None if no more may be given."""
        self._check()
        if not self._delivers:
            return None
        most = min(HELD_AT_ONCE, wanted.messages - messages)
        options, held = self._queue.options, self._attachment.unsettled.count
        if options.max_unsettled is not None:
            most = min(most, options.max_unsettled - held)
        through = wanted.through
        for sub_queue in self._sub_queues if most > 0 else ():
            head = sub_queue.head_sequence
            if head is None or (through is not None and head > through):
                continue
            batch = sub_queue.fetch_head(most)
            if batch is None:
                continue
            if has_expired(batch, now):  # the queue removes it in its next turn
                sub_queue.put_back(batch)
                self._touch()
                return None
            batch = one_end(sub_queue, batch, now)
            count = len(batch) if through is None else bisect_right(batch.sequences, through)
            count = min(count, _fitting(batch, wanted.size - size, at_least=0 if messages else 1))
            if count < len(batch):
                sub_queue.put_back(batch.part(count, len(batch)))
                batch = batch.part(0, count)
            if count:
                return batch
            if through is None:
                return None
        return None

    @property
    def _delivers(self) -> bool:
        """Whether the queue may deliver now, to any consumer."""
        leads = self._led is None or bool(self._led.leadership.term)
        return leads and self._letters.room and not self._endings.returning

    def _give(self, batch: Batch) -> None:
        attachment = self._attachment
        number = attachment.consumer.next_number
        attachment.consumer.next_number = number + len(batch)
        attachment.unsettled.append(number, batch)
        self._counters.delivered += len(batch)
        self._touch()

    def settle(self, which: HeldRange, disposal: Disposal | Return) -> Walk[int]:
        """Settle messages with these numbers, as far as they are held; returns how many. Raises NotFound if the holder
        is gone."""
        settled = 0
        for at, (number, batch) in enumerate([*self._attachment.unsettled.numbered()]):
            start, stop = _within(batch.sequences, which)
            if start < stop:
                self._check()
                before = self._attachment.unsettled.count
                self._queue.settle(self._attachment, number + start, number + stop - 1, disposal)
                settled += before - self._attachment.unsettled.count
                self._touch()
            if at % BATCHES_AT_ONCE == BATCHES_AT_ONCE - 1:
                yield None
        return settled

    def _check(self) -> None:
        consumer = self._attachment.consumer
        if self._attachment.detached:
            raise _not_there(self._queue.name, consumer.options.holder)
        if not consumer.active:
            raise PreconditionFailed(f"queue '{self._queue.name}': another consumer is the single active one")


def holder_named(attachments: Attachments, holder: str, queue: str) -> Attachment:
    """Return the attachment of the holder with this name. Raises NotFound."""
    attachment = attachments.holders.get(holder)
    if attachment is None:
        raise _not_there(queue, holder)
    return attachment


def serve_getters(
    getters: Iterable[Attachment],
    serve_level: Callable[[Level, Now], None],
    attachments: Attachments,
    restore: Callable[[Batch], None],
    now: Now,
) -> int:
    """Serve each getter with messages that the consumers have left, as if it were alone on a level, and each reader
    with copies. ``serve_level`` counts its own cost. Returns that of the copies."""
    work = 0
    for getter in getters:
        if getter.consumer.options.copies is not None:
            work += _copy_held(getter, attachments, restore)
        elif getter.grant:
            level = Level()
            level.enter(getter)
            serve_level(level, now)
            level.leave(getter)
    return work


def _copy_held(reader: Attachment, attachments: Attachments, restore: Callable[[Batch], None]) -> int:
    """Deliver copies to a reader within its grant. Returns the cost in units of :mod:`core.work`: all that a dispatch
    may cost if there is more to look at, so that the grant is answered in a later turn."""
    which = reader.consumer.options.copies
    holder = None if which is None else attachments.holders.get(which.holder)
    if which is None or holder is None:
        return DELIVERY_WORK
    work = 0
    for looked_at, (number, batch) in enumerate(holder.unsettled.numbered_from(reader.copied_below)):
        if not reader.grant:
            return work
        if looked_at == BATCHES_AT_ONCE:
            return DISPATCH_WORK
        start, stop = _within(batch.sequences, which)
        start = max(start, reader.copied_below - number)
        stop = min(stop, start + reader.grant)
        reader.copied_below = number + len(batch)
        if start < stop:
            if batch.paged:
                restore(batch)
            first = reader.consumer.next_number
            reader.deliver(batch.part(start, stop))
            reader.unsettled.remove(first, first + stop - start - 1)  # it is a copy, so there is nothing to settle
            reader.copied_below = number + stop
            work += DELIVERY_WORK + (stop - start) // 4
    return work


def _within(sequences: Sequence[int], which: HeldRange) -> tuple[int, int]:
    """Return the places of the sequence numbers in the range, as a slice has them."""
    return bisect_left(sequences, which.first), bisect_right(sequences, which.last)


def _fitting(batch: Batch, room: int, *, at_least: int) -> int:
    """Return how many of the first messages have at most ``room`` bytes together."""
    for place, entry in enumerate(batch.entries):
        room -= len(entry)
        if room < 0:
            return max(place, at_least)
    return len(batch)


def _extend(ranges: list[tuple[int, int]], sequences: Sequence[int]) -> None:
    """Add ascending numbers to the ranges, which may be joined with the last one."""
    if sequences[-1] - sequences[0] == len(sequences) - 1:
        if ranges and ranges[-1][1] + 1 == sequences[0]:
            ranges[-1] = (ranges[-1][0], sequences[-1])
        else:
            ranges.append((sequences[0], sequences[-1]))
        return
    for number in sequences:
        if ranges and ranges[-1][1] + 1 == number:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))


def _not_there(queue: str, holder: str) -> NotFound:
    return NotFound(f"queue '{queue}': no consumer holds messages under the name '{holder[:255]}'")
