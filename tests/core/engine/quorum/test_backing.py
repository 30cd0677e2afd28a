"""The quorum backing: messages are ready when they are committed, few are in memory, and a start recovers all of
them."""

from random import Random

import pytest

from core.engine.quorum.backing import READ_MESSAGES_MAX, RESIDENT_BYTES_MAX, RESIDENT_MESSAGES_MAX
from core.engine.ready.remains import Remains
from core.message import Attributes, Route, Run, RunPart
from tests.kit.engine import NOW, bodies
from tests.kit.quorum_log import QuorumNode

DURABLE = Attributes(durable=True)
QUEUE = 5


class Filled:
    """A queue's backing, its node, and the next sequence number."""

    def __init__(self, node=None):
        self.node = node or QuorumNode()
        self.backing = self.node.queues.backing(QUEUE)
        self.next = self.node.queues.next_sequence(QUEUE)

    def publish(self, entries, *, attributes=DURABLE, expires_at=None, route=None):
        run_part = RunPart(Run(0, entries, attributes, routes=route), 0, len(entries), expires_at)
        position = self.backing.publish_run(run_part, self.next, NOW)
        self.next += len(entries)
        return position

    def filled(self, entries, **how):
        self.publish(entries, **how)
        self.node.commit()
        return self

    def restart(self, *, clean=False):
        return Filled(self.node.restart(clean=clean))


@pytest.fixture
def filled():
    return Filled()


def drain(backing, n=10**9):
    taken = []
    while (batch := backing.fetch(n)) is not None:
        taken.append(batch)
    return taken


def numbered(batches):
    return {s: e for batch in batches for s, e in zip(batch.sequences, batch.entries, strict=True)}


def test_a_message_is_ready_when_it_is_committed(filled):
    position = filled.publish(bodies(3))
    assert (filled.backing.depth, filled.backing.fetch(1), filled.backing.counts()["uncommitted"]) == (0, None, 3)
    filled.node.write()
    assert filled.backing.depth == 0
    filled.node.sync()
    assert filled.node.lane.synced == position
    assert (filled.backing.depth, filled.backing.ready_bytes) == (3, 3)
    (batch,) = drain(filled.backing)
    assert (batch.sequences, batch.entries, batch.stored, batch.first_acquirer) == (
        range(3),
        bodies(3),
        True,
        True,
    )


def test_nothing_may_be_delivered_past_the_log(filled):
    assert not filled.backing.passes
    with pytest.raises(AssertionError):
        filled.backing.pass_run(RunPart(Run(0, bodies(1), DURABLE), 0, 1), 0, NOW)


def test_the_publishers_list_is_not_kept(filled):
    entries = bodies(2)
    filled.filled(entries)
    filled.filled(bodies(1, 2))
    assert filled.backing.depth == 3
    assert entries == bodies(2)
    assert numbered(drain(filled.backing)) == dict(enumerate(bodies(3)))


def test_memory_holds_the_head_and_the_rest_is_read_back(filled):
    count = RESIDENT_MESSAGES_MAX + 1000
    for number in range(count):
        filled.publish(bodies(1, number))
    filled.node.commit()
    counts = filled.backing.counts()
    assert (counts["alpha"], counts["delta"], counts["ram_messages"]) == (
        RESIDENT_MESSAGES_MAX,
        1000,
        RESIDENT_MESSAGES_MAX,
    )
    assert numbered(drain(filled.backing)) == dict(enumerate(bodies(count)))
    assert filled.backing.counts()["reads"] == 1000 // READ_MESSAGES_MAX + 1
    assert (filled.backing.depth, filled.backing.ready_bytes) == (0, 0)


def test_memory_is_bounded_in_bytes_too(filled):
    entries = [bytes([number]) * (1 << 20) for number in range(9)]
    for entry in entries:
        filled.publish([entry])
    filled.node.commit()
    assert filled.backing.counts()["ram_bytes"] == RESIDENT_BYTES_MAX
    assert filled.backing.ready_bytes == 9 << 20
    assert list(numbered(drain(filled.backing)).values()) == entries


def test_what_was_paged_is_read_in_batches_of_whole_and_parted_runs(filled):
    filled.filled(bodies(RESIDENT_MESSAGES_MAX))
    filled.filled(bodies(600, RESIDENT_MESSAGES_MAX), attributes=Attributes(durable=True, priority=5))
    taken = drain(filled.backing)
    assert [len(batch) for batch in taken[-3:]] == [256, 256, 88]
    assert list(numbered(taken).values()) == bodies(RESIDENT_MESSAGES_MAX + 600)


