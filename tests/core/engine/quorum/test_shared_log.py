"""The log of a group on one node: what is out, what is committed, who leads, and what is never believed."""

import pytest

from core.engine.quorum.batches import BatchDamaged, OrderEnd, decoded, encoded
from core.engine.quorum.shared_log import (
    BATCH_BYTES_MAX,
    FRESH_S,
    OUT_MAX,
    Claim,
    ClaimAnswer,
    LogBroken,
    LogRead,
    Owner,
    PutAnswer,
    Role,
    SharedLog,
    cut_at,
)
from core.store.command_log import LeaseLost, LocalCommandLog
from core.store.lane import Lane
from tests.cluster.engine import SimulatedEngine
from tests.kit.faulty_disk import MemoryDisk


class Member:
    """One node, whose requests reach the engine when the test says so."""

    def __init__(self, node, engine):
        self.engine = engine
        self.lane = Lane("quorum", generation=1, sync_interval_s=0.2)
        self.disk = MemoryDisk()
        copy = LocalCommandLog(self.disk, self.lane, file_bytes_max=2**20, group=1)
        list(copy.read())
        self.lease = copy.acquire_lease()
        self.copy = copy
        self.log = SharedLog(copy, node=node, group=1)
        self.applied = []

    def claim(self, now=0.0):
        self.read(now)
        claim = self.log.claim()
        self.log.claim_answered(claim, self.engine.claim(claim), now)
        self.read(now)
        if self.log.deletion:
            owner = Owner(self.log.epoch, self.log.node)
            self.log.deleted(self.engine.delete(self.log.deletion, owner), now)

    def read(self, now=0.0):
        self.log.read_answered(self.engine.read(self.log.ends_at), now)
        self.apply()

    def append(self, *payloads):
        return [self.log.append((p,), len(p), self.log.epoch, prompt=True).position for p in payloads]

    def take(self, *payloads):
        """Append commands, each in a batch of its own."""
        batches = []
        for payload in payloads:
            self.append(payload)
            batches.append(self.log.take_batch())
        return batches

    def put(self, batch, now=0.0):
        self.log.put_answered(batch, self.engine.put(batch, self.log.node), now)
        self.apply()

    def apply(self):
        for batch in self.log.take_committed():
            place = self.copy.append((batch.data,), len(batch.data), self.lease, prompt=True)
            self.log.noted(batch, place.position)
            self.applied += [payload for _, payload in batch.commands()]

    def write(self):
        batch = self.lane.take_write()
        if batch is not None:
            batch.run(self.disk)
            self.lane.wrote(batch)


@pytest.fixture
def engine():
    return SimulatedEngine((1, 2, 3))


def test_a_command_is_committed_when_its_batch_is_in_the_log_and_the_copy_has_it(engine):
    one = Member(1, engine)
    one.claim()
    (position,) = one.append(b"a")
    batch = one.log.take_batch()
    assert one.log.committed < position
    one.put(batch)
    assert one.applied == [b"a"]
    assert one.log.committed < position, "not written yet"
    one.write()
    assert one.log.committed == position


def test_only_the_prefix_without_a_hole_is_committed(engine):
    one = Member(1, engine)
    one.claim()
    first, second = one.take(b"a", b"b")
    one.put(second)
    assert one.applied == []
    one.put(first)
    assert one.applied == [b"a", b"b"]


def test_a_batch_without_an_answer_is_put_again_and_counts_once(engine):
    one = Member(1, engine)
    one.claim()
    (batch,) = one.take(b"a")
    engine.put(batch, 1)  # the answer is lost
    one.log.put_unanswered(batch)
    assert one.log.take_batch() is batch
    one.put(batch)
    assert one.applied == [b"a"]


def test_a_fenced_batch_ends_in_a_demotion(engine):
    one, two = Member(1, engine), Member(2, engine)
    one.claim()
    (batch,) = one.take(b"a")
    two.claim()
    one.put(batch)
    assert one.log.role is Role.FOLLOWER
    assert engine.batches == {}
    with pytest.raises(LeaseLost):
        one.append(b"b")


def test_after_a_demotion_each_command_in_doubt_is_decided_by_one_reading(engine):
    one, two = Member(1, engine), Member(2, engine)
    one.claim()
    first, _, third = one.take(b"a", b"b", b"c")
    engine.put(first, 1)
    engine.put(third, 1)  # behind the hole that the second one leaves
    two.claim()
    one.log.owner_seen(engine.owner, 0.0)
    assert one.log.role is Role.FOLLOWER
    assert one.log.take_voids() == []
    one.read()
    one.write()
    assert one.log.committed == 1
    assert one.log.take_voids() == [(2, 3)]
    assert sorted(engine.batches) == [1]
    assert two.applied == [b"a"]


def test_a_new_leader_deletes_what_is_behind_a_hole_however_much_it_is(engine):
    one, two = Member(1, engine), Member(2, engine)
    one.claim()
    batches = one.take(*(b"%d" % number for number in range(OUT_MAX)))
    for batch in batches[1:]:
        engine.put(batch, 1)
    two.claim()
    while two.log.role is Role.CLAIMED:
        two.read()
        if two.log.deletion:
            two.log.deleted(engine.delete(two.log.deletion, engine.owner), 0.0)
    assert engine.batches == {}
    (batch,) = two.take(b"x")
    two.put(batch)
    assert two.applied == [b"x"]


