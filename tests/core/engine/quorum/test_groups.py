"""Quorum queues over the log of a group: the same demands on a log of one node and on one of several nodes."""

from random import Random

import pytest

from core.engine.quorum.batches import OrderEnd, encoded, encoded_end
from core.engine.quorum.commands import QueueKey, Settle, encode
from core.engine.quorum.queues import QuorumQueues
from core.engine.quorum.shared_log import LogRead, Owner, Role, SharedLog
from core.engine.ready.remains import Remains
from core.message import Attributes, Run, RunPart
from core.store.command_log import NOWHERE, LocalCommandLog
from core.store.lane import Lane
from tests.kit.engine import NOW
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.group_node import GROUP, SeveralNodes

DURABLE = Attributes(durable=True)


class OneNode:
    """The log of one node: the lane's."""

    def __init__(self, disk=None, generation=1):
        self.disk = disk or MemoryDisk()
        self.generation = generation
        self.lane = Lane("quorum", generation=generation, sync_interval_s=0.2)
        self.copy = LocalCommandLog(self.disk, self.lane, file_bytes_max=1024)
        self.queues = QuorumQueues(self.copy, look_bytes=300)
        self.queues.recover()
        self._now = 0.0

    def committed(self):
        return self.copy.committed

    def fence(self):
        self.copy.acquire_lease()

    def lead_again(self):
        self.queues.lead_again()

    def move(self):
        """Write and sync once."""
        if (batch := self.lane.take_write()) is not None:
            batch.run(self.disk)
            self.lane.wrote(batch)
        self._now += 1
        if (batch := self.lane.take_sync(self._now)) is not None:
            batch.run(self.disk)
            self.lane.did_sync(batch)

    def settle_down(self):
        for _ in range(30):
            self.move()

    def restart(self):
        return OneNode(self.disk.power_cut(Random(1)), self.generation + 1)


@pytest.fixture(params=[OneNode, SeveralNodes])
def node(request):
    return request.param()


def publish(node, first, count, queue=1):
    backing = node.queues.backing(queue)
    bodies = [b"%d " % number * 20 for number in range(first, first + count)]
    return backing.publish_run(RunPart(Run(0, bodies, DURABLE), 0, count, None), first, NOW)


def fetched(node, queue=1):
    batches = []
    while (batch := node.queues.backing(queue).fetch(100)) is not None:
        batches.append(batch)
    return batches


def numbers(batches):
    return [int(entry.split()[0]) for batch in batches for entry in batch.entries]


def test_a_message_is_ready_when_its_command_is_committed(node):
    position = publish(node, 0, 3)
    assert node.committed() < position
    assert fetched(node) == []
    node.settle_down()
    assert node.committed() >= position
    assert numbers(fetched(node)) == [0, 1, 2]


def test_positions_ascend_over_queues_and_terms(node):
    positions = [publish(node, 0, 2), publish(node, 0, 2, queue=2)]
    node.settle_down()
    node.queues.demote()
    node.settle_down()
    if isinstance(node, SeveralNodes):
        node.log.step_down()
        node.settle_down()
    node.lead_again()
    positions.append(publish(node, 2, 1))
    assert positions == sorted(set(positions))


def test_a_fenced_node_takes_on_nothing_and_a_later_term_delivers_all_again(node):
    publish(node, 0, 3)
    node.settle_down()
    held = fetched(node)
    assert all(batch.first_acquirer for batch in held)
    node.fence()
    publish(node, 3, 2)
    node.settle_down()
    assert not node.queues.leads
    assert publish(node, 5, 1) == NOWHERE.position
    node.settle_down()
    node.lead_again()
    again = fetched(node)
    assert numbers(again) == [0, 1, 2]
    assert not any(batch.first_acquirer for batch in again)
    assert publish(node, node.queues.next_sequence(1), 1) != NOWHERE.position


def test_a_restart_has_what_was_committed(node):
    publish(node, 0, 4)
    node.settle_down()
    [batch] = fetched(node)
    node.queues.backing(1).settle(batch.part(0, 2))
    node.queues.backing(1).give_back(batch.part(2, 3))
    node.settle_down()
    again = node.restart()
    assert numbers(fetched(again)) == [2, 3]


def test_discards_purge_and_delete_reach_the_state(node):
    publish(node, 0, 6)
    publish(node, 0, 2, queue=2)
    node.settle_down()
    backing = node.queues.backing(1)
    letter = backing.fetch(1)
    backing.discard(letter, "rejected")
    publish(node, 6, 1)  # not committed yet, and purged as well
    assert backing.purge(Remains().let_go) == 6
    node.queues.backing(2).delete(Remains().let_go)
    node.queues.forget(2)
    node.settle_down()
    again = node.restart()
    assert fetched(again) == []
    assert [list(found.sequences) for found, _ in again.queues.backing(1).discards()] == [[0]]
    assert again.queues.numbers == {1}


