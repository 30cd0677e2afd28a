"""How messages came into a queue of another node: exchange and routing keys go with them, both ways."""

import pytest

from amqp10.wire.messaging import Accepted
from amqp10.wire.performatives import Disposition
from amqp10.wire.sections import DELIVERY_ANNOTATIONS, encode_section
from amqp10.wire.types import Symbol
from core.interface import Binding
from tests.kit.apart import Apart
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, body_of, data_message, numbered
from tests.kit.wire091 import Wire091Peer


def routed(a: Apart, *keys: str) -> Wire091Peer:
    """A client of AMQP 0.9.1 at the entry that has published a message with each of these keys, through amq.topic."""
    a.entry.engine.bind(
        Binding(source="amq.topic", destination="far", destination_is_queue=True, binding_key="#", arguments={}), a
    )
    client = Wire091Peer(a.entry)
    client.open(1)
    for number, key in enumerate(keys):
        client.publish(1, [b"%d" % number], exchange="amq.topic", routing_key=key)
    return client


@pytest.mark.parametrize("where", ["entry", "home"])
def test_consumers_see_exchange_and_routing_key(where: str):
    a = Apart()
    routed(a, "one", "one", "two")
    a.home.fill([b"direct"], "far")
    consumer = Wire091Peer(a.entry if where == "entry" else a.home)
    consumer.open(1)
    consumer.consume("far")
    came = [(method.exchange, method.routing_key, body) for method, _, body in consumer.deliveries()]
    assert came == [
        ("amq.topic", "one", b"0"),
        ("amq.topic", "one", b"1"),
        ("amq.topic", "two", b"2"),
        ("", "far", b"direct"),
    ]


def test_a_message_of_amqp_10_with_routes_and_properties():
    a = Apart()
    a.entry.engine.bind(
        Binding(source="amq.topic", destination="far", destination_is_queue=True, binding_key="#", arguments={}), a
    )
    a.peer.attach_sender("/exchanges/amq.topic/some.key")
    a.peer.frames.clear()
    properties = b"\x00\x53\x73\xc0\x05\x01\xa1\x02id"
    payloads = [
        data_message(b"0"),
        properties + data_message(b"1"),
        b"\x00\x53\x70\xc0\x02\x01\x41" + data_message(b"2"),
    ]
    a.peer.send_all([a.peer.transfer_frame(payload=payload) for payload in payloads])
    assert all(isinstance(one.state, Accepted) for one in a.peer.take(Disposition))
    a.peer.attach_receiver(a.address, handle=7)
    a.peer.grant(10, handle=7)
    came = [payload for _, payload in a.peer.deliveries()]
    assert [b"headgate:route" in payload for payload in came] == [False] * 3, "it is for one hop"
    assert [body_of(payload) for payload in came] == numbered(3)
    consumer = Wire091Peer(a.home)
    consumer.open(1)
    a.peer.detach(7)
    consumer.consume("far")
    assert {(method.exchange, method.routing_key) for method, _, _ in consumer.deliveries()} == {
        ("amq.topic", "some.key")
    }


def test_dead_letters_keep_their_routing_key():
    a = Apart(x_dead_letter_exchange="amq.direct", x_max_length=1)
    a.home.queue("dead")
    a.home.engine.bind(
        Binding(source="amq.direct", destination="dead", destination_is_queue=True, binding_key="one", arguments={}), a
    )
    routed(a, "one", "two")
    assert (a.home.ready("far"), a.home.ready("dead")) == (1, 1)


@pytest.mark.parametrize(
    "route",
    [7, [], ["only an exchange"], ["e", 1], ["e", *(["k"] * 258)]],
    ids=["a number", "none", "no key", "int", "many"],
)
def test_a_node_that_says_no_route_is_refused(route: object):
    broker = InProcessBroker(make_settings(cluster={"trust_loopback": True}))
    address = broker.queue()
    peer = WirePeer(broker)
    peer.handshake()
    peer.open(properties={"headgate:node": "a"})
    peer.begin()
    peer.attach_sender(address)
    annotations = encode_section(DELIVERY_ANNOTATIONS, {Symbol("headgate:route"): route})
    peer.transfer(payload=annotations + data_message(b"x"))
    assert peer.detached_with("amqp:decode-error")
    assert broker.ready() == 0


def test_a_client_cannot_choose_its_route():
    broker = InProcessBroker()
    address = broker.queue()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(address)
    annotations = encode_section(DELIVERY_ANNOTATIONS, {Symbol("headgate:route"): ["amq.topic", "key"]})
    peer.transfer(payload=annotations + data_message(b"x"))
    consumer = Wire091Peer(broker)
    consumer.open(1)
    consumer.consume("q")
    ((method, _, _),) = consumer.deliveries()
    assert (method.exchange, method.routing_key) == ("", "q")
