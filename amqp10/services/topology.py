"""The declarations of a service at the broker. They are the same for each, so any number of services may make them.

=====================  ======  ====================================================================
exchange               type    binding keys
=====================  ======  ====================================================================
``services``           topic   ``TYPE`` → queue TYPE, ``TYPE.HOST`` → queue TYPE.HOST
``services.groups``    direct  ``TYPE.*`` and ``*.*`` → queue TYPE.HOST, literally
=====================  ======  ====================================================================

There are two exchanges, because wildcards work in binding keys and not in routing keys: a message that is published
with the key ``TYPE.*`` matches no binding ``TYPE.HOST``. If a queue TYPE.HOST were bound by the pattern ``TYPE.*``,
it would also get the messages to every other host of its type.

The queue TYPE has any number of consumers. The queue TYPE.HOST has one at a time, by ``x-single-active-consumer``: a
second process of the same name waits until the first one goes, and order is kept. The queue of a host that never comes
back is deleted by ``x-expires``.
"""

from urllib.parse import quote

from amqp10.client.connection import ClientConnection
from amqp10.client_core.errors import RequestRefused
from amqp10.services.errors import DeclaredDifferently
from amqp10.services.naming import EXCHANGE, GROUPS_EXCHANGE, ServiceName, group_key
from amqp10.services.options import ServiceOptions

CONFLICT = 409
"""The status of a declaration that differs from the existing queue or exchange."""


async def declare(connection: ClientConnection, place: ServiceName, options: ServiceOptions) -> None:
    """Declare exchanges, queues and bindings for a host. Existing ones that agree stay as they are.

    Raises DeclaredDifferently, RequestRefused for what the user may not declare, and the errors of the connection.
    """
    of_type = ServiceName(place.type)
    await _put(connection, "exchange", EXCHANGE, {"type": "topic", "durable": True})
    await _put(connection, "exchange", GROUPS_EXCHANGE, {"type": "direct", "durable": True})
    if options.dead_letter_queue is not None:
        await _put(connection, "queue", options.dead_letter_queue, {"durable": True, "arguments": {}})
    await _put(connection, "queue", of_type.key, {"durable": True, "arguments": _type_queue_arguments(options)})
    await _put(connection, "queue", place.key, {"durable": True, "arguments": _host_queue_arguments(options)})
    await _bind(connection, EXCHANGE, of_type.key, of_type.key)
    await _bind(connection, EXCHANGE, place.key, place.key)
    await _bind(connection, GROUPS_EXCHANGE, group_key(place.type), place.key)
    await _bind(connection, GROUPS_EXCHANGE, group_key(None), place.key)
    connection.end_management()


def _dead_letters(options: ServiceOptions) -> dict[str, object]:
    if options.dead_letter_queue is None:
        return {}
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": options.dead_letter_queue}


def _type_queue_arguments(options: ServiceOptions) -> dict[str, object]:
    if options.type_queue_length_max is None:
        return _dead_letters(options)
    return {
        "x-max-length": options.type_queue_length_max,
        "x-overflow": "reject-publish",
        **_dead_letters(options),
    }


def _host_queue_arguments(options: ServiceOptions) -> dict[str, object]:
    return {
        "x-single-active-consumer": True,
        "x-expires": round(options.host_queue_expires_s * 1000),
        **_dead_letters(options),
    }


async def _put(connection: ClientConnection, kind: str, name: str, body: dict[str, object]) -> None:
    try:
        await connection.request("PUT", f"/{kind}s/{quote(name, safe='')}", body)
    except RequestRefused as refused:
        if refused.status != CONFLICT:
            raise
        raise DeclaredDifferently(
            f"the {kind} {name} exists and is not what services need ({refused.text}); "
            f"delete it, or give every service of the type the same options"
        ) from refused


async def _bind(connection: ClientConnection, exchange: str, key: str, queue: str) -> None:
    body = {"source": exchange, "destination_queue": queue, "binding_key": key, "arguments": {}}
    await connection.request("POST", "/bindings", body)
