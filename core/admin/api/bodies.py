"""The bodies that requests may have, and how one is read: JSON, of bounded size, with no field that is not known.

Field names are RabbitMQ's where the path is, and so is what its own tools send besides: what the path says already, and
numbers and truth as text.
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
from core.admin.api.refusals import Refusal, bad_request
from core.admin.slices import conclusion
from core.slices import Walk

REASON_CHARACTERS_MAX = 400
"""Of what is wrong with a body."""
AT_ONCE_BYTES_MAX = 64 * 1024
"""Of a body that is read in one piece, in a millisecond or two. It is the default of ``admin.body_max``, and only
definitions may be larger."""

SHORT_STRING_BYTES = 255
"""Of a binding key, so that AMQP 0.9.1 can say it [0-9-1 4.2.5.3]."""

Arguments = dict[str, object]
Count = Field(default=None, ge=1, le=10**15)


def _short(text: str) -> str:
    if len(text.encode("utf-8")) > SHORT_STRING_BYTES:
        raise ValueError(f"must have at most {SHORT_STRING_BYTES} bytes")
    return text


def _said_as_text(value: object) -> object:
    """RabbitMQ's command line sends what was typed: ``"true"``, ``"5"``."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


_NUMBER = re.compile("-?[0-9]{1,10}")

Flag = Annotated[bool, BeforeValidator(_said_as_text)]
Priority = Annotated[int, BeforeValidator(_said_as_text), Field(ge=-(2**31), lt=2**31)]


class QueueBody(BaseModel, extra="forbid", strict=True, frozen=True):
    """What a queue is declared with."""

    durable: Flag = True
    auto_delete: Flag = False
    exclusive: Annotated[Literal[False], BeforeValidator(_said_as_text)] = False
    """An exclusive queue needs a connection."""
    arguments: Arguments = {}
    node: str | None = None
    """Means nothing: there is one node."""
    name: str | None = None
    """As in the path, if it is said again; so are others in the bodies below."""
    vhost: str | None = None


class ExchangeBody(BaseModel, extra="forbid", strict=True, frozen=True):
    """What an exchange is declared with."""

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
    """A document in RabbitMQ's form. Who applies it checks it."""


class MoveBody(BaseModel, extra="forbid", strict=True, frozen=True):
    """Where messages go, and how many: ``to`` is a queue; otherwise ``exchange`` and ``key``."""

    to: str | None = None
    exchange: str | None = None
    key: str = ""
    count: int | None = Count


class ReplayBody(BaseModel, extra="forbid", strict=True, frozen=True):
    """How many messages go back to where they died; all that are ready when not given."""

    count: int | None = Count


async def read_body(
    receive: Receive, headers: Headers, *, kind: type[BaseModel] | None, size_max: int
) -> BaseModel | None:
    """The body; None where the operation takes none. Raises Refusal."""
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
            raise Refusal(413, "body-too-large", f"a body may have at most {bound} bytes: {named}")
        if not message.get("more_body", False):
            break
    if kind is None:
        if bytes(content) not in (b"", b"{}"):
            raise Refusal(413, "body-too-large", "this request has no body")
        return None
    if content and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "not-json", "the Content-Type of a body must be application/json")
    return await conclusion(parsing(bytes(content) or b"{}", kind))


def parsing(content: bytes, kind: type[BaseModel]) -> Walk[BaseModel]:
    """Raises Refusal, which names every field that is wrong."""
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
