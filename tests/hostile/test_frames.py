"""Frames that are wrong in themselves, on a connection that is open.

Each closes the connection with the condition that fits, and no frame after it is read [2.4.3]. Errors of a session or a
link end no more than that; such frames are in the files beside this one.
"""

import pytest

from amqp10.protocol.sasl import SaslInit, encode_sasl_frame
from amqp10.wire.performatives import (
    Attach,
    Begin,
    Close,
    Disposition,
    Flow,
    Open,
    Transfer,
    encode_performative,
)
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
from tests.kit.wire import WirePeer, data_message

FRAMING, DECODE, FIELD = "amqp:connection:framing-error", "amqp:decode-error", "amqp:invalid-field"
NOT_ALLOWED, ILLEGAL = "amqp:not-allowed", "amqp:illegal-state"
NULL, ZERO, STRING_A, SYMBOL_A = b"\x40", b"\x43", b"\xa1\x01A", b"\xa3\x01A"
BEGIN = encode_performative(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))
ATTACH = encode_performative(Attach(name="a", handle=0, role=True))
FLOW = encode_performative(
    Flow(next_incoming_id=0, incoming_window=1, next_outgoing_id=0, outgoing_window=1, echo=True)
)
FAST_TRANSFER = encode_performative(Transfer(handle=0, delivery_id=0, delivery_tag=b"t")) + data_message(b"")
FAST_DISPOSITION = encode_performative(Disposition(role=True, first=0, settled=True))


def begin_with(properties: bytes) -> bytes:
    """A begin whose properties are a map with any content."""
    return frame(composite(0x11, NULL, ZERO, ZERO, ZERO, *[NULL] * 3, properties), channel=1)


