"""Before the open: wrong headers, broken SASL, frames that are too large, too deep or not whole.

A peer that has not authenticated may send little: 8 KiB a frame, 32 levels, four SASL frames. A broken SASL layer has
no error frame [5.3], so the connection ends. After it, every failed open is answered by an open and a close with the
reason.
"""

import time

import pytest

from amqp10.protocol.sasl import (
    OUTCOME_AUTH,
    Challenge,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    encode_sasl_frame,
)
from amqp10.serve import Mechanism
from amqp10.wire.framing import PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL, PROTOCOL_HEADER_TLS, encode_frame
from amqp10.wire.performatives import Begin, Close, Open, encode_performative
from amqp10.wire.types import Symbol
from core.access.mechanisms import PASSWORD_BYTES_MAX, offered
from tests.kit.hostile import (
    Arena,
    composite,
    frame,
    list_claiming,
    map_claiming,
    map_of_pairs,
    nested_descriptors,
    nested_lists,
    zero_width_array,
)
from tests.kit.logins import from_here, make_access
from tests.kit.wire import WirePeer

REFUSAL_DELAY_S = 1.0
WRONG_OUTCOME = encode_sasl_frame(SaslOutcome(code=OUTCOME_AUTH))
INIT = encode_sasl_frame(SaslInit(mechanism="ANONYMOUS", initial_response=b""))
SYMBOL_A, STRING_A, NULL = b"\xa3\x01A", b"\xa1\x01A", b"\x40"


class AsksForEver:
    """A mechanism that always sends another challenge."""

    name = "TWENTY-QUESTIONS"

    def start(self) -> "AsksForEver":
        return self

    def respond(self, response: bytes) -> Challenge:
        return Challenge(b"why?")


def guest_only() -> list[Mechanism]:
    """The mechanisms that the broker offers on loopback."""
    return [Mechanism(mechanism) for mechanism in offered(make_access(), from_here())]


def said_after_sasl_header(peer: WirePeer, data: bytes) -> bytes:
    """The broker's answer to these bytes, behind the mechanisms."""
    peer.send_bytes(PROTOCOL_HEADER_SASL)
    before = len(peer.raw)
    peer.send_bytes(data)
    return peer.raw[before:]


# --- headers ---------------------------------------------------------------------------------------------------------

NO_HEADERS = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "AMQP 0.9.1": b"AMQP\x00\x00\x09\x01",
    "AMQP 1.0 over TLS": PROTOCOL_HEADER_TLS,
    "AMQP 1.1": b"AMQP\x00\x01\x01\x00",
    "AMQP of protocol 255": b"AMQP\xff\x01\x00\x00",
    "zeros": bytes(64),
    "a bare AMQP header, and an open": PROTOCOL_HEADER_AMQP + frame(encode_performative(Open(container_id="x"))),
}


@pytest.mark.parametrize("data", NO_HEADERS.values(), ids=NO_HEADERS)
def test_anything_but_a_sasl_header_is_answered_by_one_and_the_end(arena: Arena, data: bytes):
    peer = arena.stranger()
    peer.send_bytes(data)
    assert peer.raw == PROTOCOL_HEADER_SASL
    assert peer.lost


@pytest.mark.parametrize("header", [PROTOCOL_HEADER_SASL, PROTOCOL_HEADER_TLS, b"GET / HT"])
def test_behind_sasl_only_an_amqp_header_will_do(arena: Arena, header: bytes):
    peer = arena.stranger()
    assert said_after_sasl_header(peer, INIT + header).endswith(PROTOCOL_HEADER_AMQP)
    assert peer.lost


# --- SASL ------------------------------------------------------------------------------------------------------------

