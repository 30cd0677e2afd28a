"""Every delivery says by which exchange and keys its messages came, however they were kept meanwhile."""

from collections.abc import Iterable, Sequence

import pytest

from core.errors import NotFound
from core.interface import Action, Delivered, Disposal, ExchangeTarget, Outcome, StreamOptions, StreamPosition
from core.message import Attributes, Return, Route, Run, each_of
from core.store.stream_chunk import Chunk, decode, encode
from tests.kit.engine import NOW, Peer, binding, bodies, confirms, make_broker, queue
from tests.kit.kept_broker import KeptBroker
from tests.kit.queue_types import for_each_type

DURABLE = Attributes(durable=True)
DIRECT, TOPIC = Route("amq.direct", ("a",)), Route("amq.topic", ("a.b", "cc"))
FIRST = StreamOptions(position=StreamPosition.FIRST)

Told = list[tuple[bytes, Route | None]]


def routes(actions: Iterable[Action]) -> Told:
    """Each delivered message with its route."""
    return [
        (entry, route)
        for action in actions
        if isinstance(action, Delivered)
        for entry, route in zip(action.entries, each_of(action.routes, len(action.entries)), strict=True)
    ]


def bind(peer: Peer) -> None:
    peer.broker.bind(binding("amq.direct", "q", "a"), peer.owner)
    peer.broker.bind(binding("amq.topic", "q", "a.*"), peer.owner)


def publish(peer: Peer, start: int = 0, size: int = 0) -> Told:
    """Publish two messages each through two exchanges, and two directly to the queue. Returns the route that each
    delivery must show."""
    entries = [entry.ljust(size, b".") for entry in bodies(6, start)]
    peer.publish(ExchangeTarget("amq.direct", "a"), entries[:2], DURABLE)
    peer.publish(ExchangeTarget("amq.topic", "a.b"), entries[2:4], DURABLE, keys=("cc",))
    peer.publish("q", entries[4:], DURABLE)
    return list(zip(entries, [DIRECT, DIRECT, TOPIC, TOPIC, None, None], strict=True))


def test_routes_of_messages_in_memory():
    peer = Peer(make_broker("q"))
    bind(peer)
    expected = publish(peer)
    peer.consume("q", 10)
    assert routes(peer.turn()) == expected


def test_routes_of_messages_that_pass_straight_to_a_consumer():
    peer = Peer(make_broker("q"))
    bind(peer)
    peer.consume("q", 10)
    for target, route in ((ExchangeTarget("amq.direct", "a"), DIRECT), ("q", None)):
        peer.publish(target, bodies(2))
        assert routes(peer.turn()) == [(entry, route) for entry in bodies(2)]


@for_each_type
@pytest.mark.parametrize("size", [0, 5000])
@pytest.mark.parametrize("ending", [None, KeptBroker.kill, KeptBroker.restart])
def test_routes_of_messages_that_were_kept(kind: str, size: int, ending):
    one = KeptBroker()
    one.broker.declare_queue(queue("q", x_queue_type=kind), "x")
    bind(one.peer)
    expected = publish(one.peer, size=size)
    one.run()
    if ending is not None:
        ending(one)
    consumer = one.peer.consume("q", 10, stream=FIRST)
    one.run()
    assert routes(one.peer.mailbox.take()) == expected
    if kind == "stream":
        return
    one.broker.settle(consumer, 0, 9, Return())
    one.broker.grant(consumer, 10, False)
    one.run()
    assert routes(one.peer.mailbox.take()) == expected, "also when they came back"


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("size", [0, 5000])
def test_routes_of_messages_paged_out_in_every_place(lazy: bool, size: int):
    one = KeptBroker()
    arguments = {"x_queue_mode": "lazy"} if lazy else {}
    one.broker.declare_queue(queue("q", **arguments), "x")
    bind(one.peer)
    expected: Told = []
    consumer = one.peer.consume("q")
    for round_number in range(4):
        expected += publish(one.peer, round_number * 6, size)
        one.run()
        one.broker.memory_sampled(2 * round_number, 1, NOW)
        if round_number == 1:
            one.broker.grant(consumer, 6, False)
            one.run()
    one.run()
    one.broker.grant(consumer, 100, False)
    one.run()
    assert routes(one.peer.mailbox.take()) == expected
    one.broker.settle(consumer, 0, 100, Disposal.ACCEPTED)
    one.run()
    assert one.shown("q")["messages_unacknowledged"] == 0


def publish_by_keys(peer: Peer, keys: Sequence[str], *, size: int = 0, attributes: Attributes = DURABLE) -> Told:
    """Publish a run to amq.direct, each message with its own key. Returns the routes that deliveries must show."""
    first = peer.next_confirm
    peer.next_confirm += len(keys)
    entries = [entry.ljust(size, b".") for entry in bodies(len(keys), first)]
    run = Run(first, list(entries), attributes)
    peer.broker.publish_by_keys(peer.publisher(None), "amq.direct", keys, run, NOW)
    return [(entry, Route("amq.direct", (key,))) for entry, key in zip(entries, keys, strict=True)]


KEYS = ["a", "b", "b", "c", "a", "c", "a"]


def bind_keys(peer: Peer, **queues: str) -> None:
    for name, keys in queues.items():
        for key in keys:
            peer.broker.bind(binding("amq.direct", name, key), peer.owner)


