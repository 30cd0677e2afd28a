"""Session windows, as the suites of RabbitMQ and Qpid show them; the unit is the transfer frame [2.5.6]."""

import pytest

from amqp10.wire.messaging import ACCEPTED
from amqp10.wire.performatives import Disposition, End, Flow
from tests.kit.cases import case
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, body_of, data_message, numbered


@case("amqp_client_SUITE", "session_flow_control_default_max_frame_size")
def test_exactly_as_many_transfers_as_the_window_has():
    """[FC] session_flow_control_default_max_frame_size (amqp_client_SUITE)"""
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill(numbered(1000))
    peer = broker.connect()
    peer.begin(incoming_window=0)
    peer.attach_receiver(address)
    peer.grant(1000, incoming_window=2)
    assert len(peer.bodies()) == 2
    peer.flow(incoming_window=1)
    assert len(peer.bodies()) == 1
    peer.flow(incoming_window=0)
    assert len(peer.bodies()) == 0
    received = 3
    for window in (2, 1, 100, 100):
        peer.flow(incoming_window=window)
        assert len(peer.bodies()) == window
        received += window
    peer.flow(incoming_window=2000)
    assert peer.bodies() == numbered(1000 - received, first=received)


@case("amqp_client_SUITE", "session_flow_control_small_max_frame_size")
def test_a_message_of_three_frames_takes_three_of_the_window():
    """[FC] session_flow_control_small_max_frame_size (amqp_client_SUITE)"""
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill([b"a" * 2500, b"b" * 2500])
    peer = broker.connect(max_frame_size=1000)
    peer.begin(incoming_window=3)
    peer.attach_receiver(address)
    peer.grant(10, incoming_window=3)
    frames = peer.deliveries()
    assert [transfer.more for transfer, _ in frames] == [True, True, False]
    assert body_of(b"".join(payload for _, payload in frames)) == b"a" * 2500
    peer.flow(incoming_window=2)
    assert [transfer.more for transfer, _ in peer.deliveries()] == [True, True]
    peer.flow(incoming_window=2)
    assert [transfer.more for transfer, _ in peer.deliveries()] == [False]


WINDOW_OF_ONE = make_settings(amqp10={"max_incoming_window": 1, "window_top_up": 0})


@case("messaging.TransferIncomingWindowTest", "transferExceedingInitialIncomingWindowEndsSession")
def test_transfers_above_the_window_end_the_session_whatever_their_handle():
    """[FC] transferExceedingInitialIncomingWindowEndsSession (messaging.TransferIncomingWindowTest): the window is 1,
    the smallest that a session of ours can have. The second transfer names a link that does not exist."""
    broker = InProcessBroker(WINDOW_OF_ONE)
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    peer.frames.clear()
    peer.send_all([peer.transfer_frame(), peer.transfer_frame(handle=77)])
    assert peer.ended_with("amqp:session:window-violation")
    assert broker.ready() == 1


@case("messaging.TransferIncomingWindowTest", "transferExceedingFlowAdvertisedIncomingWindowEndsSession")
def test_transfers_above_the_window_of_the_latest_flow_end_the_session():
    """[FC] transferExceedingFlowAdvertisedIncomingWindowEndsSession (messaging.TransferIncomingWindowTest)"""
    broker = InProcessBroker(WINDOW_OF_ONE)
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    peer.transfer()
    assert peer.take(Flow)[-1].incoming_window == 1
    peer.send_all([peer.transfer_frame(), peer.transfer_frame()])
    assert peer.ended_with("amqp:session:window-violation")


@case("engine", "3.23")
def test_the_window_is_restored_after_two_hundred_transfers():
    """row 3.23: announced as 400, set to 400 again at each 200th transfer, in a flow that names no link."""
    broker = InProcessBroker()
    peer = broker.connect()
    assert peer.begin().incoming_window == 400
    peer.attach_sender(broker.queue())
    peer.frames.clear()
    topped_up_after = []
    for sent in range(1, 801):
        peer.transfer()
        for flow in peer.take(Flow, lambda flow: flow.handle is None):
            topped_up_after.append(sent)
            assert (flow.incoming_window, flow.next_incoming_id) == (400, sent)
    assert topped_up_after == [200, 400, 600, 800]


@case("engine", "3.22")
def test_the_unit_of_the_window_is_the_frame_in_both_directions():
    """row 3.22: a flow carries the four numbers, and a message cut into frames takes as many, so that one link credit
    may not be enough to get a message when the window is small."""
    broker = InProcessBroker()
    address = broker.queue()
    peer = broker.connect(max_frame_size=512)
    peer.begin(incoming_window=1, next_outgoing_id=7)
    peer.attach_sender(address)
    peer.send_all(peer.frames_of(data_message(b"x" * 900), 400))
    assert broker.ready() == 1
    peer.frames.clear()
    peer.flow(echo=True, incoming_window=1)
    flow = peer.expect(Flow)
    assert (flow.next_incoming_id, flow.incoming_window, flow.next_outgoing_id) == (10, 397, 0)
    assert flow.outgoing_window == 2**32 - 1

    peer.attach_receiver(address)
    peer.grant(1, incoming_window=1)
    assert [transfer.more for transfer, _ in peer.deliveries()] == [True]
    peer.flow(incoming_window=2**32 - 1, echo=True)
    assert [transfer.more for transfer, _ in peer.deliveries()] == [False]
    assert peer.expect(Flow).next_outgoing_id == 2


