"""One connection with its channels: what the peer may do, what it may not do, and how long each side waits."""

import pytest

from core.amqp091.errors import Amqp091ConnectionFault, ChannelFault, ReplyCode
from core.amqp091.events import (
    Amqp091ConnectionClosed,
    Amqp091ConnectionOpened,
    ChannelClosed,
    ChannelOpened,
    MethodReceived,
    SecretUpdated,
)
from core.amqp091.framing import (
    FRAME_MIN_SIZE,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    FrameType,
    encode_frame,
    method_frame,
)
from core.amqp091.methods import (
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    QueueDeclare,
    TxSelect,
)
from core.amqp091.properties import BasicProperties, encode_properties
from core.config.amqp091 import Amqp091Settings
from tests.kit.amqp091_peer import (
    PROPERTIES,
    Peer,
    assert_connection_closed,
    body_frame,
    methods_in,
    opened,
    opening,
    publish,
)

NOT_FOUND = ChannelFault(ReplyCode.NOT_FOUND, "no queue 'q' in vhost '/'", 50, 10)
NOT_FOUND_CLOSE = ChannelClose(
    reply_code=404, reply_text="NOT_FOUND - no queue 'q' in vhost '/'", class_id=50, method_id=10
)
FORCED = Amqp091ConnectionFault(ReplyCode.CONNECTION_FORCED, "the operator wants it")
NO_PROPERTIES = encode_properties(BasicProperties())


# --- opening ---------------------------------------------------------------------------------------------------------


def test_a_peer_that_says_it_all_at_once_is_answered_step_by_step():
    new = Peer()
    events = new.say(opening(heartbeat=7, channel_max=5) + method_frame(1, ChannelOpen()))
    assert events == [Amqp091ConnectionOpened(ConnectionOpen(virtual_host="/")), ChannelOpened(1)]
    assert [type(method) for _, method in new.heard()] == [
        ConnectionStart,
        ConnectionTune,
        ConnectionOpenOk,
        ChannelOpenOk,
    ]
    connection = new.connection
    assert connection.opened
    assert not connection.finished
    assert (connection.identity, connection.virtual_host) == ("alice", "/")
    assert (connection.channel_max, connection.frame_max, connection.heartbeat_s) == (5, 131_072, 7)
    assert connection.client_properties == PROPERTIES
    assert connection.client_capabilities == PROPERTIES["capabilities"]


@pytest.mark.parametrize(
    "header",
    [b"AMQP\x01\x01\x00\x09", b"AMQP\x00\x00\x08\x00", b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"GET / HT"],
)
def test_another_protocol_is_answered_with_our_header(header):
    new = Peer()
    (closed,) = new.say(header + b"whatever follows")
    assert closed == Amqp091ConnectionClosed(0, f"protocol header {header!r} is not accepted here", by_peer=False)
    assert new.connection.pieces_to_send(0.0) == [PROTOCOL_HEADER]
    assert new.connection.finished


def test_a_refused_login_is_told_late_and_nothing_is_read_meanwhile():
    new = Peer(refusal_delay_s=2.0)
    assert new.say(opening(response=b"wrong")) == []
    assert [type(method) for _, method in new.heard()] == [ConnectionStart]
    assert new.say(b"\0" * 1000) == []
    assert new.connection.deadline() == 2.0
    new.now = 2.0
    new.connection.tick(2.0)
    assert_connection_closed(new, ReplyCode.ACCESS_REFUSED, new.events())
    assert new.call(0, ConnectionCloseOk()) == []
    assert new.connection.finished


def test_a_peer_that_would_not_understand_a_refused_login_sees_the_socket_end():
    new = Peer(refusal_delay_s=2.0)
    new.say(opening(response=b"wrong", properties={}))
    new.heard()
    assert new.wait(2.0) == [Amqp091ConnectionClosed(ReplyCode.ACCESS_REFUSED, "the login was refused", by_peer=False)]
    assert new.heard() == []
    assert new.connection.finished


def test_a_large_frame_before_the_limits_are_agreed_is_a_frame_error():
    new = Peer()
    new.say(PROTOCOL_HEADER)
    large = {"long": "x" * FRAME_MIN_SIZE}
    frame = method_frame(0, ConnectionStartOk(client_properties=large))
    assert_connection_closed(new, ReplyCode.FRAME_ERROR, new.say(frame[:7]))


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (method_frame(0, ConnectionOpen()), ReplyCode.COMMAND_INVALID),
        (method_frame(0, ConnectionUpdateSecret(new_secret=b"s")), ReplyCode.COMMAND_INVALID),
        (method_frame(0, ConnectionStartOk(mechanism="NONE")), ReplyCode.COMMAND_INVALID),
        (method_frame(1, ChannelOpen()), ReplyCode.COMMAND_INVALID),
        (body_frame(0, b"x"), ReplyCode.CHANNEL_ERROR),
        (encode_frame(FrameType.METHOD, 0, b"\x00\x0a\x00\x0b"), ReplyCode.SYNTAX_ERROR),
    ],
)
def test_faults_before_the_connection_is_open(frames, code):
    new = Peer()
    new.say(PROTOCOL_HEADER)
    assert_connection_closed(new, code, new.say(frames))