@for_each_type
@pytest.mark.parametrize("attributes", [DURABLE, Attributes()])
@pytest.mark.parametrize("size", [0, 5000])
@pytest.mark.parametrize("ending", [None, KeptBroker.kill, KeptBroker.restart])
def test_a_run_with_a_key_for_each_message(kind: str, attributes: Attributes, size: int, ending):
    one = KeptBroker()
    one.broker.declare_queue(queue("q", x_queue_type=kind), "x")
    bind_keys(one.peer, q="abc")
    expected = publish_by_keys(one.peer, KEYS, size=size, attributes=attributes)
    one.run()
    assert confirms(one.peer.mailbox.take()) == [(0, 6, Outcome.ACCEPTED)]
    if ending is not None:
        ending(one)
    consumer = one.peer.consume("q", 10, stream=FIRST)
    one.run()
    kept = expected if ending is None or kind != "classic" or attributes.durable else []
    assert routes(one.peer.mailbox.take()) == kept
    if kind == "stream":
        return
    one.broker.settle(consumer, 1, 9, Return())
    one.broker.grant(consumer, 10, False)
    one.run()
    assert routes(one.peer.mailbox.take()) == kept[1:], "also when they came back"


def test_a_run_with_keys_is_cut_where_the_queues_change():
    peer = Peer(make_broker("q", "other"))
    bind_keys(peer, q="ab", other="bc")
    expected = publish_by_keys(peer, [*KEYS, "nowhere"])
    first, second = peer.consume("q", 10), peer.consume("other", 10)
    actions = peer.turn()
    told = [
        number
        for low, high, outcome in confirms(actions)
        for number in [*range(low, high + 1)]
        if outcome is Outcome.ACCEPTED
    ]
    assert sorted(told) == list(range(7))
    assert (7, 7, Outcome.RELEASED) in confirms(actions)
    for consumer, keys in ((first, "ab"), (second, "bc")):
        own = [action for action in actions if isinstance(action, Delivered) and action.consumer is consumer]
        assert routes(own) == [(entry, route) for entry, route in expected if route and route.routing_keys[0] in keys]


def test_a_run_with_keys_through_a_headers_exchange_is_routed_message_by_message():
    peer = Peer(make_broker("q"))
    peer.broker.bind(binding("amq.headers", "q", x_match="all"), peer.owner)
    run = Run(0, bodies(3), DURABLE)
    peer.broker.publish_by_keys(peer.publisher(None), "amq.headers", ["a", "b", "a"], run, NOW)
    peer.consume("q", 10)
    told = [(entry, Route("amq.headers", (key,))) for entry, key in zip(bodies(3), "aba", strict=True)]
    assert routes(peer.turn()) == told


def test_an_exchange_that_is_not_there_takes_no_message_of_a_run_with_keys():
    peer = Peer(make_broker("q"))
    with pytest.raises(NotFound):
        peer.broker.publish_by_keys(peer.publisher(None), "nowhere", ["a"], Run(0, bodies(1), DURABLE), NOW)
    assert peer.turn() == []


def test_consumers_in_turn_get_the_routes_of_their_messages():
    peer = Peer(make_broker("q"))
    bind_keys(peer, q="abc")
    consumers = [peer.consume("q", 10) for _ in range(3)]
    expected = publish_by_keys(peer, KEYS)
    actions = peer.turn()
    for place, consumer in enumerate(consumers):
        own = [action for action in actions if isinstance(action, Delivered) and action.consumer is consumer]
        assert routes(own) == expected[place::3]


def test_dead_letters_of_unlike_messages_keep_their_keys():
    peer = Peer(make_broker())
    peer.broker.declare_queue(queue("q", x_dead_letter_exchange="amq.direct"), "x")
    peer.broker.declare_queue(queue("dead"), "x")
    bind_keys(peer, q="abc")
    expected = publish_by_keys(peer, KEYS)
    consumer = peer.consume("q", 10)
    peer.turn()
    bind_keys(peer, dead="abc")
    peer.broker.settle(consumer, 0, 9, Disposal.REJECTED)
    peer.broker.cancel(consumer)
    peer.turn()
    peer.consume("dead", 10)
    assert routes(peer.turn()) == expected


def test_a_chunk_without_a_route_is_as_it_was_before_routes_were_kept():
    old = bytes.fromhex("01 00 01 04 00000000 0700000000000000 0900000000000000 02000000 00000000 01000000 02000000")
    chunk = Chunk(7, [b"a", b"bc"], DURABLE, stamp_ms=9)
    assert b"".join(encode(chunk)) == old + b"abc"
    again = decode(old + b"abc")
    assert (again.first, again.entries, again.attributes, again.route) == (7, [b"a", b"bc"], DURABLE, None)


def test_messages_of_a_stream_with_different_routes_share_no_chunk():
    one = KeptBroker()
    one.broker.declare_queue(queue("q", x_queue_type="stream"), "x")
    bind(one.peer)
    expected = [told for start in (0, 6, 12) for told in publish(one.peer, start)]
    reader = one.peer.consume("q", 100, stream=FIRST)
    one.run()
    delivered = [action for action in one.peer.mailbox.take() if isinstance(action, Delivered)]
    assert routes(delivered) == expected
    assert [list(action.sequences or ()) for action in delivered] == [[n, n + 1] for n in range(0, 18, 2)]
    assert delivered[-1].consumer is reader