BROKEN_SASL = {
    "an AMQP frame": frame(encode_performative(Open(container_id="x"))),
    "an empty frame": frame(b"", kind=1),
    "garbage": frame(b"\xde\xad\xbe\xef" * 8, kind=1),
    "a body that is no performative": frame(b"\x45", kind=1),
    "an unknown performative": frame(composite(0x4F, NULL), kind=1),
    "an AMQP performative": frame(encode_performative(Open(container_id="x")), kind=1),
    "the server's mechanisms": encode_sasl_frame(SaslMechanisms(sasl_server_mechanisms=("PLAIN",))),
    "the server's challenge": encode_sasl_frame(SaslChallenge(challenge=b"?")),
    "the server's outcome": encode_sasl_frame(SaslOutcome(code=0)),
    "a response before an init": encode_sasl_frame(SaslResponse(response=b"!")),
    "an init without a mechanism": frame(composite(0x41), kind=1),
    "an init with a mechanism of a wrong type": frame(composite(0x41, STRING_A), kind=1),
    "an init with a field too many": frame(composite(0x41, SYMBOL_A, NULL, NULL, NULL), kind=1),
    "an init with bytes behind it": frame(composite(0x41, SYMBOL_A) + b"\x40", kind=1),
    "a mechanism that is not ASCII": frame(composite(0x41, b"\xa3\x02\xc3\xa4"), kind=1),
    "a hostname that is not UTF-8": frame(composite(0x41, SYMBOL_A, NULL, b"\xa1\x01\xff"), kind=1),
    "a frame of 8193 bytes": frame(b"", size=8193, kind=1),
    "a frame of 4 GiB": frame(b"", size=2**32 - 1, kind=1),
    "a frame of 3 bytes": frame(b"", size=3, kind=1),
    "a frame of a type that nobody knows": frame(b"", kind=2),
    "data offset 1": frame(b"", doff=1, kind=1),
    "data offset behind the end": frame(b"", doff=255, kind=1),
    "33 lists deep": frame(composite(0x41, nested_lists(33)), kind=1),
    "descriptors 2,000 deep": frame(nested_descriptors(2000), kind=1),
    "a descriptor of descriptors": frame(b"\x00" * 4000, kind=1),
    "an array of 100 million nothings": frame(composite(0x40, zero_width_array(10**8)), kind=1),
    "a list of more than there is": frame(b"\x00\x53\x41" + list_claiming(2**32 - 1), kind=1),
}


@pytest.mark.parametrize("data", BROKEN_SASL.values(), ids=BROKEN_SASL)
def test_a_broken_sasl_layer_ends_at_once_and_in_silence(arena: Arena, data: bytes):
    peer = arena.stranger()
    assert said_after_sasl_header(peer, data) == b""
    assert peer.lost


def test_two_thousand_levels_fail_fast(arena: Arena):
    """6 KiB, which cost another broker 2 GiB."""
    deep = frame(composite(0x41, SYMBOL_A, NULL, b"\x00\xa3\x01d" * 1000 + NULL), kind=1)
    began = time.process_time()
    for _ in range(100):
        assert said_after_sasl_header(arena.stranger(), deep) == b""
    assert time.process_time() - began < 1.0, "a hundred of them; each would have been seconds"


@pytest.mark.parametrize("size", [7, 8, 100])
def test_a_sasl_frame_that_never_becomes_whole_is_waited_for(arena: Arena, size: int):
    peer = arena.stranger()
    assert said_after_sasl_header(peer, (INIT + bytes(100))[: min(size, len(INIT) - 1)]) == b""
    assert not peer.lost


def test_a_mechanism_that_is_not_offered_is_refused_late(arena: Arena):
    peer = arena.stranger()
    assert said_after_sasl_header(peer, encode_sasl_frame(SaslInit(mechanism="CRAM-MD5"))) == b""
    assert not peer.lost
    arena.broker.advance(REFUSAL_DELAY_S)
    assert peer.raw.endswith(WRONG_OUTCOME)
    assert peer.lost


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"guest",
        b"\0guest\0wrong",
        b"\0nobody\0guest",
        b"\0guest",
        b"\0guest\0guest\0",
        b"admin\0guest\0guest",
        b"\0guest\0" + b"g" * (PASSWORD_BYTES_MAX + 1),
        b"\0" + b"g" * 4000 + b"\0guest",
        b"\0guest\0\xff",
        b"\0" * 7000,
    ],
)
def test_plain_that_is_wrong_in_any_way_is_refused_late(arena: Arena, response: bytes):
    peer = arena.stranger(*guest_only())
    init = encode_sasl_frame(SaslInit(mechanism="PLAIN", initial_response=response or None))
    answer = encode_sasl_frame(SaslResponse(response=response))
    assert WRONG_OUTCOME not in said_after_sasl_header(peer, init + (b"" if response else answer * 2))
    arena.broker.advance(REFUSAL_DELAY_S)
    assert peer.raw.endswith(WRONG_OUTCOME)
    assert peer.lost


