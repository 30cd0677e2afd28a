"""Rows of the documents that concern queues as a whole: what depth and a backlog cost, and which parts can be
exchanged."""

import sys
from collections.abc import Callable, Iterator, Mapping

import pytest

from core.credit_flow.flow import CreditFlow
from core.engine.classic.variable_queue import VariableQueue
from core.engine.confirms import Confirms, Submission
from core.engine.options.in_force import QueueOptions
from core.engine.queue.consumers import Attachment
from core.engine.queue.queue import Queue
from core.engine.ready.backing import Backing, MemoryBacking
from core.engine.ready.remains import Remains
from core.interface import ConsumeOptions, Consumer, Delivered, Disposal, Mailbox, Publisher
from core.message import Attributes, Return, Run
from core.slices import run_at_once
from tests.kit.engine import NOW, bodies, entries_for, later, queue
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.kept_broker import KeptBroker
from tests.kit.settings import GENERAL
from tests.kit.storage import KeptDefinitions, open_storage, work

DURABLE = Attributes(durable=True)
BATCH = 100
RUN = 1000

# --- 0.24: a queue comes back from disk


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_row_0_24_a_queue_comes_back_from_disk_with_all_that_was_confirmed(kind):
    one = KeptBroker()
    one.broker.declare_queue(queue("q", x_queue_type=kind), "x")
    one.peer.publish("q", bodies(500), DURABLE)
    one.run()
    held = one.peer.consume("q", 200)
    one.run()
    one.broker.settle(held, 0, 99, Disposal.ACCEPTED)
    one.run(later(1))
    one.kill()
    consumer = one.peer.consume("q", 1000)
    one.run()
    actions = one.peer.mailbox.take()
    assert entries_for(actions, consumer) == bodies(400, 100)
    assert not any(action.first_acquirer for action in actions if isinstance(action, Delivered))


# --- 4.11: rate against depth


def filled(depth: int, **arguments: object) -> KeptBroker:
    """A broker whose queue "q" has this many messages, and a consumer that has taken one batch."""
    one = KeptBroker()
    one.broker.declare_queue(queue("q", **arguments), "x")
    run = [b"x" * 12] * RUN
    for _ in range(depth // RUN):
        one.peer.publish("q", run, DURABLE)
        one.run()
    one.peer.mailbox.take()
    return one


def calls_of(act: Callable[[], None]) -> int:
    """How many functions of Python and C are called: a measure of work that is the same on every machine."""
    calls = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def reads(counts: Mapping[str, object]) -> int:
    return sum(value for key in ("index_reads", "body_reads", "reads") if isinstance(value := counts.get(key), int))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "shallow"),
    [({}, 1_000), ({"x_queue_mode": "lazy"}, 1_000), ({"x_queue_type": "quorum"}, 3_000)],
    ids=["classic", "lazy", "quorum"],
)
def test_row_4_11_rate_does_not_depend_on_depth(arguments, shallow):
    """Per message, a queue of 100,000 does at most 15 % more work than a shallow one, and reads as seldom from disk.

    A quorum queue that is wholly in memory does less work. So the shallow queue here is one that is not.
    """
    rounds = 180  # more than a segment of the index
    costs = []
    for depth in (shallow, 100_000):
        one = filled(depth, **arguments)
        consumer = one.peer.consume("q", 0)
        read_before = reads(one.shown("q"))
        batch = [b"x" * 12] * BATCH

        def work_on(one=one, consumer=consumer, batch=batch) -> None:
            for number in range(0, rounds * BATCH, BATCH):
                one.peer.publish("q", batch, DURABLE)
                one.broker.grant(consumer, BATCH, False)
                one.run()
                one.broker.settle(consumer, number, number + BATCH - 1, Disposal.ACCEPTED)
                one.peer.mailbox.take()

        calls = calls_of(work_on)
        shown = one.shown("q")
        assert (shown["accepted"], shown["messages_ready"]) == (rounds * BATCH, depth)
        costs.append((calls / (rounds * BATCH), (reads(shown) - read_before) / rounds))
    (shallow_calls, shallow_reads), (deep_calls, deep_reads) = costs
    assert deep_calls <= 1.15 * shallow_calls
    assert deep_reads <= max(1.0, 1.15 * shallow_reads)


# --- 4.13: what a lazy backlog costs


