"""Makes queues: chooses their kind, their backing and their lane, and what a publisher's confirm waits for.

=======  ==========================  ================================================
type     kept by                     a durable message is confirmed when it is
=======  ==========================  ================================================
classic  queue index, message store  written; with ``x-sync: always`` synced
quorum   command log                 synced
stream   stream log                  written; with ``x-sync: always`` synced
=======  ==========================  ================================================

In a cluster, quorum queues and streams are kept by the log of a group, and a message is confirmed when it is committed
there.

A queue that outlives the broker is stored under its number in the definitions. Any other queue is stored under a number
that is valid until the next start. Without storage there are only classic queues, which are kept in memory.
"""

from collections.abc import Callable, MutableMapping

from core.config.settings import Settings
from core.credit_flow.flow import CreditFlow, StageCreditSpec
from core.engine.classic.variable_queue import VariableQueue
from core.engine.confirms import Confirms
from core.engine.forwarding.remote_queue import RemoteQueue
from core.engine.machinery import Lanes, Machinery
from core.engine.options.arguments import queue_type
from core.engine.options.in_force import QueueOptions, QueueType
from core.engine.queue.courier import CourierContext
from core.engine.queue.kinds import AnyQueue
from core.engine.queue.pump import PositionWaiter, QueueTurns
from core.engine.queue.queue import Queue
from core.engine.queue.store_stage import ToStore
from core.engine.quorum.group_numbers import home_in
from core.engine.quorum.leadership import Leadership
from core.engine.quorum.queues import QuorumQueues
from core.engine.ready.backing import Backing, MemoryBacking
from core.engine.ready.waits import Waits
from core.engine.routing.shared_names import is_shared
from core.engine.routing.topology import QueueDefinition, Topology
from core.engine.storage import Storage
from core.engine.stream.chunk_log import ChunkLog
from core.engine.stream.group_stream import GroupStream
from core.engine.stream.stream_queue import SEGMENT_BYTES_DEFAULT, StreamQueue
from core.errors import EngineError, PreconditionFailed
from core.interface import QueueDeclaration
from core.store.descriptions import FOLDERS_OF_KINDS
from core.store.store import PASSING
from core.store.stream_log import StreamLog

STREAMS_FOLDER = "streams"


def check_memory_can_keep(declaration: QueueDeclaration) -> None:
    """Check a declaration for a broker without storage. Raises PreconditionFailed for a type that needs a data
    folder."""
    kind = queue_type(declaration.arguments)
    if kind in (QueueType.QUORUM.value, QueueType.STREAM.value):
        raise PreconditionFailed(
            f"queue '{declaration.name}': a queue of type {kind} needs a data folder, and this broker has none"
        )


