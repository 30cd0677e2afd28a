"""Traced messages: which ones, their spans from the publisher to the consumer, and the bounds of what is followed."""

from collections.abc import Iterator
from itertools import count

import pytest

from amqp10.client import Message
from core.amqp091.table import encode_table
from core.clock import Now
from core.config.traces import TraceSettings
from core.interface import Disposal, ExchangeTarget, QueueTarget
from core.message import Return, Run
from core.traces import Followed, Span, Traces
from tests.kit.engine import NOW, PLAIN, Peer, binding, bodies, exchange, later, make_broker, queue

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTEXT = f"00-{TRACE}-{SPAN}-01"


def entry(context: object = CONTEXT, body: bytes = b"x") -> bytes:
    return Message(body, application_properties={"traceparent": context}).encode()


class Traced:
    """A broker that follows traced messages, with a clock that each look moves on by a second, and one connection."""

    def __init__(self, *queues: str, **settings: object) -> None:
        self.seconds = 0.0
        numbers = count(1)
        self.traces = Traces(
            TraceSettings.model_validate(settings),
            clock=self._clock,
            random_bytes=lambda size: next(numbers).to_bytes(size, "big"),
        )
        self.broker = make_broker(*queues)
        self.broker.machinery.confirms.traces = self.traces
        self.peer = Peer(self.broker)
        self.broker.subscribe(self.peer.mailbox)

    def _clock(self) -> Now:
        self.seconds += 1.0
        return later(self.seconds)

    def spans(self) -> list[Span]:
        return self.traces.take(1000)

    def run(self, one: bytes) -> Run:
        return Run(self.peer.next_confirm, [one], PLAIN)

    def operations(self) -> Iterator[tuple[str, str]]:
        return ((span.operation, span.destination) for span in self.spans())


def test_the_four_spans_of_a_message():
    traced = Traced("q")
    traced.peer.publish("q", [entry()])
    traced.peer.turn()
    consumer = traced.peer.consume("q", 1)
    traced.peer.turn()
    traced.broker.settle(consumer, 0, 0, Disposal.ACCEPTED)
    enqueue, publish, deliver, settle = traced.spans()
    assert [span.operation for span in (publish, enqueue, deliver, settle)] == [
        "publish", "enqueue", "deliver", "settle",
    ]  # fmt: skip
    assert {span.parent.trace_id for span in (publish, enqueue, deliver, settle)} == {TRACE}
    assert publish.parent.span_id == SPAN
    assert enqueue.parent.span_id == deliver.parent.span_id == publish.span_id
    assert settle.parent.span_id == deliver.span_id
    times = [(span.start - NOW.wall, span.end - NOW.wall) for span in (publish, enqueue, deliver, settle)]
    assert times == [(0, 2), (0, 1), (1, 3), (3, 4)]
    assert publish.attributes["headgate.outcome"] == settle.attributes["headgate.outcome"] == "accepted"
    assert not publish.failed


def test_without_traces_nothing_is_watched():
    broker = make_broker("q")
    peer = Peer(broker)
    broker.subscribe(peer.mailbox)
    assert peer.mailbox.watch is None
    assert broker.machinery.confirms.traces is None


@pytest.mark.parametrize(
    "given",
    [
        Message(b"x", annotations={"traceparent": CONTEXT}).encode(),
        b"\x00" * 5 + encode_table({"traceparent": CONTEXT}),
    ],
    ids=["annotation", "header of 0.9.1"],
)
def test_where_a_message_may_carry_its_trace(given: bytes):
    traced = Traced("q")
    traced.peer.publish("q", [given])
    traced.peer.turn()
    assert {span.parent.trace_id for span in traced.spans()} == {TRACE}


@pytest.mark.parametrize(
    "context",
    [
        f"00-{TRACE}-{SPAN}-00",  # not sampled
        f"ff-{TRACE}-{SPAN}-01",  # no such version
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}",
        "",
        5,
    ],
)
def test_what_is_not_traced(context: object):
    traced = Traced("q")
    traced.peer.publish("q", [entry(context), b"plain"])
    traced.peer.consume("q", 2)
    traced.peer.turn()
    assert traced.spans() == []


def test_a_share_of_the_messages_without_a_trace():
    traced = Traced("q", sample_rate=0.25)
    traced.peer.publish("q", bodies(3))
    traced.peer.publish("q", [entry(f"00-{TRACE}-{SPAN}-00")] * 9)  # said to be not sampled: never
    traced.peer.publish("q", bodies(5, 3))
    traced.peer.consume("q", 100)
    traced.peer.turn()
    spans = traced.spans()
    published = [span for span in spans if span.operation == "publish"]
    assert len(published) == 2
    assert {span.parent.span_id for span in published} == {None}
    assert len({span.parent.trace_id for span in published}) == 2
    assert sum(span.operation == "deliver" for span in spans) == 2


