"""What the engine may ask about the inside of an entry: the fields that a headers exchange compares.

The seam is :class:`core.interface.Converter`; rendering a message for another protocol will be behind it too.
"""

from collections.abc import Mapping

from amqp10.errors import DecodeError
from amqp10.sections import decode_map_section, scan
from amqp10.types import Symbol, plain
from core.message import Origin


class MessageConverter:
    """Looks into entries that are kept in AMQP 1.0 encoding."""

    def routing_headers(self, entry: bytes, origin: Origin) -> Mapping[str, object]:
        """Application-properties, and message annotations that begin with ``x-``, as plain values.

        An entry was checked when it was published; what cannot be decoded all the same has no fields.
        """
        if origin is not Origin.AMQP10:
            return {}
        try:
            bounds = scan(entry)
            fields: dict[str, object] = {}
            if bounds.message_annotations is not None:
                annotations = decode_map_section(entry, *bounds.message_annotations)
                fields = {key.value: plain(value) for key, value in annotations.items() if isinstance(key, Symbol)}
            if bounds.application_properties is not None:
                properties = decode_map_section(entry, *bounds.application_properties)
                fields |= {key: plain(value) for key, value in properties.items() if isinstance(key, str)}
        except DecodeError:
            return {}
        return fields

    def render(self, entry: bytes, origin: Origin, wanted: Origin) -> bytes:
        """The message for another protocol; so far there is only one."""
        assert origin is wanted
        return entry
