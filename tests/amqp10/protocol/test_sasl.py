"""Both sides of the SASL layer, against each other and against peers that break the rules."""

import pytest
import scramp
from hypothesis import given
from hypothesis import strategies as st

from amqp10.client_core.scram import ScramCredentials
from amqp10.errors import ConnectionFault
from amqp10.protocol.sasl import (
    CLIENT_FRAMES_MAX,
    Anonymous,
    Authenticated,
    Challenge,
    Credentials,
    Failure,
    Plain,
    Refused,
    SaslChallenge,
    SaslClient,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslPerformative,
    SaslResponse,
    SaslServer,
    Success,
    decode_sasl_frame,
    encode_sasl_frame,
)
from amqp10.wire.framing import AMQP_FRAME, SASL_FRAME, FrameBounds, ReceiveBuffer, encode_frame
from amqp10.wire.performatives import Open, encode_performative

Step = Challenge | Success | Failure


class Scripted:
    """A mechanism that gives the answers of a test, and remembers the responses it got."""

    def __init__(self, name: str, *steps: Step) -> None:
        self.name = name
        self.steps = list(steps)
        self.responses: list[bytes] = []

    def start(self) -> "Scripted":
        return self

    def respond(self, response: bytes) -> Step:
        self.responses.append(response)
        return self.steps.pop(0)


class ScramOnTheServer:
    """SCRAM-SHA-256 for one user. Its last message is a challenge, or is inside the outcome."""

    name = "SCRAM-SHA-256"

    def __init__(self, password: str, *, last_word_in_outcome: bool) -> None:
        mechanism = scramp.ScramMechanism("SCRAM-SHA-256")
        keys = mechanism.make_auth_info(password, salt=b"0123456789abcdef", iteration_count=4096)
        self._server = mechanism.make_server(lambda _user: keys, s_nonce="server")
        self._last_word_in_outcome = last_word_in_outcome
        self._responses = 0

    def start(self) -> "ScramOnTheServer":
        return self

    def respond(self, response: bytes) -> Step:
        self._responses += 1
        if self._responses == 1:
            self._server.set_client_first(response.decode())
            return Challenge(self._server.get_server_first().encode())
        if self._responses == 2:
            try:
                self._server.set_client_final(response.decode())
            except scramp.ScramException as fault:
                return Failure(str(fault))
            last_word = self._server.get_server_final().encode()
            if self._last_word_in_outcome:
                return Success("alice", last_word)
            return Challenge(last_word)
        return Success("alice")


def whole_frame(encoded: bytes) -> tuple[bytes, FrameBounds]:
    buffer = ReceiveBuffer()
    buffer.feed(encoded)
    frame = buffer.next_frame(512)
    assert frame is not None
    assert len(buffer) == 0
    return encoded, frame


def decoded(encoded: bytes) -> SaslPerformative:
    return decode_sasl_frame(*whole_frame(encoded))


def give(side: SaslServer | SaslClient, performative: SaslPerformative) -> bytes:
    return side.frame_received(*whole_frame(encode_sasl_frame(performative)))


def converse(server: SaslServer, client: SaslClient) -> int:
    """Let both sides speak until both are done or silent; returns how many frames the client has sent."""
    to_client = server.start()
    frames = 0
    while to_client:
        to_server = client.frame_received(*whole_frame(to_client))
        if not to_server:
            break
        frames += 1
        to_client = server.frame_received(*whole_frame(to_server))
    return frames


@pytest.mark.parametrize(
    ("credentials", "response"),
    [
        (Plain("alice", "pässword"), "\0alice\0pässword".encode()),
        (Anonymous(), b"anonymous"),
        (Anonymous("me@example.org"), b"me@example.org"),
    ],
)
def test_mechanisms_of_one_response(credentials: Credentials, response):
    mechanism = Scripted(credentials.mechanism, Success("whoever"))
    server, client = SaslServer([mechanism]), SaslClient([credentials])
    assert converse(server, client) == 1
    assert mechanism.responses == [response]
    assert server.result == Authenticated("whoever", credentials.mechanism)
    assert client.result == Authenticated(credentials.identity, credentials.mechanism)


@pytest.mark.parametrize("last_word_in_outcome", [True, False])
def test_scram(last_word_in_outcome):
    server = SaslServer([ScramOnTheServer("secret", last_word_in_outcome=last_word_in_outcome)])
    client = SaslClient([ScramCredentials("alice", "secret", lambda: "client")])
    assert converse(server, client) == (2 if last_word_in_outcome else 3)
    assert server.result == client.result == Authenticated("alice", "SCRAM-SHA-256")


def test_scram_with_a_wrong_password():
    server = SaslServer([ScramOnTheServer("secret", last_word_in_outcome=True)])
    client = SaslClient([ScramCredentials("alice", "guess", lambda: "client")])
    converse(server, client)
    assert isinstance(server.result, Refused)
    assert client.result == Refused("the server refused the authentication with code 1: wrong credentials")


