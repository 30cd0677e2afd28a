"""Encoding of a route in a record: CBOR of the exchange and the list of routing keys."""

import cbor2

from core.message import Route
from core.taken_numbers import Packed


def encode_route(route: Route) -> bytes:
    """Encode a route. The result is never empty, so that zero bytes in a record can mean no route."""
    return cbor2.dumps([route.exchange, route.routing_keys])


def decode_route(encoded: bytes) -> Route:
    """Decode a route from a record whose checksum was verified."""
    exchange, keys = cbor2.loads(encoded)
    return Route(exchange, tuple(keys))


def encode_route_and_taken(route: Route | None, taken: Packed) -> bytes:
    """Encode a route, or that there is none, and publishing ids."""
    return cbor2.dumps([None if route is None else [route.exchange, route.routing_keys], taken])


def decode_route_and_taken(encoded: bytes) -> tuple[Route | None, Packed]:
    """Decode a route, or None, and publishing ids from a record whose checksum was verified."""
    way, taken = cbor2.loads(encoded)
    return None if way is None else Route(way[0], tuple(way[1])), taken
