"""A node gets another node's copy of the log of a group, in parts."""

from array import array
from collections.abc import Callable

import pytest

from core.engine.quorum.batches import OrderEnd, encoded
from core.engine.quorum.commands import CountersRecord, Messages, QueueKey, decode, encode, enqueue_head
from core.engine.quorum.copying import BEGIN, GIVE_UP_S, HOLD_S, CopyPart, CopySource, CopyWanted, GroupCopy
from core.engine.quorum.queues import QuorumQueues
from core.engine.quorum.shared_log import ClaimAnswer, LogRead, Owner, SharedLog
from core.message import Attributes
from core.store.command_log import LocalCommandLog, RecordPlace
from core.store.lane import Lane
from tests.kit.faulty_disk import MemoryDisk

SOURCE, RECEIVER = 1, 2
PART_BYTES = 100


class Place:
    """A node with a copy, and the requests between it and another one, which a test can change on their way."""

    def __init__(self, node: int, *, generation: int = 1, disk: MemoryDisk | None = None) -> None:
        self.now = 0.0
        self.disk = disk or MemoryDisk()
        self.lane = Lane("quorum", generation=generation, sync_interval_s=0.2)
        self.files = LocalCommandLog(self.disk, self.lane, file_bytes_max=400, group=7)
        self.log = SharedLog(self.files, node=node, group=7)
        self.queues = QuorumQueues(self.files, shared=self.log)
        self.queues.recover()
        self.asked: list[CopyWanted] = []
        self.part: CopyPart | None = None
        self.late: list[Callable[[], None]] | None = None
        """Answers that are under way; None if each comes at once."""
        self.copy = GroupCopy(self.log, self.queues, self, self.clock, serial=100)
        self.source = CopySource(self.files, 55, self.clock, part_bytes_max=PART_BYTES)
        self.queues.cleaner.keeps_from = self.source.keeps_from

    def clock(self) -> float:
        return self.now

    def want_copy(self, wanted, answered, unanswered):
        self.asked.append(wanted)
        self._answer(answered)

    def read_copy(self, receiver, answered, unanswered):
        part = self.part
        self._answer(lambda: answered(part))

    def _answer(self, answer: Callable[[], None]) -> None:
        if self.late is None:
            answer()
        else:
            self.late.append(answer)

    def work(self) -> None:
        while self.lane.staged > self.lane.synced:
            self.lane.want_sync()
            for batch, done in (
                (self.lane.take_write(), self.lane.wrote),
                (self.lane.take_sync(9e9), self.lane.did_sync),
            ):
                if batch is not None:
                    batch.run(self.disk)
                    done(batch)

    def read(self, batches, *, first: int = 1, complete: bool = True) -> None:
        after = self.log.ends_at
        end = batches[-1].end.number if batches else after
        some = [(batch.end.number, batch.data) for batch in batches]
        self.log.read_answered(LogRead(after, Owner(1, 9), first, end, some, complete), self.now)
        self.queues.see_to()
        self.work()

    def numbers(self) -> list[int]:
        found: list[int] = []
        for payload in self.queues.commands_of(3):
            _, command = decode(payload)
            if isinstance(command, Messages):
                for first, count in zip(command.firsts, command.counts, strict=True):
                    found += range(first, first + count)
        return sorted(found)


def chain(count: int, after: OrderEnd | None = None, first: int = 0) -> list:
    end, batches = after or OrderEnd(), []
    for number in range(first, first + count):
        head = enqueue_head(QueueKey(3, 0), number, array("I", [20]), Attributes(durable=True), None, b"")
        batches.append(encoded(7, 1, end, [head + b"%020d" % number]))
        end = batches[-1].end
    return batches


@pytest.fixture
def source():
    made = Place(SOURCE)
    made.read(chain(12))
    return made


@pytest.fixture
def receiver():
    made = Place(RECEIVER)
    made.read([], first=9)
    assert made.log.must_copy
    assert made.log.wants_after is None
    assert made.copy.wanted
    return made


def carry(source: Place, receiver: Place, steps: int = 1000) -> None:
    """Carry requests and parts until nothing is wanted any more."""
    for _ in range(steps):
        if not receiver.log.must_copy or not receiver.copy.source:
            return
        receiver.now += 0.06
        source.now += 0.06
        receiver.copy.drive()
        if receiver.asked and (part := source.source.part(receiver.asked[-1])) is not None:
            receiver.part = part
        receiver.work()


