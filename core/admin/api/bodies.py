"""The bodies of requests, and how a body is read: JSON of limited size, in which unknown fields are errors.

On RabbitMQ's paths, field names are RabbitMQ's. There, bodies may also have what RabbitMQ's own tools send in addition:
fields that repeat a part of the path, and numbers and booleans as text.
"""

import json
import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError
from starlette.datastructures import Headers
from starlette.types import Receive

from core.admin.api.documents import reading_document
from core.admin.api.json_values import checking, no_constant
from core.admin.api.refusals import HttpRefusal, bad_request
from core.admin.slices import conclusion
from core.slices import Walk

REASON_CHARACTERS_MAX = 400
"""The most characters of a text that says what is wrong with a body."""
AT_ONCE_BYTES_MAX = 64 * 1024
"""The most bytes of a body that is parsed in one piece, which takes a millisecond or two. It is the default of
``admin.body_max``; only definitions may be larger."""

SHORT_STRING_BYTES = 255
"""The most bytes of a binding key: a short string of AMQP 0.9.1 [0-9-1 4.2.5.3]."""

Arguments = dict[str, object]
Count = Field(default=None, ge=1, le=10**15)


def _short(text: str) -> str:
    if len(text.encode("utf-8")) > SHORT_STRING_BYTES:
        raise ValueError(f"must have at most {SHORT_STRING_BYTES} bytes")
    return text


def _said_as_text(value: object) -> object:
    """Return the value of a text such as ``"true"`` or ``"5"``, as RabbitMQ's command line sends it."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


_NUMBER = re.compile("-?[0-9]{1,10}")

Flag = Annotated[bool, BeforeValidator(_said_as_text)]
Priority = Annotated[int, BeforeValidator(_said_as_text), Field(ge=-(2**31), lt=2**31)]


class QueueBody(BaseModel, extra="forbid", strict=True, frozen=True):
    """The declaration of a queue."""

    durable: Flag = True
    auto_delete: Flag = False
    exclusive: Annotated[Literal[False], BeforeValidator(_said_as_text)] = False
    """An exclusive queue belongs to a connection, so it cannot be declared over HTTP."""
    arguments: Arguments = {}
    node: str | None = None
    """Ignored, because there is one node."""
    name: str | None = None
    """If given, it must be the name in the path. The same holds for such fields of the bodies below."""
    vhost: str | None = None


class ExchangeBody(BaseModel, extra="forbid", strict=True, frozen=True):
    """The declaration of an exchange."""

    type: str
    durable: Flag = True
    auto_delete: Flag = False
    internal: Flag = False
    arguments: Arguments = {}
    name: str | None = None
    vhost: str | None = None


class BindingBody(BaseModel, extra="forbid", strict=True, frozen=True):
    """A binding between the ends that the path names."""

    routing_key: Annotated[str, AfterValidator(_short)] = ""
    arguments: Arguments = {}
    source: str | None = None
    destination: str | None = None
    destination_type: Literal["queue", "exchange"] | None = None
    vhost: str | None = None


class PolicyBody(BaseModel, extra="forbid", strict=True, frozen=True):
    """A policy."""

    pattern: str
    definition: Arguments
    priority: Priority = 0
    apply_to: str = Field(default="all", alias="apply-to")
    name: str | None = None
    vhost: str | None = None


class DefinitionsBody(BaseModel, extra="allow", frozen=True):
    """A document in RabbitMQ's form. It is checked when it is applied."""


class MoveBody(BaseModel, extra="forbid", strict=True, frozen=True):
    """Where messages are moved to: a queue ``to``, or an ``exchange`` with a routing ``key``. ``count``: how many; all
    that are ready if it is not given."""

    to: str | None = None
    exchange: str | None = None
    key: str = ""
    count: int | None = Count


class ReplayBody(BaseModel, extra="forbid", strict=True, frozen=True):
    """How many messages are sent back to the queue in which they died; all that are ready if it is not given."""

    count: int | None = Count


async def read_body(
    receive: Receive, headers: Headers, *, kind: type[BaseModel] | None, size_max: int
) -> BaseModel | None:
    """Read and check the body of a request; return None if the operation has no body. Raises HttpRefusal."""
    bound, named = size_max, "admin.body_max"
    if kind is not DefinitionsBody and size_max > AT_ONCE_BYTES_MAX:
        bound, named = AT_ONCE_BYTES_MAX, "only definitions may be larger"
    content = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise bad_request("the client has gone before the end of its request")
        content += message.get("body", b"")
        if len(content) > bound:
            raise HttpRefusal(413, "body-too-large", f"a body may have at most {bound} bytes: {named}")
        if not message.get("more_body", False):
            break
    if kind is None:
        if bytes(content) not in (b"", b"{}"):
            raise HttpRefusal(413, "body-too-large", "this request has no body")
        return None
    if content and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HttpRefusal(415, "not-json", "the Content-Type of a body must be application/json")
    return await conclusion(parsing(bytes(content) or b"{}", kind))


def parsing(content: bytes, kind: type[BaseModel]) -> Walk[BaseModel]:
    """Parse and check a body. Raises HttpRefusal, which names every wrong field."""
    try:
        if kind is DefinitionsBody:
            return kind.model_validate((yield from reading_document(content)))
        value = json.loads(content, parse_constant=no_constant)
        yield from checking(value)
        return kind.model_validate(value)
    except ValidationError as error:
        places = [(_place(one["loc"]), one["msg"]) for one in error.errors(include_url=False, include_input=False)]
        raise bad_request("; ".join(f"{place}: {said}" for place, said in places)[:REASON_CHARACTERS_MAX]) from None
    except (ValueError, RecursionError) as error:
        raise bad_request(f"the body is no JSON that can be used: {error}"[:REASON_CHARACTERS_MAX]) from None


def _place(path: Sequence[int | str]) -> str:
    return ".".join(map(str, path)) or "the body"
