"""A stream lane over a disk in memory that a test moves by hand, and stream logs and queues on it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from core.clock import Now
from core.credit_flow.flow import CreditFlow
from core.engine.confirms import Confirms, Submission
from core.engine.options.in_force import QueueOptions, QueueType
from core.engine.queue.consumers import Attachment
from core.engine.queue.pump import PositionWaiter
from core.engine.ready.waits import Waits
from core.engine.stream.stream_queue import StreamQueue
from core.interface import (
    Action,
    Confirmed,
    ConsumeOptions,
    Consumer,
    Delivered,
    GrantReply,
    Mailbox,
    Publisher,
    QueueTarget,
    StreamOptions,
)
from core.message import Attributes, Run
from core.store.lane import Lane
from core.store.stream_chunk import Chunk, ChunkCache
from core.store.stream_log import StreamLog
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.settings import GENERAL

FOLDER = "streams/7"
ALIKE = Attributes()


class StreamDisk:
    """The disk and the lane; a start makes a new lane on the same disk."""

    def __init__(self, *, cache_bytes: int = 2**20) -> None:
        self.disk = MemoryDisk()
        self.cache_bytes = cache_bytes
        self.generation = 0
        self.start()

    def start(self) -> None:
        self.generation += 1
        self.lane = Lane("streams", generation=self.generation, sync_interval_s=0.0)
        self.cache = ChunkCache(self.cache_bytes)

    def power_cut(self, rng: Random) -> None:
        self.disk = self.disk.power_cut(rng)

    def write(self) -> None:
        while (batch := self.lane.take_write()) is not None:
            batch.run(self.disk)
            self.lane.wrote(batch)

    def sync(self) -> None:
        self.write()
        while (batch := self.lane.take_sync(0.0)) is not None:
            batch.run(self.disk)
            self.lane.did_sync(batch)

    def log(self, segment_bytes: int = 4096) -> StreamLog:
        return StreamLog(self.disk, self.lane, FOLDER, segment_bytes=segment_bytes, cache=self.cache)

    def recovered(self, *, intact: bool, segment_bytes: int = 4096) -> StreamLog:
        """The log as another start recovers it."""
        self.start()
        log = self.log(segment_bytes)
        log.recover(intact=intact)
        return log


def append(log: StreamLog, *bodies: bytes, stamp_ms: int = 0, values: Sequence[str | None] | None = None) -> int:
    return log.append(list(bodies), ALIKE, stamp_ms=stamp_ms, filter_values=values)


def read_all(log: StreamLog, offset: int = 0) -> list[tuple[int, bytes]]:
    """Every message from an offset on, as a reader without a filter gets them."""
    found: list[tuple[int, bytes]] = []
    chunk: Chunk | None
    hint = offset
    while (chunk := log.chunk(offset, hint)) is not None:
        start = max(0, offset - chunk.first)
        found += [(chunk.first + place, chunk.entries[place]) for place in range(start, chunk.count)]
        hint, offset = chunk.first, chunk.next
    return found


class StreamAtWork:
    """A stream queue with a publisher, and consumers that have a mailbox each."""

    def __init__(
        self,
        options: QueueOptions | None = None,
        *,
        store: StreamDisk | None = None,
        log: StreamLog | None = None,
        filter_value: Callable[[bytes, object], str | None] = lambda entry, origin: None,
    ) -> None:
        self.store = store or StreamDisk()
        self.log = log or self.store.log()
        self.now = Now(1000.0, 1_700_000_000.0)
        self.confirms = Confirms()
        lane = self.store.lane
        self.written: Waits[PositionWaiter] = Waits(lambda: lane.written)
        self.synced: Waits[PositionWaiter] = Waits(lambda: lane.synced)
        self.queue = StreamQueue(
            "s",
            replace(options or QueueOptions(), type=QueueType.STREAM),
            self.log,
            written=self.written,
            synced=self.synced,
            filter_values=lambda entries, origin: [filter_value(entry, origin) for entry in entries],
            stage_credit=CreditFlow("s", GENERAL),
        )
        self.mailbox = Mailbox(lambda: None)
        self.publisher = Publisher(self.mailbox, None, QueueTarget("s"), None)
        self.confirms.enter(self.publisher)
        self.published = 0
        self.consumers = 0

    def publish(self, *bodies: bytes, attributes: Attributes = ALIKE) -> None:
        run = Run(self.published, list(bodies), attributes)
        self.published += len(bodies)
        self.queue.inbox.put(Submission(self.publisher, run, None), len(bodies))

    def turn(self) -> None:
        """Do what the pump does, until nothing more follows at once."""
        self.confirms.in_turn = True
        while True:
            for waits in (self.written, self.synced):
                for waiting in waits.reached():
                    waiting.reached(self.confirms)
            more = self.queue.admit(self.confirms, self.now)
            self.queue.dispatch(self.now)
            if not more and self.queue.deadline > self.now.monotonic:
                break
        self.confirms.end_turn()

    def settle_down(self, *bodies: bytes) -> None:
        """Publish, write, and let the consumers read."""
        if bodies:
            self.publish(*bodies)
        self.turn()
        self.store.write()
        self.turn()

    def consumer(self, options: StreamOptions | None = None, *, priority: int = 0) -> Attachment:
        wanted = ConsumeOptions(stream=options or StreamOptions(), priority=priority)
        consumer = Attachment(Consumer(self.consumers, "s", Mailbox(lambda: None), wanted, None))
        self.consumers += 1
        self.queue.attach(consumer)
        return consumer

    def confirmed(self) -> list[tuple[int, int, str]]:
        actions = self.mailbox.take()
        return [(one.first, one.last, one.outcome.value) for one in actions if isinstance(one, Confirmed)]


def got(consumer: Attachment) -> list[tuple[int, bytes]]:
    """The messages delivered since the last call, as offset and body; answers to grants are dropped."""
    return delivered(consumer.consumer.mailbox.take())


def delivered(actions: Sequence[Action]) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for action in actions:
        if isinstance(action, Delivered):
            assert action.sequence_key == "x-stream-offset"
            assert action.sequences is not None
            found += zip(action.sequences, action.entries, strict=True)
    return found


def replies(actions: Sequence[Action]) -> list[tuple[int, int]]:
    """The answers to grants, as available and drained."""
    return [(one.available, one.drained) for one in actions if isinstance(one, GrantReply)]
