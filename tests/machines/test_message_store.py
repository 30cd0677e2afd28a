"""A message store against a dictionary, through writes, syncs, compaction and every order of references.

A body with a reference can be read, wherever it is at that moment. A body without references is garbage. Garbage is at
most half of the store when there was time to compact.
"""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from core.store.compaction import FILES_MIN, Compactor
from core.store.lane import Lane
from core.store.message_store import MessageStore
from core.store.places import PERSISTENT
from core.store.staging import Staging
from tests.kit.classic_store import FAR
from tests.kit.faulty_disk import MemoryDisk

FILE_BYTES_MAX = 2000
SIZES = (0, 1, 100, 500, 1900, 5000)


class MessageStoreMachine(RuleBasedStateMachine):
    """Bodies by their ids, with the number of references to each."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()
        self.lane = Lane("classic", generation=3, sync_interval_s=0.2)
        self.staging = Staging(self.lane, self.disk)
        self.store = MessageStore(PERSISTENT, staging=self.staging, file_bytes_max=FILE_BYTES_MAX)
        self.compactor = Compactor(self.store, self.staging, garbage_fraction=0.5)
        self.bodies: dict[int, bytes] = {}
        self.references: dict[int, int] = {}

    @rule(size=st.sampled_from(SIZES), count=st.integers(1, 5))
    def put(self, size: int, count: int) -> None:
        for _ in range(count):
            body = bytes([len(self.bodies) & 255]) * size
            body_id = self.store.put(body)
            assert body_id not in self.bodies
            self.bodies[body_id] = body
            self.references[body_id] = 1

    @precondition(lambda self: self.references)
    @rule(data=st.data())
    def retain(self, data: st.DataObject) -> None:
        body_id = data.draw(st.sampled_from(sorted(self.bodies)))
        held = body_id in self.references
        assert self.store.retain(body_id) is held
        if held:
            self.references[body_id] += 1

    @precondition(lambda self: self.references)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        for body_id in data.draw(st.lists(st.sampled_from(sorted(self.references)), min_size=1, unique=True)):
            self.store.release(body_id)
            self.references[body_id] -= 1
            if not self.references[body_id]:
                del self.references[body_id]

    @rule()
    def take_write(self) -> None:
        self.lane.take_write()

    @precondition(lambda self: self.lane.writing is not None)
    @rule()
    def wrote(self) -> None:
        self.lane.writing.run(self.disk)
        self.lane.wrote(self.lane.writing)

    @rule()
    def sync(self) -> None:
        self.lane.want_sync()
        if (batch := self.lane.take_sync(FAR)) is not None:
            batch.run(self.disk)
            self.lane.did_sync(batch)

    @rule()
    def compact(self) -> None:
        self.compactor.step()

    @rule()
    def settle_down(self) -> None:
        """Let the compactor run; then at least half of the store is live."""
        idle = 0
        for _ in range(100):
            if self.lane.writing is not None:
                self.wrote()
            self.take_write()
            if self.lane.writing is not None:
                self.wrote()
            self.sync()
            self.staging.forget_written()  # as Store.compact_step does: until then the last batch counts as unwritten
            idle = 0 if self.compactor.step() else idle + 1
            if idle == 2:  # a copy that the last step made is written in the next round
                break
        else:
            raise AssertionError("compaction goes on for ever")
        assert len(self.store.files) < FILES_MIN or 2 * self.store.live_bytes >= self.store.total_bytes
        on_disk = {int(name.removesuffix(".rdq")) for name in self.disk.names(PERSISTENT)}
        assert on_disk == set(self.store.files)

    @invariant()
    def what_is_held_can_be_read(self) -> None:
        for body_id in self.references:
            assert self.store.read(body_id) == self.bodies[body_id]
        assert len(self.store) == len(self.references)

    @invariant()
    def the_figures_are_right(self) -> None:
        files = self.store.files
        assert self.store.total_bytes == sum(file.total for file in files.values())
        assert self.store.live_bytes == sum(file.live for file in files.values())
        assert all(0 <= file.live <= file.total for file in files.values())
        assert all(file.live for number, file in files.items() if number != self.store.current)


TestMessageStore = MessageStoreMachine.TestCase
TestMessageStore.settings = settings(max_examples=150, stateful_step_count=50)


def test_a_file_of_the_last_batch_is_compacted_when_it_is_written():
    """The sparsest file holds the compactor's last copies, and no batch follows."""
    machine = MessageStoreMachine()
    machine.put(size=500, count=3)
    machine.settle_down()
    machine.put(size=1900, count=4)
    machine.settle_down()
    for body_id in [sorted(machine.references)[place] for place in (0, 3, 5, 6)]:
        machine.store.release(body_id)
        del machine.references[body_id]
    machine.settle_down()
    assert 2 * machine.store.live_bytes >= machine.store.total_bytes


def test_what_was_not_written_before_is_compacted_too():
    machine = MessageStoreMachine()
    machine.put(size=1900, count=3)
    machine.settle_down()
    for body_id in sorted(machine.references)[::2]:
        machine.store.release(body_id)
        del machine.references[body_id]
    machine.put(size=0, count=3)
    machine.settle_down()
    assert len(machine.store.files) < FILES_MIN
