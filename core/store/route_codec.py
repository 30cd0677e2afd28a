"""A route in a record: CBOR of the exchange and the list of routing keys."""

import cbor2

from core.message import Route


def encode_route(route: Route) -> bytes:
    """Never empty, so that records can say "none" with nothing."""
    return cbor2.dumps([route.exchange, route.routing_keys])


def decode_route(encoded: bytes) -> Route:
    """What a record says that has passed its checksum."""
    exchange, keys = cbor2.loads(encoded)
    return Route(exchange, tuple(keys))
