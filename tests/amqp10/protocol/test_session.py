"""One session without a connection: handles, the dispatch of frames, the scope of faults, and its output [2.5-2.7]."""

import pytest

from amqp10.errors import ConnectionFault, ErrorCondition, LinkFault, SessionFault
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.protocol.connection import Event
from amqp10.protocol.events import (
    CreditReceived,
    DeliveriesSettled,
    LinkDetached,
    ReceiverAttached,
    SenderAttached,
    SenderFlowReceived,
    SessionBegun,
    SessionEnded,
)
from amqp10.protocol.lifecycle import IllegalTransition, LinkState, SessionState
from amqp10.protocol.link import RECEIVER, SENDER
from amqp10.protocol.receiver_link import DeliveriesReceived, IncomingOutcome, IncomingSettled, ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session import IncomingChannel, OutgoingChannel, Session
from amqp10.protocol.settings import SessionLimits
from amqp10.wire.messaging import ACCEPTED, RELEASED, Received, Rejected, Source, Target
from amqp10.wire.performatives import Attach, Begin, Close, Detach, Disposition, End, Flow, Performative, Transfer
from amqp10.wire.transfer_run import TransferRun, TransferRunParser
from amqp10.wire.types import Described, ULong
from tests.kit.call_trace import traced_steps
from tests.kit.client_frames import CLIENTS, data_section
from tests.kit.session_connection import ConnectionInMemory

LIMIT = ErrorCondition.RESOURCE_LIMIT_EXCEEDED
CLIENT = next(client for client in CLIENTS if client.name == "rabbitmq")


class Mapped:
    """A session that both sides have begun. It keeps what it writes and reports."""

    def __init__(self, limits: SessionLimits | None = None, **begin: int) -> None:
        self.connection = ConnectionInMemory()
        self.session = Session(self.connection, OutgoingChannel(4), limits or SessionLimits())
        fields = {"next_outgoing_id": 0, "incoming_window": 100, "outgoing_window": 100} | begin
        self.session.begin_received(Begin(**fields), IncomingChannel(9))  # type: ignore[arg-type]
        self.session.begin()
        self.connection.written.clear()
        self.connection.events.clear()

    def take(self, performative: Performative, payload: bytes = b"") -> None:
        """Receive a frame."""
        self.session.frame_received(performative, payload)

    def events(self, kind: type[Event] | None = None) -> list[Event]:
        """The events since the last call."""
        events, self.connection.events = self.connection.events, []
        return [event for event in events if kind is None or isinstance(event, kind)]

    def written(self) -> list[Performative]:
        """The frames written since the last call."""
        written, self.connection.written = self.connection.written, []
        return [performative for performative, _ in written]

    def flushed(self) -> list[Performative]:
        """The frames of the next output."""
        self.session.flush()
        return self.written()

    def sender(self, handle: int = 0, name: str = "in", link_credit: int = 10) -> SenderLink:
        """A link on which we send, attached by the peer."""
        self.take(Attach(name=name, handle=handle, role=RECEIVER))
        (event,) = self.events(SenderAttached)
        assert isinstance(event, SenderAttached)
        event.link.attach(source=Source(), target=Target(), snd_settle_mode=0, rcv_settle_mode=0)
        self.take(flow(handle=handle, delivery_count=0, link_credit=link_credit))
        self.flushed()
        self.events()
        return event.link

    def receiver(self, handle: int = 1, name: str = "out", *, rcv: int = 0, link_credit: int = 10) -> ReceiverLink:
        """A link on which we receive, attached by the peer."""
        self.take(Attach(name=name, handle=handle, role=SENDER, initial_delivery_count=0))
        (event,) = self.events(ReceiverAttached)
        assert isinstance(event, ReceiverAttached)
        event.link.attach(
            source=Source(), target=Target(), snd_settle_mode=2, rcv_settle_mode=rcv, credit=ReceiverCredit()
        )
        event.link.grant(link_credit)
        self.flushed()
        return event.link


def flow(**fields: object) -> Flow:
    given = {"next_incoming_id": 0, "incoming_window": 100, "next_outgoing_id": 0, "outgoing_window": 100}
    return Flow(**(given | fields))  # type: ignore[arg-type]


