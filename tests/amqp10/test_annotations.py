"""Message annotations on the way to a consumer."""

import pytest

from amqp10.frontend.annotations import EMPTY_ANNOTATIONS, merge_message_annotations, with_annotations
from amqp10.sections import (
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    MESSAGE_ANNOTATIONS,
    Properties,
    decode_map_section,
    encode_properties,
    encode_section,
    scan,
)
from amqp10.types import Symbol

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
"""The same with its descriptor as an ulong of eight bytes."""
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
