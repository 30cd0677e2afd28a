"""``/flow/self``: a client sees its own connection's flow, within its link credit, and other clients pay nothing for
it."""

import pytest

from amqp10.errors import ErrorCondition
from amqp10.wire.messaging import Source
from amqp10.wire.performatives import Detach, Flow, Transfer
from amqp10.wire.sections import DATA, decode_properties, scan
from core.flow_facts import FLOW_STREAM, PACKET_CONTENT_TYPE, FlowConnection
from core.observe.flow_events.feed import INTERVAL_S
from core.observe.flow_events.ring import RecordRing
from core.observe.flow_events.schema import EventKind, FlowEventRecord, Packet, decode
from tests.kit.stall_scenarios import LINKS, Cause
from tests.kit.wire import InProcessBroker, WirePeer, numbered

CHANNEL, HANDLE = 9, 0
"""The channel of a session of its own, because some scenarios close the window of the other session."""


def follow(peer: WirePeer, link_credit: int = 1000) -> None:
    peer.begin(CHANNEL)
    peer.attach_receiver("/flow/self", handle=HANDLE, channel=CHANNEL)
    if link_credit:
        peer.grant(link_credit, handle=HANDLE, channel=CHANNEL)


def packets(peer: WirePeer) -> list[Packet]:
    """The packets that came since the last call."""
    found = [(number, frame) for number, frame in enumerate(peer.frames) if frame[0] == CHANNEL]
    transfers = [frame for frame in found if isinstance(frame[1][1], Transfer)]
    for number, _ in reversed(transfers):
        del peer.frames[number]
    assert all(frame[1].settled for _, frame in transfers)
    return [decode(body(frame[2])) for _, frame in transfers]


def body(message: bytes) -> bytes:
    bounds = scan(message)
    assert bounds.properties is not None
    assert bounds.body is not None
    assert bounds.body_code == DATA
    assert decode_properties(message, *bounds.properties).content_type == PACKET_CONTENT_TYPE
    data = message[bounds.body[0] : bounds.body[1]]
    return data[5:] if data[3] == 0xA0 else data[8:]


def records(peer: WirePeer, *kinds: EventKind) -> list[FlowEventRecord]:
    return [record for packet in packets(peer) for record in packet.records if not kinds or record.kind in kinds]


def stalls(peer: WirePeer) -> list[tuple[object, ...]]:
    return [
        (record.kind, record.fields["link"], record.fields["reason"], record.fields["culprit"])
        for record in records(peer, EventKind.BLOCKED, EventKind.UNBLOCKED)
    ]


@pytest.mark.parametrize("late", [False, True], ids=["attached before", "attached amid the stall"])
@pytest.mark.parametrize("cause", [pytest.param(cause, id=cause.name) for cause in LINKS if cause.reason != "socket"])
def test_flow_self_names_what_the_ledger_names_within_a_second(cause: Cause[WirePeer], late: bool):
    """The stall of a socket that is not read is not shown, because a client that does not read cannot be told."""
    scenario = cause.begin()
    broker, peer = scenario.broker, scenario.peer
    if late:
        broker.go_round(1.0)
    follow(peer)
    broker.go_round(1.0)
    assert stalls(peer) == [("blocked", cause.identity, cause.reason, cause.culprit)]
    scenario.end()
    broker.go_round(1.0)
    assert stalls(peer) == [("unblocked", cause.identity, cause.reason, cause.culprit)]


def test_flow_self_begins_with_the_present_state():
    broker = InProcessBroker()
    peer = broker.connect(container_id="shop")
    peer.begin()
    peer.attach_sender(broker.queue())
    peer.attach_receiver("/queues/q")
    follow(peer)
    broker.advance(1.0)
    opened, *attached = records(peer, EventKind.CONNECTION_OPENED, EventKind.LINK_ATTACHED)
    assert opened.fields == {
        "connection": "test-0",
        "peer": "127.0.0.1:40000",
        "protocol": "amqp-1.0",
        "container_id": "shop",
        "user": "guest",
    }
    assert [(record.fields["link"], record.fields["direction"], record.fields["address"]) for record in attached] == [
        ("test-0/0/0", "in", "/queues/q"),
        ("test-0/0/1", "out", "/queues/q"),
    ]


