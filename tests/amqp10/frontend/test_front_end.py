"""The front end of one connection: its publishers and consumers in the engine, and what ends with what."""

import pytest

from amqp10.wire.framing import EMPTY_FRAME, encode_frame
from amqp10.wire.messaging import Accepted, Modified, Received, Source, Target
from amqp10.wire.performatives import (
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Performative,
    Transfer,
    encode_performative,
)
from core.clock import Now
from core.config.settings import Settings
from core.interface import PublisherBlocked
from tests.kit.client_frames import DURABLE
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, data_message, numbered


def linked(settings: Settings | None = None) -> tuple[InProcessBroker, WirePeer]:
    """A client that publishes to a queue at handle 0 and consumes from it at handle 1."""
    broker = InProcessBroker(settings)
    address = broker.queue()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(address)
    peer.attach_receiver(address)
    peer.frames.clear()
    return broker, peer


def publishers(broker: InProcessBroker) -> int:
    return len(broker.engine.snapshot("publishers"))


def consumers(broker: InProcessBroker) -> int:
    return broker.engine.queue_info("q", None).consumers


# --- the server's side


def test_actions_that_wait_are_taken_before_new_bytes():
    """Actions of the engine are applied before a new flow changes the link credit."""
    broker, peer = linked()
    broker.stall()
    peer.grant(5)
    for body in numbered(3):
        peer.transfer(body)
    broker.engine.set_stage_budget("q", None)
    broker.engine.turn(broker.now)
    flow, _ = peer.grant_frame(2)
    peer.front_end.receive_data(encode_frame(0, encode_performative(flow)), broker.now)
    assert peer.link(1).waiting == 2
    broker.touch(peer)
    broker.run()
    assert peer.bodies() == numbered(2)
    assert (broker.ready(), broker.unacknowledged()) == (1, 2)


def consuming(deliveries: int, *, link_credit: int = 10) -> tuple[InProcessBroker, WirePeer]:
    """A client that only consumes, and has got messages."""
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(broker.queue())
    peer.grant(link_credit)
    broker.fill(numbered(deliveries))
    return broker, peer


def received(broker: InProcessBroker, peer: WirePeer, *frames: Performative) -> bool:
    """Whether a flush is wanted after these frames, in one read."""
    data = b"".join(encode_frame(0, encode_performative(each)) for each in frames)
    return peer.front_end.receive_data(data, broker.now)


def test_the_settlement_of_deliveries_calls_for_no_flush():
    broker, peer = consuming(3)
    for first, last in ((0, 0), (1, 2)):
        assert not received(
            broker, peer, Disposition(role=True, first=first, last=last, settled=True, state=Accepted())
        )
    assert broker.unacknowledged() == 0
    assert not peer.front_end.receive_data(EMPTY_FRAME, broker.now)


@pytest.mark.parametrize(
    "frame",
    [
        Disposition(role=True, first=0, last=0, settled=False, state=Accepted()),
        Disposition(role=True, first=5, last=0, settled=True, state=Accepted()),
        Flow(incoming_window=9, next_outgoing_id=0, outgoing_window=9, handle=1, delivery_count=3, link_credit=5),
        Flow(incoming_window=9, next_outgoing_id=0, outgoing_window=9, echo=True),
        Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1),
        Detach(handle=1, closed=True),
        Close(),
    ],
)
def test_what_may_call_for_an_answer_calls_for_a_flush(frame: Performative):
    broker, peer = consuming(3)
    assert peer.front_end.receive_data(encode_frame(0, encode_performative(frame)), broker.now)


def test_messages_that_came_call_for_a_flush():
    broker, peer = linked()
    frame, payload = peer.transfer_frame(b"x", handle=0)
    assert peer.front_end.receive_data(encode_frame(0, encode_performative(frame), payload), broker.now)


def test_half_a_frame_calls_for_no_flush_and_the_other_half_does():
    broker, peer = linked()
    frame, payload = peer.transfer_frame(b"x", handle=0)
    data = encode_frame(0, encode_performative(frame), payload)
    assert not peer.front_end.receive_data(data[:9], broker.now)
    assert peer.front_end.receive_data(data[9:], broker.now)


