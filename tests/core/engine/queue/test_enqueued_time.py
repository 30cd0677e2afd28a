"""A queue with ``x-enqueued-time`` tells with each delivery when its message came, whatever became of it meanwhile."""

from collections.abc import Iterable

import pytest

from core.engine.options.arguments import check_queue
from core.engine.options.policies import PolicyDeclaration
from core.errors import Invalid, PreconditionFailed
from core.interface import Action, Delivered, Disposal, ExchangeTarget, QueueTarget, StreamOptions, StreamPosition
from core.message import Attributes, Return, Route, each_of
from tests.kit.dead_letters import PlainConverter, body
from tests.kit.engine import NOW, Peer, binding, bodies, later, make_broker, queue
from tests.kit.kept_broker import KeptBroker

DURABLE = Attributes(durable=True)
FIRST = StreamOptions(position=StreamPosition.FIRST)
BOTH_TYPES = pytest.mark.parametrize("kind", ["classic", "quorum"])
CAME_MS = int(NOW.wall * 1000)

Told = list[tuple[bytes, int | None]]


def times(actions: Iterable[Action]) -> Told:
    """Each delivered message with the time that the delivery tells."""
    return [
        (body(entry), time)
        for action in actions
        if isinstance(action, Delivered)
        for entry, time in zip(action.entries, each_of(action.enqueued_ms, len(action.entries)), strict=True)
    ]


def publish_every_second(one: KeptBroker, count: int, size: int = 0, *, first: int = 0) -> Told:
    """Publish two messages directly and two through an exchange, once a second. Returns what deliveries must tell."""
    expected: Told = []
    for second in range(first, first + count):
        entries = [entry.ljust(size, b".") for entry in bodies(4, 4 * second)]
        one.peer.publish("q", entries[:2], DURABLE)
        one.peer.publish(ExchangeTarget("amq.direct", "a"), entries[2:], DURABLE)
        one.run(later(second))
        expected += [(entry, CAME_MS + 1000 * second) for entry in entries]
    return expected


def make(kind: str, **arguments: object) -> KeptBroker:
    one = KeptBroker(PlainConverter())
    one.broker.declare_queue(queue("q", x_queue_type=kind, x_enqueued_time=True, **arguments), "x")
    one.peer.broker.bind(binding("amq.direct", "q", "a"), one.peer.owner)
    return one


@BOTH_TYPES
@pytest.mark.parametrize("size", [0, 5000])
@pytest.mark.parametrize("ending", [None, KeptBroker.kill, KeptBroker.restart])
def test_the_time_is_kept_over_restarts_and_returns(kind: str, size: int, ending):
    one = make(kind)
    expected = publish_every_second(one, 3, size)
    if ending is not None:
        ending(one)
    consumer = one.peer.consume("q", 100)
    one.run(later(60))
    assert times(one.peer.mailbox.take()) == expected
    one.broker.settle(consumer, 0, 99, Return(delivery_failed=True))
    one.broker.grant(consumer, 100, False)
    one.run(later(90))
    assert times(one.peer.mailbox.take()) == expected, "also when they came back"


@pytest.mark.parametrize("lazy", [True, False])
def test_messages_that_were_paged_out_keep_their_time(lazy: bool):
    one = make("classic", x_queue_mode="lazy" if lazy else "default")
    consumer = one.peer.consume("q")
    expected: Told = []
    for second in range(4):
        expected += publish_every_second(one, 1, first=second)
        if second == 1:
            one.broker.grant(consumer, 6, False)
            one.run(later(second))
    for round_number in range(1, 5):
        one.broker.memory_sampled(100, 1, later(10 * round_number))
        one.run(later(10 * round_number))
    shown = one.shown("q")
    assert (shown["ram_messages"], shown["ram_acks"]) == (0, 0)
    one.broker.grant(consumer, 100, False)
    one.run(later(60))
    assert times(one.peer.mailbox.take()) == expected


def test_a_message_that_passes_straight_to_a_consumer_has_the_time_of_this_turn():
    broker = make_broker()
    broker.declare_queue(queue("q", x_enqueued_time=True), "x")
    peer = Peer(broker)
    peer.consume("q", 10)
    peer.turn()
    peer.publish("q", [b"0"])
    assert times(peer.turn()) == [(b"0", CAME_MS)]
    assert broker.snapshot("queues", "q")[0]["direct"] == 1


def test_consumers_in_turn_get_the_times_of_their_messages():
    one = make("classic")
    expected = publish_every_second(one, 3)
    consumers = [one.peer.consume("q", 10) for _ in range(2)]
    one.run(later(9))
    actions = one.peer.mailbox.take()
    for place, consumer in enumerate(consumers):
        own = [action for action in actions if isinstance(action, Delivered) and action.consumer is consumer]
        assert times(own) == expected[place::2]


