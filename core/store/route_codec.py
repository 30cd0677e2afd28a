"""Encoding of a route in a record: CBOR of the exchange, the list of routing keys and, if it is noted, the time when
the messages came."""

import cbor2

from core.message import Route
from core.taken_numbers import Packed


def encode_route(route: Route) -> bytes:
    """Encode a route. The result is never empty, so that zero bytes in a record can mean no route."""
    return cbor2.dumps(_values(route))


def decode_route(encoded: bytes) -> Route:
    """Decode a route from a record whose checksum was verified."""
    return _route(*cbor2.loads(encoded))


def encode_route_and_taken(route: Route | None, taken: Packed) -> bytes:
    """Encode a route, or that there is none, and publishing ids."""
    return cbor2.dumps([None if route is None else _values(route), taken])


def decode_route_and_taken(encoded: bytes) -> tuple[Route | None, Packed]:
    """Decode a route, or None, and publishing ids from a record whose checksum was verified."""
    way, taken = cbor2.loads(encoded)
    return None if way is None else _route(*way), taken


def _values(route: Route) -> list[object]:
    time = () if route.enqueued_ms is None else (route.enqueued_ms,)
    return [route.exchange, route.routing_keys, *time]


def _route(exchange: str, keys: list[str], enqueued_ms: int | None = None) -> Route:
    return Route(exchange, tuple(keys), enqueued_ms)