@pytest.mark.slow
def test_row_4_13_lazy_backlog_costs_almost_no_memory():
    """200,000 messages: without a consumer none of them is in memory; with one, only those that are read ahead."""
    depth = 200_000
    lazy, usual = (filled(depth, x_queue_mode=mode) for mode in ("lazy", "default"))
    shown = usual.shown("q")
    assert (shown["ram_messages"], shown["ram_bytes"]) == (depth, 12 * depth)
    shown = lazy.shown("q")
    assert (shown["ram_messages"], shown["ram_bytes"], shown["ram_acks"], shown["delta"]) == (0, 0, 0, depth)
    consumer = lazy.peer.consume("q", 0)
    for number in range(0, 20_000, BATCH):
        lazy.broker.grant(consumer, BATCH, False)
        lazy.run()
        lazy.broker.settle(consumer, number, number + BATCH - 1, Disposal.ACCEPTED)
        lazy.peer.mailbox.take()
        shown = lazy.shown("q")
        assert shown["ram_messages"] <= 256
        assert shown["ram_bytes"] <= 256 * 12
        assert shown["q3"] <= 16_384


# --- 4.31: a backing behind an interface ---------------------------------------------------------------------------


class OneQueue:
    """A queue over any backing, and its deliveries."""

    def __init__(self, backing: Backing, settle_down: Callable[[], object]) -> None:
        self._settle_down = settle_down
        self._confirms = Confirms()
        self.mailbox = Mailbox(lambda: None)
        self._publisher = Publisher(self.mailbox, self, None, "p")
        self._confirms.enter(self._publisher)
        self._numbers = 0
        self._consumers = 0
        self.queue = Queue("q", QueueOptions(), lambda _level: backing, stage_credit=CreditFlow("q", GENERAL))

    def publish(self, count: int) -> None:
        run = Run(self._numbers, bodies(count, self._numbers), DURABLE)
        self._numbers += count
        self.queue.inbox.put(Submission(self._publisher, run, None), count)
        self.queue.admit(self._confirms, NOW)
        self._settle_down()

    def consume(self) -> Attachment:
        consumer = Attachment(Consumer(self._consumers, "q", self.mailbox, ConsumeOptions(), None))
        self._consumers += 1
        self.queue.attach(consumer)
        return consumer

    def deliver(self, consumer: Attachment, n: int) -> Iterator[tuple[int, bytes, int, bool, object]]:
        """Grant this many messages; returns what is delivered, message by message."""
        self.queue.grant(consumer, n, False)
        self.queue.dispatch(NOW)
        for action in self.mailbox.take():
            if isinstance(action, Delivered):
                for number, entry in enumerate(action.entries, action.first):
                    yield number, entry, action.delivery_count, action.first_acquirer, action.annotations


def scenario(one: OneQueue) -> list[object]:
    """Publish runs and single messages, dispose of them in every way, let a consumer leave, look inside, and purge."""
    told: list[object] = []
    for count in (1, 1, 300, 1, 50):
        one.publish(count)
    first, second = one.consume(), one.consume()
    told += one.deliver(first, 100)
    told += one.deliver(second, 100)
    one.queue.settle(first, 0, 49, Disposal.ACCEPTED)
    one.queue.settle(first, 50, 59, Disposal.REJECTED)
    one.queue.settle(first, 60, 69, Return(delivery_failed=True))
    one.queue.settle(first, 70, 74, Return(annotations={"x-why": "later"}))
    one.queue.settle(first, 75, 79, Return(undeliverable_here=True))
    one.queue.settle(first, 80, 89, Return(unsent=True))
    told += one.deliver(first, 20)
    one.queue.cancel(first)
    told += [(each.sequence, each.entry, each.delivery_count) for each in one.queue.peek(60)]
    told += one.deliver(second, 120)
    told.append((one.queue.ready, one.queue.ready_bytes, one.queue.unacknowledged))
    one.queue.settle(second, 0, 10**6, Disposal.ACCEPTED)
    one.publish(3)
    told.append(run_at_once(one.queue.purge(Remains().let_go)))
    one.publish(2)
    told += one.deliver(second, 10)
    told.append((one.queue.ready, one.queue.unacknowledged, one.queue.counters))
    return told


def test_row_4_31_backings_are_interchangeable():
    """The same scenario over three backings, one of them in both modes, gives the same deliveries."""
    disk = MemoryDisk()
    storage = open_storage(disk, KeptDefinitions())
    index = storage.store.queue_index
    backings: list[Backing] = [
        MemoryBacking(),
        VariableQueue(index("1"), durable=True),
        VariableQueue(index("2"), durable=True, lazy=True),
        storage.quorum.backing(3),
    ]
    expected, *others = [scenario(OneQueue(backing, lambda: work(storage, 1000.0))) for backing in backings]
    assert len(expected) > 300
    for told in others:
        assert told == expected