@pytest.mark.parametrize(
    ("tune_ok", "open_", "code"),
    [
        (ConnectionTuneOk(frame_max=FRAME_MIN_SIZE - 1), ConnectionOpen(), ReplyCode.NOT_ALLOWED),
        (ConnectionTuneOk(frame_max=131_073), ConnectionOpen(), ReplyCode.NOT_ALLOWED),
        (ConnectionTuneOk(channel_max=2048), ConnectionOpen(), ReplyCode.NOT_ALLOWED),
        (ConnectionTuneOk(), ConnectionOpen(virtual_host="nowhere"), ReplyCode.NOT_ALLOWED),
    ],
)
def test_limits_and_virtual_hosts_that_are_not_allowed(tune_ok, open_, code):
    new = Peer()
    new.say(PROTOCOL_HEADER)
    new.call(0, ConnectionStartOk(client_properties=PROPERTIES, response=b"right"))
    assert_connection_closed(new, code, new.call(0, tune_ok, open_))


def test_all_channel_numbers_can_be_had():
    new = Peer(Amqp091Settings(channel_max=65535)).open(channel_max=0)
    assert new.call(65535, ChannelOpen()) == [ChannelOpened(65535)]


# --- closing ---------------------------------------------------------------------------------------------------------


def test_the_peer_closes_the_connection_and_hears_so_when_we_are_done():
    one = opened(1)
    close = ConnectionClose(reply_code=200, reply_text="bye")
    assert one.call(0, close) == [Amqp091ConnectionClosed(200, "bye", by_peer=True)]
    assert one.call(0, close) == []
    assert one.heard() == []
    assert not one.connection.opened
    assert not one.connection.finished
    one.connection.accept_close()
    one.connection.accept_close()
    assert one.heard() == [(0, ConnectionCloseOk())]
    assert one.connection.finished
    assert one.connection.deadline() is None


def test_a_close_without_a_reply_code_means_success():
    assert opened(1).call(0, ConnectionClose(reply_code=0)) == [Amqp091ConnectionClosed(200, "", by_peer=True)]


def test_a_close_is_answered_in_the_end_even_if_we_are_never_done():
    one = opened(1, close_time_out=3.0)
    one.call(0, ConnectionClose(reply_code=200))
    assert one.connection.deadline() == 3.0
    one.connection.tick(3.0)
    assert one.heard() == [(0, ConnectionCloseOk())]
    assert one.connection.finished


def test_a_peer_may_give_up_before_the_connection_is_open():
    new = Peer()
    new.say(PROTOCOL_HEADER)
    new.heard()
    assert new.call(0, ConnectionClose(reply_code=320)) == [Amqp091ConnectionClosed(320, "", by_peer=True)]
    new.connection.accept_close()
    assert new.heard() == [(0, ConnectionCloseOk())]


def test_our_close_waits_for_the_answer():
    one = opened(1)
    one.connection.close(FORCED, 0.0)
    one.connection.close(FORCED, 0.0)
    one.connection.send(0, ConnectionBlocked(reason="late"))
    one.connection.write(HEARTBEAT_FRAME)
    assert_connection_closed(one, ReplyCode.CONNECTION_FORCED, one.events())
    assert not one.connection.finished
    assert one.say(publish(1, b"late") + HEARTBEAT_FRAME + body_frame(0, b"?")) == []
    assert one.call(0, ConnectionCloseOk()) == []
    assert one.connection.finished


def test_our_close_waits_no_longer_than_its_time_out():
    one = opened(close_time_out=3.0)
    one.connection.close(FORCED, 0.0)
    one.wait(2.9)
    assert not one.connection.finished
    one.wait(0.1)
    assert one.connection.finished


def test_closes_of_the_connection_that_cross():
    one = opened()
    one.connection.close(FORCED, 0.0)
    one.events()
    one.heard()
    assert one.call(0, ConnectionClose(reply_code=200)) == []
    assert one.heard() == [(0, ConnectionCloseOk())]
    assert one.call(0, ConnectionCloseOk()) == []
    assert one.connection.finished


