"""Cleaning the command log: files of settled messages are removed, live messages are carried over with their history,
and the queue goes on meanwhile."""

import pytest

from core.engine.ready.remains import Remains
from core.message import Attributes, Route, Run, RunPart
from tests.kit.engine import NOW
from tests.kit.quorum_log import QuorumNode

FILE_BYTES = 4096


class Traffic:
    """Traffic on the queues of one node. The bodies name the messages."""

    def __init__(self, node=None):
        self.node = node or QuorumNode(file_bytes=FILE_BYTES)

    def publish(self, queue, count=1, *, size=100, expires_at=None, route=None, committed=True):
        first = self.node.queues.next_sequence(queue)
        run = Run(
            0, [body(queue, first + number, size) for number in range(count)], Attributes(durable=True), routes=route
        )
        run_part = RunPart(run, 0, count, expires_at)
        self.node.queues.backing(queue).publish_run(run_part, first, NOW)
        if committed:
            self.node.commit()

    def fetch(self, queue, count):
        return self.node.queues.backing(queue).fetch(count)

    def consume(self, queue, count):
        while count > 0:
            batch = self.fetch(queue, count)
            self.node.queues.backing(queue).settle(batch)
            count -= len(batch)
        self.node.commit()

    def pass_through(self, queue, rounds, *, count=10):
        for _ in range(rounds):
            self.publish(queue, count)
            self.consume(queue, count)

    @property
    def files(self):
        return list(self.node.log.files())

    @property
    def cleaner(self):
        return self.node.queues.cleaner

    def restart(self):
        return Traffic(self.node.restart())


def body(queue, number, size=100):
    return b"%d/%d:" % (queue, number) + bytes(size)


def drain(traffic, queue):
    found = {}
    while (batch := traffic.fetch(queue, 10**9)) is not None:
        found.update(zip(batch.sequences, batch.entries, strict=True))
    return found


@pytest.fixture
def traffic():
    return Traffic()


def test_files_in_which_nothing_lives_go_without_anything_being_carried(traffic):
    traffic.pass_through(1, 50)
    assert len(traffic.files) <= 4
    assert traffic.files[0] > 10
    assert (traffic.cleaner.carried, traffic.cleaner.files_removed) == (0, traffic.files[0] - 1)
    assert traffic.node.disk.paths == sorted(["quorum/1.marks", *(f"quorum/{n}.log" for n in traffic.files)])


def test_one_old_message_does_not_hold_the_log(traffic):
    traffic.publish(2, route=Route("e", ("k",)), expires_at=9.0)
    traffic.pass_through(1, 100)
    assert len(traffic.files) <= 5
    assert traffic.cleaner.carried >= 1
    (batch,) = [traffic.restart().fetch(2, 5)]
    assert (batch.entries, batch.routes, batch.expires_at) == ([body(2, 0)], Route("e", ("k",)), 9.0)


def test_a_backlog_beside_traffic_costs_about_twice_its_size(traffic):
    for _ in range(20):
        traffic.publish(2, 10)
        traffic.pass_through(1, 5)
    backlog = 200 * 120
    assert sum(traffic.node.log.files().values()) < 2.5 * backlog + 4 * FILE_BYTES
    assert drain(traffic.restart(), 2) == {number: body(2, number) for number in range(200)}
    assert drain(traffic, 2) == {number: body(2, number) for number in range(200)}


def test_a_log_that_lives_is_left_alone(traffic):
    for _ in range(20):
        traffic.publish(2, 10)
    traffic.consume(2, 60)
    assert traffic.cleaner.carried == 0


def test_carried_messages_keep_the_times_at_which_they_came(traffic):
    for time in (5, 5, 6):
        traffic.publish(2, 2, route=Route("e", ("k",), time))
    traffic.publish(2, 2, route=Route("e", ("k",)))
    traffic.pass_through(1, 100)
    assert traffic.cleaner.carried >= 8
    (batch,) = [traffic.restart().fetch(2, 9)]
    assert batch.routes == [*[Route("e", ("k",), time) for time in (5, 5, 5, 5, 6, 6)], *[Route("e", ("k",))] * 2]


