"""Publishing and consuming at one node, with the queue on another."""

from amqp10.wire.performatives import Flow
from tests.kit.nodes import Joined
from tests.kit.wire import InProcessBroker


def test_publish_and_consume():
    home = InProcessBroker(durable=True)
    address = home.queue()
    joined = Joined(home)
    peer = joined.entry.connect()
    peer.begin()
    peer.attach_sender(address)
    flow = peer.expect(Flow)
    assert flow.link_credit > 0
    peer.publish([b"one", b"two"])
    assert home.ready() == 2
    print(peer.frames)
    peer.attach_receiver(address, handle=1)
    peer.grant(10, handle=1)
    print(peer.frames)
