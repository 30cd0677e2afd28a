"""What stands before a message on its way between two nodes: its header section, and how it came into its queue.

The route, that is an exchange and routing keys, is a delivery-annotation, because these are for one hop only [3.2.2].
Messages that came together mostly have the same bytes here. So the bytes are read once for all messages that begin with
them.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import repeat
from operator import add
from typing import NamedTuple

from amqp10.errors import DecodeError
from amqp10.wire.codec import format_codes as code
from amqp10.wire.sections import DELIVERY_ANNOTATIONS, decode_map_section, encode_section, scan
from amqp10.wire.types import Symbol
from core.message import Route, Routes

ROUTE_KEY = "headgate:route"
"""A delivery-annotation, a list of strings: the exchange, then the routing keys, the target's own first."""
KEYS_MAX = 257
"""Strings after the exchange: a message has one key of its own and 256 of x-cc."""
KNOWN_MAX = 256
"""Prefixes that are remembered. One is a hundred bytes long; with x-cc it may have 64 KiB."""
_HEADER_LEAD, _ANNOTATIONS_LEAD = b"\x00\x53\x70", b"\x00\x53\x71"
_LEAD_BYTES = 3


class Prefix(NamedTuple):
    """What stands before some messages."""

    header: bytes
    """The header section; b"" for none."""
    size: int
    """The bytes of everything."""
    route: Route | None


@lru_cache(maxsize=128)
def route_section(route: Route) -> bytes:
    """The section that says how messages came into their queue."""
    return encode_section(DELIVERY_ANNOTATIONS, {Symbol(ROUTE_KEY): [route.exchange, *route.routing_keys]})


def with_routes(header: bytes | list[bytes], routes: Routes) -> bytes | list[bytes]:
    """The header sections of messages, with the routes behind them."""
    if routes is None:
        return header
    if not isinstance(routes, list):
        section = route_section(routes)
        return header + section if isinstance(header, bytes) else list(map(add, header, repeat(section)))
    sections = [b"" if route is None else route_section(route) for route in routes]
    return list(map(add, repeat(header) if isinstance(header, bytes) else header, sections))


class HopPrefixes:
    """Reads what stands before the messages of one connection or link."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, Prefix] = {}

    def groups(self, entries: list[bytes]) -> Iterator[tuple[int, int, Prefix]]:
        """Cut whole messages into ranges with the same prefix: start inclusive, stop exclusive. Raises DecodeError."""
        place, count = 0, len(entries)
        while place < count:
            prefix = self._of(entries[place])
            head = entries[place][: prefix.size]
            lead = entries[place][: prefix.size + _LEAD_BYTES]
            if not place and min(entries).startswith(lead) and max(entries).startswith(lead):
                yield 0, count, prefix  # so do all between these two
                return
            others = _others(prefix)
            stop = place + 1
            while stop < count and entries[stop].startswith(head) and not entries[stop][len(head) :].startswith(others):
                stop += 1
            yield place, stop, prefix
            place = stop

    def _of(self, message: bytes) -> Prefix:
        header_end = _section_end(message, 0, _HEADER_LEAD)
        end = _section_end(message, header_end, _ANNOTATIONS_LEAD)
        known = self._known.get(message[:end])
        if known is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            route = None if end == header_end else _route(decode_map_section(message, header_end, end))
            known = self._known[message[:end]] = Prefix(message[:header_end], end, route)
        return known


def _others(prefix: Prefix) -> tuple[bytes, ...]:
    """How a section begins that would belong to another prefix."""
    if prefix.size > len(prefix.header):
        return ()
    return (_ANNOTATIONS_LEAD,) if prefix.header else (_HEADER_LEAD, _ANNOTATIONS_LEAD)


def _section_end(message: bytes, at: int, lead: bytes) -> int:
    """Where the section at this place ends; the place itself if it is another section. Raises DecodeError."""
    if not message.startswith(lead, at):
        return at
    kind, sizes = message[at + 3 : at + 4], at + 4
    if kind == bytes((code.LIST_0,)):
        return sizes
    if kind in (bytes((code.LIST_8,)), bytes((code.MAP_8,))) and len(message) > sizes:
        end = sizes + 1 + message[sizes]
    else:
        end = _scanned_end(message, lead)
    if end > len(message):
        raise DecodeError("a section that is longer than its message")
    return end


def _scanned_end(message: bytes, lead: bytes) -> int:
    bounds = scan(message)
    found = bounds.header if lead == _HEADER_LEAD else bounds.delivery_annotations
    if found is None:
        raise DecodeError("a section whose begin and end do not fit")
    return found[1]


def _route(annotations: dict[object, object]) -> Route | None:
    """The route in delivery-annotations. Raises DecodeError."""
    given = annotations.get(Symbol(ROUTE_KEY))
    if given is None:
        return None
    if not isinstance(given, list) or not 2 <= len(given) <= KEYS_MAX + 1:
        raise DecodeError(f"{ROUTE_KEY} must be a list of an exchange and up to {KEYS_MAX} routing keys")
    if not all(isinstance(one, str) for one in given):
        raise DecodeError(f"{ROUTE_KEY} must be a list of strings")
    return Route(given[0], tuple(given[1:]))
