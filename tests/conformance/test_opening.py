"""Headers, SASL, open, begin and idle time-outs, as the suites of Qpid and RabbitMQ show them [2.2, 2.4, 5.3]."""

import pytest

from amqp10.protocol.sasl import (
    Challenge,
    Failure,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Success,
    decode_sasl_frame,
    encode_sasl_frame,
)
from amqp10.serve import Mechanism
from amqp10.wire.framing import EMPTY_FRAME, PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL, ReceiveBuffer, encode_frame
from amqp10.wire.messaging import Target
from amqp10.wire.performatives import Attach, Begin, Close, Disposition, End, Open, encode_performative
from core.access.mechanisms import offered
from core.engine.virtual_hosts import HostLimits
from tests.kit.cases import case
from tests.kit.logins import from_here, make_access
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, data_message


def frame(performative: Open | Begin | Attach, channel: int = 0) -> bytes:
    """An AMQP frame."""
    return encode_frame(channel, encode_performative(performative))


def guests() -> list[Mechanism]:
    """The mechanisms that a broker without configured users offers."""
    mechanisms = offered(make_access(), from_here())
    return [Mechanism(mechanism) for mechanism in mechanisms]


def sasl_frames(raw: bytes) -> list[object]:
    """The SASL performatives behind the protocol header."""
    assert raw.startswith(PROTOCOL_HEADER_SASL)
    buffer = ReceiveBuffer()
    buffer.feed(raw[8:])
    found: list[object] = []
    while len(buffer.data) - buffer.position >= 8 and buffer.data[buffer.position : buffer.position + 4] != b"AMQP":
        bounds = buffer.next_frame(8192)
        assert bounds is not None
        found.append(decode_sasl_frame(buffer.data, bounds))
    return found


def authenticated() -> WirePeer:
    """A peer that has authenticated and may open."""
    peer = WirePeer(InProcessBroker())
    peer.handshake()
    return peer


# --- protocol headers ----------------------------------------------------------------------------------------------


@case("transport.ProtocolHeaderTest", "successfulHeaderExchange")
def test_the_header_is_answered_with_the_same():
    """successfulHeaderExchange (transport.ProtocolHeaderTest)"""
    peer = WirePeer(InProcessBroker(), bare_allowed=True)
    peer.send_bytes(PROTOCOL_HEADER_AMQP)
    assert peer.raw == PROTOCOL_HEADER_AMQP


@pytest.mark.parametrize("header", [b"AMQP\x01\x01\x00\x00", b"AMQP\x00\x00\x09\x01", b"GET / HT"])
@case("transport.ProtocolHeaderTest", "unacceptableProtocolIdSent_SaslAcceptable")
@case("amqp_auth_SUITE", "sasl_none_failure")
def test_a_header_that_is_not_acceptable(header: bytes):
    """unacceptableProtocolIdSent_SaslAcceptable (transport.ProtocolHeaderTest)
    sasl_none_failure (amqp_auth_SUITE): a bare AMQP header where authentication is needed is answered in the same
    way."""
    for sent in (header, PROTOCOL_HEADER_AMQP):
        peer = WirePeer(InProcessBroker())
        peer.send_bytes(sent)
        assert peer.raw == PROTOCOL_HEADER_SASL
        assert peer.lost


# --- SASL ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "init",
    [
        SaslInit(mechanism="PLAIN", initial_response=b"\0guest\0guest"),
        SaslInit(mechanism="ANONYMOUS", initial_response=b""),
    ],
)
@case("transport.security.sasl.SaslTest", "saslSuccessfulAuthentication")
@case("amqp_auth_SUITE", "sasl_plain_success")
@case("amqp_auth_SUITE", "sasl_anonymous_success")
@case("amqp10_client system_SUITE", "open_connection_plain_sasl")
def test_successful_authentication(init: SaslInit):
    """saslSuccessfulAuthentication (transport.security.sasl.SaslTest)
    sasl_plain_success (amqp_auth_SUITE)
    sasl_anonymous_success (amqp_auth_SUITE)
    open_connection_plain_sasl (amqp10_client system_SUITE)"""
    peer = WirePeer(InProcessBroker(), guests())
    peer.send_bytes(PROTOCOL_HEADER_SASL)
    (offer,) = sasl_frames(peer.raw)
    assert offer == SaslMechanisms(sasl_server_mechanisms=("SCRAM-SHA-256", "PLAIN", "ANONYMOUS"))
    peer.send_bytes(encode_sasl_frame(init))
    assert sasl_frames(peer.raw)[-1] == SaslOutcome(code=0)
    peer.send_bytes(PROTOCOL_HEADER_AMQP)
    assert peer.raw.endswith(PROTOCOL_HEADER_AMQP)
    peer.read_frames()
    assert peer.open().container_id


