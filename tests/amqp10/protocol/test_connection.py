"""One connection, frames in and frames out: open, close, channels, time-outs, turns, and the scope of faults [2.4,
2.7]."""

import pytest

from amqp10.errors import ConnectionFault, ErrorCondition, LinkFault
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.protocol.connection import Connection, Event
from amqp10.protocol.events import (
    ConnectionClosed,
    ConnectionOpened,
    CreditReceived,
    DeliveriesSettled,
    ReceiverAttached,
    SenderAttached,
    SessionBegun,
    SessionEnded,
)
from amqp10.protocol.handshake import NoHandshake, ServerHandshake
from amqp10.protocol.lifecycle import ConnectionState, IllegalTransition
from amqp10.protocol.link import RECEIVER, SENDER
from amqp10.protocol.receiver_link import DeliveriesReceived, PartialDelivery
from amqp10.protocol.settings import ConnectionSettings
from amqp10.wire.framing import EMPTY_FRAME, PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL, encode_frame
from amqp10.wire.messaging import ACCEPTED, Error, Source, Target
from amqp10.wire.performatives import (
    Attach,
    Begin,
    Close,
    Disposition,
    End,
    Flow,
    Open,
    Performative,
    Transfer,
    encode_performative,
)
from tests.kit.client_frames import CLIENTS, data_section
from tests.kit.link_channel import decode_frames

CLIENT = next(client for client in CLIENTS if client.name == "rabbitmq")
BEGIN = Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)


def frame(performative: Performative, payload: bytes = b"", channel: int = 0) -> bytes:
    return encode_frame(channel, encode_performative(performative), payload)


class Served:
    """A connection that answers open, begin and attach, and keeps everything else for the test."""

    def __init__(self, *, opened: bool = True, answers: bool = True, **settings: object) -> None:
        given = {"container_id": "us", "idle_time_out_ms": None} | settings
        self.connection = Connection(ConnectionSettings(**given), NoHandshake())  # type: ignore[arg-type]
        self.answers = answers
        self.events: list[Event] = []
        self.now = 100.0
        if opened:
            self.take(frame(Open(container_id="them", max_frame_size=1000)))
            self.sent()
            self.events.clear()

    def take(self, data: bytes) -> None:
        """Receive bytes, and answer the events."""
        self.connection.receive_data(data, self.now)
        self.take_events()

    def take_events(self) -> None:
        while (event := self.connection.next_event()) is not None:
            self.events.append(event)
            if self.answers:
                self._answer(event)

    def sent(self) -> list[Performative]:
        """The frames that we sent since the last call."""
        return [performative for performative, _ in decode_frames(self.connection.data_to_send(self.now))]

    def closed_with(self, condition: str, match: str = "") -> bool:
        """Check that we closed with this condition, and sent nothing after it."""
        close = self.sent()[-1]
        assert isinstance(close, Close)
        assert close.error is not None
        assert match in (close.error.description or "")
        assert self.connection.finished
        assert self.connection.error == close.error
        assert isinstance(self.events[-1], ConnectionClosed)
        assert self.events[-1] == ConnectionClosed(close.error, by_peer=False)
        return close.error.condition == condition

    def _answer(self, event: Event) -> None:
        match event:
            case ConnectionOpened():
                self.connection.open()
            case SessionBegun(session) if not session.mapped:
                session.begin()
            case SenderAttached(link):
                link.attach(source=Source(), target=Target(), snd_settle_mode=0, rcv_settle_mode=0)
            case ReceiverAttached(link):
                link.attach(
                    source=Source(), target=Target(), snd_settle_mode=2, rcv_settle_mode=0, credit=ReceiverCredit()
                )
                link.grant(100)


def linked(**settings: object) -> Served:
    """A session on channel 3, on which the peer sends at handle 0 and receives at handle 1."""
    served = Served(**settings)
    attach = Attach(name="out", handle=0, role=SENDER, initial_delivery_count=0)
    served.take(frame(BEGIN, channel=3) + frame(attach, channel=3))
    served.take(frame(Attach(name="in", handle=1, role=RECEIVER), channel=3) + grant(1000))
    served.sent()
    served.events.clear()
    return served


