"""A message as its user sees it: a body, and properties and annotations about it [3.2].

The client sends and receives encoded messages; :meth:`Message.encode` and :meth:`Message.decode` convert them from and
to values. Values inside keep the codec's types: a plain Python value where only one AMQP type fits it, otherwise a
class of :mod:`amqp10.wire.types`. Keys of annotations, which are symbols on the wire, are plain strings here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from amqp10.errors import DecodeError
from amqp10.wire.codec.decode import DEPTH_MAX, decode_value
from amqp10.wire.sections import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    Bounds,
    Header,
    Properties,
    decode_header,
    decode_map_section,
    decode_properties,
    encode_header,
    encode_properties,
    encode_section,
    scan,
)
from amqp10.wire.types import Described, Symbol


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    ``body`` is one data section when it is bytes, and an amqp-value otherwise. ``section`` chooses another kind:
    :data:`~amqp10.wire.sections.AMQP_VALUE` for a binary value, :data:`~amqp10.wire.sections.AMQP_SEQUENCE` for a list
    that is a sequence. A received body of several sections becomes one: their bytes, or their items, one after the
    other.
    """

    body: object = b""
    properties: Properties | None = None
    application_properties: Mapping[str, object] = field(default_factory=dict)
    annotations: Mapping[str, object] = field(default_factory=dict)
    """Message annotations; their keys begin with ``x-`` [3.2.10]."""
    header: Header | None = None
    delivery_annotations: Mapping[str, object] = field(default_factory=dict)
    footer: Mapping[str, object] = field(default_factory=dict)
    section: int | None = None

    def encode(self) -> bytes:
        """The encoded message. Raises EncodeError for a value that has no encoding."""
        return b"".join(
            [
                b"" if self.header is None else encode_header(self.header),
                _encode_map(DELIVERY_ANNOTATIONS, _symbol_keys(self.delivery_annotations)),
                _encode_map(MESSAGE_ANNOTATIONS, _symbol_keys(self.annotations)),
                b"" if self.properties is None else encode_properties(self.properties),
                _encode_map(APPLICATION_PROPERTIES, dict(self.application_properties)),
                encode_section(self.body_section, self.body),
                _encode_map(FOOTER, _symbol_keys(self.footer)),
            ]
        )

    @property
    def body_section(self) -> int:
        """The kind of section that holds the body."""
        if self.section is not None:
            return self.section
        return DATA if isinstance(self.body, bytes) else AMQP_VALUE

    @classmethod
    def decode(cls, encoded: bytes) -> Self:
        """Read a message. Raises DecodeError. A message without any body has the body None."""
        bounds = scan(encoded)
        body, section = decode_body(encoded, bounds.body, bounds.body_code)
        return cls(
            body=body,
            properties=decode_properties(encoded, *bounds.properties) if bounds.properties else None,
            application_properties=decode_items(encoded, bounds.application_properties),
            annotations=decode_items(encoded, bounds.message_annotations),
            header=decode_header(encoded, *bounds.header) if bounds.header else None,
            delivery_annotations=decode_items(encoded, bounds.delivery_annotations),
            footer=decode_items(encoded, bounds.footer),
            section=section,
        )


def decode_body(encoded: bytes, bounds: Bounds | None, code: int | None) -> tuple[object, int | None]:
    """The body, and the kind of its section if the body's type does not imply it."""
    if bounds is None:
        return None, None
    position, end = bounds
    values: list[object] = []
    while position < end:
        described, position = decode_value(encoded, position, end, DEPTH_MAX)
        assert isinstance(described, Described)  # scan has checked it
        values.append(described.value)
    if code == DATA:
        return b"".join(value for value in values if isinstance(value, bytes)), None
    if code == AMQP_SEQUENCE:
        return [item for value in values if isinstance(value, list) for item in value], AMQP_SEQUENCE
    return values[0], AMQP_VALUE if isinstance(values[0], bytes) else None


def decode_items(encoded: bytes, bounds: Bounds | None) -> dict[str, object]:
    """The map section at these bounds, with plain strings as keys; empty for none. Raises DecodeError."""
    if bounds is None:
        return {}
    items: dict[str, object] = {}
    for key, value in decode_map_section(encoded, *bounds).items():
        name = key.value if isinstance(key, Symbol) else key
        if not isinstance(name, str):
            raise DecodeError(f"the key {name!r} is neither a symbol nor a string")
        items[name] = value
    return items


def _encode_map(section: int, items: object) -> bytes:
    return encode_section(section, items) if items else b""


def _symbol_keys(items: Mapping[str, object]) -> dict[object, object]:
    return {Symbol(key): value for key, value in items.items()}
