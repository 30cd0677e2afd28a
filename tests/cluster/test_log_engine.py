"""What the driver of a group needs of an engine: the same demands on the simulated one and on a real etcd."""

import queue
import time
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import Protocol

import pytest

from core.cluster.etcd import Etcd
from core.cluster.etcd_log import EtcdLog
from core.cluster.group_driver import GroupDriver
from core.cluster.log_engine import LogEngine
from core.engine.quorum.batches import CommandBatch, OrderEnd, decoded, encoded
from core.engine.quorum.copying import CopyPart, CopyWanted
from core.engine.quorum.shared_log import Claim, ClaimAnswer, LogRead, Owner, PutAnswer, Role, SharedLog
from core.store.command_log import LocalCommandLog, RecordPlace
from core.store.lane import Lane
from tests.cluster.engine import SimulatedEngine
from tests.cluster.network import Network
from tests.cluster.simulated_log import SimulatedLog
from tests.kit.etcd_cluster import EtcdCluster, etcd_cluster
from tests.kit.faulty_disk import MemoryDisk

WAIT_S = 20.0
GROUPS = count(1)


class Place(Protocol):
    """An engine, and nodes that reach it."""

    def engine(self, node: int) -> LogEngine: ...

    def move(self) -> None:
        """Let answers come."""

    def now(self) -> float: ...


class SimulatedPlace:
    def __init__(self):
        self.network = Network(Random(3))
        self._engine = SimulatedEngine((1, 2, 3))

    def engine(self, node):
        return SimulatedLog(node, self._engine, self.network, [])

    def move(self):
        self.network.pass_time(0.01)

    def now(self):
        return self.network.now


class EtcdPlace:
    def __init__(self, cluster: EtcdCluster):
        self.answers: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.etcd = Etcd(cluster.endpoints, self.answers.put)
        self.group = next(GROUPS)

    def engine(self, node):
        return EtcdLog(self.etcd, "test", self.group)

    def move(self):
        try:
            self.answers.get(timeout=0.02)()
        except queue.Empty:
            return

    def now(self):
        return time.monotonic()


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with etcd_cluster() as started:
        yield started


@pytest.fixture(params=["simulated", "etcd"])
def place(request) -> Iterator[Place]:
    if request.param == "simulated":
        yield SimulatedPlace()
        return
    made = EtcdPlace(request.getfixturevalue("cluster"))
    yield made
    made.etcd.close()


def answer_of(place: Place, ask: Callable[..., None]):
    """Send a request until it has an answer."""
    deadline = place.now() + WAIT_S
    while place.now() < deadline:
        found: list[object] = []
        lost: list[None] = []
        ask(found.append, lambda lost=lost: lost.append(None))
        while not found and not lost:
            place.move()
        if found:
            return found[0]
    raise AssertionError("no answer")


def claim(place: Place, node: int, epoch: int) -> ClaimAnswer:
    return answer_of(place, lambda *then: place.engine(node).claim(Claim(epoch, node), *then))


def put(place: Place, batch: CommandBatch, node: int) -> PutAnswer:
    owner = Owner(batch.end.epoch, node)
    return answer_of(place, lambda *then: place.engine(node).put(batch, owner, *then))


def read(place: Place, after: int = 0) -> LogRead:
    return answer_of(place, lambda *then: place.engine(1).read(after, *then))


def delete(place: Place, numbers, owner: Owner) -> Owner:
    return answer_of(place, lambda *then: place.engine(owner.node).delete(numbers, owner, *then))


def chain(epoch: int, length: int, after: OrderEnd | None = None) -> list[CommandBatch]:
    """Batches in their order."""
    end, batches = after or OrderEnd(), []
    for number in range(length):
        batches.append(encoded(7, epoch, end, [b"command %d" % number]))
        end = batches[-1].end
    return batches


def test_a_claim_needs_the_epoch_before(place):
    assert claim(place, 1, 1) == ClaimAnswer(Owner(1, 1), True)
    assert claim(place, 2, 1) == ClaimAnswer(Owner(1, 1), False)
    assert claim(place, 1, 1) == ClaimAnswer(Owner(1, 1), False), "another request had won it"
    assert claim(place, 2, 2) == ClaimAnswer(Owner(2, 2), True)
    assert answer_of(place, place.engine(1).ask_owner) == Owner(2, 2)


