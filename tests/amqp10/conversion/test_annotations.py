"""Message annotations on the way to a consumer."""

import pytest

from amqp10.frontend.annotations import EMPTY_ANNOTATIONS, merge_message_annotations, with_annotations
from amqp10.wire.sections import (
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    MESSAGE_ANNOTATIONS,
    Properties,
    decode_map_section,
    encode_properties,
    encode_section,
    scan,
)
from amqp10.wire.types import Symbol, Timestamp, ULong

HEADER = b"\x00\x53\x70\x45"
BODY = encode_section(AMQP_VALUE, "body")
PLAIN = (
    BODY,
    b"\x00\x53\x75\xa0\x01x",
    b"\x00\x53\x76\x45",
    encode_properties(Properties(subject="s")) + BODY,
    encode_section(APPLICATION_PROPERTIES, {"a": 1}) + BODY,
    encode_section(APPLICATION_PROPERTIES, {"a": 1}) + BODY + b"\x00\x53\x78\xc1\x01\x00",
)
ANNOTATED = encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-opt-a"): 1}) + BODY
SPELT_OUT = b"\x00\x80" + (0x72).to_bytes(8, "big") + ANNOTATED[3:]
"""The same section with its descriptor as a ulong of eight bytes."""
SPELT_OUT_BODY = b"\x00\x80" + (0x77).to_bytes(8, "big") + BODY[3:]


def sent(entries):
    prefix, entries = with_annotations(HEADER, entries)
    return [prefix + entry for entry in entries]


def test_messages_without_annotations_get_an_empty_section_before_them_all():
    prefix, entries = with_annotations(HEADER, list(PLAIN))
    assert prefix == HEADER + EMPTY_ANNOTATIONS
    assert entries == list(PLAIN)


@pytest.mark.parametrize("others", [[], [BODY], list(PLAIN)])
@pytest.mark.parametrize("annotated", [ANNOTATED, SPELT_OUT])
def test_messages_with_annotations_keep_their_own(annotated, others):
    for entries in ([annotated, *others], [*others, annotated], [*others, annotated, *others]):
        for message, entry in zip(sent(entries), entries, strict=True):
            extra = b"" if entry == annotated else EMPTY_ANNOTATIONS
            assert message == HEADER + extra + entry
            assert scan(message).message_annotations is not None


def test_an_unusual_descriptor_of_another_section():
    assert sent([SPELT_OUT_BODY]) == [HEADER + EMPTY_ANNOTATIONS + SPELT_OUT_BODY]


@pytest.mark.parametrize("entry", [BODY, ANNOTATED, SPELT_OUT])
def test_what_a_consumer_adds_is_merged(entry):
    merged = merge_message_annotations(entry, {"x-opt-a": 2, Symbol("x-opt-b"): "new"})
    bounds = scan(merged)
    assert decode_map_section(merged, *bounds.message_annotations) == {Symbol("x-opt-a"): 2, Symbol("x-opt-b"): "new"}
    assert merged.endswith(BODY)


# --- numbers of the queue


BIG_ANNOTATIONS = (
    encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-opt-a"): "v" * 300, Symbol("x-opt-b"): ULong(1)}) + BODY
)
NEARLY_FULL = encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-opt-a"): "v" * 225}) + BODY
ALREADY_NUMBERED = (
    encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-stream-offset"): ULong(1), Symbol("x-opt-a"): 1}) + BODY
)
NONE_IN_IT = encode_section(MESSAGE_ANNOTATIONS, {}) + BODY
MANY = encode_section(MESSAGE_ANNOTATIONS, {ULong(number): None for number in range(150)}) + BODY
ALL_KINDS = [
    *PLAIN,
    ANNOTATED,
    SPELT_OUT,
    SPELT_OUT_BODY,
    BIG_ANNOTATIONS,
    NEARLY_FULL,
    ALREADY_NUMBERED,
    NONE_IN_IT,
    MANY,
]


def annotations_of(message):
    bounds = scan(message).message_annotations
    return {} if bounds is None else decode_map_section(message, *bounds)