class QueueMaker:
    """Makes the queues of one virtual host, and removes their storage when they are deleted."""

    def __init__(
        self,
        settings: Settings,
        *,
        context: CourierContext,
        storage: Storage | None,
        machinery: Machinery,
        host: str,
    ) -> None:
        """``host`` is the name of the virtual host."""
        self._virtual_host = host
        self._homes = machinery.homes
        self._residents_of: dict[AnyQueue, list[VariableQueue]] = {}
        self._messages_per_turn = settings.engine.stage_messages_per_turn.queue
        self._spec = StageCreditSpec(settings.stage_credit.initial, settings.stage_credit.more_after)
        self._context = context
        self._residency, self._residents = machinery.residency, machinery.residents
        self._storage = storage
        self._lanes = machinery.lanes
        self._store_stage = machinery.store_stage
        self._without_stage_credit = machinery.totals.queues_without_stage_credit
        self._passing = machinery.passing
        self._kept_as: dict[AnyQueue, str] = {}
        self._quorum_of: dict[AnyQueue, tuple[QuorumQueues, int]] = {}
        """For each quorum queue the log that has it, and its number there."""

    def make(self, definition: QueueDefinition, options: QueueOptions, now: float) -> AnyQueue:
        """Make the queue of a definition, with the messages that the store keeps for it. ``now``: monotonic seconds."""
        name = definition.declaration.name
        exclusive, said = definition.declaration.exclusive, home_in(definition.identity)
        home = self._homes.of_new(self._virtual_host, name, exclusive=exclusive, said=said)
        if home is not None:
            remote = RemoteQueue(
                name,
                options,
                home,
                virtual_host=self._virtual_host,
                touch=self._context.touch,
                messages_per_turn=self._messages_per_turn,
                stage_credit=self._stage_credit(name),
                passing=self._homes.passing is not None and self._homes.passing(name),
            )
            if definition.id is not None:
                self._kept_as[remote] = str(definition.id)
            return remote
        if self._storage is None or self._lanes is None:
            return self._queue(name, options, lambda level: MemoryBacking())
        match options.type:
            case QueueType.STREAM:
                return self._stream(name, definition, options, self._storage, self._lanes)
            case QueueType.QUORUM:
                return self._quorum(name, definition, options, self._storage, self._lanes)
            case _:
                return self._classic(name, definition, options, self._storage, self._lanes, now)

    def make_anew(
        self,
        queues: MutableMapping[str, AnyQueue],
        topology: Topology,
        pump: QueueTurns,
        confirms: Confirms,
        name: str,
        error: EngineError,
        now: float,
    ) -> bool:
        """Make a quorum queue or a stream anew, because another node leads it now, or a queue of another node to which
        there is another way now. What is attached to the old one is detached with an error, and finds the new one when
        it is attached again. Returns False if that is not possible yet: the queue has still to learn that it is led
        here no more, or to answer what it has taken on."""
        queue = queues[name]
        if isinstance(queue, Queue) and (queue.led is None or not queue.led.over):
            return False
        if isinstance(queue, StreamQueue) and not queue.over:
            return False
        queue.dissolve(confirms, error, pump.remains.let_go, moved=True)
        pump.forget(queue)
        queue.stage_credit.end(now)
        self._kept_as.pop(queue, None)
        self._quorum_of.pop(queue, None)
        made = queues[name] = self.make(topology.queues[name], queue.options, now)
        topology.version += 1  # routes name the queue
        pump.touch(made)
        return True

    def forget(self, queue: AnyQueue) -> None:
        """Remove the storage of a deleted queue, after ``dissolve`` was called on it."""
        kept_as = self._kept_as.pop(queue, None)
        if self._storage is None or kept_as is None:
            return
        if not kept_as.startswith(PASSING):
            self._storage.forgotten(int(kept_as))
        for resident in self._residents_of.pop(queue, ()):
            del self._residents[resident]
            self._residency.remove(resident)
        match queue.options.type:
            case QueueType.CLASSIC:
                self._storage.store.forget_queue(kept_as)
            case QueueType.QUORUM:
                if (led := self._quorum_of.pop(queue, None)) is not None:
                    led[0].forget(led[1])
                self._storage.store.quorum.remove_folder(f"{FOLDERS_OF_KINDS['quorum']}/{kept_as}")
            case QueueType.STREAM if self._storage.groups is not None:
                self._storage.store.streams.remove_folder(f"{STREAMS_FOLDER}/{kept_as}")  # it has a description

    def _stage_credit(self, name: str) -> CreditFlow:
        """What a queue has of publishers that use stage credit, and of the store."""
        return CreditFlow(name, self._spec, blocked_time=self._without_stage_credit)

    def _queue(
        self,
        name: str,
        options: QueueOptions,
        backings: Callable[[int], Backing],
        *,
        written: Waits[PositionWaiter] | None = None,
        synced: Waits[PositionWaiter] | None = None,
        first_sequence: Callable[[], int] = lambda: 0,
        to_store: ToStore | None = None,
        leadership: Leadership | None = None,
    ) -> Queue:
        return Queue(
            name,
            options,
            backings,
            written=written,
            synced=synced,
            context=self._context,
            messages_per_turn=self._messages_per_turn,
            first_sequence=first_sequence,
            stage_credit=self._stage_credit(name),
            to_store=to_store,
            leadership=leadership,
        )

    def _classic(
        self,
        name: str,
        definition: QueueDefinition,
        options: QueueOptions,
        storage: Storage,
        lanes: Lanes,
        now: float,
    ) -> Queue:
        kept_as = str(definition.id) if definition.id is not None else f"{PASSING}{next(self._passing)}"
        backings: list[VariableQueue] = []
        first_sequence = 0
        to_store = None if self._store_stage is None else ToStore(self._store_stage)

        def backing(level: int) -> Backing:
            nonlocal first_sequence
            index = storage.store.queue_index(kept_as, level)
            first_sequence = max(first_sequence, index.next_sequence_floor)
            if to_store is not None:
                index.kept = to_store.kept
            backings.append(VariableQueue(index, durable=options.durable, lazy=options.lazy, now=now))
            return backings[-1]

        levels = [backing(level) for level in range(options.levels)]
        queue = self._queue(
            name,
            options,
            levels.__getitem__,
            written=lanes.classic_written,
            synced=lanes.classic_synced,
            first_sequence=lambda: first_sequence,
            to_store=to_store,
        )
        self._kept_as[queue] = kept_as
        self._residents_of[queue] = backings
        for resident in backings:
            self._residents[resident] = queue
            self._residency.add(resident, now)
        return queue

    def _quorum(
        self, name: str, definition: QueueDefinition, options: QueueOptions, storage: Storage, lanes: Lanes
    ) -> Queue:
        assert definition.id is not None, "a quorum queue outlives the broker"
        queues, number, committed = storage.quorum, definition.id, lanes.quorum_synced
        if storage.groups is not None:
            group, number = storage.groups.of(definition.identity)
            queues, committed = group.queues, lanes.of_groups[group.number]
        leadership = queues.leadership
        queue = self._queue(
            name,
            options,
            lambda level: queues.backing(number, level) if leadership.term else MemoryBacking(),
            synced=committed,
            first_sequence=lambda: queues.next_sequence(number),
            leadership=leadership,
        )
        self._kept_as[queue] = str(definition.id)
        self._quorum_of[queue] = queues, number
        return queue

    def _stream(
        self, name: str, definition: QueueDefinition, options: QueueOptions, storage: Storage, lanes: Lanes
    ) -> StreamQueue:
        assert definition.id is not None, "a stream outlives the broker"
        store = storage.store
        folder = f"{STREAMS_FOLDER}/{definition.id}"
        segment_bytes = options.stream_segment_bytes or SEGMENT_BYTES_DEFAULT
        if storage.groups is not None and is_shared(definition.declaration):
            group, number = storage.groups.of(definition.identity)
            of_group = GroupStream(
                group.queues, number, segment_bytes=segment_bytes, cache=storage.stream_cache, key=folder
            )
            return self._stream_queue(name, definition, options, of_group, None, lanes.of_groups[group.number])
        log = StreamLog(
            store.disk,
            store.streams,
            folder,
            segment_bytes=segment_bytes,
            cache=storage.stream_cache,
            damaged=storage.stream_damaged,
        )
        if definition.id in storage.streams_found:
            log.recover(intact=store.report.clean)
            storage.check_stream(log)
        return self._stream_queue(name, definition, options, log, lanes.streams_written, lanes.streams_synced)

    def _stream_queue(
        self,
        name: str,
        definition: QueueDefinition,
        options: QueueOptions,
        log: ChunkLog,
        written: Waits[PositionWaiter] | None,
        synced: Waits[PositionWaiter],
    ) -> StreamQueue:
        converter = self._context.converter
        queue = StreamQueue(
            name,
            options,
            log,
            written=written,
            synced=synced,
            filter_values=(lambda entries, origin: None) if converter is None else converter.filter_values,
            messages_per_turn=self._messages_per_turn,
            stage_credit=self._stage_credit(name),
        )
        self._kept_as[queue] = str(definition.id)
        return queue
