"""The engine: the verbs and the control plane of :mod:`core.interface`, over queues in memory and on disk.

The broker joins the other modules of this package: which names exist (topology), which queues a run goes to (router),
what happens inside a queue, which front ends are notified (confirms, alarms), and when messages move (pump). It decides
little itself. The verbs only queue work; messages move in ``turn``. It knows no protocols, sockets, files or the time.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf

from core.clock import Now
from core.config.settings import Settings
from core.credit_flow.flow import CreditFlow
from core.declaring import Recording
from core.engine.confirms import Submission
from core.engine.enforcement import Enforcement
from core.engine.forwarding.nodes import FarChange, Homes
from core.engine.forwarding.remote_queue import RemoteQueue
from core.engine.holders import Holders
from core.engine.machinery import Machinery
from core.engine.making import QueueMaker, check_memory_can_keep
from core.engine.operator_moves import OPERATOR as OPERATOR
from core.engine.operator_moves import OperatorMoves
from core.engine.options.arguments import queue_type
from core.engine.options.in_force import effective
from core.engine.options.policies import Policies, acting
from core.engine.publish_limits import PublishLimits
from core.engine.queue.consumers import Attachment
from core.engine.queue.courier import CourierContext
from core.engine.queue.kinds import AnyQueue
from core.engine.routing.agreement import ChangeKind
from core.engine.routing.exchanges import DEFAULT_EXCHANGE
from core.engine.routing.router import Queues, Router
from core.engine.routing.shared_names import Makes, SharedNames, once_followed
from core.engine.routing.staged import StagedQueues
from core.engine.routing.topology import RECORD_WORK, QueueDefinition, Topology
from core.engine.snapshots import Snapshots
from core.engine.storage import Storage
from core.errors import EngineError, Forbidden, Locked, NotFound, PreconditionFailed, ResourceDeleted
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
from core.link_count import LinkCount
from core.message import Return, Run
from core.slices import Walk
from core.store.definitions import Definitions
from core.virtual_hosts import VIRTUAL_HOST

VERB_WORK, REMOVAL_WORK = 40, 100
"""The cost of declaring, binding, consuming or cancelling, and of deleting a queue, in units of :mod:`core.work`."""
POLICY_WORK = 20
"""The cost of giving a queue other settings, in these."""
CONSUMERS_A_UNIT = 20
"""Reading a queue's state costs one unit for this many consumers, because their unsettled messages are added up."""
REMOVAL_RETRY_S = 1.0
"""The wait before the next try after the disk refused a removal of bindings: a full disk is not tried every turn."""
BINDING_REMOVAL_WORK = 5
"""The cost of removing one binding together with its queue or exchange, in these units."""
EXCLUSIVE_WORK = 2_000
"""The most work of one step that deletes exclusive queues of a closed connection, in these; a queue takes one step."""