def transfer(delivery_id: int, *, handle: int = 1, **fields: object) -> Transfer:
    return Transfer(handle=handle, delivery_id=delivery_id, delivery_tag=b"t", **fields)  # type: ignore[arg-type]


def run_of(n: int, *, first: int = 1, handle: int = 1) -> TransferRun:
    """A run from the fast path."""
    frames = b"".join(
        CLIENT.transfer(data_section(b"x"), delivery_id=number, channel=9, handle=handle)
        for number in range(first, first + n)
    )
    run = TransferRunParser(max_frame_size=512).parse(frames, 0, limit=n)
    assert run is not None
    return run


def session_fault(condition: ErrorCondition, match: str = ""):
    return pytest.raises(SessionFault, match=f"^{condition}: .*{match}")


# --- begin and end


def test_the_peer_begins_and_we_answer():
    connection = ConnectionInMemory()
    limits = SessionLimits(max_incoming_window=7, window_top_up=3, handle_max=5, initial_outgoing_id=99)
    session = Session(connection, OutgoingChannel(4), limits)
    begin = Begin(next_outgoing_id=6, incoming_window=8, outgoing_window=9)
    session.begin_received(begin, IncomingChannel(2))
    assert connection.events == [SessionBegun(session, begin)]
    assert not session.mapped
    session.begin(properties={"k": "v"})
    assert session.mapped
    assert connection.written[0][0] == Begin(
        remote_channel=2,
        next_outgoing_id=99,
        incoming_window=7,
        outgoing_window=2**32 - 1,
        handle_max=5,
        properties={"k": "v"},
    )
    window = session.window
    assert (window.next_incoming_id, window.remote_incoming_window, window.remote_outgoing_window) == (6, 8, 9)


def test_we_begin_and_the_peer_answers():
    session = Session(ConnectionInMemory(), OutgoingChannel(4), SessionLimits())
    session.begin()
    assert session.state is SessionState.BEGIN_SENT
    session.flush()
    session.begin_received(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), IncomingChannel(0))
    assert session.mapped


@pytest.mark.parametrize("fault", [None, SessionFault(LIMIT, "enough")])
def test_we_end_and_pass_over_what_still_comes(fault):
    world = Mapped()
    link = world.sender()
    link.send_run(0, [b"x"], b"")
    world.session.end(fault)
    transferred, end = world.written()
    assert isinstance(transferred, Transfer)
    assert isinstance(end, End)
    assert (end.error is None) == (fault is None)
    world.events()
    world.take(flow())
    world.take(Transfer(handle=77))
    world.session.run_received(run_of(1))
    world.session.disposition_received(role=RECEIVER, first=9, last=0, settled=True, state=None)
    world.session.flush()
    assert world.written() == world.events() == []
    world.session.end_received(End())
    assert world.session.state is SessionState.ENDED
    assert world.written() == world.events() == []


def test_the_peer_ends_and_is_answered():
    world = Mapped()
    world.receiver()
    world.session.end_received(End())
    assert world.written() == [End()]
    assert world.events() == [SessionEnded(world.session, None)]
    assert world.session.state is SessionState.ENDED


def test_a_session_that_fails_before_our_begin_is_begun_first():
    connection = ConnectionInMemory()
    session = Session(connection, OutgoingChannel(4), SessionLimits())
    session.begin_received(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), IncomingChannel(0))
    session.fail(SessionFault(LIMIT, "enough"))
    begin, end = (performative for performative, _ in connection.written)
    assert isinstance(begin, Begin)
    assert isinstance(end, End)
    assert end.error is not None
    assert end.error.condition == LIMIT
    assert session.state is SessionState.DISCARDING
    assert isinstance(connection.events[-1], SessionEnded)


def test_what_the_peer_may_not_do_ends_the_connection_and_our_own_mistake_is_a_bug():
    session = Session(ConnectionInMemory(), OutgoingChannel(4), SessionLimits())
    with pytest.raises(ConnectionFault, match="illegal-state: session: closing received in state UNMAPPED"):
        session.end_received(End())
    with pytest.raises(IllegalTransition):
        session.end()


