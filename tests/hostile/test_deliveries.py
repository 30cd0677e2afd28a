"""Deliveries that never end, that come without link credit, or whose content no message may have.

The link is detached, incomplete deliveries are dropped, and no queue gets any part of them.
"""

import time

import pytest

from amqp10.frontend.message_check import LOOKED_INTO_BYTES_MAX
from amqp10.protocol.receiver_link import EMPTY_FRAMES_PER_DELIVERY_MAX
from amqp10.wire.messaging import RELEASED
from amqp10.wire.performatives import Attach, Detach, Disposition, End, Flow, Transfer
from amqp10.wire.sections import BODY_SECTIONS_MAX
from core.interface import Binding
from tests.kit.hostile import (
    Arena,
    composite,
    frame,
    held,
    list_claiming,
    list_of,
    map_claiming,
    map_of_pairs,
    nested_descriptors,
    nested_lists,
    section,
    zero_width_array,
)
from tests.kit.settings import make_settings
from tests.kit.wire import WirePeer, data_message

DECODE, LIMIT, FIELD = "amqp:decode-error", "amqp:resource-limit-exceeded", "amqp:invalid-field"
TRANSFER_LIMIT, MESSAGE_SIZE = "amqp:link:transfer-limit-exceeded", "amqp:link:message-size-exceeded"
NULL, STRING_A, SYMBOL_XA = b"\x40", b"\xa1\x01A", b"\xa3\x03x-a"
BODY = data_message(b"body")


def publisher(arena: Arena, address: str | None = "/queues/q") -> WirePeer:
    """An attacker with a publishing link."""
    peer = arena.attacker()
    peer.attach_sender(address)
    peer.take(Flow)
    return peer


def binary_32(size: int) -> bytes:
    """A binary of this many zeros."""
    return b"\xb0" + size.to_bytes(4) + bytes(size)


# --- deliveries that never end ---------------------------------------------------------------------------------------


def test_empty_frames_for_ever(arena: Arena):
    peer = publisher(arena)
    first, _ = peer.transfer_frame(more=True)
    peer.send(first)
    for _ in range(0, EMPTY_FRAMES_PER_DELIVERY_MAX, 128):
        assert not peer.take(Detach)
        peer.send_all([(Transfer(handle=0, more=True), b"")] * 128)
        arena.bystander.round()
    assert peer.detached_with(TRANSFER_LIMIT)
    assert held(peer)["partial bytes"] == held(peer)["unsettled"] == 0


@pytest.mark.parametrize("piece", [1, 10, 1000])
def test_small_frames_for_ever(piece: int):
    """The limit counts the memory that the frames use, and not the bytes in them. Dropping them frees all of it."""
    limit = 20_000
    arena = Arena(make_settings(amqp10={"partial_delivery_bytes_max": limit}))
    peer = publisher(arena)
    for handle in range(20):
        frames = 0
        while not peer.take(Detach):
            more = Transfer(handle=handle, delivery_id=handle, delivery_tag=b"t", more=True)
            peer.send_all([(more, bytes(piece))] * 10)
            frames += 10
            assert held(peer)["partial bytes"] <= limit
        assert frames * (piece + 64) >= limit
        assert held(peer)["partial bytes"] == 0
        peer.attach_sender(arena.address, handle=handle + 1)
    arena.finish()


def test_deliveries_that_are_begun_on_256_links():
    """The limit applies to the connection: some links are detached, the others and their deliveries stay."""
    arena = Arena(make_settings(amqp10={"partial_delivery_bytes_max": 100_000}))
    peer = arena.attacker()
    for handle in range(256):
        peer.attach_sender(arena.address, handle=handle)
        peer.send(Transfer(handle=handle, delivery_id=handle, delivery_tag=b"t", more=True), bytes(900))
    detached = peer.take(Detach)
    assert len(detached) == 256 - 100_000 // 964
    assert {each.error.condition for each in detached if each.error} == {LIMIT}
    assert held(peer)["partial bytes"] <= 100_000
    arena.bystander.round()
    peer.send(Transfer(handle=0), bytes(900))
    assert peer.detached_with(DECODE), "it is complete, and no message"
    for handle in range(1, 256):
        peer.detach(handle)
    assert held(peer)["partial bytes"] == 0
    arena.finish()


def test_a_message_that_grows_beyond_the_maximum():
    arena = Arena(make_settings(amqp10={"max_message_size": 50_000}))
    peer = publisher(arena)
    payload = data_message(bytes(200_000))
    for each in peer.frames_of(payload, 10_000)[:5]:
        peer.send_all([each])
    assert not peer.take(Detach)
    peer.send(Transfer(handle=0, more=True), b"!")
    assert peer.detached_with(MESSAGE_SIZE)
    assert held(peer)["partial bytes"] == 0
    arena.finish()


