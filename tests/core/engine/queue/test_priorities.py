"""Priority levels, direct delivery, the delivery limit, and what a queue tells a backing that pages."""

from collections.abc import Iterable

import pytest

from core.clock import Now
from core.credit_flow.flow import CreditFlow
from core.engine.confirms import Confirms, Submission
from core.engine.options.in_force import Overflow, QueueOptions, QueueType
from core.engine.queue.consumers import Attachment
from core.engine.queue.queue import Queue
from core.engine.ready.backing import MemoryBacking, Pages
from core.engine.ready.batch import Batch
from core.engine.ready.remains import LetGo, Remains
from core.engine.ready.waits import Waits
from core.errors import ResourceDeleted
from core.interface import ConsumeOptions, Consumer, Delivered, Disposal, Mailbox, Outcome, Publisher
from core.message import Attributes, Return, Run
from core.slices import run_at_once
from tests.kit.engine import NOW, PLAIN, Peer, bodies, confirms, entries_for, make_broker, queue
from tests.kit.settings import GENERAL


def prioritised(levels: int = 9) -> Peer:
    broker = make_broker()
    broker.declare_queue(queue("q", x_max_priority=levels), "x")
    return Peer(broker)


def publish(peer: Peer, *priorities: int) -> None:
    """Publish one message for each of these priorities; its body names the priority."""
    for priority in priorities:
        peer.publish("q", [b"%d" % priority], Attributes(priority=priority))


# --- levels


def test_five_overtakes_the_default():
    peer = prioritised()
    peer.publish("q", [b"4"])
    publish(peer, 5, 4, 9, 5, 0)
    peer.turn()
    consumer = peer.consume("q", 9)
    assert entries_for(peer.turn(), consumer) == [b"9", b"5", b"5", b"4", b"4", b"0"]


def test_what_is_above_the_highest_level_is_on_it():
    peer = prioritised(2)
    publish(peer, 1, 9, 2, 3)
    peer.turn()
    consumer = peer.consume("q", 9)
    assert entries_for(peer.turn(), consumer) == [b"9", b"2", b"3", b"1"]


def test_a_queue_without_levels_keeps_the_order_of_arrival():
    peer = Peer(make_broker("q"))
    publish(peer, 1, 9, 2)
    peer.turn()
    consumer = peer.consume("q", 9)
    assert entries_for(peer.turn(), consumer) == [b"1", b"9", b"2"]


def test_what_comes_back_goes_to_its_own_level():
    peer = prioritised()
    publish(peer, 3, 7, 7)
    peer.turn()
    consumer = peer.consume("q", 3)
    peer.turn()
    peer.broker.settle(consumer, 0, 2, Return())
    publish(peer, 8, 7, 3)
    peer.turn()
    peer.broker.grant(consumer, 9, False)
    actions = peer.turn()
    assert entries_for(actions, consumer) == [b"8", b"7", b"7", b"7", b"3", b"3"]
    first = [a.first_acquirer for a in actions if isinstance(a, Delivered)]
    assert first == [True, False, True, False, True]


def test_a_barred_message_holds_up_no_lower_level():
    peer = prioritised()
    publish(peer, 7, 1)
    peer.turn()
    consumer = peer.consume("q", 1)
    peer.turn()
    peer.broker.settle(consumer, 0, 0, Return(undeliverable_here=True))
    peer.broker.grant(consumer, 5, False)
    assert entries_for(peer.turn(), consumer) == [b"1"]
    other = peer.consume("q", 5)
    assert entries_for(peer.turn(), other) == [b"7"]


def test_purge_and_counts_over_all_levels():
    peer = prioritised()
    publish(peer, 1, 5, 9)
    peer.turn()
    shown = peer.broker.snapshot("queues", "q")[0]
    assert (shown["messages_ready"], shown["alpha"], shown["ram_bytes"]) == (3, 3, 3)
    assert run_at_once(peer.broker.purge_queue("q", "x")) == 3


# --- direct delivery


@pytest.mark.parametrize(("grants", "direct"), [((10,), 5), ((3,), 3), ((2, 1), 3), ((), 0), ((0,), 0)])
def test_messages_pass_the_queue_while_a_consumer_waits(grants, direct):
    peer = Peer(make_broker("q"))
    consumers = [peer.consume("q", n) for n in grants]
    peer.turn()
    peer.publish("q", bodies(5))
    actions = peer.turn()
    assert confirms(actions)[-1][1] == 4
    got = sorted(int(entry) for consumer in consumers for entry in entries_for(actions, consumer))
    assert got == list(range(direct))
    shown = peer.broker.snapshot("queues", "q")[0]
    assert (shown["direct"], shown["delivered"], shown["messages_ready"]) == (direct, direct, 5 - direct)


