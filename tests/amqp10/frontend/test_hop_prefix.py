"""What stands before messages between nodes: it is read once for messages that begin alike, and never mixed up."""

import random

import pytest

from amqp10.errors import DecodeError
from amqp10.frontend.hop_prefix import HopPrefixes, route_section, with_routes
from amqp10.wire.sections import Header, encode_header
from core.message import Route
from tests.kit.wire import data_message

DURABLE, TIMED = encode_header(Header(durable=True)), encode_header(Header(ttl=5000))
ONE, TWO = Route("amq.topic", ("one",)), Route("amq.topic", ("two", "further"))
PROPERTIES = b"\x00\x53\x73\xc0\x05\x01\xa1\x02id"


def read(entries: list[bytes]) -> list[tuple[bytes, Route | None, bytes]]:
    """Header, route and rest of each message."""
    found: list[tuple[bytes, Route | None, bytes]] = []
    for start, stop, (header, size, route) in HopPrefixes().groups(entries):
        assert start == len(found)
        found += [(header, route, entry[size:]) for entry in entries[start:stop]]
    return found


def test_messages_with_the_same_prefix_are_one_group():
    entries = [DURABLE + route_section(ONE) + data_message(b"%d" % number) for number in range(100)]
    ((start, stop, prefix),) = HopPrefixes().groups(entries)
    assert (start, stop, prefix.header, prefix.route) == (0, 100, DURABLE, ONE)


def test_any_mixture_is_cut_where_the_prefix_changes():
    chance = random.Random(1)
    wanted = []
    for number in range(500):
        header, route = chance.choice([b"", DURABLE, TIMED]), chance.choice([None, ONE, TWO])
        rest = chance.choice([b"", PROPERTIES]) + data_message(b"%d" % number)
        wanted += [(header, route, rest)] * chance.choice([1, 1, 1, 5])
    entries = [header + (b"" if route is None else route_section(route)) + rest for header, route, rest in wanted]
    assert read(entries) == wanted


def test_routes_go_behind_headers_one_for_all_or_one_for_each():
    assert with_routes(DURABLE, None) == DURABLE
    assert with_routes(DURABLE, ONE) == DURABLE + route_section(ONE)
    assert with_routes([DURABLE, b""], ONE) == [DURABLE + route_section(ONE), route_section(ONE)]
    assert with_routes(DURABLE, [ONE, None]) == [DURABLE + route_section(ONE), DURABLE]
    assert with_routes([DURABLE, b""], [None, TWO]) == [DURABLE, route_section(TWO)]


@pytest.mark.parametrize(
    "message", [DURABLE[:-1], b"\x00\x53\x70\xc0", b"\x00\x53\x71\xc1\xff\x00", b"\x00\x53\x71\x40"]
)
def test_a_prefix_that_is_cut_or_no_section_is_an_error(message: bytes):
    with pytest.raises(DecodeError):
        list(HopPrefixes().groups([message]))
