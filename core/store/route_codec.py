"""Encoding of a route in a record: CBOR of the exchange and the list of routing keys."""

import cbor2

from core.message import Route


def encode_route(route: Route) -> bytes:
    """Encode a route. The result is never empty, so that zero bytes in a record can mean no route."""
    return cbor2.dumps([route.exchange, route.routing_keys])


def decode_route(encoded: bytes) -> Route:
    """Decode a route from a record whose checksum was verified."""
    exchange, keys = cbor2.loads(encoded)
    return Route(exchange, tuple(keys))