def test_scram_finds_out_a_server_that_does_not_know_the_password():
    client = SaslClient([ScramCredentials("alice", "secret", lambda: "client")])
    give(client, SaslMechanisms(sasl_server_mechanisms=("SCRAM-SHA-256",)))
    give(client, SaslChallenge(challenge=b"r=clientserver,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=4096"))
    assert give(client, SaslOutcome(code=0, additional_data=b"v=AAAA")) == b""
    assert isinstance(client.result, Refused)


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\xff",
        b"nonsense",
        b"r=other,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=4096",
        b"r=clientserver,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=99999999",
        b"r=clientserver,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=x",
        b"e=unknown-user",
    ],
)
def test_scram_refuses_a_first_message_that_makes_no_sense(challenge):
    client = SaslClient([ScramCredentials("alice", "secret", lambda: "client")])
    give(client, SaslMechanisms(sasl_server_mechanisms=("SCRAM-SHA-256",)))
    assert give(client, SaslChallenge(challenge=challenge)) == b""
    assert isinstance(client.result, Refused)


def test_scram_is_not_satisfied_with_ok_alone():
    client = SaslClient([ScramCredentials("alice", "secret", lambda: "client")])
    give(client, SaslMechanisms(sasl_server_mechanisms=("SCRAM-SHA-256",)))
    give(client, SaslOutcome(code=0))
    assert client.result == Refused("the server has proven nothing")


def test_credentials_that_scram_cannot_carry():
    client = SaslClient([ScramCredentials("", "secret", lambda: "client")])
    assert give(client, SaslMechanisms(sasl_server_mechanisms=("SCRAM-SHA-256",))) == b""
    assert isinstance(client.result, Refused)


def test_the_client_takes_its_first_credentials_that_are_offered():
    client = SaslClient(
        [ScramCredentials("alice", "x", lambda: "client"), Plain("alice", "x"), Anonymous()], "vhost:test"
    )
    init = decoded(give(client, SaslMechanisms(sasl_server_mechanisms=("ANONYMOUS", "PLAIN"))))
    assert init == SaslInit(mechanism="PLAIN", initial_response=b"\0alice\0x", hostname="vhost:test")


def test_a_client_without_fitting_credentials_gives_up():
    client = SaslClient([Plain("alice", "x")])
    assert give(client, SaslMechanisms(sasl_server_mechanisms=("GSSAPI", "ANONYMOUS"))) == b""
    assert isinstance(client.result, Refused)
    assert "'GSSAPI', 'ANONYMOUS'" in client.result.reason


@pytest.mark.parametrize(("code", "text"), [(1, "code 1: wrong"), (2, "code 2: a failure"), (4, "code 4")])
def test_an_outcome_that_is_not_ok(code, text):
    client = SaslClient([Anonymous()])
    give(client, SaslMechanisms(sasl_server_mechanisms=("ANONYMOUS",)))
    give(client, SaslOutcome(code=code))
    assert isinstance(client.result, Refused)
    assert text in client.result.reason


def test_a_challenge_that_plain_does_not_have():
    client = SaslClient([Plain("alice", "x")])
    give(client, SaslMechanisms(sasl_server_mechanisms=("PLAIN",)))
    assert decoded(give(client, SaslChallenge(challenge=b""))) == SaslResponse(response=b"\0alice\0x")
    assert give(client, SaslChallenge(challenge=b"password?")) == b""
    assert isinstance(client.result, Refused)


def test_the_offer_is_an_array_even_of_one():
    offer = SaslServer([Scripted("PLAIN")]).start()
    assert offer == encode_frame(0, bytes.fromhex("005340c00b01e00801a305504c41494e"), frame_type=SASL_FRAME)
    assert decoded(SaslServer([Scripted("A"), Scripted("B")]).start()) == SaslMechanisms(
        sasl_server_mechanisms=("A", "B")
    )


def test_a_mechanism_that_is_not_offered():
    chosen: list[str] = []
    server = SaslServer([Scripted("PLAIN", Success("x"))], not_offered=chosen.append)
    assert decoded(give(server, SaslInit(mechanism="GSSAPI"))) == SaslOutcome(code=1)
    assert chosen == ["GSSAPI"]
    assert server.result == Refused("the mechanism 'GSSAPI' is not offered")


def test_a_mechanism_that_is_withheld_is_not_offered_and_the_log_gets_the_reason():
    server = SaslServer([Scripted("SCRAM-SHA-256")], {"PLAIN": "use amqps://"})
    assert decoded(server.start()) == SaslMechanisms(sasl_server_mechanisms=("SCRAM-SHA-256",))
    assert decoded(give(server, SaslInit(mechanism="PLAIN", initial_response=b"\0a\0b"))) == SaslOutcome(code=1)
    assert server.result == Refused("the mechanism 'PLAIN' is not offered: use amqps://")


def test_why_is_not_told_to_the_peer():
    server = SaslServer([Scripted("PLAIN", Failure("no user mallory"))])
    outcome = give(server, SaslInit(mechanism="PLAIN", initial_response=b"x"))
    assert decoded(outcome) == SaslOutcome(code=1)
    assert server.result == Refused("no user mallory")


