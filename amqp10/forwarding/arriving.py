"""Messages that come from another node, as the engine knows them: entries without header section, and its facts.

The other node wrote the header sections, a few distinct ones, so each is decoded once.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from amqp10.errors import DecodeError
from amqp10.protocol.receiver_link import DeliveriesReceived
from amqp10.wire.sections import decode_header, scan
from core.message import Attributes, Origin

HEADERS_KEPT = 256
"""Header sections that are remembered; more in turn hold something like a time-to-live that runs down."""
_HEADER_DESCRIPTOR = b"\x00\x53\x70"
_LIST_0, _LIST_8 = 0x45, 0xC0


class History(NamedTuple):
    """What a header section says [3.2.1]."""

    attributes: Attributes
    delivery_count: int
    first_acquirer: bool


class ArrivingMessages:
    """Reads deliveries of one connection."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, History] = {}

    def read(self, event: DeliveriesReceived) -> Iterator[tuple[int, list[bytes], History]]:
        """Cut the deliveries into ranges with the same header section: the first number, the entries without that
        section, and what it says. Raises DecodeError for a message that is none."""
        if event.checked:
            yield event.first, event.entries, self._history(event.header)
            return
        ends = list(map(_header_end, event.entries))
        headers = [entry[:end] for entry, end in zip(event.entries, ends, strict=True)]
        place = 0
        for header, alike in groupby(headers):
            stop = place + sum(1 for _ in alike)
            end = len(header)
            yield event.first + place, [entry[end:] for entry in event.entries[place:stop]], self._history(header)
            place = stop

    def _history(self, header: bytes) -> History:
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
            known = self._known[header] = History(attributes, decoded.delivery_count or 0, bool(decoded.first_acquirer))
        return known


def _header_end(message: bytes) -> int:
    """Where the header section ends; 0 if there is none. Raises DecodeError."""
    if not message.startswith(_HEADER_DESCRIPTOR):
        return 0
    kind = message[3] if len(message) > 3 else None
    if kind == _LIST_0:
        return 4
    if kind == _LIST_8 and len(message) > 4:
        end = 5 + message[4]
        if end > len(message):
            raise DecodeError("a header section that is longer than its message")
        return end
    bounds = scan(message)
    return bounds.header[1] if bounds.header else 0
