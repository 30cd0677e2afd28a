"""All quorum queues on one command log: rebuilt from it at the start, cleaned together, saved in a snapshot at the end.

For each queue and priority level a machine applies the commands of the log. The log of a group has streams too
(:mod:`core.engine.quorum.stream_chunks`). The log does not record deliveries: after
an unclean stop every message may have been delivered before; after a clean stop the snapshot says which.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from core.engine.quorum.annotations import AnnotationCodec, PlainAnnotations
from core.engine.quorum.backing import QuorumBacking
from core.engine.quorum.batches import (
    COPY_BEGUN,
    COPY_DONE,
    BatchDamaged,
    CommandBatch,
    OrderEnd,
    decoded,
    encoded_end,
    is_of_order,
)
from core.engine.quorum.cleaning import Cleaner, carried
from core.engine.quorum.commands import Delete, QueueKey, decode, encode, is_of_stream, key_of
from core.engine.quorum.leadership import Leadership
from core.engine.quorum.machine import QuorumMachine
from core.engine.quorum.replicated_log import ReplicatedLog
from core.engine.quorum.shared_log import Role, SharedLog
from core.engine.quorum.stream_chunks import ChunkPlace, StreamChunks
from core.engine.quorum.stream_commands import AppliedStreams, read_chunk
from core.engine.ready.remains import Remains
from core.store.command_log import NOWHERE, LeaseLost, LocalCommandLog, Logged
from core.store.errors import StoreDamaged


class QuorumQueues:
    """The machines of one log, and their backings."""

    def __init__(
        self,
        log: LocalCommandLog,
        *,
        garbage_fraction: float = 0.5,
        look_bytes: int = 16 << 20,
        annotations: AnnotationCodec | None = None,
        shared: SharedLog | None = None,
    ) -> None:
        """``log``: the log of a group that this node alone has, or else its copy of the ``shared`` one.

        ``look_bytes``: how many bytes become garbage before the cleaner checks for files to remove; a quarter of a
        file.

        ``annotations``: without it, only annotations with CBOR values are kept over a restart.
        """
        self.log = log
        self.leadership_changed: Callable[[], None] = lambda: None
        """Called when this node begins to lead the group, and when it leads no more."""
        self._shared = shared
        self._commands: ReplicatedLog = shared or log
        self._annotations = annotations or PlainAnnotations()
        self._machines: dict[QueueKey, QuorumMachine] = {}
        self._backings: dict[QueueKey, QuorumBacking] = {}
        self.streams = AppliedStreams()
        """The streams of the group; none without a shared log."""
        self._lease = log.acquire_lease()
        self.leadership = Leadership(self._lease if shared is None else 0)
        """The term is the fencing token of the backings."""
        self._end = OrderEnd()
        self._end_in = 0
        """The last file of the copy with a record from which ``_end`` follows."""
        self.copying = False
        """The copy comes from another node and is not complete yet."""
        self._copied_at = 0
        """The position of the last record that came from another node."""
        self.cleaner = Cleaner(
            log,
            self._machines.values,
            fencing_token=self._lease,
            garbage_fraction=garbage_fraction,
            look_bytes=look_bytes,
            repeat=self._repeat_end,
            streams=self.streams.all.values,
        )

    # --- the start: blocks

    def recover(self) -> None:
        """Rebuild the machines from snapshot and log. A damaged copy of a log that other nodes have too is not used:
        all of it comes from one of them. Raises StoreDamaged, StoreFailure and OSError."""
        try:
            self._recover()
        except StoreDamaged as damage:
            if self._shared is None:
                raise
            self.log.problems.append(f"the group is copied from another node, because this copy is damaged: {damage}")
            self._forget_all()
            self.log.skip()
            self.copying = True
            self._shared.begin_copy()

    def _recover(self) -> None:
        snapshot = self.log.take_snapshot()
        clean = snapshot is not None
        start = None
        if snapshot is not None:
            start, parts = snapshot
            self._machines.update(QuorumMachine.restored(parts))
        for logged in self.log.read(start, follows=self._follows):
            clean = False
            self._replay(logged)
        if self._shared is not None:
            if self.copying:  # its other half may be gone from the node that it came from
                self._shared.begin_copy()
            else:
                self._shared.begin_after(self._end, synced=True)
        if not clean:
            self._flag_delivered()

    def _replay(self, logged: Logged) -> None:
        """Apply a record of the log."""
        file, offset, payload = logged
        if payload in (COPY_BEGUN, COPY_DONE):
            self.copying = payload == COPY_BEGUN
            if self.copying:
                self._forget_all()
            return
        if not is_of_order(payload):
            self._apply(payload, file, offset)
            return
        batch = decoded(payload)
        self._end, self._end_in = batch.end, file
        for at, command in batch.commands():
            self._apply(command, file, offset + at)

    def _follows(self, payload: bytes) -> bool:
        """Return whether a record of the copy follows those that were read. The oldest file may begin anywhere in the
        order, if it is not the first one; everything before it was synced when the files before it were removed."""
        if not is_of_order(payload):
            return True
        batch = decoded(payload)
        begins = not self._end_in and (self.log.oldest > 1 or self.copying)
        return begins or batch.end == self._end or batch.follows(self._end)

    def _forget_all(self) -> None:
        self._machines.clear()
        self._backings.clear()
        self.streams.all.clear()
        self._end, self._end_in = OrderEnd(), 0

    def _apply(self, payload: bytes, file: int, offset: int) -> None:
        if is_of_stream(payload):
            self.streams.apply(payload, file, offset)
            return
        key, command = decode(payload)
        self._machine(key).apply(command, file, offset)
        if isinstance(command, Delete):
            del self._machines[key]

    def _flag_delivered(self) -> None:
        """Count every message as delivered before."""
        for machine in self._machines.values():
            machine.delivered_below = machine.next_sequence

    # --- who leads

    @property
    def leads(self) -> bool:
        """Whether this node leads the group: it alone takes on and delivers messages."""
        return self.leadership.term != 0

    def may_serve(self, now: float) -> bool:
        """Return whether this node may take on and deliver messages. ``now``: monotonic seconds."""
        return self.leads and (self._shared is None or self._shared.fresh(now))

    def see_to(self) -> None:
        """Apply what the group has committed, and begin or cease to lead it."""
        shared = self._shared
        assert shared is not None, "a group that this node alone has"
        if self.copying and shared.has_read:  # the engine has everything behind what was copied
            self.copying = False
            self._append(COPY_DONE)
            shared.copy_done(self._end.number, self._copied_at)
        for batch in shared.take_committed():
            self._put(batch, shared)
        leading = shared.epoch if shared.role is Role.LEADER else 0
        if leading == self.leadership.term:
            return
        self.demote()
        if leading and not shared.unwritten and self.is_copy_written:  # what is not written cannot be read back
            self._lead(leading)

    def _put(self, batch: CommandBatch, shared: SharedLog) -> None:
        """Write a committed batch to the copy, and apply it."""
        position, file, offset = self.log.append((batch.data,), len(batch.data), self._lease, prompt=False)
        self._end, self._end_in = batch.end, file
        for at, payload in batch.commands():
            if is_of_stream(payload):
                self.cleaner.died(0, self.streams.apply(payload, file, offset + at))
                continue
            machine = self._machine(key_of(payload))
            live, live_bytes = machine.live, machine.live_bytes
            self._apply(payload, file, offset + at)
            if machine.live < live:
                self.cleaner.died(live - machine.live, live_bytes - machine.live_bytes)
        shared.noted(batch, position)

    # --- a copy of another node

    @property
    def kept_upto(self) -> int:
        """The number of the last batch that the copy has, complete or not; 0 if it has none."""
        return self._end.number

    def begin_copy(self) -> None:
        """Forget everything, for a copy of another node. What is on disk goes when the beginning of the copy is
        synced."""
        assert self._shared is not None, "a group that this node alone has"
        self.demote()
        self.cleaner.begin_again(self._lease)
        file = self.log.begin_file()
        self._append(COPY_BEGUN)
        self._forget_all()
        self.log.truncate(file)
        self.copying = True
        self._shared.begin_copy()

    def take_copied(self, payload: bytes) -> bool:
        """Append a record of another node's copy, and apply it. Returns False if it does not follow the one before."""
        if payload == COPY_DONE:
            return True
        try:
            if payload != COPY_BEGUN and not self._follows(payload):
                return False
        except BatchDamaged:
            return False
        file, offset = self._append(payload)
        self._replay(Logged(file, offset, payload))
        return True

    def copied(self) -> None:
        """Everything is copied that the other node had written: read on in the engine. If that has cut away what
        follows, ``must_copy`` of the log is true again, and the copy goes on."""
        assert self._shared is not None, "a group that this node alone has"
        self._flag_delivered()
        self._shared.begin_after(self._end, synced=False)

    @property
    def is_copy_written(self) -> bool:
        """Whether there is room for more: what was copied is written."""
        return self.log.written >= self._copied_at

    def _append(self, payload: bytes) -> tuple[int, int]:
        self._copied_at, file, offset = self.log.append((payload,), len(payload), self._lease, prompt=False)
        return file, offset

    def demote(self) -> None:
        """Lead no more: nothing is taken on or delivered, and what consumers hold is ready for the next leader."""
        if self.leads:
            self.leadership.term = 0
            self._backings.clear()
            self.leadership_changed()

    def tell_moving(self, *, moving: bool) -> None:
        """The node that leads the group has handed it over to another one, which does not lead yet; or that is over."""
        if moving != self.leadership.moving:
            self.leadership.moving = moving
            self.leadership_changed()

    def lead_again(self) -> None:
        """Lead a group that this node alone has: rebuild its machines from the log. Blocks. Everything must be
        committed. Raises StoreDamaged and OSError."""
        assert self._shared is None, "a group that other nodes have too"
        self._machines.clear()
        for logged in self.log.read_again():
            self._replay(logged)
        self._lease = self.log.acquire_lease()
        self.cleaner.begin_again(self._lease)
        self._lead(self._lease)

    def _lead(self, fencing_token: int) -> None:
        self.leadership.term = fencing_token
        self._backings.clear()
        self._flag_delivered()
        self.leadership_changed()

    def _repeat_end(self, file: int) -> None:
        """Files of the copy before this one will be removed."""
        if self._shared is not None and self._end_in < file:
            payload = encoded_end(self._shared.group, self._end)
            _, self._end_in, _ = self.log.append((payload,), len(payload), self._lease, prompt=False)

    @property
    def numbers(self) -> set[int]:
        """The numbers of the queues that have commands in the log."""
        return {key.queue for key in self._machines}

    def live(self, key: QueueKey) -> int:
        """Return how many messages a priority level of a queue has; 0 for one that the log does not know."""
        machine = self._machines.get(key)
        return 0 if machine is None else machine.live

    def commands_of(self, queue: int) -> Iterator[bytes]:
        """Yield payloads of commands that lead to the current state of a queue. Raises StoreDamaged, StoreFailure."""
        for key, machine in self._machines.items():
            if key.queue == queue:
                for block in machine.blocks:
                    if block.live:
                        _, head, bodies = carried(machine, block, self.log)
                        yield b"".join((head, *bodies))
                yield encode(key, machine.counters())

    def retain(self, queues: Collection[int]) -> None:
        """Delete the state of all queues but these, which still exist."""
        keys = list(self._machines)
        for queue in self.numbers.difference(queues):
            for key in keys:
                if key.queue == queue:
                    self.backing(*key).delete(Remains().let_go)
            self.forget(queue)
        self.cleaner.look()

    @property
    def problems(self) -> Sequence[str]:
        """Descriptions of damage that recovery found."""
        return self.log.problems

    # --- queues

    def stream(self, number: int) -> StreamChunks:
        """Return the chunks of a stream."""
        return self.streams.of(number)

    def append(self, payload: Sequence[bytes], *, prompt: bool) -> int:
        """Append a command of a stream. Returns its position, or that of
        :data:`core.store.command_log.NOWHERE` if the log refuses it, because another node leads now."""
        try:
            place = self._commands.append(payload, sum(map(len, payload)), self.leadership.term, prompt=prompt)
        except LeaseLost:
            self.demote()
            return NOWHERE.position
        assert not place.file, "the log of a group gives places when it has committed"
        return place.position

    def read_chunk(self, place: ChunkPlace) -> bytes:
        """See :func:`core.engine.quorum.stream_commands.read_chunk`."""
        return read_chunk(self.log, place)

    @property
    def committed(self) -> int:
        """All commands up to this position are committed, applied, and can be read back here."""
        return self._commands.committed

    def backing(self, queue: int, level: int = 0) -> QuorumBacking:
        """Return the one backing of a priority level of a queue."""
        key = QueueKey(queue, level)
        backing = self._backings.get(key)
        if backing is None:
            machine = self._machine(key)
            backing = QuorumBacking(
                machine,
                self._commands,
                self.cleaner,
                self._annotations,
                fencing_token=self.leadership.term,
                lost=self.demote,
            )
            self._backings[key] = backing
        return backing

    def next_sequence(self, queue: int) -> int:
        """Return a sequence number above all that the queue has ever used."""
        return max((machine.next_sequence for key, machine in self._machines.items() if key.queue == queue), default=0)

    def forget(self, queue: int) -> None:
        """Forget a deleted queue, after ``delete`` was called on its backings."""
        for key in [key for key in self._machines if key.queue == queue]:
            self._backings.pop(key, None)
            if self._shared is None:  # otherwise the deletion is applied when it is committed
                del self._machines[key]

    def _machine(self, key: QueueKey) -> QuorumMachine:
        machine = self._machines.get(key)
        if machine is None:
            machine = self._machines[key] = QuorumMachine(key)
        return machine

    # --- the end: blocks

    def put_snapshot(self) -> None:
        """Save the state for the next start. The lane must have synced everything, and no command may follow. There is
        no snapshot of a copy, whose next leader flags every message anyway."""
        self.cleaner.release()
        if self._shared is not None:
            return
        for key, backing in self._backings.items():
            machine = self._machines[key]
            machine.delivered_below = max(machine.delivered_below, backing.first_undelivered)
        self.log.put_snapshot(self._snapshot_parts())

    def _snapshot_parts(self) -> Iterator[bytes]:
        for machine in self._machines.values():
            yield from machine.snapshot()
