"""Publishing through the front end: how runs are gathered, what is read of a message, and what its publisher is
told."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.wire.codec.encode import encode_value
from amqp10.wire.framing import encode_frame
from amqp10.wire.messaging import ACCEPTED, RELEASED, Rejected, Source
from amqp10.wire.performatives import Detach, Disposition, encode_performative
from amqp10.wire.sections import (
    APPLICATION_PROPERTIES,
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
    Header,
    Properties,
    encode_header,
    encode_properties,
    encode_section,
)
from amqp10.wire.types import Symbol
from core.config.engine import EngineSettings, WorkSettings
from core.config.settings import Settings
from core.counters.message_sizes import MessageSizes
from core.interface import Binding, ExchangeDeclaration, ExchangeType
from core.work import AMPLE
from tests.kit.client_frames import DURABLE, EMPTY_HEADER
from tests.kit.wire import InProcessBroker, WirePeer, data_message, numbered

HOP = encode_section(DELIVERY_ANNOTATIONS, {Symbol("x-hop"): 1})
BAD_ANNOTATIONS = encode_section(MESSAGE_ANNOTATIONS, {Symbol("reserved"): 1})


def publisher(address: str | None = "/queues/q", **attach_fields: object) -> tuple[InProcessBroker, WirePeer]:
    """A client that publishes at handle 0, and a queue q."""
    broker = InProcessBroker()
    broker.queue()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(address, **attach_fields)
    peer.frames.clear()
    return broker, peer


def to(address: str) -> bytes:
    return encode_properties(Properties(to=address))


def copies(*keys: object) -> bytes:
    return encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-cc"): list(keys)})


def kept(broker: InProcessBroker, name: str = "q") -> list[bytes]:
    """The entries of the queue, as the engine keeps them."""
    reader = broker.connect()
    reader.begin()
    reader.attach_receiver(f"/queues/{name}")
    reader.grant(100)
    link = reader.link(1)
    assert link.reference is not None
    return [payload for _, payload in reader.deliveries()]


def outcomes(peer: WirePeer) -> list[object]:
    """The state of each delivery that was settled, in order."""
    return [
        disposition.state
        for disposition in peer.take(Disposition)
        for _ in range(disposition.first, (disposition.last or disposition.first) + 1)
    ]


def conditions(peer: WirePeer) -> list[str | None]:
    """The condition of each delivery that was rejected, and None for the others."""
    return [
        state.error.condition if isinstance(state, Rejected) and state.error is not None else None
        for state in outcomes(peer)
    ]


def test_delivery_annotations_do_not_go_on():
    broker, peer = publisher()
    body = data_message(b"x")
    for payload in (body, EMPTY_HEADER + body, HOP + body, DURABLE + HOP + body):
        peer.transfer(payload=payload)
    assert outcomes(peer) == [ACCEPTED] * 4
    assert [payload.endswith(body) and b"x-hop" not in payload for payload in kept(broker)] == [True] * 4


def test_neighbours_that_are_alike_are_published_as_one_run():
    """They are also confirmed with one disposition. Messages with another header or other keys are another run."""
    broker, peer = publisher()
    body = HOP + data_message(b"x")
    peer.send_all(
        [
            peer.transfer_frame(payload=payload)
            for payload in (body, body, DURABLE + body, HOP + copies() + data_message(b"x"))
        ]
    )
    assert [(each.first, each.last) for each in peer.take(Disposition)] == [(0, 3)]
    assert broker.ready() == 4


def test_copies_for_more_keys():
    broker = InProcessBroker()
    for name in ("a", "b"):
        broker.queue(name)
    exchange = ExchangeDeclaration(name="e", type=ExchangeType.DIRECT, arguments={})
    broker.engine.declare_exchange(exchange)
    for name in ("a", "b"):
        binding = Binding(source="e", destination=name, destination_is_queue=True, binding_key=name, arguments={})
        broker.engine.bind(binding, None)
    peer = broker.connect()
    peer.begin()
    peer.attach_sender("/exchanges/e/a")
    peer.frames.clear()
    peer.transfer(payload=copies("b") + data_message(b"x"))
    peer.transfer(payload=copies() + data_message(b"y"))
    assert outcomes(peer) == [ACCEPTED, ACCEPTED]
    assert (broker.ready("a"), broker.ready("b")) == (2, 1)


@pytest.mark.parametrize("keys", [encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-cc"): "b"}), copies("b", 7)])
def test_invalid_keys_for_copies_detach_the_link(keys):
    broker, peer = publisher()
    peer.transfer(payload=data_message(b"before"))
    peer.transfer(payload=keys + data_message(b"x"))
    assert peer.detached_with("amqp:invalid-field")
    assert broker.ready() == 1


@pytest.mark.parametrize(
    ("payload", "condition"),
    [
        (b"", "amqp:decode-error"),
        (b"\x00\x53\x75", "amqp:decode-error"),
        (data_message(b"x") + EMPTY_HEADER, "amqp:decode-error"),
        (b"\x00\x53\x70\xc0\x03\x01\xa1\x00" + data_message(b"x"), "amqp:decode-error"),
        (BAD_ANNOTATIONS + data_message(b"x"), "amqp:decode-error"),
        (encode_properties(Properties(user_id=b"somebody")) + data_message(b"x"), "amqp:unauthorized-access"),
    ],
)
def test_messages_that_detach_the_link(payload, condition):
    """Messages before it in the same run are published."""
    broker, peer = publisher()
    peer.send_all([peer.transfer_frame(payload=HOP + data_message(b"x")), peer.transfer_frame(payload=payload)])
    assert peer.detached_with(condition)
    assert broker.ready() == 1


def test_the_users_own_name_may_be_in_a_message():
    broker, peer = publisher()
    peer.transfer(payload=encode_properties(Properties(user_id=b"guest")) + data_message(b"x"))
    assert outcomes(peer) == [ACCEPTED]
    assert broker.ready() == 1


def test_every_message_of_the_anonymous_terminus_says_where_it_goes():
    broker, peer = publisher(None)
    peer.send_all(
        [
            peer.transfer_frame(payload=payload)
            for payload in (
                to("/queues/q") + data_message(b"0"),
                to("/queues/q") + data_message(b"1"),
                to("/queues/none") + data_message(b"2"),
                to("nowhere") + data_message(b"3"),
                encode_properties(Properties(subject="s")) + data_message(b"4"),
                copies() + data_message(b"5"),
                data_message(b"6"),
                copies(7) + to("/queues/q") + data_message(b"7"),
                to("/exchanges/amq.direct/unbound") + data_message(b"8"),
                to("/queues/q") + data_message(b"9"),
            )
        ]
    )
    states = outcomes(peer)
    assert [type(state) for state in states].count(Rejected) == 6
    assert states.count(RELEASED) == 1
    assert states.count(ACCEPTED) == 3
    assert broker.ready() == 3
    assert peer.link(0).credit.unconfirmed == 0


def test_messages_that_differ_in_their_routing_key_only_keep_their_order_and_their_routes():
    broker, peer = publisher(None)
    for source, key in (("amq.direct", "a"), ("amq.direct", "b%"), ("amq.topic", "#")):
        binding = Binding(source=source, destination="q", destination_is_queue=True, binding_key=key, arguments={})
        broker.engine.bind(binding, None)
    broker.queue("other")
    addresses = [
        *("/exchanges/amq.direct/a", "/exchanges/amq.direct/b%25", "/exchanges/amq.direct/a"),
        *("/exchanges/amq.direct/a", "/exchanges/amq.direct/unbound", "/exchanges/amq.topic/a"),
        *("/exchanges/amq.topic", "/queues/q", "/exchanges/amq.direct/b%25", "/exchanges/missing/a"),
        *("/exchanges/missing/b", "/queues/other", "/exchanges/amq.topic/z"),
    ]
    payloads = [to(address) + data_message(b"%d" % place) for place, address in enumerate(addresses)]
    payloads.append(EMPTY_HEADER + copies("other") + to("/exchanges/amq.direct/a") + data_message(b"13"))
    payloads.append(DURABLE + to("/exchanges/amq.direct/a") + data_message(b"14"))
    peer.send_all([peer.transfer_frame(payload=payload) for payload in payloads])
    told = outcomes(peer)
    assert (told.count(ACCEPTED), told.count(RELEASED), [type(state) for state in told].count(Rejected)) == (12, 1, 2)
    assert [entry[-2:].lstrip(b"\x01") for entry in kept(broker)] == [
        *(b"0", b"1", b"2", b"3", b"5", b"6", b"7", b"8", b"12", b"13", b"14")
    ]
    assert [entry[-2:].lstrip(b"\x01") for entry in kept(broker, "other")] == [b"11"]


def test_why_a_message_of_the_anonymous_terminus_is_rejected():
    _, peer = publisher(None)
    for payload in (to("/queues/none"), to("nowhere"), b"", copies(7) + to("/queues/q")):
        peer.transfer(payload=payload + data_message(b"x"))
    assert conditions(peer) == [
        "amqp:not-found",
        "amqp:precondition-failed",
        "amqp:precondition-failed",
        "amqp:invalid-field",
    ]


@pytest.mark.parametrize(
    ("source", "settled", "detaches"),
    [
        (Source(), False, False),
        (Source(outcomes=("amqp:rejected:list",)), False, False),
        (Source(outcomes=("amqp:accepted:list",)), False, True),
        (Source(), True, True),
        (None, False, False),
    ],
)
def test_a_message_that_cannot_be_rejected_detaches_the_link(source, settled, detaches):
    """There is no other way to tell the publisher. The error of the detach names the delivery."""
    _, peer = publisher(None, source=source)
    peer.transfer(payload=to("/queues/none") + data_message(b"x"), settled=settled)
    if not detaches:
        assert conditions(peer) == ["amqp:not-found"]
        return
    assert peer.detached_with("amqp:not-found")
    assert not peer.take(Disposition)


def test_a_message_without_a_queue_is_released():
    _, peer = publisher("/exchanges/amq.direct/unbound")
    for body in numbered(3):
        peer.transfer(body)
    assert outcomes(peer) == [RELEASED] * 3


def test_a_queue_that_goes_takes_its_unconfirmed_messages_along():
    broker, peer = publisher()
    broker.stall()
    peer.transfer(b"x")
    peer.transfer(b"y", settled=True)
    broker.engine.delete_queue("q", None)
    broker.run()
    assert outcomes(peer) == [RELEASED]
    assert peer.detached_with("amqp:resource-deleted")


def test_the_value_of_an_entry_is_kept_byte_for_byte():
    body = b"\x00\x80" + (0x77).to_bytes(8) + encode_value("spelt out")
    broker, peer = publisher()
    peer.transfer(payload=EMPTY_HEADER + body)
    (payload,) = kept(broker)
    assert payload.endswith(body)


@pytest.mark.parametrize("header", [b"", EMPTY_HEADER, DURABLE])
@pytest.mark.parametrize(
    "sizes",
    [[1], [90] * 50, [95, 5000] * 20, [10] * 150 + [200], [10] * 20 + [20_000] + [10] * 20, [150, 10, 290, 150]],
)
def test_the_size_of_each_message_is_counted(sizes: list[int], header: bytes):
    broker, peer = publisher()
    messages = [header + data_message(bytes(size)) for size in sizes]
    frames = [encode_frame(0, encode_performative(peer.transfer_frame(payload=one)[0]), one) for one in messages]
    peer.send_bytes(b"".join(frames))
    counted, expected = broker.traffic["amqp10"].sizes, MessageSizes()
    expected.add(messages)
    assert (counted.counts, counted.total) == (expected.counts, expected.total)


# --- messages that are not alike ----------------------------------------------------------------------------------

headers = st.sampled_from(
    [b"", b"", EMPTY_HEADER, DURABLE, *(encode_header(Header(priority=n, ttl=n * 100_000 or None)) for n in range(4))]
)
properties = st.sampled_from(
    [
        b"",
        *(encode_properties(Properties(message_id=f"id-{n}", content_type="text/plain")) for n in range(3)),
        encode_properties(Properties(message_id="ü" * 3, user_id=b"guest", creation_time=1)),
        encode_properties(Properties(subject="x" * 100)),
    ]
)
places = st.sampled_from(
    [
        *(
            "/queues/q",
            "/queues/other",
            "/queues/none",
            "nowhere",
            "/exchanges/amq.direct/a",
            "/exchanges/amq.direct/b",
        ),
        *("/exchanges/amq.topic/a", "/exchanges/amq.headers", "/exchanges/amq.direct/unbound", "/exchanges/none/a"),
    ]
).map(to)
annotations = st.sampled_from([b"", b"", b"", HOP, copies(), copies("other"), encode_section(0x72, {Symbol("x-a"): 1})])
more = st.sampled_from(
    [b"", encode_section(APPLICATION_PROPERTIES, {"a": 1}), encode_section(APPLICATION_PROPERTIES, {"b": "x" * 300})]
)
faults = st.sampled_from(
    [
        *(b"", b"\x00\x53\x75", data_message(b"x") + EMPTY_HEADER, BAD_ANNOTATIONS + data_message(b"x")),
        encode_properties(Properties(user_id=b"somebody")) + data_message(b"x"),
        b"\x00\x53\x73\xc0\x04\x01\xa1\x01\xff" + data_message(b"x"),
        b"\x00\x53\x70\xc0\x03\x01\xa1\x00" + data_message(b"x"),
        copies(7) + data_message(b"x"),
    ]
)


def some_messages(properties_of: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[bytes]]:
    """Messages with bodies that can be told apart, of which one may be wrong."""
    whole = st.tuples(headers, annotations, properties_of, more).map(b"".join)
    rights = st.lists(st.one_of(whole, whole, st.just(b"")), min_size=1, max_size=30).map(
        lambda starts: [start + data_message(b"%d" % place) for place, start in enumerate(starts)]
    )
    return st.tuples(rights, st.none() | st.tuples(st.integers(0, 30), faults)).map(
        lambda pair: pair[0] if pair[1] is None else [*pair[0][: pair[1][0]], pair[1][1], *pair[0][pair[1][0] :]]
    )


def told_of(peer: WirePeer) -> list[tuple[object, ...]]:
    """What a publisher is told of each delivery, by delivery-id; or, when its link was detached, with what."""
    if detaches := peer.take(Detach):
        return [(each.error.condition, each.error.description) for each in detaches if each.error is not None]
    return sorted(
        (delivery_id, type(each.state).__name__, getattr(getattr(each.state, "error", None), "description", ""))
        for each in peer.take(Disposition)
        for delivery_id in range(each.first, (each.first if each.last is None else each.last) + 1)
    )


def published(address: str | None, messages: list[bytes], settings: Settings, pieces: list[int] | None) -> object:
    """What becomes of messages that are sent one by one, or in pieces of so many bytes."""
    broker = InProcessBroker(settings, one_work=True)
    for name in ("q", "other"):
        broker.queue(name)
    for source, key in (("amq.direct", "a"), ("amq.direct", "b"), ("amq.topic", "#"), ("amq.headers", "")):
        binding = Binding(source=source, destination="q", destination_is_queue=True, binding_key=key, arguments={})
        broker.engine.bind(binding, None)
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(address)
    frames = [
        encode_frame(0, encode_performative(transfer), payload)
        for transfer, payload in (peer.transfer_frame(payload=message) for message in messages)
    ]
    if pieces is None:
        for frame in frames:
            peer.send_bytes(frame)
    else:
        data, at = b"".join(frames), 0
        for piece in pieces:
            peer.send_bytes(data[at : at + piece])
            at += piece
        peer.send_bytes(data[at:])
    counts = broker.traffic["amqp10"]
    told = told_of(peer)
    assert sum(counts.sizes.counts) == counts.messages_received
    return told, kept(broker), kept(broker, "other"), counts.messages_received == len(told) or len(told) == 1


@settings(max_examples=60)
@given(
    address=st.sampled_from(["/queues/q", "/exchanges/amq.direct/a", "/exchanges/amq.headers", None]),
    data=st.data(),
    work=st.sampled_from([100, 10**6]),
)
def test_messages_that_come_together_fare_as_if_each_came_alone(address, data, work):
    """In any pieces, and however short a turn is: the same answers, the same errors, the same messages in order."""
    messages = data.draw(some_messages(places | places | properties if address is None else properties))
    pieces = data.draw(st.lists(st.integers(1, 3000), max_size=4))
    short = Settings(engine=EngineSettings(work_per_turn=WorkSettings(peer=work)))
    assert published(address, messages, short, pieces) == published(address, messages, Settings(), None)


@pytest.mark.parametrize(
    ("address", "payload"),
    [
        (None, to("/exchanges/amq.headers")),
        ("/exchanges/amq.headers", b""),
        ("/exchanges/amq.headers", encode_properties(Properties(message_id="1"))),
        ("/queues/q", encode_section(MESSAGE_ANNOTATIONS, {Symbol(f"x-{n}"): [n] for n in range(1500)})),
    ],
)
def test_messages_that_cost_much_wait_for_the_next_turn(address, payload):
    """A headers exchange searches the route of each message; large annotations are decoded."""
    broker = InProcessBroker(Settings(engine=EngineSettings(work_per_turn=WorkSettings(peer=100))), one_work=True)
    broker.queue()
    for number in range(200):
        binding = Binding(
            source="amq.headers",
            destination="q",
            destination_is_queue=True,
            binding_key=str(number),
            arguments={"x-match": "any"} | {"number": number},
        )
        broker.engine.bind(binding, None)
    everything = Binding(source="amq.headers", destination="q", destination_is_queue=True, binding_key="", arguments={})
    broker.engine.bind(everything, None)
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(address)
    peer.frames.clear()
    frames = [peer.transfer_frame(payload=payload + data_message(b"%d" % number)) for number in range(50)]
    connection = peer.front_end.connection
    data = b"".join(encode_frame(0, encode_performative(transfer), message) for transfer, message in frames)
    peer.front_end.receive_data(data, broker.now)
    broker.engine.turn(broker.now)
    first = broker.ready()
    assert connection.input_left
    assert 0 < first < 50
    peer.front_end.take_actions(broker.now)
    broker.engine.turn(broker.now)
    assert first < broker.ready() < 50
    broker.touch(peer)
    broker.run()
    assert broker.ready() == 50
    assert outcomes(peer) == [ACCEPTED] * 50
    assert [entry[-2:].lstrip(b"\x01\x02") for entry in kept(broker)] == numbered(50)


def test_without_an_allowance_bytes_are_kept_for_the_next_turn():
    broker = InProcessBroker(one_work=True)
    broker.queue()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender("/queues/q")
    transfer, message = peer.transfer_frame(b"x")
    work = broker.engine.work
    before, work.allowance = work.spent, 0
    peer.front_end.receive_data(encode_frame(0, encode_performative(transfer), message), broker.now)
    broker.engine.turn(broker.now)
    assert (work.spent, broker.ready(), peer.front_end.reading) == (before, 0, False)
    work.allowance = AMPLE
    broker.touch(peer)
    broker.run()
    assert broker.ready() == 1


def test_deliveries_left_over_are_published_although_the_peer_has_gone():
    broker = InProcessBroker(Settings(engine=EngineSettings(work_per_turn=WorkSettings(peer=100))), one_work=True)
    broker.queue()
    everything = Binding(source="amq.headers", destination="q", destination_is_queue=True, binding_key="", arguments={})
    broker.engine.bind(everything, None)
    peer = broker.connect()
    peer.begin()
    peer.attach_sender("/exchanges/amq.headers")
    frames = [peer.transfer_frame(body) for body in numbered(50)]
    data = b"".join(encode_frame(0, encode_performative(transfer), message) for transfer, message in frames)
    peer.front_end.receive_data(data, broker.now)
    while peer.front_end.connection_lost(broker.now):
        broker.engine.turn(broker.now)
    broker.run()
    assert broker.ready() == 50
