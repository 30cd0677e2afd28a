"""A classic queue over a real queue index on a disk in memory, and the operations of a test on it."""

from collections.abc import Sequence
from math import inf

from core.config.store import StoreSettings
from core.engine.classic.residency import Paging
from core.engine.classic.variable_queue import VariableQueue
from core.engine.ready.batch import Batch
from core.message import Attributes, Expiries, Routes, Run, RunAttributes, RunPart
from core.store.places import SEGMENT_MESSAGES
from core.store.store import open_store
from tests.kit.engine import NOW, bodies, later
from tests.kit.faulty_disk import MemoryDisk

EMBED_BELOW = 64
DURABLE = Attributes(durable=True)
TRANSIENT_MESSAGE = Attributes()
FINE = Paging(io_batch_size=4, betas_min=6, read_messages=3, read_bytes=400)
"""Settings that page so few messages at once that a dozen messages take every path."""


class Bench:
    """One queue of one priority level, its store, and a clock. Messages are numbered by ``next_sequence``."""

    def __init__(
        self, *, durable: bool = True, lazy: bool = False, paging: Paging = FINE, salvage: bool = False
    ) -> None:
        self.disk = MemoryDisk()
        self.durable = durable
        self.lazy = lazy
        self.paging = paging
        self.salvage = salvage
        self.generation = 0
        self.seconds = 0.0
        self.next_sequence = 0
        self._start()

    def _start(self) -> None:
        """Open the store on what the disk has."""
        self.generation += 1
        settings = StoreSettings(queue_index_embed_msgs_below=EMBED_BELOW, salvage=self.salvage)
        queue_id = "1" if self.durable else "t1"
        self.store = open_store(self.disk, settings, generation=self.generation, queue_ids=["1"])
        self.lane = self.store.classic
        self.index = self.store.queue_index(queue_id)
        self.queue = VariableQueue(
            self.index, durable=self.durable, lazy=self.lazy, paging=self.paging, now=NOW.monotonic + self.seconds
        )
        self.next_sequence = max(self.next_sequence, self.index.next_sequence_floor)

    def stop_in_order(self) -> None:
        """Stop the broker in order, and start it again."""
        self.queue.conclude(self.next_sequence)
        self.write()
        self.store.close_checkpoint()
        self._start()

    def kill(self) -> None:
        """End the process at once, and start again. What was written is there."""
        self._start()

    def publish(
        self,
        bodies: Sequence[bytes],
        attributes: RunAttributes = TRANSIENT_MESSAGE,
        *,
        expires_at: Expiries = None,
        routes: Routes = None,
    ) -> int | None:
        """Publish messages. Returns the position to wait for."""
        run_part = RunPart(Run(0, list(bodies), attributes, routes=routes), 0, len(bodies), expires_at)
        first = self.next_sequence
        self.next_sequence += len(bodies)
        return self.queue.publish_run(run_part, first, later(self.seconds))

    def pass_on(self, bodies: Sequence[bytes], attributes: Attributes = TRANSIENT_MESSAGE) -> Batch:
        """Pass messages straight on to a consumer, without keeping them ready."""
        run_part = RunPart(Run(0, list(bodies), attributes), 0, len(bodies))
        batch, _ = self.queue.pass_run(run_part, self.next_sequence, later(self.seconds))
        self.next_sequence += len(bodies)
        return batch

    def fetch(self, n: int) -> Batch:
        """Fetch one message. There has to be one."""
        batch = self.queue.fetch(n)
        assert batch is not None
        return batch

    def drain(self) -> list[bytes]:
        """Fetch and settle everything."""
        bodies: list[bytes] = []
        while (batch := self.queue.fetch(1000)) is not None:
            bodies += batch.entries
            self.queue.settle(batch)
            self.queue.check()
        return bodies

    def press(self, target_s: float) -> bool:
        """Set a duration target."""
        return self.queue.set_duration_target(target_s)

    def keep(self, n: int) -> None:
        """Set the duration target so that ``n`` messages may be in memory. Messages must have moved before."""
        self.seconds += 1
        self.queue.report(later(self.seconds).monotonic)
        self.press(1e6)
        rates = self.queue.counts()["target_ram_count"] / 1e6
        self.press((n + 0.5) / rates)
        assert self.queue.counts()["target_ram_count"] == n

    def reduce(self) -> None:
        """Page until no message is left to page."""
        while self.queue.reduce_memory_use(later(self.seconds)):
            self.queue.check()

    def reads(self) -> tuple[int, int]:
        """How often an index segment was read, and how often bodies were."""
        counts = self.queue.counts()
        return counts["index_reads"], counts["body_reads"]

    def at_boundary(self, before: int = 0) -> None:
        """Continue with sequence numbers shortly before the next segment, as if other priority levels had taken those
        between."""
        self.next_sequence = (self.next_sequence // SEGMENT_MESSAGES + 1) * SEGMENT_MESSAGES - before

    def write(self) -> None:
        """Write and sync everything that is staged."""
        while (batch := self.lane.take_write()) is not None:
            batch.run(self.disk)
            self.lane.wrote(batch)
        self.lane.want_sync()
        while (sync := self.lane.take_sync(self.seconds)) is not None:
            sync.run(self.disk)
            self.lane.did_sync(sync)
        self.store.compact_step()

    def where(self) -> tuple[int, int, int, int, int]:
        """The lengths of q1, q2, delta, q3 and q4."""
        counts = self.queue.counts()
        return counts["q1"], counts["q2"], counts["delta"], counts["q3"], counts["q4"]

    def states(self) -> tuple[int, int, int, int]:
        """How many messages are alpha, beta, gamma and delta."""
        counts = self.queue.counts()
        return counts["alpha"], counts["beta"], counts["gamma"], counts["delta"]


def in_five_places() -> Bench:
    """Eight messages in q3, eight in delta, one each in q2 and q1; q3 and delta begin a segment."""
    bench = Bench()
    bench.publish(bodies(8), DURABLE)
    bench.at_boundary()
    bench.publish(bodies(8, 8), DURABLE)
    bench.press(0)
    bench.reduce()
    bench.press(inf)
    bench.publish(bodies(2, 16), DURABLE)
    bench.keep(1)
    bench.queue.reduce_memory_use(later(bench.seconds))
    bench.press(inf)
    assert bench.where() == (1, 1, 8, 8, 0)
    return bench
