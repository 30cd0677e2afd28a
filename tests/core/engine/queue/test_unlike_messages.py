"""Messages with priorities, times-to-live and durability of their own come together, and go together: a queue treats
them as if they had been published one by one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from core.interface import Action, Delivered, Disposal, Outcome, QueueTarget, StreamOptions, StreamPosition
from core.message import Attributes, Return, Run, each_of
from tests.kit.engine import NOW, Peer, binding, bodies, confirms, later, make_broker, queue
from tests.kit.kept_broker import KeptBroker
from tests.kit.queue_types import for_each_type

FIRST = StreamOptions(position=StreamPosition.FIRST)
UNLIKE = [
    Attributes(durable=True, priority=number % 3, ttl_ms=(None, 60_000)[number % 2]) for number in (0, 1, 1, 2, 5, 3, 4)
]
Told = list[tuple[bytes, Attributes]]


def publish(peer: Peer, attributes: Sequence[Attributes], *, size: int = 0, queue_name: str = "q") -> Told:
    """Publish one run whose messages have these attributes each. Returns what deliveries must show."""
    first = peer.next_confirm
    peer.next_confirm += len(attributes)
    entries = [entry.ljust(size, b".") for entry in bodies(len(attributes), first)]
    target = QueueTarget(queue_name)
    peer.broker.publish(peer.publisher(target), target, Run(first, list(entries), list(attributes)), NOW)
    return list(zip(entries, attributes, strict=True))


def told(actions: Iterable[Action]) -> Told:
    """Each delivered message with its attributes."""
    return [
        pair
        for action in actions
        if isinstance(action, Delivered)
        for pair in zip(action.entries, each_of(action.attributes, len(action.entries)), strict=True)
    ]


def test_unlike_messages_are_one_delivery():
    peer = Peer(make_broker("q"))
    expected = publish(peer, UNLIKE)
    peer.consume("q", 10)
    actions = peer.turn()
    assert told(actions) == expected
    assert sum(isinstance(action, Delivered) for action in actions) == 1
    assert confirms(actions) == [(0, 6, Outcome.ACCEPTED)]


def test_a_delivery_has_lists_of_its_own():
    peer = Peer(make_broker("q"))
    expected = publish(peer, UNLIKE)
    consumer = peer.consume("q", 10)
    for action in peer.turn():
        if isinstance(action, Delivered):
            assert isinstance(action.attributes, list)
            action.attributes.clear()
    peer.broker.settle(consumer, 0, 9, Return())
    peer.broker.grant(consumer, 10, False)
    assert told(peer.turn()) == expected


@for_each_type
@pytest.mark.parametrize("size", [0, 5000])
@pytest.mark.parametrize("ending", [None, KeptBroker.kill, KeptBroker.restart])
def test_attributes_of_messages_that_were_kept(kind: str, size: int, ending):
    one = KeptBroker()
    one.broker.declare_queue(queue("q", x_queue_type=kind), "x")
    attributes = [*UNLIKE, Attributes(), Attributes(priority=3), *UNLIKE]
    expected = publish(one.peer, attributes, size=size)
    one.run()
    assert confirms(one.peer.mailbox.take()) == [(0, len(attributes) - 1, Outcome.ACCEPTED)]
    if ending is not None:
        ending(one)
    consumer = one.peer.consume("q", 99, stream=FIRST)
    one.run()
    kept = [(entry, its) for entry, its in expected if ending is None or kind != "classic" or its.durable]
    assert told(one.peer.mailbox.take()) == kept
    if kind == "stream":
        return
    one.broker.settle(consumer, 1, 99, Return())
    one.broker.grant(consumer, 99, False)
    one.run()
    assert told(one.peer.mailbox.take()) == kept[1:], "also when they came back"
    one.broker.settle(consumer, 0, 999, Disposal.ACCEPTED)
    one.run()
    assert one.shown("q")["messages_unacknowledged"] == 0


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("size", [0, 5000])
def test_attributes_of_messages_paged_out_in_every_place(lazy: bool, size: int):
    one = KeptBroker()
    arguments = {"x_queue_mode": "lazy"} if lazy else {}
    one.broker.declare_queue(queue("q", **arguments), "x")
    expected: Told = []
    consumer = one.peer.consume("q")
    for round_number in range(4):
        expected += publish(one.peer, [*UNLIKE, *(replace(each, durable=False) for each in UNLIKE)], size=size)
        one.run()
        one.broker.memory_sampled(2 * round_number, 1, NOW)
        if round_number == 1:
            one.broker.grant(consumer, 16, False)
            one.run()
    one.run()
    one.broker.grant(consumer, 100, False)
    one.run()
    assert told(one.peer.mailbox.take()) == expected


def test_consumers_in_turn_get_the_attributes_of_their_messages():
    peer = Peer(make_broker("q"))
    consumers = [peer.consume("q", 10) for _ in range(3)]
    expected = publish(peer, UNLIKE)
    actions = peer.turn()
    for place, consumer in enumerate(consumers):
        own = [action for action in actions if isinstance(action, Delivered) and action.consumer is consumer]
        assert told(own) == expected[place::3]


def test_dead_letters_and_moved_messages_keep_their_attributes():
    peer = Peer(make_broker("dead", "end"))
    peer.broker.declare_queue(queue("q", x_dead_letter_exchange="amq.fanout"), "x")
    peer.broker.bind(binding("amq.fanout", "dead"), peer.owner)
    expected = publish(peer, UNLIKE)
    consumer = peer.consume("q", 10)
    peer.turn()
    peer.broker.settle(consumer, 0, 9, Disposal.REJECTED)
    peer.broker.cancel(consumer)
    while peer.broker.turn(NOW) or peer.broker.deadline() <= NOW.monotonic:
        pass
    peer.broker.move_messages("dead", QueueTarget("end"), None)
    while peer.broker.turn(NOW) or peer.broker.deadline() <= NOW.monotonic:
        pass
    peer.mailbox.take()
    peer.consume("end", 10)
    assert told(peer.turn()) == [(entry, replace(its, ttl_ms=None, redelivered=True)) for entry, its in expected]


def test_messages_that_were_moved_after_a_delivery_count_as_redelivered():
    peer = Peer(make_broker("q", "end"))
    expected = publish(peer, UNLIKE)
    consumer = peer.consume("q", 10)
    peer.turn()
    peer.broker.settle(consumer, 0, 9, Return())
    peer.broker.cancel(consumer)
    peer.broker.move_messages("q", QueueTarget("end"), None)
    while peer.broker.turn(NOW) or peer.broker.deadline() <= NOW.monotonic:
        pass
    peer.consume("end", 10)
    actions = peer.turn()
    assert told(actions) == [(entry, replace(its, redelivered=True)) for entry, its in expected]
    assert not any(action.first_acquirer for action in actions if isinstance(action, Delivered))


def test_a_look_at_messages_shows_what_each_of_them_is():
    peer = Peer(make_broker("q"))
    publish(peer, UNLIKE)
    peer.turn()
    rows = peer.broker.peek_queue("q", 7)
    assert [row["priority"] for row in rows] == [each.priority for each in UNLIKE]
    assert [row["expires_at"] is None for row in rows] == [each.ttl_ms is None for each in UNLIKE]


# --- one run is as good as many


@dataclass
class Result:
    """What a queue did with messages."""

    delivered: Told = field(default_factory=list)
    confirmed: list[tuple[int, Outcome]] = field(default_factory=list)
    counts: dict[str, object] = field(default_factory=dict)


COUNTED = ("messages_ready", "messages_unacknowledged", "dropped", "published", "delivered", "refused")
attributes = st.builds(
    Attributes,
    durable=st.booleans(),
    priority=st.integers(0, 9),
    ttl_ms=st.sampled_from([None, None, None, 0, 1000, 1000, 2000]),
)
runs = st.lists(st.lists(attributes, min_size=1, max_size=8), min_size=1, max_size=4)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "x_max_priority": st.integers(1, 9),
        "x_message_ttl": st.sampled_from([0, 1500]),
        "x_max_length": st.integers(1, 6),
    },
)


def carry_out(together: bool, told_of: list[list[Attributes]], steps: list[tuple[int, float]], options: dict) -> Result:
    """Publish the runs, as runs or one message at a time, and consume ``steps``: a grant and the time of it."""
    broker = make_broker()
    broker.declare_queue(queue("q", **options), "x")
    peer, result = Peer(broker), Result()
    consumer = peer.consume("q")

    def turn(seconds: float) -> None:
        now = later(seconds)
        broker.turn(now)
        while broker.deadline() <= now.monotonic:
            broker.turn(now)
        actions = peer.mailbox.take()
        result.delivered += told(actions)
        result.confirmed += [
            (number, outcome) for first, last, outcome in confirms(actions) for number in range(first, last + 1)
        ]

    for place, run in enumerate(told_of):
        for part in [run] if together else [[each] for each in run]:
            publish(peer, part)
        grant, seconds = steps[place % len(steps)]
        broker.grant(consumer, grant, False)
        turn(seconds)
    for grant, seconds in steps:
        broker.grant(consumer, grant, False)
        turn(seconds)
        broker.settle(consumer, 0, 2, Return())
    row = broker.snapshot("queues", "q")[0]
    result.counts = {name: row[name] for name in COUNTED}
    return result


@given(
    told_of=runs,
    steps=st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.0, 1.2, 1.7, 2.5])), min_size=1, max_size=4),
    options=arguments,
)
def test_a_run_of_unlike_messages_fares_like_messages_published_one_by_one(told_of, steps, options):
    steps = sorted(steps, key=lambda step: step[1])
    together, singly = (carry_out(how, told_of, steps, options) for how in (True, False))
    assert together == singly
