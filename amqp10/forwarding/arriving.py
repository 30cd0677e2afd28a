"""Messages that come from another node, as the engine knows them: entries without header section, and its facts.

The other node wrote the header sections, a few distinct ones, so each is decoded once.
"""

from collections.abc import Iterator
from typing import NamedTuple

from amqp10.frontend.hop_prefix import HopPrefixes
from amqp10.protocol.receiver_link import DeliveriesReceived
from amqp10.wire.sections import decode_header
from core.message import Attributes, Origin, Route

HEADERS_KEPT = 256
"""Header sections that are remembered; more in turn hold something like a time-to-live that runs down."""


class ArrivingHeader(NamedTuple):
    """What a header section says [3.2.1]."""

    attributes: Attributes
    delivery_count: int
    first_acquirer: bool


class ArrivingMessages:
    """Reads deliveries of one connection."""

    __slots__ = ("_known", "_prefixes")

    def __init__(self) -> None:
        self._known: dict[bytes, ArrivingHeader] = {}
        self._prefixes = HopPrefixes()

    def read(self, event: DeliveriesReceived) -> Iterator[tuple[int, list[bytes], ArrivingHeader, Route | None]]:
        """Cut the deliveries into ranges with the same header section and route: the first number, the entries without
        what stands before them, and what that says. Raises DecodeError for a message that is none."""
        if event.checked:
            yield event.first, event.entries, self._history(event.header), None
            return
        for start, stop, (header, size, route) in self._prefixes.groups(event.entries):
            entries = [entry[size:] for entry in event.entries[start:stop]]
            yield event.first + start, entries, self._history(header), route

    def _history(self, header: bytes) -> ArrivingHeader:
        known = self._known.get(header)
        if known is None:
            if len(self._known) >= HEADERS_KEPT:
                self._known.clear()
            decoded = decode_header(header, 0, len(header))
            attributes = Attributes(
                origin=Origin.AMQP10,
                durable=bool(decoded.durable),
                priority=Attributes().priority if decoded.priority is None else decoded.priority,
                ttl_ms=decoded.ttl,
            )
            known = self._known[header] = ArrivingHeader(
                attributes, decoded.delivery_count or 0, bool(decoded.first_acquirer)
            )
        return known
