"""The engine: the verbs and the control plane of :mod:`core.interface`, over queues in memory.

The broker joins what the other modules of this room know: which names exist (topology), which queues a run
goes to (router), what happens inside a queue, who is told (confirms, alarms), and when messages move (pump).
It decides little itself. Verbs only leave work behind; messages move in ``turn``.

It must not know protocols, sockets, files or the time.
"""

from collections.abc import Sequence
from math import inf

from core.alarms.registry import BY_HAND, AlarmRegistry
from core.clock import Now
from core.engine.arguments import queue_type
from core.engine.backing import MemoryBacking
from core.engine.confirms import Confirms, Submission
from core.engine.consumers import Attachment
from core.engine.options import effective
from core.engine.pump import Pump
from core.engine.queue import Queue
from core.engine.router import Queues, Router
from core.engine.routing import DEFAULT_EXCHANGE
from core.engine.settings import EngineSettings as EngineSettings
from core.engine.snapshots import Snapshots
from core.engine.topology import QueueDefinition, Topology
from core.errors import EngineError, Forbidden, Locked, NotFound, ResourceDeleted
from core.interface import (
    Binding,
    ConsumeOptions,
    Consumer,
    Converter,
    Disposal,
    ExchangeDeclaration,
    Mailbox,
    Publisher,
    QueueDeclaration,
    QueueInfo,
    QueueTarget,
    Snapshot,
    Target,
)
from core.message import Return, Route, Run


