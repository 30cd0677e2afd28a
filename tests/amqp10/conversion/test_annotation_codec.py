"""Annotations that were stored are read back equal, also in their type."""

from amqp10.conversion.annotation_codec import SectionCodec
from amqp10.wire.types import Symbol, UInt
from core.message import Origin


def test_what_was_added_comes_back_with_its_types():
    codec = SectionCodec()
    added = {Symbol("x-a"): Symbol("value"), Symbol("x-b"): UInt(7), Symbol("x-c"): [b"x", None, True]}
    assert codec.decode(codec.encode(added, Origin.AMQP10), Origin.AMQP10) == added


def test_plain_keys_become_symbols():
    codec = SectionCodec()
    assert codec.decode(codec.encode({"x-a": 1}, Origin.AMQP10), Origin.AMQP10) == {Symbol("x-a"): 1}


def test_annotations_added_to_a_message_of_the_other_protocol_keep_their_types():
    codec = SectionCodec()
    added = {Symbol("x-a"): UInt(7), Symbol("x-b"): Symbol("value")}
    assert codec.decode(codec.encode(added, Origin.AMQP091), Origin.AMQP091) == added
