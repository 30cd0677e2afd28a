"""What the engine may ask about the inside of an entry: the fields that a headers exchange compares.

The seam is :class:`core.interface.Converter`; rendering a message for another protocol will be behind it too.
"""

from collections.abc import Mapping, Sequence

from amqp10.errors import DecodeError
from amqp10.sections import decode_map_section, scan
from amqp10.types import Symbol, plain
from core.interface import Death, DeathReason
from core.message import Origin

COMPARED_BYTES_MAX = 65_536
"""Of application-properties: 13 ms to decode them, and more than any headers exchange has a use for."""


class MessageConverter:
    """Looks into entries that are kept in AMQP 1.0 encoding."""

    def routing_headers(self, entry: bytes, origin: Origin) -> Mapping[str, object]:
        """Application-properties, and message annotations that begin with ``x-``, as plain values.

        Application-properties of more than :data:`COMPARED_BYTES_MAX` are not looked at: that would hold up everybody.
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
            if bounds.application_properties is not None and _size(bounds.application_properties) <= COMPARED_BYTES_MAX:
                properties = decode_map_section(entry, *bounds.application_properties)
                fields |= {key: plain(value) for key, value in properties.items() if isinstance(key, str)}
        except DecodeError:
            return {}
        return fields

    def render(self, entry: bytes, origin: Origin, wanted: Origin) -> bytes:
        """The message for another protocol; so far there is only one."""
        assert origin is wanted
        return entry

    def dead_lettered(self, entry: bytes, origin: Origin, death: Death) -> bytes:
        """See :class:`core.interface.Converter`, also below."""
        raise NotImplementedError

    def deaths(self, entry: bytes, origin: Origin) -> Sequence[tuple[str, DeathReason]]:
        raise NotImplementedError

    def filter_value(self, entry: bytes, origin: Origin) -> str | None:
        raise NotImplementedError


def _size(bounds: tuple[int, int]) -> int:
    return bounds[1] - bounds[0]