def test_a_copy_has_everything_and_goes_on_with_the_engine(source, receiver):
    receiver.copy.begin(SOURCE)
    assert receiver.numbers() == []
    carry(source, receiver)
    assert receiver.log.ends_at == 12
    assert receiver.queues.copying, "the engine has not said that it has what follows"
    receiver.read(chain(1, chain(12)[-1].end, 12), first=10)
    assert not receiver.queues.copying
    assert receiver.numbers() == list(range(13))
    assert source.numbers() == list(range(12))
    again = Place(RECEIVER, generation=2, disk=receiver.disk)
    assert not again.log.must_copy
    assert (again.log.ends_at, again.numbers()) == (13, list(range(13)))


def test_what_a_node_had_before_is_gone(source):
    receiver = Place(RECEIVER)
    other = chain(3, first=50)
    receiver.read(other)
    receiver.read([], first=9)
    receiver.copy.begin(SOURCE)
    carry(source, receiver)
    assert receiver.numbers() == list(range(12))
    assert min(receiver.files.files()) > 1


def test_a_start_in_the_middle_of_a_copy_begins_it_again(source, receiver):
    receiver.copy.begin(SOURCE)
    carry(source, receiver, steps=6)
    assert 0 < len(receiver.numbers()) < 12
    again = Place(RECEIVER, generation=2, disk=receiver.disk)
    assert again.log.must_copy
    assert again.log.synced_number == 0
    again.copy.begin(SOURCE)
    carry(source, again)
    again.read([], first=1)
    assert again.numbers() == list(range(12))


def test_a_copy_goes_on_where_the_engine_has_been_cut_meanwhile(source, receiver):
    receiver.copy.begin(SOURCE)
    carry(source, receiver)
    source.read(chain(3, chain(12)[-1].end, 12))
    receiver.read([], first=14)
    assert receiver.log.must_copy
    assert not receiver.copy.wanted, "it has its source still"
    carry(source, receiver)
    receiver.read([], first=14)
    assert (receiver.log.ends_at, receiver.numbers()) == (15, list(range(15)))


def test_a_damaged_part_ends_the_attempt(source, receiver):
    receiver.copy.begin(SOURCE)
    receiver.work()
    receiver.copy.drive()
    part = source.source.part(receiver.asked[-1])
    assert part is not None
    data = bytearray(part.data)
    data[10] ^= 1
    receiver.part = part._replace(data=bytes(data))
    receiver.work()
    receiver.copy.drive()
    receiver.now += 1
    receiver.copy.drive()
    assert receiver.copy.wanted


def test_a_source_that_does_not_answer_is_given_up(receiver):
    receiver.copy.begin(SOURCE)
    receiver.now += GIVE_UP_S + 1
    receiver.copy.drive()
    assert receiver.copy.wanted


@pytest.mark.parametrize(("life", "file"), [(54, 1), (55, 77)])
def test_another_life_and_a_file_that_is_gone_begin_again(source, receiver, life, file):
    wanted = CopyWanted(RECEIVER, SOURCE, 1, life, RecordPlace(file, 0))
    assert source.source.part(wanted) == CopyPart(1, 55, False)
    receiver.copy.begin(SOURCE)
    receiver.work()
    receiver.copy.drive()
    receiver.part = CopyPart(receiver.asked[-1].serial, 55, False)
    receiver.now += 1
    receiver.copy.drive()
    assert receiver.copy.wanted


def test_files_stay_while_they_are_copied(source):
    assert source.source.keeps_from() is None
    part = source.source.part(CopyWanted(RECEIVER, SOURCE, 1, 0, BEGIN))
    assert part is not None
    assert part.place.file == source.source.keeps_from() == 1
    assert len(part.data) == PART_BYTES
    source.now += HOLD_S + 1
    assert source.source.keeps_from() is None