def test_no_more_than_a_window_is_out_and_the_rest_gathers(engine):
    one = Member(1, engine)
    one.claim()
    one.take(*(b"a" for _ in range(OUT_MAX)))
    one.append(b"b", b"c")
    assert one.log.take_batch() is None
    one.put(one.log._out[1].batch)
    batch = one.log.take_batch()
    assert [payload for _, payload in batch.commands()] == [b"b", b"c"]


def test_a_batch_is_no_larger_than_an_engine_takes(engine):
    one = Member(1, engine)
    one.claim()
    one.append(b"a" * (BATCH_BYTES_MAX - 100), b"b" * 200, b"c" * (2 * BATCH_BYTES_MAX))
    assert [one.log.take_batch().command_count for _ in range(3)] == [1, 1, 1]


def test_an_epoch_of_a_former_life_is_not_taken_for_an_own_one(engine):
    former = Member(1, engine)
    former.claim()
    (late,) = former.take(b"a")
    again = Member(1, engine)
    claim = Claim(1, 1)
    again.log.claim_answered(claim, engine.claim(claim), 0.0)
    assert again.log.role is Role.FOLLOWER
    again.claim()
    assert again.log.epoch == 2
    assert engine.put(late, 1).owner == Owner(2, 1)
    assert engine.batches == {}


def test_a_leader_is_fresh_for_a_second_after_the_sending_of_its_last_request(engine):
    one = Member(1, engine)
    one.claim(now=5.0)
    assert one.log.fresh(5.0 + FRESH_S - 0.01)
    assert not one.log.fresh(5.0 + FRESH_S)
    one.log.owner_seen(engine.owner, 5.5)
    assert one.log.fresh(5.5 + FRESH_S - 0.01)
    one.log.owner_seen(engine.owner, 5.2)  # an answer that comes late
    assert one.log.fresh(5.5 + FRESH_S - 0.01)


def test_damaged_bytes_are_read_again(engine):
    one, two = Member(1, engine), Member(2, engine)
    one.claim()
    (batch,) = one.take(b"a")
    one.put(batch)
    damaged = batch.data[:-1] + b"b"
    two.log.read_answered(LogRead(0, engine.owner, 1, 1, [(1, damaged)], complete=True), 0.0)
    assert two.log.take_committed() == []
    assert two.log.damaged == 1
    two.read()
    assert two.applied == [b"a"]
    with pytest.raises(BatchDamaged):
        decoded(damaged)


def test_a_batch_that_does_not_follow_stops_the_group(engine):
    two = Member(2, engine)
    stranger = encoded(1, 1, OrderEnd(0, 1, b"otherend"), [b"a"])
    with pytest.raises(LogBroken, match="does not follow"):
        two.log.read_answered(LogRead(0, Owner(1, 1), 1, 1, [(1, stranger.data)], complete=True), 0.0)


def test_an_engine_that_has_gone_back_stops_the_group(engine):
    two = Member(2, engine)
    two.log.begin_after(OrderEnd(7, 1, bytes(8)), synced=True)
    with pytest.raises(LogBroken, match="ends before batch 7"):
        two.log.read_answered(engine.read(7), 0.0)


def test_another_batch_under_an_own_number_stops_the_group(engine):
    one = Member(1, engine)
    one.claim()
    (batch,) = one.take(b"a")
    with pytest.raises(LogBroken, match="another batch"):
        one.log.put_answered(batch, PutAnswer(engine.owner, b"something else"), 0.0)


def test_a_node_whose_batches_are_cut_away_needs_a_copy(engine):
    one, two = Member(1, engine), Member(2, engine)
    one.claim()
    for batch in one.take(b"a", b"b"):
        one.put(batch)
    engine.cut_by(2, engine.owner)
    two.read()
    assert two.log.must_copy
    assert two.applied == []


def test_answers_of_an_earlier_epoch_have_no_effect(engine):
    one = Member(1, engine)
    one.claim()
    (batch,) = one.take(b"a")
    one.log.step_down()
    one.claim()
    assert one.log.epoch == 2
    one.log.put_answered(batch, PutAnswer(Owner(1, 1), None), 0.0)
    one.log.put_unanswered(batch)
    one.log.claim_answered(Claim(1, 1), ClaimAnswer(Owner(1, 1), won=True), 0.0)
    assert one.log.take_batch() is None
    assert one.applied == []
    assert one.log.role is Role.LEADER


@pytest.mark.parametrize(
    ("synced", "copying", "upto"),
    [
        ({1: 9, 2: 8, 3: 7}, (), 7),
        ({1: 9, 2: 8, 3: 0}, (), 0),
        ({1: 9, 2: 8, 3: 0}, (3,), 8),
        ({1: 9, 2: 0, 3: 0}, (2, 3), 0),
        ({1: 9, 2: 8, 3: 7, 4: 0, 5: 0}, (4, 5), 7),
    ],
)
def test_the_engine_is_not_cut_behind_what_a_majority_has_synced(synced, copying, upto):
    assert cut_at(synced, copying) == upto