class Broker:
    """``Engine`` and ``Observable`` of the interface, for one virtual host. The first one's turn moves all messages."""

    def __init__(
        self,
        settings: Settings,
        converter: Converter | None = None,
        *,
        storage: Storage | None = None,
        new_identity: Callable[[], str] | None = None,
        machinery: Machinery | None = None,
        virtual_host: str = VIRTUAL_HOST,
        homes: Homes | None = None,
    ) -> None:
        """Without ``storage`` everything is kept in memory, and only classic queues can be declared. ``new_identity``
        gives each declared queue its identity: 32 hexadecimal digits, never the same twice; see :class:`Topology`.
        ``machinery`` is that of the other virtual hosts, None for the first one. ``homes``: where queues live; None for
        a broker alone."""
        engine = settings.engine
        recorder = None if storage is None else storage.recorder
        self.virtual_host = virtual_host
        self.machinery = shared = machinery or Machinery(settings, storage, homes)
        self.alarms, self.work = shared.alarms, shared.work
        """Samplers raise and clear alarms in the former; the latter counts the work that peers cause."""
        self.drain, self.set_alarm = self.alarms.drain, self.alarms.set_by_hand
        self.clear_alarm = self.alarms.clear_by_hand
        self.connections = 0
        """Connections that use this virtual host."""
        self.links = LinkCount()
        self.beside = partial(Broker, settings, converter, new_identity=new_identity, machinery=shared)
        """Makes another virtual host over the same machinery, of ``storage`` and ``virtual_host``."""
        self._queues: dict[str, AnyQueue] = {}
        self._confirms, self._pump, self._totals = shared.confirms, shared.pump, shared.totals
        self._removal_at = -inf  # when to go on removing bindings (monotonic seconds)
        ranges_max, touch = engine.publishing_id_ranges_max, self._pump.touch
        context = CourierContext(self._confirms, converter, self._route_inside, self._submit, touch, ranges_max)
        self._maker = QueueMaker(settings, context=context, storage=storage, machinery=shared, host=virtual_host)
        self.policies = Policies(policies_max=engine.policies_max, recorder=recorder, changed=self._policies_changed)
        self._enforcement = Enforcement(self.policies, self.work)
        self.limits = PublishLimits(virtual_host, self.policies, self._queues)
        self.publish_limits, self._storage = self.limits.of, storage
        self._topology = topology = Topology(
            engine,
            recorder=recorder,
            alternate=self.policies.alternate_exchange,
            new_identity=new_identity,
            work=self.work,
            beside=shared.topologies,
            lives_elsewhere=partial(shared.homes.may_have, virtual_host),
            found_elsewhere=self._add_queue,
        )
        self._staged = StagedQueues(
            topology, recorder, self.work, self.declare_queue, self._delete_here, self._make_queue, self._end_queue
        )
        self.make_anew = partial(self._maker.make_anew, self._queues, topology, self._pump, self._confirms)
        makes = Makes(self._make_queue, self._end_queue, self.queue_info)
        self.shared = SharedNames.of(virtual_host, topology, self._staged, self.policies, recorder, makes)
        declaring = self.shared or self._staged
        self.begin_declaring, self.begin_deleting_here = declaring.declare, declaring.delete
        self._router = Router(
            self._topology, self._queues, converter=converter, kept_max=engine.cached_routes_max, work=self.work
        )
        moves = OperatorMoves(topology, self._queues, self._pump.touch, self._check_exchange, converter)
        self.peek_queue, self.move_messages, self.replay_messages = moves.peek, moves.begin, moves.begin_replay
        holders = Holders(topology, self._queues, self._pump.touch, lambda: self.machinery.now)
        self.hold, self.settle_held = holders.hold, holders.settle
        self.exchange_in_use, self.known_routes = self._topology.is_source, self._router.known_keys
        self.shown = rows = self._rows(storage)
        self.snapshot, self.rows, self.declared = rows.take, rows.rows, rows.declared
        self.queue_figures, self.idle_consumers = rows.queue_figures, rows.idle_consumers
        self.queue_sums, self.bindings = self._pump.sums.over(self._queues), self._topology.bindings
        shared.enter(self._remove_expired, rows)
        if storage is not None:
            self._restore(storage.found)

    # --- Engine ---------------------------------------------------------------------------------------------

    def subscribe(self, mailbox: Mailbox) -> frozenset[str]:
        """See :class:`core.interface.Engine`, also for the verbs below."""
        if self._confirms.traces is not None:
            mailbox.watch = self._confirms.traces.acted
        return self.alarms.subscribe(mailbox)

    def unsubscribe(self, mailbox: Mailbox, owner: object) -> bool:
        self.alarms.unsubscribe(mailbox)
        if self.shared is not None:
            self.shared.forget_owner(owner)
        until = self.work.spent + EXCLUSIVE_WORK
        for name in self._topology.queues_of(owner):
            if self.work.spent >= until:
                return True
            self._remove_queue(name)
        mailbox.take()  # breaks the reference cycle with the links
        return False

    def publisher(
        self,
        mailbox: Mailbox,
        owner: object,
        target: Target | None,
        reference: object,
        stage_credit: CreditFlow | None = None,
        *,
        told_only: bool = False,
    ) -> Publisher:
        publisher = Publisher(mailbox, owner, target, reference, stage_credit=stage_credit, told_only=told_only)
        if isinstance(target, QueueTarget):
            self._topology.check_may_publish(target.queue, owner)
            queue = self._queues[target.queue]
            queue.publishers[publisher] = None
            publisher.link_credit_max = queue.options.max_link_credit
            publisher.home = queue.home if isinstance(queue, RemoteQueue) and not told_only else None
            self._pump.touch(queue)  # if the queue is full, it tells the publisher in its next turn
        elif target is not None:
            self._check_exchange(target.exchange)
        self._confirms.enter(publisher)
        return publisher

    def retire(self, publisher: Publisher) -> None:
        self._confirms.leave(publisher)
        if self._confirms.traces is not None:
            self._confirms.traces.retired(publisher)
        if publisher.stage_credit is not None:
            publisher.stage_credit.end(self.machinery.now.monotonic)
        target = publisher.fixed_target
        if isinstance(target, QueueTarget) and target.queue in self._queues:
            (queue := self._queues[target.queue]).publishers.pop(publisher, None)
            self._pump.touch(queue)  # a remote queue detaches its link

    def publish(self, publisher: Publisher, target: Target, run: Run, now: Now) -> None:
        assert run.entries
        if self._confirms.traces is not None:
            self._confirms.traces.published(publisher, target, run, now)
        if isinstance(target, QueueTarget):
            queue = self._queues.get(target.queue)
            if queue is None:
                self._publish_elsewhere(publisher, target, run, now)
            elif run.routing_keys:
                keys = (target.queue, *run.routing_keys)
                self._publish_routed(publisher, self._router.route(DEFAULT_EXCHANGE, keys, run), now)
            else:
                queue.inbox.put(Submission(publisher, run, None), len(run.entries))
                self._pump.touch(queue)
                self._totals.routed(run.attributes, len(run.entries))
                if publisher.stage_credit is not None:
                    publisher.stage_credit.send(queue.stage_credit, len(run.entries), now.monotonic)
            return
        try:
            self._check_exchange(target.exchange)
        except EngineError as error:
            self._refuse(publisher, run, error)
        else:
            keys = (target.routing_key, *run.routing_keys)
            self._publish_routed(publisher, self._router.route(target.exchange, keys, run), now)

    def publish_by_keys(self, publisher: Publisher, exchange: str, keys: Sequence[str], run: Run, now: Now) -> None:
        self._check_exchange(exchange)
        if self._confirms.traces is not None:
            self._confirms.traces.published(publisher, exchange, run, now)
        self._publish_routed(publisher, self._router.route_by_keys(exchange, keys, run), now)

    def consume(
        self, queue: str, mailbox: Mailbox, owner: object, options: ConsumeOptions, reference: object
    ) -> Consumer:
        self.work.spent += VERB_WORK
        self._topology.queue(queue, owner)
        consumers = () if options.getter else self._queues[queue].consumers
        if consumers and (options.exclusive or next(iter(consumers)).consumer.options.exclusive):
            raise Locked(f"queue '{queue}' has a consumer already, and one of the two is to be the only one")
        consumer = Consumer(next(self.machinery.consumers), queue, mailbox, options, reference)
        self._queues[queue].attach(Attachment(consumer))
        self._pump.sums.changed[self._queues[queue]] = None
        return consumer

    def cancel(self, consumer: Consumer, *, requeue: bool = True) -> None:
        if self._confirms.traces is not None:
            self._confirms.traces.cancelled(consumer)
        queue = self._queues.get(consumer.queue_name)
        if queue is None or (attachment := queue.attachments.of(consumer)) is None:
            return
        self.work.spent += VERB_WORK
        counted = not (consumer.options.getter or attachment.detached)
        queue.cancel(attachment, requeue=requeue)
        elsewhere = isinstance(queue, RemoteQueue)  # its home counts the consumers of all nodes
        if counted and not (queue.consumers or elsewhere) and self._topology.queues[queue.name].declaration.auto_delete:
            self._remove_unasked(queue)
        else:
            self._pump.touch(queue)

    def grant(self, consumer: Consumer, n: int, drain: bool, *, asked: bool = True) -> None:
        queue = self._queues.get(consumer.queue_name)
        if queue is None or (attachment := queue.attachments.of(consumer)) is None or attachment.detached:
            return
        attachment.asked = asked
        queue.grant(attachment, n, drain)
        self._pump.touch(queue)

    def settle(self, consumer: Consumer, first: int, last: int, disposal: Disposal | Return) -> None:
        queue = self._queues.get(consumer.queue_name)
        if queue is None or (attachment := queue.attachments.of(consumer)) is None:
            return
        self._pump.sums.changed[queue] = None
        if self._confirms.traces is not None:
            self._confirms.traces.settled(consumer, first, last, disposal)
        if queue.settle(attachment, first, last, disposal):
            self._pump.touch(queue)

    def turn(self, now: Now) -> bool:
        """See :meth:`core.server.pump.Turning.turn`."""
        shared, pump = self.machinery, self._pump
        shared.now = now
        if self.alarms.unstamped or shared.residency.deadline <= now.monotonic or shared.leads_until <= now.monotonic:
            shared.see_to_alarms_and_memory(now)
        names = self._staged.waiting or self._enforcement.waiting or self._topology.going
        work_left = bool(names) and self.see_to_names(now)
        work_left |= pump.turn(now)
        if pump.expired:
            shared.remove_expired()
        return work_left

    def see_to_names(self, now: Now) -> bool:
        """Do the part of a turn that is about the names of this virtual host. Returns whether work is left."""
        staged = bool(self._staged.waiting) and self._staged.go_on()
        if self._enforcement.waiting:
            self._enforcement.go_on(self._apply_to_exchange, self._apply_to_queue)
        going = bool(self._topology.going) and self._removal_at <= now.monotonic and self._go_on_removing()
        return going or self._enforcement.waiting or staged

    @property
    def names_deadline(self) -> float:
        """When the names of this virtual host need a turn although no verb was called; infinity for never."""
        return self._removal_at if self._topology.going else inf

    def deadline(self) -> float:
        """See :meth:`core.server.pump.Turning.deadline`."""
        pump = self._pump.deadline if self._pump.due else inf
        return min(pump, self.machinery.residency.deadline, self.names_deadline)

    # --- Topology -------------------------------------------------------------------------------------------

    def declare_queue(
        self, declaration: QueueDeclaration, owner: object, *, named_by_broker: bool = False
    ) -> tuple[QueueInfo, bool]:
        """See :class:`core.interface.Engine`, also for the methods below."""
        if self._storage is None:
            check_memory_can_keep(declaration)
        if self.shared is not None:
            self.shared.agree_on_queue(declaration, owner)
        self.work.spent += VERB_WORK
        self._staged.settle(declaration.name)
        made = self._topology.admit_queue(declaration, owner, named_by_broker=named_by_broker)
        definition = self._topology.queues[declaration.name]
        if made:
            return self._make_queue(definition), True
        self._totals.queues_declared += 1
        queue = self._queues[declaration.name]
        queue.used()
        self._pump.touch(queue)  # its deadline may have changed
        return self._info(definition), self.shared is not None and self.shared.has_made(ChangeKind.QUEUE, queue.name)

    def declare_dynamic_queue(self, name: str, owner: object) -> QueueInfo:
        self.work.spent += VERB_WORK
        return self._make_queue(self._topology.admit_dynamic_queue(name, owner))

    def queue_info(self, name: str, owner: object) -> QueueInfo:
        return self._info(self._topology.queue(name, owner))

    def ready_messages(self, name: str) -> int:
        queue = self._queues.get(name)
        return 0 if queue is None else queue.ready

    def delete_queue(self, name: str, owner: object) -> int:
        if isinstance(queue := self._queues.get(name), RemoteQueue):
            raise queue.elsewhere()
        return self._delete_here(name, owner)

    def _delete_here(self, name: str, owner: object) -> int:
        self._staged.settle(name)
        if name in self._queues:
            self._topology.queue(name, owner)
        return self._remove_queue(name)

    def begin_deleting(self, name: str, owner: object) -> Recording[int]:
        queue = self._queues.get(name)
        asked = self.machinery.homes.delete(self.virtual_host, name) if queue is None else None
        if isinstance(queue, RemoteQueue):
            self._topology.queue(name, owner)
            asked = queue.change(FarChange.DELETE)
        if asked is None:
            return self.begin_deleting_here(name, owner)
        return once_followed(asked, self.machinery.order, self._topology, name)

    def purge_queue(self, name: str, owner: object) -> Walk[int]:
        self._topology.queue(name, owner)
        self._pump.touch(queue := self._queues[name])  # the queue has room now
        return queue.purge(self._pump.remains.let_go)

    def declare_exchange(self, declaration: ExchangeDeclaration) -> bool:
        self.work.spent += VERB_WORK
        if self.shared is not None:
            self.shared.check_answered(ChangeKind.EXCHANGE, declaration.name, declaration)
        made, shared = self._topology.admit_exchange(declaration), self.shared
        return made or (shared is not None and shared.has_made(ChangeKind.EXCHANGE, declaration.name))

    def delete_exchange(self, name: str) -> None:
        if self.shared is not None:
            self.shared.agree_on_removal(name)
        removed = self._topology.delete_exchange(name)
        self.work.spent += VERB_WORK + BINDING_REMOVAL_WORK * removed

    def exchange_info(self, name: str) -> ExchangeDeclaration:
        return self._topology.exchange(name).declaration

    def bind(self, binding: Binding, owner: object) -> None:
        self.work.spent += VERB_WORK + len(binding.arguments)
        if self.shared is not None:
            self.shared.check_answered(ChangeKind.BINDING, "", binding)
        if binding.destination_is_queue:
            self._staged.settle(binding.destination)
        self._topology.bind(binding, owner)

    def unbind(self, binding: Binding, owner: object) -> None:
        if self.shared is not None:
            self.shared.agree_on_unbinding(binding, owner)
        removed = self._topology.unbind(binding, owner)
        self.work.spent += VERB_WORK + len(binding.arguments) + BINDING_REMOVAL_WORK * removed

    def explain_policies(self, queue: str) -> Snapshot:
        """Explain which policy applies to a queue, why others do not, and what each key does. Raises NotFound."""
        if (definition := self._topology.queues.get(queue)) is None:
            raise NotFound(f"there is no queue '{queue}'")
        return self.policies.explain(definition.declaration, group_size=definition.group_size).shown()

    # --- the process ----------------------------------------------------------------------------------------

    def memory_sampled(self, used: int, limit: int, now: Now) -> None:
        """Note that ``used`` bytes of memory are in use. The watermark is at ``limit`` bytes; at 0 any use is above it.

        The call also advances the broker's time, so that snapshots show the right durations while nothing else happens.
        """
        self.machinery.memory_sampled(used, limit, now)

    @property
    def paging(self) -> bool:
        """Whether queues have to move messages to disk to save memory."""
        return self.machinery.residency.duration_target < inf

    def conclude(self) -> None:
        """The broker shuts down cleanly, without connections left: write what the next start needs."""
        for queue in self._queues.values():
            queue.conclude()

    # --- what is shown, and what an operator does -----------------------------------------------------------

    @property
    def unsettled(self) -> int:
        """How many messages consumers hold unsettled, over all queues."""
        return sum(queue.unacknowledged for queue in self._queues.values())

    def set_stage_budget(self, queue: str, messages_per_turn: int | None) -> None:
        """For tests: limit the messages that a queue takes on per turn. None removes the limit. Raises NotFound."""
        if queue not in self._queues:
            raise NotFound(f"there is no queue '{queue}'")
        self._queues[queue].inbox.messages_per_turn = messages_per_turn
        self._pump.touch(self._queues[queue])

    # --- inside ---------------------------------------------------------------------------------------------

    def _rows(self, storage: Storage | None) -> Snapshots:
        return self.machinery.snapshots(
            storage,
            queues=self._queues,
            topology=self._topology,
            router=self._router,
            policies=self.policies,
            enforcement=self._enforcement,
        )

    def _publish_routed(self, publisher: Publisher, routed: Iterable[tuple[Run, Queues]], now: Now) -> None:
        for part, queues in routed:
            self._submit(publisher, part, queues)
            if queues:
                self._totals.routed(part.attributes, len(part.entries))
            if publisher.stage_credit is not None:
                for queue in queues:
                    publisher.stage_credit.send(queue.stage_credit, len(part.entries), now.monotonic)

    def _submit(self, publisher: Publisher, run: Run, queues: Queues) -> None:
        if not queues:
            self._confirms.release(publisher, run.first, run.first + len(run.entries) - 1)
            return
        submission = Submission.to(queues, publisher, run)
        self.work.spent += 2 * len(queues)
        for queue in queues:
            queue.inbox.put(submission, len(run.entries))
        self._pump.touch_all(queues)

    def _route_inside(self, exchange: str, keys: tuple[str, ...], run: Run) -> Iterable[tuple[Run, Queues]]:
        """Route for couriers: an exchange that does not exist routes to no queue."""
        if exchange != DEFAULT_EXCHANGE and exchange not in self._topology.exchanges:
            return [(run, ())]
        return self._router.route(exchange, keys, run)

    def _publish_elsewhere(self, publisher: Publisher, target: QueueTarget, run: Run, now: Now) -> None:
        try:
            self._topology.sought(target.queue)
        except EngineError as error:
            self._refuse(publisher, run, error)
        else:
            self.publish(publisher, target, run, now)

    def _refuse(self, publisher: Publisher, run: Run, error: EngineError) -> None:
        """The target does not exist: close a publisher whose fixed target was deleted; otherwise raise ``error``."""
        if publisher.fixed_target is None:
            try:
                raise error
            finally:
                del error  # breaks the reference cycle of the error and this frame
        self._confirms.release(publisher, run.first, run.first + len(run.entries) - 1)
        self._confirms.close(publisher, error)

    def _check_exchange(self, name: str) -> None:
        if name != DEFAULT_EXCHANGE and self._topology.exchange(name).declaration.internal:
            raise Forbidden(f"exchange '{name}' is internal: messages reach it through other exchanges only")

    def _add_queue(self, definition: QueueDefinition) -> None:
        declaration = definition.declaration
        options = effective(declaration, acting(declaration, self._enforcement.enter(declaration)))
        queue = self._queues[declaration.name] = self._maker.make(definition, options, self.machinery.now.monotonic)
        self._pump.touch(queue)

    def _make_queue(self, definition: QueueDefinition) -> QueueInfo:
        """Make a queue that has been declared."""
        self._totals.queues_declared += 1
        self._totals.queues_created += 1
        self._add_queue(definition)
        return self._info(definition)

    def _end_queue(self, name: str) -> int:
        """End a queue that has been deleted. Returns how many ready messages it had."""
        queue = self._queues.pop(name)
        self._enforcement.leave(name)
        ready = queue.ready
        self._pump.forget(queue)
        queue.dissolve(self._confirms, ResourceDeleted(f"queue '{name}' was deleted"), self._pump.remains.let_go)
        self._totals.queues_deleted += 1
        queue.stage_credit.end(self.machinery.now.monotonic)
        self._maker.forget(queue)
        return ready

    def _remove_queue(self, name: str) -> int:
        self._staged.settle(name)
        if name not in self._queues or (self.shared is not None and self.shared.delete_with_all(name)):
            return 0
        removed = self._topology.forget_queue(name)
        self.work.spent += REMOVAL_WORK + BINDING_REMOVAL_WORK * removed
        return self._end_queue(name)

    def _go_on_removing(self) -> bool:
        """Remove some bindings whose queue or exchange is gone. Returns True when there are more to remove now."""
        try:
            removed = self._topology.go_on_removing()
            self.work.spent += BINDING_REMOVAL_WORK * removed
        except PreconditionFailed:
            self._removal_at = self.machinery.now.monotonic + REMOVAL_RETRY_S
            return False
        return bool(self._topology.going)

    def _remove_expired(self, queue: AnyQueue) -> bool:
        if self._queues.get(queue.name) is not queue:
            return False
        self._remove_unasked(queue)
        return True

    def _remove_unasked(self, queue: AnyQueue) -> None:
        """Delete a queue that expired or is auto-deleted. It stays if the disk refuses the record of its deletion."""
        try:
            self._remove_queue(queue.name)
        except PreconditionFailed:
            self._pump.touch(queue)

    def _restore(self, found: Definitions) -> None:
        """Restore policies, exchanges, queues and bindings from before the start, with the messages that were kept."""
        self.policies.restore(found.policies)
        self._topology.restore(found)
        for definition in self._topology.queues.values():
            self._add_queue(definition)

    def _policies_changed(self, name: str) -> None:
        """Apply the changed policy to some queues and exchanges now, and to the others in the following turns."""
        self.work.spent += RECORD_WORK
        self._enforcement.begin(name, self._queues, self._topology.exchanges)
        self._enforcement.go_on(self._apply_to_exchange, self._apply_to_queue)

    def _apply_to_exchange(self, name: str) -> None:
        self._topology.refresh_alternate(name)
        self.limits.renew(name, is_queue=False)

    def _apply_to_queue(self, name: str) -> None:
        if name not in self._queues:
            return
        queue, declaration = self._queues[name], self._topology.queues[name].declaration
        winner, is_another = self._enforcement.renew(declaration)
        if not is_another:
            return
        self.work.spent += POLICY_WORK
        options = effective(declaration, acting(declaration, winner))
        if options != queue.options:
            self.work.spent += len(queue.consumers) + len(queue.publishers)
            queue.apply(options, self.machinery.now)
            self.limits.renew(queue.name, is_queue=True)
            self._pump.touch(queue)

    def _info(self, definition: QueueDefinition) -> QueueInfo:
        queue = self._queues[definition.declaration.name]
        self.work.spent += len(queue.consumers) // CONSUMERS_A_UNIT
        return QueueInfo(
            declaration=definition.declaration,
            type=queue_type(definition.declaration.arguments),
            ready=queue.ready,
            unacknowledged=queue.unacknowledged,
            consumers=len(queue.consumers),
            identity=definition.identity,
            home=queue.home if isinstance(queue, RemoteQueue) else None,
        )