@case("transport.security.sasl.SaslTest", "saslSuccessfulAuthenticationWithPipelinedFrames")
@case("messaging.TransferTest", "presettledPipelined")
def test_everything_from_the_header_to_a_transfer_in_one_piece():
    """saslSuccessfulAuthenticationWithPipelinedFrames (transport.security.sasl.SaslTest)
    [FC] presettledPipelined (messaging.TransferTest): the client sends everything before it has read an answer. The
    transfer uses the link credit that the answer to its attach brings."""
    broker = InProcessBroker()
    address = broker.queue()
    peer = WirePeer(broker, guests())
    attach = Attach(name="s", handle=0, role=False, target=Target(address=address), initial_delivery_count=0)
    begin = Begin(next_outgoing_id=0, incoming_window=10, outgoing_window=10)
    transfer, payload = peer.transfer_frame(b"at once", settled=True)
    peer.send_bytes(
        PROTOCOL_HEADER_SASL
        + encode_sasl_frame(SaslInit(mechanism="ANONYMOUS", initial_response=b""))
        + PROTOCOL_HEADER_AMQP
        + frame(Open(container_id="test"))
        + frame(begin)
        + frame(attach)
        + encode_frame(0, encode_performative(transfer), payload)
    )
    assert not peer.lost
    assert broker.ready() == 1


@case("transport.security.sasl.SaslTest", "saslSuccessfulAuthenticationWithChallengeResponse")
def test_a_mechanism_with_a_challenge():
    """saslSuccessfulAuthenticationWithChallengeResponse (transport.security.sasl.SaslTest)"""

    class Riddle:
        name = "RIDDLE"

        def start(self) -> "Riddle":
            return self

        def respond(self, response: bytes) -> Challenge | Success | Failure:
            return Success("solver") if response == b"answer" else Challenge(b"riddle")

    peer = WirePeer(InProcessBroker(), [Riddle()])
    peer.send_bytes(PROTOCOL_HEADER_SASL + encode_sasl_frame(SaslInit(mechanism="RIDDLE", initial_response=b"hello")))
    assert sasl_frames(peer.raw)[-1] == SaslChallenge(challenge=b"riddle")
    peer.send_bytes(encode_sasl_frame(SaslResponse(response=b"answer")))
    assert sasl_frames(peer.raw)[-1] == SaslOutcome(code=0)


@pytest.mark.parametrize(
    "init",
    [
        SaslInit(mechanism="PLAIN", initial_response=b"\0guest\0wrong"),
        SaslInit(mechanism="PLAIN", initial_response=b"\0nobody\0guest"),
        SaslInit(mechanism="NTLM", initial_response=b""),
    ],
)
@case("transport.security.sasl.SaslTest", "saslUnsuccessfulAuthentication")
@case("transport.security.sasl.SaslTest", "unsupportedSaslMechanism")
@case("amqp_auth_SUITE", "sasl_plain_failure")
@case("amqp10_client system_SUITE", "open_connection_plain_sasl_failure")
@case("amqp_dotnet_SUITE", "auth_failure")
def test_authentication_that_fails(init: SaslInit):
    """saslUnsuccessfulAuthentication (transport.security.sasl.SaslTest): the outcome comes late, and gives no reason.
    unsupportedSaslMechanism (transport.security.sasl.SaslTest)
    sasl_plain_failure (amqp_auth_SUITE)
    open_connection_plain_sasl_failure (amqp10_client system_SUITE)
    auth_failure (amqp_dotnet_SUITE)"""
    broker = InProcessBroker()
    peer = WirePeer(broker, guests())
    peer.send_bytes(PROTOCOL_HEADER_SASL + encode_sasl_frame(init))
    assert len(sasl_frames(peer.raw)) == 1
    broker.advance(0.9)
    assert not peer.lost
    broker.advance(0.2)
    assert sasl_frames(peer.raw)[-1] == SaslOutcome(code=1)
    assert peer.lost