def test_what_follows_a_refused_init_is_thrown_away(arena: Arena):
    peer = arena.stranger(*guest_only())
    init = encode_sasl_frame(SaslInit(mechanism="PLAIN", initial_response=b"\0guest\0wrong"))
    said_after_sasl_header(peer, init)
    for _ in range(100):
        peer.send_bytes(bytes(65536))
    assert len(peer.front_end.connection._buffer) == 0
    arena.broker.advance(REFUSAL_DELAY_S)
    assert peer.lost


def test_a_client_may_not_be_asked_for_ever(arena: Arena):
    peer = arena.stranger(AsksForEver())
    init = encode_sasl_frame(SaslInit(mechanism="TWENTY-QUESTIONS", initial_response=b"because"))
    answer = encode_sasl_frame(SaslResponse(response=b"because"))
    said = said_after_sasl_header(peer, init + answer * 100)
    assert said == encode_sasl_frame(SaslChallenge(challenge=b"why?")) * 3
    arena.broker.advance(REFUSAL_DELAY_S)
    assert peer.raw.endswith(WRONG_OUTCOME)
    assert peer.lost


def test_a_second_init_ends_the_connection(arena: Arena):
    peer = arena.stranger(AsksForEver())
    init = encode_sasl_frame(SaslInit(mechanism="TWENTY-QUESTIONS", initial_response=b"because"))
    said_after_sasl_header(peer, init + init)
    assert peer.lost


def test_scram_that_makes_no_sense_is_refused(arena: Arena):
    for response in (
        b"n,,n=guest",
        b"n,,n=guest,r=",
        b"y" * 5000,
        b"n,,n=guest,r=abc\xff",
        b"p=tls-unique,,n=guest,r=a",
    ):
        peer = arena.stranger(*guest_only())
        said_after_sasl_header(peer, encode_sasl_frame(SaslInit(mechanism="SCRAM-SHA-256", initial_response=response)))
        arena.broker.advance(REFUSAL_DELAY_S)
        assert peer.raw.endswith(WRONG_OUTCOME)
        assert peer.lost


# --- between SASL and the open ---------------------------------------------------------------------------------------

FRAMING, DECODE, FIELD = "amqp:connection:framing-error", "amqp:decode-error", "amqp:invalid-field"
ILLEGAL, NOT_ALLOWED = "amqp:illegal-state", "amqp:not-allowed"


def opening(**fields: object) -> bytes:
    """An open with these fields."""
    return frame(encode_performative(Open(container_id="x", **fields)))  # type: ignore[arg-type]


def open_with(*fields: bytes) -> bytes:
    """An open whose last fields are these. Capabilities and properties are the seventh to the tenth field."""
    return frame(composite(0x10, STRING_A, *[NULL] * (9 - len(fields)), *fields))