def test_a_batch_is_put_once_and_can_be_read(place):
    claim(place, 1, 1)
    (batch,) = chain(1, 1)
    assert put(place, batch, 1) == PutAnswer(Owner(1, 1), None)
    assert put(place, batch, 1) == PutAnswer(Owner(1, 1), batch.data)
    found = read(place)
    assert (found.first, found.end, found.owner, found.complete) == (1, 1, Owner(1, 1), True)
    assert list(found.batches) == [(1, batch.data)]


def test_nothing_of_an_earlier_owner_lands_after_a_claim(place):
    claim(place, 1, 1)
    first, second = chain(1, 2)
    put(place, first, 1)
    claim(place, 2, 2)
    assert put(place, second, 1) == PutAnswer(Owner(2, 2), None)
    assert put(place, first, 1) == PutAnswer(Owner(2, 2), first.data), "it learns what became of the first"
    assert read(place).end == 1
    assert delete(place, [1], Owner(1, 1)) == Owner(2, 2)
    assert read(place).end == 1


def test_what_stands_behind_a_hole_can_be_deleted(place):
    claim(place, 1, 1)
    batches = chain(1, 4)
    for batch in (batches[0], batches[2], batches[3]):
        put(place, batch, 1)
    found = read(place)
    assert [number for number, _ in found.batches] == [1, 3, 4]
    assert delete(place, [3, 4], Owner(1, 1)) == Owner(1, 1)
    assert read(place).end == 1


def test_a_read_goes_page_by_page(place):
    claim(place, 1, 1)
    batches = chain(1, 20)
    for batch in batches:
        put(place, batch, 1)
    after, numbers = 0, []
    while True:
        page = read(place, after)
        assert page.end >= page.batches[-1][0]
        numbers += [number for number, data in page.batches if decoded(data).end.number == number]
        if page.complete:
            break
        after = numbers[-1]
    assert numbers == list(range(1, 21))
    assert page.end == 20


def test_a_log_that_ends_before_what_is_read_says_so(place):
    claim(place, 1, 1)
    for batch in chain(1, 4):
        put(place, batch, 1)
    assert (read(place, 4).end, list(read(place, 4).batches)) == (4, [])
    assert delete(place, [4], Owner(1, 1)) == Owner(1, 1)
    found = read(place, 4)
    assert (found.end < 4, list(found.batches), found.complete) == (True, [], True)


def led_with_five(place):
    """Claim the group for node 1, put five batches, and return them."""
    claim(place, 1, 1)
    batches = chain(1, 5)
    for batch in batches:
        put(place, batch, 1)
    return batches


def test_what_was_cut_away_is_known(place):
    led_with_five(place)
    engine = place.engine(1)
    assert answer_of(place, lambda *then: engine.cut(9, Owner(1, 2), *then)) == Owner(1, 1), "not the owner"
    assert read(place).first == 1
    assert answer_of(place, lambda *then: engine.cut(5, Owner(1, 1), *then)) == Owner(1, 1)
    found = read(place)
    assert (found.first, found.end, list(found.batches)) == (6, 5, [])


def test_a_batch_that_comes_again_after_it_was_cut_away_is_not_the_end(place):
    batches = led_with_five(place)
    engine = place.engine(1)
    assert answer_of(place, lambda *then: engine.cut(5, Owner(1, 1), *then)) == Owner(1, 1)
    put(place, batches[2], 1)  # it was repeated because it had no answer in time, and was late
    found = read(place, 5)
    assert (found.first, found.end, list(found.batches)) == (6, 5, [])


def test_a_batch_larger_than_a_request_is_put_once_and_read_whole(place):
    claim(place, 1, 1)
    (small,) = chain(1, 1)
    large = encoded(7, 1, small.end, [Random(1).randbytes(3 << 20)])
    (last,) = chain(1, 1, large.end)
    for batch in (small, large, last):
        assert put(place, batch, 1) == PutAnswer(Owner(1, 1), None)
    assert put(place, large, 1) == PutAnswer(Owner(1, 1), large.data)
    assert list(read(place).batches) == [(1, small.data), (2, large.data), (3, last.data)]
    claim(place, 2, 2)
    again = encoded(7, 1, last.end, [bytes(3 << 20)])
    assert put(place, again, 1) == PutAnswer(Owner(2, 2), None)
    engine = place.engine(2)
    assert answer_of(place, lambda *then: engine.cut(2, Owner(2, 2), *then)) == Owner(2, 2)
    assert list(read(place, 2).batches) == [(3, last.data)]
    assert delete(place, [3], Owner(2, 2)) == Owner(2, 2)
    assert read(place, 2).end == 2


