"""Requests and responses of the management node as AMQP messages (HTTP over AMQP, as RabbitMQ 4 has it).

A request is a message whose properties are an HTTP request line: ``subject`` is the method, ``to`` is the target,
``reply_to`` is always ``$me``, and the response repeats ``message_id`` as its ``correlation_id``. The body, if there is
one, is an amqp-value. The response carries its status in ``subject``.

There are two kinds of mistake: a message that cannot be answered (:class:`RequestError`, ends the link) and a request
that cannot be served (:class:`RequestRefusal`, is answered). Requests are bounded in size and depth, so values read
from one need no bounds of their own. This module does not know which resources exist.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote_plus

from amqp10.addresses import NAME_BYTES_MAX
from amqp10.errors import DecodeError, ErrorCondition, quote
from amqp10.wire.codec.decode import decode_value
from amqp10.wire.codec.encode import encode_list_of, encode_map_of, encode_ulong, encode_value
from amqp10.wire.percent import percent_decode
from amqp10.wire.sections import (
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    Properties,
    SectionBounds,
    decode_properties,
    encode_properties,
    encode_section,
    scan,
)
from amqp10.wire.types import Array, Described, Symbol, UInt, ULong, plain
from core.slices import Walk

REQUEST_BYTES_MAX = 131_072
"""The largest request: one frame of the size that every known broker and client agrees on."""
REQUEST_DEPTH_MAX = 16
"""Levels of nesting in a request. A response may repeat values of a request three levels deeper, and must stay
below the depth that a peer decodes."""
RESPONSE_BYTES_MAX = 4 * 1024 * 1024
"""The largest response; a page of 1000 snapshots takes about 0.5 MiB."""
AMQP_VALUE_BEGINS = b"\x00" + encode_ulong(AMQP_VALUE)
"""The bytes before the value of an amqp-value section [3.2.8]."""
LONG_MAX = 2**63 - 1
KEYS_KEPT_MAX = 256
"""Encoded keys of answers that are kept. Answers have fewer, but for those with names of users or queues as keys."""

REPLY_TO = "$me"

_TARGET = re.compile(r"(?P<path>/[^?#\x00- \x7f-\U0010ffff]*)(?:\?(?P<query>[^#\x00- \x7f-\U0010ffff]*))?")


class RequestError(Exception):
    """A message that cannot be answered, because it is no request or lacks its message-id or reply-to.

    The link that brought it is to be detached with ``condition`` and ``description``.
    """

    def __init__(self, condition: ErrorCondition, description: str) -> None:
        super().__init__(condition, description)
        self.condition = condition
        self.description = description

    def __str__(self) -> str:
        return self.description


class RequestRefusal(Exception):
    """A request that cannot be served; it is answered with this status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: an HTTP status, and a body of values as the codec encodes them."""

    status: int
    body: object = None


@dataclass(frozen=True, slots=True)
class ManagementRequest:
    """A message that can be answered. What it asks for has not been checked yet."""

    message: bytes
    bounds: SectionBounds
    properties: Properties

    @property
    def method(self) -> str:
        """The HTTP method. Raises RequestRefusal."""
        if self.properties.subject is None:
            raise RequestRefusal(400, "the request's subject is missing; it must be a method like 'GET'")
        return self.properties.subject

    def target(self) -> tuple[list[str], list[tuple[str, str]]]:
        """The segments of the path, still percent-encoded, and the names and values of the query, decoded. Raises
        RequestRefusal."""
        to = self.properties.to
        match = _TARGET.fullmatch(to) if isinstance(to, str) else None
        if match is None:
            raise RequestRefusal(
                400,
                f"the request's to is {quote(to)}; it must be a path like '/queues/:queue', percent-encoded",
            )
        return match["path"][1:].split("/"), _query(match["query"] or "")

    def body(self) -> object:
        """The value in the body, None when there is none. Raises RequestRefusal."""
        if self.bounds.body is None:
            return None
        start, end = self.bounds.body
        try:
            section, stop = decode_value(self.message, start, end, REQUEST_DEPTH_MAX)
        except DecodeError as fault:
            raise RequestRefusal(400, f"the request's body does not decode: {fault.description}") from None
        assert isinstance(section, Described)
        if self.bounds.body_code == AMQP_VALUE:
            return section.value
        if section.value or stop < end:
            raise RequestRefusal(400, "the request's body must be an amqp-value")
        return None  # some clients send an empty section of another kind for no body


def decode_request(message: bytes) -> ManagementRequest:
    """The request in a message. Raises RequestError."""
    if len(message) > REQUEST_BYTES_MAX:
        raise RequestError(
            ErrorCondition.MESSAGE_SIZE_EXCEEDED,
            f"a management request of {len(message)} bytes; at most {REQUEST_BYTES_MAX} are allowed",
        )
    try:
        bounds = scan(message, ordered=False)  # a widely used client puts an empty body before the properties
        properties = decode_properties(message, *bounds.properties) if bounds.properties else Properties()
    except DecodeError as fault:
        raise RequestError(ErrorCondition(fault.condition), f"management request: {fault.description}") from None
    if properties.message_id is None:
        raise RequestError(ErrorCondition.INVALID_FIELD, "management request: message-id is missing")
    if properties.reply_to != REPLY_TO:
        raise RequestError(
            ErrorCondition.INVALID_FIELD,
            f"management request: reply-to is {quote(properties.reply_to)}, it must be '{REPLY_TO}'",
        )
    return ManagementRequest(message, bounds, properties)


def encode_response(response: Response, message_id: object) -> Walk[bytes]:
    """The message that answers the request with this message-id. Raises RequestRefusal for one that would be too
    large."""
    encoded = (
        encode_properties(Properties(subject=str(response.status), correlation_id=message_id)),
        _ANSWER_SAYS,
        AMQP_VALUE_BEGINS,
        (yield from _encode_body(response.body)),
    )
    if sum(map(len, encoded)) > RESPONSE_BYTES_MAX:
        raise _too_large()
    return b"".join(encoded)


_ANSWER_SAYS = encode_section(APPLICATION_PROPERTIES, {"http:response": "1.1"})
"""The application-properties of each response."""
_TAKEN_AS_IT_IS = frozenset({str, bool, float, type(None), UInt, ULong})
"""The types of most values in answers, which :func:`encodable` need not look at further."""
_encode_key = lru_cache(maxsize=KEYS_KEPT_MAX, typed=True)(encode_value)


def _encode_body(body: object) -> Walk[bytes]:
    """Encode the body. The walk can pause behind each entry of a list, which may have thousands.

    The body is a list itself, or a map whose values may be lists.
    """
    if isinstance(body, list):
        return (yield from _encode_entries(body))
    if not isinstance(body, dict):
        return encode_value(encodable(body))
    parts = []
    for key, value in body.items():
        parts.append(_encode_key(key))
        parts.append((yield from _encode_entries(value)) if isinstance(value, list) else encode_value(encodable(value)))
    return encode_map_of(parts)


def _encode_entries(entries: list[object]) -> Walk[bytes]:
    parts, size = [], 0
    for entry in entries:
        parts.append(encode_value(encodable(entry)))
        size += len(parts[-1])
        if size > RESPONSE_BYTES_MAX:
            raise _too_large()
        yield None
    return encode_list_of(parts)


def _too_large() -> RequestRefusal:
    return RequestRefusal(
        400, f"the response has more than {RESPONSE_BYTES_MAX} bytes, and no more are sent; ask for less"
    )


def segment_text(segment: str) -> str:
    """A path segment, decoded. Raises RequestRefusal."""
    try:
        return percent_decode(segment)
    except ValueError as fault:
        raise RequestRefusal(400, f"path segment {quote(segment)}: {fault}") from None


def _query(query: str) -> list[tuple[str, str]]:
    """A form-encoded query: ``+`` is a space, the rest is percent-encoded."""
    values = []
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        try:
            values.append((name, unquote_plus(value, errors="strict")))
        except UnicodeDecodeError:
            raise RequestRefusal(
                400, f"query parameter {quote(name)}: its percent-encoded bytes are not UTF-8"
            ) from None
    return values


class BodyFields:
    """A map in a request's body whose keys are known names. Every method raises RequestRefusal.

    Fields that are null count as absent. Keys may be strings or symbols.
    """

    def __init__(self, body: object, *, what: str, names: Collection[str]) -> None:
        self._what = what
        self._fields = _text_keys({} if body is None else body, f"the body of a {what}")
        for name in self._fields:
            if name not in names:
                raise RequestRefusal(400, f"bad {what} field {quote(name)}; there are {', '.join(names)}")

    def boolean(self, name: str, *, default: bool) -> bool:
        """A boolean field."""
        value = self._fields.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(name, "a boolean")
        return value

    def number(self, name: str, *, low: int, high: int, default: int | None = None) -> int | None:
        """An integer field within these bounds, both inclusive."""
        value = plain(self._fields.get(name))
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self._wrong(name, f"an integer from {low} to {high}")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A string or symbol field, mandatory unless it has a default."""
        value = plain(self._fields.get(name))
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self._wrong(name, "a string")
        if len(value.encode()) > NAME_BYTES_MAX:
            raise RequestRefusal(400, f"{self._what} field {name} is longer than {NAME_BYTES_MAX} bytes")
        return value

    def arguments(self) -> dict[str, object]:
        """The field ``arguments`` with plain values, {} when it is absent."""
        value = self._fields.get("arguments")
        return {} if value is None else _plain_map(value, f"{self._what} field arguments")

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def _wrong(self, name: str, expected: str) -> RequestRefusal:
        return RequestRefusal(400, f"{self._what} field {name} must be {expected}, not {quote(self._fields.get(name))}")


