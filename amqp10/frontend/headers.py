"""Converts header sections to the attributes that the engine knows, and back [3.2.1].

Both directions are cached by value, because publishers repeat the same few headers, and so do we. The caches are
bounded and are emptied when full.
"""

from amqp10.errors import DecodeError, ErrorCondition, LinkFault
from amqp10.wire.sections import Header, decode_header, encode_header
from core.interface import Delivered
from core.message import DEFAULT_PRIORITY, Attributes, Origin

CACHED_MAX = 256
"""More distinct headers on one broker mean that they hold something like a timestamp, and then a cache is no use."""

PLAIN = Attributes()
"""The attributes of messages without a header section."""


class AttributesByHeader:
    """Gives the attributes of a run for a publisher's encoded header section."""

    __slots__ = ("_shared", "known")

    def __init__(self) -> None:
        self.known: dict[bytes, Attributes] = {b"": PLAIN}
        """The attributes of the last header sections. Callers may read it, to save a call for one that is known."""
        self._shared: dict[Attributes, Attributes] = {}
        """One object for equal attributes, so that runs can be compared by identity."""

    def of(self, header: bytes) -> Attributes:
        """The attributes of a header section; b"" stands for a message without one. Raises LinkFault decode-error."""
        attributes = self.known.get(header)
        if attributes is None:
            try:
                decoded = decode_header(header, 0, len(header))
            except DecodeError as error:
                raise LinkFault(ErrorCondition.DECODE_ERROR, error.description) from error
            if len(self.known) >= CACHED_MAX:
                self.known.clear()
                self._shared.clear()
                self.known[b""] = PLAIN
            self._shared.setdefault(PLAIN, PLAIN)
            attributes = Attributes(
                origin=Origin.AMQP10,
                durable=bool(decoded.durable),
                priority=DEFAULT_PRIORITY if decoded.priority is None else decoded.priority,
                ttl_ms=decoded.ttl,
            )
            attributes = self.known[header] = self._shared.setdefault(attributes, attributes)
        return attributes


class HeaderByAttributes:
    """Gives the encoded header section of each message for a delivery of the engine."""

    __slots__ = ("_cache", "_first")

    def __init__(self) -> None:
        self._cache: dict[tuple[Attributes, int, bool], bytes] = {}
        self._first: tuple[Attributes, bytes] | None = None
        """The last attributes of messages that no consumer had before, and their header: finding them by identity is
        faster than by their hash."""

    def of(self, action: Delivered) -> bytes | list[bytes]:
        """The header section for the deliveries of one action: one for all of them, or a list with one for each."""
        attributes, failed, unused = action.attributes, action.delivery_count, action.first_acquirer
        if isinstance(attributes, list):
            identities = list(map(id, attributes))  # far faster than by their hash
            distinct = dict(zip(identities, attributes, strict=True))
            found = {identity: self._found(one, failed, unused) for identity, one in distinct.items()}
            return list(map(found.__getitem__, identities))
        known = self._first if unused and not failed else None
        if known is not None and known[0] is attributes:
            return known[1]
        header = self._found(attributes, failed, unused)
        if unused and not failed:
            self._first = attributes, header
        return header

    def _found(self, attributes: Attributes, delivery_count: int, first_acquirer: bool) -> bytes:
        key = (attributes, delivery_count, first_acquirer)
        header = self._cache.get(key)
        if header is None:
            if len(self._cache) >= CACHED_MAX:
                self._cache.clear()
            header = encode_header(
                Header(
                    durable=attributes.durable,
                    priority=_priority(attributes),
                    ttl=attributes.ttl_ms,
                    first_acquirer=first_acquirer,
                    delivery_count=delivery_count,
                )
            )
            self._cache[key] = header
        return header


def _priority(attributes: Attributes) -> int:
    """The priority for the header. 0.9.1 has no default: a message without a priority counts as 0 there, and has the
    default of AMQP 1.0 here."""
    if attributes.origin is Origin.AMQP091 and not attributes.priority:
        return DEFAULT_PRIORITY
    return attributes.priority
