"""Encodes methods as payloads of method frames, and decodes them [0-9-1 4.2.4, 4.2.5].

A layout is made once for each method from its dataclass: a reader and a writer for each field. For any payload,
decoding raises only Amqp091ConnectionFault: NOT_IMPLEMENTED for a method that does not exist (RabbitMQ then drops the
connection without an answer), SYNTAX_ERROR for bytes that are not its fields, too few or too many. The text names the
field.
"""

import dataclasses
import re
import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar, cast

from core.amqp091.domains import Domain
from core.amqp091.errors import Amqp091ConnectionFault, Amqp091EncodeError, ReplyCode
from core.amqp091.methods import METHODS, Method
from core.amqp091.table import (
    decode_long_string,
    decode_short_string,
    decode_table,
    encode_long_string,
    encode_short_string,
    encode_table,
)

Reader = Callable[[bytes, int], tuple[object, int]]
"""(data, position) to (value, position behind it). Raises IndexError, struct.error or the fault where data is cut
off."""
Writer = Callable[[bytearray, object], None]
"""Appends the encoding of a value."""

UNENCODABLE = (struct.error, TypeError, AttributeError)
"""The exceptions of Python's own packers for a value of the wrong type or out of range."""

_parse_id = struct.Struct(">HH").unpack_from
_ID_BYTES = 4


def encode_method(method: Method) -> bytes:
    """Encode the payload of a method frame. Raises Amqp091EncodeError, which names a field that cannot be encoded."""
    layout = _LAYOUTS[method.ID]
    out = bytearray(layout.prefix)
    name = ""
    try:
        for name, _, write in layout.fields:
            write(out, getattr(method, name))
    except (Amqp091EncodeError, *UNENCODABLE) as fault:
        raise Amqp091EncodeError(f"{layout.name}, {name}: {fault}") from None
    return bytes(out)


def decode_method(payload: bytes) -> Method:
    """Decode the method in a whole payload. Raises Amqp091ConnectionFault only."""
    if len(payload) < _ID_BYTES:
        raise Amqp091ConnectionFault(ReplyCode.SYNTAX_ERROR, f"a method frame of {len(payload)} bytes names no method")
    class_id, method_id = _parse_id(payload)
    layout = _LAYOUTS.get((class_id, method_id))
    if layout is None:
        raise Amqp091ConnectionFault(
            ReplyCode.NOT_IMPLEMENTED, f"there is no method {class_id}.{method_id}", class_id, method_id
        )
    values = {}
    position = _ID_BYTES
    name = "end"
    try:
        for name, read, _ in layout.fields:
            values[name], position = read(payload, position)
    except (IndexError, struct.error):
        text = f"{layout.name}, {name}: cut at offset {len(payload)}"
        raise Amqp091ConnectionFault(ReplyCode.SYNTAX_ERROR, text, class_id, method_id) from None
    except Amqp091ConnectionFault as fault:
        raise Amqp091ConnectionFault(fault.code, f"{layout.name}, {name}: {fault.text}", class_id, method_id) from None
    if position != len(payload):
        text = f"{layout.name}: its fields end at offset {position}, its frame at {len(payload)}"
        raise Amqp091ConnectionFault(ReplyCode.SYNTAX_ERROR, text, class_id, method_id)
    return layout.type(**values)


V = TypeVar("V")


def _fixed(form: str) -> tuple[Reader, Writer]:
    packed = struct.Struct(form)
    parse, pack, size = packed.unpack_from, packed.pack, packed.size

    def read(data: bytes, position: int) -> tuple[object, int]:
        return parse(data, position)[0], position + size

    def write(out: bytearray, value: object) -> None:
        out += pack(value)

    return read, write


def _sized(decode: Callable[[bytes, int], tuple[V, int]], encode: Callable[[V], bytes]) -> tuple[Reader, Writer]:
    def write(out: bytearray, value: object) -> None:
        out += encode(cast("V", value))

    return decode, write


DOMAINS: Mapping[Domain, tuple[Reader, Writer]] = {
    Domain.OCTET: _fixed(">B"),
    Domain.SHORT: _fixed(">H"),
    Domain.LONG: _fixed(">I"),
    Domain.LONG_LONG: _fixed(">Q"),
    Domain.TIMESTAMP: _fixed(">Q"),
    Domain.SHORT_STRING: _sized(decode_short_string, encode_short_string),
    Domain.LONG_STRING: _sized(decode_long_string, encode_long_string),
    Domain.TABLE: _sized(decode_table, encode_table),
}
"""The reader and the writer of every domain except the bit."""


def _bit(place: int, *, is_last: bool) -> tuple[Reader, Writer]:
    """Reader and writer of the bit at a place in an octet. The first bit appends the octet, the last steps past it."""
    step = 1 if is_last else 0

    def read(data: bytes, position: int) -> tuple[object, int]:
        return data[position] >> place & 1 == 1, position + step

    def write(out: bytearray, value: object) -> None:
        if place == 0:
            out.append(0)
        if value:
            out[-1] |= 1 << place

    return read, write


class _Layout(NamedTuple):
    """The encoding of a method: class id and method id, then its fields."""

    type: type[Method]
    name: str
    prefix: bytes
    fields: tuple[tuple[str, Reader, Writer], ...]


def _layout(method: type[Method]) -> _Layout:
    domains = domains_of(method)
    fields = []
    place = 0
    for index, (name, domain) in enumerate(domains):
        if domain is Domain.BIT:
            # No method has more than eight bits in a row, so none of them begins a second octet.
            is_last = index + 1 == len(domains) or domains[index + 1][1] is not Domain.BIT
            fields.append((name, *_bit(place, is_last=is_last)))
            place = 0 if is_last else place + 1
        else:
            fields.append((name, *DOMAINS[domain]))
    class_name, *words = re.findall("[A-Z][a-z]*", method.__name__)
    name = f"{class_name}.{'-'.join(words)}".lower()
    return _Layout(method, name, struct.pack(">HH", *method.ID), tuple(fields))


def domains_of(type_: type) -> list[tuple[str, Domain]]:
    """The fields of a dataclass that is annotated with domains, in order."""
    return [(field.name, _domain(field.type)) for field in dataclasses.fields(type_)]


def _domain(hint: object) -> Domain:
    """The domain of an annotation, which may also allow None."""
    for candidate in (hint, *getattr(hint, "__args__", ())):
        for mark in getattr(candidate, "__metadata__", ()):
            if isinstance(mark, Domain):
                return mark
    raise AssertionError(f"{hint} has no domain")


_LAYOUTS: Mapping[tuple[int, int], _Layout] = {id_: _layout(method) for id_, method in METHODS.items()}