BROKEN_FRAMES = {
    "garbage": (b"\xff" * 64, FRAMING),
    "zeros": (bytes(64), FRAMING),
    "a size of 7": (frame(b"", size=7), FRAMING),
    "a size of 4 GiB": (frame(b"", size=2**32 - 1), FRAMING),
    "one byte above the limit": (frame(bytes(131_072 - 7)), FRAMING),
    "data offset 1": (frame(b"", doff=1), FRAMING),
    "data offset behind the end": (frame(bytes(100), doff=28), FRAMING),
    "a SASL frame": (encode_sasl_frame(SaslInit(mechanism="ANONYMOUS")), FRAMING),
    "an unknown frame type": (frame(BEGIN, kind=2), FRAMING),
    "a channel above channel-max": (frame(BEGIN, channel=64), FRAMING),
    "a transfer above channel-max": (frame(encode_performative(Transfer(handle=0)), channel=64), FRAMING),
    "a fast transfer above channel-max": (frame(FAST_TRANSFER, channel=65_535), FRAMING),
    "a fast disposition above channel-max": (frame(FAST_DISPOSITION, channel=65_535), FRAMING),
    "a body that is not described": (frame(b"\x45"), FIELD),
    "a descriptor without a list": (frame(b"\x00\x53\x11"), FIELD),
    "a descriptor that is cut": (frame(b"\x00\x80\x00"), DECODE),
    "an unknown performative": (frame(composite(0x19)), DECODE),
    "an unknown performative by name": (frame(b"\x00\xa3\x09amqp:nope\x45"), DECODE),
    "a section as a performative": (frame(composite(0x73)), DECODE),
    "a map as the list": (frame(b"\x00\x53\x11\xc1\x01\x00"), FIELD),
    "a list that is longer than the frame": (frame(b"\x00\x53\x11\xd0\xff\xff\xff\xff\x00\x00\x00\x01\x40"), DECODE),
    "a list of more fields than there are": (frame(b"\x00\x53\x11" + list_claiming(8), channel=1), DECODE),
    "a list of 4 billion fields": (frame(b"\x00\x53\x11" + list_claiming(2**32 - 1)), DECODE),
    "a field too many": (frame(composite(0x17, NULL, NULL)), DECODE),
    "a mandatory field that is null": (frame(composite(0x11, NULL, ZERO, NULL, ZERO), channel=1), FIELD),
    "mandatory fields that are missing": (frame(composite(0x13)), FIELD),
    "a field of a wrong type": (frame(composite(0x16, STRING_A)), FIELD),
    "a role that is no boolean": (frame(composite(0x15, b"\x56\x02", ZERO)), FIELD),
    "a symbol that is not ASCII": (begin_with(map_of_pairs(b"\xa3\x02\xc3\xa4", NULL)), DECODE),
    "a string that is not UTF-8": (begin_with(map_of_pairs(SYMBOL_A, b"\xa1\x02\xc3\x28")), DECODE),
    "a string key where a symbol belongs": (begin_with(map_of_pairs(STRING_A, NULL)), FIELD),
    "a key twice": (begin_with(map_of_pairs(SYMBOL_A, NULL, SYMBOL_A, NULL)), DECODE),
    "a list as a key": (begin_with(map_of_pairs(b"\x45", NULL)), DECODE),
    "an odd number of keys and values": (begin_with(map_of_pairs(SYMBOL_A)), DECODE),
    "a map of more than there is": (begin_with(map_claiming(2**32 - 2)), DECODE),
    "100 million nothings": (begin_with(map_of_pairs(SYMBOL_A, zero_width_array(10**8))), DECODE),
    "4 billion nothings": (begin_with(map_of_pairs(SYMBOL_A, zero_width_array(2**32 - 1))), DECODE),
    "70 lists deep": (begin_with(map_of_pairs(SYMBOL_A, nested_lists(70))), DECODE),
    "10,000 descriptors deep": (begin_with(map_of_pairs(SYMBOL_A, nested_descriptors(10_000))), DECODE),
    "a format code that nobody knows": (begin_with(map_of_pairs(SYMBOL_A, b"\x3f")), DECODE),
    "a character that is none": (begin_with(map_of_pairs(SYMBOL_A, b"\x73\x00\x11\x00\x00")), DECODE),
    "a second open": (frame(encode_performative(Open(container_id="again"))), ILLEGAL),
    "a begin on a channel in use": (frame(BEGIN), ILLEGAL),
    "a begin that answers none": (frame(composite(0x11, b"\x60\x00\x00", ZERO, ZERO, ZERO), channel=1), FIELD),
    "an attach on a channel without a session": (frame(ATTACH, channel=9), NOT_ALLOWED),
    "a flow on a channel without a session": (frame(FLOW, channel=9), NOT_ALLOWED),
    "a transfer on a channel without a session": (frame(FAST_TRANSFER, channel=9), NOT_ALLOWED),
    "a disposition on a channel without a session": (frame(FAST_DISPOSITION, channel=9), NOT_ALLOWED),
    "a detach on a channel without a session": (frame(composite(0x16, ZERO), channel=9), NOT_ALLOWED),
    "an end on a channel without a session": (frame(composite(0x17), channel=9), NOT_ALLOWED),
    "a handle above handle-max": (frame(encode_performative(Attach(name="a", handle=256, role=True))), FRAMING),
}


def loaded(arena: Arena) -> WirePeer:
    """An attacker that holds three of the arena's messages."""
    peer = arena.attacker()
    peer.attach_receiver(arena.address)
    peer.grant(3)
    assert len(peer.bodies()) == 3
    return peer


@pytest.mark.parametrize(("data", "condition"), BROKEN_FRAMES.values(), ids=BROKEN_FRAMES)
def test_a_broken_frame_closes_the_connection(arena: Arena, data: bytes, condition: str):
    peer = loaded(arena)
    peer.send_bytes(data + frame(BEGIN, channel=2))
    close = peer.expect(Close)
    assert close.error is not None
    assert close.error.condition == condition
    assert len(peer.raw) < 2000, "the error text is bounded, whatever it quotes"
    assert peer.nothing_came()
    assert peer.lost
    assert arena.broker.unacknowledged() == 0