@case("amqp_auth_SUITE", "sasl_anonymous_failure")
def test_anonymous_where_it_is_not_offered():
    """sasl_anonymous_failure (amqp_auth_SUITE)"""
    broker = InProcessBroker()
    peer = WirePeer(broker, [each for each in guests() if each.name != "ANONYMOUS"])
    peer.send_bytes(PROTOCOL_HEADER_SASL + encode_sasl_frame(SaslInit(mechanism="ANONYMOUS", initial_response=b"")))
    broker.advance(1.1)
    offer, outcome = sasl_frames(peer.raw)
    assert "ANONYMOUS" not in offer.sasl_server_mechanisms
    assert outcome == SaslOutcome(code=1)
    assert peer.lost


@pytest.mark.parametrize(
    "sent",
    [
        frame(Open(container_id="test")),
        PROTOCOL_HEADER_AMQP + frame(Open(container_id="test")),
        encode_sasl_frame(SaslMechanisms(sasl_server_mechanisms=("PLAIN",))),
        encode_sasl_frame(SaslChallenge(challenge=b"?")),
        encode_sasl_frame(SaslOutcome(code=0)),
        EMPTY_FRAME,
        encode_frame(0, b"", frame_type=1),
    ],
)
@case("transport.security.sasl.SaslTest", "authenticationBypassDisallowed")
@case("transport.security.sasl.SaslTest", "clientSendsSaslMechanisms")
@case("transport.security.sasl.SaslTest", "clientSendsSaslChallenge")
@case("transport.security.sasl.SaslTest", "clientSendsSaslOutcome")
@case("transport.security.sasl.SaslTest", "emptyFramesDisallowed")
def test_what_has_no_place_in_the_sasl_layer(sent: bytes):
    """authenticationBypassDisallowed (transport.security.sasl.SaslTest)
    clientSendsSaslMechanisms (transport.security.sasl.SaslTest)
    clientSendsSaslChallenge (transport.security.sasl.SaslTest)
    clientSendsSaslOutcome (transport.security.sasl.SaslTest)
    emptyFramesDisallowed (transport.security.sasl.SaslTest)"""
    peer = WirePeer(InProcessBroker(), guests())
    peer.send_bytes(PROTOCOL_HEADER_SASL + sent)
    assert peer.lost
    assert len(sasl_frames(peer.raw)) == 1


@case("transport.security.sasl.SaslTest", "veryLongOauth2Token")
def test_a_very_long_response_is_read():
    """veryLongOauth2Token (transport.security.sasl.SaslTest): 8 KiB before the open, with the mechanism of that test.
    Headgate takes tokens with PLAIN (tests/core/access/test_token_login.py)."""

    class Token:
        name = "XOAUTH2"

        def start(self) -> "Token":
            return self

        def respond(self, response: bytes) -> Success:
            return Success(f"{len(response)} bytes")

    peer = WirePeer(InProcessBroker(), [Token()])
    peer.send_bytes(PROTOCOL_HEADER_SASL)
    peer.send_bytes(encode_sasl_frame(SaslInit(mechanism="XOAUTH2", initial_response=bytes(8000))))
    assert sasl_frames(peer.raw)[-1] == SaslOutcome(code=0)


# --- open ------------------------------------------------------------------------------------------------------------


@case("transport.connection.OpenTest", "successfulOpen")
def test_what_the_broker_says_in_its_open():
    """successfulOpen (transport.connection.OpenTest)"""
    opened = authenticated().open()
    assert opened.container_id == "headgate"
    assert (opened.max_frame_size, opened.channel_max, opened.idle_time_out) == (131_072, 63, 30_000)
    assert set(opened.offered_capabilities) == {"LINK_PAIR_V1_0", "ANONYMOUS-RELAY"}