def grant(link_credit: int) -> bytes:
    """Receive a flow with link credit from the peer."""
    session = {"next_incoming_id": 0, "incoming_window": 10_000, "next_outgoing_id": 0, "outgoing_window": 100}
    return frame(Flow(**session, handle=1, delivery_count=0, link_credit=link_credit), channel=3)


def transfers(n: int, first: int = 1, channel: int = 3) -> bytes:
    """Single-frame deliveries that the fast path understands."""
    return b"".join(
        CLIENT.transfer(data_section(b"x"), delivery_id=number, channel=channel) for number in range(first, first + n)
    )


# --- open


def test_the_peer_opens_and_we_answer():
    served = Served(
        opened=False,
        hostname="vhost:/",
        max_frame_size=4096,
        channel_max=7,
        idle_time_out_ms=5000,
        properties={"product": "x"},
        offered_capabilities=("a",),
        desired_capabilities=("b",),
    )
    opening = Open(container_id="them", max_frame_size=1000)
    served.take(frame(opening))
    assert served.events == [ConnectionOpened(opening)]
    assert served.sent() == [
        Open(
            container_id="us",
            hostname="vhost:/",
            max_frame_size=4096,
            channel_max=7,
            idle_time_out=5000,
            offered_capabilities=("a",),
            desired_capabilities=("b",),
            properties={"product": "x"},
        )
    ]
    assert served.connection.opened
    assert served.connection.frame_size_max == 1000
    assert (served.connection.frames_received, served.connection.frames_sent) == (1, 1)


def test_we_open_and_the_peer_answers():
    served = Served(opened=False, answers=False)
    served.connection.open()
    assert served.connection.state is ConnectionState.OPEN_SENT
    with pytest.raises(IllegalTransition):
        served.connection.open()
    served.take(frame(Open(container_id="them")))
    assert served.connection.opened


@pytest.mark.parametrize(
    ("opening", "condition", "match"),
    [
        (frame(BEGIN), ErrorCondition.ILLEGAL_STATE, "begin before open"),
        (frame(Close()), ErrorCondition.ILLEGAL_STATE, "close before open"),
        (frame(Open(container_id="x"), channel=1), ErrorCondition.FRAMING_ERROR, "channel 1"),
        (frame(Open(container_id="x", max_frame_size=511)), ErrorCondition.FRAMING_ERROR, "max-frame-size 511"),
        (frame(Open(container_id="x", idle_time_out=99)), ErrorCondition.NOT_ALLOWED, "idle-time-out 99"),
        (frame(Open(container_id="x" * 600)), ErrorCondition.FRAMING_ERROR, "above the max-frame-size of 512"),
        (b"\x00\x00\x00\x07\x02\x00\x00\x00", ErrorCondition.FRAMING_ERROR, "frame size 7"),
        (encode_frame(0, b"\x00\x53\x10\xc0\x03\x01\xa1"), ErrorCondition.DECODE_ERROR, ""),
        (encode_frame(0, b"\x00\x53\x10\x45"), ErrorCondition.INVALID_FIELD, "container"),
    ],
)
def test_openings_that_are_refused(opening, condition, match):
    """We send an open first, because a close needs an open before it."""
    served = Served(opened=False, pre_open_frame_size_max=512)
    served.take(opening)
    output = served.connection.data_to_send(served.now)
    (first, _), (close, _) = decode_frames(output)
    assert isinstance(first, Open)
    assert isinstance(close, Close)
    assert close.error is not None
    assert close.error.condition == condition
    assert match in (close.error.description or "")
    assert isinstance(served.events[-1], ConnectionClosed)
    served.take(frame(Open(container_id="too late")))
    assert served.sent() == []


def test_a_fault_before_our_answer_to_the_open():
    served = Served(opened=False, answers=False)
    served.take(frame(Open(container_id="them")) + encode_frame(200, encode_performative(BEGIN)))
    assert [type(performative) for performative in served.sent()] == [Open, Close]


def test_an_idle_time_out_of_zero_is_none():
    served = Served(opened=False)
    served.take(frame(Open(container_id="them", idle_time_out=0)))
    assert served.connection.opened
    assert served.connection.deadline() is None


# --- close