@pytest.mark.parametrize("jump", [-1, 1, 399, 400, 2**31 - 1, 2**31, 2**32 - 3])
@case("ours", "next-outgoing-id of a flow is taken")
def test_another_next_outgoing_id_than_expected(jump: int):
    """[FC] next-outgoing-id of a flow is taken (ours): the broker goes on from there, and the window stays as it was.
    Delivery-ids count by themselves, so outcomes still find their deliveries."""
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    peer.publish(numbered(2))
    peer.frames.clear()
    said = (2 + jump) % 2**32
    peer.flow(next_outgoing_id=said, echo=True)
    answer = peer.expect(Flow)
    assert (answer.next_incoming_id, answer.incoming_window) == (said, 398)
    peer.frames.clear()
    peer.transfer(delivery_id=2)
    disposition = peer.expect(Disposition)
    assert (disposition.first, disposition.state) == (2, ACCEPTED)
    assert broker.ready() == 3


@case("ours", "next-outgoing-id of a flow is taken")
def test_jumps_let_no_more_transfers_in_than_the_window():
    """[FC] next-outgoing-id of a flow is taken (ours): a window violation is a transfer beyond the window, which counts
    transfers and not ids."""
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    for transfers, breach in ((400, False), (401, True)):
        jumps = [peer.flow_frame(next_outgoing_id=1_000 * n) for n in range(9)]
        peer.send_all([*jumps, *(peer.transfer_frame() for _ in range(transfers))])
        assert bool(peer.take(End)) is breach


@case("engine", "3.22")
def test_what_was_in_flight_has_used_the_window_in_part():
    """row 3.22: a flow is about what its sender had seen. The transfers that it crossed are subtracted from its window,
    which ends at 0 at the least."""
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill(numbered(100))
    peer = broker.connect()
    peer.begin(incoming_window=0)
    peer.attach_receiver(address)
    peer.grant(100, incoming_window=20)
    assert len(peer.bodies()) == 20
    peer.flow(next_incoming_id=16, incoming_window=10)
    assert len(peer.bodies()) == 6
    peer.flow(next_incoming_id=16, incoming_window=5)
    assert peer.session().window.remote_incoming_window == 0
    peer.flow(next_incoming_id=26, incoming_window=3)
    assert peer.bodies() == numbered(3, first=26)


@case("engine", "3.21")
def test_a_second_session_keeps_priority_traffic_moving():
    """row 3.21: the sessions of one connection are independent: the window of one is closed, and the other goes on in
    both directions."""
    broker = InProcessBroker()
    bulk, urgent = broker.queue("bulk"), broker.queue("urgent")
    broker.fill(numbered(1000), "bulk")
    peer = broker.connect()
    peer.begin(channel=0)
    peer.begin(channel=1)
    peer.attach_receiver(bulk, channel=0)
    peer.grant(1000, channel=0, incoming_window=0)
    peer.attach_receiver(urgent, channel=1)
    peer.attach_sender(urgent, channel=1)
    peer.grant(10, channel=1)
    peer.frames.clear()
    for number in range(10):
        peer.transfer(b"%d" % number, channel=1)
    assert peer.bodies() == numbered(10)
    assert {channel for channel, _, _ in peer.frames} == {1}
    assert peer.session(0).blocked


@case("amqp_client_SUITE", "multiple_sessions")
def test_two_sessions_publish_and_consume_side_by_side():
    """multiple_sessions (amqp_client_SUITE): the order of each sender is kept."""
    broker = InProcessBroker()
    address = broker.queue()
    peer = broker.connect()
    for channel in (0, 1):
        peer.begin(channel=channel)
        peer.attach_sender(address, channel=channel)
    peer.attach_receiver(address, channel=1)
    peer.grant(100, channel=1)
    for number in range(20):
        peer.transfer(b"%d" % number, channel=number % 2)
    received = [int(body) for body in peer.bodies()]
    assert sorted(received) == list(range(20))
    for parity in (0, 1):
        own = [number for number in received if number % 2 == parity]
        assert own == sorted(own)


@pytest.mark.parametrize("window", [2**31, 2**32 - 1])
def test_a_window_of_any_uint_is_taken(window: int):
    """The window is a uint [2.7.4]; serial arithmetic does not bound it."""
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill(numbered(3))
    peer = broker.connect()
    peer.begin(incoming_window=window)
    peer.attach_receiver(address)
    peer.grant(3, incoming_window=window)
    assert peer.bodies() == numbered(3)
    assert not peer.take(End)
