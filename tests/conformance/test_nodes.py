"""Clients at one node of a cluster, with queues on another: what the cases of link credit do not show."""

import pytest

from amqp10.wire.messaging import ACCEPTED, Accepted, Released
from amqp10.wire.performatives import Detach, Disposition, Flow, Open
from core.amqp091.methods import BasicAck, BasicGet, ConfirmSelect, ConfirmSelectOk
from core.interface import Binding, QueueDeclaration
from tests.kit.nodes import Joined
from tests.kit.wire import InProcessBroker, WirePeer, numbered
from tests.kit.wire091 import Wire091Peer


class Apart:
    """The queue ``far`` on the home node, the queue ``near`` on the entry, and a client at the entry."""

    def __init__(self, **arguments: object) -> None:
        self.home = InProcessBroker(durable=True)
        self.address = self.home.queue("far", **arguments)
        self.nodes = Joined(self.home, "far*")
        self.entry = self.nodes.entry
        self.entry.engine.declare_queue(QueueDeclaration(name="near", durable=False, arguments={}), self)
        self.peer = self.client()

    def client(self) -> WirePeer:
        """One more client at the entry, with a session."""
        peer = self.entry.connect()
        peer.begin()
        return peer

    def lose(self) -> None:
        """The connection between the nodes is lost."""
        self.nodes.sockets[-1].disconnect()
        self.entry.run()


def test_the_home_node_keeps_and_confirms():
    a = Apart()
    a.peer.attach_sender(a.address)
    assert a.peer.expect(Flow).link_credit > 0
    a.peer.publish([b"one", b"two"])
    assert a.home.ready("far") == 2
    (confirm,) = a.peer.take(Disposition)
    assert (confirm.first, confirm.last, confirm.settled) == (0, 1, True)
    assert isinstance(confirm.state, Accepted)


def test_nothing_is_fetched_without_link_credit():
    a = Apart()
    a.home.fill(numbered(10), "far")
    a.peer.attach_receiver(a.address)
    assert a.home.unacknowledged("far") == 0
    a.peer.grant(3)
    assert a.peer.bodies() == numbered(3)
    assert a.home.unacknowledged("far") == 3
    a.peer.dispose(0, 2, state=ACCEPTED)
    assert (a.home.ready("far"), a.home.unacknowledged("far")) == (7, 0)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_drain_ends_only_with_that_of_the_home_node_and_link_credit_works_after_it(kind: str):
    a = Apart(x_queue_type=kind)
    a.peer.attach_receiver(a.address)
    for round_ in range(3):
        a.home.fill(numbered(2), "far")
        a.peer.grant(10, drain=True)
        assert a.peer.bodies() == numbered(2)
        flow = a.peer.expect(Flow)
        assert (flow.link_credit, flow.delivery_count) == (0, 10 * (round_ + 1) + round_)
        a.peer.grant(1)
        a.home.fill([b"later"], "far")
        assert a.peer.bodies() == [b"later"]
        assert a.peer.nothing_came()


def test_an_echo_has_what_the_home_node_says_is_available():
    a = Apart()
    a.home.fill(numbered(7), "far")
    a.peer.attach_receiver(a.address)
    a.peer.grant(2, echo=True)
    assert a.peer.bodies() == numbered(2)
    assert a.peer.expect(Flow).available == 5


def test_the_anonymous_terminus_reaches_queues_of_both_nodes():
    a = Apart()
    a.peer.attach_sender(None)
    a.peer.frames.clear()
    for queue in (b"far", b"near"):
        to = b"/queues/" + queue
        properties = b"\x00\x53\x73\xc0" + bytes([len(to) + 5]) + b"\x03\x40\x40\xa1" + bytes([len(to)]) + to
        a.peer.transfer(payload=properties + b"\x00\x53\x75\xa0\x01x")
    assert (a.home.ready("far"), a.entry.ready("near")) == (1, 1)
    assert all(isinstance(one.state, Accepted) for one in a.peer.take(Disposition))


def test_a_message_for_queues_of_both_nodes_has_one_answer():
    a = Apart()
    for queue in ("far", "near"):
        a.entry.engine.bind(
            Binding(source="amq.fanout", destination=queue, destination_is_queue=True, binding_key="", arguments={}), a
        )
    a.peer.attach_sender("/exchanges/amq.fanout")
    a.peer.frames.clear()
    a.home.stall("far")
    a.peer.publish(numbered(20))
    assert a.entry.ready("near") == 20
    assert not a.peer.take(Disposition), "not before the home node has them too"
    a.home.recover("far")
    assert a.home.ready("far") == 20
    (answer,) = a.peer.take(Disposition)
    assert (answer.first, answer.last) == (0, 19)


def test_a_channel_publishes_gets_and_consumes():
    a = Apart()
    client = Wire091Peer(a.entry)
    client.open(1)
    client.call(1, ConfirmSelect(), ConfirmSelectOk)
    client.publish(1, numbered(3), routing_key="far")
    assert a.home.ready("far") == 3
    assert client.methods(BasicAck)[-1].delivery_tag == 3
    client.send(1, BasicGet(queue="far"))
    got = client.got()
    assert got is not None
    assert got[2] == b"0"
    client.consume("far")
    assert client.bodies() == numbered(2, 1)
    client.ack(3, multiple=True)
    assert (a.home.ready("far"), a.home.unacknowledged("far")) == (0, 0)