def rest_of(message):
    """Everything behind header and annotations."""
    bounds = scan(message)
    return message[max((part[1] for part in (bounds.header, bounds.message_annotations) if part), default=0) :]


@pytest.mark.parametrize("entries", [list(PLAIN), ALL_KINDS, ALL_KINDS[::-1], *([kind] for kind in ALL_KINDS)])
@pytest.mark.parametrize("key", ["x-stream-offset", "x-opt-sequence"])
@pytest.mark.parametrize("first", [0, 255, 2**64 - 20])
def test_each_message_tells_its_number_and_keeps_its_own_annotations(entries, key, first):
    numbers = range(first, first + len(entries))
    prefix, numbered = with_annotations(HEADER, entries, numbers, key)
    assert prefix == HEADER
    for entry, message, number in zip(entries, numbered, numbers, strict=True):
        assert annotations_of(message) == annotations_of(entry) | {Symbol(key): ULong(number)}
        assert rest_of(message) == rest_of(entry)
        assert scan(prefix + message).header == (0, len(HEADER))


@pytest.mark.parametrize("entries", [list(PLAIN), ALL_KINDS, ALL_KINDS[::-1], *([kind] for kind in ALL_KINDS)])
def test_each_message_tells_its_number_and_the_time_of_its_arrival(entries):
    key, time = Symbol("x-stream-offset"), Symbol("x-opt-enqueued-time")
    prefix, stamped = with_annotations(HEADER, entries, range(len(entries)), key.value, 1_767_225_600_000)
    assert prefix == HEADER
    for number, (entry, message) in enumerate(zip(entries, stamped, strict=True)):
        got = annotations_of(message)
        assert got == annotations_of(entry) | {key: ULong(number), time: Timestamp(1_767_225_600_000)}
        assert list(got)[:2] == [key, time]
        assert rest_of(message) == rest_of(entry)


@pytest.mark.parametrize("key", ["", "x-opt-sequence"])
@pytest.mark.parametrize("entries", [list(PLAIN), ALL_KINDS, ALL_KINDS[::-1]])
def test_messages_that_came_at_different_times_tell_each_its_own(entries, key):
    name = Symbol("x-opt-enqueued-time")
    times = [None if number % 3 == 2 else number // 2 for number in range(len(entries))]
    numbers = range(7, 7 + len(entries)) if key else None
    prefix, stamped = with_annotations(HEADER, entries, numbers, key, times)
    assert prefix == HEADER
    for number, (entry, message, time) in enumerate(zip(entries, stamped, times, strict=True), start=7):
        expected = annotations_of(entry)
        if key:
            expected[Symbol(key)] = ULong(number)
        if time is not None:
            expected[name] = Timestamp(time)
        assert annotations_of(message) == expected
        assert scan(message).message_annotations is not None
        assert rest_of(message) == rest_of(entry)


def test_a_time_of_arrival_that_a_publisher_claims_is_replaced():
    claimed = merge_message_annotations(ANNOTATED, {"x-opt-enqueued-time": Timestamp(1)})
    _, (message,) = with_annotations(b"", [claimed], [0], "x-stream-offset", 2)
    assert annotations_of(message)[Symbol("x-opt-enqueued-time")] == Timestamp(2)


def test_a_number_that_a_publisher_claims_is_replaced():
    _, (message,) = with_annotations(b"", [ALREADY_NUMBERED], [7], "x-stream-offset")
    assert annotations_of(message) == {Symbol("x-stream-offset"): ULong(7), Symbol("x-opt-a"): 1}


def test_numbers_after_the_merge_of_what_a_consumer_added():
    merged = merge_message_annotations(ANNOTATED, {"x-opt-a": 2, "x-opt-sequence": ULong(99)})
    _, (message,) = with_annotations(b"", [merged], [3], "x-opt-sequence")
    assert annotations_of(message) == {Symbol("x-opt-a"): 2, Symbol("x-opt-sequence"): ULong(3)}