@pytest.mark.parametrize("kept", [1, 7, 8, 9, 20, 30])
def test_a_truncated_frame_is_waited_for_and_lost_with_the_connection(arena: Arena, kept: int):
    peer = loaded(arena)
    whole = frame(encode_performative(Disposition(role=True, first=0, last=2, settled=True, batchable=True)))
    peer.send_bytes(whole[: min(kept, len(whole) - 1)])
    assert peer.nothing_came()
    assert arena.broker.unacknowledged() == 3
    peer.disconnect()
    assert arena.broker.unacknowledged() == 0


def test_a_frame_of_exactly_the_limit_is_taken(arena: Arena):
    peer = arena.attacker()
    flow = encode_performative(
        Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1, echo=True, next_incoming_id=0)
    )
    peer.send_bytes(frame(flow + bytes(131_072 - 8 - len(flow))))
    peer.expect(Flow)


def test_an_extended_header_is_skipped(arena: Arena):
    """No client uses an extended header. It may have any content [2.3.1]."""
    peer = arena.attacker()
    peer.send_bytes(frame(bytes(4 * 200) + BEGIN, doff=202, channel=1))
    peer.expect(Begin)


def test_frames_after_a_close_are_not_looked_at(arena: Arena):
    peer = loaded(arena)
    peer.send_bytes(frame(encode_performative(Close())) + b"\xff" * 100 + frame(BEGIN, channel=1))
    peer.expect(Close)
    assert peer.nothing_came()
    assert peer.lost
    peer.front_end.receive_data(frame(BEGIN, channel=1), arena.broker.now)
    assert peer.front_end.pieces_to_send(arena.broker.now) == []


def test_frames_after_our_close_are_passed_over_until_the_peer_has_closed(arena: Arena):
    """[2.4.6] CLOSE_SENT: the broker may write no more. Frames that still come were sent before."""
    peer = loaded(arena)
    peer.front_end.shut_down("maintenance", arena.broker.now)
    arena.broker.touch(peer)
    arena.broker.run()
    assert peer.closed_with("amqp:connection:forced")
    assert arena.broker.unacknowledged() == 0, "given back at once: nobody can settle it any more"
    peer.send_bytes(frame(BEGIN, channel=1))
    peer.flow(handle=1, delivery_count=3, link_credit=100, echo=True)
    peer.dispose(0, 2)
    assert peer.nothing_came()
    assert not peer.lost
    peer.send(Close())
    assert peer.lost


def test_ten_thousand_heartbeats_are_only_heartbeats(arena: Arena):
    peer = arena.attacker()
    peer.send_bytes(frame(b"") * 10_000)
    assert peer.nothing_came()
    assert not peer.lost


def test_an_error_text_fits_the_smallest_frame(arena: Arena):
    peer = arena.broker.connect(max_frame_size=512)
    peer.begin()
    peer.attach_sender("/queues/" + "q" * 5000)
    assert peer.detached_with("amqp:invalid-field")
    name = "n" * 5000
    peer.attach_sender(arena.address, handle=1, name=name)
    before = len(peer.raw)
    peer.transfer(handle=1, delivery_tag=None)
    assert peer.detached_with("amqp:invalid-field")
    assert len(peer.raw) - before <= 512


@pytest.mark.parametrize("wanted", [0, 5, 63])
def test_channels_and_handles_of_ours_stay_below_what_the_peer_takes(arena: Arena, wanted: int):
    """[2.7.1, 2.7.2] channel-max and handle-max count for both directions."""
    peer = arena.broker.connect(channel_max=0)
    peer.send(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1, handle_max=0), channel=wanted)
    assert peer.pick(Begin).remote_channel == wanted
    assert peer.session(wanted).outgoing_channel == 0
    attach = peer.attach_receiver(arena.address, handle=wanted, channel=wanted)
    assert attach.handle == 0
    peer.send(Attach(name="one more", handle=wanted + 1, role=True), channel=wanted)
    assert peer.ended_with("amqp:resource-limit-exceeded")
    peer.send(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=wanted + 1 if wanted < 63 else 1)
    assert peer.closed_with("amqp:resource-limit-exceeded")
