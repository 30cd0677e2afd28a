"""What a node gives back to a stream that another node leads comes next, also when more was on its way behind it."""

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
