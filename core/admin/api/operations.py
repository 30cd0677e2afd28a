"""The operations of the API under ``/api``, in one table, and how the operation of a request is found.

The table is the only source: requests are looked up in it, parameters and bodies are checked by it, and the OpenAPI
description is made from it. So the description has every path.

A path is split into segments before it is percent-decoded: the virtual host ``/`` is the segment ``%2F``, and the
identity of a link has slashes too. If several paths match, the one with a literal segment at the first difference is
used.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar
from urllib.parse import parse_qsl, unquote

from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.types import ASGIApp

from core.admin.api.refusals import HttpRefusal, bad_request

OPERATOR = object()
"""The owner in whose name the API acts; it owns no queue."""
SEGMENT_CHARACTERS_MAX = 1024
"""The most characters of a name in a path. A queue's name has up to 255 bytes; percent-encoded in an AMQP 1.0 address,
it has three times as many."""
PARAMETERS_MAX = 32
NUMBER_DIGITS_MAX = 15
"""The most digits of a number: JSON's numbers are exact up to 2^53."""

Body = TypeVar("Body", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a query. ``low`` and ``high`` are the limits of an integer."""

    name: str
    help: str
    kind: Literal["string", "integer", "boolean"] = "string"
    low: int = 0
    high: int | None = None

    def parse(self, text: str) -> str | int | bool:
        """Return the value of a text. Raises HttpRefusal."""
        if self.kind == "boolean":
            if text not in ("true", "false"):
                raise bad_request(f"{self.name} must be true or false")
            return text == "true"
        if self.kind == "integer":
            is_number = text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX
            if not is_number or int(text) < self.low or (self.high is not None and int(text) > self.high):
                bounds = f"from {self.low}" if self.high is None else f"from {self.low} to {self.high}"
                raise bad_request(f"{self.name} must be a number {bounds}")
            return int(text)
        if len(text) > SEGMENT_CHARACTERS_MAX:
            raise bad_request(f"{self.name} must have at most {SEGMENT_CHARACTERS_MAX} characters")
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The parts of a request that its operation uses. All of them have been checked."""

    path: Mapping[str, str]
    """The decoded value of each name in the operation's path."""
    query: Mapping[str, str | int | bool] = field(default_factory=dict)
    body: BaseModel | None = None
    headers: Headers = field(default_factory=Headers)
    may_write: bool = True

    def text(self, name: str) -> str | None:
        """Return a parameter of the kind string; None if it is not given."""
        value = self.query.get(name)
        return None if value is None else str(value)

    def number(self, name: str, default: int) -> int:
        """Return a parameter of the kind integer."""
        return int(self.query.get(name, default))

    def flag(self, name: str) -> bool:
        """Return a parameter of the kind boolean; False if it is not given."""
        return bool(self.query.get(name, False))

    def taken(self, kind: type[Body]) -> Body:
        """Return the body, which must be of this kind."""
        assert isinstance(self.body, kind)
        return self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method on one path."""

    method: str
    path: str
    """The path, with ``{name}`` for each segment that varies."""
    summary: str
    answer: Callable[[Call], ASGIApp]
    """Returns the answer to a call. Raises HttpRefusal and EngineError."""
    query: Sequence[Parameter] = ()
    ignored: frozenset[str] = frozenset()
    """Names of further parameters, which are accepted and ignored."""
    body: type[BaseModel] | None = None
    status: int = 200
    media_type: str = "application/json"

    @property
    def segments(self) -> tuple[str, ...]:
        """Return the segments of the path."""
        return tuple(self.path.split("/")[1:])

    @property
    def names(self) -> list[str]:
        """Return the names of the segments that vary, in order."""
        return [segment[1:-1] for segment in self.segments if segment.startswith("{")]

    def parameters(self, query_string: bytes) -> dict[str, str | int | bool]:
        """Return the parameters of a query. Raises HttpRefusal for one that is unknown, invalid or given twice."""
        known = {parameter.name: parameter for parameter in self.query}
        found: dict[str, str | int | bool] = {}
        for name, text in _pairs(query_string):
            if name in self.ignored:
                continue
            if name not in known:
                there_are = ", ".join(known) or "none"
                raise bad_request(f"there is no parameter {name[:64]!r} here; there are: {there_are}")
            if name in found:
                raise bad_request(f"{name} is given more than once")
            found[name] = known[name].parse(text)
        return found


Answer = Callable[[Call], ASGIApp]


def get(
    path: str,
    summary: str,
    answer: Answer,
    *,
    query: Sequence[Parameter] = (),
    ignored: frozenset[str] = frozenset(),
    media_type: str = "application/json",
) -> Operation:
    """Return an operation that changes nothing."""
    return Operation(
        method="GET", path=path, summary=summary, answer=answer, query=query, ignored=ignored, media_type=media_type
    )


def write(
    method: str,
    path: str,
    summary: str,
    answer: Answer,
    *,
    query: Sequence[Parameter] = (),
    body: type[BaseModel] | None = None,
    status: int = 204,
) -> Operation:
    """Return an operation that changes something."""
    return Operation(method=method, path=path, summary=summary, answer=answer, query=query, body=body, status=status)


class Table:
    """All operations, by path."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        # a literal segment sorts before a name, at the first place where two paths differ
        self.operations = sorted(operations, key=lambda one: [segment.startswith("{") for segment in one.segments])
        self._by_length: dict[int, list[tuple[tuple[str, ...], Operation]]] = {}
        for operation in self.operations:
            self._by_length.setdefault(len(operation.segments), []).append((operation.segments, operation))

    def find(self, method: str, raw_path: bytes) -> tuple[Operation, dict[str, str]]:
        """Return the operation of a request, and the values of the names in its path. Raises HttpRefusal: not-found or
        method-not-allowed."""
        wanted = "GET" if method == "HEAD" else method
        segments = tuple(_segments(raw_path))
        fitting = [
            operation for pattern, operation in self._by_length.get(len(segments), ()) if _fits(pattern, segments)
        ]
        if not fitting:
            raise HttpRefusal(404, "not-found", "there is no such path")
        for operation in fitting:
            if operation.method == wanted:
                values = [given for own, given in zip(operation.segments, segments, strict=True) if own.startswith("{")]
                return operation, dict(zip(operation.names, values, strict=True))
        allowed = ", ".join(sorted({operation.method for operation in fitting}))
        raise HttpRefusal(405, "method-not-allowed", f"{method} is not possible here", headers={"allow": allowed})


def _segments(raw_path: bytes) -> Iterator[str]:
    try:
        for segment in raw_path.decode("ascii").removesuffix("/").split("/")[1:]:  # RabbitMQ's clients end paths with /
            decoded = unquote(segment, errors="strict")
            if len(decoded) > SEGMENT_CHARACTERS_MAX:
                raise bad_request(f"a name in a path must have at most {SEGMENT_CHARACTERS_MAX} characters")
            yield decoded
    except UnicodeDecodeError:
        raise bad_request("the path must be ASCII, with other characters as percent-encoded UTF-8") from None


def _fits(pattern: tuple[str, ...], segments: tuple[str, ...]) -> bool:
    return all(own.startswith("{") or own == given for own, given in zip(pattern, segments, strict=True))


def _pairs(query_string: bytes) -> Sequence[tuple[str, str]]:
    try:
        return parse_qsl(
            query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX
        )
    except ValueError:  # UnicodeDecodeError is a ValueError too
        raise bad_request(f"the query must be at most {PARAMETERS_MAX} parameters in percent-encoded UTF-8") from None