def test_no_message_overtakes_ready_ones():
    peer = Peer(make_broker("q"))
    peer.publish("q", bodies(3))
    peer.turn()
    consumer = peer.consume("q", 2)
    peer.publish("q", bodies(1, 3))
    assert entries_for(peer.turn(), consumer) == bodies(2)
    assert peer.broker.snapshot("queues", "q")[0]["direct"] == 0


# --- a queue without a broker


PLAIN_OPTIONS = QueueOptions()


class PagedBacking(MemoryBacking):
    """A backing that notes what it is told, stores everything, and pages when asked."""

    def __init__(self) -> None:
        super().__init__()
        self.acks_to_page = 0
        self.pressed = True
        self.settled: list[int] = []
        self.given_back: list[int] = []
        self.bodies: dict[int, bytes] = {}
        self.deleted = False
        self.lazy = False
        self.concluded_at = -1
        self.position: int | None = None

    def publish_run(self, run_part, first, now):
        super().publish_run(run_part, first, now)
        return self.position

    def pass_run(self, run_part, first, now):
        batch, _ = super().pass_run(run_part, first, now)
        batch.stored = True
        return batch, self.position

    def fetch(self, n: int) -> Batch | None:
        batch = super().fetch(n)
        if batch is not None:
            batch.stored = True
        return batch

    def settle(self, batch: Batch) -> None:
        self.settled += batch.sequences

    def give_back(self, batch: Batch) -> None:
        self.given_back += batch.sequences

    def restore(self, batch: Batch) -> None:
        batch.entries = [self.bodies[sequence] for sequence in batch.sequences]
        batch.paged = False

    def page_out(self, batches: Iterable[Batch]) -> int:
        paged = 0
        for batch in batches:
            if not batch.paged:
                self.bodies |= zip(batch.sequences, batch.entries, strict=True)
                batch.entries, batch.paged = [], True
                paged += len(batch)
        self.acks_to_page = 0
        return paged

    def reduce_memory_use(self, now: Now) -> bool:
        return False

    def set_lazy(self, lazy: bool) -> None:
        self.lazy = lazy

    def conclude(self, next_sequence: int) -> None:
        self.concluded_at = next_sequence

    def delete(self, let_go: LetGo) -> None:
        self.deleted = True


class Alone:
    """A queue without a broker."""

    def __init__(self, options: QueueOptions = PLAIN_OPTIONS, **arguments) -> None:
        self.backing = PagedBacking()
        assert isinstance(self.backing, Pages)
        self.confirms = Confirms()
        self.queue = Queue(
            "q", options, lambda _level: self.backing, stage_credit=CreditFlow("q", GENERAL), **arguments
        )
        self.mailbox = Mailbox(lambda: None)
        self.publisher = Publisher(self.mailbox, "x", None, "p")
        self.confirms.enter(self.publisher)
        self.number = 0

    def publish(self, count: int) -> None:
        run = Run(self.number, bodies(count, self.number), PLAIN)
        self.queue.inbox.put(Submission(self.publisher, run, None), count)
        self.number += count

    def consume(self, n: int) -> Attachment:
        consumer = Attachment(Consumer(0, "q", self.mailbox, ConsumeOptions(), "c"))
        self.queue.attach(consumer)
        self.queue.grant(consumer, n, False)
        return consumer

    def turn(self) -> list:
        self.queue.admit(self.confirms, NOW)
        self.queue.dispatch(NOW)
        return self.mailbox.take()


def test_the_delivery_limit_counts_failed_deliveries():
    one = Alone(QueueOptions(type=QueueType.CLASSIC, delivery_limit=2))
    one.publish(1)
    consumer = one.consume(10)
    outcomes = [Return(delivery_failed=True), Return(), Return(delivery_failed=True), Return(delivery_failed=True)]
    for number, outcome in enumerate(outcomes):
        assert entries_for(one.turn(), consumer.consumer) == [b"0"]
        assert one.queue.settle(consumer, number, number, outcome)
    assert entries_for(one.turn(), consumer.consumer) == []
    assert one.queue.counts()["dropped"] == {"delivery_limit": 1}
    assert one.backing.settled == [0]


