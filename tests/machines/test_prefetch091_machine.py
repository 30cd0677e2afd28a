"""Prefetch of AMQP 0.9.1, compared with a model at every step.

No consumer and no channel ever holds more than its prefetch, no message waits while there is room, and every message is
in exactly one place.
"""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from core.amqp091.methods import BasicAck, BasicCancel, BasicCancelOk, BasicNack, BasicQos, BasicQosOk
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import connect

QUEUES = ("a", "b")


class PrefetchMachine(RuleBasedStateMachine):
    """One channel with consumers of two queues."""

    @initialize(max_queue_credit=st.sampled_from([1, 3, 256]))
    def begin(self, max_queue_credit: int) -> None:
        self.broker = InProcessBroker()
        front_end_settings = make_settings(amqp091={"max_queue_credit": max_queue_credit})
        self.peer = connect(self.broker, 1, 2, settings=front_end_settings)
        for name in QUEUES:
            self.broker.queue(name)
        self.next_body = 0
        self.prefetch = 0
        self.channel_prefetch = 0
        self.consumers: dict[str, tuple[str, int]] = {}
        """The queue and the prefetch of each consumer, by its tag."""
        self.held: dict[int, tuple[str, bytes]] = {}
        """The delivery tags that are not acknowledged, with the consumer's tag and the body."""
        self.done: set[bytes] = set()
        self.next_tag = 1

    def look(self) -> None:
        """Read the deliveries that came."""
        for method, _, body in self.peer.deliveries():
            assert method.delivery_tag == self.next_tag
            self.next_tag += 1
            assert method.consumer_tag in self.consumers
            assert body not in self.done
            assert body not in {held for _, held in self.held.values()}
            self.held[method.delivery_tag] = (method.consumer_tag, body)
            if self.channel_prefetch:
                assert len(self.held) <= self.channel_prefetch
        assert self.peer.take() == []

    def count(self, tag: str) -> int:
        return sum(owner == tag for owner, _ in self.held.values())

    @rule(queue=st.sampled_from(QUEUES), n=st.integers(1, 20))
    def publish(self, queue: str, n: int) -> None:
        self.peer.publish(2, numbered(n, self.next_body), routing_key=queue)
        self.next_body += n
        self.look()

    @rule(count=st.integers(0, 6))
    def qos(self, count: int) -> None:
        self.peer.call(1, BasicQos(prefetch_count=count), BasicQosOk)
        self.prefetch = count

    @rule(count=st.integers(0, 8))
    def qos_of_the_channel(self, count: int) -> None:
        self.channel_prefetch = count
        self.peer.call(1, BasicQos(prefetch_count=count, global_=True), BasicQosOk)
        self.look()

    @precondition(lambda self: len(self.consumers) < 4)
    @rule(queue=st.sampled_from(QUEUES))
    def consume(self, queue: str) -> None:
        tag = f"c{self.next_tag}-{len(self.held)}-{len(self.consumers)}-{self.next_body}"
        if tag in self.consumers or any(owner == tag for owner, _ in self.held.values()):
            return
        self.consumers[tag] = (queue, self.prefetch)
        self.peer.consume(queue, consumer_tag=tag)
        self.look()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        tag = data.draw(st.sampled_from(sorted(self.consumers)))
        self.peer.call(1, BasicCancel(consumer_tag=tag), BasicCancelOk)
        del self.consumers[tag]
        self.look()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), multiple=st.booleans(), requeue=st.booleans())
    def settle(self, data: st.DataObject, multiple: bool, requeue: bool) -> None:
        tag = data.draw(st.sampled_from(sorted(self.held)))
        settled = [each for each in self.held if each == tag or (multiple and each < tag)]
        for each in settled:
            _, body = self.held.pop(each)
            if not requeue:
                self.done.add(body)
        if requeue:
            self.peer.send(1, BasicNack(delivery_tag=tag, multiple=multiple))
        else:
            self.peer.send(1, BasicAck(delivery_tag=tag, multiple=multiple))
        self.look()

    @invariant()
    def never_more_than_the_prefetch(self) -> None:
        for tag, (_, prefetch) in self.consumers.items():
            assert not prefetch or self.count(tag) <= prefetch

    @invariant()
    def nothing_waits_where_there_is_room(self) -> None:
        if self.channel_prefetch and len(self.held) >= self.channel_prefetch:
            return
        for tag, (queue, prefetch) in self.consumers.items():
            if not prefetch or self.count(tag) < prefetch:
                assert self.broker.ready(queue) == 0

    @invariant()
    def every_message_is_somewhere(self) -> None:
        ready = sum(self.broker.ready(name) for name in QUEUES)
        assert ready + len(self.held) + len(self.done) == self.next_body


TestPrefetch = PrefetchMachine.TestCase
TestPrefetch.settings = settings(max_examples=60, stateful_step_count=30)


def test_all_consumers_go_on_when_the_channel_has_no_prefetch_any_more():
    machine = PrefetchMachine()
    machine.begin(max_queue_credit=1)
    machine.publish(n=1, queue="a")
    machine.consume(queue="a")
    machine.consume(queue="a")
    machine.qos(count=1)
    machine.qos_of_the_channel(count=3)
    machine.consume(queue="a")
    machine.publish(n=4, queue="a")
    assert machine.broker.ready("a") == 2
    machine.qos_of_the_channel(count=0)
    assert machine.broker.ready("a") == 0