def test_the_peer_closes_and_is_answered():
    served = linked()
    error = Error(condition="amqp:connection:forced", description="bye")
    served.take(frame(Close(error=error)) + transfers(3))
    assert served.events == [ConnectionClosed(error, by_peer=True)]
    assert served.sent() == [Close()]
    assert served.connection.state is ConnectionState.END
    assert served.connection.finished
    assert served.connection.error == error
    assert not served.connection.opened
    served.take(frame(Close()))
    assert served.connection.next_event() is None


def test_a_close_before_our_open_is_answered_with_both():
    served = Served(opened=False, answers=False)
    served.take(frame(Open(container_id="them")) + frame(Close()))
    assert [type(performative) for performative in served.sent()] == [Open, Close]
    assert served.connection.finished


def test_we_close_after_what_is_due_and_wait_for_the_answer():
    served = linked()
    (session,) = served.connection.sessions
    sender = session.links[1]
    sender.send_run(0, [b"x"], b"")  # type: ignore[union-attr]
    served.connection.close(ConnectionFault(ErrorCondition.CONNECTION_FORCED, "bye"), monotonic=served.now)
    transfer, close = served.sent()
    assert isinstance(transfer, Transfer)
    assert isinstance(close, Close)
    served.connection.close(monotonic=served.now)
    session.send_flow()
    served.take(frame(BEGIN, channel=1) + transfers(2))
    assert served.sent() == []
    assert not served.connection.finished
    served.take(frame(Close()))
    assert served.events[-1] == ConnectionClosed(close.error, by_peer=False)
    assert served.connection.finished


def test_we_close_and_the_peer_does_not_answer():
    served = Served(close_time_out_ms=500)
    served.connection.close(monotonic=served.now)
    assert served.connection.deadline() == served.now + 0.5
    served.connection.tick(served.now + 0.4)
    assert not served.connection.finished
    served.connection.tick(served.now + 0.5)
    assert served.connection.finished
    assert served.connection.deadline() is None


@pytest.mark.parametrize("peer_opened", [True, False])
def test_closing_before_our_open(peer_opened):
    served = Served(opened=False, answers=False)
    if peer_opened:
        served.take(frame(Open(container_id="them")))
    served.connection.close(ConnectionFault(ErrorCondition.NOT_FOUND, "no such host"), monotonic=served.now)
    assert [type(performative) for performative in served.sent()] == [Open, Close]
    served.take(frame(Open(container_id="them") if not peer_opened else BEGIN))
    served.take(frame(Close()))
    assert served.connection.finished
    assert served.sent() == []


def test_closing_before_the_end_of_the_handshake():
    handshake = ServerHandshake([], bare_allowed=True, refusal_delay_s=lambda: 1.0, frame_size_max=512)
    connection = Connection(ConnectionSettings(container_id="us"), handshake)
    connection.close(ConnectionFault(ErrorCondition.CONNECTION_FORCED, "bye"), monotonic=0.0)
    assert connection.finished
    assert connection.data_to_send(0.0) == b""
    assert connection.error == Error(condition="amqp:connection:forced", description="bye")
    assert connection.next_event() == ConnectionClosed(connection.error, by_peer=False)
    connection.receive_eof()
    connection.receive_data(PROTOCOL_HEADER_AMQP, 0.0)
    assert connection.next_event() is None


def test_a_bug_of_ours_closes_whatever_state_is_left():
    served = Served()
    (close, _) = decode_frames(served.connection.close_for_a_bug())[0]
    assert isinstance(close, Close)
    assert close.error is not None
    assert close.error.condition == ErrorCondition.INTERNAL_ERROR
    assert Served(opened=False).connection.close_for_a_bug() == b""


@pytest.mark.parametrize("rest", [b"", frame(BEGIN)[:-1]])
def test_the_socket_is_closed_by_the_peer(rest):
    served = Served()
    served.take(rest)
    served.connection.receive_eof()
    served.take_events()
    assert served.events == [ConnectionClosed(None, by_peer=True)]
    served.connection.receive_eof()
    served.take_events()
    assert len(served.events) == 1
    assert served.connection.finished


# --- sessions and channels