def test_the_backing_hears_of_everything_that_is_gone():
    one = Alone(QueueOptions(max_length=2))
    consumer = one.consume(4)
    one.publish(8)
    one.turn()
    assert one.backing.settled == [4, 5]
    one.queue.settle(consumer, 0, 0, Disposal.ACCEPTED)
    one.queue.settle(consumer, 1, 1, Disposal.REJECTED)
    one.queue.settle(consumer, 2, 2, Return())
    assert (one.backing.settled, one.backing.given_back) == ([4, 5, 0, 1], [2])
    assert run_at_once(one.queue.purge(Remains().let_go)) == 3
    assert one.backing.settled == [4, 5, 0, 1, 2]


def test_messages_that_were_paged_out_are_read_back_before_delivery():
    one = Alone()
    one.publish(6)
    consumer = one.consume(4)
    one.turn()
    one.queue.settle(consumer, 0, 1, Return())
    one.queue.grant(consumer, 0, False)
    one.backing.acks_to_page = 10
    one.turn()
    assert sorted(one.backing.bodies) == [0, 1, 2, 3]
    assert one.queue.ready_bytes == 2
    one.queue.settle(consumer, 2, 3, Return())
    one.queue.grant(consumer, 9, False)
    assert entries_for(one.turn(), consumer.consumer) == bodies(6)


def test_options_that_change_and_a_stop_in_order():
    one = Alone(first_sequence=lambda: 100)
    one.publish(3)
    consumer = one.consume(0)
    one.turn()
    one.queue.publishers[one.publisher] = None
    one.queue.apply(QueueOptions(lazy=True, max_link_credit=7, max_unsettled=9, sequence_annotation=True), NOW)
    assert (one.backing.lazy, consumer.consumer.link_credit_max, one.publisher.link_credit_max) == (True, 7, 7)
    one.queue.grant(consumer, 3, False)
    (delivered,) = [a for a in one.turn() if isinstance(a, Delivered)]
    assert (list(delivered.sequences or ()), delivered.sequence_key) == ([100, 101, 102], "x-opt-sequence")
    one.queue.conclude()
    assert one.backing.concluded_at == 103


class Lane:
    position = 0


def waiting(synced: bool, options: QueueOptions = PLAIN_OPTIONS) -> tuple[Alone, Waits, Lane]:
    lane = Lane()
    waits: Waits = Waits(lambda: lane.position)
    one = Alone(options, **{"synced" if synced else "written": waits})
    one.backing.position = 5
    return one, waits, lane


@pytest.mark.parametrize("consumers", [0, 1])
def test_confirms_wait_for_the_lane(consumers):
    one, waits, lane = waiting(synced=True)
    if consumers:
        one.consume(9)
    one.publish(3)
    assert confirms(one.turn()) == []
    assert one.publisher.unsynced == 3
    assert waits.reached() == []
    lane.position = 5
    for admission in waits.reached():
        assert admission.reached(one.confirms) is None
    assert confirms(one.mailbox.take()) == [(0, 2, Outcome.ACCEPTED)]
    assert one.publisher.unsynced == 0


def test_a_rejection_waits_behind_what_was_taken_on():
    one, waits, lane = waiting(synced=False, options=QueueOptions(max_length=2, overflow=Overflow.REJECT_PUBLISH))
    one.publish(4)
    assert confirms(one.turn()) == []
    lane.position = 5
    for admission in waits.reached():
        admission.reached(one.confirms)
    assert confirms(one.mailbox.take()) == [(0, 1, Outcome.ACCEPTED), (2, 3, Outcome.REJECTED)]
    one.publish(1)
    assert confirms(one.turn()) == [(4, 4, Outcome.REJECTED)]
    assert one.publisher.unsynced == 0


def test_what_waits_for_a_deleted_queue_is_released():
    one, waits, lane = waiting(synced=True)
    other, _, _ = waiting(synced=True)
    waits.add(6, "somebody else")
    one.backing.position = 7
    one.publish(3)
    one.turn()
    one.publish(2)
    one.queue.dissolve(one.confirms, ResourceDeleted("gone"), Remains().let_go)
    assert confirms(one.mailbox.take()) == [(0, 2, Outcome.RELEASED), (3, 4, Outcome.RELEASED)]
    assert (one.publisher.unsynced, one.backing.deleted, len(waits)) == (0, True, 1)
    lane.position = 9
    assert waits.reached() == ["somebody else"]
    assert other.publisher.unsynced == 0