def test_deliveries_that_are_begun_and_aborted(arena: Arena):
    peer = publisher(arena)
    for n in range(500):
        begun = Transfer(handle=0, delivery_id=n, delivery_tag=b"t", more=True)
        peer.send_all([(begun, bytes(1000)), (Transfer(handle=0, aborted=True), b"")])
    assert not peer.take(Detach)
    assert held(peer)["partial bytes"] == held(peer)["unsettled"] == 0


# --- deliveries without link credit ----------------------------------------------------------------------------------


def test_more_than_the_link_credit(arena: Arena):
    arena.broker.stall()
    peer = publisher(arena)
    peer.publish([b"%d" % n for n in range(171)])
    assert peer.detached_with(TRANSFER_LIMIT)
    arena.broker.recover()
    arena.expected += [b"%d" % n for n in range(170)]


def test_more_than_the_window(arena: Arena):
    arena.broker.stall()
    peer = arena.attacker()
    for handle in range(3):
        peer.attach_sender(arena.address, handle=handle)
    for handle in range(3):
        peer.publish([b"%d.%d" % (handle, n) for n in range(170)], handle=handle)
        arena.expected += [b"%d.%d" % (handle, n) for n in range(170)]
    assert not peer.take(End), "topped up with each read"
    frames = [peer.transfer_frame(handle=0, more=True)]
    frames += [(Transfer(handle=0, more=True), b"x")] * 400
    peer.send_all(frames)
    arena.broker.recover()
    assert peer.ended_with("amqp:session:window-violation") or peer.detached_with(TRANSFER_LIMIT)


@pytest.mark.parametrize("delivery_id", [0, 2**31 + 1, 2**32 - 1])
def test_a_delivery_id_that_does_not_follow(arena: Arena, delivery_id: int):
    peer = publisher(arena)
    peer.transfer(b"first")
    arena.expected.append(b"first")
    peer.take(Disposition)
    for payload in (BODY, section(0x74, b"\xc1\x01\x00") + BODY):
        peer.send(Transfer(handle=0, delivery_id=delivery_id, delivery_tag=b"t"), payload)
    assert peer.ended_with(FIELD)


def test_a_delivery_tag_of_33_bytes(arena: Arena):
    peer = publisher(arena)
    peer.send_bytes(frame(composite(0x14, b"\x43", b"\x43", b"\xa0\x21" + bytes(33)) + BODY))
    assert peer.closed_with(FIELD)
    assert peer.lost


# --- content that no message may have --------------------------------------------------------------------------------


def cc(keys: bytes) -> bytes:
    """A message with these routing keys besides its own."""
    return section(0x72, map_of_pairs(b"\xa3\x04x-cc", keys)) + BODY


BROKEN_MESSAGES = {
    "garbage": (b"\xff" * 100, DECODE),
    "a bare value": (STRING_A, DECODE),
    "a section that nobody knows": (section(0x79, b"\x45"), DECODE),
    "a performative": (composite(0x14, b"\x43"), DECODE),
    "a body that is cut": (section(0x75, b"\xb0\x00\x00\xff\xff"), DECODE),
    "a body that is a list of more than there is": (section(0x76, list_claiming(2**32 - 1)), DECODE),
    "data that is a string": (section(0x75, STRING_A), DECODE),
    "bytes behind the body": (BODY + NULL, DECODE),
    "two values": (section(0x77, NULL) + section(0x77, NULL), DECODE),
    "the header twice": (section(0x70, b"\x45") * 2 + BODY, DECODE),
    "the header behind the body": (BODY + section(0x70, b"\x45"), DECODE),
    "a header with a field too many": (composite(0x70, *[NULL] * 6) + BODY, DECODE),
    "a header with a string for a priority": (composite(0x70, NULL, STRING_A) + BODY, DECODE),
    "a header that claims too much": (section(0x70, list_claiming(5)) + BODY, DECODE),
    "properties with a symbol for a message-id": (composite(0x73, b"\xa3\x01A") + BODY, DECODE),
    "properties that are no list": (section(0x73, b"\xc1\x01\x00") + BODY, DECODE),
    "a subject that is not UTF-8": (composite(0x73, *[NULL] * 3, b"\xa1\x01\xff") + BODY, DECODE),
    "a content-type that is not ASCII": (composite(0x73, *[NULL] * 6, b"\xa3\x01\xff") + BODY, DECODE),
    "a to that is 70 deep": (composite(0x73, NULL, NULL, nested_lists(70)) + BODY, DECODE),
    "somebody else's user-id": (composite(0x73, NULL, b"\xa0\x05admin") + BODY, "amqp:unauthorized-access"),
    "annotations that are no map": (section(0x72, b"\x45") + BODY, DECODE),
    "an annotation that is reserved": (section(0x72, map_of_pairs(b"\xa3\x01a", NULL)) + BODY, DECODE),
    "an annotation by a string": (section(0x72, map_of_pairs(STRING_A, NULL)) + BODY, DECODE),
    "an annotation twice": (section(0x72, map_of_pairs(SYMBOL_XA, NULL, SYMBOL_XA, NULL)) + BODY, DECODE),
    "an odd number of annotations": (section(0x72, map_of_pairs(SYMBOL_XA)) + BODY, DECODE),
    "more annotations than there are": (section(0x72, map_claiming(2**32 - 2)) + BODY, DECODE),
    "annotations 70 lists deep": (section(0x72, map_of_pairs(SYMBOL_XA, nested_lists(70))) + BODY, DECODE),
    "annotations 5,000 descriptors deep": (
        section(0x72, map_of_pairs(SYMBOL_XA, nested_descriptors(5000))) + BODY,
        DECODE,
    ),
    "annotations of 100 million nothings": (
        section(0x72, map_of_pairs(SYMBOL_XA, zero_width_array(10**8))) + BODY,
        DECODE,
    ),
    "annotations of 64 KiB": (
        section(0x72, map_of_pairs(SYMBOL_XA, binary_32(LOOKED_INTO_BYTES_MAX))) + BODY,
        LIMIT,
    ),
    "properties of 64 KiB": (composite(0x73, binary_32(LOOKED_INTO_BYTES_MAX)) + BODY, LIMIT),
    "routing keys that are no list": (cc(STRING_A), FIELD),
    "routing keys that are numbers": (cc(list_of(b"\x44")), FIELD),
    "a routing key of 256 bytes": (cc(list_of(b"\xb1\x00\x00\x01\x00" + b"k" * 256)), FIELD),
    "257 routing keys": (cc(list_of(*[b"\xa1\x00"] * 257)), FIELD),
    "too many pieces of a body": (section(0x75, b"\xa0\x00") * (BODY_SECTIONS_MAX + 1), DECODE),
}


