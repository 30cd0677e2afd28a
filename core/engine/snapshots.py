"""What the engine shows of itself, from plain counters. Values are plain, so that any protocol can send
them."""

from collections.abc import Callable, Iterator, Mapping

from core.alarms.registry import AlarmRegistry
from core.engine.arguments import queue_type
from core.engine.confirms import Confirms
from core.engine.queue import Queue
from core.engine.topology import Topology
from core.interface import Publisher, QueueTarget, Snapshot


def snapshot(
    kind: str,
    identity: str | None,
    queues: Mapping[str, Queue],
    topology: Topology,
    confirms: Confirms,
    alarms: AlarmRegistry,
) -> list[Snapshot]:
    """Everything of a kind, or what has this identity under "name"; [] for a kind that is not the
    engine's."""
    kinds: dict[str, Callable[[], Iterator[Snapshot]]] = {
        "queues": lambda: (_queue(queue, topology) for queue in queues.values()),
        "consumers": lambda: _consumers(queues),
        "publishers": lambda: (_publisher(publisher) for publisher in confirms.publishers),
        "exchanges": lambda: _exchanges(topology),
        "bindings": lambda: _bindings(topology),
        "alarms": lambda: iter(alarms.snapshot()),
        "engine": lambda: iter([_engine(queues, topology, confirms)]),
    }
    if kind not in kinds:
        return []
    return [found for found in kinds[kind]() if identity is None or found["name"] == identity]


def _engine(queues: Mapping[str, Queue], topology: Topology, confirms: Confirms) -> Snapshot:
    return {
        "name": "engine",
        "queues": len(queues),
        "exchanges": len(topology.exchanges),
        "bindings": len(topology.all_bindings()),
        "publishers": len(confirms.publishers),
        "consumers": sum(len(queue.consumers) for queue in queues.values()),
        "messages_accepted": confirms.accepted,
        "messages_released": confirms.released,
    }


def _queue(queue: Queue, topology: Topology) -> Snapshot:
    declaration = topology.queues[queue.name].declaration
    counters = queue.counters
    return {
        "name": queue.name,
        "type": queue_type(declaration.arguments),
        "durable": declaration.durable,
        "exclusive": declaration.exclusive,
        "auto_delete": declaration.auto_delete,
        "arguments": dict(declaration.arguments),
        "messages_waiting": queue.inbox.waiting,
        "messages_ready": queue.ready,
        "messages_unacknowledged": queue.unacknowledged,
        "consumers": len(queue.consumers),
        "publishers": len(queue.publishers),
        "published": counters.published,
        "delivered": counters.delivered,
        "accepted": counters.accepted,
        "rejected": counters.rejected,
        "returned": counters.returned,
        "purged": counters.purged,
    }


def _consumers(queues: Mapping[str, Queue]) -> Iterator[Snapshot]:
    for queue in queues.values():
        for consumer in queue.consumers:
            yield {
                "name": str(consumer.identity),
                "queue": queue.name,
                "priority": consumer.options.priority,
                "exclusive": consumer.options.exclusive,
                "active": consumer.active,
                "grant": consumer.grant,
                "messages_unacknowledged": consumer.unsettled.count,
                "delivered": consumer.next_number,
            }


def _publisher(publisher: Publisher) -> Snapshot:
    target = publisher.fixed_target
    shown: Snapshot = {"name": str(publisher.reference), "queue": None, "exchange": None, "routing_key": None}
    if isinstance(target, QueueTarget):
        shown["queue"] = target.queue
    elif target is not None:
        shown["exchange"] = target.exchange
        shown["routing_key"] = target.routing_key
    return shown


def _exchanges(topology: Topology) -> Iterator[Snapshot]:
    for exchange in topology.exchanges.values():
        declaration = exchange.declaration
        yield {
            "name": declaration.name,
            "type": declaration.type.value,
            "durable": declaration.durable,
            "auto_delete": declaration.auto_delete,
            "internal": declaration.internal,
            "arguments": dict(declaration.arguments),
        }


def _bindings(topology: Topology) -> Iterator[Snapshot]:
    for binding in topology.all_bindings():
        yield {
            "name": f"{binding.source}/{binding.binding_key}/{binding.destination}",
            "source": binding.source,
            "destination": binding.destination,
            "destination_is_queue": binding.destination_is_queue,
            "binding_key": binding.binding_key,
            "arguments": dict(binding.arguments),
        }
