"""Snapshots of the engine's state, as rows of plain values that any protocol can send."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from core.alarms.registry import AlarmRegistry
from core.credit_flow.flow import CreditFlow
from core.engine.confirms import Confirms
from core.engine.enforcement import Enforcement
from core.engine.options.policies import Policies
from core.engine.queue.consumers import Attachment
from core.engine.queue.kinds import AnyQueue
from core.engine.queue.queue import Queue
from core.engine.routing.router import Router
from core.engine.routing.topology import Topology
from core.engine.totals import EngineTotals
from core.interface import Binding, ExchangeDeclaration, Publisher, QueueDeclaration, QueueTarget, Snapshot
from core.store.lane import Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshots:
    """Reads the parts of the engine."""

    queues: Mapping[str, AnyQueue]
    topology: Topology
    router: Router
    confirms: Confirms
    alarms: AlarmRegistry
    policies: Policies
    enforcement: Enforcement
    totals: EngineTotals
    store: CreditFlow | None
    """The message store's stage credit; None without storage."""
    lanes: Sequence[Lane]
    now: Callable[[], float]
    """Monotonic seconds."""
    beside: Sequence["Snapshots"]
    """Those of all virtual hosts, this one among them."""

    def take(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """Return all rows of a kind, or only those with this name; [] for an unknown kind."""
        return [one for one in self.rows(kind, identity) if identity is None or one["name"] == identity]

    def rows(self, kind: str, identity: str | None = None) -> Iterator[Snapshot]:
        """Iterate over the rows of a kind; each row is built when it is requested. The iteration uses copies of the
        lists, because other tasks may run between two rows. An object that is deleted meanwhile has no row. With
        ``identity`` only queues and exchanges are looked up by name; other kinds give all rows."""
        match kind:
            case "queues":
                return (self._queue(queue) for queue in self._queues(identity) if self._is_there(queue))
            case "lanes":
                return map(_lane, self.lanes)
            case "consumers":
                return map(_consumer, [attachment for queue in self.queues.values() for attachment in queue.consumers])
            case "consumers_with_grant":
                found = self._queues(identity)
                return ({"name": queue.name, "count": _with_grant(queue)} for queue in found)
            case "publishers":
                return map(_publisher, list(self.confirms.publishers))
            case "exchanges":
                return map(_exchange, self._exchanges(identity))
            case "bindings":
                made = self.topology.all_bindings()
                return (_binding(binding) for binding in made if self.topology.leads_somewhere(binding))
            case "policies":
                return iter(self.policies.snapshot())
            case "stages":
                return self._stages()
            case "alarms":
                return iter(self.alarms.snapshot())
            case "engine":
                return iter([self._engine()])
            case "totals":
                return iter([self._totals()])
        return iter(())

    def declared(self) -> Mapping[str, Iterator[Snapshot]]:
        """Return the rows that make up the definitions as of now, whatever is declared or deleted while the caller
        reads them."""
        queues = [definition.declaration for definition in self.topology.queues.values()]
        other = {kind: self.rows(kind) for kind in ("exchanges", "bindings", "policies")}
        return {**other, "queues": map(_declared_queue, queues)}

    def _queues(self, name: str | None) -> Iterable[AnyQueue]:
        """All queues, or the one of this name. Other rows are not built, because a row is expensive."""
        if name is None:
            return list(self.queues.values())
        return [self.queues[name]] if name in self.queues else []

    def _exchanges(self, name: str | None) -> list[ExchangeDeclaration]:
        """All exchanges, or the one of this name."""
        if name is None:
            return [exchange.declaration for exchange in self.topology.exchanges.values()]
        return [self.topology.exchanges[name].declaration] if name in self.topology.exchanges else []

    def _is_there(self, queue: AnyQueue) -> bool:
        return self.queues.get(queue.name) is queue

    def queue_figures(self, most: int | None = None) -> Iterator[Snapshot]:
        """The figures of each queue that change often and are cheap to read; of the first ``most`` queues only, if that
        is given. Iterates over a copy, because queues may be declared or deleted meanwhile."""
        for queue in list(islice(self.queues.values(), most)):
            counters, ready, now = queue.counters, queue.ready, self.now()
            yield {
                "name": queue.name,
                "messages_ready": ready,
                "messages_unacknowledged": queue.unacknowledged,
                "consumers": len(queue.consumers),
                "oldest_ready_seconds": _oldest(queue, now) if ready else None,
                "published": counters.published,
                "delivered": counters.delivered,
                "accepted": counters.accepted,
            }

    def idle_consumers(self) -> Iterator[tuple[str, bool]]:
        """For each queue that is not a stream: whether it has ready messages and consumers, but none of the consumers
        can take one."""
        for queue in list(self.queues.values()):
            if isinstance(queue, Queue):
                consumers = queue.consumers
                yield queue.name, len(consumers) > 0 and queue.ready > 0 and consumers.first_level() is None

    def _queue(self, queue: AnyQueue) -> Snapshot:
        definition = self.topology.queues[queue.name]
        declaration = definition.declaration
        reading = queue.stage_credit.reading(self.now())
        return {
            **_declared_queue(declaration),
            "queue_identity": definition.identity,  # "identity" is reserved for what tells rows apart: the name
            "type": queue.options.type.value,
            **self.enforcement.shown(declaration),
            "messages_waiting": queue.inbox.waiting,
            "stage_credit_state": reading.state.value,
            "stage_credit_held_up_by": list(reading.held_up_by),
            "messages_ready": queue.ready,
            "messages_unacknowledged": queue.unacknowledged,
            "oldest_ready_seconds": _oldest(queue, self.now()),
            "consumers": len(queue.consumers),
            "publishers": len(queue.publishers),
            "max_length": queue.options.max_length,
            "max_length_bytes": queue.options.max_length_bytes,
            "overflow": queue.options.overflow.value,
            "ready_bytes": queue.ready_bytes if isinstance(queue, Queue) else None,
            **queue.counts(),
        }

    def _stages(self) -> Iterator[Snapshot]:
        for queue in list(self.queues.values()):
            yield self._stage("queue", queue.stage_credit)
        if self.store is not None:
            yield self._stage("store", self.store)

    def _stage(self, kind: str, stage: CreditFlow) -> Snapshot:
        now = self.now()
        reading = stage.reading(now)
        return {
            "name": stage.name,
            "kind": kind,
            "state": reading.state.value,
            "held_up_by": list(reading.held_up_by),
            "blocks": stage.blocks,
            "blocked_seconds": stage.blocked_seconds(now),
        }

    def _totals(self) -> Snapshot:
        return {
            "name": "totals",
            "queues": sum(len(one.queues) for one in self.beside),
            "exchanges": sum(len(one.topology.exchanges) for one in self.beside),
            "bindings": sum(one.topology.bindings_count for one in self.beside),
            "policies": sum(one.policies.count for one in self.beside),
            "messages_repeated": self.confirms.repeated,
            "queue_blocked_seconds": self.totals.queues_without_stage_credit.seconds(self.now()),
            "store_blocked_seconds": 0.0 if self.store is None else self.store.blocked_seconds(self.now()),
            **self.totals.counts(),
        }

    def _engine(self) -> Snapshot:
        return {
            "name": "engine",
            "queues": len(self.queues),
            "exchanges": len(self.topology.exchanges),
            "bindings": self.topology.bindings_count,
            "publishers": len(self.confirms.publishers),
            "consumers": sum(len(queue.consumers) for queue in self.queues.values()),
            "cached_routes": self.router.kept,
            "messages_accepted": self.confirms.accepted,
            "messages_released": self.confirms.released,
        }


def _oldest(queue: AnyQueue, now: float) -> float | None:
    """The age of the oldest ready message in seconds. None for a stream, because it keeps messages that were read long
    ago."""
    age = queue.oldest_ready_seconds(now) if isinstance(queue, Queue) else None
    return None if age is None else round(age, 1)


def _with_grant(queue: AnyQueue) -> int:
    """How many consumers have a queue grant."""
    if isinstance(queue, Queue):
        return queue.consumers.with_grant
    return sum(attachment.grant > 0 for attachment in queue.consumers)


def _lane(lane: Lane) -> Snapshot:
    return {
        "name": lane.name,
        "staged_bytes": lane.staged_bytes,
        "records_not_written": lane.staged - lane.written,
        "records_not_synced": lane.staged - lane.synced,
        "sync_wanted": lane.sync_wanted,
        "syncs": lane.syncs,
        "sync_seconds": lane.sync_seconds,
        "last_sync_seconds": lane.last_sync_seconds,
        "last_write_seconds": lane.last_write_seconds,
        "failed": None if lane.failed is None else str(lane.failed),
    }


def _consumer(attachment: Attachment) -> Snapshot:
    return {
        "name": str(attachment.consumer.identity),
        "queue": attachment.consumer.queue_name,
        "priority": attachment.consumer.options.priority,
        "exclusive": attachment.consumer.options.exclusive,
        "active": attachment.consumer.active,
        "settled_when_sent": attachment.consumer.options.settled_when_sent,
        "unsettled_max": attachment.consumer.unsettled_max,
        "timeout_ms": None if attachment.marks is None else attachment.marks.timeout_ms,
        "grant": attachment.grant,
        "messages_unacknowledged": attachment.unsettled.count,
        "delivered": attachment.consumer.next_number,
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


def _declared_queue(declaration: QueueDeclaration) -> Snapshot:
    return {
        "name": declaration.name,
        "durable": declaration.durable,
        "exclusive": declaration.exclusive,
        "auto_delete": declaration.auto_delete,
        "arguments": dict(declaration.arguments),
    }


def _exchange(declaration: ExchangeDeclaration) -> Snapshot:
    return {
        "name": declaration.name,
        "type": declaration.type.value,
        "durable": declaration.durable,
        "auto_delete": declaration.auto_delete,
        "internal": declaration.internal,
        "arguments": dict(declaration.arguments),
    }


def _binding(binding: Binding) -> Snapshot:
    return {
        "name": f"{binding.source}/{binding.binding_key}/{binding.destination}",
        "source": binding.source,
        "destination": binding.destination,
        "destination_is_queue": binding.destination_is_queue,
        "binding_key": binding.binding_key,
        "arguments": dict(binding.arguments),
    }