@pytest.mark.parametrize(("payload", "condition"), BROKEN_MESSAGES.values(), ids=BROKEN_MESSAGES)
def test_a_message_that_is_broken_detaches_its_link(arena: Arena, payload: bytes, condition: str):
    peer = publisher(arena)
    peer.attach_sender(arena.address, handle=1)
    began = time.process_time()
    for each in peer.frames_of(payload, 100_000):
        peer.send_all([each])
    assert time.process_time() - began < 0.5
    (detach,) = peer.take(Detach)
    assert detach.error is not None
    assert detach.error.condition == condition
    assert held(peer)["unsettled"] == held(peer)["partial bytes"] == 0
    peer.take(Flow)
    peer.transfer(b"the other link goes on", handle=1)
    arena.expected.append(b"the other link goes on")
    assert peer.expect(Disposition).settled
    assert peer.nothing_came()


OPAQUE = {
    "application-properties 1,000 deep": section(0x74, map_of_pairs(STRING_A, nested_lists(1000))),
    "application-properties of 1 MiB": section(0x74, map_of_pairs(STRING_A, binary_32(2**20))),
    "application-properties that are no map inside": section(0x74, b"\xc1\x03\x02\xff\xff"),
    "delivery-annotations that are none": section(0x71, b"\xc1\x03\x02\xff\xff"),
}


@pytest.mark.parametrize("sections", OPAQUE.values(), ids=OPAQUE)
def test_what_only_passes_through_may_be_anything(arena: Arena, sections: bytes):
    """A headers exchange reads the headers that it can decode, and takes the rest for no headers."""
    binding = Binding(
        source="amq.headers", destination="q", destination_is_queue=True, binding_key="", arguments={"A": "x"}
    )
    arena.broker.engine.bind(binding, arena.broker)
    peer = publisher(arena)
    peer.attach_sender("/exchanges/amq.headers", handle=1)
    peer.take(Flow)
    began = time.process_time()
    for handle in (0, 1):
        for each in peer.frames_of(sections + data_message(b"through"), 100_000, handle=handle):
            peer.send_all([each])
    assert time.process_time() - began < 0.5
    assert [each.state == RELEASED for each in peer.take(Disposition)] == [False, True]
    arena.expected.append(b"through")
    assert arena.remaining() == arena.expected
    arena.expected = []


def test_a_thousand_broken_messages_leave_nothing(arena: Arena):
    peer = arena.attacker()
    before = held(peer)
    for n in range(200):
        peer.attach_sender(arena.address)
        peer.send_all([peer.transfer_frame(payload=b"\xff" * (n % 9 + 1)) for _ in range(5)])
        peer.detach(0)
    assert sum(each.error is not None for each in peer.take(Detach)) == 200
    assert held(peer) == before
    assert len(peer.take(Attach)) == 0


HOUR_MS = 3_600_000
"""A time to live that does not end during the test."""


def test_headers_of_every_kind_do_not_fill_a_cache(arena: Arena):
    peer = publisher(arena)
    for n in range(0, 2000, 100):
        headers = [composite(0x70, NULL, NULL, b"\x70" + (HOUR_MS + n + m).to_bytes(4)) for m in range(100)]
        peer.send_all([peer.transfer_frame(payload=header + BODY) for header in headers])
    assert sum(each.last - each.first + 1 for each in peer.take(Disposition) if each.last) == 2000
    assert len(peer.front_end._attaching._attributes.known) <= 256
    arena.expected += [b"body"] * 2000
