"""One node of a simulated cluster: a disk, a lane, and the product's quorum queues over the log of their group.

The publishers and consumers of the group are in :mod:`tests.cluster.world`. It is told what happened to each message.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from core.clock import Now
from core.cluster.group_driver import GroupDriver
from core.engine.quorum.commands import Messages, decode
from core.engine.quorum.copying import CopySource, GroupCopy
from core.engine.quorum.queues import QuorumQueues
from core.engine.quorum.shared_log import Owner, Role, SharedLog
from core.engine.ready.batch import Batch
from core.engine.stream.group_stream import GroupStream
from core.message import Attributes, Return, Run, RunPart
from core.store.command_log import NOWHERE, LocalCommandLog
from core.store.lane import Lane
from core.store.store import QUORUM
from core.store.stream_chunk import ChunkCache
from core.store.stream_chunk import decode as decode_chunk
from core.store.stream_log import Kept
from tests.cluster.claims import Seen
from tests.cluster.engine import GROUP, Mistake, Report, SimulatedEngine, View
from tests.cluster.network import Network
from tests.cluster.simulated_log import SimulatedLog
from tests.kit.faulty_disk import MemoryDisk

FILE_BYTES = 2048
"""So small that files are begun, carried and removed all the time."""
STREAMS = (3,)
"""The streams of the group, by their numbers in its log."""
KEPT = Kept(file_bytes=1500)
SEGMENT_BYTES, CACHE_BYTES = 500, 3000
"""So small that messages are removed, and that most chunks are read back from the copy."""
PART_BYTES = 1000
"""Parts of a copy end in the middle of records."""
LIFE = 1 << 20
"""A node copies fewer parts in one life."""
DURABLE = Attributes(durable=True)


class Clients(Protocol):
    """What the publishers and consumers see."""

    def confirmed(self, queue: int, numbers: Sequence[int]) -> None:
        """These messages were accepted."""

    def released(self, queue: int, numbers: Sequence[int]) -> None:
        """These messages were answered as never taken on."""

    def delivered(self, queue: int, numbers: Sequence[int], *, redelivered: bool) -> None:
        """A consumer got these messages."""

    def settled(self, queue: int, numbers: Sequence[int]) -> None:
        """A consumer has settled these messages; the settlement is not committed yet."""

    def took(self, stream: int, first: int, numbers: Sequence[int]) -> None:
        """These messages of a stream were accepted, with offsets from ``first`` up."""

    def read(self, stream: int, first: int, numbers: Sequence[int], stamp_ms: int) -> None:
        """A reader got these messages of a stream."""

    def gone(self, queue: int, numbers: Sequence[int]) -> None:
        """The settlement of these messages is committed."""


@dataclass(slots=True)
class Waiting:
    """Messages whose command has this position."""

    position: int
    queue: int
    numbers: Sequence[int]
    first: int | None = None
    """The offset of the first one, in a stream."""


class Node:
    """One life of one node. After :meth:`end` nothing of it happens any more."""

    def __init__(
        self,
        number: int,
        disk: MemoryDisk,
        generation: int,
        *,
        engine: SimulatedEngine,
        network: Network,
        clients: Clients,
        seen: list[Seen],
        speed: float,
    ) -> None:
        """``speed``: of its monotonic clock. Raises StoreDamaged."""
        self.number = number
        self.disk = disk
        self.generation = generation
        self.seen = engine.view()
        """What it has seen of the others last."""
        self.wall_offset = 0.0
        """By how much its wall clock is wrong, in seconds."""
        self.lane = Lane(QUORUM, generation=generation, sync_interval_s=0.2)
        self.copied = LocalCommandLog(disk, self.lane, file_bytes_max=FILE_BYTES, group=GROUP)
        self.log = SharedLog(self.copied, node=number, group=GROUP)
        self.queues = QuorumQueues(self.copied, shared=self.log, look_bytes=FILE_BYTES // 2)
        self.queues.recover()
        self.queues.leadership_changed = self._leadership_changed
        cache = ChunkCache(CACHE_BYTES)
        self.streams = {
            stream: GroupStream(self.queues, stream, segment_bytes=SEGMENT_BYTES, cache=cache, key=str(stream))
            for stream in STREAMS
        }
        self._engine = engine
        self.requests = SimulatedLog(number, engine, network, seen)
        self.driver = GroupDriver(self.log, self.requests, self.clock)
        self._network = network
        life = LIFE * generation + number
        self.copy = self.driver.copy = GroupCopy(self.log, self.queues, self.requests, self.clock, serial=life)
        source = self.driver.source = CopySource(self.copied, life, self.clock, part_bytes_max=PART_BYTES)
        self.queues.cleaner.keeps_from = source.keeps_from
        self._clients = clients
        self._speed = speed
        self._next: dict[int, int] = {}
        self._held: list[tuple[int, Batch]] = []
        self._unconfirmed: deque[Waiting] = deque()
        self._settled: list[tuple[int, Sequence[int]]] = []
        self._settling: deque[Waiting] = deque()

    def clock(self) -> float:
        """Its monotonic clock."""
        return self._network.now * self._speed

    @property
    def now(self) -> Now:
        """Its clocks."""
        return Now(self.clock(), self._network.now + self.wall_offset)

    @property
    def serves(self) -> bool:
        """Whether it takes on and delivers messages now."""
        return self.queues.may_serve(self.clock())

    @property
    def holds(self) -> bool:
        """Whether its consumers hold messages."""
        return bool(self._held)

    def end(self) -> None:
        """The process ends."""
        self.requests.over = True

    # --- clients

    def publish(self, queue: int, numbers: Sequence[int], size: int) -> None:
        """Publish messages whose bodies begin with their numbers."""
        backing = self.queues.backing(queue)
        first = self._next.setdefault(queue, self.queues.next_sequence(queue))
        bodies = [b"%d:" % number + b"x" * size for number in numbers]
        position = backing.publish_run(RunPart(Run(0, bodies, DURABLE), 0, len(bodies), None), first, self.now)
        assert position != NOWHERE.position, "a node that serves leads"
        self._next[queue] = first + len(bodies)
        self._unconfirmed.append(Waiting(position, queue, numbers))

    def publish_to_stream(self, stream: int, numbers: Sequence[int], size: int) -> None:
        """Publish messages to a stream, in one chunk."""
        log = self.streams[stream]
        bodies = [b"%d:" % number + b"x" * size for number in numbers]
        first = log.next
        position = log.append(bodies, DURABLE, stamp_ms=int(self.now.wall * 1000))
        assert position != NOWHERE.position, "a node that serves leads"
        self._unconfirmed.append(Waiting(position, stream, numbers, first))

    def read_stream(self, stream: int, rng: Random) -> None:
        """Let a reader read a chunk."""
        log = self.streams[stream]
        log.commit(synced=False)
        if log.committed > log.first:
            offset = rng.randrange(log.first, log.committed)
            chunk = log.chunk(offset, offset)
            assert chunk is not None
            assert chunk.first <= offset < chunk.next
            self._clients.read(stream, chunk.first, _numbers(chunk.entries), chunk.stamp_ms)

    def retain(self, stream: int) -> None:
        """Have old messages of a stream removed."""
        log = self.streams[stream]
        if log.exceeds(KEPT):
            log.retain(KEPT, 0)

    def deliver(self, queue: int, n: int) -> None:
        """Deliver some messages."""
        batch = self.queues.backing(queue).fetch(n)
        if batch is not None:
            self._held.append((queue, batch))
            self._clients.delivered(queue, numbers_of(batch), redelivered=not batch.first_acquirer)

    def drain(self, queue: int) -> list[tuple[int, bool]]:
        """Take out everything that no consumer holds: numbers, and whether they are flagged."""
        found: list[tuple[int, bool]] = []
        while (batch := self.queues.backing(queue).fetch(10**6)) is not None:
            found += [(number, not batch.first_acquirer) for number in numbers_of(batch)]
        return found

    def settle(self, rng: Random) -> None:
        """Let a consumer settle a batch."""
        if self._held:
            queue, batch = self._held.pop(rng.randrange(len(self._held)))
            numbers = numbers_of(batch)
            self.queues.backing(queue).settle(batch)
            self._clients.settled(queue, numbers)
            self._settled.append((queue, numbers))
            self.log.later(self)

    def give_back(self, rng: Random) -> None:
        """Let a consumer return a batch as failed; another gets it later, so it is held on."""
        if self._held:
            queue, batch = self._held[rng.randrange(len(self._held))]
            batch.delivery_count += Return(True).delivery_failed
            batch.first_acquirer = False
            self.queues.backing(queue).give_back(batch)
            self._clients.delivered(queue, numbers_of(batch), redelivered=True)

    def write_late(self) -> None:
        """See LateWriter. The backings were called before, so their settlements have positions."""
        for queue, numbers in self._settled:
            self._settling.append(Waiting(self.log.staged, queue, numbers))
        self._settled.clear()

    # --- the turn

    @property
    def is_member(self) -> bool:
        """Whether it is a member of the group, as far as it knows."""
        return self.number in self.seen.of_group

    @property
    def takes_part(self) -> bool:
        """See :meth:`core.cluster.member.Member._takes_part`."""
        return self.is_member or self.log.role is not Role.FOLLOWER or self.log.in_doubt or self.log.unwritten

    def look(self, looked: Callable[[], None]) -> None:
        """Look at the others. ``looked`` is called when the answer has come."""

        def answered(seen: View) -> None:
            if seen.listed.version >= self.seen.listed.version:
                self.seen = seen
                looked()

        self.requests.look(answered)

    def drop(self) -> None:
        """Remove what it keeps of the group, of which it is no member."""
        self.copy.end()
        self.queues.begin_copy()
        self.driver.end_copy()

    def turn(self) -> None:
        """Apply, answer, and send what is to be sent."""
        if not self.takes_part:
            return
        copying = self.queues.copying
        self.queues.see_to()
        self._answer()
        if self._engine.mistake is Mistake.STALE_LEADER:
            self.log.owner_seen(Owner(self.log.epoch, self.log.node), self.clock())
        self.driver.drive()
        if copying and not self.queues.copying:
            self.driver.end_copy()

    def report(self) -> None:
        """Tell the engine how the copy is."""
        synced = self.log.synced_number if self.is_member else 0
        copying = self.is_member and (self.log.must_copy or self.queues.copying)
        self.requests.report(self.generation, Report(self.seen.listed.version, synced, copying))

    def trim(self) -> None:
        """Have the engine cut away what no member needs."""
        self.requests.trim(self.log.ends_at, self.seen, Owner(self.log.epoch, self.number))

    def _answer(self) -> None:
        committed = self.log.committed
        for first, last in self.log.take_unknown():
            self._unconfirmed = deque(one for one in self._unconfirmed if not first <= one.position <= last)
            self._settling = deque(one for one in self._settling if not first <= one.position <= last)
        for first, last in self.log.take_voids():
            void = [one for one in self._unconfirmed if first <= one.position <= last]
            self._unconfirmed = deque(one for one in self._unconfirmed if not first <= one.position <= last)
            self._settling = deque(one for one in self._settling if not first <= one.position <= last)
            for one in void:
                self._clients.released(one.queue, one.numbers)
        while self._unconfirmed and self._unconfirmed[0].position <= committed:
            one = self._unconfirmed.popleft()
            if one.first is None:
                self._clients.confirmed(one.queue, one.numbers)
            else:
                self._clients.took(one.queue, one.first, one.numbers)
        while self._settling and self._settling[0].position <= committed:
            one = self._settling.popleft()
            self._clients.gone(one.queue, one.numbers)

    def _leadership_changed(self) -> None:
        self._next.clear()
        for stream in self.streams.values():
            stream.follow()
        self._held.clear()
        self._settled.clear()

    # --- the disk

    def write(self) -> None:
        """Write what is staged."""
        batch = self.lane.take_write()
        if batch is not None:
            batch.run(self.disk)
            self.lane.wrote(batch)

    def sync(self) -> None:
        """Sync what is written, and remove what may go."""
        batch = self.lane.take_sync(self.clock() + self.generation)
        if batch is not None:
            batch.run(self.disk)
            self.lane.did_sync(batch)

    def flush(self) -> None:
        """Write and sync everything."""
        while self.lane.synced < self.lane.staged or self.lane.has_late_writers or self.lane.has_records:
            self.lane.want_sync()
            self.write()
            self.sync()

    def content(self, queue: int) -> list[int]:
        """The sequence numbers of the live messages of a queue, as its copy has them."""
        found: list[int] = []
        for payload in self.queues.commands_of(queue):
            _, command = decode(payload)
            if isinstance(command, Messages):
                for first, count in zip(command.firsts, command.counts, strict=True):
                    found += range(first, first + count)
        return sorted(found)

    def content_of_stream(self, stream: int) -> dict[int, tuple[int, int]]:
        """The message and the time at each offset of a stream, as its copy has them."""
        found: dict[int, tuple[int, int]] = {}
        for place in self.queues.stream(stream):
            chunk = decode_chunk(self.queues.read_chunk(place))
            for offset, number in enumerate(_numbers(chunk.entries), chunk.first):
                found[offset] = number, chunk.stamp_ms
        return found


def numbers_of(batch: Batch) -> list[int]:
    """The numbers of these messages."""
    return _numbers(batch.entries)


def _numbers(entries: Sequence[bytes]) -> list[int]:
    return [int(entry[: entry.index(b":")]) for entry in entries]