def test_channels_are_like_the_peers_where_possible():
    served = Served(channel_max=3)
    for channel in (3, 0):
        served.take(frame(BEGIN, channel=channel))
    own = served.connection.new_session()
    own.begin()
    assert [session.outgoing_channel for session in served.connection.all_sessions] == [3, 0, 1]
    assert [session.outgoing_channel for session in served.connection.sessions] == [3, 0]
    served.take(frame(Begin(remote_channel=1, next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=2))
    assert own.mapped
    with_limits = served.connection.new_session(own.limits)
    assert with_limits.outgoing_channel == 2
    with pytest.raises(ConnectionFault, match="4 sessions are begun"):
        served.connection.new_session()


def test_a_peer_with_few_channels():
    served = Served(opened=False)
    served.take(frame(Open(container_id="them", channel_max=0)))
    served.take(frame(BEGIN, channel=5))
    assert [session.outgoing_channel for session in served.connection.sessions] == [0]
    served.take(frame(BEGIN, channel=6))
    assert served.closed_with(ErrorCondition.RESOURCE_LIMIT_EXCEEDED)


@pytest.mark.parametrize(
    ("data", "condition", "match"),
    [
        (frame(Open(container_id="again")), ErrorCondition.ILLEGAL_STATE, "a second open"),
        (frame(BEGIN, channel=64), ErrorCondition.FRAMING_ERROR, "channel 64 is above the channel-max 63"),
        (transfers(1, channel=64), ErrorCondition.FRAMING_ERROR, "channel 64"),
        (transfers(1, channel=2), ErrorCondition.NOT_ALLOWED, "channel 2, where no session"),
        (frame(End(), channel=2), ErrorCondition.NOT_ALLOWED, "channel 2, where no session"),
        (frame(BEGIN, channel=3), ErrorCondition.ILLEGAL_STATE, "channel 3, which has a session"),
        (
            frame(Begin(remote_channel=9, next_outgoing_id=0, incoming_window=1, outgoing_window=1)),
            ErrorCondition.INVALID_FIELD,
            "answers channel 9",
        ),
        (encode_frame(0, b"x", frame_type=1), ErrorCondition.FRAMING_ERROR, "type 1"),
        (encode_frame(0, b"\x00\x53\x99\x45"), ErrorCondition.DECODE_ERROR, ""),
        (encode_frame(0, b"\x00\x53\x11\x45"), ErrorCondition.INVALID_FIELD, ""),
        (frame(Transfer(handle=0), b"x" * 2000, channel=3), ErrorCondition.FRAMING_ERROR, "max-frame-size of 1000"),
    ],
)
def test_faults_of_the_connection(data, condition, match):
    served = linked(max_frame_size=1000)
    served.take(data + transfers(1))
    assert served.closed_with(condition, match)
    assert served.connection.state is ConnectionState.DISCARDING


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (frame(Transfer(handle=9), channel=3), ErrorCondition.UNATTACHED_HANDLE),
        (CLIENT.transfer(data_section(b"x"), delivery_id=1, channel=3, handle=9), ErrorCondition.UNATTACHED_HANDLE),
        (frame(Disposition(role=RECEIVER, first=2, last=1), channel=3), ErrorCondition.INVALID_FIELD),
    ],
)
def test_faults_of_a_session_end_it_and_nothing_else(data, condition):
    served = linked()
    served.take(data + transfers(1))
    (end,) = served.sent()
    assert isinstance(end, End)
    assert end.error is not None
    assert end.error.condition == condition
    assert [type(event) for event in served.events] == [SessionEnded]
    assert served.connection.sessions == []
    served.take(frame(End(), channel=3) + frame(BEGIN, channel=3))
    assert [session.outgoing_channel for session in served.connection.sessions] == [3]


def test_the_peer_ends_a_session():
    served = linked()
    served.take(frame(End(), channel=3))
    assert served.sent() == [End()]
    assert served.connection.all_sessions == []


# --- the fast path and turns


def test_like_frames_are_taken_as_runs():
    served = linked(run_frames_max=4)
    served.take(transfers(10)[:-1])
    runs = [event for event in served.events if isinstance(event, DeliveriesReceived)]
    assert [len(run.entries) for run in runs] == [4, 4, 1]
    received = served.connection.frames_received
    served.take(transfers(10)[-1:])
    assert served.connection.frames_received == received + 1