def test_fetch_gives_no_more_than_asked_for(filled):
    filled.filled(bodies(5))
    assert [batch.sequences for batch in drain(filled.backing, 2)] == [range(2), range(2, 4), range(4, 5)]


def test_settled_messages_do_not_come_back(filled):
    filled.filled(bodies(10))
    first = filled.backing.fetch(4)
    filled.backing.settle(first.part(0, 4, 2))
    filled.backing.settle(first.part(1, 4, 2))
    filled.node.commit()
    assert numbered(drain(filled.restart().backing)) == dict(list(enumerate(bodies(10)))[4:])


def test_settlements_are_one_command_for_each_batch(filled):
    filled.filled(bodies(1000))
    before = filled.node.lane.staged
    for batch in drain(filled.backing, 7):
        filled.backing.settle(batch)
    filled.node.commit()
    assert filled.node.lane.staged == before + 1
    assert filled.node.queues.next_sequence(QUEUE) == 1000


def test_a_start_finds_everything_flagged_as_possibly_delivered(filled):
    route = Route("e", ("k", "l"))
    filled.filled(bodies(3), expires_at=5.0, route=route)
    again = filled.restart()
    assert (again.backing.depth, again.backing.ready_bytes, again.backing.head_expires_at) == (3, 3, 5.0)
    (batch,) = drain(again.backing)
    assert (batch.sequences, batch.entries, batch.attributes, batch.expires_at, batch.routes) == (
        range(3),
        bodies(3),
        DURABLE,
        5.0,
        route,
    )
    assert not batch.first_acquirer
    again.filled(bodies(1))
    (new,) = drain(again.backing)
    assert (new.sequences, new.first_acquirer) == (range(3, 4), True)


def test_after_a_clean_stop_only_what_was_delivered_is_flagged(filled):
    filled.filled(bodies(6))
    filled.backing.settle(filled.backing.fetch(1))
    filled.backing.fetch(2)
    again = filled.restart(clean=True)
    assert [(s.sequences, s.first_acquirer) for s in drain(again.backing)] == [
        (range(1, 3), False),
        (range(3, 6), True),
    ]
    third = again.restart(clean=True)
    assert [(s.sequences, s.first_acquirer) for s in drain(third.backing)] == [(range(1, 6), False)]


def test_sequence_numbers_go_on_after_everything_is_gone(filled):
    filled.filled(bodies(6))
    filled.backing.purge(Remains().let_go)
    filled.node.commit()
    assert filled.restart().next == 6
    assert filled.restart(clean=True).next == 6


def test_delivery_counts_and_annotations_outlive_the_broker(filled):
    filled.filled(bodies(6))
    batch = filled.backing.fetch(3)
    failed = batch.part(0, 1)
    failed.delivery_count = 2
    failed.annotations = {"x-why": 5}
    filled.backing.give_back(failed)
    counted = batch.part(1, 3)
    counted.delivery_count = 1
    filled.backing.give_back(counted)
    filled.node.commit()
    again = filled.restart().backing
    found = [(s.sequences, s.delivery_count, s.annotations) for s in drain(again)]
    assert found == [(range(1), 2, {"x-why": 5}), (range(1, 3), 1, None), (range(3, 6), 0, None)]


def test_a_plain_return_is_not_logged(filled):
    filled.filled(bodies(2))
    before = filled.node.lane.staged
    filled.backing.give_back(filled.backing.fetch(2))
    filled.node.commit()
    assert filled.node.lane.staged == before


def test_what_is_known_already_is_not_logged_again(filled):
    filled.filled(bodies(2))
    batch = filled.backing.fetch(2)
    batch.delivery_count = 1
    filled.backing.give_back(batch)
    before = filled.node.lane.staged
    filled.backing.give_back(batch.part(0, 1))
    filled.backing.give_back(batch)
    assert filled.node.lane.staged == before


def test_annotations_that_cannot_be_kept_cost_no_others(filled):
    filled.filled(bodies(1))
    batch = filled.backing.fetch(1)
    batch.annotations = {"x-plain": b"1", "x-odd": object()}
    filled.backing.give_back(batch)
    filled.node.commit()
    assert filled.restart().backing.fetch(1).annotations == {"x-plain": b"1"}


