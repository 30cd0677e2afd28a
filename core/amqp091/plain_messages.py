"""Messages as plain values: properties by name and a body, as RabbitMQ's management API has them."""

from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal

from core.amqp091.codec import UNENCODABLE
from core.amqp091.content import PROPERTIES_AT, body_of, entry_of, header_length
from core.amqp091.errors import Amqp091EncodeError
from core.amqp091.properties import PERSISTENT, TTL_MS_MAX, BasicProperties, decode_properties, encode_properties
from core.amqp091.table import Amqp091Timestamp, OpaqueString
from core.errors import Invalid
from core.interface import Converter
from core.message import Attributes, Origin

NAMES = tuple(field.name for field in fields(BasicProperties))
ROUTING_HEADERS = frozenset(("CC", "BCC"))
"""Headers that name further routing keys. Channels act on them; they are refused here."""


class PlainMessages:
    """See :class:`core.control_plane.MessageForms`. The messages that it makes are in the encoding of AMQP 0.9.1."""

    def __init__(self, converter: Converter) -> None:
        self._converter = converter

    def made(self, properties: Mapping[str, object], body: bytes) -> tuple[bytes, Attributes]:
        """Raises Invalid for properties that cannot be encoded, or that only a channel can act on."""
        if unknown := properties.keys() - set(NAMES):
            raise Invalid(f"there is no property '{min(unknown)[:64]}'; there are: {', '.join(NAMES)}")
        headers = properties.get("headers")
        if isinstance(headers, dict) and ROUTING_HEADERS & headers.keys():
            raise Invalid("the headers CC and BCC need a client of AMQP; publish once for each routing key")
        try:
            given = BasicProperties(**properties)  # type: ignore[arg-type]  # the codec checks the types
            encoded = encode_properties(given)
        except (Amqp091EncodeError, *UNENCODABLE) as error:
            raise Invalid(f"the properties cannot be encoded: {error}") from None
        ttl = given.expiration
        if ttl is not None and not (ttl.isascii() and ttl.isdigit() and int(ttl) <= TTL_MS_MAX):
            raise Invalid(f"expiration must be a number of milliseconds, {TTL_MS_MAX} at most, as a text")
        attributes = Attributes(
            origin=Origin.AMQP091,
            durable=given.delivery_mode == PERSISTENT,
            priority=given.priority or 0,
            ttl_ms=None if ttl is None else int(ttl),
        )
        return entry_of(encoded, body), attributes

    def shown(self, entry: bytes, attributes: Attributes) -> tuple[dict[str, object], bytes]:
        """Return the properties that the message has, in plain values, and its body."""
        rendered = self._converter.render(entry, attributes, Origin.AMQP091)
        properties = decode_properties(rendered, PROPERTIES_AT, header_length(rendered))
        values = ((name, getattr(properties, name)) for name in NAMES)
        return {name: _plain(value) for name, value in values if value is not None}, body_of(rendered)


def _plain(value: object) -> object:
    """A value of a table as JSON can have it; bytes are left as they are."""
    match value:
        case dict():
            return {key: _plain(one) for key, one in value.items()}
        case list():
            return [_plain(one) for one in value]
        case OpaqueString():
            return value.value
        case Amqp091Timestamp():
            return value.seconds
        case Decimal():
            return float(value)
    return value