@pytest.mark.parametrize("strange", [Begin(next_outgoing_id=0, incoming_window=0, outgoing_window=0), Close()])
def test_what_does_not_belong_into_a_session(strange):
    world = Mapped()
    with pytest.raises(ConnectionFault, match="inside a session"):
        world.take(strange)


# --- windows and session flows


def test_the_window_is_closed_and_opened():
    world = Mapped()
    session, to_flush = world.session, world.connection.to_flush
    for change, window in ((session.close_incoming_window, 0), (session.open_incoming_window, 400)):
        to_flush.clear()
        change()
        assert to_flush.popitem() == (session, None)
        change()
        assert not to_flush
        (told,) = world.flushed()
        assert isinstance(told, Flow)
        assert told.incoming_window == window


def test_a_session_flow_is_answered_when_it_asks():
    world = Mapped()
    world.take(flow())
    assert world.flushed() == []
    world.take(flow(echo=True))
    (answer,) = world.flushed()
    assert isinstance(answer, Flow)
    assert answer == Flow(
        next_incoming_id=0, incoming_window=400, next_outgoing_id=0, outgoing_window=2**32 - 1, echo=False
    )
    world.session.send_flow(echo=True)
    (asking,) = world.written()
    assert isinstance(asking, Flow)
    assert asking.echo


def test_a_flow_before_the_answer_to_our_begin_names_no_incoming_id():
    connection = ConnectionInMemory()
    session = Session(connection, OutgoingChannel(4), SessionLimits())
    session.begin()
    session.send_flow()
    ((_, _), (sent, _)) = connection.written
    assert isinstance(sent, Flow)
    assert sent.next_incoming_id is None


def test_a_flow_that_has_seen_more_than_was_sent():
    world = Mapped()
    with session_fault(ErrorCondition.WINDOW_VIOLATION):
        world.take(flow(next_incoming_id=1))


def test_more_frames_than_the_window():
    world = Mapped(SessionLimits(max_incoming_window=2, window_top_up=0))
    world.receiver()
    world.take(transfer(0), b"x")
    world.take(transfer(1), b"x")
    with session_fault(ErrorCondition.WINDOW_VIOLATION):
        world.take(transfer(2), b"x")


def test_of_a_run_beyond_the_window_what_fits_is_taken():
    world = Mapped(SessionLimits(max_incoming_window=3, window_top_up=0))
    world.receiver()
    with session_fault(ErrorCondition.WINDOW_VIOLATION, "by 2 transfer"):
        world.session.run_received(run_of(5))
    (event,) = world.events(DeliveriesReceived)
    assert isinstance(event, DeliveriesReceived)
    assert len(event.entries) == 3


def test_a_run_when_the_window_is_used_up():
    world = Mapped(SessionLimits(max_incoming_window=3, window_top_up=0))
    world.receiver()
    world.session.run_received(run_of(3))
    with session_fault(ErrorCondition.WINDOW_VIOLATION):
        world.session.run_received(run_of(2, first=4))
    assert len(world.events(DeliveriesReceived)) == 1


# --- links


def test_handles_are_like_the_peers_where_possible():
    world = Mapped()
    assert [world.sender(handle, f"in-{handle}").end.handle for handle in (5, 0)] == [5, 0]
    assert world.session.new_sender("ours").end.handle == 1
    assert world.receiver(1, "out-1").end.handle == 2
    assert [link.end.handle for link in world.session.links] == [5, 0, 1, 2]


def test_handles_stay_below_what_the_peer_takes():
    world = Mapped(handle_max=1)
    assert world.sender(7, "a").end.handle == 0
    assert world.sender(8, "b").end.handle == 1
    with session_fault(LIMIT, "handle-max of the peer is 1"):
        world.take(Attach(name="c", handle=9, role=RECEIVER))


