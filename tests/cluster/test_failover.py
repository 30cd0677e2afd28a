"""Three real brokers and a real etcd: the node at which a publisher and a consumer are connected is killed, and both go
on at another, which the first has announced. Or the node that leads their queue ends or hands over: links at another
node stay, as consumers of AMQP 0.9.1 do, and links that are at the leader go on at the next one."""

import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import pika
import pika.exceptions
import pytest
import trio
from pika.adapters.blocking_connection import BlockingChannel

from amqp10.client import ClientConnection, ClientSettings, LinkClosed, Message, ReceiverOptions, connect
from amqp10.client_core.url import Url
from amqp10.wire.messaging import Accepted
from amqp10.wire.sections import Header
from amqp10.wire.types import Described, Symbol, ULong
from tests.kit.cluster_nodes import NAMES, ClusterNodes, cluster_nodes
from tests.kit.queue_types import OFFSET

QUEUE = "/queues/orders"
RUN = 20
"""Messages that are sent before their outcomes are awaited."""
BEFORE, AFTER = 200, 200
"""Messages that are accepted before a node ends, and messages that are sent after it has ended."""
WHOLE_S = 60.0

L = TypeVar("L")


@dataclass
class Ledger:
    """What the publisher and the consumer know. A message is its number."""

    accepted: set[int] = field(default_factory=set)
    sent_again: set[int] = field(default_factory=set)
    """Those that had no outcome when their connection or link was lost."""
    received: dict[int, list[bool]] = field(default_factory=dict)
    """For each time that a message came, whether it was flagged as one that may have been delivered before."""
    attached_again: int = 0
    """How often a link has ended and was attached again, at the same node or another."""
    half: trio.Event = field(default_factory=trio.Event)
    ended: trio.Event = field(default_factory=trio.Event)
    """The node has ended. The publisher sends until then, and AFTER messages more."""
    total: int | None = None
    """How many messages there are, which is known when the node has ended."""
    whole: trio.Event = field(default_factory=trio.Event)
    """All messages are accepted, and have come."""

    def look(self) -> None:
        """Whether it is the whole now."""
        if len(self.accepted) == self.total and self.accepted <= self.received.keys():
            self.whole.set()


async def opened(ledger: Ledger, error: LinkClosed, again: Callable[[], Awaitable[L]]) -> L:
    """A new link in place of one that has ended with its leader; while no node leads, new links end too."""
    while True:
        ledger.attached_again += 1
        assert error.condition == "amqp:link:detach-forced", error
        try:
            return await again()
        except LinkClosed as another:
            error = another
            await trio.sleep(0.02)


async def publish(connection: ClientConnection, ledger: Ledger) -> None:
    """Send messages until enough are accepted; one without an outcome again."""
    sender, sent = await connection.open_sender(QUEUE), 0
    run: list[int] = []
    while len(ledger.accepted) != ledger.total:
        if ledger.ended.is_set() and ledger.total is None:
            ledger.total = sent + AFTER
        more = range(sent, min(sent + RUN - len(run), ledger.total or sys.maxsize))
        run, sent = [*run, *more], more.stop
        try:
            receipt = await sender.post(Message(str(number), header=Header(durable=True)) for number in run)
            if len(ledger.accepted) >= BEFORE:
                ledger.half.set()
            fates = await receipt.fates()
        except LinkClosed as error:
            ledger.sent_again.update(run)
            sender = await opened(ledger, error, lambda: connection.open_sender(QUEUE))
            continue
        for known in fates:
            numbers = run[known.first - receipt.first : known.last - receipt.first + 1]
            (ledger.accepted if known.fate == Accepted() else ledger.sent_again).update(numbers)
        run = [number for number in run if number not in ledger.accepted]
    ledger.look()


async def consume(connection: ClientConnection, ledger: Ledger) -> None:
    """Take and accept what comes, until cancelled."""
    receiver = await connection.open_receiver(QUEUE)
    while True:
        try:
            delivery = await receiver.receive()
        except LinkClosed as error:
            receiver = await opened(ledger, error, lambda: connection.open_receiver(QUEUE))
            continue
        header = delivery.view.header
        flagged = header is not None and (bool(header.delivery_count) or header.first_acquirer is False)
        ledger.received.setdefault(int(str(delivery.message.body)), []).append(flagged)
        delivery.accept()
        ledger.look()


async def lose_node(nodes: ClusterNodes, entry: str, killed: str, settings: ClientSettings) -> tuple[Ledger, Url]:
    """Kill a node while both are connected to the entry. Returns what both know, and where they are connected in the
    end."""
    ledger, url = Ledger(), nodes.url(entry)
    async with connect(url, settings) as publisher, connect(url, settings) as consumer:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume, consumer, ledger)
            nursery.start_soon(publish, publisher, ledger)
            with trio.fail_after(WHOLE_S):
                await ledger.half.wait()
                nodes.kill(killed)
                ledger.ended.set()
                await ledger.whole.wait()
            nursery.cancel_scope.cancel()
        assert publisher.url == consumer.url
        return ledger, publisher.url