def test_dispositions_are_taken_as_runs():
    served = linked()
    (session,) = served.connection.sessions
    sender = session.links[1]
    sender.send_run(0, [b"x"] * 300, b"")  # type: ignore[union-attr]
    served.sent()
    served.take_events()
    served.events.clear()
    dispositions = [Disposition(role=RECEIVER, first=n, settled=True, state=ACCEPTED) for n in range(256, 260)]
    served.take(b"".join(frame(disposition, channel=3) for disposition in dispositions))
    settled = [event for event in served.events if isinstance(event, DeliveriesSettled)]
    assert [(event.first, event.last) for event in settled] == [(256, 259)]


def test_a_run_behind_an_unfinished_delivery_is_taken_frame_by_frame():
    """The run's first frame may be the last one of that delivery."""
    served = linked()
    first = Transfer(handle=0, delivery_id=1, delivery_tag=(1).to_bytes(4), message_format=0, more=True)
    served.take(frame(first, b"\x00\x53\x75\xa0\x06abc", channel=3) + transfers(2))
    (run, rest) = (event for event in served.events if isinstance(event, DeliveriesReceived))
    assert run.entries == [b"\x00\x53\x75\xa0\x06abc" + data_section(b"x")]
    assert rest.first == 2


@pytest.mark.parametrize(("size", "viewed"), [(30_000, True), (5_000, False)])
def test_a_delivery_that_a_read_leaves_incomplete_is_a_view_of_the_read_if_it_is_much_of_it(size, viewed):
    served = linked()
    whole, begun = (Transfer(handle=0, delivery_id=n, delivery_tag=b"%d" % n, more=n == 1) for n in (0, 1))
    body = data_section(bytes(size + 40_000))
    served.take(frame(whole, data_section(bytes(40_000)), channel=3) + frame(begun, body[:size], channel=3))
    chunks = next(iter(served.connection.sessions)).links[0].partial.chunks  # type: ignore[union-attr]
    assert [isinstance(chunk, memoryview) for chunk in chunks] == [viewed]
    served.take(frame(Transfer(handle=0), body[size:], channel=3))
    assert [event.entries for event in served.events if isinstance(event, DeliveriesReceived)][1:] == [[body]]


def test_frames_after_a_turn_wait_for_the_next():
    served = linked(frames_per_turn_max=2)
    served.take(frame(BEGIN, channel=0) + frame(BEGIN, channel=1) + frame(BEGIN, channel=2))
    assert [type(event) for event in served.events] == [SessionBegun, SessionBegun]
    assert served.connection.input_left
    served.connection.go_on()
    served.take_events()
    assert len(served.events) == 3
    assert not served.connection.input_left


def test_a_heartbeat_is_no_event():
    served = Served()
    served.take(EMPTY_FRAME + EMPTY_FRAME)
    assert served.events == []
    assert served.connection.frames_received == 3


# --- time


def test_we_send_heartbeats_twice_within_the_peers_time_out():
    served = Served(opened=False)
    served.take(frame(Open(container_id="them", idle_time_out=1000)))
    connection = served.connection
    connection.data_to_send(100.1)
    assert connection.deadline() == 100.6
    connection.tick(100.5)
    assert connection.data_to_send(100.5) == b""
    connection.tick(100.6)
    assert connection.data_to_send(100.6) == EMPTY_FRAME
    connection.backlog_bytes = 1
    connection.tick(101.2)
    assert connection.data_to_send(101.2) == b""
    assert connection.deadline() == 101.7


def test_a_silent_peer_is_given_up():
    served = Served(idle_time_out_ms=1000)
    assert served.connection.deadline() == 102.0
    served.now = 101.0
    served.take(EMPTY_FRAME)
    served.connection.tick(102.5)
    assert served.connection.deadline() == 103.0
    served.connection.tick(103.0)
    served.take_events()
    assert served.closed_with(ErrorCondition.RESOURCE_LIMIT_EXCEEDED, "no frame for 2000 ms")
    assert served.connection.deadline() is None
    served.connection.tick(200.0)
    assert served.connection.next_event() is None


