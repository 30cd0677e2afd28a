"""Edges of sessions that no other suite has: echoes, one window for two links, alarms to the last transfer [2.5.6]."""

import pytest

from amqp10.wire.performatives import End, Flow
from tests.kit.cases import case
from tests.kit.wire import InProcessBroker, WirePeer, data_message, numbered


def publishing(broker: InProcessBroker) -> WirePeer:
    """A client with a sender at handle 0. All frames so far are read."""
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    peer.frames.clear()
    return peer


def publish_freely(peer: WirePeer, n: int) -> None:
    """Publish as many messages at a time as the link credit allows, so that only the window limits them."""
    while n:
        run_part = min(n, peer.link(0).credit.link_credit, 85)
        assert run_part
        peer.publish(numbered(run_part))
        n -= run_part


@case("ours", "session echo answered")
def test_the_answer_to_an_echo_on_the_session():
    """[FC] session echo answered (ours): the answer has the window of that moment, and comes behind the transfers that
    the same input caused."""
    broker = InProcessBroker()
    peer = publishing(broker)
    peer.send_all([peer.transfer_frame(), peer.transfer_frame()])
    peer.frames.clear()
    peer.flow(echo=True)
    flow = peer.expect(Flow)
    assert (flow.handle, flow.next_incoming_id, flow.incoming_window, flow.echo) == (None, 2, 398, False)


@case("ours", "two links, one window")
def test_two_links_share_a_window_fairly():
    """[FC] two links, one window (ours): both links get equal shares of the window. Neither a message of many frames on
    one link nor a link without link credit delays the other link."""
    broker = InProcessBroker()
    for name in ("a", "b"):
        broker.queue(name)
        broker.fill(numbered(100), name)
    peer = broker.connect(max_frame_size=512)
    peer.begin(incoming_window=0)
    for handle, name in ((1, "a"), (2, "b")):
        peer.attach_receiver(f"/queues/{name}", handle=handle)
        peer.grant(100, handle=handle, incoming_window=0)
    shares = []
    for _ in range(3):
        peer.flow(incoming_window=20)
        handles = [transfer.handle for transfer, _ in peer.deliveries()]
        shares.append((handles.count(1), handles.count(2)))
    assert shares == [(10, 10)] * 3

    broker.queue("large")
    broker.fill([b"x" * 50_000], "large")
    peer.attach_receiver("/queues/large", handle=3)
    peer.flow(incoming_window=0)
    peer.grant(1, handle=3, incoming_window=0)
    peer.flow(incoming_window=30)
    handles = [transfer.handle for transfer, _ in peer.deliveries()]
    assert [handles.count(handle) for handle in (1, 2, 3)] == [10, 10, 10]


@case("ours", "two links, one window")
def test_a_stopped_link_does_not_hold_up_the_other():
    """[FC] two links, one window (ours): there is no head-of-line blocking."""
    broker = InProcessBroker()
    for name in ("a", "b"):
        broker.queue(name)
        broker.fill(numbered(1000), name)
    peer = broker.connect()
    peer.begin(incoming_window=0)
    for handle, name in ((1, "a"), (2, "b")):
        peer.attach_receiver(f"/queues/{name}", handle=handle)
        peer.grant(1000, handle=handle, incoming_window=0)
    peer.grant(0, handle=1, incoming_window=500)
    assert {transfer.handle for transfer, _ in peer.deliveries()} == {2}
    assert broker.ready("a") == 1000


@pytest.mark.parametrize("in_flight", [400, 401])
@case("ours", "alarm edge: exactly 400 and 401 in flight")
def test_the_tolerance_of_an_alarm(in_flight: int):
    """[FC] alarm edge: exactly 400 and 401 in flight (ours)"""
    broker = InProcessBroker()
    peer = publishing(broker)
    broker.raise_alarm()
    peer.frames.clear()
    publish_freely(peer, in_flight)
    assert broker.ready() == 400
    assert {flow.incoming_window for flow in peer.take(Flow)} == {0}
    assert peer.ended_with("amqp:session:window-violation") is (in_flight == 401)


@case("ours", "alarm at begin")
def test_an_alarm_that_is_on_when_a_session_begins():
    """[FC] alarm at begin (ours): the window is 400 until a publisher attaches and 0 from then on, so that management
    and consuming are free of it; RabbitMQ closes the window of every session."""
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill([b"m"])
    broker.raise_alarm()
    peer = broker.connect()
    assert peer.begin().incoming_window == 400
    peer.attach_receiver(address)
    peer.grant(1, echo=True)
    assert peer.bodies() == [b"m"]
    assert peer.expect(Flow).incoming_window == 400
    peer.attach_sender(address)
    assert [flow.incoming_window for flow in peer.take(Flow)][-1] == 0
    broker.clear_alarm()
    assert peer.take(Flow)[-1].incoming_window == 400


@case("ours", "several alarms")
def test_the_window_opens_when_the_last_alarm_is_over():
    """[FC] several alarms (ours): one flow closes the window and one opens it, with no flow between. The tolerance ends
    with the last alarm."""
    broker = InProcessBroker()
    peer = publishing(broker)
    for name in ("memory", "disk"):
        broker.raise_alarm(name)
    broker.raise_alarm("memory")
    assert [flow.incoming_window for flow in peer.take(Flow)] == [0]
    broker.clear_alarm("memory")
    assert peer.nothing_came()
    broker.clear_alarm("disk")
    assert [(flow.handle, flow.incoming_window) for flow in peer.take(Flow)] == [(None, 400)]
    assert peer.session().window.margin == 0
    peer.publish(numbered(170))
    assert broker.ready() == 170
    assert not peer.take(End)


@case("ours", "alarm in the middle of a message")
def test_an_alarm_between_the_frames_of_a_message():
    """[FC] alarm in the middle of a message (ours): the rest of the message is on its way, and is taken."""
    broker = InProcessBroker()
    peer = publishing(broker)
    first, *rest = peer.frames_of(data_message(b"x" * 900), 100)
    peer.send_all([first])
    broker.raise_alarm()
    peer.send_all(rest)
    assert broker.ready() == 1
    assert not peer.take(End)