def links(nodes: ClusterNodes, name: str) -> int:
    """How many links of clients a node has, without those for requests."""
    rows = json.loads(nodes.command(name, "links", "list", "--json"))
    return sum(row["address"] == QUEUE for row in rows)


def at_leader(nodes: ClusterNodes, entry: str) -> bool:
    """Whether both links are at the leader that the entry knows; it may know none for a moment."""
    leader = nodes.leaders(entry).get(1)
    return leader is not None and links(nodes, leader) == 2


def stop(nodes: ClusterNodes, name: str) -> None:
    """The process of a node stands still."""
    os.kill(nodes.processes[name].pid, signal.SIGSTOP)


def hand_over(nodes: ClusterNodes, name: str) -> None:
    """A node hands over what it leads."""
    nodes.command(name, "drain")


async def lose_leader(
    nodes: ClusterNodes, entry: str, leader: str, end: Callable[[ClusterNodes, str], object]
) -> Ledger:
    """Returns what both know in the end. Their links are at the leader, and then at the next one."""
    ledger = Ledger()
    async with connect(nodes.url(entry)) as publisher, connect(nodes.url(entry)) as consumer:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume, consumer, ledger)
            nursery.start_soon(publish, publisher, ledger)
            with trio.fail_after(WHOLE_S):
                await ledger.half.wait()
                count = partial(trio.to_thread.run_sync, links, nodes)
                assert (await count(leader), await count(entry)) == (2, 0)
                await trio.to_thread.run_sync(end, nodes, leader)
                ledger.ended.set()
                await ledger.whole.wait()
            await trio.to_thread.run_sync(nodes.until, partial(at_leader, nodes, entry), "both are at the next leader")
            nursery.cancel_scope.cancel()
        assert publisher.status.losses == consumer.status.losses == 0
    return ledger


def check_repeats(ledger: Ledger) -> None:
    """What came again was flagged, or the publisher has sent it again."""
    again = {number for number, times in ledger.received.items() if len(times) > 1}
    unflagged = {number for number in again if not all(ledger.received[number][1:])}
    assert unflagged <= ledger.sent_again, "a message came again that neither side could know of"


@contextmanager
def with_queue(*, leads: bool, kind: str = "quorum") -> Iterator[tuple[ClusterNodes, str, str]]:
    """Three nodes that know the queue, the name of one that leads it or does not, and that of the leader."""
    with cluster_nodes(groups=1, forwards=True) as nodes:
        leader = nodes.leaders("a")[1]
        assert leader is not None
        entry = next(name for name in NAMES if (name == leader) is leads)
        nodes.command(entry, "queues", "declare", "orders", "--argument", f"x-queue-type={kind}")
        for name in NAMES:
            nodes.until(lambda name=name: "orders" in nodes.command(name, "queues", "list"), "each node has the queue")
        nodes.until(lambda: all(row["here"] for row in nodes.status(entry)["nodes"]), "the others are here")
        yield nodes, entry, leader


@pytest.mark.slow
def test_links_outlive_the_leader_and_nothing_is_lost():
    with with_queue(leads=False) as (nodes, entry, leader):
        ledger, url = trio.run(lose_node, nodes, entry, leader, ClientSettings(leader_connections_max=0))
        assert str(url) == str(Url.parse(nodes.url(entry)))
        assert ledger.attached_again == 0
        check_repeats(ledger)


