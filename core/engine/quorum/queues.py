"""All quorum queues on one command log: rebuilt from it at the start, cleaned together, saved in a snapshot at the end.

For each queue and priority level a machine applies the commands of the log. The log does not record deliveries: after
an unclean stop every message may have been delivered before; after a clean stop the snapshot says which.
"""

from collections.abc import Collection, Iterator, Sequence

from core.engine.quorum.annotations import AnnotationCodec, PlainAnnotations
from core.engine.quorum.backing import QuorumBacking
from core.engine.quorum.cleaning import Cleaner, carried
from core.engine.quorum.commands import CountersRecord, Delete, QueueKey, decode, encode
from core.engine.quorum.machine import QuorumMachine
from core.engine.ready.remains import Remains
from core.store.command_log import LocalCommandLog


class QuorumQueues:
    """The machines of one log, and their backings."""

    def __init__(
        self,
        log: LocalCommandLog,
        *,
        garbage_fraction: float = 0.5,
        look_bytes: int = 16 << 20,
        annotations: AnnotationCodec | None = None,
    ) -> None:
        """``look_bytes``: how many bytes become garbage before the cleaner checks for files to remove; a quarter of a
        file.

        ``annotations``: without it, only annotations with CBOR values are kept over a restart.
        """
        self.log = log
        self._annotations = annotations or PlainAnnotations()
        self._machines: dict[QueueKey, QuorumMachine] = {}
        self._backings: dict[QueueKey, QuorumBacking] = {}
        self._fencing_token = log.acquire_lease()
        self.cleaner = Cleaner(
            log,
            self._machines.values,
            fencing_token=self._fencing_token,
            garbage_fraction=garbage_fraction,
            look_bytes=look_bytes,
        )

    # --- the start: blocks

    def recover(self) -> None:
        """Rebuild the machines from snapshot and log. Raises StoreDamaged, StoreFailure and OSError."""
        snapshot = self.log.take_snapshot()
        clean = snapshot is not None
        start = None
        if snapshot is not None:
            start, parts = snapshot
            self._machines.update(QuorumMachine.restored(parts))
        for file, offset, payload in self.log.read(start):
            clean = False
            key, command = decode(payload)
            if isinstance(command, Delete):
                self._machines.pop(key, None)
            else:
                self._machine(key).apply(command, file, offset)
        if not clean:
            for machine in self._machines.values():
                machine.delivered_below = machine.next_sequence

    @property
    def numbers(self) -> set[int]:
        """The numbers of the queues that have commands in the log."""
        return {key.queue for key in self._machines}

    def commands_of(self, queue: int) -> Iterator[bytes]:
        """Yield payloads of commands that lead to the current state of a queue. Raises StoreDamaged, StoreFailure."""
        for key, machine in self._machines.items():
            if key.queue == queue:
                for block in machine.blocks:
                    if block.live:
                        _, head, bodies = carried(machine, block, self.log)
                        yield b"".join((head, *bodies))
                yield encode(key, CountersRecord(machine.next_sequence))

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

    def backing(self, queue: int, level: int = 0) -> QuorumBacking:
        """Return the one backing of a priority level of a queue."""
        key = QueueKey(queue, level)
        backing = self._backings.get(key)
        if backing is None:
            machine = self._machine(key)
            backing = QuorumBacking(
                machine, self.log, self.cleaner, self._annotations, fencing_token=self._fencing_token
            )
            self._backings[key] = backing
        return backing

    def next_sequence(self, queue: int) -> int:
        """Return a sequence number above all that the queue has ever used."""
        return max((machine.next_sequence for key, machine in self._machines.items() if key.queue == queue), default=0)

    def forget(self, queue: int) -> None:
        """Forget a deleted queue, after ``delete`` was called on its backings."""
        for key in [key for key in self._machines if key.queue == queue]:
            del self._machines[key]
            self._backings.pop(key, None)

    def _machine(self, key: QueueKey) -> QuorumMachine:
        machine = self._machines.get(key)
        if machine is None:
            machine = self._machines[key] = QuorumMachine(key)
        return machine

    # --- the end: blocks

    def put_snapshot(self) -> None:
        """Save the state for the next start. The lane must have synced everything, and no command may follow."""
        self.cleaner.release()
        for key, backing in self._backings.items():
            machine = self._machines[key]
            machine.delivered_below = max(machine.delivered_below, backing.first_undelivered)
        self.log.put_snapshot(self._snapshot_parts())

    def _snapshot_parts(self) -> Iterator[bytes]:
        for machine in self._machines.values():
            yield from machine.snapshot()
