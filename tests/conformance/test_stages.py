"""Each stage of the broker made slow, and which flow control mechanism limits which clients.

row 3.32. The stages are the connection's reader and writer, the session, and the queue. A slow queue shows as link
credit that is not given again, a session that must not take more as a closed window, and a slow socket as messages that
stay in the queue. Each mechanism stops the clients of its stage, and no others.
"""

from amqp10.wire.messaging import ACCEPTED
from amqp10.wire.performatives import Disposition, Flow
from tests.kit.cases import case
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, numbered


def session(broker: InProcessBroker) -> WirePeer:
    """A client with a session."""
    peer = broker.connect()
    peer.begin()
    return peer


@case("engine", "3.32")
def test_a_slow_queue_shows_as_link_credit():
    """row 3.32: the queue takes nothing: its publishers' link credit runs out at 255 messages; the session window is
    restored all the while, and consuming on the same connection goes on."""
    broker = InProcessBroker()
    slow, quick = broker.queue("slow"), broker.queue("quick")
    broker.fill(numbered(500), "quick")
    broker.stall("slow")
    peer = session(broker)
    peer.attach_sender(slow)
    peer.attach_receiver(quick)
    sent = 0
    windows = []
    while left := peer.link(0).credit.link_credit:
        peer.publish(numbered(min(left, 85)))
        sent += min(left, 85)
        windows += [flow.incoming_window for flow in peer.take(Flow, lambda flow: flow.handle is None)]
    assert sent == 255
    assert windows == [400]
    peer.grant(500)
    assert len(peer.bodies()) == 500


@case("engine", "3.32")
def test_a_queue_that_is_slow_but_moves_sets_the_pace():
    """row 3.32: a queue that takes ten messages a turn confirms ten at a time. No message is lost, no more than the
    limit wait, and link credit comes back with the confirms."""
    broker = InProcessBroker()
    peer = session(broker)
    peer.attach_sender(broker.queue())
    broker.engine.set_stage_budget("q", 10)
    for _ in range(20):
        peer.publish(numbered(85))
        assert peer.link(0).credit.unconfirmed <= 255
    assert broker.ready() == 1700
    confirmed = sum((each.last or each.first) - each.first + 1 for each in peer.take(Disposition))
    assert confirmed == 1700


@case("engine", "3.32")
def test_a_session_that_must_not_take_more_shows_as_its_window():
    """row 3.32: an alarm closes the windows towards publishers, whose links keep the link credit that they have."""
    broker = InProcessBroker()
    peer = session(broker)
    for handle in range(3):
        peer.attach_sender(broker.queue(f"q{handle}"), handle=handle)
    peer.frames.clear()
    broker.raise_alarm()
    (flow,) = peer.take(Flow)
    assert (flow.handle, flow.incoming_window) == (None, 0)
    assert [peer.link(handle).credit.link_credit for handle in range(3)] == [170, 170, 170]


@case("engine", "3.32")
def test_a_slow_socket_shows_as_messages_that_stay_in_the_queue():
    """row 3.32: a client that does not read: its output is bounded, the queue keeps the rest, and another client of the
    same queue gets what the first one does not take."""
    limit = 50_000
    broker = InProcessBroker(make_settings(amqp10={"unsent_bytes_max": limit}))
    address = broker.queue()
    slow, quick = session(broker), session(broker)
    slow.attach_receiver(address)
    slow.stop_reading(writes=1)
    slow.grant(100_000)
    broker.fill([b"x" * 1000] * 2000)
    written = len(slow.raw)
    assert written < 2 * limit
    assert broker.unacknowledged() <= 256 + written // 1000
    quick.attach_receiver(address)
    quick.grant(100_000)
    got = len(quick.bodies())
    assert got > 1500
    assert broker.ready() == 0
    slow.go_on_reading()
    assert got + len(slow.bodies()) == 2000


@case("engine", "3.32")
def test_a_socket_that_takes_everything_gets_everything():
    """row 3.32: bytes above the bound of one write follow with the next write, without a frame of the client."""
    broker = InProcessBroker(make_settings(amqp10={"unsent_bytes_max": 50_000}))
    address = broker.queue()
    broker.fill([b"x" * 10_000] * 100)
    peer = session(broker)
    peer.attach_receiver(address)
    peer.grant(100)
    assert len(peer.bodies()) == 100


@case("engine", "3.32")
def test_a_reader_is_never_stopped():
    """row 3.32: with the queue stalled and the output full, the broker still reads the client's frames: it settles, and
    it changes its link credit. Only the kernel's buffers hold back a client that writes faster than it is read."""
    broker = InProcessBroker()
    address = broker.queue()
    broker.queue("stalled")
    broker.stall("stalled")
    broker.fill(numbered(1000))
    peer = session(broker)
    peer.attach_sender("/queues/stalled")
    peer.attach_receiver(address)
    peer.grant(100)
    peer.publish(numbered(170))
    peer.stop_reading()
    assert peer.front_end.reading
    before = broker.unacknowledged()
    peer.dispose(0, 99, state=ACCEPTED)
    assert broker.unacknowledged() == before - 100
    peer.grant(50)
    assert broker.unacknowledged() == 50
    peer.grant(0)
    assert broker.unacknowledged() == 0