def test_every_queue_of_an_exchange_has_its_span_and_the_answer_comes_once():
    traced = Traced("a", "b")
    traced.broker.declare_exchange(exchange("e"))
    for name in ("a", "b"):
        traced.broker.bind(binding("e", name, "k"), "peer")
    traced.peer.publish(ExchangeTarget("e", "k"), [entry()])
    traced.peer.turn()
    assert sorted(traced.operations()) == [("enqueue", "a"), ("enqueue", "b"), ("publish", "e")]
    traced.broker.publish_by_keys(traced.peer.publisher(None), "e", ["k"], traced.run(entry(body=b"y")), NOW)
    traced.peer.turn()
    assert sorted(traced.operations()) == [("enqueue", "a"), ("enqueue", "b"), ("publish", "e")]


def test_a_message_that_no_queue_wants_has_a_failed_span():
    traced = Traced()
    traced.broker.declare_exchange(exchange("e"))
    traced.peer.publish(ExchangeTarget("e", "k"), [entry()])
    (span,) = traced.spans()
    assert span.failed
    assert span.attributes["headgate.outcome"] == "released"


@pytest.mark.parametrize(
    ("disposal", "outcome"),
    [
        (Disposal.REJECTED, "rejected"),
        (Return(), "released"),
        (Return(delivery_failed=True), "modified"),
        (Return(unsent=True), "returned"),
    ],
)
def test_how_a_consumer_has_settled(disposal: Disposal | Return, outcome: str):
    traced = Traced("q")
    traced.peer.publish("q", [entry()])
    consumer = traced.peer.consume("q", 1)
    traced.peer.turn()
    traced.broker.settle(consumer, 0, 0, disposal)
    assert traced.spans()[-1].attributes == {"headgate.outcome": outcome}


def test_what_a_consumer_held_returns_when_it_goes():
    traced = Traced("q")
    traced.peer.publish("q", [entry()])
    consumer = traced.peer.consume("q", 1)
    traced.peer.turn()
    traced.broker.cancel(consumer)
    assert traced.spans()[-1].attributes == {"headgate.outcome": "returned"}
    traced.peer.consume("q", 1)
    traced.peer.turn()
    assert list(traced.operations()) == [("deliver", "q")]


def test_a_message_that_is_not_followed_any_more_has_a_span_of_its_own():
    traced = Traced("q", messages_max=10)
    traced.peer.publish("q", [entry(body=b"first"), *(entry(body=b"%d" % number) for number in range(10))])
    traced.peer.turn()
    traced.spans()
    traced.peer.consume("q", 1)
    traced.peer.turn()
    (deliver,) = traced.spans()
    assert (deliver.parent.trace_id, deliver.parent.span_id) == (TRACE, SPAN)
    assert deliver.start == deliver.end


def test_spans_that_nothing_takes_are_dropped_oldest_first():
    traced = Traced("q", spans_max=10)
    traced.peer.publish("q", [entry()] * 8)
    traced.peer.turn()
    assert traced.traces.counts() == {"sent": 0, "failed": 0, "dropped": 6}
    assert [span.operation for span in traced.spans()] == ["enqueue"] * 2 + ["publish"] * 8


def test_a_publisher_that_has_gone_leaves_nothing_behind():
    traced = Traced("q")
    publisher = traced.peer.publisher(None)
    traced.broker.publish(publisher, QueueTarget("q"), traced.run(entry()), NOW)
    traced.broker.retire(publisher)
    traced.peer.turn()
    assert traced.spans() == []


def test_messages_of_an_exclusive_queue_are_followed_too():
    traced = Traced()
    traced.broker.declare_queue(queue("mine", exclusive=True), owner="peer")
    traced.peer.publish("mine", [entry()])
    traced.peer.turn()
    assert list(traced.operations()) == [("enqueue", "mine"), ("publish", "mine")]


def test_the_table_lets_the_oldest_go():
    table: Followed[str, int] = Followed(3)
    for number in range(3):
        table.put("a", number, number)
    table.put("b", 0, 10)
    assert table.let_go == 1
    assert table.between("a", 0, 2**40) == [1, 2]
    assert table.take("a", 2, 5) == [2]
    assert table.take("c", 0, 5) == []
    assert table.drop("a") == [1]
    assert table.drop("a") == []
    for number in range(1, 4):
        table.put("b", number, 10 + number)
    assert table.between("b", 0, 9) == [11, 12, 13]