def test_the_log_is_cleaned_and_nothing_is_lost(node):
    publish(node, 0, 5)
    node.settle_down()
    kept = fetched(node)
    for first in range(5, 205, 10):
        publish(node, first, 10)
        node.settle_down()
        for batch in fetched(node):
            node.queues.backing(1).settle(batch)
        node.settle_down()
    assert node.queues.cleaner.files_removed > 3
    assert numbers(kept) == [0, 1, 2, 3, 4]
    again = node.restart()
    assert numbers(fetched(again)) == [0, 1, 2, 3, 4]
    assert again.queues.next_sequence(1) == 205


# --- what only the copy of a group has


def test_a_copy_whose_batches_were_all_removed_still_knows_the_end_of_the_order():
    node = SeveralNodes()
    for first in range(0, 60, 10):
        publish(node, first, 10)
        node.settle_down()
        for batch in fetched(node):
            node.queues.backing(1).settle(batch)
        node.settle_down()
    node.queues.cleaner.look()
    node.settle_down()
    assert node.copy.oldest == 1
    assert min(node.copy.files()) > 1
    again = node.restart()
    assert again.copy.oldest > 1
    assert again.log.ends_at == node.log.ends_at


def recovered(*payloads):
    """Start with a copy that has these records, none of them synced."""
    disk = MemoryDisk()
    lane = Lane("quorum", generation=1, sync_interval_s=0.2)
    copy = LocalCommandLog(disk, lane, file_bytes_max=2**20, group=GROUP)
    assert list(copy.read()) == []
    token = copy.acquire_lease()
    for payload in payloads:
        copy.append((payload,), len(payload), token, prompt=False)
    lane.take_write().run(disk)
    copy = LocalCommandLog(disk, Lane("quorum", generation=2, sync_interval_s=0.2), file_bytes_max=2**20, group=GROUP)
    log = SharedLog(copy, node=1, group=GROUP)
    QuorumQueues(copy, shared=log).recover()
    return log.ends_at


def test_a_copy_ends_before_the_first_batch_that_is_missing():
    settle = encode(QueueKey(1), Settle([range(1)]))
    batches = [encoded(GROUP, 1, OrderEnd(), [settle])]
    for _ in range(3):
        batches.append(encoded(GROUP, 1, batches[-1].end, [settle]))
    one, two, three, four = (batch.data for batch in batches)
    assert recovered(one, two, three, four) == 4
    assert recovered(one, two, four) == 2
    assert recovered(two, three) == 0
    assert recovered(one, settle, two, encoded_end(GROUP, batches[1].end), three) == 3
    assert recovered(one, encoded_end(GROUP, batches[2].end), two) == 1


def test_a_follower_leads_only_when_its_copy_has_written_what_it_will_read():
    first = SeveralNodes()
    publish(first, 0, 3)
    first.settle_down()
    lane = Lane("quorum", generation=1, sync_interval_s=0.2)
    disk = MemoryDisk()
    copy = LocalCommandLog(disk, lane, file_bytes_max=1024, group=GROUP)
    log = SharedLog(copy, node=2, group=GROUP)
    queues = QuorumQueues(copy, shared=log)
    queues.recover()
    log.owner_seen(first.engine.owner, 0.0)
    log.claim_answered(log.claim(), first.engine.claim(log.claim()), 0.0)
    log.read_answered(first.engine.read(0), 0.0)
    queues.see_to()
    assert not queues.leads
    batch = lane.take_write()
    batch.run(disk)
    lane.wrote(batch)
    queues.see_to()
    assert queues.leads
    assert queues.backing(1).fetch(5).entries[0].startswith(b"0 ")
    assert not queues.may_serve(2.0)
    log.read_answered(LogRead(0, Owner(9, 3), 1, log.ends_at, (), complete=True), 0.0)
    assert not queues.may_serve(0.5)


def test_a_deletion_without_an_answer_ends_the_term_because_it_may_land_late():
    node = SeveralNodes()
    publish(node, 0, 1)
    node.settle_down()
    lost = encoded(GROUP, 1, OrderEnd(), [b"never committed"])._replace(
        end=OrderEnd(node.log.ends_at + 2, node.log.epoch, b"")
    )
    node.log.step_down()
    node.engine.batches[lost.end.number] = lost.data
    node.driver.claim()
    while not node.log.deletion:
        node.move()
    epoch, numbers_behind = node.log.epoch, node.log.deletion
    node.network.cut_off = {1}
    while node.log.role is Role.CLAIMED:
        node.move()
    node.network.cut_off = set()
    node.lead_again()
    publish(node, 1, 3)
    node.settle_down()
    assert node.log.epoch == epoch + 1
    assert node.engine.delete(numbers_behind, Owner(epoch, 1)) == node.log.owner
    assert numbers(fetched(node)) == [0, 1, 2, 3]
    assert node.engine.batches.keys() >= {node.log.ends_at}