async def read(
    connection: ClientConnection,
    ledger: Ledger,
    offsets: list[int],
    begin: str = "first",
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Take what a link gets from a stream, from there on, until cancelled. The link must not end."""
    options = ReceiverOptions(filter={OFFSET: Described(Symbol(OFFSET), begin)})
    receiver = await connection.open_receiver(QUEUE, options=options)
    task_status.started()
    while True:
        delivery = await receiver.receive()
        offset = (delivery.view.annotations or {})["x-stream-offset"]
        offsets.append(offset.value if isinstance(offset, ULong) else offset)
        body = delivery.message.body
        ledger.received.setdefault(int(body if isinstance(body, bytes) else str(body)), []).append(False)
        delivery.accept()
        ledger.look()


async def read_over_a_loss(
    nodes: ClusterNodes,
    entry: str,
    leader: str,
    settings: ClientSettings,
    end: Callable[[ClusterNodes, str], object] = ClusterNodes.kill,
) -> tuple[Ledger, list[int]]:
    """The leader ends while both are connected to the entry. Returns what is known, and the offsets that the reader
    got."""
    offsets: list[int] = []
    ledger = Ledger()
    async with (
        connect(nodes.url(entry), settings) as publisher,
        connect(nodes.url(entry), settings) as reader,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(read, reader, ledger, offsets)
        nursery.start_soon(publish, publisher, ledger)
        with trio.fail_after(WHOLE_S):
            await ledger.half.wait()
            await trio.to_thread.run_sync(end, nodes, leader)
            ledger.ended.set()
            await ledger.whole.wait()
        nursery.cancel_scope.cancel()
    return ledger, offsets


@pytest.mark.slow
def test_a_link_that_reads_a_stream_outlives_the_leader():
    with with_queue(leads=False, kind="stream") as (nodes, entry, leader):
        ledger, offsets = trio.run(read_over_a_loss, nodes, entry, leader, ClientSettings(leader_connections_max=0))
        assert ledger.attached_again == 0
        assert offsets == list(range(len(offsets))), "each offset once, in order"


@pytest.mark.slow
@pytest.mark.parametrize(("leads", "end"), [(False, ClusterNodes.kill), (False, hand_over), (True, ClusterNodes.kill)])
def test_a_reader_that_follows_the_leader_of_a_stream_goes_on_behind_what_it_has(leads, end):
    with with_queue(leads=leads, kind="stream") as (nodes, entry, leader):
        ledger, offsets = trio.run(read_over_a_loss, nodes, entry, leader, ClientSettings(), end)
        assert ledger.attached_again == 0
        assert offsets == list(range(len(offsets))), "each offset once, in order"


async def read_what_comes_next(nodes: ClusterNodes, entry: str, leader: str, alive: str) -> list[int]:
    """Kill the leader when the reader has had nothing, and publish at a node that is alive. Returns the offsets that
    the reader got."""
    offsets: list[int] = []
    ledger = Ledger()
    async with connect(nodes.url(entry)) as reader, trio.open_nursery() as nursery:
        with trio.fail_after(WHOLE_S):
            await nursery.start(read, reader, ledger, offsets, "next")
            nodes.kill(leader)
            await trio.to_thread.run_sync(publish_091, nodes, alive, range(BEFORE, BEFORE + AFTER))
            ledger.accepted, ledger.total = set(range(BEFORE, BEFORE + AFTER)), AFTER
            ledger.look()
            await ledger.whole.wait()
        nursery.cancel_scope.cancel()
    assert ledger.received.keys() == ledger.accepted
    return offsets


@pytest.mark.slow
@pytest.mark.parametrize("leads", [False, True])
def test_a_reader_of_what_comes_next_misses_nothing_when_the_leader_ends_before_it_has_a_message(leads):
    with with_queue(leads=leads, kind="stream") as (nodes, entry, leader):
        publish_091(nodes, entry, range(BEFORE))
        alive = next(name for name in NAMES if name != leader)
        offsets = trio.run(read_what_comes_next, nodes, entry, leader, alive)
        assert offsets == list(range(BEFORE, BEFORE + len(offsets))), "each offset once, in order"


@pytest.mark.slow
@pytest.mark.parametrize("end", [ClusterNodes.kill, stop, hand_over])
def test_links_are_at_the_leader_and_go_on_at_the_next_one(end):
    with with_queue(leads=False) as (nodes, entry, leader):
        ledger = trio.run(lose_leader, nodes, entry, leader, end)
        assert ledger.attached_again == 0
        check_repeats(ledger)


@pytest.mark.slow
@pytest.mark.parametrize("leads", [False, True])
def test_both_go_on_at_another_node_and_nothing_is_lost(leads):
    with with_queue(leads=leads) as (nodes, entry, _):
        ledger, url = trio.run(lose_node, nodes, entry, entry, ClientSettings())
        assert str(url) in [str(Url.parse(nodes.url(name))) for name in NAMES if name != entry]
        check_repeats(ledger)


HELD = 10
"""Deliveries that the consumer of AMQP 0.9.1 holds when the leader is killed."""


@dataclass
class Consumer091:
    """A consumer of pika. It knows the messages that it has got, each with its flag, and whether it was cancelled."""

    channel: BlockingChannel
    received: list[tuple[int, bool]] = field(default_factory=list)
    offsets: list[object] = field(default_factory=list)
    unacknowledged: list[int] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)
    cancelled: list[str] = field(default_factory=list)

    def begin(self, arguments: dict[str, object], most: int = HELD) -> None:
        """Consume; hold at most so many deliveries."""
        self.channel.add_on_cancel_callback(lambda frame: self.cancelled.append(frame.method.consumer_tag))
        self.channel.basic_qos(prefetch_count=most)
        self.channel.basic_consume("orders", self._got, arguments=arguments)

    def _got(self, channel, method, properties, body) -> None:
        self.tags.add(method.consumer_tag)
        self.received.append((int(body), method.redelivered))
        self.offsets.append((properties.headers or {}).get("x-stream-offset"))
        self.unacknowledged.append(method.delivery_tag)

    def until(self, there: Callable[[], bool], *, acknowledge: bool) -> None:
        """Take what comes until then."""
        deadline = time.monotonic() + WHOLE_S
        while not there():
            assert time.monotonic() < deadline, f"only {len(self.received)} came; cancelled: {self.cancelled}"
            self.channel.connection.process_data_events(time_limit=0.1)
            if acknowledge:
                self.acknowledge()

    def acknowledge(self) -> None:
        """Acknowledge all that it holds."""
        tags, self.unacknowledged = self.unacknowledged, []
        for tag in tags:
            self.channel.basic_ack(tag)

    @property
    def numbers(self) -> set[int]:
        """The messages that have come."""
        return {number for number, _ in self.received}


def publish_091(nodes: ClusterNodes, entry: str, numbers: range) -> set[int]:
    """Publish until each message is confirmed. Returns those that were sent more than once."""
    again: set[int] = set()
    with closing(pika.BlockingConnection(pika.URLParameters(nodes.url(entry)))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in numbers:
            while True:
                with suppress(pika.exceptions.NackError, pika.exceptions.UnroutableError):
                    channel.basic_publish("", "orders", str(number).encode(), pika.BasicProperties(delivery_mode=2))
                    break
                again.add(number)
    return again


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["quorum", "stream"])
@pytest.mark.parametrize("end", [ClusterNodes.kill, hand_over])
def test_a_consumer_of_amqp_091_outlives_the_leader(kind, end):
    with with_queue(leads=False, kind=kind) as (nodes, entry, leader):
        publish_091(nodes, entry, range(BEFORE))
        parameters = pika.URLParameters(nodes.url(entry))
        with (
            closing(pika.BlockingConnection(parameters)) as staying,
            closing(pika.BlockingConnection(parameters)) as other,
        ):
            consumer, asking = Consumer091(staying.channel()), Consumer091(other.channel())
            begin = {"x-stream-offset": "first"} if kind == "stream" else {}
            consumer.begin(begin)
            consumer.until(lambda: len(consumer.received) == HELD, acknowledge=False)
            asking.begin({**begin, "x-cancel-on-ha-failover": True}, most=1)
            asking.until(lambda: len(asking.received) == 1, acknowledge=False)
            end(nodes, leader)
            again = publish_091(nodes, entry, range(BEFORE, BEFORE + AFTER))
            consumer.until(lambda: consumer.numbers == set(range(BEFORE + AFTER)), acknowledge=True)
            asking.until(lambda: len(asking.cancelled) == 1, acknowledge=False)
            assert (consumer.cancelled, len(consumer.tags), consumer.channel.is_open) == ([], 1, True)
        if kind == "stream":
            assert consumer.offsets == list(range(len(consumer.offsets))), "each offset once, in order"
            return
        held, numbers = [number for number, _ in consumer.received[:HELD]], [number for number, _ in consumer.received]
        assert all(numbers.count(number) == 2 for number in held), "what it held came again"
        unflagged = {
            number for place, (number, flag) in enumerate(consumer.received) if number in numbers[:place] and not flag
        }
        assert unflagged <= again, "a message came again that neither side could know of"


@pytest.mark.slow
def test_a_consumer_of_amqp_091_for_what_comes_next_misses_nothing_when_the_leader_ends_before_it_has_a_message():
    with with_queue(leads=False, kind="stream") as (nodes, entry, leader):
        publish_091(nodes, entry, range(BEFORE))
        parameters = pika.URLParameters(nodes.url(entry))
        with (
            closing(pika.BlockingConnection(parameters)) as staying,
            closing(pika.BlockingConnection(parameters)) as other,
        ):
            consumer, second = Consumer091(staying.channel()), Consumer091(other.channel())
            consumer.begin({"x-stream-offset": "next"})
            second.begin({"x-stream-offset": "first"})
            second.until(lambda: len(second.received) == HELD, acknowledge=False)  # so the leader knows both
            nodes.kill(leader)
            publish_091(nodes, entry, range(BEFORE, BEFORE + AFTER))
            consumer.until(lambda: consumer.numbers == set(range(BEFORE, BEFORE + AFTER)), acknowledge=True)
            assert (consumer.cancelled, len(consumer.tags)) == ([], 1)
        assert consumer.offsets == list(range(BEFORE, BEFORE + len(consumer.offsets))), "each offset once, in order"
