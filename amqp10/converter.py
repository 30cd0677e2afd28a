"""What the engine may ask about the inside of an entry: the fields that a headers exchange compares, the deaths of a
dead-lettered message, the value that a stream filters by; and what people see who look into a queue.

The seam is :class:`core.interface.Converter`; rendering a message for another protocol will be behind it too.
"""

from collections.abc import Mapping, Sequence

from amqp10 import deaths
from amqp10.codec import format_codes as code
from amqp10.codec.composite import read_descriptor
from amqp10.codec.decode import DEPTH_MAX
from amqp10.errors import DecodeError
from amqp10.sections import (
    MESSAGE_ANNOTATIONS,
    WITHOUT_ANNOTATIONS,
    Bounds,
    decode_map_section,
    decode_properties,
    encode_section,
    scan,
)
from amqp10.types import Symbol, plain
from core.interface import Death, DeathReason, Snapshot
from core.message import Origin

COMPARED_BYTES_MAX = 65_536
"""Of application-properties: 13 ms to decode them, and more than any headers exchange has a use for."""

DESCRIBED_BYTES_MAX = 16_384
"""Of a section that is decoded to be shown: more than deaths and a message-id need; 3 ms, for 100 messages 0.3 s."""

PREVIEW_BYTES = 256
"""Of a body."""

FILTER_VALUE = Symbol("x-stream-filter-value")

_SHORT = (code.BINARY_8, code.STRING_8)
_LONG = (code.BINARY_32, code.STRING_32)


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

    def annotated(self, entry: bytes, origin: Origin, annotations: Mapping[object, object]) -> bytes:
        """See :class:`core.interface.Converter`, also below. What cannot be decoded stays as it is."""
        own = _annotations(entry, origin)
        added = {Symbol(key) if isinstance(key, str) else key: value for key, value in annotations.items()}
        return entry if own is None else _with(entry, {**own, **added})

    def dead_lettered(self, entry: bytes, origin: Origin, death: Death) -> bytes:
        annotations = _annotations(entry, origin)
        return entry if annotations is None else _with(entry, deaths.enter(annotations, death))

    def deaths(self, entry: bytes, origin: Origin) -> Sequence[tuple[str, DeathReason]]:
        return deaths.told(_annotations(entry, origin) or {})

    def describe(self, entry: bytes, origin: Origin) -> Snapshot:
        described: Snapshot = {"message_id": None, "deaths": [], "body": b""}
        if origin is not Origin.AMQP10:
            return described
        try:
            bounds = scan(entry)
            if bounds.body is not None:
                described["body"] = _preview(entry, bounds.body)
            if bounds.message_annotations is not None and _size(bounds.message_annotations) <= DESCRIBED_BYTES_MAX:
                described["deaths"] = deaths.listed(decode_map_section(entry, *bounds.message_annotations))
            if bounds.properties is not None and _size(bounds.properties) <= DESCRIBED_BYTES_MAX:
                described["message_id"] = _text(decode_properties(entry, *bounds.properties).message_id)
        except DecodeError:
            pass  # it was checked when it was published; so this much is told
        return described

    def filter_value(self, entry: bytes, origin: Origin) -> str | None:
        if WITHOUT_ANNOTATIONS[0] <= entry < WITHOUT_ANNOTATIONS[1]:
            return None
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


def _with(entry: bytes, annotations: dict[object, object]) -> bytes:
    """The message with other annotations than it has."""
    _, end = scan(entry).message_annotations or (0, 0)
    return encode_section(MESSAGE_ANNOTATIONS, annotations) + entry[end:]


def _preview(entry: bytes, body: Bounds) -> bytes:
    """The first bytes of a body: of its first data section or of a string, else as it is encoded."""
    start, end = body
    _, start = read_descriptor(entry, start, end, DEPTH_MAX)
    if entry[start] in _SHORT:
        end = start + 2 + entry[start + 1]
        start += 2
    elif entry[start] in _LONG:
        end = start + 5 + int.from_bytes(entry[start + 1 : start + 5], "big")
        start += 5
    return entry[start : min(end, start + PREVIEW_BYTES)]


def _text(message_id: object) -> str | None:
    """A message-id of any type for people."""
    value = plain(message_id)
    if value is None:
        return None
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _size(bounds: Bounds) -> int:
    return bounds[1] - bounds[0]
