"""A stream queue: every consumer reads all messages that are kept, each consumer from its own offset.

    inbox (a stage) → log, in chunks → committed → any number of readers

Messages are confirmed, and readers see them, when the log's lane has written them (synced, with x-sync: always).
Deliveries carry their offset under an annotation. Settling a delivery removes no message: the delivery is no longer
counted as unacknowledged, and nothing else changes, as in RabbitMQ. A consumer that wants a message again attaches with
its offset. Only a delivery that never left the broker is repeated. Messages are removed by age or size only, in whole
segments.

In a cluster the log is one of a group. While another node leads the group, or none, the stream takes on and delivers
nothing, and its publishers are told so.

A consumer with filter values gets exactly the messages that have one of them. Chunks without such messages are skipped
as a whole.

Invariants: a reader gets only committed messages, each at most once, and all that match its filter, in ascending
offsets; a grant is answered when it is used up or nothing is left to read.

This module does not know names, routing, protocols or files.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from core.clock import Now
from core.credit_flow.flow import CreditFlow
from core.credit_flow.stage import Stage
from core.engine.confirms import Confirms, Submission
from core.engine.options.in_force import QueueOptions
from core.engine.queue.admissions import Admissions
from core.engine.queue.attachments import Attachments
from core.engine.queue.consumers import Attachment, Consumers
from core.engine.queue.kinds import Peeked
from core.engine.queue.length_limit import BlockedPublishers
from core.engine.queue.moving import check_may_peek
from core.engine.queue.pump import PositionWaiter
from core.engine.ready.batch import Batch, join_positions
from core.engine.ready.remains import LetGo
from core.engine.ready.waits import Waits
from core.engine.stream.chunk_log import ChunkLog
from core.engine.stream.group_stream import GroupStream
from core.errors import EngineError, HomeLost, Invalid, PreconditionFailed
from core.interface import Delivered, Disposal, Publisher, StreamOptions, StreamPosition, Target
from core.message import Attributes, Origin, Return, Route, like_ranges, part_of
from core.slices import Walk
from core.store.stream_chunk import CHUNK_OVERHEAD_BYTES, Chunk
from core.store.stream_log import Kept, pieces

OFFSET_ANNOTATION = "x-stream-offset"
TURN_MESSAGES_MAX = 256
"""The most messages that one reader gets in a turn: a front end's batch."""
TURN_BYTES_MAX = 2**20
"""The most bytes that one reader gets, or skips, in a turn: 1 ms of copying, and as much as a front end lets wait for a
socket."""
DISPATCH_WORK = 4_000
"""The most work that one dispatch does for all readers, in units of :mod:`core.work`. Readers that were not served come
first in the next dispatch."""
CHUNK_WORK = 30
"""The cost of one chunk that a reader reads, in these units; each message of the chunk adds half a unit."""
GATHERED_MAX = 256
"""The most messages in a chunk made of several runs. A chunk of a single run may be larger."""
RETENTION_INTERVAL_S = 60.0
"""How often the age limit is applied."""
OVERDRAWN_RETRY_S = 0.05
"""When to check again whether an overdue sync is done. An overdrawn log is one whose sync takes longer than this."""
SEGMENT_BYTES_DEFAULT = 64 * 2**20
"""The size at which a segment is sealed, unless x-stream-max-segment-size-bytes gives another. RabbitMQ's 500 MB is
larger than most streams, so retention by segments would be too coarse."""

_Part: TypeAlias = tuple[Submission, int, int]
"""Some of a submission's messages: from the first of these places to before the second."""
FilterValues = Callable[[Sequence[bytes], Origin], Sequence[str | None] | None]


@dataclass(slots=True)
class StreamCounters:
    """Counters of a stream's messages since the process started or the stream was declared."""

    published: int = 0
    delivered: int = 0
    accepted: int = 0
    rejected: int = 0
    returned: int = 0
    """Released or modified: counted, and not delivered again."""


