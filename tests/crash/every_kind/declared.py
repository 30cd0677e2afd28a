"""The definitions in the data folder of every kind: every argument, type and key that the broker's tables name.

A name that the tables get later has no value here, so that making the folder again fails until it has one.
"""

from collections.abc import Mapping

from pika.adapters.blocking_connection import BlockingChannel

from amqp10.client import ClientConnection
from core.engine.options.arguments import EXCHANGE_ARGUMENTS, QUEUE_ARGUMENTS
from core.engine.options.policies import APPLY_TO, KEYS
from core.interface import ExchangeType

CENTURY_MS = 100 * 365 * 86_400_000
"""A time that does not pass while the folder is in use."""
DEAD = "dead"
"""The exchange for dead letters. Two queues and a stream get all of them."""
NOWHERE = "nowhere"
"""An exchange without bindings: a message that is dead-lettered to it at least once stays in its queue."""
DEAD_AT_LAST = "dead at last"
"""A queue that gets a binding to it when the folder is in use."""
SMALL_SEGMENT = 4096

_VALUES: Mapping[str, object] = {
    "x-queue-leader-locator": "client-local",
    "x-max-length-bytes": 1_000_000,
    "x-sync": "always",
    "x-single-active-consumer": True,
    "x-max-length": 1000,
    "x-message-ttl": CENTURY_MS,
    "x-expires": CENTURY_MS,
    "x-dead-letter-exchange": DEAD,
    "x-dead-letter-routing-key": "from every argument",
    "x-consumer-timeout": CENTURY_MS,
    "x-sequence": True,
    "x-deduplicate": True,
    "x-enqueued-time": True,
    "x-overflow": "reject-publish",
    "x-max-priority": 9,
    "x-queue-mode": "lazy",
    "x-queue-version": 2,
    "x-queue-master-locator": "client-local",
    "x-dead-letter-strategy": "at-least-once",
    "x-delivery-limit": 5,
    "x-deliver-limit": 5,
    "x-quorum-initial-group-size": 1,
    "x-quorum-target-group-size": 1,
    "x-max-in-memory-length": 10,
    "x-max-in-memory-bytes": 10_000,
    "x-max-age": "100Y",
    "x-stream-max-segment-size-bytes": 1_000_000,
    "x-stream-filter-size-bytes": 16,
    "x-initial-cluster-size": 1,
    "x-initial-group-size": 1,
}
_POLICY_VALUES: Mapping[str, object] = {
    "queue-mode": "default",
    "max-length": 100,
    "max-length-bytes": 100_000,
    "target-group-size": 3,
    "overflow": "drop-head",
    "message-ttl": CENTURY_MS,
    "expires": CENTURY_MS,
    "dead-letter-exchange": DEAD,
    "dead-letter-routing-key": "from a policy",
    "dead-letter-strategy": "at-most-once",
    "delivery-limit": 9,
    "consumer-timeout": CENTURY_MS,
    "max-age": "99Y",
    "stream-max-segment-size-bytes": 100_000,
    "max-link-credit": 50,
    "max-unsettled": 1_000_000,
    "max-unsettled-bytes": 1_000_000_000,
    "publish-rate": 1_000_000,
    "publish-rate-bytes": 1_000_000_000,
    "sync": "default",
    "deduplicate": True,
    "enqueued-time": True,
    "alternate-exchange": "of type fanout",
    "ha-mode": "exactly",
    "ha-params": 2,
    "ha-sync-mode": "automatic",
    "ha-promote-on-shutdown": "when-synced",
    "ha-sync-batch-size": 10,
}

EVERY_ARGUMENT = {kind: f"every argument {kind}" for kind in QUEUE_ARGUMENTS}
LOST = {kind: f"lost {kind}" for kind in QUEUE_ARGUMENTS}
"""Queues that the definitions forget between the two lives, so that the second sets their data aside."""
GONE = {kind: f"gone {kind}" for kind in QUEUE_ARGUMENTS}
"""Queues that are deleted in the second life."""

_CLASSIC = {"x-queue-type": "classic"}
_QUORUM = {"x-queue-type": "quorum"}
_STREAM = {"x-queue-type": "stream"}

QUEUES: Mapping[str, Mapping[str, object]] = {
    **{
        name: {argument: kind if argument == "x-queue-type" else _VALUES[argument] for argument in rules}
        for (kind, rules), name in zip(QUEUE_ARGUMENTS.items(), EVERY_ARGUMENT.values(), strict=True)
    },
    **{name: {"x-queue-type": kind} for kind, name in [*LOST.items(), *GONE.items()]},
    "classic": {},  # a type by default is stored without the argument
    "classic published": _CLASSIC,
    "classic lazy": _CLASSIC | {"x-queue-mode": "lazy"},
    "classic levels": _CLASSIC | {"x-max-priority": 5},
    "classic expiring": _CLASSIC | {"x-message-ttl": CENTURY_MS},
    "classic expired": _CLASSIC | {"x-dead-letter-exchange": DEAD},
    "classic short": _CLASSIC | {"x-max-length": 2, "x-dead-letter-exchange": DEAD, "x-dead-letter-routing-key": "key"},
    "classic shared": _CLASSIC,
    "classic not durable": _CLASSIC,
    "classic rejected": _CLASSIC | {"x-dead-letter-exchange": DEAD},
    "quorum": _QUORUM,
    "quorum published": _QUORUM,
    "quorum expiring": _QUORUM | {"x-message-ttl": CENTURY_MS},
    "quorum expired": _QUORUM | {"x-dead-letter-exchange": DEAD},
    "quorum limited": _QUORUM | {"x-delivery-limit": 1, "x-dead-letter-exchange": DEAD},
    "quorum kept": _QUORUM
    | {
        "x-dead-letter-exchange": NOWHERE,
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    },
    "quorum turnover": _QUORUM,
    "stream": _STREAM,
    "stream published": _STREAM,
    "stream short": _STREAM
    | {"x-stream-max-segment-size-bytes": SMALL_SEGMENT, "x-max-length-bytes": 4 * SMALL_SEGMENT},
    "dead classic": _CLASSIC,
    "dead quorum": _QUORUM,
    "dead stream": _STREAM,
    DEAD_AT_LAST: _CLASSIC,
    "policed classic": _CLASSIC,
    "policed quorum": _QUORUM,
    "policed stream": _STREAM,
}
"""The durable queues that AMQP 0.9.1 declares, with their arguments."""
AUTO_DELETED = "classic auto-deleted"
PASSING = "passing lazy"
"""A queue that does not outlive the broker, although its messages are on the disk."""
BY_AMQP10 = "declared by AMQP 1.0"
EVERYWHERE = "everywhere"
"""The fanout exchange that puts each message into queues of all types."""


