"""The requests to a broker that apply a definitions file, one step after the other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from amqp10.blocking.requests import BlockingManagement
from amqp10.cli.printing import Row
from amqp10.cli.remote import HTTP_NOT_FOUND, pages
from amqp10.client_core.errors import RequestRefused
from amqp10.management.bindings import location
from amqp10.management.message import REQUEST_BYTES_MAX, encodable
from amqp10.wire.codec.encode import encode_value
from amqp10.wire.percent import percent_encode
from core.definitions_file import KINDS, Action, Step, Thing
from core.interface import Binding, ExchangeDeclaration, QueueDeclaration

PROPERTIES_BYTES = 4096
"""Bytes of a request besides its body. The longest part is the path: a name of 255 bytes, three times as long when it
is percent-encoded."""

Request = tuple[str, str, object]
"""Method, path and body."""


@dataclass(slots=True)
class AppliedSteps:
    """The steps that were done and that failed. A step in neither list was not tried."""

    done: list[Step] = field(default_factory=list)
    failed: list[tuple[Step, str]] = field(default_factory=list)


def snapshots(broker: BlockingManagement) -> dict[str, Sequence[Row]]:
    """All definitions of a broker, in the form that :func:`core.definitions_file.from_snapshots` takes."""
    return {kind: pages(broker, kind) for kind in KINDS}


def by_user(lists: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """The lists about users of a file as bodies of requests, one for each user, so that each is small."""
    bodies: dict[object, dict[str, object]] = {}
    for name, key in (("users", "name"), ("permissions", "user"), ("topic_permissions", "user")):
        entries = lists.get(name, [])
        for entry in entries if isinstance(entries, list) else []:
            user = entry.get(key) if isinstance(entry, dict) else None
            body = bodies.setdefault(user, {})
            body[name] = [*cast("list[object]", body.get(name, [])), encodable(entry)]
    yield from bodies.values()


def take(
    broker: BlockingManagement,
    steps: Sequence[Step],
    outcome: AppliedSteps,
    *,
    keep_going: bool,
    taken: Callable[[], None],
) -> None:
    """Do the steps in order. Without ``keep_going`` the first failure ends this. ``taken`` is called after each step.

    Raises ClientError when the connection fails; ``outcome`` then has the steps that were done.
    """
    for step in steps:
        why = _refusal(broker, step)
        if why is None:
            outcome.done.append(step)
        else:
            outcome.failed.append((step, why))
            if not keep_going:
                return
        taken()


def _refusal(broker: BlockingManagement, step: Step) -> str | None:
    """Do a step. Returns why it failed, or None when it is done."""
    method, path, body = request_of(step)
    size = len(encode_value(body))
    if size > REQUEST_BYTES_MAX - PROPERTIES_BYTES:
        return f"its arguments take {size} bytes, a request has at most {REQUEST_BYTES_MAX}; shorten them"
    try:
        broker.request(method, path, body)
    except RequestRefused as refused:
        if step.action is Action.DELETE and refused.status == HTTP_NOT_FOUND:
            return None
        return refused.text
    return None


def request_of(step: Step) -> Request:
    """The request for a step."""
    if step.action is Action.DELETE:
        return "DELETE", _path(step.thing), None
    return _declaration(step.thing)


def _path(thing: Thing) -> str:
    match thing:
        case ExchangeDeclaration():
            return f"/exchanges/{percent_encode(thing.name)}"
        case QueueDeclaration():
            return f"/queues/{percent_encode(thing.name)}"
        case Binding():
            return location(thing)
    return f"/headgate/policies/{percent_encode(thing.name)}"


def _declaration(thing: Thing) -> Request:
    path = _path(thing)
    match thing:
        case ExchangeDeclaration():
            fields = {"type": thing.type.value, "durable": thing.durable, "auto_delete": thing.auto_delete}
            return "PUT", path, {**fields, "internal": thing.internal, "arguments": encodable(thing.arguments)}
        case QueueDeclaration():
            fields = {"durable": thing.durable, "auto_delete": thing.auto_delete}
            return "PUT", path, {**fields, "arguments": encodable(thing.arguments)}
        case Binding():
            return "POST", "/bindings", binding_body(thing)
    return "PUT", path, {
        "pattern": thing.pattern,
        "priority": thing.priority,
        "apply_to": thing.apply_to,
        "definition": encodable(thing.definition),
    }  # fmt: skip


def binding_body(binding: Binding) -> dict[str, object]:
    """The body of the request that creates a binding."""
    return {
        "source": binding.source,
        "destination_queue" if binding.destination_is_queue else "destination_exchange": binding.destination,
        "binding_key": binding.binding_key,
        "arguments": encodable(binding.arguments),
    }
