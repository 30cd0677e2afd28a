"""Cleaning of the command log: live messages of its oldest file are copied to the end, then the file is removed.

A file is *carried* when more than half of the whole log is garbage, or when nearly nothing in that file is live. Its
live messages are written again as ``CARRIED`` commands: a block or about 1 MiB with each batch that the lane takes, so
that publishers are hardly delayed. Then queues whose counters were last written in that file write them again, and the
lane removes the file when all of this is synced. A crash at any point leaves a log that replays to the same state:
until the removal the carried messages are in the log twice, which makes no difference.

Carrying a whole log writes as many bytes as are live in it, and frees at least as many, because more than half was
garbage.

The cleaner checks the log after a certain number of bytes have become garbage, not at certain times.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from core.engine.quorum.block import DISCARDED, READY, Block, SpanPart, UnwrittenBodies
from core.engine.quorum.carried_chunks import CarriedChunks
from core.engine.quorum.commands import Messages, carried_head, encode
from core.engine.quorum.machine import QuorumMachine
from core.engine.quorum.reading import read_bodies
from core.engine.quorum.stream_chunks import StreamChunks
from core.store.command_log import LeaseLost, LocalCommandLog
from core.store.record import HEADER_BYTES, record_bytes

STEP_BYTES = 1 << 20
"""Bytes carried with one batch: about as much as a batch under load."""
FILES_MIN = 3
"""A log of fewer files is not cleaned for its share of garbage: it has at most two files of garbage."""
LITTLE_LIVE = 1 / 16
"""The oldest file is carried if its live share is below this: 4 MiB of 64."""
RECORD_OVERHEAD = HEADER_BYTES + 64
"""Bytes of a single message in the log besides its body; only used to estimate garbage."""

COUNTERS_BYTES = record_bytes(20)
"""Bytes of one queue's counters in the log; they count as live too."""


class Cleaner:
    """Removes the garbage of one log. It is a ``LateWriter`` of the log's lane."""

    def __init__(
        self,
        log: LocalCommandLog,
        machines: Callable[[], Iterable[QuorumMachine]],
        *,
        fencing_token: int,
        garbage_fraction: float,
        look_bytes: int,
        repeat: Callable[[int], None] = lambda file: None,
        streams: Callable[[], Iterable[StreamChunks]] = tuple,
    ) -> None:
        """``look_bytes``: how many bytes become garbage between two checks. ``repeat`` is called before the files
        before this one are removed, to append again what else must stay."""
        self.carried = 0
        """How many messages were carried."""
        self.files_removed = 0
        self.keeps_from: Callable[[], int | None] = lambda: None
        """The first file that must stay for now, because another node copies it; None if that is none."""
        self._log = log
        self._machines = machines
        self._repeat = repeat
        self._streams = streams
        self._chunks = CarriedChunks(log)
        self._fencing_token = fencing_token
        self._garbage_fraction = garbage_fraction
        self._look_bytes = look_bytes
        self._turnover = 0
        self._waiting: list[tuple[QuorumMachine, Block]] = []
        """Blocks of the file that is being carried. The next one is the last of the list."""
        self._carrying: int | None = None
        self._held: list[Block] = []
        """Blocks carried with the last batch."""

    def died(self, messages: int, body_bytes: int) -> None:
        """Count settled messages as garbage."""
        self.appended(messages * RECORD_OVERHEAD + body_bytes)

    def appended(self, size: int) -> None:
        """Count bytes in the log that are garbage, or will be soon."""
        self._turnover += size
        if self._turnover >= self._look_bytes:
            self.look()

    def look(self) -> None:
        """Check the log with the next batch."""
        self._turnover = 0
        self._log.later(self)

    def begin_again(self, fencing_token: int) -> None:
        """The machines were rebuilt: forget the file that was being carried."""
        self.release()
        self._waiting.clear()
        self._chunks.stop()
        self._carrying = None
        self._fencing_token = fencing_token

    def write_late(self) -> None:
        """See :class:`core.store.lane.LateWriter`. Nothing is cleaned without the lease."""
        self.release()
        try:
            self._log.renew_lease(self._fencing_token)
        except LeaseLost:
            return
        if self._carrying is None:
            self._choose()
        if self._carrying is not None:
            self._carry_some()
            if not self._waiting and self._chunks.done:
                self._carrying = None
            self._log.later(self)

    def release(self) -> None:
        """The last batch is written: drop the copies of bodies that it carried, because the file has them now."""
        for block in self._held:
            block.held = None
        self._held.clear()
        self._chunks.release()

    # --- inside

    def _choose(self) -> None:
        """Remove files without live messages, and choose a file to carry."""
        live = self._live_bytes()
        current = max(self._log.files())
        oldest = min(live, default=current)
        kept = self.keeps_from()
        removable = oldest if kept is None else min(oldest, kept)
        if min(self._log.files()) < removable:
            self._remove_before(removable)
        if oldest == current or removable < oldest:
            return
        if not self._log.is_written(oldest):
            self._log.later(self)
            return
        files = self._log.files()
        total = sum(files.values())
        garbage = total - sum(live.values()) - sum(COUNTERS_BYTES for machine in self._machines())
        much_garbage = len(files) >= FILES_MIN and garbage > self._garbage_fraction * total
        if much_garbage or live[oldest] < LITTLE_LIVE * files[oldest]:
            self._carrying = oldest
            self._waiting = [
                (machine, block) for machine in self._machines() for block in machine.blocks if block.file == oldest
            ]
            self._chunks.begin(oldest, self._streams())

    def _live_bytes(self) -> Counter[int]:
        """The bytes of live messages in each file that has any."""
        live: Counter[int] = Counter()
        for machine in self._machines():
            for block in machine.blocks:
                live[block.file] += block.live_record_bytes
        for stream in self._streams():
            live.update(stream.live_in)
        return live

    def _remove_before(self, file: int) -> None:
        """Remove the files before this one, which have nothing live but counters; write those counters again first."""
        for machine in self._machines():
            if machine.counted_in < file or (machine.taken is not None and machine.taken_from < file):
                payload = encode(machine.key, machine.counters())
                _, now_in, _ = self._log.append((payload,), len(payload), self._fencing_token, prompt=False)
                machine.counted_in = machine.taken_from = now_in
        self._repeat(file)
        self.files_removed += sum(number < file for number in self._log.files())
        self._log.truncate(file)

    def _carry_some(self) -> None:
        room = STEP_BYTES
        while self._waiting and room > 0:
            machine, block = self._waiting.pop()
            if block.live and block in machine.blocks:
                room -= self._carry(machine, block)
        if room > 0:
            self.carried += self._chunks.carry_some(room, self._fencing_token)

    def _carry(self, machine: QuorumMachine, block: Block) -> int:
        """Carry a block. Returns how many bytes were written."""
        messages, head, bodies = carried(machine, block, self._log)
        payload_bytes = len(head) + sum(messages.sizes)
        _, file, offset = self._log.append((head, *bodies), payload_bytes, self._fencing_token, prompt=False)
        moved = machine.carry(messages, file, offset + len(head))
        moved.held = UnwrittenBodies(offset + len(head), b"".join(bodies))
        self._held.append(moved)
        self.carried += len(bodies)
        return payload_bytes


