"""Writes a document as text in RabbitMQ's format. Equal documents give equal bytes."""

import json
from collections.abc import Mapping

from core.definitions_file.document import Document, Thing
from core.interface import Binding, ExchangeDeclaration, QueueDeclaration
from core.slices import Walk, gathered, run_at_once

RABBITMQ_VERSION = "4.0.0"
"""The version of RabbitMQ whose format this is. RabbitMQ needs it to recognise files of very old versions."""
HOST = "/"


def text(document: Document, *, version: str, users: Mapping[str, object] | None = None, host: str = HOST) -> str:
    """Return the text of the file, with a line break at its end. ``version`` is Headgate's; ``users`` has the lists
    about users; ``host`` is the virtual host."""
    value = {**run_at_once(making_value(document, version=version, host=host)), **(users or {})}
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_value(document: Document, *, version: str) -> dict[str, object]:
    """Return the document as a JSON value."""
    return run_at_once(making_value(document, version=version))


def making_value(document: Document, *, version: str, host: str = HOST) -> Walk[dict[str, object]]:
    """``as_value`` as a walk, for the document of a virtual host."""

    def entry(thing: Thing) -> dict[str, object]:
        return shown(thing, host)

    return {
        "rabbit_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": "Headgate",
        "product_version": version,
        "users": [],
        "vhosts": [{"name": host}],
        "permissions": [],
        "topic_permissions": [],
        "parameters": [],
        "global_parameters": [],
        "policies": (yield from gathered(map(entry, document.policies))),
        "queues": (yield from gathered(map(entry, document.queues))),
        "exchanges": (yield from gathered(map(entry, document.exchanges))),
        "bindings": (yield from gathered(map(entry, document.bindings))),
    }


def shown(thing: Thing, host: str = HOST) -> dict[str, object]:
    """Return a definition as an entry of the file."""
    match thing:
        case ExchangeDeclaration():
            return {
                "name": thing.name,
                "vhost": host,
                "type": thing.type.value,
                "durable": thing.durable,
                "auto_delete": thing.auto_delete,
                "internal": thing.internal,
                "arguments": _ordered(thing.arguments),
            }
        case QueueDeclaration():
            return {
                "name": thing.name,
                "vhost": host,
                "durable": thing.durable,
                "auto_delete": thing.auto_delete,
                "arguments": _ordered(thing.arguments),
            }
        case Binding():
            return {
                "source": thing.source,
                "vhost": host,
                "destination": thing.destination,
                "destination_type": "queue" if thing.destination_is_queue else "exchange",
                "routing_key": thing.binding_key,
                "arguments": _ordered(thing.arguments),
            }
    return {
        "vhost": host,
        "name": thing.name,
        "pattern": thing.pattern,
        "apply-to": thing.apply_to,
        "priority": thing.priority,
        "definition": _ordered(thing.definition),
    }


def _ordered(value: object) -> object:
    """Return the value with the keys of maps sorted, at every level."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_ordered(item) for item in value]
    return value