def test_input_that_waits_for_the_next_turn_is_no_silence():
    served = Served(idle_time_out_ms=1000)
    served.connection.receive_data(EMPTY_FRAME, 100.0)
    served.connection.end_turn()
    served.connection.tick(102.0)
    assert not served.connection.finished
    assert served.connection.deadline() == 104.0


def test_before_the_first_frame_nothing_is_due():
    connection = Connection(ConnectionSettings(container_id="us"), NoHandshake())
    assert connection.deadline() is None
    connection.tick(1e9)
    assert not connection.finished


def test_a_peer_that_is_silent_before_the_end_of_the_handshake():
    handshake = ServerHandshake([], bare_allowed=False, refusal_delay_s=lambda: 1.0, frame_size_max=512)
    connection = Connection(ConnectionSettings(container_id="us", idle_time_out_ms=1000), handshake)
    connection.receive_data(PROTOCOL_HEADER_SASL[:3], 100.0)
    assert connection.next_event() is None
    connection.tick(102.0)
    assert connection.finished
    assert isinstance(connection.next_event(), ConnectionClosed)
    assert connection.data_to_send(102.0) == b""


def test_a_refused_handshake_ends_the_connection():
    handshake = ServerHandshake([], bare_allowed=False, refusal_delay_s=lambda: 1.0, frame_size_max=512)
    connection = Connection(ConnectionSettings(container_id="us"), handshake)
    connection.receive_data(PROTOCOL_HEADER_AMQP, 100.0)
    assert connection.next_event() is None
    assert connection.finished
    assert connection.data_to_send(100.0) == PROTOCOL_HEADER_SASL


# --- output


def send_in_pieces(served: Served) -> list[int]:
    """Take all output; returns the size of each piece."""
    sizes = []
    while data := served.connection.data_to_send(served.now):
        sizes.append(len(data))
    return sizes


def test_output_comes_in_parts():
    served = linked(unsent_bytes_max=2000)
    (session,) = served.connection.sessions
    session.links[1].send_run(0, [b"x" * 100] * 100, b"")  # type: ignore[union-attr]
    sizes = send_in_pieces(served)
    assert len(sizes) > 4
    assert max(sizes) < 3000
    assert sum(sizes) > 10_000


def test_deliveries_wait_for_the_socket():
    served = linked(unsent_bytes_max=2000)
    (session,) = served.connection.sessions
    served.connection.output_backlog(2000)
    session.links[1].send_run(0, [b"x" * 100] * 10, b"")  # type: ignore[union-attr]
    assert send_in_pieces(served) == []
    served.connection.output_backlog(2500)
    assert send_in_pieces(served) == []
    served.connection.output_backlog(1000)
    served.connection.output_backlog(0)
    assert sum(send_in_pieces(served)) > 1000


def test_a_peer_that_asks_and_does_not_read_is_not_read_either():
    served = linked(unsent_bytes_max=100)
    assert served.connection.reading
    for channel in range(4, 12):
        served.take(frame(BEGIN, channel=channel))
    assert not served.connection.reading
    served.connection.data_to_send(served.now)
    assert served.connection.reading
    served.connection.output_backlog(201)
    assert not served.connection.reading


def test_unfinished_deliveries_are_counted_over_all_links():
    served = Served(partial_delivery_bytes_max=100)
    one, other = PartialDelivery(Transfer(handle=0), 0), PartialDelivery(Transfer(handle=0), 1)
    served.connection.hold_partial(one, 60)
    with pytest.raises(LinkFault, match="more than 100 bytes"):
        served.connection.hold_partial(other, 41)
    served.connection.hold_partial(one, -60)
    served.connection.hold_partial(other, 100)


def test_link_credit_that_comes_with_the_attach_holds_for_what_is_pipelined_behind():
    """Bytes are parsed lazily, so the answer to an event is in force for the bytes behind it."""
    served = Served()
    attach = Attach(name="out", handle=0, role=SENDER, initial_delivery_count=0)
    served.take(frame(BEGIN, channel=3) + frame(attach, channel=3) + transfers(3) + grant(5)[:4])
    assert [type(event) for event in served.events] == [SessionBegun, ReceiverAttached, DeliveriesReceived]
    assert not any(isinstance(event, CreditReceived) for event in served.events)