@case("transport.connection.OpenTest", "emptyOpen")
def test_an_open_without_its_mandatory_field():
    """emptyOpen (transport.connection.OpenTest)"""
    peer = authenticated()
    peer.send_bytes(encode_frame(0, b"\x00\x53\x10\x45"))
    assert isinstance(peer.expect(Open), Open)
    assert peer.closed_with("amqp:invalid-field")


@case("transport.connection.OpenTest", "emptyFrame")
def test_an_empty_frame_on_any_channel():
    """emptyFrame (transport.connection.OpenTest)"""
    peer = authenticated()
    peer.open()
    for channel in (0, 5, 63):
        peer.send_bytes(encode_frame(channel, b""))
    assert peer.nothing_came()
    peer.begin()


@case("transport.connection.OpenTest", "failOpenOnChannelNotZero")
def test_an_open_on_another_channel():
    """failOpenOnChannelNotZero (transport.connection.OpenTest)"""
    peer = authenticated()
    peer.send(Open(container_id="test"), channel=1)
    assert isinstance(peer.expect(Open), Open)
    assert peer.closed_with("amqp:connection:framing-error")
    assert peer.lost


@case("transport.connection.OpenTest", "openWithMaxFrameOfMinimum")
def test_the_smallest_max_frame_size():
    """openWithMaxFrameOfMinimum (transport.connection.OpenTest): every frame of the broker fits 512 bytes."""
    broker = InProcessBroker()
    address = broker.queue()
    peer = broker.connect(max_frame_size=512)
    peer.begin()
    peer.attach_sender(address)
    peer.attach_receiver(address)
    peer.transfer(b"x" * 2000)
    peer.grant(1)
    assert len(peer.deliveries()) > 3
    assert peer.attach_receiver("/queues/" + "n" * 250, handle=7).source is None
    assert peer.detached_with("amqp:not-found")


@pytest.mark.parametrize("size", [0, 256, 511])
@case("transport.connection.OpenTest", "openWithMaxFrameSizeBelowMinimum(0)")
@case("transport.connection.OpenTest", "openWithMaxFrameSizeBelowMinimum(256)")
@case("transport.connection.OpenTest", "openWithMaxFrameSizeBelowMinimum(511)")
def test_a_max_frame_size_below_the_minimum(size: int):
    """openWithMaxFrameSizeBelowMinimum(0) (transport.connection.OpenTest)
    openWithMaxFrameSizeBelowMinimum(256) (transport.connection.OpenTest)
    openWithMaxFrameSizeBelowMinimum(511) (transport.connection.OpenTest)"""
    peer = authenticated()
    peer.send(Open(container_id="test", max_frame_size=size))
    assert isinstance(peer.expect(Open), Open)
    assert peer.closed_with("amqp:connection:framing-error")


@case("transport.connection.OpenTest", "failOpenOnNonExistingHostname")
@case("amqp_auth_SUITE", "vhost_absent")
@case("amqp10_client system_SUITE", "open_refused")
def test_a_host_that_does_not_exist():
    """failOpenOnNonExistingHostname (transport.connection.OpenTest)
    vhost_absent (amqp_auth_SUITE)
    open_refused (amqp10_client system_SUITE): a host whose name begins with vhost: is a virtual host; the close has the
    reason."""
    peer = authenticated()
    peer.send(Open(container_id="test", hostname="vhost:missing"))
    assert isinstance(peer.expect(Open), Open)
    assert peer.closed_with("amqp:not-found")


