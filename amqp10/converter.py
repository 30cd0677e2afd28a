"""What the engine may ask about the inside of an entry: the fields that a headers exchange compares, the deaths of a
dead-lettered message, the value that a stream filters by.

The seam is :class:`core.interface.Converter`; rendering a message for another protocol will be behind it too.
"""

from collections.abc import Mapping, Sequence

from amqp10 import deaths
from amqp10.errors import DecodeError
from amqp10.sections import MESSAGE_ANNOTATIONS, decode_map_section, encode_section, scan
from amqp10.types import Symbol, plain
from core.interface import Death, DeathReason
from core.message import Origin

COMPARED_BYTES_MAX = 65_536
"""Of application-properties: 13 ms to decode them, and more than any headers exchange has a use for."""


FILTER_VALUE = Symbol("x-stream-filter-value")


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
        """See :class:`core.interface.Converter`, also below. What cannot be decoded stays as it is."""
        annotations = _annotations(entry, origin)
        if annotations is None:
            return entry
        _, end = scan(entry).message_annotations or (0, 0)
        return encode_section(MESSAGE_ANNOTATIONS, deaths.enter(annotations, death)) + entry[end:]

    def deaths(self, entry: bytes, origin: Origin) -> Sequence[tuple[str, DeathReason]]:
        return deaths.told(_annotations(entry, origin) or {})

    def filter_value(self, entry: bytes, origin: Origin) -> str | None:
        value = (_annotations(entry, origin) or {}).get(FILTER_VALUE)
        return value if isinstance(value, str) else None


def _annotations(entry: bytes, origin: Origin) -> dict[object, object] | None:
    """The message annotations; None for a message that cannot be decoded here.

    An entry has neither header nor delivery-annotations; so the section, if there is one, comes first.
    """
    if origin is not Origin.AMQP10:
        return None
    try:
        bounds = scan(entry).message_annotations
        return {} if bounds is None else decode_map_section(entry, *bounds)
    except DecodeError:
        return None


def _size(bounds: tuple[int, int]) -> int:
    return bounds[1] - bounds[0]