def declare(channel: BlockingChannel) -> None:
    """Declare everything that AMQP 0.9.1 declares. What exists already stays."""
    _exchanges(channel)
    for name, arguments in QUEUES.items():
        channel.queue_declare(name, durable=True, arguments=dict(arguments) or None)
    channel.queue_declare(AUTO_DELETED, durable=True, auto_delete=True)
    channel.queue_declare(PASSING, arguments={"x-queue-mode": "lazy"})
    for queue in ("classic published", "classic shared", "quorum published", "stream published"):
        channel.queue_bind(queue, EVERYWHERE)
    for kind in QUEUE_ARGUMENTS:
        channel.queue_bind(f"dead {kind}", DEAD)
    _bindings(channel)


def _exchanges(channel: BlockingChannel) -> None:
    for kind in ExchangeType:
        channel.exchange_declare(f"of type {kind.value}", kind.value, durable=True)
    channel.exchange_declare(DEAD, "fanout", durable=True)
    channel.exchange_declare(NOWHERE, "fanout", durable=True)
    channel.exchange_declare(EVERYWHERE, "fanout", durable=True)
    channel.exchange_declare("internal", "direct", durable=True, internal=True)
    channel.exchange_declare("auto-deleted", "direct", durable=True, auto_delete=True)
    channel.exchange_declare("passing", "direct")
    channel.exchange_declare("policed exchange", "topic", durable=True)
    arguments = dict.fromkeys(EXCHANGE_ARGUMENTS, "of type fanout")
    channel.exchange_declare("every argument", "direct", durable=True, arguments=arguments)


def _bindings(channel: BlockingChannel) -> None:
    headers = {"x-match": "all", "text": "a", "number": 2**40, "truth": True, "x-opt": "b"}
    channel.queue_bind("classic", "of type headers", arguments=headers)
    channel.queue_bind("quorum", "of type headers", arguments={"x-match": "any-with-x", "text": "a"})
    channel.queue_bind("stream", "of type topic", routing_key="*.stock.#")
    channel.queue_bind("classic", "of type topic", routing_key="#")
    channel.queue_bind("classic", "of type direct", routing_key="key")
    channel.queue_bind("classic", "of type direct", routing_key="another key")
    channel.queue_bind("quorum", "of type x-local-random", routing_key="key")
    channel.queue_bind("classic", "auto-deleted", routing_key="key")
    channel.exchange_bind("of type fanout", "of type direct", routing_key="key")
    channel.exchange_bind("internal", "of type headers", arguments={"x-match": "any", "number": -1})
    channel.exchange_bind("internal", "of type topic", routing_key="a.*")
    channel.queue_bind("classic", "internal", routing_key="key")


async def set_policies(connection: ClientConnection) -> None:
    """Set the policies, and declare a queue and an exchange with a binding, by requests of AMQP 1.0."""
    keys = {name: _POLICY_VALUES[name] for name in KEYS}
    await _put(connection, "/headgate/policies/every key", pattern="^policed", priority=7, definition=keys)
    for number, apply_to in enumerate(APPLY_TO):
        definition = {"alternate-exchange": EVERYWHERE} if apply_to == "exchanges" else {"max-length-bytes": 2**40}
        await _put(
            connection,
            f"/headgate/policies/for {apply_to}",
            pattern="^(declared|policed)",
            priority=number - 2,
            apply_to=apply_to,
            definition=definition,
        )
    await _put(connection, f"/queues/{BY_AMQP10}", durable=True, arguments={"x-queue-type": "quorum", "own": "kept"})
    await _put(connection, f"/exchanges/{BY_AMQP10}", durable=True, type="topic")
    headers: dict[str, object] = {"x-match": "all", "double": 1.5, "null": None, "list": [1, "a"]}
    for source, arguments in ((BY_AMQP10, {}), ("of type headers", headers)):
        binding = {"source": source, "destination_queue": BY_AMQP10, "binding_key": "key", "arguments": arguments}
        answer = await connection.request("POST", "/bindings", binding)
        assert answer.status == 204, answer


async def _put(connection: ClientConnection, path: str, **body: object) -> None:
    answer = await connection.request("PUT", path.replace(" ", "%20"), body)
    assert answer.status in (200, 201, 204), f"{path}: {answer}"