@case("amqp_auth_SUITE", "vhost_connection_limit")
def test_a_virtual_host_that_has_as_many_connections_as_it_may():
    """vhost_connection_limit (amqp_auth_SUITE): the close has the name of the limit, and the end of another connection
    makes room."""
    broker = InProcessBroker()
    broker.control.hosts.set_limits("/", HostLimits(max_connections=1))
    first = broker.connect()
    for hostname in ("localhost", "vhost:/"):
        peer = WirePeer(broker)
        peer.handshake()
        peer.send(Open(container_id="test", hostname=hostname))
        assert isinstance(peer.expect(Open), Open)
        error = peer.expect(Close).error
        assert error is not None
        assert error.condition == "amqp:resource-limit-exceeded"
        assert "virtual host '/' has 1 connections, and its limit max-connections is 1" in str(error.description)
    first.disconnect()
    broker.run()
    assert broker.connect().take(Close) == []


@case("transport.connection.OpenTest", "idleTimeout")
@case("amqp_client_SUITE", "idle_time_out_on_client")
@case("amqp10_client system_SUITE", "outgoing_heartbeat")
def test_empty_frames_come_in_time():
    """idleTimeout (transport.connection.OpenTest)
    idle_time_out_on_client (amqp_client_SUITE)
    outgoing_heartbeat (amqp10_client system_SUITE): the broker sends the empty frames that the suite expects of the
    client."""
    broker = InProcessBroker()
    peer = broker.connect(idle_time_out=2000)
    before = len(peer.raw)
    for second in range(10):
        broker.advance(1.0)
        assert len(peer.raw) - before == 8 * (second + 1)
    assert peer.raw.endswith(EMPTY_FRAME)


@case("amqp_client_SUITE", "idle_time_out_too_short")
def test_an_idle_time_out_that_asks_for_too_much():
    """idle_time_out_too_short (amqp_client_SUITE): the close has the reason; our limit is 100 ms, not a second."""
    peer = authenticated()
    peer.send(Open(container_id="test", idle_time_out=99))
    assert isinstance(peer.expect(Open), Open)
    assert peer.closed_with("amqp:not-allowed")


@case("transport.connection.IdleTimeoutTest", "brokerClosesIdleConnection")
@case("amqp_client_SUITE", "idle_time_out_on_server")
@case("amqp10_client system_SUITE", "incoming_heartbeat")
def test_a_client_that_is_silent():
    """brokerClosesIdleConnection (transport.connection.IdleTimeoutTest)
    idle_time_out_on_server (amqp_client_SUITE)
    incoming_heartbeat (amqp10_client system_SUITE): silent for twice the 30 s that were announced."""
    broker = InProcessBroker()
    peer = broker.connect()
    broker.advance(59.9)
    assert not peer.lost
    broker.advance(0.2)
    assert peer.closed_with("amqp:resource-limit-exceeded")
    assert peer.lost


@case("transport.connection.IdleTimeoutTest", "idleLine")
def test_empty_frames_keep_a_connection():
    """idleLine (transport.connection.IdleTimeoutTest)"""
    broker = InProcessBroker()
    peer = broker.connect()
    for _ in range(10):
        broker.advance(50.0)
        peer.send_bytes(EMPTY_FRAME)
    assert not peer.lost
    peer.begin()


# --- begin -----------------------------------------------------------------------------------------------------------


@case("transport.session.BeginTest", "successfulBegin")
def test_what_the_broker_says_in_its_begin():
    """successfulBegin (transport.session.BeginTest)"""
    peer = InProcessBroker().connect()
    begun = peer.begin(channel=7)
    assert begun.remote_channel == 7
    assert (begun.next_outgoing_id, begun.incoming_window, begun.outgoing_window) == (0, 400, 2**32 - 1)
    assert begun.handle_max == 255


@case("transport.session.BeginTest", "emptyBegin")
def test_a_begin_without_its_mandatory_fields():
    """emptyBegin (transport.session.BeginTest)"""
    peer = InProcessBroker().connect()
    peer.send_bytes(encode_frame(0, b"\x00\x53\x11\x45"))
    assert peer.closed_with("amqp:invalid-field")


@case("transport.session.BeginTest", "channelMax")
@case("amqp_client_SUITE", "session_max_per_connection")
def test_a_channel_above_channel_max():
    """channelMax (transport.session.BeginTest)
    session_max_per_connection (amqp_client_SUITE)"""
    broker = InProcessBroker(make_settings(amqp10={"channel_max": 0}))
    peer = broker.connect()
    peer.begin(channel=0)
    peer.send(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=1)
    assert peer.closed_with("amqp:connection:framing-error")