def test_a_lost_connection_detaches_links_to_the_other_node_only():
    a = Apart()
    a.home.stall("far")
    a.peer.attach_sender(a.address, handle=0)
    a.peer.attach_sender("/queues/near", handle=1)
    a.peer.attach_receiver(a.address, handle=2)
    a.peer.frames.clear()
    a.peer.publish([b"in doubt"])
    assert not a.peer.take(Disposition)
    a.lose()
    (outcome,) = a.peer.take(Disposition)
    assert isinstance(outcome.state, Released)
    detaches = a.peer.take(Detach)
    assert sorted(one.handle for one in detaches) == [0, 2]
    assert {one.error.condition for one in detaches if one.error} == {"amqp:link:detach-forced"}
    assert all("node b" in (one.error.description or "") for one in detaches if one.error)
    a.peer.publish([b"near"], handle=1)
    assert a.entry.ready("near") == 1


def test_links_can_be_attached_again_when_the_node_is_back():
    a = Apart()
    a.peer.attach_receiver(a.address, handle=1)
    a.lose()
    a.peer.take(Detach)
    assert a.nodes.calls, "the entry wants the connection back"
    a.peer.attach_receiver(a.address, handle=2, name="too early")
    assert a.peer.detached_with("amqp:not-found")
    a.nodes.call()
    a.home.fill([b"x"], "far")
    a.peer.attach_receiver(a.address, handle=3, name="again")
    a.peer.grant(1, handle=3)
    assert a.peer.bodies() == [b"x"]


def test_a_queue_that_its_home_node_does_not_have():
    a = Apart()
    a.peer.attach_receiver("/queues/far-away")
    assert a.peer.detached_with("amqp:not-found")


def test_an_alarm_of_the_home_node_takes_link_credit_and_no_window():
    a = Apart()
    a.peer.attach_sender(a.address, handle=0)
    a.peer.attach_sender("/queues/near", handle=1)
    a.peer.frames.clear()
    a.home.raise_alarm("memory")
    flows = a.peer.take(Flow)
    assert flows[-1].handle == 0
    assert flows[-1].link_credit == 0
    assert all(flow.incoming_window for flow in flows)
    a.entry.advance(1.0)
    told = [flow.properties for flow in a.peer.take(Flow) if flow.properties]
    assert [str(one["headgate:reason"]) for one in told if "headgate:reason" in one]
    (stall,) = a.entry.stalls.current.values()
    assert (stall.labels.reason, stall.culprit) == ("memory", "alarm memory@b")
    a.peer.publish([b"near"], handle=1)
    assert a.entry.ready("near") == 1
    a.home.clear_alarm("memory")
    assert a.peer.take(Flow)[-1].link_credit > 0


def test_a_user_id_that_the_entry_has_checked_is_believed():
    a = Apart()
    a.peer.attach_sender(a.address)
    a.peer.frames.clear()
    a.peer.transfer(payload=b"\x00\x53\x73\xc0\x09\x02\x40\xa0\x05guest\x00\x53\x75\xa0\x01x")
    assert a.home.ready("far") == 1


def test_who_is_not_trusted_may_not_call_itself_a_node():
    broker = InProcessBroker()
    peer = WirePeer(broker)
    peer.handshake()
    peer.send(Open(container_id="x", properties={"headgate:node": "a"}))
    assert peer.closed_with("amqp:unauthorized-access")


def test_a_paused_publisher_gets_the_link_credit_of_the_home_node_again():
    a = Apart()
    a.peer.attach_sender(a.address)
    given = a.peer.expect(Flow).link_credit
    (user,) = [link.reference for link in a.peer.session().links]
    user.pause(paused=True)
    a.entry.touch(a.peer)
    a.entry.run()
    assert a.peer.expect(Flow).link_credit == 0
    user.pause(paused=False)
    a.entry.touch(a.peer)
    a.entry.run()
    assert a.peer.expect(Flow).link_credit == given


def test_more_links_than_one_session_has_handles():
    a = Apart()
    clients = [a.client() for _ in range(2)]
    for client in clients:
        for handle in range(150):
            client.attach_receiver(a.address, handle=handle)
    a.home.fill(numbered(300), "far")
    for client in clients:
        for handle in range(150):
            client.grant(1, handle=handle)
    assert sum(len(client.bodies()) for client in clients) == 300


def test_what_a_consumer_returns_unsent_is_as_it_was():
    a = Apart()
    a.home.fill(numbered(1), "far")
    a.peer.attach_receiver(a.address)
    a.peer.grant(1, incoming_window=0)
    assert not a.peer.bodies()
    a.peer.detach(1)
    other = a.client()
    other.attach_receiver(a.address)
    other.grant(1)
    ((_, payload),) = other.deliveries()
    assert payload.startswith(b"\x00Sp\xc0\x05\x04@@@A"), "first-acquirer is still true"