def _text_keys(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise RequestRefusal(400, f"{what} must be a map, not {quote(value)}")
    items: dict[str, object] = {}
    for key, item in value.items():
        name = key.value if isinstance(key, Symbol) else key
        if not isinstance(name, str):
            raise RequestRefusal(400, f"{what} has the key {quote(name)}; keys must be strings")
        if name in items:
            raise RequestRefusal(400, f"{what} has the key {quote(name)} twice")
        items[name] = item
    return items


def _plain_map(value: object, what: str) -> dict[str, object]:
    return {name: _plain(item, f"{what}.{name}") for name, item in _text_keys(value, what).items()}


def _plain(value: object, what: str) -> object:
    """An argument without its AMQP type: clients encode the same number or string in different types."""
    if isinstance(value, dict):
        return _plain_map(value, what)
    if isinstance(value, list):
        return [_plain(item, what) for item in value]
    if isinstance(value, Array) and not value.descriptors:
        return [_plain(item, what) for item in value.items]
    stripped = plain(value)
    if isinstance(value, Described) or not isinstance(stripped, str | int | float | None):
        raise RequestRefusal(400, f"{what} is {quote(value)}; it must be a string, number, boolean, list or map")
    return stripped


def encodable(value: object) -> object:
    """A plain value as the codec takes it: an integer is a long, or a ulong if it is too large for one."""
    if type(value) in _TAKEN_AS_IT_IS:
        return value
    if isinstance(value, Mapping):
        return {key: encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encodable(item) for item in value]
    if isinstance(value, int) and value > LONG_MAX:
        return ULong(value)
    return value
