"""Performatives and the types in them: the specification's encodings, defaults, and fields whose types are checked."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.errors import DecodeError, EncodeError
from amqp10.wire import messaging, performatives
from amqp10.wire.codec.decode import DEPTH_BEFORE_OPEN, DEPTH_MAX
from amqp10.wire.codec.encode import encode_value
from amqp10.wire.messaging import ACCEPTED, RELEASED, Error, Modified, Source, Target
from amqp10.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    Flow,
    Open,
    Transfer,
    decode_performative,
    encode_performative,
)
from amqp10.wire.types import Described, Symbol, UInt, ULong
from tests.kit.amqp10_frames import PERFORMATIVES
from tests.kit.amqp10_frames import performatives as any_performative
from tests.kit.wire_vectors import Vector, vectors

NAMES = {name: getattr(module, name) for module in (messaging, performatives) for name in dir(module)}


def decode_whole(encoded: bytes, depth_left: int = DEPTH_MAX) -> object:
    performative, position = decode_performative(encoded, 0, len(encoded), depth_left)
    assert position == len(encoded)
    return performative


def described_list(descriptor: int, items: list[object]) -> bytes:
    return encode_value(Described(ULong(descriptor), items))


@pytest.mark.parametrize("vector", vectors("performatives.txt"), ids=str)
def test_vector(vector: Vector):
    performative = eval(vector.meaning, NAMES)
    assert decode_whole(vector.encoded) == performative
    if not vector.alternative:
        assert encode_performative(performative) == vector.encoded


@pytest.mark.parametrize("vector", vectors("malformed_performatives.txt"), ids=str)
def test_malformed_vector(vector: Vector):
    condition, text = vector.meaning.split(": ", 1)
    with pytest.raises(DecodeError, match=text) as caught:
        decode_whole(vector.encoded)
    assert caught.value.condition == condition


@pytest.mark.parametrize("type_", PERFORMATIVES, ids=lambda type_: type_.__name__)
@given(data=st.data())
@settings(max_examples=40)
def test_round_trip(type_, data):
    performative = data.draw(PERFORMATIVES[type_])
    payload = data.draw(st.binary(max_size=9))
    encoded = encode_performative(performative)
    decoded, payload_start = decode_performative(b"??" + encoded + payload, 2, 2 + len(encoded) + len(payload))
    assert decoded == performative
    assert repr(decoded) == repr(performative)
    assert payload_start == 2 + len(encoded)


@given(any_performative, st.data())
def test_cut_anywhere(performative, data):
    encoded = encode_performative(performative)
    end = data.draw(st.integers(0, len(encoded) - 1))
    for buffer in (encoded[:end], encoded):
        with pytest.raises(DecodeError):
            decode_performative(buffer, 0, end)


def check_refusal(fault: DecodeError) -> None:
    assert fault.condition in ("amqp:decode-error", "amqp:invalid-field")
    assert 0 < len(fault.description) < 400


@given(st.integers(0x10, 0x18), st.binary(max_size=60), st.booleans())
@settings(max_examples=150)
def test_garbage_raises_nothing_but_decode_error(code, garbage, in_a_list):
    body = bytes((0xC0, len(garbage) + 1, 14)) + garbage if in_a_list else garbage
    encoded = bytes((0x00, 0x53, code)) + body
    try:
        performative, position = decode_performative(encoded, 0, len(encoded))
    except DecodeError as fault:
        check_refusal(fault)
    else:
        assert position <= len(encoded)
        assert decode_whole(encode_performative(performative)) == performative


@given(any_performative, st.data())
@settings(max_examples=150)
def test_one_wrong_byte_raises_nothing_but_decode_error(performative, data):
    encoded = bytearray(encode_performative(performative))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_performative(bytes(encoded), 0, len(encoded))
    except DecodeError as fault:
        check_refusal(fault)


def test_defaults_of_the_specification():
    assert decode_whole(described_list(0x10, ["c"])) == Open(
        container_id="c", max_frame_size=4294967295, channel_max=65535, idle_time_out=None
    )
    assert decode_whole(described_list(0x11, [None, UInt(0), UInt(0), UInt(0)])).handle_max == 4294967295
    attach = decode_whole(described_list(0x12, ["l", UInt(0), True]))
    assert (attach.snd_settle_mode, attach.rcv_settle_mode, attach.incomplete_unsettled) == (2, 0, False)
    flow = decode_whole(described_list(0x13, [None, UInt(0), UInt(0), UInt(0)]))
    assert (flow.drain, flow.echo, flow.link_credit, flow.delivery_count) == (False, False, None, None)
    transfer = decode_whole(described_list(0x14, [UInt(0)]))
    assert (transfer.settled, transfer.more, transfer.aborted) == (None, False, False)
    assert decode_whole(described_list(0x15, [True, UInt(0)])).settled is False
    assert decode_whole(described_list(0x16, [UInt(0)])).closed is False


def test_null_where_a_field_has_a_default():
    nulls = ["l", UInt(0), True, *[None] * 11]
    assert decode_whole(described_list(0x12, nulls)) == Attach(name="l", handle=0, role=True)


def test_defaults_of_a_terminus():
    body = ["l", UInt(0), True, None, None, Described(ULong(0x28), []), Described(Symbol("amqp:target:list"), [])]
    attach = decode_whole(described_list(0x12, body))
    assert (attach.source, attach.target) == (Source(), Target())
    assert (Source().durable, Source().expiry_policy, Source().timeout, Source().dynamic) == (
        0,
        "session-end",
        0,
        False,
    )


def test_states_and_termini_of_extensions_stay_as_they_came():
    transactional = Described(ULong(0x34), [b"txn", Described(ULong(0x24), [])])
    disposition = decode_whole(described_list(0x15, [True, UInt(0), None, False, transactional]))
    assert disposition.state == transactional
    terminus = Described(Symbol("example:source:list"), ["x"])
    attach = decode_whole(described_list(0x12, ["l", UInt(0), True, None, None, terminus, terminus]))
    assert attach.source == attach.target == terminus


def test_filters_keep_their_types():
    selector = Described(Symbol("apache.org:selector-filter:string"), "colour = 'red'")
    attach = Attach(name="l", handle=0, role=True, source=Source(filter={"selector": selector}))
    assert decode_whole(encode_performative(attach)).source.filter == {"selector": selector}


def test_lifetime_policies_stay_generic():
    body = [None, None, None, None, True, {Symbol("lifetime-policy"): Described(ULong(0x2B), [])}]
    attach = decode_whole(described_list(0x12, ["l", UInt(0), True, None, None, Described(ULong(0x28), body)]))
    assert attach.source.dynamic_node_properties == {"lifetime-policy": Described(ULong(0x2B), [])}


@pytest.mark.parametrize("tag", [b"", b"x" * 32])
def test_delivery_tags_up_to_32_bytes(tag):
    transfer = Transfer(handle=0, delivery_tag=tag)
    assert decode_whole(encode_performative(transfer)) == transfer
    wide = b"\x00\x53\x14\xc0" + bytes((7 + len(tag) + 1, 3)) + b"\x43\x40\xb0" + len(tag).to_bytes(4) + tag
    assert decode_whole(wide) == transfer


@pytest.mark.parametrize(
    ("performative", "text"),
    [
        (Open(container_id=None), "open.container_id: mandatory"),
        (Open(container_id=b"c"), "open.container_id"),
        (Open(container_id="c", channel_max=65536), "open.channel_max"),
        (Open(container_id="c", max_frame_size=-1), "open.max_frame_size"),
        (Open(container_id="c", offered_capabilities=["x"]), "is no tuple"),
        (Open(container_id="c", offered_capabilities=("ä",)), "open.offered_capabilities"),
        (Open(container_id="c", offered_capabilities=(1,)), "open.offered_capabilities"),
        (Open(container_id="c", properties={"ä": 1}), "open.properties"),
        (Open(container_id="c", properties={"x": object()}), "open.properties"),
        (Begin(next_outgoing_id=2**32, incoming_window=0, outgoing_window=0), "begin.next_outgoing_id"),
        (Attach(name="l", handle=0, role=False, snd_settle_mode=3), "attach.snd_settle_mode"),
        (Attach(name="l", handle=0, role=0), "attach.role"),
        (Attach(name="l", handle=0, role=True, source=Target()), "is no source"),
        (Attach(name="l", handle=0, role=True, source=Source(durable=3)), "source.durable"),
        (Attach(name="l", handle=0, role=True, unsettled=[]), "attach.unsettled"),
        (Attach(name="l", handle=0, role=True, unsettled={b"": 1}), "attach.unsettled"),
        (Transfer(handle=0, delivery_tag=b"x" * 33), "transfer.delivery_tag: longer"),
        (Transfer(handle="0"), "transfer.handle"),
        (Disposition(role=True, first=0, state=Error(condition="x")), "is no delivery state"),
        (Detach(handle=0, error="x"), "is no error"),
        (Close(error=Error(condition="ä")), "error.condition"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_encoding(performative, text):
    with pytest.raises(EncodeError, match=text):
        encode_performative(performative)


def test_depth_before_the_open_is_less():
    value: object = 1
    for _ in range(DEPTH_BEFORE_OPEN + 5):
        value = [value]
    encoded = encode_performative(Open(container_id="c", properties={"deep": value}))
    assert decode_whole(encoded).properties == {"deep": value}
    with pytest.raises(DecodeError, match="nested deeper"):
        decode_whole(encoded, DEPTH_BEFORE_OPEN)


def test_nested_descriptors_fail_fast():
    for body in (b"\x00" * 6000, b"\x00\x53\x14\xc0\x20\x08\x43" + b"\x40" * 6 + b"\x00" * 6000):
        with pytest.raises(DecodeError):
            decode_performative(body, 0, len(body))


def test_no_field_is_read_from_behind_the_end():
    """The frame says that it has three fields and ends after one. The buffer goes on with the next frame."""
    buffer = b"\x00\x53\x16\xc0\x02\x03\x43" + b"\x41\x40" + b"\x00" * 20
    with pytest.raises(DecodeError):
        decode_performative(buffer, 0, 7)


def test_everything_is_keyword_only_and_slotted():
    for type_ in PERFORMATIVES:
        assert all(field.kw_only for field in dataclasses.fields(type_))
        assert hasattr(type_, "__slots__")
    flow = Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=0)
    flow.incoming_window = 2
    assert encode_performative(flow) == bytes.fromhex("005313c00604405202434 3".replace(" ", ""))


def test_frozen_states_can_be_shared():
    assert hash(ACCEPTED) == hash(messaging.Accepted())
    assert ACCEPTED != RELEASED
    with pytest.raises(AttributeError):
        Modified().delivery_failed = True  # type: ignore[misc]