def done(place: Place, ask: Callable[..., None]) -> None:
    """Send a request whose answer says nothing until it has one."""
    answer_of(place, lambda answered, unanswered: ask(lambda: answered(None), unanswered))


def test_parts_of_copies_travel_over_the_engine(place):
    one, other = place.engine(1), place.engine(2)
    wanted = CopyWanted(2, 1, 5, 0, RecordPlace(0, 0))
    part = CopyPart(5, 77, True, RecordPlace(3, 8), bytes(100_000), RecordPlace(4, 0), False)
    assert answer_of(place, lambda *then: other.read_copy(2, *then)) is None
    done(place, lambda *then: other.want_copy(wanted, *then))
    assert list(answer_of(place, one.read_wanted)) == [wanted]
    done(place, lambda *then: one.give_copy(wanted, part, *then))
    assert answer_of(place, lambda *then: other.read_copy(2, *then)) == part
    again = wanted._replace(serial=6, life=77, place=RecordPlace(4, 0))
    done(place, lambda *then: other.want_copy(again, *then))
    assert list(answer_of(place, one.read_wanted)) == [again]
    other.end_copy(2)
    deadline = place.now() + WAIT_S
    while answer_of(place, one.read_wanted):
        assert place.now() < deadline
    assert answer_of(place, lambda *then: other.read_copy(2, *then)) is None


class LogOfNode:
    """The log of one node with its copy, over an engine."""

    def __init__(self, place: Place, node: int) -> None:
        self._lane = Lane("quorum", generation=1, sync_interval_s=0.2)
        self._disk = MemoryDisk()
        copy = LocalCommandLog(self._disk, self._lane, file_bytes_max=1 << 20, group=7)
        assert list(copy.read()) == []
        self._copy, self._lease = copy, copy.acquire_lease()
        self.log = SharedLog(copy, node=node, group=7)
        self.driver = GroupDriver(self.log, place.engine(node), place.now)
        self._place = place
        self.applied: list[bytes] = []
        self.voids: list[tuple[int, int]] = []

    def move(self) -> None:
        self._place.move()
        for batch in self.log.take_committed():
            self.applied += [payload for _, payload in batch.commands()]
            position, _, _ = self._copy.append((batch.data,), len(batch.data), self._lease, prompt=False)
            self.log.noted(batch, position)
        if (written := self._lane.take_write()) is not None:
            written.run(self._disk)
            self._lane.wrote(written)
        self.voids += self.log.take_voids()
        self.driver.drive()

    def until(self, there: Callable[[], bool]) -> None:
        deadline = self._place.now() + WAIT_S
        while not there():
            assert self._place.now() < deadline, (self.log.role, self.log.ends_at)
            self.move()

    def lead(self) -> None:
        def leads() -> bool:
            self.driver.claim()
            return self.log.role is Role.LEADER

        self.until(leads)

    def append(self, number: int) -> int:
        payload = b"%06d" % number
        return self.log.append((payload,), len(payload), self.log.epoch, prompt=True).position


def test_a_driver_appends_and_another_one_takes_over(place):
    one, other = LogOfNode(place, 1), LogOfNode(place, 2)
    one.lead()
    for number in range(50):
        one.append(number)
        one.move()
    one.until(lambda: one.log.committed == 50)
    other.lead()
    assert other.applied == one.applied == [b"%06d" % number for number in range(50)]
    one.append(50)
    one.until(lambda: one.log.role is Role.FOLLOWER)
    one.until(lambda: bool(one.voids))
    assert one.voids == [(51, 51)], "it was never committed, and its publisher is told so"


@pytest.mark.slow
def test_nothing_is_lost_when_the_leader_of_etcd_is_killed():
    """The group's leader goes on at another member, and each command that was committed is there once."""
    with etcd_cluster() as cluster:
        place = EtcdPlace(cluster)
        try:
            one = LogOfNode(place, 1)
            one.lead()
            sent = killed = 0
            while one.log.committed < 600:
                if sent < 600 and sent - one.log.committed < 100:
                    if one.log.role is not Role.LEADER:
                        one.lead()
                    one.append(sent)
                    sent += 1
                one.move()
                if one.log.committed >= 200 and not killed:
                    killed = 1
                    cluster.kill(cluster.leader())
            other = LogOfNode(place, 2)
            other.lead()
            assert other.applied == [b"%06d" % number for number in range(600)]
            assert other.log.ends_at == one.log.ends_at
            assert other.log.damaged == 0
        finally:
            place.etcd.close()