def test_actions_that_wait_call_for_a_flush():
    broker, peer = consuming(3)
    settled = Disposition(role=True, first=0, last=0, settled=True, state=Accepted())
    broker.stall()
    broker.fill(numbered(1))
    broker.engine.set_stage_budget("q", None)
    broker.engine.turn(broker.now)
    assert received(broker, peer, settled)


def test_a_turn_ends_before_the_bytes_do_and_goes_on_later():
    broker = InProcessBroker(make_settings(amqp10={"frames_per_turn_max": 2}))
    peer = broker.connect()
    begin = Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)
    begins = b"".join(encode_frame(channel, encode_performative(begin)) for channel in range(5))
    peer.front_end.receive_data(begins, broker.now)
    assert not peer.front_end.reading
    assert len(peer.front_end.connection.sessions) == 2
    peer.front_end.take_actions(broker.now)
    assert len(peer.front_end.connection.sessions) == 4
    broker.run()
    assert len(peer.front_end.connection.sessions) == 5
    assert peer.front_end.reading


def test_at_the_end_of_the_socket_everything_that_came_is_taken():
    broker = InProcessBroker(make_settings(amqp10={"frames_per_turn_max": 1}))
    broker.queue()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender("/queues/q")
    frames = [
        peer.transfer_frame(b"%d" % n, handle=0, state=Received(section_number=0, section_offset=0)) for n in range(4)
    ]
    data = b"".join(encode_frame(0, encode_performative(each), payload) for each, payload in frames)
    peer.front_end.receive_data(data, broker.now)
    peer.front_end.receive_eof(broker.now)
    broker.run()
    assert broker.ready() == 4
    assert peer.front_end.finished


def test_established_with_the_peers_open():
    peer = WirePeer(InProcessBroker())
    assert not peer.front_end.established
    peer.handshake()
    assert not peer.front_end.established
    peer.open()
    assert peer.front_end.established
    assert not peer.front_end.finished


def test_the_operator_ends_the_connection():
    broker, peer = linked()
    broker.fill(numbered(2))
    peer.grant(2)
    peer.front_end.shut_down("maintenance", broker.now)
    broker.touch(peer)
    broker.run()
    assert peer.closed_with("amqp:connection:forced")
    assert (publishers(broker), consumers(broker), broker.ready()) == (0, 0, 2)


def test_a_connection_with_a_bug_sends_a_close():
    _, peer = linked()
    assert b"amqp:internal-error" in peer.front_end.last_words()
    assert WirePeer(InProcessBroker()).front_end.last_words() == b""


def test_deadlines_of_the_connection_and_of_reasons():
    broker, peer = linked(make_settings(amqp10={"idle_time_out": 10.0, "flow_reason": {"after": 0.05}}))
    assert peer.front_end.deadline() == broker.now.monotonic + 20
    broker.raise_alarm()
    assert peer.front_end.deadline() == pytest.approx(broker.now.monotonic + 0.05)
    peer.front_end.output_backlog(1)
    assert peer.front_end.deadline() == broker.now.monotonic + 20
    peer.front_end.tick(Now(broker.now.monotonic + 20, broker.now.wall + 20))
    assert peer.front_end.finished


# --- publishers and consumers in the engine


def test_a_hostname_selects_a_virtual_host_only_with_its_prefix():
    broker = InProcessBroker()
    for hostname in ("localhost", "vhost:/", None):
        broker.connect(hostname=hostname)
    peer = WirePeer(broker)
    peer.handshake()
    peer.open(hostname="vhost:other")
    assert peer.closed_with("amqp:not-found")


def test_publisher_and_consumer_come_and_go_with_their_links():
    broker, peer = linked()
    assert (publishers(broker), consumers(broker)) == (1, 1)
    peer.detach(0)
    assert (publishers(broker), consumers(broker)) == (0, 1)
    peer.detach(1)
    assert (publishers(broker), consumers(broker)) == (0, 0)