def test_handles_that_the_peer_may_not_use():
    world = Mapped(SessionLimits(handle_max=1))
    world.sender(0)
    with session_fault(ErrorCondition.HANDLE_IN_USE):
        world.take(Attach(name="other", handle=0, role=RECEIVER))
    with pytest.raises(ConnectionFault, match="framing-error: handle 2"):
        world.take(Attach(name="other", handle=2, role=RECEIVER))
    for frame in (Detach(handle=1), flow(handle=1), Transfer(handle=1)):
        with session_fault(ErrorCondition.UNATTACHED_HANDLE):
            world.take(frame)
    with session_fault(ErrorCondition.UNATTACHED_HANDLE):
        world.session.run_received(run_of(1))


def test_a_sender_without_initial_delivery_count_is_refused():
    world = Mapped()
    world.take(Attach(name="out", handle=0, role=SENDER))
    attach, detach = world.written()
    assert isinstance(attach, Attach)
    assert isinstance(detach, Detach)
    assert detach.error is not None
    assert detach.error.condition == ErrorCondition.INVALID_FIELD
    assert world.events() == []


@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_we_attach_and_the_peer_answers(role):
    world = Mapped()
    link: SenderLink | ReceiverLink
    if role is SENDER:
        link = world.session.new_sender("ours")
        link.attach(source=Source(), target=Target(), snd_settle_mode=0, rcv_settle_mode=0)
    else:
        link = world.session.new_receiver("ours")
        link.attach(source=Source(), target=Target(), snd_settle_mode=0, rcv_settle_mode=0, credit=ReceiverCredit())
    world.take(Attach(name="other", handle=3, role=not role, initial_delivery_count=0))
    world.take(Attach(name="ours", handle=4, role=not role, initial_delivery_count=None if role is SENDER else 5))
    assert link.end.attached
    assert [event.link is link for event in world.events()] == [False, True]  # type: ignore[union-attr]
    assert len(world.session.links) == 2


def test_an_answer_to_an_attach_that_was_taken_back_means_nothing():
    world = Mapped()
    link = world.session.new_sender("ours")
    link.attach(source=Source(), target=Target(), snd_settle_mode=0, rcv_settle_mode=0)
    world.session.detach(link)
    world.take(Attach(name="ours", handle=0, role=RECEIVER))
    assert link.end.state is LinkState.DETACH_SENT
    world.take(Detach(handle=0))
    assert link.end.state is LinkState.GONE
    assert world.events() == world.session.links == []


def test_answers_to_attaches_of_one_name_go_to_the_links_in_order_of_opening():
    world = Mapped()
    first, second, third = (world.session.new_sender("ours") for _ in range(3))
    for link in (third, second):
        link.attach(source=Source(), target=Target(), snd_settle_mode=0, rcv_settle_mode=0)
    for handle in (6, 7):
        world.take(Attach(name="ours", handle=handle, role=RECEIVER))
    assert [link.end.incoming_handle for link in (first, second, third)] == [None, 6, 7]


def test_attaching_takes_as_many_steps_beside_many_links_as_beside_one():
    world = Mapped(SessionLimits(handle_max=1000))

    def steps_of_attaching(handle: int) -> int:
        with traced_steps() as steps:
            world.take(Detach(handle=world.sender(handle, f"in-{handle}").end.incoming_handle))
        return steps.total()

    alone = steps_of_attaching(0)
    for handle in range(500):
        world.sender(handle, f"in-{handle}")
        world.session.new_receiver(f"ours-{handle}")
    assert abs(steps_of_attaching(1000) - alone) <= 20


def test_frames_on_a_link_that_we_have_detached_are_absorbed():
    world = Mapped()
    sender, receiver = world.sender(), world.receiver()
    world.session.detach(sender)
    world.session.detach(receiver, LinkFault(LIMIT, "enough"))
    world.written()
    world.take(flow(handle=0, delivery_count=0, link_credit=5))
    world.take(transfer(0), b"x")
    world.session.run_received(run_of(2))
    world.session.fail_link(receiver, LinkFault(LIMIT, "again"))
    assert world.events() == world.flushed() == []
    assert world.session.window.next_incoming_id == 3
    world.take(Detach(handle=1))
    world.take(Detach(handle=0))
    assert world.session.links == world.written() == []


