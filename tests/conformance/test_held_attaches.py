"""A queue that was declared at one node, and is used there before its home node has read the definition."""

import pytest

from amqp10.frontend.held_attaches import HELD_MAX, HELD_S
from amqp10.wire.messaging import Accepted, Source, Target
from amqp10.wire.performatives import Attach, Disposition, End, Flow
from amqp10.wire.types import ULong
from core.amqp091.methods import BasicGet, BasicGetOk, ConfirmSelect, ConfirmSelectOk, QueuePurge, QueuePurgeOk
from tests.kit.apart import Apart
from tests.kit.link_pair import LinkPair
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, numbered
from tests.kit.wire091 import Wire091Peer

NEW, NEW_ADDRESS = "far-new", "/queues/far-new"


class Behind:
    """The entry has made a change of definitions that its home node has not read."""

    def __init__(self) -> None:
        self.apart = Apart()
        self.peer = self.apart.peer
        self.asked: list[int] = []
        self.apart.home.engine.machinery.order.read_upto = self.asked.append
        self.apart.entry.engine.machinery.order.reached(7)

    def read(self, number: int = 7) -> None:
        """The home node reads changes up to this one, which makes the queue."""
        if number == 7:
            self.apart.home.queue(NEW)
        self.apart.home.engine.machinery.order.reached(number)
        self.apart.entry.run()


def test_a_publisher_and_a_consumer_wait_until_the_home_node_has_read_the_definition():
    behind = Behind()
    behind.peer.attach_sender(NEW_ADDRESS, handle=0)
    behind.peer.attach_receiver(NEW_ADDRESS, handle=1)
    behind.peer.grant(10, handle=1)
    assert behind.asked == [7, 7], "it reads at once"
    assert not behind.peer.take(Flow)
    behind.read()
    assert behind.peer.take(Flow)[0].link_credit > 0
    behind.peer.publish([b"one"])
    (confirm,) = behind.peer.take(Disposition)
    assert isinstance(confirm.state, Accepted)
    assert behind.peer.bodies() == [b"one"]


def test_a_queue_that_is_there_waits_too_because_it_may_have_been_declared_anew():
    behind = Behind()
    behind.peer.attach_sender(behind.apart.address)
    assert not behind.peer.take(Flow)
    behind.read()
    assert behind.peer.expect(Flow).link_credit > 0


def test_changes_before_the_one_that_is_needed_answer_nothing():
    behind = Behind()
    behind.peer.attach_receiver(NEW_ADDRESS)
    for number in (5, 6):
        behind.read(number)
    assert behind.asked == [7], "it reads once for each attach"
    assert not behind.peer.detached_with("amqp:not-found")
    behind.read()
    behind.peer.grant(1)
    behind.apart.home.fill(numbered(1), NEW)
    assert behind.peer.bodies() == numbered(1)


def test_a_queue_that_the_change_does_not_make_is_refused_as_soon_as_it_is_read():
    behind = Behind()
    behind.peer.attach_receiver("/queues/far-away")
    behind.read()
    assert behind.peer.detached_with("amqp:not-found")


def test_a_change_that_cannot_be_read_is_waited_for_so_long_and_no_longer():
    behind = Behind()
    behind.peer.attach_receiver(NEW_ADDRESS, handle=0)
    behind.peer.attach_receiver(behind.apart.address, handle=1)
    behind.apart.home.advance(HELD_S - 0.1)
    behind.apart.entry.run()
    assert not behind.peer.detached_with("amqp:not-found")
    behind.apart.home.advance(0.2)
    behind.apart.entry.run()
    assert behind.peer.detached_with("amqp:not-found")
    behind.peer.grant(1, handle=1)
    behind.apart.home.fill(numbered(1), "far")
    assert behind.peer.bodies() == numbered(1), "what is there is served"


def test_a_client_that_has_gone_meanwhile_leaves_nothing_behind():
    behind = Behind()
    behind.peer.attach_receiver(NEW_ADDRESS)
    behind.peer.disconnect()
    behind.read()
    assert not behind.apart.links_at_home()
    assert behind.apart.home.engine.queue_info(NEW, None).consumers == 0


@pytest.mark.parametrize("whole", [False, True], ids=["the session", "the connection"])
def test_what_ends_with_its_session_or_connection_is_not_answered_later(whole: bool):
    peer = from_node()
    broker = peer.broker
    attach(peer, 0, ULong(7))
    if whole:
        peer.disconnect()
    else:
        peer.send(End())
    broker.queue(NEW)
    broker.engine.machinery.order.reached(7)
    broker.run()
    assert not peer.take(Attach)
    assert broker.engine.queue_info(NEW, None).consumers == 0


def test_a_channel_publishes_gets_and_purges_at_once():
    behind = Behind()
    client = Wire091Peer(behind.apart.entry)
    client.open(1)
    client.call(1, ConfirmSelect(), ConfirmSelectOk)
    client.publish(1, [b"one", b"two"], routing_key="far")
    assert behind.apart.home.ready("far") == 0
    behind.read()
    assert behind.apart.home.ready("far") == 2
    assert client.call(1, BasicGet(queue="far", no_ack=True), BasicGetOk).message_count == 1
    assert client.call(1, QueuePurge(queue="far"), QueuePurgeOk).message_count == 1


def test_a_request_to_the_home_node_waits_also_when_an_earlier_one_has_not():
    behind = Behind()
    behind.read()
    pair = LinkPair(behind.peer, handle=30).attach()
    assert pair.ask("DELETE", f"{NEW_ADDRESS}/messages").status == 200
    behind.apart.entry.engine.machinery.order.reached(8)
    pair.grant(1)
    pair.send("DELETE", "/queues/far-newer/messages")
    assert not pair.take_answers()
    behind.apart.home.queue("far-newer")
    behind.read(8)
    (answer,) = pair.take_answers()
    assert (answer.status, answer.body) == (200, {"message_count": 0})
    assert [row["address"] for row in behind.apart.links_at_home()].count("/management") <= 2, "the others are detached"


# --- at the home node ----------------------------------------------------------------------------------------------


def from_node(**amqp10: object) -> WirePeer:
    """The connection of another node, with a session."""
    peer = WirePeer(InProcessBroker(make_settings(cluster={"trust_loopback": True}, amqp10=amqp10)))
    peer.handshake()
    peer.open(properties={"headgate:node": "a"})
    peer.begin()
    return peer


def attach(peer: WirePeer, handle: int, number: object) -> None:
    properties = {"headgate:definitions": number}
    source = Source(address=NEW_ADDRESS)
    peer.send(
        Attach(name=f"n{handle}", handle=handle, role=True, source=source, target=Target(), properties=properties)
    )


@pytest.mark.parametrize("number", ["7", True, ULong(0), None], ids=["a text", "true", "zero", "null"])
def test_what_is_no_number_holds_nothing(number: object):
    peer = from_node()
    attach(peer, 0, number)
    assert peer.detached_with("amqp:not-found")


def test_a_client_is_not_believed():
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    attach(peer, 0, ULong(7))
    assert peer.detached_with("amqp:not-found")


def test_more_attaches_than_may_wait_are_answered_at_once():
    peer = from_node(handle_max=HELD_MAX)
    for handle in range(HELD_MAX):
        attach(peer, handle, ULong(7))
    assert not peer.take(Attach)
    attach(peer, HELD_MAX, ULong(7))
    assert peer.detached_with("amqp:not-found")
    assert len(peer.take(Attach)) == 1