class _Reader:
    """The offset and the filter of one consumer."""

    __slots__ = ("_match_unfiltered", "_values", "chunk", "offset")

    def __init__(self, offset: int, options: StreamOptions) -> None:
        self.offset = offset
        """The next offset to read."""
        self.chunk = offset
        """The first offset of the chunk that was read last."""
        self._values = frozenset(options.filter_values)
        self._match_unfiltered = options.match_unfiltered

    def places(self, chunk: Chunk) -> Sequence[int]:
        """Return the indexes of the messages in the chunk that the consumer wants, from its offset on."""
        start = max(0, self.offset - chunk.first)
        if not self._values:
            return range(start, chunk.count)
        return chunk.matching(start, self._values, unfiltered=self._match_unfiltered)


class _Batch:
    """The messages of one turn for one consumer. Messages of neighbouring chunks that are alike are delivered
    together; if they carry the time of their arrival, those of one millisecond are."""

    __slots__ = ("_attachment", "_attributes", "_entries", "_offsets", "_route", "_stamp_ms", "_stamped")

    def __init__(self, attachment: Attachment, *, stamped: bool) -> None:
        self._attachment = attachment
        self._stamped = stamped
        self._stamp_ms: int | None = None
        self._attributes: Attributes | None = None
        self._route: Route | None = None
        self._entries: list[bytes] = []
        self._offsets: Sequence[int] = ()

    def add(self, chunk: Chunk, places: Sequence[int]) -> None:
        """Add these messages of the chunk, at least one."""
        stamp_ms = chunk.stamp_ms if self._stamped else None
        if self._entries and not (
            self._attributes == chunk.attributes and self._route == chunk.route and self._stamp_ms == stamp_ms
        ):
            self.deliver()
        self._stamp_ms = stamp_ms
        self._attributes = chunk.attributes
        self._route = chunk.route
        if isinstance(places, range):
            entries = chunk.entries[places.start : places.stop]
            offsets: Sequence[int] = range(chunk.first + places.start, chunk.first + places.stop)
        else:
            entries = [chunk.entries[place] for place in places]
            offsets = [chunk.first + place for place in places]
        self._entries += entries
        self._offsets = join_positions(self._offsets, offsets) if self._offsets else offsets

    def deliver(self) -> None:
        """Deliver the messages that were added. They count as unsettled, but their entries are not kept for that."""
        if not self._entries:
            return
        assert self._attributes is not None
        attachment, entries, count = self._attachment, self._entries, len(self._entries)
        assert count <= attachment.grant
        number = attachment.consumer.next_number
        attachment.grant -= count
        attachment.consumer.next_number += count
        attachment.consumer.mailbox.put(
            Delivered(
                attachment.consumer, number, entries, self._attributes, 0, not self._attributes.redelivered,
                sequences=self._offsets, sequence_key=OFFSET_ANNOTATION, routes=self._route,
                enqueued_ms=self._stamp_ms,
            )
        )  # fmt: skip
        attachment.unsettled.append(number, Batch(self._offsets, [], self._attributes))
        self._entries, self._offsets = [], ()