@pytest.mark.parametrize("how", ["end", "close", "lose"])
def test_everything_is_given_back_whatever_ends(how):
    broker, peer = linked()
    broker.fill(numbered(5))
    peer.grant(3)
    assert broker.unacknowledged() == 3
    if how == "lose":
        peer.disconnect()
    else:
        peer.send(End() if how == "end" else Close())
    assert (publishers(broker), consumers(broker)) == (0, 0)
    assert (broker.ready(), broker.unacknowledged()) == (5, 0)
    broker.fill(numbered(1))
    assert broker.ready() == 6


def test_a_queue_that_is_deleted_takes_its_links_with_it():
    broker, peer = linked()
    broker.fill(numbered(3))
    peer.grant(1)
    peer.frames.clear()
    broker.engine.delete_queue("q", None)
    broker.run()
    detaches = peer.take(Detach)
    assert sorted(detach.handle for detach in detaches) == [0, 1]
    assert {detach.error.condition for detach in detaches if detach.error} == {"amqp:resource-deleted"}
    assert peer.front_end.connection.opened


def test_dynamic_queues_go_with_their_links():
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    source = peer.attach_receiver(None, handle=0, source=Source(dynamic=True)).source
    target = peer.attach_sender(None, handle=1, target=Target(dynamic=True)).target
    assert isinstance(source, Source)
    assert isinstance(target, Target)
    assert source.address != target.address
    assert len(broker.engine.snapshot("queues")) == 2
    peer.detach(0)
    peer.detach(1)
    assert broker.engine.snapshot("queues") == []
    peer.attach_receiver(None, handle=2, source=Source(dynamic=True, address="/queues/mine"))
    assert peer.detached_with("amqp:invalid-field")
    assert broker.engine.snapshot("queues") == []


def test_a_dynamic_queue_is_not_left_behind_when_its_link_is_refused():
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(None, source=Source(dynamic=True), properties={"priority": "high"})
    assert peer.detached_with("amqp:invalid-field")
    assert broker.engine.snapshot("queues") == []


# --- deliveries


def test_a_message_that_the_consumer_does_not_take_detaches_it():
    broker = InProcessBroker()
    address = broker.queue()
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(address, max_message_size=50)
    broker.fill([b"x", b"y" * 100])
    peer.grant(5)
    assert peer.detached_with("amqp:link:message-size-exceeded")
    assert broker.ready() == 2


def test_what_the_engine_has_handed_out_behind_such_a_message_goes_back_too():
    broker = InProcessBroker()
    address = broker.queue()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(address)
    peer.attach_receiver(address, max_message_size=50)
    broker.stall()
    peer.grant(5)
    peer.transfer(b"y" * 100)
    peer.transfer(payload=DURABLE + data_message(b"x"))
    broker.recover()
    assert peer.detached_with("amqp:link:message-size-exceeded")
    assert not peer.take(Transfer)
    assert (broker.ready(), broker.unacknowledged()) == (2, 0)


def test_annotations_that_are_too_large_to_keep_detach_the_consumer():
    broker, peer = linked()
    broker.fill(numbered(1))
    peer.grant(1)
    peer.dispose(0, state=Modified(message_annotations={"x-opt-why": "x" * 5000}))
    assert peer.detached_with("amqp:resource-limit-exceeded")
    assert (broker.ready(), broker.unacknowledged()) == (1, 0)


def test_flows_and_settling_of_a_publisher_have_no_effect():
    """Three things without effect: a publisher's flows, its settling, and outcomes on links that are not consumers'."""
    broker, peer = linked()
    broker.stall()
    peer.transfer()
    peer.flow(handle=0, delivery_count=1, link_credit=0, available=77)
    peer.send(Disposition(role=False, first=0, settled=True))
    broker.recover()
    assert not peer.take(Disposition)
    assert broker.ready() == 1


def test_a_publisher_whose_target_is_full_gets_no_link_credit_until_it_is_not():
    broker, peer = linked()
    link = peer.link(0)
    publisher = link.reference.publisher
    publisher.mailbox.put(PublisherBlocked(publisher, "queue-full"))
    broker.run()
    assert link.credit.withheld
    link.credit.link_credit = 0
    assert link.reference.blocked_by(frozenset()) == "queue-full"
    publisher.mailbox.put(PublisherBlocked(publisher, None))
    broker.run()
    (flow,) = peer.take(Flow)
    assert flow.link_credit == link.credit.maximum
    assert link.reference.blocked_by(frozenset()) is None