def test_what_was_being_dead_lettered_still_is_after_a_start(filled):
    filled.filled(bodies(6))
    batch = filled.backing.fetch(4)
    filled.backing.discard(batch.part(1, 3), "rejected")
    filled.backing.discard(batch.part(3, 4), "expired")
    filled.node.commit()
    again = filled.restart()
    assert again.backing.depth == 3
    assert again.backing.ready_bytes == 3
    assert list(numbered(drain(again.backing))) == [0, 4, 5]
    letters = list(again.backing.discards())
    assert [(s.sequences, s.paged, s.entries, reason) for s, reason in letters] == [
        (range(1, 3), True, [], "rejected"),
        (range(3, 4), True, [], "expired"),
    ]
    again.backing.restore(letters[0][0])
    assert letters[0][0].entries == bodies(2, 1)
    for letter, _ in letters:
        again.backing.settle(letter)
    again.node.commit()
    assert list(again.restart().backing.discards()) == []


def test_entries_are_read_back_into_a_paged_batch(filled):
    filled.filled(bodies(9))
    batch = filled.backing.fetch(9).part(0, 9, 4)
    batch.entries = []
    batch.paged = True
    filled.backing.restore(batch)
    assert (batch.entries, batch.paged) == ([b"0", b"4", b"8"], False)


def test_purge_drops_everything_that_was_not_handed_out(filled):
    filled.filled(bodies(3000))
    held = filled.backing.fetch(2)
    filled.publish(bodies(1, 3000))
    assert filled.backing.purge(Remains().let_go) == 2999
    assert (filled.backing.depth, filled.backing.ready_bytes, filled.backing.purge(Remains().let_go)) == (0, 0, 0)
    filled.publish(bodies(1, 3001))
    filled.node.commit()
    assert filled.backing.depth == 1
    assert list(numbered(drain(filled.restart().backing))) == [*held.sequences, 3001]


def test_purge_leaves_messages_that_are_being_dead_lettered(filled):
    filled.filled(bodies(5))
    filled.backing.discard(filled.backing.fetch(3).part(1, 2), "rejected")
    filled.node.commit()
    again = filled.restart()
    assert again.backing.purge(Remains().let_go) == 4
    again.node.commit()
    assert [s.sequences for s, _ in again.restart().backing.discards()] == [range(1, 2)]


def test_a_deleted_queue_leaves_nothing(filled):
    filled.filled(bodies(5))
    filled.publish(bodies(5))
    filled.backing.delete(Remains().let_go)
    filled.node.queues.forget(QUEUE)
    filled.node.commit()
    again = filled.restart()
    assert (again.next, again.backing.depth) == (0, 0)


def test_queues_that_do_not_exist_any_more_are_dropped(filled):
    filled.filled(bodies(5))
    other = filled.node.queues.backing(6, 1)
    other.publish_run(RunPart(Run(0, bodies(2), DURABLE), 0, 2), 0, NOW)
    filled.node.commit()
    again = filled.node.restart()
    again.queues.retain({6})
    again.commit()
    third = again.restart()
    assert third.queues.backing(QUEUE).depth == 0
    assert third.queues.backing(6, 1).depth == 2


def test_levels_share_the_numbers_of_their_queue(filled):
    high = filled.node.queues.backing(QUEUE, 1)
    for first in range(0, 8, 2):
        backing = high if first % 4 else filled.backing
        backing.publish_run(RunPart(Run(0, bodies(2, first), DURABLE), 0, 2), first, NOW)
    filled.node.commit()
    again = filled.node.restart()
    assert again.queues.next_sequence(QUEUE) == 8
    assert list(numbered(drain(again.queues.backing(QUEUE)))) == [0, 1, 4, 5]
    assert list(numbered(drain(again.queues.backing(QUEUE, 1)))) == [2, 3, 6, 7]


@pytest.mark.parametrize("seed", range(30))
def test_runs_of_all_sizes_come_out_as_they_went_in(filled, seed):
    rng = Random(seed)
    published = {}
    for _ in range(60):
        entries = [rng.randbytes(rng.randrange(40)) for _ in range(rng.choice((1, 1, 1, 20, 300)))]
        published.update(enumerate(entries, filled.next))
        expires_at = rng.choice((None, None, 3.0))
        attributes = rng.choice((DURABLE, DURABLE, Attributes(durable=True, priority=0)))
        filled.publish(entries, expires_at=expires_at, attributes=attributes)
        if rng.random() < 0.2:
            filled.node.commit()
    filled.node.commit()
    again = filled.restart()
    for backing in (filled.backing, again.backing):
        assert numbered(drain(backing, rng.choice((1, 7, 10**9)))) == published