class StreamQueue:
    """A stream, as a :class:`core.engine.queue.kinds.AnyQueue`."""

    __slots__ = (
        "_admissions", "_asking", "_begins", "_blocked", "_filter_values", "_group", "_held_until", "_log", "_more",
        "_readers", "_retain_at", "_synced", "_term", "_work_left", "attachments", "consumers", "counters", "inbox",
        "name", "options", "publishers", "stage_credit",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        options: QueueOptions,
        log: ChunkLog,
        *,
        written: Waits[PositionWaiter] | None,
        synced: Waits[PositionWaiter],
        filter_values: FilterValues = lambda entries, origin: None,
        messages_per_turn: int | None = None,
        stage_credit: CreditFlow,
    ) -> None:
        """``written`` and ``synced`` are the waits of the log's lane; a wait in ``synced`` makes the lane sync soon. A
        stream of a group has only the wait for commits, as ``synced``.
        ``filter_values`` is as :meth:`core.interface.Converter.filter_values`."""
        self.name = name
        self.options = options
        self.inbox: Stage[Submission] = Stage(messages_per_turn)
        self.consumers = Consumers(single_active=options.single_active_consumer)
        self.attachments = Attachments(self.consumers)
        self.publishers: dict[Publisher, None] = {}
        self.stage_credit = stage_credit
        self.counters = StreamCounters()
        self._log = log
        self._admissions = Admissions(self, written=written, synced=synced, ready_before=False)
        self._synced = options.sync_always
        """Whether messages wait for ``synced``, and not for ``written``."""
        self._admissions.expect(sync=self._synced)
        self._group = log if isinstance(log, GroupStream) else None
        """The log, if it is one of a group."""
        self._term = 0
        """The term in which this node leads the group; 0 while it does not, and without a group."""
        self._begins: dict[Attachment, StreamPosition | float] = {}
        """Consumers that came while no node led, with where they begin."""
        self._blocked = BlockedPublishers()
        self._filter_values = filter_values
        self._readers: dict[Attachment, _Reader] = {}
        self._asking: dict[Attachment, None] = {}
        """Consumers whose grants are not answered yet."""
        self._work_left = DISPATCH_WORK
        """How much work may still be done in this dispatch."""
        self._more = False
        """Whether a consumer could get more messages in another turn now."""
        self._held_until = inf
        """When to try again to take on messages from the inbox (monotonic seconds)."""
        self._retain_at = 0.0
        log.segment_bytes = options.stream_segment_bytes or SEGMENT_BYTES_DEFAULT
        if self._group is not None:
            self._term = self._group.leadership.term
            self._group.follow()

    @property
    def over(self) -> bool:
        """Whether the stream knows that it is led elsewhere, and has answered all messages that it has taken on. The
        log says soon which of them are committed: they must not be answered otherwise."""
        return not self._term and not self._admissions.waiting

    @property
    def ready(self) -> int:
        """How many messages are kept and visible to readers."""
        return self._log.messages

    @property
    def unacknowledged(self) -> int:
        """How many deliveries consumers have not settled."""
        return self.attachments.unacknowledged

    @property
    def deadline(self) -> float:
        """See :class:`core.engine.queue.kinds.AnyQueue`."""
        if self._more:
            return 0.0
        return min(self._held_until, self._retain_at)

    @property
    def expired(self) -> bool:
        """Always False: a stream never expires."""
        return False

    def apply(self, options: QueueOptions, now: Now) -> None:
        """Put other options in force."""
        self.options = options
        self._log.segment_bytes = options.stream_segment_bytes or SEGMENT_BYTES_DEFAULT
        self._retain_at = now.monotonic
        for attachment in self.attachments:
            attachment.bound(options)

    # --- what the pump does ---------------------------------------------------------------------------------

    def admit(self, confirms: Confirms, now: Now) -> bool:
        """Append messages to the log within the stage's budget. Returns True if messages are left for another turn."""
        if self._group is not None:
            if self._term != self._group.leadership.term:
                self._follow(self._group, confirms)
            if not self._term:
                return False
        inbox = self.inbox
        if not inbox.waiting:
            return False
        if self._log.overdrawn:
            self._held_until = now.monotonic + OVERDRAWN_RETRY_S
            return False
        self._held_until = inf
        if self._synced != self.options.sync_always and not self._admissions.waiting:
            self._synced = self.options.sync_always
            self._admissions.expect(sync=self._synced)
        stamp_ms = int(now.wall * 1000)
        gathered: list[_Part] = []
        alike: tuple[Attributes, Route | None] | None = None
        count = 0
        for submission, start, stop in inbox.take_turn():
            run = submission.run
            facts = part_of(run.attributes, start, stop), part_of(run.routes, start, stop)
            for low, high, attributes, route, _ in like_ranges(stop - start, *facts):
                if (attributes, route) != alike or count + high - low > GATHERED_MAX:
                    if alike is not None:
                        self._append(gathered, *alike, stamp_ms=stamp_ms, confirms=confirms)
                    gathered, count, alike = [], 0, (attributes, route)
                gathered.append((submission, start + low, start + high))
                count += high - low
        if alike is not None:
            self._append(gathered, *alike, stamp_ms=stamp_ms, confirms=confirms)
        return inbox.waiting > 0 and not inbox.stalled

    def _append(
        self,
        gathered: Sequence[_Part],
        attributes: Attributes,
        route: Route | None,
        *,
        stamp_ms: int,
        confirms: Confirms,
    ) -> None:
        """Append messages that have these attributes and this route."""
        entries = [entry for submission, start, stop in gathered for entry in submission.run.entries[start:stop]]
        filter_values = self._filter_values(entries, attributes.origin)
        self.counters.published += len(entries)
        if self._group is not None and len(cuts := pieces(entries)) > 1:
            for start, stop in cuts:  # each of them is committed, or not, by itself
                given = None if filter_values is None else filter_values[start:stop]
                position = self._log.append(
                    entries[start:stop], attributes, stamp_ms=stamp_ms, filter_values=given, route=route
                )
                for submission, low, high in _between(gathered, start, stop):
                    self._admissions.took(confirms, submission, low, high, position)
            return
        position = self._log.append(entries, attributes, stamp_ms=stamp_ms, filter_values=filter_values, route=route)
        for submission, start, stop in gathered:
            self._admissions.took(confirms, submission, start, stop, position)

    def _follow(self, group: GroupStream, confirms: Confirms) -> None:
        """This node has begun to lead the stream's group, or has ceased to. What consumers hold stays theirs, since
        nothing that was committed comes again."""
        self._term = group.leadership.term
        group.follow()
        self._admissions.give_up(confirms)
        self._blocked.tell(self.publishers, full=not self._term, reason=group.leadership.held_for)
        if self._term:
            self._retain_at = 0.0
            begins, self._begins = self._begins, {}
            for attachment, position in begins.items():
                self._read(attachment, position)

    def dispatch(self, now: Now) -> int:
        """Deliver committed messages to readers within their grants, then answer the grants, then remove old
        segments."""
        log = self._log
        if self._group is not None and not self._term:
            self._hold(self._group)
            return 1
        log.commit(synced=self._synced)
        self._more = False
        self._work_left = DISPATCH_WORK
        for attachment, reader in list(self._readers.items()):
            if self._work_left <= 0:
                self._more = True
                break
            if attachment.grant and self._may_read(attachment) and self._serve(attachment, reader):
                self._more = True
                self._readers[attachment] = self._readers.pop(attachment)  # behind readers not served yet
            elif attachment in self._asking:
                del self._asking[attachment]
                active = attachment.consumer.active
                attachment.reply(log.messages_between(reader.offset, log.committed) if active else 0)
                if not attachment.grant:
                    self.consumers.granted(attachment)
        self._retain(now)
        return DISPATCH_WORK - self._work_left

    def _hold(self, group: GroupStream) -> None:
        """Another node leads, or none: answer grants, and tell publishers."""
        self._more = False
        self._retain_at = inf
        self._blocked.tell(self.publishers, full=True, reason=group.leadership.held_for)
        asking, self._asking = self._asking, {}
        for attachment in asking:
            attachment.reply(0)

    def _may_read(self, attachment: Attachment) -> bool:
        """Return whether a consumer may read: all may, except that of a single active consumer only the active one
        may."""
        return not self.options.single_active_consumer or attachment.in_turn

    def _serve(self, attachment: Attachment, reader: _Reader) -> bool:
        """Deliver as much as one turn allows. Returns True if there is more for this grant."""
        log, batch = self._log, _Batch(attachment, stamped=self.options.enqueued_annotation)
        messages = min(attachment.grant, TURN_MESSAGES_MAX)
        room = TURN_BYTES_MAX
        while messages and room > 0 and self._work_left > 0:
            chunk = log.chunk(reader.offset, reader.chunk)
            if chunk is None:
                reader.offset = max(reader.offset, log.committed)
                break
            reader.chunk = chunk.first
            places = reader.places(chunk)
            self._work_left -= CHUNK_WORK + chunk.count // 2
            taken = places[:messages]
            done = len(taken) == len(places)
            reader.offset = chunk.next if done else chunk.first + taken[-1] + 1
            if taken:
                batch.add(chunk, taken)
                messages -= len(taken)
                self.counters.delivered += len(taken)
            room -= chunk.size + CHUNK_OVERHEAD_BYTES
        batch.deliver()
        return attachment.grant > 0 and reader.offset < log.committed

    def _retain(self, now: Now) -> None:
        log, options = self._log, self.options
        kept = Kept(options.max_age_s, options.max_length_bytes)
        if now.monotonic >= self._retain_at or log.exceeds(kept):
            log.retain(kept, int(now.wall * 1000))
            self._retain_at = now.monotonic + RETENTION_INTERVAL_S if options.max_age_s is not None else inf

    # --- what consumers do ----------------------------------------------------------------------------------

    def attach(self, attachment: Attachment) -> None:
        """Add a consumer, which has no grant yet. Raises PreconditionFailed for a getter: basic.get does not work on
        streams. Raises HomeLost for a consumer that is to begin at the end, if only another node may know where that
        is."""
        consumer = attachment.consumer
        if consumer.options.getter or consumer.options.holder:
            raise PreconditionFailed(f"'{self.name}' is a stream: messages are not got from it one by one; consume it")
        options = consumer.options.stream
        held = self._group is not None and not self._term
        if held and options.position in (StreamPosition.NEXT, StreamPosition.LAST):
            raise HomeLost(
                f"stream '{self.name}': no node is known to lead it now, so where it ends is not known; attach again"
            )
        self._log.commit(synced=self._synced)
        attachment.sequence_key = OFFSET_ANNOTATION
        attachment.bound(self.options)
        if held:
            self._begins[attachment] = options.position
        else:
            self._read(attachment, options.position)
        self.attachments.attach(attachment)

    def _read(self, attachment: Attachment, position: StreamPosition | float) -> None:
        """Have a consumer begin to read, and note where, for the next leader."""
        begin = attachment.consumer.begins_at = self._begin(position)
        self._readers[attachment] = _Reader(begin, attachment.consumer.options.stream)

    def _begin(self, position: StreamPosition | float) -> int:
        log = self._log
        match position:
            case StreamPosition.FIRST:
                return log.first
            case StreamPosition.LAST:
                return log.last_chunk
            case StreamPosition.NEXT:
                return log.committed
            case int():
                return max(0, position)  # beyond the end: it waits for that offset
            case _:
                return log.offset_at(max(0, int(position * 1000)))

    def grant(self, attachment: Attachment, n: int, drain: bool) -> None:
        """Set the grant. A dispatch answers it once it is used up or nothing is left to read."""
        assert n >= 0
        attachment.grant = n
        attachment.drain = drain
        attachment.replies_due += 1
        if self.options.single_active_consumer:
            self.consumers.granted(attachment)
        self._asking[attachment] = None

    def settle(self, attachment: Attachment, first: int, last: int, disposal: Disposal | Return) -> bool:
        """Count the unsettled deliveries in the range (delivery numbers, both inclusive) as settled, with any outcome.

        Only for messages that never left the broker does the reader go back to their offset. All deliveries behind
        them come again then, so their numbers are settled too: when they are returned later, nothing happens.
        """
        settled = attachment.unsettled.remove(first, last)
        count = sum(map(len, settled))
        if isinstance(disposal, Return) and disposal.unsent:
            reader = self._readers.get(attachment)
            if settled and reader is not None:
                attachment.unsettled.remove(last + 1, attachment.consumer.next_number - 1)
                reader.offset = min(reader.offset, settled[0].sequences[0])
            return True
        if isinstance(disposal, Return):
            self.counters.returned += count
        elif disposal is Disposal.ACCEPTED:
            self.counters.accepted += count
        else:
            self.counters.rejected += count
        return not attachment.unsettled.count and self.attachments.vacated(attachment)

    def cancel(self, attachment: Attachment, *, requeue: bool = True) -> None:
        """Detach the consumer. With ``requeue`` its unsettled deliveries are forgotten; without, they still count."""
        if requeue:
            attachment.unsettled.remove_all()
        self._readers.pop(attachment, None)
        self._begins.pop(attachment, None)
        self._asking.pop(attachment, None)
        self.attachments.leave(attachment)

    # --- what the control plane does ------------------------------------------------------------------------

    def purge(self, let_go: LetGo) -> Walk[int]:
        """Raises Invalid: a stream cannot be purged."""
        raise Invalid(
            f"'{self.name}' is a stream: it is not purged, its messages go by x-max-age and x-max-length-bytes"
        )

    def peek(self, n: int) -> list[Peeked]:
        """Return the first ``n`` messages that are kept. Raises Invalid if ``n`` is too high."""
        check_may_peek(n)
        log = self._log
        log.commit(synced=self._synced)
        peeked: list[Peeked] = []
        offset = log.first
        while len(peeked) < n and (chunk := log.chunk(offset, offset)) is not None:
            start = offset - chunk.first
            entries = chunk.entries[start : start + n - len(peeked)]
            peeked += (Peeked(number, entry, chunk.attributes) for number, entry in enumerate(entries, offset))
            offset = chunk.next
        return peeked

    def move(self, target: Target | None, n: int | None) -> int:
        """Raises Invalid: messages are removed from a stream by age and size only."""
        raise Invalid(f"'{self.name}' is a stream: its messages are not moved; a consumer can read and publish them")

    def dissolve(self, confirms: Confirms, error: EngineError, let_go: LetGo, *, moved: bool = False) -> None:
        """The stream is deleted: tell its publishers and consumers, and forget everything. Messages that were not
        confirmed are answered as gone."""
        self._admissions.dissolve(confirms, error if moved else None)
        for submission, start, stop in self.inbox.take_all():
            confirms.gone(submission, self, start, stop, moved=error if moved else None)
        for publisher in self.publishers:
            confirms.close(publisher, error)
        self.attachments.dissolve(error, let_go)
        self._readers.clear()
        self._begins.clear()
        self._asking.clear()
        self._log.delete()

    def used(self) -> None:
        """Does nothing: a stream does not expire."""

    def conclude(self) -> None:
        """Does nothing: the log has everything that the next start needs."""

    def counts(self) -> Mapping[str, object]:
        """Counters, and the range of offsets that is kept."""
        log = self._log
        return {
            "published": self.counters.published,
            "delivered": self.counters.delivered,
            "accepted": self.counters.accepted,
            "rejected": self.counters.rejected,
            "returned": self.counters.returned,
            "purged": 0,
            "first_offset": log.first,
            "last_offset": log.committed - 1 if log.messages else None,
            "segments": log.segments,
            "file_bytes": log.file_bytes,
            "damaged_records": log.damaged,
        }


def _between(parts: Sequence[_Part], start: int, stop: int) -> Iterator[_Part]:
    """Yield what of these parts is between two places, counted over all of them."""
    before = 0
    for submission, low, high in parts:
        first, last = max(start - before, 0), min(stop - before, high - low)
        if first < last:
            yield submission, low + first, low + last
        before += high - low