class Broker:
    """``Engine``, ``Topology``, ``Observable`` and ``Control`` of the interface, for one virtual host."""

    def __init__(self, settings: EngineSettings, converter: Converter | None = None) -> None:
        self._settings = settings
        self._queues: dict[str, Queue] = {}
        self._confirms = Confirms()
        self._pump = Pump(self._confirms)
        self._alarms = AlarmRegistry()
        self._topology = Topology(settings)
        self._router = Router(self._topology, self._queues, converter=converter, kept_max=settings.cached_routes_max)
        self._snapshots = Snapshots(
            queues=self._queues,
            topology=self._topology,
            router=self._router,
            confirms=self._confirms,
            alarms=self._alarms,
        )
        self._next_consumer = 0

    # --- Engine ---------------------------------------------------------------------------------------------

    def subscribe(self, mailbox: Mailbox) -> frozenset[str]:
        """See :class:`core.interface.Engine`, also for the verbs below."""
        return self._alarms.subscribe(mailbox)

    def unsubscribe(self, mailbox: Mailbox, owner: object) -> None:
        self._alarms.unsubscribe(mailbox)
        for name in self._topology.queues_of(owner):
            self._remove_queue(name)

    def publisher(self, mailbox: Mailbox, owner: object, target: Target | None, reference: object) -> Publisher:
        publisher = Publisher(mailbox, owner, target, reference)
        if isinstance(target, QueueTarget):
            self._topology.check_may_publish(target.queue, owner)
            self._queues[target.queue].publishers[publisher] = None
        elif target is not None:
            self._check_exchange(target.exchange)
        self._confirms.enter(publisher)
        return publisher

    def retire(self, publisher: Publisher) -> None:
        self._confirms.leave(publisher)
        target = publisher.fixed_target
        if isinstance(target, QueueTarget) and target.queue in self._queues:
            self._queues[target.queue].publishers.pop(publisher, None)

    def publish(self, publisher: Publisher, target: Target, run: Run, now: Now) -> None:
        assert run.entries
        if isinstance(target, QueueTarget):
            queue = self._queues.get(target.queue)
            if queue is None:
                self._refuse(publisher, run, NotFound(f"there is no queue '{target.queue}'"))
            elif run.routing_keys:
                self._publish_routed(publisher, DEFAULT_EXCHANGE, target.queue, run)
            else:
                queue.inbox.put(Submission(publisher, run, None), len(run.entries))
                self._pump.touch(queue)
            return
        try:
            self._check_exchange(target.exchange)
        except EngineError as error:
            self._refuse(publisher, run, error)
        else:
            self._publish_routed(publisher, target.exchange, target.routing_key, run)

    def consume(
        self, queue: str, mailbox: Mailbox, owner: object, options: ConsumeOptions, reference: object
    ) -> Consumer:
        self._topology.queue(queue, owner)
        consumers = self._queues[queue].consumers
        if consumers and (options.exclusive or any(other.options.exclusive for other in consumers)):
            raise Locked(f"queue '{queue}' has a consumer already, and one of the two is to be the only one")
        consumer = Attachment(self._next_consumer, queue, mailbox, options, reference)
        self._next_consumer += 1
        consumers.attach(consumer)
        return consumer

    def cancel(self, consumer: Consumer) -> None:
        assert isinstance(consumer, Attachment)
        if consumer.detached:
            return
        queue = self._queues[consumer.queue_name]
        queue.cancel(consumer)
        if not queue.consumers and self._topology.queues[queue.name].declaration.auto_delete:
            self._remove_queue(queue.name)
        else:
            self._pump.touch(queue)

    def grant(self, consumer: Consumer, n: int, drain: bool) -> None:
        assert isinstance(consumer, Attachment)
        if consumer.detached:
            return
        queue = self._queues[consumer.queue_name]
        queue.grant(consumer, n, drain)
        self._pump.touch(queue)

    def settle(self, consumer: Consumer, first: int, last: int, disposal: Disposal | Return) -> None:
        assert isinstance(consumer, Attachment)
        if consumer.detached:
            return
        queue = self._queues[consumer.queue_name]
        if queue.settle(consumer, first, last, disposal):
            self._pump.touch(queue)

    def turn(self, now: Now) -> bool:
        self._alarms.stamp(now)
        return self._pump.turn(now)

    @property
    def deadline(self) -> float:
        return inf

    # --- Topology -------------------------------------------------------------------------------------------

    def declare_queue(self, declaration: QueueDeclaration, owner: object) -> tuple[QueueInfo, bool]:
        """See :class:`core.interface.Topology`, also for the methods below."""
        made = self._topology.admit_queue(declaration, owner)
        if made:
            self._add_queue(declaration)
        return self._info(self._topology.queues[declaration.name]), made

    def declare_dynamic_queue(self, name: str, owner: object) -> QueueInfo:
        definition = self._topology.admit_dynamic_queue(name, owner)
        self._add_queue(definition.declaration)
        return self._info(definition)

    def queue_info(self, name: str, owner: object) -> QueueInfo:
        return self._info(self._topology.queue(name, owner))

    def delete_queue(self, name: str, owner: object) -> int:
        if name not in self._queues:
            return 0
        self._topology.queue(name, owner)
        return self._remove_queue(name)

    def purge_queue(self, name: str, owner: object) -> int:
        self._topology.queue(name, owner)
        return self._queues[name].purge()

    def declare_exchange(self, declaration: ExchangeDeclaration) -> bool:
        return self._topology.admit_exchange(declaration)

    def delete_exchange(self, name: str) -> None:
        self._topology.delete_exchange(name)

    def bind(self, binding: Binding, owner: object) -> None:
        self._topology.bind(binding, owner)

    def unbind(self, binding: Binding, owner: object) -> None:
        self._topology.unbind(binding, owner)

    def bindings(self, source: str, destination: str, destination_is_queue: bool) -> Sequence[Binding]:
        return self._topology.bindings(source, destination, destination_is_queue)

    # --- Observable, Control --------------------------------------------------------------------------------

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """Queues, consumers, publishers, exchanges, bindings, alarms and the engine; [] for other kinds."""
        return self._snapshots.take(kind, identity)

    def set_alarm(self, name: str) -> None:
        """See :class:`core.interface.Control`."""
        self._alarms.set(name, BY_HAND)

    def clear_alarm(self, name: str) -> None:
        """See :class:`core.interface.Control`."""
        self._alarms.clear(name, BY_HAND)

    def set_stage_budget(self, queue: str, messages_per_turn: int | None) -> None:
        """Slow a queue's stage down, or stop it with 0: for tests and benchmarks. None lifts the limit.

        Raises NotFound.
        """
        if queue not in self._queues:
            raise NotFound(f"there is no queue '{queue}'")
        self._queues[queue].inbox.messages_per_turn = messages_per_turn
        self._pump.touch(self._queues[queue])

    # --- inside ---------------------------------------------------------------------------------------------

    def _publish_routed(self, publisher: Publisher, exchange: str, key: str, run: Run) -> None:
        keys = (key, *run.routing_keys)
        route = Route(exchange, keys)
        for part, queues in self._router.route(exchange, keys, run):
            self._submit(publisher, part, queues, route)

    def _submit(self, publisher: Publisher, run: Run, queues: Queues, route: Route) -> None:
        if not queues:
            self._confirms.release(publisher, run.first, run.first + len(run.entries) - 1)
            return
        submission = Submission.to(queues, publisher, run, route)
        for queue in queues:
            queue.inbox.put(submission, len(run.entries))
            self._pump.touch(queue)

    def _refuse(self, publisher: Publisher, run: Run, error: EngineError) -> None:
        """The target is not there: the publisher's own one was deleted, or the run named a wrong one."""
        if publisher.fixed_target is None:
            raise error
        self._confirms.release(publisher, run.first, run.first + len(run.entries) - 1)
        self._confirms.close(publisher, error)

    def _check_exchange(self, name: str) -> None:
        if name != DEFAULT_EXCHANGE and self._topology.exchange(name).declaration.internal:
            raise Forbidden(f"exchange '{name}' is internal: messages reach it through other exchanges only")

    def _add_queue(self, declaration: QueueDeclaration) -> None:
        self._queues[declaration.name] = Queue(
            declaration.name,
            effective(declaration, {}),
            MemoryBacking(),
            messages_per_turn=self._settings.queue_messages_per_turn,
        )

    def _remove_queue(self, name: str) -> int:
        queue = self._queues.pop(name)
        ready = queue.ready
        self._topology.forget_queue(name)
        self._pump.forget(queue)
        queue.dissolve(self._confirms, ResourceDeleted(f"queue '{name}' was deleted"))
        return ready

    def _info(self, definition: QueueDefinition) -> QueueInfo:
        declaration = definition.declaration
        queue = self._queues[declaration.name]
        return QueueInfo(
            declaration=declaration,
            type=queue_type(declaration.arguments),
            ready=queue.ready,
            unacknowledged=queue.unacknowledged,
            consumers=len(queue.consumers),
        )
