"""What a node gives back to a stream that another node leads comes next, also when more was on its way behind it."""

from random import Random

import pytest

from amqp10.wire.messaging import Source
from amqp10.wire.performatives import Detach
from amqp10.wire.types import Described, Symbol
from core.amqp091.methods import BasicCancel, BasicQos, BasicQosOk
from core.errors import HomeLost
from core.interface import QueueDeclaration
from tests.kit.apart import Apart
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.nodes import NodeSocket
from tests.kit.queue_types import OFFSET
from tests.kit.storage import KeptDefinitions, open_storage
from tests.kit.wire import numbered
from tests.kit.wire091 import Wire091Peer

MOVED = HomeLost("another node leads the queue from now on; attach again")


def two_nodes() -> Apart:
    """Two nodes, of which the home leads the empty stream ``far``."""
    a = Apart(of_entry=open_storage(MemoryDisk(), KeptDefinitions()), x_queue_type="stream")
    a.entry.engine.declare_queue(QueueDeclaration(name="far", durable=True, arguments={"x-queue-type": "stream"}), a)
    return a


def sends_two_runs(a: Apart) -> NodeSocket:
    """The home sends four messages in two runs, which the network holds."""
    socket = a.nodes.sockets[-1]
    socket.hold()
    a.home.fill(numbered(2), "far")
    a.home.fill(numbered(2, first=2), "far")
    assert socket.held is not None
    assert len(socket.held) == 2
    return socket


def moves(a: Apart) -> None:
    """The entry learns that another node leads the queue."""
    assert a.entry.engine.make_anew("far", MOVED, a.entry.now.monotonic)
    a.entry.run()
    a.entry.advance(0.1)


@pytest.mark.parametrize("leader_moves", [True, False])
def test_a_full_channel_of_amqp_091_skips_nothing(leader_moves: bool):
    a = two_nodes()
    client = Wire091Peer(a.entry)
    client.open(1)
    client.call(1, BasicQos(prefetch_count=10), BasicQosOk)
    client.call(1, BasicQos(prefetch_count=4, global_=True), BasicQosOk)
    client.consume("far", consumer_tag="mine", arguments={"x-stream-offset": "first"})
    client.consume("near", consumer_tag="other")
    socket = sends_two_runs(a)
    a.entry.fill(numbered(4), "near")
    assert [method.consumer_tag for method, _, _ in client.deliveries()] == ["other"] * 4
    socket.bring(1)
    assert client.deliveries() == [], "the channel is full"
    client.ack(4, multiple=True)
    socket.bring(1)
    if leader_moves:
        socket.held = None
        moves(a)
    else:
        socket.bring()
    assert client.bodies() == numbered(4)
    client.ack(8, multiple=True)
    assert client.deliveries() == []
    a.home.fill(numbered(2, first=4), "far")
    a.entry.run()
    assert client.bodies() == numbered(2, first=4)
    assert client.methods(BasicCancel) == []


@pytest.mark.parametrize("leader_moves", [True, False])
def test_a_link_that_lowers_its_link_credit_for_a_moment_skips_nothing(leader_moves: bool):
    a = two_nodes()
    wanted = {OFFSET: Described(Symbol(OFFSET), "first")}
    a.peer.attach_receiver(a.address, handle=1, source=Source(address=a.address, filter=wanted))
    a.peer.grant(10)
    socket = sends_two_runs(a)
    a.peer.grant(0)
    socket.bring(1)
    a.peer.grant(10)
    socket.bring(1)
    if leader_moves:
        socket.held = None
        moves(a)
    else:
        socket.bring()
    assert a.peer.bodies() == numbered(4)
    a.home.fill(numbered(2, first=4), "far")
    a.entry.run()
    assert a.peer.bodies() == numbered(2, first=4)
    assert a.peer.take(Detach) == []


# --- walks ---------------------------------------------------------------------------------------------------------


def network_moves(a: Apart, random: Random) -> None:
    """The network begins to hold what the home sends, or brings some of it."""
    socket = a.nodes.sockets[-1]
    if socket.held is None:
        socket.hold()
    elif socket.held:
        socket.bring(random.randint(1, len(socket.held)))


def network_brings(a: Apart) -> None:
    """The network holds nothing any more."""
    if a.nodes.sockets[-1].held is not None:
        a.nodes.sockets[-1].bring()


@pytest.mark.parametrize("seed", range(20))
def test_whatever_link_credit_its_client_gives_a_link_gets_each_message_once_in_order(seed: int):
    random, a = Random(seed), two_nodes()
    wanted = {OFFSET: Described(Symbol(OFFSET), random.choice(["first", "next"]))}
    a.peer.attach_receiver(a.address, handle=1, source=Source(address=a.address, filter=wanted))
    published, got = 0, list[bytes]()
    for _ in range(60):
        match random.randrange(6):
            case 0 | 1:
                more = numbered(random.randint(1, 4), first=published)
                a.home.fill(more, "far")
                published += len(more)
            case 2:
                a.peer.grant(random.choice([0, 0, 1, 3, 10]), drain=random.random() < 0.2)
            case 3 | 4:
                network_moves(a, random)
            case 5 if random.random() < 0.3:
                moves(a)
        got += a.peer.bodies()
        assert got == numbered(len(got))
    network_brings(a)
    a.peer.grant(1000)
    assert got + a.peer.bodies() == numbered(published)
    assert a.peer.take(Detach) == []


@pytest.mark.parametrize("seed", range(20))
def test_however_full_its_channel_is_a_consumer_of_amqp_091_gets_each_message_once_in_order(seed: int):
    random, a = Random(seed), two_nodes()
    client = Wire091Peer(a.entry)
    client.open(1)
    client.call(1, BasicQos(prefetch_count=random.choice([3, 10])), BasicQosOk)
    client.call(1, BasicQos(prefetch_count=random.choice([2, 4, 6]), global_=True), BasicQosOk)
    client.consume("far", consumer_tag="mine", arguments={"x-stream-offset": random.choice(["first", "next"])})
    client.consume("near", consumer_tag="other")
    published, got, tags = 0, list[bytes](), list[int]()

    def take() -> None:
        for method, _, body in client.deliveries():
            tags.append(method.delivery_tag)
            if method.consumer_tag == "mine":
                got.append(body)
        assert got == numbered(len(got))

    for _ in range(80):
        match random.randrange(8):
            case 0 | 1:
                more = numbered(random.randint(1, 4), first=published)
                a.home.fill(more, "far")
                published += len(more)
            case 2:
                a.entry.fill(numbered(random.randint(1, 4)), "near")
            case 3 | 4:
                network_moves(a, random)
            case 5 | 6 if tags:
                count = random.randint(1, len(tags))
                client.ack(tags[count - 1], multiple=True)
                del tags[:count]
            case 7 if random.random() < 0.3:
                moves(a)
        take()
    network_brings(a)
    take()
    while tags:
        client.ack(tags[-1], multiple=True)
        tags.clear()
        take()
    assert got == numbered(published)
    assert client.methods(BasicCancel) == []
