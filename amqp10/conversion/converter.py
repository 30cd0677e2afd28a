"""What the engine asks about the content of an entry: the fields that a headers exchange compares, the deaths of a
dead-lettered message, the value that a stream filters by, and the summary that is shown to people.

It implements :class:`core.interface.Converter`. :mod:`core.amqp091.inspection` reads entries in 0.9.1 encoding;
:mod:`amqp10.conversion.convert_091` renders the entries of one protocol for the other.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import cast

from amqp10.conversion import deaths
from amqp10.conversion.convert_091 import Rendering, headers_of
from amqp10.errors import DecodeError
from amqp10.wire.codec import format_codes as code
from amqp10.wire.codec.composite import read_descriptor
from amqp10.wire.codec.decode import DEPTH_MAX
from amqp10.wire.sections import (
    MESSAGE_ANNOTATIONS,
    WITHOUT_ANNOTATIONS,
    Bounds,
    decode_map_section,
    decode_properties,
    encode_section,
    scan,
)
from amqp10.wire.types import Symbol, plain
from core.amqp091.inspection import FILTER_VALUE, PREVIEW_BYTES, Inspection, filter_values
from core.interface import Death, DeathReason, Snapshot
from core.message import Attributes, Origin
from core.taken_numbers import ENCODED_KEYS, PublishingId, check_size, publishing_id

COMPARED_BYTES_MAX = 65_536
"""Size of the largest application-properties that are decoded for routing: 13 ms, and more than any headers exchange
has a use for."""

DESCRIBED_BYTES_MAX = 16_384
"""Size of the largest section that is decoded to be shown: more than deaths and a message-id need. One takes 3 ms, 100
messages 0.3 s."""

_FILTER_VALUE = Symbol(FILTER_VALUE)
_ENCODED_FILTER_VALUE = FILTER_VALUE.encode()
_SHORT_ANNOTATIONS = b"\x00\x53\x72\xc1"
"""How message-annotations begin that have a map with its size in one byte."""

_SHORT = (code.BINARY_8, code.STRING_8)
_LONG = (code.BINARY_32, code.STRING_32)


class MessageConverter:
    """Looks into entries of either protocol, and renders each for the other."""

    __slots__ = ("_inspection_091", "_rendering")

    def __init__(self) -> None:
        self._inspection_091 = Inspection()
        self._rendering = Rendering()

    def render(self, entry: bytes, attributes: Attributes, wanted: Origin) -> bytes:
        """See :class:`core.interface.Converter`, also for the other methods.

        An entry that cannot be decoded stays as it is, or has no values to return. That is rare: entries were checked
        when they were published.
        """
        if attributes.origin is wanted:
            return entry
        if wanted is Origin.AMQP091:
            return self._rendering.as_091(entry, attributes)
        return self._rendering.as_10(entry)

    def routing_headers(self, entry: bytes, origin: Origin) -> Mapping[str, object]:
        """Application-properties, and message annotations that begin with ``x-``, as plain values.

        Application-properties of more than :data:`COMPARED_BYTES_MAX` are not decoded: that would delay all other work.
        """
        if origin is Origin.AMQP091:
            return self._inspection_091.routing_headers(entry, origin)
        try:
            return _routing_headers(entry)
        except DecodeError:
            return {}

    def annotated(self, entry: bytes, origin: Origin, annotations: Mapping[object, object]) -> bytes:
        """The annotations come from an AMQP 1.0 consumer, whatever the origin of the message, or, with plain string
        keys, from the broker."""
        if origin is Origin.AMQP091:
            headers = cast("Mapping[object, object]", headers_of(annotations))
            return self._inspection_091.annotated(entry, origin, headers)
        own = _annotations(entry)
        added = {Symbol(key) if isinstance(key, str) else key: value for key, value in annotations.items()}
        return entry if own is None else _with(entry, {**own, **added})

    def dead_lettered(self, entry: bytes, origin: Origin, death: Death) -> bytes:
        if origin is Origin.AMQP091:
            return self._inspection_091.dead_lettered(entry, origin, death)
        annotations = _annotations(entry)
        return entry if annotations is None else _with(entry, deaths.enter(annotations, death))

    def deaths(self, entry: bytes, origin: Origin) -> Sequence[tuple[str, DeathReason]]:
        if origin is Origin.AMQP091:
            return self._inspection_091.deaths(entry, origin)
        return deaths.told(_annotations(entry) or {})

    def describe(self, entry: bytes, origin: Origin) -> Snapshot:
        if origin is Origin.AMQP091:
            return self._inspection_091.describe(entry, origin)
        described: Snapshot = {"message_id": None, "deaths": [], "body": b""}
        with suppress(DecodeError):  # the fields that can be decoded are filled in
            bounds = scan(entry)
            if bounds.body is not None:
                described["body"] = _preview(entry, bounds.body)
            if bounds.message_annotations is not None and _size(bounds.message_annotations) <= DESCRIBED_BYTES_MAX:
                described["deaths"] = deaths.listed(decode_map_section(entry, *bounds.message_annotations))
            if bounds.properties is not None and _size(bounds.properties) <= DESCRIBED_BYTES_MAX:
                described["message_id"] = _text(decode_properties(entry, *bounds.properties).message_id)
        return described

    def filter_values(self, entries: Sequence[bytes], origin: Origin) -> Sequence[str | None] | None:
        if origin is Origin.AMQP091:
            return self._inspection_091.filter_values(entries, origin)
        return filter_values(entries, _filter_value)

    def publishing_id(self, entry: bytes, origin: Origin) -> PublishingId | None:
        """From the message annotations; if they say nothing, from the application-properties."""
        if origin is Origin.AMQP091:
            return self._inspection_091.publishing_id(entry, origin)
        with suppress(DecodeError):
            bounds = scan(entry)
            for section in (bounds.message_annotations, bounds.application_properties):
                if section is None or all(entry.find(key, *section) < 0 for key in ENCODED_KEYS):
                    continue
                check_size(_size(section))
                fields = decode_map_section(entry, *section)
                found = publishing_id({str(plain(key)): plain(value) for key, value in fields.items()})
                if found is not None:
                    return found
        return None


def _filter_value(entry: bytes) -> str | None:
    if WITHOUT_ANNOTATIONS[0] <= entry < WITHOUT_ANNOTATIONS[1]:
        return None
    if (
        entry.startswith(_SHORT_ANNOTATIONS)
        and len(entry) > len(_SHORT_ANNOTATIONS)
        and entry.find(_ENCODED_FILTER_VALUE, 5, 5 + entry[4]) < 0
    ):
        return None  # other annotations only, as a sender may give to all its messages
    value = (_annotations(entry) or {}).get(_FILTER_VALUE)
    return value if isinstance(value, str) and value else None


def _routing_headers(entry: bytes) -> Mapping[str, object]:
    bounds = scan(entry)
    fields: dict[str, object] = {}
    if bounds.message_annotations is not None:
        annotations = decode_map_section(entry, *bounds.message_annotations)
        fields = {key.value: plain(value) for key, value in annotations.items() if isinstance(key, Symbol)}
    if bounds.application_properties is not None and _size(bounds.application_properties) <= COMPARED_BYTES_MAX:
        properties = decode_map_section(entry, *bounds.application_properties)
        fields |= {key: plain(value) for key, value in properties.items() if isinstance(key, str)}
    return fields


def _annotations(entry: bytes) -> dict[object, object] | None:
    """The message annotations; None for a message that cannot be decoded here.

    An entry has neither a header nor a delivery-annotations section; so message-annotations come first, if present.
    """
    try:
        bounds = scan(entry).message_annotations
        return {} if bounds is None else decode_map_section(entry, *bounds)
    except DecodeError:
        return None


def _with(entry: bytes, annotations: dict[object, object]) -> bytes:
    """The message with its annotations replaced."""
    _, end = scan(entry).message_annotations or (0, 0)
    return encode_section(MESSAGE_ANNOTATIONS, annotations) + entry[end:]


def _preview(entry: bytes, body: Bounds) -> bytes:
    """The first bytes of the body: the content of its first data section or string, else its encoding."""
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
    """A message-id of any type as text to be shown."""
    value = plain(message_id)
    if value is None:
        return None
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _size(bounds: Bounds) -> int:
    return bounds[1] - bounds[0]
