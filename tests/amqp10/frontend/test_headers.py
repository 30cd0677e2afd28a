"""Header sections to attributes and back: their meaning, and caches that are exact and bounded [3.2.1]."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.frontend.headers import CACHED_MAX, AttributesByHeader, HeaderByAttributes
from amqp10.wire.sections import Header, decode_header, encode_header
from core.interface import Delivered
from core.message import Attributes, Origin, RunAttributes
from tests.kit.amqp10_frames import headers
from tests.kit.engine import Peer, make_broker

CONSUMER = Peer(make_broker("q")).consume("q")


def delivered(attributes: RunAttributes, *, delivery_count: int = 0, first_acquirer: bool = True) -> Delivered:
    return Delivered(CONSUMER, 0, [b""], attributes, delivery_count, first_acquirer)


@given(header=headers)
def test_what_a_publishers_header_means(header):
    attributes = AttributesByHeader().of(encode_header(header))
    assert attributes == Attributes(Origin.AMQP10, bool(header.durable), header.priority, header.ttl)


def test_a_message_without_header_has_the_defaults():
    assert AttributesByHeader().of(b"") == Attributes(Origin.AMQP10, durable=False, priority=4, ttl_ms=None)


def test_a_header_that_says_nothing_is_the_same_object_as_none():
    """Runs can be compared by identity, however clients encode the same header."""
    cache = AttributesByHeader()
    spellings = [b"", b"\x00\x53\x70\x45", b"\x00\x53\x70\xc0\x02\x01\x42", b"\x00\x53\x70\xd0\0\0\0\x05\0\0\0\x01\x40"]
    assert len({id(cache.of(spelling)) for spelling in spellings}) == 1
    assert cache.of(encode_header(Header(durable=True))) is not cache.of(b"")


@pytest.mark.parametrize(
    "header", [b"\x00\x53\x70\xc0\x02\x01\xa1", b"\x00\x53\x70\xc0\x03\x01\xa1\x00", b"\x00\x53\x70"]
)
def test_a_header_that_cannot_be_decoded_costs_the_link(header):
    cache = AttributesByHeader()
    for _ in range(2):
        with pytest.raises(LinkFault) as fault:
            cache.of(header)
        assert fault.value.condition == ErrorCondition.DECODE_ERROR


def test_more_headers_than_are_kept():
    cache = AttributesByHeader()
    for ttl in range(3 * CACHED_MAX):
        assert cache.of(encode_header(Header(ttl=ttl))).ttl_ms == ttl
    assert cache.of(b"") == Attributes()
    assert len(cache._cache) <= CACHED_MAX


@given(header=headers, delivery_count=st.integers(0, 2**32 - 1), first_acquirer=st.booleans())
def test_what_a_consumer_is_told(header, delivery_count, first_acquirer):
    attributes = AttributesByHeader().of(encode_header(header))
    encoded = HeaderByAttributes().of(
        delivered(attributes, delivery_count=delivery_count, first_acquirer=first_acquirer)
    )
    told = decode_header(encoded, 0, len(encoded))
    assert (bool(told.durable), told.priority, told.ttl) == (bool(header.durable), header.priority, header.ttl)
    assert (told.delivery_count, told.first_acquirer) == (delivery_count, first_acquirer)


@given(
    some=st.lists(headers, min_size=1, max_size=6),
    delivery_count=st.integers(0, 2),
    first_acquirer=st.booleans(),
)
def test_unlike_messages_get_the_header_of_each(some, delivery_count, first_acquirer):
    attributes = [AttributesByHeader().of(encode_header(header)) for header in some]
    cache = HeaderByAttributes()
    told = cache.of(delivered(attributes, delivery_count=delivery_count, first_acquirer=first_acquirer))
    assert told == [
        cache.of(delivered(each, delivery_count=delivery_count, first_acquirer=first_acquirer)) for each in attributes
    ]


def test_the_header_is_encoded_once_and_the_cache_is_bounded():
    cache = HeaderByAttributes()
    first = cache.of(delivered(Attributes()))
    assert cache.of(delivered(Attributes())) is first
    assert cache.of(delivered(Attributes(), first_acquirer=False)) != first
    for delivery_count in range(3 * CACHED_MAX):
        cache.of(delivered(Attributes(), delivery_count=delivery_count))
    assert len(cache._cache) <= CACHED_MAX
    assert cache.of(delivered(Attributes())) == first
