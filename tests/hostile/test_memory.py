"""How much memory a connection may use before it has authenticated, and how much closed connections leave in use.

Measured by tracemalloc, which sees all objects of Python code and none of the interpreter's own.
"""

import gc
import tracemalloc
from collections.abc import Callable

import pytest

from amqp10.protocol.sasl import SaslInit, encode_sasl_frame
from amqp10.wire.codec.decode import ZERO_WIDTH_ELEMENTS_MAX
from amqp10.wire.framing import PROTOCOL_HEADER_SASL
from amqp10.wire.performatives import Open, encode_performative
from tests.hostile.test_before_open import guest_only
from tests.kit.hostile import (
    Arena,
    composite,
    frame,
    list_claiming,
    map_of_pairs,
    nested_descriptors,
    nested_lists,
    zero_width_array,
)
from tests.kit.wire import WirePeer

BEFORE_AUTHENTICATION_MAX = 2**20
"""Bytes for one connection; this is the promise."""
READ = 65_536
"""How many bytes the server reads at once, at least."""
SYMBOL, STRING, NULL = b"\xa3\x01A", b"\xa1\x01A", b"\x40"


def most_used(attack: Callable[[], None]) -> int:
    """The most bytes in use during an attack, less those in use before."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        attack()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def compact_list(element: bytes, bytes_max: int) -> bytes:
    """The longest list of this element that fits into so many bytes."""
    count = (bytes_max - 9) // len(element)
    return b"\xd0" + (4 + count * len(element)).to_bytes(4) + count.to_bytes(4) + element * count


SASL_ATTACKS = {
    "silence": b"",
    "a frame that never becomes whole": frame(b"", size=8192, kind=1) + bytes(8183),
    "a read full of garbage": b"\xff" * READ,
    "nested lists": frame(composite(0x41, SYMBOL, nested_lists(800)), kind=1),
    "2,000 descriptors": frame(composite(0x41, SYMBOL, nested_descriptors(2000)), kind=1),
    "nothings as many as are believed": frame(composite(0x40, zero_width_array(ZERO_WIDTH_ELEMENTS_MAX)), kind=1),
    "100 million nothings": frame(composite(0x40, zero_width_array(10**8)), kind=1),
    "4 billion fields": frame(b"\x00\x53\x41" + list_claiming(2**32 - 1), kind=1),
    "numbers as a descriptor": frame(b"\x00" + compact_list(b"\x50\x01", 8000) + b"\x45", kind=1),
    "8,000 bytes of mechanism": frame(composite(0x41, b"\xb3" + (8000).to_bytes(4) + b"M" * 8000), kind=1),
    "8,000 bytes of password": encode_sasl_frame(
        SaslInit(mechanism="PLAIN", initial_response=b"\0guest\0" + b"g" * 8000)
    ),
    "a flood behind a wrong password": encode_sasl_frame(
        SaslInit(mechanism="PLAIN", initial_response=b"\0guest\0wrong")
    )
    + bytes(20 * READ),
}


@pytest.mark.parametrize("data", SASL_ATTACKS.values(), ids=SASL_ATTACKS)
def test_a_connection_before_authentication_costs_little(arena: Arena, data: bytes):
    pieces = [data[at : at + READ] for at in range(0, len(data), READ)]

    def attack() -> None:
        peer = arena.stranger(*guest_only())
        peer.send_bytes(PROTOCOL_HEADER_SASL)
        for piece in pieces:
            peer.send_bytes(piece)

    attack()  # so that what is kept once for all connections is not counted
    assert most_used(attack) < BEFORE_AUTHENTICATION_MAX


OPEN_ATTACKS = {
    "small numbers": compact_list(b"\x50\x01", 8000),
    "empty lists": compact_list(b"\x45", 8000),
    "lists of one": compact_list(b"\xc0\x02\x01\x45", 8000),
    "symbols": compact_list(SYMBOL, 8000),
    "uuids": compact_list(b"\x98" + bytes(16), 8000),
    "nothings as many as are believed": zero_width_array(ZERO_WIDTH_ELEMENTS_MAX),
}


@pytest.mark.parametrize("value", OPEN_ATTACKS.values(), ids=OPEN_ATTACKS)
def test_an_open_costs_little_too(arena: Arena, value: bytes):
    """The open is kept as long as the connection. With ANONYMOUS every client may send one."""
    body = composite(0x10, STRING, *[NULL] * 8, map_of_pairs(SYMBOL, value))

    def attack() -> None:
        peer = arena.stranger()
        peer.handshake()
        peer.send_bytes(frame(body))
        assert peer.front_end.established

    attack()
    assert most_used(attack) < BEFORE_AUTHENTICATION_MAX


@pytest.mark.slow
def test_hundreds_of_half_open_connections_cost_little(arena: Arena):
    peers: list[WirePeer] = []

    def attack() -> None:
        for _ in range(300):
            peer = arena.stranger(*guest_only())
            peer.send_bytes(PROTOCOL_HEADER_SASL + bytes(7))
            peers.append(peer)

    assert most_used(attack) < 40 * 1024 * 300
    arena.bystander.round()


@pytest.mark.slow
def test_connections_that_come_and_go_leave_nothing(arena: Arena):
    def attack() -> None:
        for n in range(50):
            peer = arena.attacker()
            peer.attach_receiver(arena.address)
            peer.attach_sender(arena.address)
            peer.grant(100)
            peer.send_all([peer.transfer_frame(more=True)])
            if n % 2:
                peer.send_bytes(b"\xff" * 100)
            peer.disconnect()
            arena.broker.peers.remove(peer)

    def left_behind() -> int:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        attack()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before

    tracemalloc.start()
    try:
        left_behind()
        assert left_behind() < 50 * 100, "less than 100 bytes for each of 50"
    finally:
        tracemalloc.stop()


def test_an_open_of_more_than_8_kib_is_refused_before_it_is_here(arena: Arena):
    whole = frame(encode_performative(Open(container_id="x" * 100_000)))

    def attack() -> None:
        peer = arena.stranger()
        peer.handshake()
        peer.send_bytes(whole[:8])
        assert peer.closed_with("amqp:connection:framing-error")

    assert most_used(attack) < BEFORE_AUTHENTICATION_MAX