def test_a_policy_bounds_the_link_credit_of_a_publisher():
    _, peer = linked()
    link = peer.link(0)
    publisher = link.reference.publisher
    publisher.link_credit_max = 10
    peer.transfer(b"x", handle=0)  # the link looks at the policy when its confirm comes
    assert (link.credit.maximum, link.credit.top_up_at) == (10, 5)
    link.credit.link_credit = 0
    assert link.reference.blocked_by(frozenset()) == "policy"


# --- alarms


def test_an_alarm_closes_the_windows_of_sessions_that_publish():
    broker, peer = linked()
    peer.begin(channel=1)
    peer.attach_receiver("/queues/q", channel=1)
    peer.frames.clear()
    broker.raise_alarm("memory")
    broker.raise_alarm("disk")
    (closed,) = peer.take(Flow)
    assert (closed.incoming_window, closed.handle) == (0, None)
    assert not peer.session(1).window.closed
    broker.clear_alarm("memory")
    assert peer.take(Flow) == []
    broker.clear_alarm("disk")
    (opened,) = peer.take(Flow)
    assert opened.incoming_window == 400


def test_a_publisher_that_attaches_during_an_alarm():
    broker = InProcessBroker()
    address = broker.queue()
    broker.raise_alarm()
    peer = broker.connect()
    peer.begin()
    assert not peer.session().window.closed
    peer.attach_sender(address)
    assert peer.session().window.closed
    broker.clear_alarm()
    assert not peer.session().window.closed
    peer.transfer()
    assert broker.ready() == 1


# --- a session that ends with many links


def with_many_links(count: int) -> tuple[InProcessBroker, WirePeer]:
    """A client with this many consumers in one session, of which a turn releases six."""
    broker = InProcessBroker(make_settings(engine={"work_per_turn": {"peer": 100}}))
    address = broker.queue()
    peer = broker.connect()
    peer.begin()
    for handle in range(count):
        peer.attach_receiver(address, handle=handle)
    peer.frames.clear()
    broker.rounds_max = 1
    return broker, peer


def test_links_of_a_session_that_ends_are_released_in_several_turns_and_what_follows_waits():
    broker, peer = with_many_links(20)
    begin = Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)
    peer.send_all([(End(), b""), (begin, b"")])
    assert 0 < consumers(broker) < 20
    assert [type(frame) for _, frame, _ in peer.frames] == [End], "the next session begins when the links are gone"
    seen = [consumers(broker)]
    for _ in range(5):
        broker.run()
        seen.append(consumers(broker))
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] == 0
    assert [type(frame) for _, frame, _ in peer.frames] == [End, Begin]


def test_a_connection_that_is_lost_while_a_session_ends_releases_the_rest():
    broker, peer = with_many_links(20)
    peer.send(End())
    assert 0 < consumers(broker) < 20
    turns = 0
    while peer.front_end.connection_lost(broker.now):
        turns += 1
        assert turns < 10
    assert consumers(broker) == 0
    assert turns > 0


def test_a_broker_that_stops_while_a_session_ends_releases_the_rest():
    broker, peer = with_many_links(20)
    peer.send(End())
    peer.front_end.shut_down("the broker stops", broker.now)
    for _ in range(10):
        broker.touch(peer)
        broker.run()
    assert consumers(broker) == 0


def test_news_of_a_full_target_for_a_link_that_is_over_is_no_news():
    peer = InProcessBroker().connect()
    peer.begin()
    peer.attach_sender(peer.broker.queue("full", x_max_length=2, x_overflow="block"))
    link = peer.link(0)
    while link.credit.link_credit:
        peer.publish([b"x"] * min(link.credit.link_credit, 100))
    publisher = link.reference.publisher
    peer.detach(0)
    publisher.mailbox.put(PublisherBlocked(publisher, "queue-full"))
    peer.front_end.take_actions(peer.broker.now)
    assert b"".join(peer.front_end.pieces_to_send(peer.broker.now)) == b""
