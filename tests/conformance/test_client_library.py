"""What RabbitMQ's own client library expects of a broker: the cases of its suites that are about flow control."""

from amqp10.wire.messaging import ACCEPTED, Accepted, Source
from amqp10.wire.performatives import Detach, Disposition, End, Flow
from tests.kit.cases import case
from tests.kit.wire import InProcessBroker, WirePeer, body_of, data_message, numbered


def both_ways(broker: InProcessBroker, *, snd_settle_mode: int = 2, **open_fields: object) -> WirePeer:
    """A client with a sender at handle 0 and a receiver at handle 1 on one queue."""
    address = broker.queue()
    peer = broker.connect(**open_fields)
    peer.begin()
    peer.attach_sender(address)
    peer.attach_receiver(address, snd_settle_mode=snd_settle_mode)
    peer.frames.clear()
    return peer


@case("amqp10_client system_SUITE", "early_transfer")
@case("amqp10_client system_SUITE", "insufficient_credit")
def test_nothing_may_be_sent_before_there_is_link_credit_and_not_more_than_it():
    """[FC] early_transfer (amqp10_client system_SUITE): the broker gives link credit with its attach. Only before that
    can a client see that its link is not attached yet or has no link credit.
    [FC] insufficient_credit (amqp10_client system_SUITE): the 171st message without a further flow has no link
    credit."""
    broker = InProcessBroker()
    address = broker.queue()
    peer = broker.connect()
    peer.begin()
    attach = peer.attach_sender(address)
    flow = peer.expect(Flow)
    assert (flow.handle, flow.link_credit, flow.delivery_count) == (attach.handle, 170, 0)
    broker.stall()
    peer.publish(numbered(171))
    assert peer.detached_with("amqp:link:transfer-limit-exceeded")
    assert not peer.take(End)


@case("amqp10_client system_SUITE", "split_transfer")
def test_a_body_larger_than_a_frame():
    """[FC] split_transfer (amqp10_client system_SUITE)"""
    broker = InProcessBroker()
    peer = both_ways(broker, max_frame_size=512)
    body = b"x" * 2000
    peer.send_all(peer.frames_of(data_message(body), 400))
    assert peer.expect(Disposition).state == ACCEPTED
    peer.grant(1)
    frames = peer.deliveries()
    assert [transfer.more for transfer, _ in frames] == [True, True, True, True, False]
    assert all(len(payload) <= 512 for _, payload in frames)
    assert body_of(b"".join(payload for _, payload in frames)) == body


@case("amqp10_client system_SUITE", "subscribe_with_auto_flow_settled")
def test_a_refill_by_what_was_received():
    """[FC] subscribe_with_auto_flow_settled (amqp10_client system_SUITE)"""
    broker = InProcessBroker()
    peer = both_ways(broker, snd_settle_mode=1)
    broker.fill(numbered(20))
    received: list[bytes] = []
    peer.grant(5)
    while came := peer.bodies():
        received += came
        peer.grant(5)
    assert received == numbered(20)
    assert broker.unacknowledged() == 0


@case("amqp10_client system_SUITE", "subscribe_with_auto_flow_unsettled")
def test_a_refill_that_waits_until_enough_is_settled():
    """[FC] subscribe_with_auto_flow_unsettled (amqp10_client system_SUITE): the client gives no link credit while five
    deliveries are unsettled; the broker delivers none."""
    broker = InProcessBroker()
    peer = both_ways(broker)
    broker.fill(numbered(20))
    peer.grant(5)
    received = 0
    while received < 20:
        came = peer.deliveries()
        assert len(came) == 5
        first, last = came[0][0].delivery_id, came[-1][0].delivery_id
        peer.dispose(first, last, state=Accepted())
        assert peer.nothing_came()
        received += 5
        peer.grant(5)
    assert broker.ready() == broker.unacknowledged() == 0


@case("amqp10_client system_SUITE", "transfer_id_vs_delivery_id")
def test_windows_count_frames_and_ids_count_messages():
    """[FC] transfer_id_vs_delivery_id (amqp10_client system_SUITE)"""
    broker = InProcessBroker()
    peer = both_ways(broker, max_frame_size=512)
    frames = []
    for _ in range(3):
        frames += peer.frames_of(data_message(b"x" * 2000), 400)
    peer.send_all(frames)
    assert [(each.first, each.last) for each in peer.take(Disposition)] == [(0, 2)]
    peer.grant(3, echo=True)
    ids = [transfer.delivery_id for transfer, _ in peer.deliveries() if transfer.delivery_id is not None]
    assert sorted(set(ids)) == [0, 1, 2]
    flow = peer.expect(Flow)
    assert (flow.next_incoming_id, flow.next_outgoing_id, flow.delivery_count) == (18, 15, 3)


@case("amqp10_client session_SUITE", "flow_link_after_link_removed")
def test_a_flow_that_crosses_a_detach():
    """[FC] flow_link_after_link_removed (amqp10_client session_SUITE): the queue is deleted and the broker detaches
    while a flow of the client is on its way. The flow has no effect."""
    broker = InProcessBroker()
    peer = both_ways(broker)
    broker.engine.delete_queue("q", broker)
    broker.run()
    peer.frames.clear()
    peer.flow(handle=1, delivery_count=0, link_credit=10)
    peer.flow(handle=0, delivery_count=0, link_credit=0)
    assert peer.nothing_came()
    peer.detach(0)
    peer.detach(1)
    assert peer.nothing_came()
    peer.flow(handle=1, delivery_count=0, link_credit=10)
    assert peer.ended_with("amqp:session:unattached-handle")