def test_a_connection_of_which_nothing_has_come_is_closed_without_a_word():
    new = Peer()
    new.connection.close(FORCED, 0.0)
    assert new.events() == [Amqp091ConnectionClosed(320, "the operator wants it", by_peer=False)]
    assert new.connection.pieces_to_send(0.0) == []
    assert new.connection.finished


@pytest.mark.parametrize("was_open", [True, False])
def test_the_socket_ends_without_a_close(was_open):
    one = opened(1) if was_open else Peer()
    one.connection.receive_eof()
    one.connection.receive_eof()
    assert one.events() == [Amqp091ConnectionClosed(0, "the peer closed the socket", by_peer=True)]
    assert one.connection.finished


def test_the_socket_ends_while_our_close_waits():
    one = opened()
    one.connection.close(FORCED, 0.0)
    one.connection.receive_eof()
    assert [type(event) for event in one.events()] == [Amqp091ConnectionClosed]
    assert one.connection.finished


def test_a_new_secret_is_taken_note_of():
    one = opened()
    assert one.call(0, ConnectionUpdateSecret(new_secret=b"s", reason="r")) == [SecretUpdated(b"s")]
    assert one.heard() == [], "the owner answers"


def test_a_bug_of_ours_is_told_to_a_peer_that_expects_a_close():
    assert Peer().connection.close_for_a_bug() == b""
    one = opened(1)
    ((channel, close),) = methods_in(one.connection.close_for_a_bug())
    assert channel == 0
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == ReplyCode.INTERNAL_ERROR
    one.connection.close(FORCED, 0.0)
    assert one.connection.close_for_a_bug() == b""


# --- heartbeats ------------------------------------------------------------------------------------------------------


def test_we_are_heard_of_twice_in_a_heartbeat():
    one = Peer().open(heartbeat=10)
    sent = []
    for second in range(16):
        one.now = float(second)
        one.connection.receive_data(HEARTBEAT_FRAME, one.now)
        assert one.events() == []
        one.connection.tick(one.now)
        if one.connection.pieces_to_send(one.now):
            sent.append(second)
    assert sent == [5, 10, 15]


def test_what_waits_for_the_socket_is_heartbeat_enough():
    one = Peer().open(1, heartbeat=10)
    one.now = 5.0
    one.connection.send(1, TxSelect())
    one.connection.tick(5.0)
    assert one.connection.pieces_to_send(5.0) == [method_frame(1, TxSelect())]
    assert one.connection.deadline() == 10.0


def test_a_silent_peer_is_given_up_after_two_heartbeats():
    one = Peer().open(heartbeat=10)
    one.wait(12.0)
    one.say(HEARTBEAT_FRAME[:3])
    assert one.wait(19.9) == []
    assert one.wait(0.1) == [Amqp091ConnectionClosed(0, "no byte for 20 s; the heartbeat is 10 s", by_peer=False)]
    assert one.connection.finished


def test_input_that_waits_for_the_next_turn_is_no_silence():
    one = Peer().open(heartbeat=10)
    one.connection.receive_data(HEARTBEAT_FRAME, 0.0)
    one.connection.tick(20.0)
    assert not one.connection.finished
    assert one.events() == []
    one.connection.tick(39.9)
    assert not one.connection.finished
    one.connection.tick(40.0)
    assert one.connection.finished


def test_under_an_alarm_silence_is_no_fault_and_the_peer_gets_time_after_it():
    one = Peer().open(heartbeat=10)
    one.connection.heartbeats_paused = True
    assert one.connection.heartbeats_paused
    assert one.wait(1000.0) == []
    one.connection.heartbeats_paused = False
    one.connection.tick(one.now)
    assert one.events() == []
    (closed,) = one.wait(40.0)
    assert isinstance(closed, Amqp091ConnectionClosed)
    assert one.connection.finished


def test_without_heartbeats_no_silent_peer_is_given_up():
    one = Peer().open(heartbeat=0)
    assert one.connection.deadline() is None
    one.connection.tick(1e9)
    assert one.events() == []
    assert one.heard() == []


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_parsing_is_lazy_and_says_that_there_is_more():
    one = opened(1)
    one.connection.receive_data(method_frame(1, QueueDeclare(queue="a")) + method_frame(1, QueueDeclare()), 0.0)
    assert one.connection.input_left
    assert one.connection.next_event(lambda channel: 1, 0.0) == MethodReceived(1, QueueDeclare(queue="a"))
    one.connection.fail_channel(1, NOT_FOUND)
    assert one.connection.input_left
    assert one.events() == [ChannelClosed(1, by_peer=False)]
    assert not one.connection.input_left
