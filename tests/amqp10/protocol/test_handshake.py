"""Protocol headers and SASL on both sides, cut anywhere: who is let in, who is refused, and when the refusal is sent
[2.2, 5.3]."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from amqp10.errors import ConnectionFault
from amqp10.protocol.handshake import ANONYMOUS, ClientHandshake, Handshake, NoHandshake, ServerHandshake
from amqp10.protocol.sasl import (
    Anonymous,
    Challenge,
    Credentials,
    Failure,
    Plain,
    SaslOutcome,
    Success,
    encode_sasl_frame,
)
from amqp10.wire.framing import (
    PROTOCOL_HEADER_AMQP,
    PROTOCOL_HEADER_SASL,
    PROTOCOL_HEADER_TLS,
    ReceiveBuffer,
    encode_frame,
)

REFUSAL_DELAY_S = 2.0
NOW = 100.0


class AsksTwice:
    """A mechanism PLAIN that lets in a client that says the password. When told to, it sends a challenge first."""

    name = "PLAIN"

    def __init__(self, *, asks: bool = False) -> None:
        self.questions = int(asks)

    def start(self) -> "AsksTwice":
        return self

    def respond(self, response: bytes) -> Challenge | Success | Failure:
        if self.questions:
            self.questions -= 1
            return Challenge(b"")
        return Success("ann") if response == b"\0ann\0secret" else Failure("not the password")


def server(*, bare_allowed: bool = False, asks: bool = False) -> ServerHandshake:
    return ServerHandshake(
        [AsksTwice(asks=asks)],
        bare_allowed=bare_allowed,
        refusal_delay_s=lambda: REFUSAL_DELAY_S,
        frame_size_max=512,
    )


def client(*credentials: Credentials) -> ClientHandshake:
    return ClientHandshake(credentials, hostname="vhost:/", frame_size_max=512)


class Reader:
    """A handshake, and its receive buffer."""

    def __init__(self, handshake: Handshake) -> None:
        self.handshake = handshake
        self.buffer = ReceiveBuffer()

    def output(self) -> bytes:
        """Take the bytes to send."""
        output, self.handshake.output = self.handshake.output, b""
        return output

    def take(self, data: bytes, pieces: tuple[int, ...] = (2**30,)) -> None:
        start = 0
        while data[start:]:
            size = pieces[start % len(pieces)]
            self.buffer.feed(data[start : start + size])
            start += size
            while not self.handshake.complete and self.handshake.advance(self.buffer, NOW):
                pass


def shake(one: Reader, other: Reader, pieces: tuple[int, ...] = (2**30,)) -> None:
    """Carry bytes both ways until there are none."""
    while True:
        to_other, to_one = one.output(), other.output()
        if not to_other and not to_one:
            return
        other.take(to_other, pieces)
        one.take(to_one, pieces)


# --- both sides


@given(pieces=st.lists(st.integers(1, 30), min_size=1).map(tuple), asks=st.booleans())
def test_the_right_credentials(pieces, asks):
    ours, theirs = Reader(client(Plain("ann", "secret"))), Reader(server(asks=asks))
    shake(ours, theirs, pieces)
    for side in (ours.handshake, theirs.handshake):
        assert side.complete
        assert side.refused is None
        assert side.identity == "ann"
        assert side.refuse_at is None


@given(pieces=st.lists(st.integers(1, 30), min_size=1).map(tuple))
def test_the_wrong_credentials(pieces):
    """The server answers late, and takes nothing meanwhile."""
    ours, theirs = Reader(client(Plain("ann", "guess"))), Reader(server())
    shake(ours, theirs, pieces)
    assert theirs.handshake.refuse_at == NOW + REFUSAL_DELAY_S
    assert ours.handshake.refused is theirs.handshake.refused is None
    theirs.take(PROTOCOL_HEADER_AMQP)
    theirs.handshake.tick(NOW + REFUSAL_DELAY_S - 0.1)
    assert theirs.output() == b""
    theirs.handshake.tick(NOW + REFUSAL_DELAY_S)
    assert theirs.handshake.refused == "not the password"
    assert theirs.handshake.refuse_at is None
    theirs.handshake.tick(NOW + 99)
    shake(ours, theirs, pieces)
    assert ours.handshake.refused is not None
    assert "code 1" in ours.handshake.refused
    assert not ours.handshake.complete
    ours.take(PROTOCOL_HEADER_AMQP)
    assert not ours.handshake.complete


def test_no_common_mechanism():
    ours, theirs = Reader(client(Anonymous())), Reader(server())
    shake(ours, theirs)
    assert ours.handshake.refused == ("the server offers only mechanisms for which there are no credentials: 'PLAIN'")


def test_without_sasl():
    ours, theirs = Reader(client()), Reader(server(bare_allowed=True))
    shake(ours, theirs)
    assert ours.handshake.complete
    assert theirs.handshake.complete
    assert ours.handshake.identity == theirs.handshake.identity == ANONYMOUS


def test_without_sasl_where_it_is_demanded():
    ours, theirs = Reader(client()), Reader(server())
    shake(ours, theirs)
    assert theirs.handshake.refused is not None
    assert ours.handshake.refused is not None
    assert repr(PROTOCOL_HEADER_SASL) in ours.handshake.refused


# --- the server


@pytest.mark.parametrize("header", [PROTOCOL_HEADER_TLS, b"AMQP\x00\x00\x09\x01", b"GET / HT", b"AMQP\x03\x01\x01\x00"])
@pytest.mark.parametrize("bare_allowed", [True, False])
def test_other_headers_are_answered_with_ours(header, bare_allowed):
    theirs = Reader(server(bare_allowed=bare_allowed))
    theirs.take(header + PROTOCOL_HEADER_SASL)
    assert theirs.output() == PROTOCOL_HEADER_SASL
    assert theirs.handshake.refused is not None
    assert "not accepted" in theirs.handshake.refused


def test_a_second_sasl_header_behind_the_first_layer():
    ours, theirs = Reader(client(Plain("ann", "secret"))), Reader(server())
    while theirs.handshake.identity != "ann":
        theirs.take(ours.output())
        ours.take(theirs.output())
    theirs.take(PROTOCOL_HEADER_SASL)
    assert theirs.output() == PROTOCOL_HEADER_AMQP
    assert theirs.handshake.refused is not None
    assert not theirs.handshake.complete


@pytest.mark.parametrize(
    "data",
    [
        (1000).to_bytes(4) + b"\x02\x01\x00\x00",
        encode_frame(0, b"\x00\x53\x10\x45"),
        encode_sasl_frame(SaslOutcome(code=0)),
    ],
    ids=["larger than allowed", "no SASL frame", "not for a server"],
)
def test_broken_frames_end_the_server_s_handshake(data):
    theirs = Reader(server())
    theirs.take(PROTOCOL_HEADER_SASL)
    with pytest.raises(ConnectionFault) as fault:
        theirs.take(data)
    assert theirs.handshake.refused == fault.value.description
    theirs.take(PROTOCOL_HEADER_AMQP)
    assert not theirs.handshake.complete


# --- the client


def test_the_client_waits_for_the_servers_header():
    ours = Reader(client(Plain("ann", "secret")))
    assert ours.output() == PROTOCOL_HEADER_SASL
    assert ours.output() == b""
    ours.take(PROTOCOL_HEADER_SASL[:5])
    assert not ours.handshake.complete
    ours.handshake.tick(1e9)
    assert ours.handshake.refused is None
    assert ours.handshake.refuse_at is None


def test_a_server_that_turns_down_amqp_behind_sasl():
    ours, theirs = Reader(client(Plain("ann", "secret"))), Reader(server())
    while ours.handshake.identity != "ann":
        theirs.take(ours.output())
        ours.take(theirs.output())
    assert ours.output() == PROTOCOL_HEADER_AMQP
    ours.take(b"AMQP\x00\x02\x00\x00")
    assert ours.handshake.refused is not None
    assert "does not accept" in ours.handshake.refused


def test_broken_frames_end_the_client_s_handshake():
    ours = Reader(client(Plain("ann", "secret")))
    ours.take(PROTOCOL_HEADER_SASL)
    with pytest.raises(ConnectionFault) as fault:
        ours.take(encode_sasl_frame(SaslOutcome(code=0)))
    assert ours.handshake.refused == fault.value.description


# --- no handshake


def test_no_handshake_is_over_at_once():
    none = NoHandshake()
    assert none.complete
    assert none.identity == ANONYMOUS
    assert none.output == b""
    assert not none.advance(ReceiveBuffer(), NOW)
    none.tick(NOW)
    assert none.refused is none.refuse_at is None
