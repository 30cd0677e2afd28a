"""The bodies that requests may have, and how one is read: JSON, of bounded size, with no field that is not known.

Field names are RabbitMQ's where the path is, and so is what its own tools send besides: what the path says already, and
numbers and truth as text.
"""

import json
import re
from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError
from starlette.datastructures import Headers
from starlette.types import Receive

from core.admin.api.refusals import Refusal, bad_request
from core.admin.slices import conclusion
from core.slices import Walk

REASON_CHARACTERS_MAX = 400
"""Of what is wrong with a body."""
DEPTH_MAX = 16
"""Of maps and lists in each other. Arguments that anybody knows have two."""
INTEGER_MAX = 2**63 - 1
"""What both protocols, and the store, can hold."""

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
    content = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise bad_request("the client has gone before the end of its request")
        content += message.get("body", b"")
        if len(content) > size_max:
            raise Refusal(413, "body-too-large", f"a body may have at most {size_max} bytes: admin.body_max")
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
        value = json.loads(content, parse_constant=_no_constant)
        yield from _check(value, DEPTH_MAX)
        return kind.model_validate(value)
    except ValidationError as error:
        places = [(_place(one["loc"]), one["msg"]) for one in error.errors(include_url=False, include_input=False)]
        raise bad_request("; ".join(f"{place}: {said}" for place, said in places)[:REASON_CHARACTERS_MAX]) from None
    except (ValueError, RecursionError) as error:
        raise bad_request(f"the body is no JSON that can be used: {error}"[:REASON_CHARACTERS_MAX]) from None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no number of JSON")


def _check(value: object, depth_left: int) -> Walk[None]:
    """Raises ValueError for what is JSON, and still nothing that can be kept or sent."""
    if isinstance(value, int) and not -INTEGER_MAX - 1 <= value <= INTEGER_MAX:
        raise ValueError("an integer has more than 64 bits")
    if isinstance(value, float) and not isfinite(value):
        raise ValueError("a number is too large")
    if isinstance(value, str):
        value.encode("utf-8")  # half of a surrogate pair is no text
    if isinstance(value, dict | list):
        if not depth_left:
            raise ValueError(f"maps and lists are nested deeper than {DEPTH_MAX}")
        for one in value if isinstance(value, list) else (*value, *value.values()):
            yield from _check(one, depth_left - 1)
        yield


def _place(path: Sequence[int | str]) -> str:
    return ".".join(map(str, path)) or "the body"
