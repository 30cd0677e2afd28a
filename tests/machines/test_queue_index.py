"""Queue indexes and message store against a model, through writes, syncs, kills, power cuts and restarts.

For each message the model knows when it was staged, and when its settlement was. From that follows what a start must
find after each way of stopping. Messages that were written survive a kill, messages that were synced survive a power
cut. A settled message never comes back when its settlement was written (after a power cut: synced). Every other message
may be found or not, but never altered, out of order or doubled. No sequence number is used twice.
"""

from dataclasses import dataclass
from random import Random

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from core.message import Run, RunPart
from core.store.places import SEGMENT_MESSAGES
from core.store.queue_index import QueueIndex
from tests.kit.classic_store import DURABLE, TRANSIENT, StoreHarness, messages

QUEUES = ("1", "2")
EMBED_BELOW = 64
SIZES = (0, 12, 63, 64, 3000, 30_000)


@dataclass
class Message:
    """A message that the model knows."""

    body: bytes
    durable: bool
    position: int
    entry: int
    """Which entry of which run the message is. A body is stored once for all queues."""
    settled: bool = False
    settled_position: int | None = None
    """The position of the settlement, None until a batch took it."""


class QueueIndexMachine(RuleBasedStateMachine):
    """Two queues of one store."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = StoreHarness(
            queue_ids=QUEUES, queue_index_embed_msgs_below=EMBED_BELOW, msg_store_file_size_limit=65_536
        )
        self.messages: dict[str, dict[int, Message]] = {queue: {} for queue in QUEUES}
        self.in_memory: dict[str, list[tuple[int, bytes]]] = {queue: [] for queue in QUEUES}
        """Transient messages that were not paged out, by queue."""
        self.next = dict.fromkeys(QUEUES, 0)
        self.entries = 0

    def index(self, queue: str) -> QueueIndex:
        return self.harness.store.queue_index(queue)

    def live(self, queue: str) -> list[int]:
        return sorted(sequence for sequence, message in self.messages[queue].items() if not message.settled)

    # --- what queues do

    @rule(
        queues=st.sampled_from([QUEUES[:1], QUEUES[1:], QUEUES]),
        sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=6),
        fill=st.integers(0, 255),
        durable=st.booleans(),
    )
    def publish(self, queues: tuple[str, ...], sizes: list[int], fill: int, durable: bool) -> None:
        bodies = [bytes([fill + number & 255]) * size for number, size in enumerate(sizes)]
        run = Run(0, bodies, DURABLE if durable else TRANSIENT)
        for queue in queues:
            first = self.next[queue]
            position, _ = self.index(queue).publish(first, RunPart(run, 0, len(sizes)))
            self.next[queue] += len(sizes)
            for number, body in enumerate(run.entries):
                self.messages[queue][first + number] = Message(body, durable, position, self.entries + number)
        self.entries += len(sizes)

    @rule(queue=st.sampled_from(QUEUES), before=st.integers(0, 4))
    def pass_to_the_next_segment(self, queue: str, before: int) -> None:
        """Skip numbers up to the next segment, as if other messages had taken them."""
        boundary = (self.next[queue] // SEGMENT_MESSAGES + 1) * SEGMENT_MESSAGES
        self.next[queue] = max(self.next[queue], boundary - before)
        self.index(queue).reserve(self.next[queue])

    @rule(queue=st.sampled_from(QUEUES))
    def keep_in_memory(self, queue: str) -> None:
        self.in_memory[queue].append((self.next[queue], b"transient %d" % self.next[queue]))
        self.next[queue] += 1
        self.index(queue).reserve(self.next[queue])

    @rule(queue=st.sampled_from(QUEUES))
    def page_out(self, queue: str) -> None:
        for sequence, body in self.in_memory[queue]:
            position, _ = self.index(queue).publish(sequence, RunPart(Run(0, [body], TRANSIENT), 0, 1))
            self.messages[queue][sequence] = Message(body, False, position, self.entries)
            self.entries += 1
        self.in_memory[queue].clear()

    @rule(queue=st.sampled_from(QUEUES), data=st.data())
    def settle(self, queue: str, data: st.DataObject) -> None:
        if live := self.live(queue):
            chosen = data.draw(st.lists(st.sampled_from(live), min_size=1, unique=True).map(sorted))
            self.index(queue).settle(chosen)
            self.model_settle(queue, chosen)

    @rule(queue=st.sampled_from(QUEUES), start=st.integers(0, 5), step=st.integers(1, 3))
    def settle_range(self, queue: str, start: int, step: int) -> None:
        live = self.live(queue)[start:]
        count = next((at for at, sequence in enumerate(live) if sequence != live[0] + at), len(live))
        if chosen := live[:count:step]:
            self.index(queue).settle(range(chosen[0], chosen[-1] + 1, step))
            self.model_settle(queue, chosen)

    @rule(queue=st.sampled_from(QUEUES), data=st.data())
    def purge(self, queue: str, data: st.DataObject) -> None:
        live = self.live(queue)
        start = data.draw(st.sampled_from(live)) if live else 0
        self.index(queue).purge(start)
        self.model_settle(queue, [sequence for sequence in live if sequence >= start])

    def model_settle(self, queue: str, sequences: list[int]) -> None:
        for sequence in sequences:
            self.messages[queue][sequence].settled = True

    @rule(queue=st.sampled_from(QUEUES), data=st.data())
    def read_some(self, queue: str, data: st.DataObject) -> None:
        if live := self.live(queue):
            chosen = data.draw(st.lists(st.sampled_from(live), min_size=1, unique=True).map(sorted))
            bodies = [self.messages[queue][sequence].body for sequence in chosen]
            assert self.index(queue).read_sequences(chosen) == bodies

    @rule()
    def compact(self) -> None:
        self.harness.store.compact_step()

    # --- what the lane does

    @precondition(lambda self: self.harness.store.classic.writing is None)
    @rule()
    def take_write(self) -> None:
        lane = self.harness.store.classic
        lane.take_write()
        for queue in QUEUES:
            for message in self.messages[queue].values():
                if message.settled and message.settled_position is None:
                    message.settled_position = lane.staged

    @precondition(lambda self: self.harness.store.classic.writing is not None)
    @rule()
    def write(self) -> None:
        lane = self.harness.store.classic
        lane.writing.run(self.harness.disk)
        lane.wrote(lane.writing)

    @rule()
    def sync(self) -> None:
        self.harness.sync()

    # --- ways to stop

    @rule(in_between=st.booleans(), torn=st.none() | st.integers(0, 2000))
    def kill(self, in_between: bool, torn: int | None) -> None:
        """A batch may have been written, wholly or in part, without a report of it."""
        lane = self.harness.store.classic
        disk = self.harness.disk
        sure = lane.written
        if in_between and lane.writing is not None:
            path = min(path for path, _ in lane.writing.ends)
            before = disk.size(path) if path in disk.paths else 0
            lane.writing.run(disk)
            if torn is not None and before + torn < disk.size(path):
                disk.truncate(path, before + torn)
        self.harness.kill()
        self.check_survivors(sure)

    @rule(seed=st.integers(0, 2**32))
    def power_cut(self, seed: int) -> None:
        sure = self.harness.store.classic.synced
        self.harness.power_cut(Random(seed))
        self.check_survivors(sure)

    @rule(queue=st.sampled_from(QUEUES), data=st.data())
    def restart(self, queue: str, data: st.DataObject) -> None:
        if self.harness.store.classic.writing is not None:
            self.write()
        for other in QUEUES:
            self.index(other).next_sequence_floor = self.next[other]
        delivered = data.draw(st.integers(0, self.next[queue]))
        self.index(queue).delivered_below = delivered
        self.harness.restart()
        assert self.harness.store.report.clean
        for other in QUEUES:
            self.messages[other] = {
                sequence: Message(message.body, True, 0, message.entry)
                for sequence, message in self.messages[other].items()
                if message.durable and not message.settled
            }
            self.in_memory[other].clear()
            assert self.index(other).next_sequence_floor == self.next[other]
        for number in self.index(queue).segments:
            for run in self.index(queue).load(number):
                assert {sequence < delivered for sequence in run.sequences} == {run.redelivered}

    def check_survivors(self, sure: int) -> None:
        """Check what is found after an unclean stop. Records up to the position ``sure`` are certain."""
        assert not self.harness.store.report.clean
        for queue in QUEUES:
            index = self.index(queue)
            found = messages(index)
            known = self.messages[queue]
            for sequence, body in found.items():
                assert known[sequence].body == body
                assert known[sequence].durable
                settled_position = known[sequence].settled_position
                assert settled_position is None or settled_position > sure, "a settled message came back"
            for sequence, message in known.items():
                if message.durable and not message.settled and message.position <= sure:
                    assert sequence in found, "a message is lost"
            assert all(run.redelivered for number in index.segments for run in index.load(number))
            assert index.next_sequence_floor >= self.next[queue]
            self.next[queue] = index.next_sequence_floor
            self.messages[queue] = {
                sequence: Message(body, True, 0, known[sequence].entry) for sequence, body in found.items()
            }
            self.in_memory[queue].clear()

    # --- invariants

    @invariant()
    def everything_is_there(self) -> None:
        for queue in QUEUES:
            index = self.index(queue)
            live = self.live(queue)
            assert messages(index) == {sequence: self.messages[queue][sequence].body for sequence in live}
            assert sum(segment.live for segment in index.segments.values()) == len(live)

    @invariant()
    def the_message_store_holds_what_is_needed(self) -> None:
        store = self.harness.store
        for bodies, durable in ((store.persistent, True), (store.transient, False)):
            needed = {
                message.entry
                for queue in QUEUES
                for message in self.messages[queue].values()
                if message.durable is durable and not message.settled and len(message.body) >= EMBED_BELOW
            }
            assert len(bodies) == len(needed)
            assert bodies.live_bytes == sum(file.live for file in bodies.files.values())
            assert bodies.total_bytes == sum(file.total for file in bodies.files.values())


TestQueueIndex = QueueIndexMachine.TestCase
TestQueueIndex.settings = settings(max_examples=150, stateful_step_count=40)