def test_the_peer_detaches():
    world = Mapped()
    link = world.sender()
    link.send_run(0, [b"x"], b"")
    world.take(Detach(handle=0, closed=False))
    sent, detach = world.written()
    assert isinstance(sent, Transfer)
    assert detach == Detach(handle=0, closed=False)
    (event,) = world.events(LinkDetached)
    assert event == LinkDetached(link, None, closed=False)
    assert world.session.links == []
    assert world.session.outgoing.count == 0


def test_a_link_that_breaks_a_rule_goes_and_the_session_stays():
    world = Mapped()
    link = world.receiver(link_credit=1)
    world.take(transfer(0), b"x")
    world.take(transfer(1), b"x")
    detach = world.written()[-1]
    assert isinstance(detach, Detach)
    assert detach.error is not None
    assert detach.error.condition == ErrorCondition.TRANSFER_LIMIT_EXCEEDED
    assert [type(event) for event in world.events()] == [DeliveriesReceived, LinkDetached]
    assert not link.end.attached
    assert world.session.mapped


def test_a_run_that_breaks_a_rule_of_its_link():
    world = Mapped()
    world.receiver(link_credit=1)
    world.session.run_received(run_of(3))
    assert [type(event) for event in world.events()] == [DeliveriesReceived, LinkDetached]
    assert world.session.incoming.count == 0


def test_a_transfer_on_a_link_on_which_the_peer_receives():
    world = Mapped()
    world.sender()
    with session_fault(ErrorCondition.NOT_ALLOWED, "'in'"):
        world.take(transfer(0, handle=0), b"x")


def test_a_link_is_stolen():
    world = Mapped()
    former = world.sender(0, "same")
    newer = world.sender(1, "same")
    assert former.end.state is LinkState.DETACH_SENT
    assert newer.end.attached
    world.receiver(2, "same")
    assert newer.end.attached


def test_a_link_that_waits_for_its_answer_is_stolen_silently():
    world = Mapped()
    world.take(Attach(name="same", handle=0, role=RECEIVER))
    world.take(Attach(name="same", handle=1, role=RECEIVER))
    assert [type(event) for event in world.events()] == [SenderAttached, SenderAttached]
    assert world.written() == []


# --- link flows


def test_a_flow_sets_the_link_credit_of_a_sender():
    world = Mapped()
    link = world.sender()
    frame = flow(handle=0, delivery_count=0, link_credit=3, drain=True)
    world.take(frame)
    assert world.events() == [CreditReceived(link, frame)]
    assert (link.credit.link_credit, link.credit.drain) == (3, True)


def test_a_flow_tells_a_receiver_of_its_sender():
    world = Mapped()
    link = world.receiver()
    frame = flow(handle=1, delivery_count=4, link_credit=0, available=8, echo=True)
    world.take(frame)
    assert world.events() == [SenderFlowReceived(link, frame, 4)]
    assert (link.credit.available, link.credit.link_credit) == (8, 6)
    (answer,) = world.flushed()
    assert isinstance(answer, Flow)
    assert (answer.handle, answer.link_credit, answer.delivery_count) == (1, 6, 4)


# --- deliveries and their settling


def test_delivery_ids_only_grow():
    world = Mapped()
    world.receiver()
    world.take(transfer(2**32 - 2), b"x")
    world.session.run_received(run_of(3, first=1))
    assert [event.first for event in world.events(DeliveriesReceived)] == [2**32 - 2, 2**32 + 1]  # type: ignore[union-attr]
    for delivery_id in (3, 2, 2**32 - 1):
        with session_fault(ErrorCondition.INVALID_FIELD, f"delivery-id {delivery_id} does not follow 3"):
            world.take(transfer(delivery_id), b"x")


def test_no_run_is_taken_while_a_delivery_of_its_link_is_unfinished():
    world = Mapped()
    world.receiver()
    assert world.session.run_received(run_of(2, first=0))
    world.take(transfer(2, more=True), b"x")
    left = world.session.window.incoming_window
    assert not world.session.run_received(run_of(2, first=3))
    assert world.session.window.incoming_window == left
    assert [event.first for event in world.events(DeliveriesReceived)] == [0]  # type: ignore[union-attr]
    assert world.connection.partial_bytes > 0