@case("amqp_client_SUITE", "link_max_per_session")
def test_a_handle_above_handle_max():
    """link_max_per_session (amqp_client_SUITE): the connection is closed, as the specification says [2.7.2]; RabbitMQ
    ends the session."""
    broker = InProcessBroker(make_settings(amqp10={"handle_max": 0}))
    address = broker.queue()
    peer = broker.connect()
    assert peer.begin().handle_max == 0
    peer.attach_sender(address, handle=0)
    peer.send(Attach(name="b", handle=1, role=False, target=Target(address=address), initial_delivery_count=0))
    assert peer.closed_with("amqp:connection:framing-error")


# --- frames ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x07\x02\x00\x00\x00",
        b"\x00\x03\x00\x00\x02\x00\x00\x00",
        b"\x00\x00\x00\x0c\x01\x00\x00\x00" + bytes(4),
        b"\x00\x00\x00\x0c\x04\x00\x00\x00" + bytes(4),
        b"\x00\x00\x00\x08\x02\x01\x00\x00",
    ],
)
@case("unit_amqp_reader_SUITE", "undersized_frame")
@case("unit_amqp_reader_SUITE", "oversized_frame")
@case("unit_amqp_reader_SUITE", "undersized_data_offset")
@case("unit_amqp_reader_SUITE", "data_offset_past_the_end")
@case("unit_amqp_reader_SUITE", "wrong_frame_type")
@case("unit_amqp_reader_SUITE", "close_on_framing_error")
def test_frame_headers_that_are_wrong(data: bytes):
    """undersized_frame (unit_amqp_reader_SUITE)
    oversized_frame (unit_amqp_reader_SUITE)
    undersized_data_offset (unit_amqp_reader_SUITE)
    data_offset_past_the_end (unit_amqp_reader_SUITE)
    wrong_frame_type (unit_amqp_reader_SUITE)
    close_on_framing_error (unit_amqp_reader_SUITE)"""
    peer = InProcessBroker().connect()
    peer.send_bytes(data)
    assert peer.closed_with("amqp:connection:framing-error")
    assert peer.lost


@case("unit_amqp_reader_SUITE", "empty_frame")
@case("unit_amqp_reader_SUITE", "empty_frame_with_extended_header")
@case("unit_amqp_reader_SUITE", "valid_header")
def test_frame_headers_that_are_right():
    """empty_frame (unit_amqp_reader_SUITE)
    empty_frame_with_extended_header (unit_amqp_reader_SUITE)
    valid_header (unit_amqp_reader_SUITE): an extended header is skipped, on empty frames and others."""
    peer = InProcessBroker().connect()
    peer.send_bytes(EMPTY_FRAME)
    peer.send_bytes(b"\x00\x00\x00\x0c\x03\x00\x00\x00" + b"skip")
    body = encode_performative(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))
    peer.send_bytes((len(body) + 12).to_bytes(4, "big") + b"\x03\x00\x00\x00" + b"skip" + body)
    assert peer.expect(Begin).remote_channel == 0
    assert peer.nothing_came()


def test_the_two_sides_do_not_agree_on_which_sessions_exist():
    """A second open, and a begin on a channel that has a session, close the connection [2.4.1, 2.5.1]."""
    peer = InProcessBroker().connect()
    peer.send(Open(container_id="again"))
    assert peer.closed_with("amqp:illegal-state")
    peer = InProcessBroker().connect()
    peer.begin(channel=3)
    peer.send(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=3)
    assert peer.closed_with("amqp:illegal-state")


def test_the_broker_closes_and_ends_in_answer():
    """End and close are answered with end and close, and the connection is over."""
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    peer.transfer(payload=data_message(b"m"))
    assert peer.pick(Disposition).settled
    peer.send(End())
    assert peer.pick(End).error is None
    peer.send(Close())
    assert peer.pick(Close).error is None
    assert peer.lost
