"""Clients at one node of a cluster, with queues on another: what the cases of link credit do not show."""

import pytest

from amqp10.forwarding.node_connection import LOST_PAUSE_S
from amqp10.wire.messaging import ACCEPTED, Accepted, Modified, Released, Source
from amqp10.wire.performatives import Detach, Disposition, Flow, Open
from amqp10.wire.types import Described, Symbol, Timestamp, UInt, ULong
from core.amqp091.methods import (
    BasicAck,
    BasicGet,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDelete,
    QueuePurge,
    QueuePurgeOk,
)
from core.engine.options.policies import PolicyDeclaration
from core.errors import NotFound
from core.interface import Binding, QueueDeclaration
from tests.kit.apart import Apart
from tests.kit.link_pair import LinkPair
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, numbered
from tests.kit.wire091 import Wire091Peer


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
    assert outcome.state == Modified(delivery_failed=True), "the other node may have it"
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


def test_a_lost_connection_is_tried_again_at_once_and_one_that_cannot_be_made_after_longer_and_longer_pauses():
    a = Apart()
    a.peer.attach_receiver(a.address)
    a.nodes.reachable = False
    a.lose()
    pauses = []
    for _ in range(8):
        pauses += [pause for _, pause in a.nodes.calls]
        a.nodes.call()
    assert pauses == [LOST_PAUSE_S, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    a.nodes.reachable = True
    a.nodes.call()
    a.lose()
    assert [pause for _, pause in a.nodes.calls] == [LOST_PAUSE_S]


def test_a_node_is_connected_without_links_when_it_is_to_stay_so():
    a = Apart()
    node = a.entry.engine.machinery.homes.nodes["b"]
    for _ in range(2):
        node.stay_connected("/")
        a.entry.run()
    assert len(a.nodes.sockets) == 1
    a.lose()
    a.nodes.call()
    assert len(a.nodes.sockets) == 2
    assert node.down("/") is None


def test_a_node_that_is_let_go_is_not_tried_again():
    a = Apart()
    a.peer.attach_receiver(a.address)
    node = a.entry.engine.machinery.homes.nodes["b"]
    node.let_go()
    a.lose()
    assert not a.nodes.calls
    assert node.down("/") is not None


def test_a_queue_that_its_home_node_does_not_have():
    a = Apart()
    a.peer.attach_receiver("/queues/far-away")
    assert a.peer.detached_with("amqp:not-found")


@pytest.mark.parametrize("tries", [1, 4])
def test_a_virtual_host_that_its_home_node_does_not_have_yet(tries: int):
    a = Apart()
    a.entry.control.hosts.add("shop")
    peer = a.entry.connect(hostname="vhost:shop")
    peer.begin()
    peer.attach_sender(a.address)
    pauses = []
    for _ in range(tries):
        assert not peer.take(Flow, Detach)
        pauses += [pause for _, pause in a.nodes.calls]
        if tries == 1:
            a.home.control.hosts.add("shop")
            a.home.control.hosts.named("shop").declare_queue(QueueDeclaration(name="far", arguments={}), a)
        a.nodes.call()
    assert pauses == [0.1, 0.2, 0.4, 0.8][:tries]
    if tries == 1:
        assert peer.expect(Flow).link_credit > 0
    else:
        assert peer.detached_with("amqp:not-found")


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


# --- whose links they are -----------------------------------------------------------------------------------------


def test_the_home_node_shows_the_client_of_each_link_and_through_which_node_it_came():
    a = Apart()
    a.peer.attach_sender(a.address, handle=0)
    a.peer.attach_receiver(a.address, handle=1)
    info = a.peer.front_end.info
    client = {
        "user": "guest",
        "connection": info.identity,
        "container_id": "test",
        "peer": f"{info.remote_host}:{info.remote_port}",
        "node": "a",
    }
    assert {row["direction"]: row["client"] for row in a.links_at_home()} == {"in": client, "out": client}
    (row,) = a.nodes.sockets[-1].home_end.front_end.snapshot("connections", a.home.now)
    assert row["node"] == "a"


def test_the_links_that_clients_share_name_none():
    a = Apart()
    a.peer.attach_sender(None)
    a.peer.frames.clear()
    to = b"/queues/far"
    properties = b"\x00\x53\x73\xc0" + bytes([len(to) + 5]) + b"\x03\x40\x40\xa1" + bytes([len(to)]) + to
    a.peer.transfer(payload=properties + b"\x00\x53\x75\xa0\x01x")
    assert [row["client"] for row in a.links_at_home()] == [None]


def test_a_stall_at_the_home_node_names_the_client():
    a = Apart()
    a.home.fill(numbered(3), "far")
    a.peer.attach_receiver(a.address)
    a.peer.grant(1)
    a.home.go_round(2.0)
    (stall,) = a.home.stalls.current.values()
    assert (stall.who.container_id, stall.who.user) == ("test", "guest")


def test_a_client_cannot_pretend_to_be_another():
    broker = InProcessBroker()
    address = broker.queue()
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(address, properties={"headgate:client": {"user": "root"}})
    assert [row["client"] for row in peer.front_end.snapshot("links", broker.now)] == [None]


@pytest.mark.parametrize("client", ["alice", {"user": 7}, {"user": "x" * 1025}], ids=["no map", "a number", "too long"])
def test_a_node_that_describes_a_client_wrongly_is_refused_the_link(client: object):
    broker = InProcessBroker(make_settings(cluster={"trust_loopback": True}))
    address = broker.queue()
    peer = WirePeer(broker)
    peer.handshake()
    peer.open(properties={"headgate:node": "a"})
    peer.begin()
    peer.attach_receiver(address, handle=0, properties={"headgate:client": client})
    assert peer.detached_with("amqp:invalid-field")
    peer.attach_sender(address, handle=1, properties={"headgate:client": client})
    assert peer.detached_with("amqp:invalid-field")


# --- what the home node decides ------------------------------------------------------------------------------------


def test_a_rate_of_the_home_nodes_policy_is_kept_and_told():
    a = Apart()
    a.home.engine.policies.set(
        PolicyDeclaration(name="slow", pattern="far", priority=0, apply_to="queues", definition={"publish-rate": 10})
    )
    a.home.run()
    a.peer.attach_sender(a.address)
    given = a.peer.expect(Flow).link_credit
    assert 0 < given <= 10
    a.peer.publish(numbered(given))
    assert a.home.ready("far") == given
    sent = given
    for _ in range(40):
        a.home.advance(0.1)
        a.entry.advance(0.1)
        flows = [flow for flow in a.peer.take(Flow) if flow.link_credit]
        if flows:
            count = flows[-1].link_credit
            a.peer.publish(numbered(count))
            sent += count
    assert 30 <= sent <= 60, "10 a second for 4 seconds, beside the first"


def test_a_publisher_that_waits_for_a_rate_of_the_home_node_is_told_so():
    a = Apart()
    a.home.engine.policies.set(
        PolicyDeclaration(
            name="slow", pattern="far", priority=0, apply_to="queues", definition={"publish-rate-bytes": 1}
        )
    )
    a.home.run()
    a.peer.attach_sender(a.address)
    a.peer.publish(numbered(a.peer.expect(Flow).link_credit))
    a.home.go_round(2.0)
    a.entry.go_round(2.0)
    (stall,) = a.entry.stalls.current.values()
    assert (stall.labels.reason, stall.culprit) == ("rate-limit", "queue far@b")
    told = [flow.properties for flow in a.peer.take(Flow) if flow.properties]
    assert Symbol("rate-limit") in [one.get("headgate:reason") for one in told]


def test_what_the_home_node_takes_back_after_a_time_out_is_released_at_the_client():
    a = Apart(x_queue_type="quorum")
    a.home.fill(numbered(3), "far")
    a.peer.attach_receiver(a.address, properties={"rabbitmq:consumer-timeout": UInt(1000)})
    a.peer.grant(3)
    assert a.peer.bodies() == numbered(3)
    a.peer.dispose(1, state=ACCEPTED)
    a.home.advance(1.1)
    told = a.peer.take(Disposition)
    assert [(one.first, one.settled) for one in told] == [(0, False), (2, False)]
    assert all(isinstance(one.state, Released) for one in told)
    assert a.home.ready("far") == 2
    a.peer.dispose(0, 2, state=ACCEPTED)
    assert (a.home.ready("far"), a.home.unacknowledged("far")) == (2, 0), "it has no effect any more"


# --- what the home node is asked to do -----------------------------------------------------------------------------


def test_purging_at_the_entry_purges_at_the_home_node():
    a = Apart()
    a.home.fill(numbered(5), "far")
    answer = LinkPair(a.peer, handle=30).attach().ask("DELETE", "/queues/far/messages")
    assert (answer.status, answer.body) == (200, {"message_count": 5})
    assert a.home.ready("far") == 0


def test_purging_on_a_channel_of_the_entry():
    a = Apart()
    a.home.fill(numbered(5), "far")
    client = Wire091Peer(a.entry)
    client.open(1)
    assert client.call(1, QueuePurge(queue="far"), QueuePurgeOk).message_count == 5
    assert a.home.ready("far") == 0


def test_deleting_at_the_entry_deletes_at_the_home_node_and_detaches_everyone():
    a = Apart()
    a.home.fill(numbered(2), "far")
    a.peer.attach_receiver(a.address, handle=5)
    answer = LinkPair(a.peer, handle=30).attach().ask("DELETE", "/queues/far")
    assert (answer.status, answer.body) == (200, {"message_count": 2})
    with pytest.raises(NotFound):
        a.home.ready("far")
    assert a.peer.detached_with("amqp:resource-deleted")


def test_a_conditional_deletion_is_refused_with_the_name_of_the_home_node():
    a = Apart()
    client = Wire091Peer(a.entry)
    client.open(1)
    client.send(1, QueueDelete(queue="far", if_unused=True))
    (closed,) = client.methods(ChannelClose)
    assert "queue 'far' lives on node b" in closed.reply_text
    assert a.home.ready("far") == 0


def test_a_purge_while_the_node_is_down_or_is_lost_has_an_answer():
    a = Apart()
    pair = LinkPair(a.peer, handle=30).attach()
    pair.ask("DELETE", "/queues/far/messages")
    a.lose()
    answer = pair.ask("DELETE", "/queues/far/messages")
    assert answer.status == 409
    assert "its home node b is down" in str(answer.body)


def test_a_deleted_virtual_host_leaves_the_queues_of_other_nodes_alone():
    a = Apart()
    a.peer.attach_sender(a.address)
    assert a.entry.engine.begin_deleting_here("far", a).done
    a.entry.run()
    assert a.peer.detached_with("amqp:resource-deleted")
    assert a.home.ready("far") == 0


def test_getting_does_not_count_as_a_consumer_at_the_home_node():
    a = Apart(x_single_active_consumer=True)
    a.home.fill(numbered(3), "far")
    a.peer.attach_receiver(a.address)
    a.peer.grant(1)
    assert a.peer.bodies() == numbered(1)
    client = Wire091Peer(a.entry)
    client.open(1)
    for n in (1, 2):
        client.send(1, BasicGet(queue="far"))
        got = client.got()
        assert got is not None
        assert got[2] == b"%d" % n
    assert a.home.engine.queue_info("far", a).consumers == 1
    client.send(1, BasicGet(queue="far"))
    assert client.got() is None


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"rabbitmq:stream-offset-spec": "first"}, numbered(9)),
        ({"rabbitmq:stream-offset-spec": ULong(4)}, numbered(5, first=4)),
        ({"rabbitmq:stream-offset-spec": Timestamp(1_700_000_000_000)}, numbered(9)),
        ({"rabbitmq:stream-offset-spec": Timestamp(1_800_000_000_000)}, []),
        ({"rabbitmq:stream-offset-spec": "first", "rabbitmq:stream-filter": "none has it"}, []),
        (
            {
                "rabbitmq:stream-offset-spec": "first",
                "rabbitmq:stream-filter": "none has it",
                "rabbitmq:stream-match-unfiltered": True,
            },
            numbered(9),
        ),
    ],
)
def test_offsets_and_filters_of_a_stream_go_to_the_home_node(wanted: dict[str, object], expected: list[bytes]):
    a = Apart(x_queue_type="stream")
    a.home.fill(numbered(9), "far")
    filters = {name: Described(Symbol(name), value) for name, value in wanted.items()}
    a.peer.attach_receiver(a.address, source=Source(address=a.address, filter=filters))
    a.peer.grant(100)
    assert a.peer.bodies() == expected