def test_a_source_gives_only_what_it_has_written():
    source = Place(SOURCE)
    source.log.read_answered(LogRead(0, Owner(1, 9), 1, 2, [(b.end.number, b.data) for b in chain(2)], True), 0.0)
    source.queues.see_to()
    wanted = CopyWanted(RECEIVER, SOURCE, 1, 0, BEGIN)
    assert source.source.part(wanted) is None
    source.work()
    assert source.source.part(wanted) is not None


def test_a_receiver_that_begins_again_gets_nothing_before_the_present_end_is_written(source):
    again = CopyWanted(RECEIVER, SOURCE, 2, 0, BEGIN)
    assert source.source.part(again._replace(serial=1)) is not None
    batches = chain(1, chain(12)[-1].end, 12)
    source.log.read_answered(LogRead(12, Owner(1, 9), 1, 13, [(b.end.number, b.data) for b in batches], True), 0.0)
    source.queues.see_to()
    assert source.source.part(again) is None
    assert source.source.part(again) is None
    source.work()
    assert source.source.part(again) is not None


def test_an_answer_to_an_earlier_attempt_is_not_taken_for_the_beginning(source, receiver):
    receiver.copy.begin(SOURCE)
    carry(source, receiver, steps=4)
    receiver.late = []
    receiver.now += 0.06
    receiver.copy.drive()
    assert receiver.asked[-1].place != BEGIN
    receiver.copy.begin(SOURCE)
    receiver.work()
    late, receiver.late = receiver.late, None
    for answer in late:
        answer()
    receiver.part = source.source.part(receiver.asked[-1])
    receiver.now += 0.06
    receiver.copy.drive()
    assert receiver.numbers() == []
    carry(source, receiver)
    receiver.read([])
    assert receiver.numbers() == list(range(12))


def test_a_part_that_comes_when_the_group_was_dropped_is_not_taken(source, receiver):
    receiver.copy.begin(SOURCE)
    carry(source, receiver, steps=4)
    receiver.late = []
    receiver.part = source.source.part(receiver.asked[-1])
    receiver.now += 0.06
    receiver.copy.drive()
    assert receiver.late
    receiver.copy.end()
    receiver.queues.begin_copy()
    for answer in receiver.late:
        answer()
    assert receiver.queues.kept_upto == 0
    assert receiver.copy.wanted


def test_a_copy_counts_as_synced_when_its_end_is_synced(source, receiver):
    receiver.copy.begin(SOURCE)
    carry(source, receiver)
    assert receiver.log.ends_at == 12
    assert receiver.log.synced_number == 0, "a start would begin the copy again"
    receiver.log.read_answered(LogRead(12, Owner(1, 9), 1, 12, [], True), receiver.now)
    receiver.queues.see_to()
    assert receiver.log.synced_number == 0
    receiver.work()
    assert receiver.log.synced_number == 12


def test_commands_in_doubt_are_never_known_after_a_copy():
    node = Place(RECEIVER)
    claim = node.log.claim()
    node.log.claim_answered(claim, ClaimAnswer(Owner(1, RECEIVER), True), 0.0)
    node.log.read_answered(LogRead(0, Owner(1, RECEIVER), 1, 0, [], True), 0.0)
    node.log.append((encode(QueueKey(3, 0), CountersRecord(4)),), 20, 1, prompt=True)
    assert node.log.take_batch() is not None
    node.log.owner_seen(Owner(2, 9), 1.0)
    node.read([], first=9)
    node.copy.begin(SOURCE)
    assert node.log.take_voids() == []
    assert node.log.take_unknown() == [(1, 1)]


def test_a_copy_that_is_found_damaged_comes_from_another_node(source):
    receiver = Place(RECEIVER)
    batches = chain(12)
    for first in (0, 4, 8):  # a mark of the lane follows each sync
        receiver.read(batches[first : first + 4])
    receiver.disk.flip_bit("quorum/groups/7/1.log", 8 * 40)
    again = Place(RECEIVER, generation=2, disk=receiver.disk)
    assert again.log.must_copy
    assert any("copied from another node" in problem for problem in again.queues.problems)
    assert again.numbers() == []
    again.copy.begin(SOURCE)
    carry(source, again)
    again.read([])
    assert again.numbers() == list(range(12))
    last = Place(RECEIVER, generation=3, disk=again.disk)
    assert (last.log.must_copy, last.numbers(), list(last.queues.problems)) == (False, list(range(12)), [])