def test_what_happened_to_carried_messages_is_carried(traffic):
    traffic.publish(2, 4)
    batch = traffic.fetch(2, 3)
    failed = batch.part(1, 2)
    failed.delivery_count, failed.annotations = 3, {"x": "y"}
    traffic.node.queues.backing(2).give_back(failed)
    traffic.node.queues.backing(2).discard(batch.part(2, 3), "rejected")
    traffic.pass_through(1, 100)
    assert traffic.files[0] > 3
    backing = traffic.restart().node.queues.backing(2)
    found = [backing.fetch(9) for _ in range(3)]
    assert [(s.sequences, s.delivery_count, s.annotations) for s in found] == [
        (range(1), 0, None),
        (range(1, 2), 3, {"x": "y"}),
        (range(3, 4), 0, None),
    ]
    ((letter, reason),) = backing.discards()
    backing.restore(letter)
    assert (letter.sequences, letter.entries, reason) == (range(2, 3), [body(2, 2)], "rejected")


def test_carried_messages_can_be_read_before_they_are_written():
    traffic = Traffic(QuorumNode(file_bytes=1 << 20, look_bytes=1 << 40))
    count = 5000
    for _ in range(count // 100):
        traffic.publish(2, 100, size=0)
    for _ in range(5):
        traffic.publish(1, 10, size=80_000)
        traffic.consume(1, 10)
    traffic.cleaner.look()
    batch = traffic.node.take_write()
    assert traffic.cleaner.carried == count
    assert drain(traffic, 2) == {number: body(2, number, 0) for number in range(count)}
    batch.run(traffic.node.disk)
    traffic.node.lane.wrote(batch)
    traffic.node.commit()
    assert traffic.files[0] > 1
    assert drain(traffic.restart(), 2) == {number: body(2, number, 0) for number in range(count)}


def test_what_is_not_written_yet_is_not_carried():
    traffic = Traffic(QuorumNode(file_bytes=FILE_BYTES, look_bytes=1 << 40))
    traffic.publish(2, committed=False)
    for _ in range(100):
        traffic.publish(3, committed=False)
    traffic.node.queues.backing(3).delete(Remains().let_go)
    traffic.node.queues.forget(3)
    traffic.cleaner.look()
    traffic.node.write()
    assert (traffic.cleaner.carried, traffic.node.lane.written) == (0, 102)
    traffic.node.commit()
    assert (traffic.cleaner.carried, len(traffic.files)) == (1, 1)
    assert drain(traffic, 2) == {0: body(2, 0)}


def test_numbers_of_idle_queues_outlive_their_messages(traffic):
    for queue in range(10, 15):
        traffic.publish(queue, 3)
        traffic.consume(queue, 3)
    traffic.pass_through(1, 100)
    assert traffic.files[0] > 3
    again = traffic.restart()
    assert [again.node.queues.next_sequence(queue) for queue in range(10, 15)] == [3] * 5


def test_many_idle_queues_do_not_keep_the_cleaner_busy_for_ever(traffic):
    for queue in range(10, 300):
        traffic.publish(queue, 1, size=0, committed=False)
    traffic.node.commit()
    for queue in range(10, 300):
        traffic.consume(queue, 1)
    traffic.pass_through(1, 30)
    assert traffic.node.lane.staged < 10_000


def test_messages_that_return_for_ever_do_not_fill_the_disk(traffic):
    traffic.publish(2)
    batch = traffic.fetch(2, 1)
    for count in range(1, 2001):
        batch.delivery_count = count
        traffic.node.queues.backing(2).give_back(batch)
        if not count % 20:
            traffic.node.commit()
    assert len(traffic.files) <= 5
    assert traffic.restart().fetch(2, 1).delivery_count == 2000


def test_a_queue_that_is_deleted_while_it_is_carried_stays_deleted(traffic):
    traffic.publish(2, 3)
    for _ in range(200):
        traffic.publish(1, 10, committed=False)
        traffic.node.write()
        traffic.node.sync()
        traffic.node.queues.backing(1).settle(traffic.fetch(1, 10))
        if traffic.cleaner.carried:
            break
    assert traffic.cleaner.carried
    traffic.node.queues.backing(2).delete(Remains().let_go)
    traffic.node.queues.forget(2)
    traffic.pass_through(1, 5)
    again = traffic.restart()
    assert again.node.queues.next_sequence(2) == 0
    assert drain(again, 2) == {}


def test_a_clean_stop_after_carrying_keeps_everything(traffic):
    traffic.publish(2, 5)
    traffic.pass_through(1, 100)
    assert traffic.cleaner.carried
    again = Traffic(traffic.node.restart(clean=True))
    assert drain(again, 2) == {number: body(2, number) for number in range(5)}