def carried(machine: QuorumMachine, block: Block, log: LocalCommandLog) -> tuple[Messages, bytes, list[bytes]]:
    """Return a command that repeats the live messages of a block: decoded, its payload up to the bodies, and the
    bodies."""
    pieces = sorted([*block.pieces(READY), *block.pieces(DISCARDED)], key=_first)
    bodies = [body for part in read_bodies(log, pieces) for body in part]
    messages = _carried(machine, block, pieces)
    head = carried_head(machine.key, messages)
    messages.bodies_at = len(head)
    return messages, head, bodies


def _carried(machine: QuorumMachine, block: Block, pieces: Sequence[SpanPart]) -> Messages:
    """Return the live messages of a block; adjoining spans with the same expiry and time are joined."""
    firsts, counts, expiries, sizes = array("Q"), array("I"), array("d"), array("I")
    times = None if block.times is None else array("q")
    for piece in pieces:
        first = piece.sequences[0]
        time = 0 if piece.route is None or piece.route.enqueued_ms is None else piece.route.enqueued_ms
        if (
            firsts
            and firsts[-1] + counts[-1] == first
            and expiries[-1] == piece.expiry
            and (times is None or times[-1] == time)
        ):
            counts[-1] += len(piece.sizes)
        else:
            if times is not None:
                times.append(time)
            firsts.append(first)
            counts.append(len(piece.sizes))
            expiries.append(piece.expiry)
        sizes.extend(piece.sizes)
    sequences = [s for piece in pieces for s in piece.sequences] if machine.histories or machine.discards else []
    return Messages(
        block.attributes,
        block.route,
        firsts,
        counts,
        expiries,
        sizes,
        carried=True,
        histories={s: machine.histories[s] for s in sequences if s in machine.histories},
        discards={s: machine.discards[s] for s in sequences if s in machine.discards},
        times=times,
    )


def _first(piece: SpanPart) -> int:
    return piece.sequences[0]