def test_a_client_that_does_not_speak_first_is_asked_to():
    mechanism = Scripted("PLAIN", Success("alice"))
    server = SaslServer([mechanism])
    assert decoded(give(server, SaslInit(mechanism="PLAIN"))) == SaslChallenge(challenge=b"")
    assert mechanism.responses == []
    assert decoded(give(server, SaslResponse(response=b"late"))) == SaslOutcome(code=0)
    assert mechanism.responses == [b"late"]


@pytest.mark.parametrize("name", ["ANONYMOUS", "EXTERNAL"])
def test_silence_is_an_answer_where_nothing_is_asked(name):
    mechanism = Scripted(name, Success("someone"))
    server = SaslServer([mechanism])
    assert decoded(give(server, SaslInit(mechanism=name))) == SaslOutcome(code=0)
    assert mechanism.responses == [b""]


def test_the_number_of_frames_is_bounded():
    server = SaslServer([Scripted("X", *[Challenge(b"again")] * CLIENT_FRAMES_MAX)])
    assert decoded(give(server, SaslInit(mechanism="X", initial_response=b""))) == SaslChallenge(challenge=b"again")
    for _ in range(CLIENT_FRAMES_MAX - 2):
        assert decoded(give(server, SaslResponse(response=b""))) == SaslChallenge(challenge=b"again")
    assert decoded(give(server, SaslResponse(response=b""))) == SaslOutcome(code=1)
    assert server.result == Refused("not authenticated within 4 frames")


@pytest.mark.parametrize(
    "performative",
    [
        SaslMechanisms(sasl_server_mechanisms=("PLAIN",)),
        SaslChallenge(challenge=b""),
        SaslOutcome(code=0),
        SaslResponse(response=b""),
    ],
    ids=lambda performative: type(performative).__name__,
)
def test_frames_that_a_server_does_not_expect(performative):
    server = SaslServer([Scripted("PLAIN", Success("x"))])
    with pytest.raises(ConnectionFault, match="amqp:not-allowed"):
        give(server, performative)
    assert server.result is None


def test_a_second_init_is_no_second_attempt():
    server = SaslServer([Scripted("X", Challenge(b"?"), Success("x"))])
    give(server, SaslInit(mechanism="X", initial_response=b""))
    with pytest.raises(ConnectionFault, match="amqp:not-allowed: SaslInit"):
        give(server, SaslInit(mechanism="X", initial_response=b""))


@pytest.mark.parametrize(
    "performative",
    [
        SaslInit(mechanism="PLAIN"),
        SaslResponse(response=b""),
        SaslChallenge(challenge=b""),
        SaslOutcome(code=0),
    ],
    ids=lambda performative: type(performative).__name__,
)
def test_frames_that_a_client_does_not_expect_first(performative):
    client = SaslClient([Plain("alice", "x")])
    with pytest.raises(ConnectionFault, match="amqp:not-allowed"):
        give(client, performative)


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (encode_frame(0, b"", frame_type=SASL_FRAME), "framing-error: an empty SASL frame"),
        (encode_frame(0, encode_performative(Open(container_id="c"))), "framing-error: frame type 0"),
        (encode_frame(0, b"", frame_type=AMQP_FRAME), "framing-error: frame type 0"),
        (encode_frame(0, b"\x00\x53\x10\x45", frame_type=SASL_FRAME), "decode-error: descriptor 16"),
        (encode_frame(0, b"\x00\x53\x41\x45", frame_type=SASL_FRAME), "invalid-field: sasl-init: mandatory"),
        (encode_frame(0, b"\x00\x53\x44\xc0\x03\x01\x50\x05", frame_type=SASL_FRAME), "invalid-field"),
        (encode_frame(0, b"\x00\x53\x41\xc0\x04\x01\xa3\x01X\x40", frame_type=SASL_FRAME), "1 bytes behind"),
        (encode_frame(0, b"\x00", frame_type=SASL_FRAME), "decode-error: a SASL performative is cut"),
        (encode_frame(0, b"\x00" * 500, frame_type=SASL_FRAME), "nested deeper"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_broken_frames(encoded, text):
    for side in (SaslServer([Scripted("X")]), SaslClient([Anonymous()])):
        with pytest.raises(ConnectionFault, match=text):
            side.frame_received(*whole_frame(encoded))
        assert side.result is None


def check_fault(fault: ConnectionFault) -> None:
    assert fault.condition in ("amqp:decode-error", "amqp:invalid-field", "amqp:not-allowed")
    assert len(fault.description) < 400


@given(st.sampled_from(range(0x40, 0x45)), st.binary(max_size=40))
def test_garbage_raises_nothing_but_connection_faults(descriptor, garbage):
    body = bytes((0x00, 0x53, descriptor, 0xC0, len(garbage) + 1, 3)) + garbage
    encoded = encode_frame(0, body, frame_type=SASL_FRAME)
    for side in (SaslServer([Scripted("", Failure())]), SaslClient([Anonymous()])):
        try:
            side.frame_received(*whole_frame(encoded))
        except ConnectionFault as fault:
            check_fault(fault)
        else:
            assert side.result is None or isinstance(side.result, Refused)
