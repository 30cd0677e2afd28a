"""The fail-over: two clients publish, the node that leads is killed, and the time without an accepted message counts.

Both clients are this project's own, and the same for each broker. Each has one message under way at a time, and sends
it again, to the next node if it has to, until it is accepted. The first client publishes at the node that is killed,
the second at another one. At the end everything is consumed: what was accepted has to be there, in order, and only what
had no answer may be there twice without a flag.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import trio

from amqp10.client import ClientSettings, Message, connect
from amqp10.client_core.errors import ClientError
from amqp10.client_core.outcomes import Uncertain
from amqp10.wire.messaging import Accepted
from amqp10.wire.sections import Header
from bench.cluster.nodes import MeasuredCluster
from bench.results import Figures

CALM_SECONDS = 1.0
"""How long messages are accepted before the kill, and after it."""
PATIENCE_SECONDS = 30.0
"""How long it may take until each client has an accepted message again."""
ANSWER_SECONDS = 10.0
"""A client that has no answer for so long connects to the next node."""
AGAIN_SECONDS = 0.02
"""Between two attempts of a client."""
EMPTY_SECONDS = 2.0
"""A queue from which nothing comes for so long, after all that was accepted, is empty. As long as something is missing,
it has :data:`PATIENCE_SECONDS`: a queue whose leader has just come back may be silent for a while."""
TAKEN_AT_ONCE = 200
PLACES = ("leader", "elsewhere")
"""Where the clients publish at first."""
GAPS = {place: f"gap_{place}_s" for place in PLACES}
TOOK_ENGINE = "took_etcd_leader"
"""The figure, "yes" or "no", that says whether the leader of etcd was killed with the node: the others elect another
one then."""
CLIENT = ClientSettings(reconnect=None, leader_connections_max=0, connect_time_out_s=5.0, close_time_out_s=0.5)
"""It stays at its node, because other brokers tell no leader."""
DURABLE = Header(durable=True)


@dataclass(slots=True)
class FailOverClient:
    """A client that publishes, and what it has seen."""

    name: str
    urls: Sequence[str]
    """Where it connects, one after the other."""
    accepted_at: list[float] = field(default_factory=list)
    """When each message was accepted (monotonic seconds); its number is its place."""
    unanswered: set[int] = field(default_factory=set)
    """Messages that were sent again without an answer."""
    connections: int = 0
    accepted: trio.Event = field(default_factory=trio.Event)
    """The next message has been accepted."""

    async def publish(self, queue: str) -> None:
        """Publish until cancelled."""
        while True:
            url = self.urls[self.connections % len(self.urls)]
            self.connections += 1
            try:
                await self._publish_at(url, queue)
            except* (ClientError, OSError, TimeoutError):
                pass
            await trio.sleep(AGAIN_SECONDS)

    async def _publish_at(self, url: str, queue: str) -> None:
        async with connect(url, CLIENT) as connection:
            with trio.fail_after(ANSWER_SECONDS):
                sender = await connection.open_sender(f"/queues/{queue}")
            while True:
                number = len(self.accepted_at)
                message = Message(body=f"{self.name}:{number}".encode(), header=DURABLE)
                fate = None
                try:
                    fate = await sender.send(message, within_s=ANSWER_SECONDS)
                finally:
                    if fate is None or isinstance(fate, Uncertain):
                        self.unanswered.add(number)
                if isinstance(fate, Accepted):
                    self.accepted_at.append(time.monotonic())
                    before, self.accepted = self.accepted, trio.Event()
                    before.set()
                else:
                    await trio.sleep(AGAIN_SECONDS)

    def gap(self, since: float) -> float:
        """The longest time without an accepted message that ends after ``since``, in seconds."""
        return max(later - before for before, later in pairwise(self.accepted_at) if later > since)


@dataclass(slots=True)
class DrainedMessages:
    """What was in the queue: the numbers of each client, in the order in which they came, and those that came flagged
    as delivered before."""

    numbers: dict[str, list[int]] = field(default_factory=lambda: {place: [] for place in PLACES})
    flagged: set[tuple[str, int]] = field(default_factory=set)

    def take(self, body: bytes, *, flagged: bool) -> None:
        """A message has come."""
        name, _, number = body.decode().partition(":")
        self.numbers[name].append(int(number))
        if flagged:
            self.flagged.add((name, int(number)))

    def lost(self, accepted: Mapping[str, int]) -> dict[str, int]:
        """How many messages of each client are missing."""
        return {
            name: accepted[name] - len({*numbers} & {*range(accepted[name])}) for name, numbers in self.numbers.items()
        }


def faults(accepted: Mapping[str, int], unanswered: Mapping[str, set[int]], drained: DrainedMessages) -> list[str]:
    """What is wrong, in words. ``accepted``: how many messages of each client were accepted, which are the numbers up
    to that; ``unanswered``: those that may be there twice."""
    found, missing = [], drained.lost(accepted)
    for name, numbers in drained.numbers.items():
        seen = dict.fromkeys(numbers)
        twice = {number for number in seen if numbers.count(number) > 1} if len(seen) < len(numbers) else set()
        doubled = [one for one in twice if one not in unanswered[name] and (name, one) not in drained.flagged]
        reordered = sum(later < before for before, later in pairwise(seen))
        for count, what in ((missing[name], "lost"), (len(doubled), "duplicated"), (reordered, "reordered")):
            if count:
                found.append(f"{name}: {count} {what}")
    return found


def measured(cluster: MeasuredCluster, queue: str, number: int) -> Figures:
    """Kill node ``number``, which leads the queue, start it again, and return the figures. Raises BrokerError, and
    WireError and OSError for a queue that cannot be declared."""
    brokers = cluster.brokers
    urls = [broker.url for broker in [*brokers[number:], *brokers[:number]]]
    with brokers[number].management() as management:
        management.declare_queue(queue, queue_type="quorum")
    clients = [FailOverClient("leader", urls), FailOverClient("elsewhere", urls[1:])]
    took_engine = cluster.leads_engine(number)
    killed_at = trio.run(_published, cluster, clients, queue, number)
    cluster.restart(number)
    another = cluster.brokers[(number + 1) % len(brokers)]
    accepted = {one.name: len(one.accepted_at) for one in clients}
    drained = trio.run(_drained, another.url, queue, accepted)
    with another.management() as management:
        management.delete_queue(queue)
    if killed_at is None:
        return {"void": f"nothing was accepted for {PATIENCE_SECONDS:g} s"}
    wrong = faults(accepted, {one.name: one.unanswered for one in clients}, drained)
    gaps = {GAPS[one.name]: round(one.gap(killed_at), 4) for one in clients}
    engine = {} if took_engine is None else {TOOK_ENGINE: "yes" if took_engine else "no"}
    return {**gaps, **engine, "messages": sum(accepted.values()), "void": "; ".join(wrong)}


async def _published(
    cluster: MeasuredCluster, clients: Sequence[FailOverClient], queue: str, number: int
) -> float | None:
    """Publish, and kill the node. Returns when; nothing if messages were not accepted before or after that."""
    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(client.publish, queue)
        if not await _accepted_since(clients, time.monotonic()):
            nursery.cancel_scope.cancel()
            return None
        await trio.sleep(CALM_SECONDS)
        killed_at = time.monotonic()
        await trio.to_thread.run_sync(cluster.kill, number)
        again = await _accepted_since(clients, time.monotonic())
        await trio.sleep(CALM_SECONDS)
        nursery.cancel_scope.cancel()
    return killed_at if again else None


async def _accepted_since(clients: Sequence[FailOverClient], when: float) -> bool:
    """Wait until each client has a message that was accepted after this time. Returns False if that takes too long."""
    with trio.move_on_after(PATIENCE_SECONDS):
        for client in clients:
            while not client.accepted_at or client.accepted_at[-1] <= when:
                await client.accepted.wait()
        return True
    return False


async def _drained(url: str, queue: str, accepted: Mapping[str, int]) -> DrainedMessages:
    """Consume everything, as soon as the node finds the one that leads the queue. Raises ClientError."""
    drained, deadline = DrainedMessages(), trio.current_time() + PATIENCE_SECONDS
    while True:
        try:
            await _drain(url, queue, accepted, drained)
            return drained
        except ClientError:
            if trio.current_time() > deadline:
                raise
        await trio.sleep(AGAIN_SECONDS)


async def _drain(url: str, queue: str, accepted: Mapping[str, int], drained: DrainedMessages) -> None:
    async with connect(url, CLIENT) as connection:
        receiver = await connection.open_receiver(f"/queues/{queue}")
        with trio.move_on_after(PATIENCE_SECONDS) as limit:
            while True:
                for delivery in await receiver.receive_batch(TAKEN_AT_ONCE):
                    header = delivery.message.header or Header()
                    assert isinstance(delivery.message.body, bytes)
                    drained.take(delivery.message.body, flagged=not header.first_acquirer)
                    delivery.accept()
                more = any(drained.lost(accepted).values())
                limit.deadline = trio.current_time() + (PATIENCE_SECONDS if more else EMPTY_SECONDS)