def test_the_peer_gives_outcomes():
    world = Mapped()
    link = world.sender()
    link.send_run(0, [b"a", b"b", b"c", b"d"], b"")
    world.flushed()
    world.events()
    world.take(Disposition(role=RECEIVER, first=1, settled=True, state=ACCEPTED))
    world.take(Disposition(role=RECEIVER, first=0, last=2, settled=False, state=RELEASED))
    world.take(Disposition(role=RECEIVER, first=3, last=9, settled=True))
    world.take(Disposition(role=RECEIVER, first=0, last=9, settled=True, state=ACCEPTED))
    assert world.events() == [
        DeliveriesSettled(link, 1, 1, ACCEPTED, [(1, 1)]),
        DeliveriesSettled(link, 0, 2, RELEASED, [(0, 0), (2, 2)]),
        DeliveriesSettled(link, 3, 3, None, [(3, 3)]),
    ]
    (answer,) = world.flushed()
    assert answer == Disposition(role=SENDER, first=0, last=2, settled=True, state=RELEASED)


@pytest.mark.parametrize("state", [None, Received(section_number=0, section_offset=0)])
def test_a_disposition_that_decides_nothing(state):
    world = Mapped()
    link = world.sender()
    link.send_run(0, [b"a"], b"")
    world.flushed()
    world.events()
    world.take(Disposition(role=RECEIVER, first=0, settled=False, state=state))
    assert world.events() == world.flushed() == []
    assert world.session.outgoing.count == 1


def test_the_peer_settles_what_it_has_sent():
    world = Mapped()
    world.take(Disposition(role=SENDER, first=0, last=5, settled=True))
    link = world.receiver()
    for number in range(3):
        world.take(transfer(number), b"x")
    world.events()
    world.take(Disposition(role=SENDER, first=1, last=5, settled=False))
    assert world.events() == [], "it says nothing"
    world.take(Disposition(role=SENDER, first=1, last=5, settled=False, state=ACCEPTED))
    assert world.events() == [IncomingOutcome(link, 1, 2, ACCEPTED, [(1, 2)])]
    assert world.session.incoming.count == 3, "they are unsettled until this end settles them"
    world.take(Disposition(role=SENDER, first=1, last=5, settled=True, state=ACCEPTED))
    assert world.events() == [IncomingSettled(link, 1, 2, ACCEPTED, [(1, 2)])]
    assert world.session.incoming.count == 1


@pytest.mark.parametrize(
    ("disposition", "condition", "match"),
    [
        (Disposition(role=RECEIVER, first=3, last=2, settled=True), "invalid-field", "last is before first"),
        (Disposition(role=SENDER, first=0, last=2**31, settled=True), "invalid-field", "last is before first"),
        (Disposition(role=RECEIVER, first=0, state=Described(ULong(0x34), [])), "not-implemented", "not known here"),
    ],
)
def test_dispositions_that_cannot_be(disposition, condition, match):
    world = Mapped()
    with session_fault(f"amqp:{condition}", match):
        world.take(disposition)


def test_outcomes_of_ours_go_out_once_per_flush():
    world = Mapped()
    link = world.receiver(rcv=1)
    for number in range(4):
        world.take(transfer(number), b"x")
    link.settle(0, 1, ACCEPTED)
    link.settle(2, 2, ACCEPTED)
    link.settle(3, 3, Rejected())
    assert world.flushed() == [
        Disposition(role=RECEIVER, first=0, last=2, settled=False, state=ACCEPTED),
        Disposition(role=RECEIVER, first=3, settled=False, state=Rejected()),
    ]
    assert world.session.incoming.count == 4
    assert not world.session.blocked


def test_a_session_is_blocked_while_deliveries_wait():
    world = Mapped()
    link = world.sender()
    world.take(flow(incoming_window=1))
    link.send_run(0, [b"a", b"b"], b"")
    assert len(world.flushed()) == 1
    assert world.session.blocked
    world.take(flow(next_incoming_id=1, incoming_window=1))
    assert len(world.flushed()) == 1
    assert not world.session.blocked