def test_activity_is_added_up_exactly():
    broker = InProcessBroker()
    peer = broker.connect()
    follow(peer)
    peer.begin()
    peer.attach_sender(broker.queue())
    peer.publish(numbered(100))
    broker.advance(INTERVAL_S)
    peer.publish(numbered(7))
    peer.attach_receiver("/queues/q")
    peer.grant(50)
    broker.advance(1.0)
    activity = records(peer, EventKind.ACTIVITY)
    ins = [record.fields for record in activity if record.fields["link"] == "test-0/0/0"]
    outs = [record.fields for record in activity if record.fields["link"] == "test-0/0/1"]

    def total(rows: list, name: str) -> int:
        return sum(row.get(name, 0) for row in rows)

    assert total(ins, "transfers") == total(ins, "accepted") == 107
    assert total(ins, "granted") - 107 == peer.link(0).credit.link_credit == ins[-1]["link_credit"]
    assert total(outs, "transfers") == total(outs, "granted") == 50
    assert outs[-1]["link_credit"] == 0


def test_no_link_credit_no_message_and_no_growth():
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    follow(peer, link_credit=0)
    for _ in range(5000):
        peer.publish([b"x"])
        broker.advance(0.02)
    feed = peer.front_end._flow.receiver.feed
    assert len(feed.ring) <= broker.flow.feed_records_max + 1
    assert peer.link(HANDLE, CHANNEL).idle
    assert packets(peer) == []
    peer.grant(1000, handle=HANDLE, channel=CHANNEL)
    broker.advance(1.0)
    first, *others = records(peer)
    assert first.kind == EventKind.DROPPED
    assert first.fields["records"] == feed.ring.dropped_ever > 4000
    assert EventKind.DROPPED not in [record.kind for record in others]


def test_flow_self_sends_no_more_than_its_link_credit():
    broker = InProcessBroker()
    peer = broker.connect()
    follow(peer, link_credit=2)
    peer.begin()
    for handle in range(5):
        peer.attach_sender(broker.queue(), handle=handle)
        broker.advance(1.0)
    assert [packet.sequence for packet in packets(peer)] == [0, 1]
    peer.grant(1, handle=HANDLE, channel=CHANNEL)
    broker.advance(1.0)
    assert [packet.sequence for packet in packets(peer)] == [2]


def test_drain_brings_what_there_is_and_takes_the_rest_back():
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    follow(peer, link_credit=0)
    peer.grant(10, handle=HANDLE, channel=CHANNEL, drain=True)
    assert [packet.sequence for packet in packets(peer)] == [0]
    flows = peer.take(Flow, lambda flow: flow.handle == HANDLE)
    assert [(flow.link_credit, flow.drain) for flow in flows] == [(0, True)]


def test_a_busy_connection_sends_ten_packets_a_second():
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    follow(peer)
    packets(peer)
    for _ in range(100):
        peer.publish([b"x"])
        broker.advance(0.01)
    assert 9 <= len(packets(peer)) <= 11


def test_a_sender_is_refused():
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    assert peer.attach_sender("/flow/self").target is None
    error = peer.pick(Detach).error
    assert error.condition == ErrorCondition.NOT_ALLOWED
    assert "attach a receiver" in error.description


def test_one_receiver_is_enough():
    broker = InProcessBroker()
    peer = broker.connect()
    follow(peer)
    assert peer.attach_receiver("/flow/self", handle=7, channel=CHANNEL).source is None
    assert peer.pick(Detach).error.condition == ErrorCondition.RESOURCE_LIMIT_EXCEEDED
    peer.detach(HANDLE, channel=CHANNEL)
    assert peer.attach_receiver("/flow/self", handle=8, channel=CHANNEL, name="again").source == Source(
        address="/flow/self", distribution_mode="copy"
    )