BEGIN = encode_performative(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))
BROKEN_OPENS = {
    "a begin before the open": (frame(BEGIN), ILLEGAL),
    "a close before the open": (frame(encode_performative(Close())), ILLEGAL),
    "an open on channel 1": (frame(opening()[8:], channel=1), FRAMING),
    "a SASL frame": (INIT, FRAMING),
    "a frame of 8193 bytes": (frame(b"", size=8193), FRAMING),
    "a frame of 128 KiB, whole": (frame(bytes(131_064)), FRAMING),
    "a frame of 4 GiB": (frame(b"", size=2**32 - 1), FRAMING),
    "a frame of 7 bytes": (frame(b"", size=7), FRAMING),
    "data offset 0": (frame(b"", doff=0), FRAMING),
    "garbage": (b"\xff" * 64, FRAMING),
    "no container-id": (frame(composite(0x10)), FIELD),
    "a container-id of a wrong type": (frame(composite(0x10, SYMBOL_A)), FIELD),
    "a container-id that is not UTF-8": (frame(composite(0x10, b"\xa1\x01\xff")), DECODE),
    "a max-frame-size of 511": (opening(max_frame_size=511), FRAMING),
    "an idle-time-out of 1 ms": (opening(idle_time_out=1), NOT_ALLOWED),
    "a field too many": (frame(composite(0x10, STRING_A, *[NULL] * 10)), DECODE),
    "a field that is cut": (frame(composite(0x10, b"\xa1\xff")), DECODE),
    "properties 33 deep": (open_with(map_of_pairs(SYMBOL_A, nested_lists(33))), DECODE),
    "properties with more than there is": (open_with(map_claiming(2**32 - 2)), DECODE),
    "capabilities of 100 million nothings": (open_with(zero_width_array(10**8), NULL), DECODE),
}


@pytest.mark.parametrize(("data", "condition"), BROKEN_OPENS.values(), ids=BROKEN_OPENS)
def test_a_failed_open_is_answered_by_an_open_and_a_close_with_the_reason(arena: Arena, data: bytes, condition: str):
    peer = arena.stranger()
    peer.handshake()
    peer.send_bytes(data + data)
    peer.expect(Open)
    close = peer.expect(Close)
    assert close.error is not None
    assert close.error.condition == condition
    assert peer.nothing_came()
    assert peer.lost


@pytest.mark.parametrize(("depth", "accepted"), [(29, True), (33, False)])
def test_without_sasl_too_nesting_before_the_open_is_limited_to_32(arena: Arena, depth: int, accepted: bool):
    peer = arena.stranger(bare_allowed=True)
    peer.send_bytes(PROTOCOL_HEADER_AMQP)
    peer._in_frames = True
    peer.send(Open(container_id="x", properties={"deep": nested(depth)}))
    peer.expect(Open)
    assert bool(peer.take(Close)) is not accepted


def nested(depth: int) -> object:
    value: object = Symbol("bottom")
    for _ in range(depth):
        value = [value]
    return value


def test_an_open_may_be_8_kib_and_come_in_pieces(arena: Arena):
    peer = arena.stranger()
    peer.handshake()
    whole = frame(encode_performative(Open(container_id="x" * (8192 - 8 - 17))))
    assert len(whole) == 8192
    for at in range(0, len(whole), 512):
        assert peer.nothing_came()
        peer.send_bytes(whole[at : at + 512])
    peer.expect(Open)


def test_the_broker_may_stop_at_any_point_of_a_handshake(arena: Arena):
    """Before the end of SASL the broker cannot give a reason. After it, it sends an open and a close, whatever
    follows."""
    steps = [PROTOCOL_HEADER_SASL, INIT, PROTOCOL_HEADER_AMQP, frame(encode_performative(Open(container_id="x")))]
    for count in range(len(steps) + 1):
        peer = arena.stranger()
        peer.send_bytes(b"".join(steps[:count]))
        before = len(peer.raw)
        peer.front_end.shut_down("the broker stops", arena.broker.now)
        arena.broker.touch(peer)
        arena.broker.run()
        said = peer.raw[before:]
        assert (b"amqp:connection:forced" in said) is (count > 2)
        peer.front_end.receive_data(b"".join(steps[count:]), arena.broker.now)
        assert peer.front_end.pieces_to_send(arena.broker.now) == []


def test_heartbeats_do_not_make_up_for_an_open(arena: Arena):
    peer = arena.stranger()
    peer.handshake()
    peer.send_bytes(encode_frame(0, b"") * 100)
    assert peer.nothing_came()
    assert not peer.front_end.established