@case("amqp10_client session_SUITE", "disposition_after_link_removed")
def test_a_disposition_that_crosses_a_detach():
    """disposition_after_link_removed (amqp10_client session_SUITE)"""
    broker = InProcessBroker()
    peer = both_ways(broker)
    broker.fill(numbered(3))
    peer.grant(3)
    peer.detach(1)
    peer.frames.clear()
    peer.dispose(0, 2, state=ACCEPTED)
    assert peer.nothing_came()
    assert broker.ready() == 3


@case("amqp_credit_api_v2_SUITE", "credit_api_v2")
def test_attaching_again_on_the_same_handle_and_draining():
    """[FC] credit_api_v2 (amqp_credit_api_v2_SUITE): Headgate has one interface for queue grants. Of the case it tests
    that a handle is used again with a fresh delivery-count, and a drain after it."""
    broker = InProcessBroker()
    peer = both_ways(broker)
    broker.fill(numbered(5))
    peer.grant(2)
    assert peer.bodies() == numbered(2)
    peer.dispose(0, 1, state=ACCEPTED)
    peer.detach(1)
    assert peer.pick(Detach).closed
    assert peer.attach_receiver("/queues/q").initial_delivery_count == 0
    peer.grant(5, drain=True)
    assert peer.bodies() == numbered(3, first=2)
    flow = peer.expect(Flow)
    assert (flow.delivery_count, flow.link_credit) == (5, 0)


@case("amqp10_client system_SUITE", "open_close_connection")
@case("amqp10_client system_SUITE", "basic_roundtrip")
@case("amqp10_client system_SUITE", "transfer_unsettled")
@case("amqp10_client system_SUITE", "subscribe")
@case("amqp_dotnet_SUITE", "roundtrip")
def test_there_and_back():
    """open_close_connection (amqp10_client system_SUITE)
    basic_roundtrip (amqp10_client system_SUITE)
    transfer_unsettled (amqp10_client system_SUITE)
    subscribe (amqp10_client system_SUITE)
    roundtrip (amqp_dotnet_SUITE)"""
    broker = InProcessBroker()
    peer = both_ways(broker)
    peer.publish(numbered(10))
    peer.grant(10)
    received = peer.deliveries()
    assert [body_of(payload) for _, payload in received] == numbered(10)
    peer.dispose(0, 9, state=ACCEPTED)
    assert broker.ready() == broker.unacknowledged() == 0


@case("amqp10_client system_SUITE", "attach_refused")
@case("amqp_dotnet_SUITE", "attach_sender_to_missing_exchange")
@case("amqp_dotnet_SUITE", "attach_sender_to_invalid_address")
@case("amqp_dotnet_SUITE", "attach_receiver_from_missing_queue")
@case("amqp_dotnet_SUITE", "attach_receiver_from_invalid_address")
def test_an_attach_that_is_refused_leaves_the_session():
    """attach_refused (amqp10_client system_SUITE)
    attach_sender_to_missing_exchange (amqp_dotnet_SUITE)
    attach_sender_to_invalid_address (amqp_dotnet_SUITE)
    attach_receiver_from_missing_queue (amqp_dotnet_SUITE)
    attach_receiver_from_invalid_address (amqp_dotnet_SUITE)"""
    broker = InProcessBroker()
    peer = both_ways(broker)
    assert peer.attach_sender("/exchanges/missing", handle=5).target is None
    assert peer.detached_with("amqp:not-found")
    assert peer.attach_sender("nonsense", handle=6).target is None
    assert peer.detached_with("amqp:invalid-field")
    assert peer.attach_receiver("/queues/missing", handle=7).source is None
    assert peer.detached_with("amqp:not-found")
    assert peer.attach_receiver("nonsense", handle=8).source is None
    assert peer.detached_with("amqp:invalid-field")
    peer.transfer()
    assert peer.pick(Disposition).state == ACCEPTED


@case("amqp10_client system_SUITE", "multi_transfer_without_delivery_id")
@case("amqp10_client system_SUITE", "roundtrip_large_messages")
@case("amqp_dotnet_SUITE", "fragmentation")
def test_large_messages_whose_later_frames_have_no_delivery_id():
    """multi_transfer_without_delivery_id (amqp10_client system_SUITE)
    roundtrip_large_messages (amqp10_client system_SUITE)
    fragmentation (amqp_dotnet_SUITE)"""
    broker = InProcessBroker()
    peer = both_ways(broker)
    for size in (100, 65_536, 1_000_000):
        body = bytes(size)
        peer.send_all(peer.frames_of(data_message(body), 60_000))
        peer.grant(1)
        assert body_of(b"".join(payload for _, payload in peer.deliveries())) == body


@case("amqp_dotnet_SUITE", "default_outcome")
def test_the_default_outcome_of_a_source_is_released():
    """default_outcome (amqp_dotnet_SUITE): settling without a state puts the message back."""
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill([b"m"])
    peer = broker.connect()
    peer.begin()
    source = peer.attach_receiver(address, source=Source(address=address)).source
    assert type(source.default_outcome).__name__ == "Released"
    assert len(source.outcomes) == 4
    peer.grant(1)
    peer.dispose(0)
    assert broker.ready() == 1