def test_a_packet_that_is_too_large_for_the_client_ends_the_link_only():
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin(CHANNEL)
    peer.attach_receiver("/flow/self", handle=HANDLE, channel=CHANNEL, max_message_size=20)
    peer.grant(5, handle=HANDLE, channel=CHANNEL)
    assert peer.pick(Detach).error.condition == ErrorCondition.MESSAGE_SIZE_EXCEEDED
    assert peer.front_end._flow.recorder is None
    assert not peer.front_end.finished


def test_only_connections_that_follow_are_recorded_and_nothing_is_left_behind():
    broker = InProcessBroker()
    other = broker.connect()
    other.begin()
    other.attach_sender(broker.queue())
    peer = broker.connect()
    peer.begin()
    peer.attach_sender("/queues/q")
    follow(peer)
    assert peer.link(0).reference.flow is not None
    assert other.link(0).reference.flow is None
    assert other.front_end._flow.recorder is None
    peer.detach(HANDLE, channel=CHANNEL)
    assert peer.link(0).reference.flow is None
    assert peer.front_end._flow.recorder is None
    assert broker.flow._connections == {}
    assert broker.flow.busy == {}


@pytest.mark.parametrize("enabled", [False, True])
def test_the_connection_ends_with_everything_attached(enabled: bool):
    broker = InProcessBroker(flow_ring=RecordRing(1000) if enabled else None)
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    follow(peer)
    peer.publish(numbered(3))
    peer.disconnect()
    assert broker.flow._connections == {}
    assert broker.flow.busy == {}
    if enabled:
        told = [broker.flow.ring.take().kind for _ in range(len(broker.flow.ring))]
        assert told == ["connection-opened", "link-attached", "activity", "link-detached", "connection-closed"]


def test_alarms_and_clients_close_windows():
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    follow(peer)
    broker.raise_alarm()
    broker.advance(1.0)
    broker.clear_alarm()
    broker.advance(1.0)
    told = records(peer, EventKind.WINDOW_CLOSED, EventKind.WINDOW_OPENED)
    assert [(record.kind, record.fields["session"], record.fields["side"]) for record in told] == [
        ("window-closed", "test-0/0", "broker"),
        ("window-opened", "test-0/0", "broker"),
    ]
    peer.attach_receiver("/queues/q")
    peer.grant(10, incoming_window=2)
    broker.fill(numbered(5))
    broker.advance(1.0)
    peer.flow(incoming_window=100)
    broker.advance(1.0)
    told = records(peer, EventKind.WINDOW_CLOSED, EventKind.WINDOW_OPENED)
    assert [(record.kind, record.fields["side"]) for record in told] == [
        ("window-closed", "client"),
        ("window-opened", "client"),
    ]


class Forbidding:
    """A recorder that records nothing: any call but that of ``connection`` fails the test."""

    def __init__(self) -> None:
        self.asked = 0

    def connection(self, who: FlowConnection, *, followed: bool = False) -> None:
        assert not followed
        self.asked += 1


def test_with_flow_events_off_nothing_is_called():
    """Without a recorder, links hold None and windows are not looked at."""
    broker = InProcessBroker()
    forbidding = broker.flow = Forbidding()  # type: ignore[assignment]
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    peer.attach_receiver("/queues/q")
    peer.publish(numbered(100))
    peer.grant(100)
    broker.raise_alarm()
    broker.go_round(2.0)
    broker.clear_alarm()
    assert peer.front_end._flow.recorder is None
    assert [peer.link(handle).reference.flow for handle in (0, 1)] == [None, None]
    peer.detach(0)
    peer.disconnect()
    assert forbidding.asked == 1


def test_the_stream_of_flow_events_does_not_feed_on_itself():
    ring = RecordRing(1000)
    broker = InProcessBroker(durable=True, flow_ring=ring)
    broker.queue(FLOW_STREAM, x_queue_type="stream")
    peer = broker.connect()
    peer.begin()
    while len(ring):
        ring.take()
    peer.attach_receiver("/queues/%24flow")
    peer.attach_sender("/queues/%24flow")
    peer.grant(100)
    broker.fill(numbered(100), FLOW_STREAM)
    broker.fill(numbered(100), FLOW_STREAM)
    broker.go_round(2.0)
    assert list(broker.flow.tell_due()) == []
    assert len(ring) == 0