def test_queues_that_share_a_message_each_have_their_own_setting_and_its_body_is_stored_once():
    one = KeptBroker(PlainConverter())
    for name, wanted in (("a", True), ("b", False), ("c", True)):
        one.broker.declare_queue(queue(name, x_enqueued_time=wanted), "x")
        one.broker.bind(binding("amq.fanout", name), one.peer.owner)
    one.peer.publish(ExchangeTarget("amq.fanout", ""), [bytes(5000)], DURABLE)
    one.run()
    one.peer.mailbox.take()
    one.restart()
    told = {}
    for name in "abc":
        one.peer.consume(name, 10)
        one.run(later(1))
        (told[name],) = [time for _, time in times(one.peer.mailbox.take())]
    assert told == {"a": CAME_MS, "b": None, "c": CAME_MS}
    assert sum(one.disk.size(path) for path in one.disk.paths if path.endswith(".rdq")) < 2 * 5000


@BOTH_TYPES
def test_the_stored_message_is_the_same_with_it_and_without_it(kind: str):
    entries = {}
    for wanted in (True, False):
        one = KeptBroker(PlainConverter())
        one.broker.declare_queue(queue("q", x_queue_type=kind, x_enqueued_time=wanted), "x")
        one.peer.publish("q", bodies(3), DURABLE)
        one.run()
        entries[wanted] = one.taken("q")
    assert entries[True] == entries[False] == bodies(3)


@BOTH_TYPES
def test_a_dead_letter_came_by_the_same_way_and_has_the_time_of_its_new_queue(kind: str):
    one = make(kind, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    one.broker.declare_queue(queue("dead", x_enqueued_time=True), "x")
    one.broker.declare_queue(queue("silent"), "x")
    publish_every_second(one, 1)
    consumer = one.peer.consume("q", 100)
    one.run(later(5))
    one.broker.settle(consumer, 0, 99, Disposal.REJECTED)
    one.run(later(5))
    one.peer.mailbox.take()
    one.peer.consume("dead", 1)
    one.run(later(6))
    (action,) = [action for action in one.peer.mailbox.take() if isinstance(action, Delivered)]
    assert action.routes == Route("", ("dead",), CAME_MS + 5000)
    assert action.enqueued_ms == CAME_MS + 5000
    one.broker.move_messages("dead", QueueTarget("silent"), None)
    one.run(later(7))
    one.peer.consume("silent", 10)
    one.run(later(7))
    assert [time for _, time in times(one.peer.mailbox.take())] == [None] * 3


def test_a_policy_begins_and_ends_it():
    one = KeptBroker(PlainConverter())
    one.broker.declare_queue(queue("q"), "x")
    consumer = one.peer.consume("q")
    one.peer.publish("q", [b"0"], DURABLE)
    one.run()
    one.broker.policies.set(PolicyDeclaration(name="time", pattern="q", definition={"enqueued-time": True}))
    one.peer.publish("q", [b"1"], DURABLE)
    one.run(later(1))
    one.broker.grant(consumer, 10, False)
    one.run(later(2))
    expected: Told = [(b"0", None), (b"1", CAME_MS + 1000)]
    assert times(one.peer.mailbox.take()) == expected
    one.broker.settle(consumer, 0, 99, Return())
    one.broker.policies.clear("time")
    one.broker.grant(consumer, 10, False)
    one.run(later(3))
    assert times(one.peer.mailbox.take()) == [(b"0", None), (b"1", None)]


def test_a_policy_does_it_for_a_stream():
    one = KeptBroker(PlainConverter())
    one.broker.declare_queue(queue("s", x_queue_type="stream"), "x")
    one.broker.policies.set(PolicyDeclaration(name="time", pattern="s", definition={"enqueued-time": True}))
    one.peer.publish("s", [b"0"], DURABLE)
    one.run(later(1))
    one.peer.mailbox.take()
    one.peer.consume("s", 10, stream=FIRST)
    one.run(later(2))
    assert times(one.peer.mailbox.take()) == [(b"0", CAME_MS + 1000)]


@BOTH_TYPES
@pytest.mark.parametrize("value", [1, "yes", None, []])
def test_the_argument_is_true_or_false(kind: str, value: object):
    with pytest.raises(PreconditionFailed, match=r"x-enqueued-time is .* it must be true or false"):
        check_queue(queue("q", x_queue_type=kind, x_enqueued_time=value))


def test_the_policy_key_is_true_or_false():
    with pytest.raises(Invalid, match="enqueued-time is 'yes', it must be true or false"):
        make_broker().policies.set(PolicyDeclaration(name="t", pattern="q", definition={"enqueued-time": "yes"}))
