"""One quorum queue as a state machine over its commands: the same commands lead to the same state on every computer.

The state is the next sequence number and, for each live message, the place of its body in the log, its attributes, and
its history. The log does not record which consumer holds which message. After a restart every live message is ready
again, or still being dead-lettered.

Invariants: a sequence number is given to one message only. Messages below ``next_sequence`` that are in no block are
gone. The ranges of sequence numbers of two blocks do not overlap, and blocks are in ascending order. Applying a command
again changes nothing: new messages below ``next_sequence`` are known already, and commands about messages that are not
live are ignored. One exception: the log must not repeat a ``CARRIED`` command after the messages in it were settled.

The machine does not know the log or the disk; the caller passes the place of each command.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import cbor2

from core.engine.quorum.block import DISCARDED, GONE, READY, Block, SpanPart, packed, unpacked
from core.engine.quorum.commands import (
    Command,
    CountersRecord,
    Delete,
    Discard,
    History,
    Messages,
    QueueKey,
    ReturnedRecord,
    Settle,
    TakenIds,
)
from core.engine.ready.remains import Objects
from core.message import Attributes, Route
from core.store.record import record_bytes
from core.taken_numbers import TakenNumbers

ValueT = TypeVar("ValueT")


class QuorumMachine:
    """The state of one priority level of one quorum queue."""

    __slots__ = (
        "_blocks", "_firsts", "counted_in", "delivered_below", "discards", "histories", "key", "live", "live_bytes",
        "next_sequence", "taken", "taken_from",
    )  # fmt: skip

    def __init__(self, key: QueueKey) -> None:
        self.key = key
        self.next_sequence = 0
        self.delivered_below = 0
        """Messages below it may have been delivered before the last start. It is not in the log; the start sets it."""
        self.counted_in = 0
        """The last file of the log with a command from which ``next_sequence`` follows."""
        self.live = 0
        self.live_bytes = 0
        """Bytes of the bodies of live messages."""
        self.histories: dict[int, History] = {}
        """Histories of messages that were returned as failed or with annotations, by sequence number."""
        self.discards: dict[int, str] = {}
        """Reasons of the messages that are being dead-lettered, by sequence number."""
        self.taken: TakenNumbers | None = None
        """The publishing ids that were taken on and are remembered; None for none."""
        self.taken_from = 0
        """The first file of the log with a command from which ``taken`` follows."""
        self._blocks: list[Block] = []
        self._firsts: list[int] = []
        """The first sequence number of each block."""

    # --- commands

    def apply(self, command: Command, file: int, offset: int) -> None:
        """Apply the next command of this queue, whose payload is at ``offset`` in this file of the log."""
        match command:
            case Messages():
                self._apply_messages(command, file, offset + command.bodies_at)
            case Settle(ranges):
                self.settle(ranges)
            case ReturnedRecord(ranges, history):
                self.returned(ranges, history)
            case Discard(ranges, reason):
                self.discard(ranges, reason)
            case Delete():
                self.clear()
            case CountersRecord(next_sequence, taken):
                self.next_sequence = max(self.next_sequence, next_sequence)
                self.counted_in = file
                if taken is not None:
                    self.taken = None
                    self._take(taken, file)

    def _apply_messages(self, messages: Messages, file: int, offset: int) -> None:
        if messages.carried:
            self.carry(messages, file, offset)
            return
        sizes = messages.sizes
        self.enqueue(
            messages.firsts[0], sizes, messages.attributes, messages.route,
            expiry=messages.expiries[0], file=file, offset=offset, head_bytes=messages.bodies_at, body_bytes=sum(sizes),
            taken=messages.taken,
        )  # fmt: skip

    def enqueue(
        self, first: int, sizes: "array[int]", attributes: Attributes, route: Route | None, *,
        expiry: float, file: int, offset: int, head_bytes: int, body_bytes: int, taken: TakenIds | None = None,
    ) -> None:  # fmt: skip
        """Add new messages, whose bodies are at ``offset`` in the file. ``expiry``: wall-clock seconds, infinity for
        never."""
        if first < self.next_sequence:
            return  # known
        block = self._blocks[-1] if self._blocks else None
        if block is None or block.file != file or not block.takes(attributes, route) or block.full:
            block = Block(file, attributes, route)
            self._blocks.append(block)
            self._firsts.append(first)
        block.add(first, sizes, expiry, offset, None if route is None else route.enqueued_ms)
        block.record_bytes += record_bytes(head_bytes + body_bytes)
        self.next_sequence = first + len(sizes)
        self.counted_in = file
        self.live += len(sizes)
        self.live_bytes += body_bytes
        if taken is not None:
            self._take(taken, file)

    def _take(self, taken: TakenIds, file: int) -> None:
        if self.taken is None:
            self.taken = TakenNumbers()
            self.taken_from = file
        self.taken.ranges_max = taken.ranges_max
        self.taken.merge(taken.names)

    def carry(self, messages: Messages, file: int, offset: int) -> Block:
        """Apply that messages were carried to another place. No other message between the first and the last of them is
        live."""
        block = Block(file, messages.attributes, messages.route)
        start = at = 0
        times = messages.times or [None] * len(messages.firsts)
        for first, count, expiry, time in zip(messages.firsts, messages.counts, messages.expiries, times, strict=True):
            sizes = messages.sizes[start : start + count]
            block.add(first, sizes, expiry, offset + at, time)
            start += count
            at += sum(sizes)
        block.record_bytes = record_bytes(messages.bodies_at + at)
        self._clear_between(block.first, block.last)
        number = bisect_right(self._firsts, block.first)
        self._blocks.insert(number, block)
        self._firsts.insert(number, block.first)
        self.live += block.live
        self.live_bytes += at
        self.next_sequence = max(self.next_sequence, block.last + 1)
        self.histories.update(messages.histories)
        for sequence, reason in messages.discards.items():
            self.discard((range(sequence, sequence + 1),), reason)
        return block

    def settle(self, ranges: Iterable[range]) -> None:
        """Remove messages for good."""
        for positions in ranges:
            self._mark(positions, GONE)
            if self.histories:
                _forget(self.histories, positions)
            if self.discards:
                _forget(self.discards, positions)

    def returned(self, ranges: Iterable[range], history: History) -> None:
        """Set the history of returned messages."""
        for positions in ranges:
            for piece in self._pieces_in(positions):
                self.histories.update(dict.fromkeys(piece, history))

    def discard(self, ranges: Iterable[range], reason: str) -> None:
        """Mark messages as being dead-lettered."""
        for positions in ranges:
            for piece in self._pieces_in(positions):
                self.discards.update(dict.fromkeys(piece, reason))
            self._mark(positions, DISCARDED)

    def clear(self) -> Objects:
        """Remove all messages. Returns the objects that are to be freed."""
        blocks, self._blocks = self._blocks, []
        self._firsts.clear()
        self.histories.clear()
        self.discards.clear()
        self.live = self.live_bytes = 0
        return blocks

    # --- messages

    def counters(self) -> CountersRecord:
        """Return what outlives the messages."""
        taken = self.taken
        return CountersRecord(self.next_sequence, None if taken is None else TakenIds(taken.ranges_max, taken.packed()))

    @property
    def blocks(self) -> Sequence[Block]:
        """All blocks, in ascending order."""
        return self._blocks

    def ready(self, start: int) -> Iterator[SpanPart]:
        """Iterate over live messages that are not being dead-lettered, from this sequence number on, ascending."""
        return self._pieces(READY, start)

    def discarded(self) -> Iterator[SpanPart]:
        """Iterate over messages that are being dead-lettered, ascending."""
        return self._pieces(DISCARDED, 0)

    def pieces_of(self, sequences: Sequence[int]) -> list[SpanPart]:
        """Return one piece for each of these messages that is live, ascending."""
        found = []
        for sequence in sequences:
            number = bisect_right(self._firsts, sequence) - 1
            if number >= 0:
                block = self._blocks[number]
                where = block.slices(range(sequence, sequence + 1))
                found += [block.piece_at(at.start) for at in where if block.states[at.start] != GONE]
        return found

    def _pieces(self, state: int, start: int) -> Iterator[SpanPart]:
        number = max(0, bisect_right(self._firsts, start) - 1)
        for block in self._blocks[number:]:
            yield from block.pieces(state, block.index_from(start))

    def _overlapping(self, first: int, last: int) -> range:
        """Return the indexes of the blocks that may have messages between the two."""
        return range(max(0, bisect_right(self._firsts, first) - 1), bisect_right(self._firsts, last))

    def _pieces_in(self, positions: range) -> Iterator[Iterator[int]]:
        """Yield the positions of live messages, block by block."""
        for number in self._overlapping(positions[0], positions[-1]):
            block = self._blocks[number]
            for where in block.slices(positions):
                indexes = range(*where.indices(len(block)))
                yield (block.sequence_at(index) for index in indexes if block.states[index] != GONE)

    def _mark(self, positions: range, state: int) -> None:
        dead = []
        for number in self._overlapping(positions[0], positions[-1]):
            block = self._blocks[number]
            for where in block.slices(positions):
                count, size = block.mark(where, state)
                self.live -= count
                self.live_bytes -= size
            if not block.live:
                dead.append(number)
        self._drop(dead)

    def _drop(self, numbers: Sequence[int]) -> None:
        """Remove blocks without live messages. Their indexes nearly always adjoin."""
        for number in reversed(numbers):
            del self._blocks[number]
            del self._firsts[number]

    def _clear_between(self, first: int, last: int) -> None:
        """Settle all messages from ``first`` to ``last`` (both inclusive), and cut blocks that extend beyond this
        range."""
        self.settle((range(first, last + 1),))
        for number in reversed(self._overlapping(first, last)):
            block = self._blocks[number]
            if block.last < first:
                continue
            outside = (
                block.part(0, block.index_from(first)),
                block.part(block.index_from(last + 1), len(block)),
            )
            left = [part for part in outside if part is not None]
            self._blocks[number : number + 1] = left
            self._firsts[number : number + 1] = [part.first for part in left]

    # --- snapshots

    def snapshot(self) -> Iterator[bytes]:
        """Return the state in parts: one for the queue, one for each block."""
        histories = [[sequence, *history] for sequence, history in self.histories.items()]
        yield cbor2.dumps(
            [
                *self.key,
                self.next_sequence,
                self.counted_in,
                self.delivered_below,
                histories,
                list(self.discards.items()),
                *(() if self.taken is None else (self.taken_from, self.taken.ranges_max, self.taken.packed())),
            ]
        )
        for block in self._blocks:
            yield cbor2.dumps([*self.key, *packed(block)])

    @staticmethod
    def restored(parts: Iterable[bytes]) -> "dict[QueueKey, QuorumMachine]":
        """Rebuild machines from the parts of their snapshots."""
        machines: dict[QueueKey, QuorumMachine] = {}
        for part in parts:
            queue, level, *rest = cbor2.loads(part)
            key = QueueKey(queue, level)
            machine = machines.get(key)
            if machine is not None:
                machine._add_block(unpacked(rest))
                continue
            machine = machines[key] = QuorumMachine(key)
            machine.next_sequence, machine.counted_in, machine.delivered_below, histories, discards, *taken = rest
            if taken:
                machine._take(TakenIds(*taken[1:]), taken[0])
            machine.histories = {sequence: History(*history) for sequence, *history in histories}
            machine.discards = dict(discards)
        return machines

    def _add_block(self, block: Block) -> None:
        self._blocks.append(block)
        self._firsts.append(block.first)
        self.live += block.live
        self.live_bytes += sum(size for size, state in zip(block.sizes, block.states, strict=True) if state != GONE)


def _forget(known: dict[int, ValueT], positions: range) -> None:
    """Remove the entries of these positions, looping over the shorter of the two."""
    gone = [sequence for sequence in known if sequence in positions] if len(known) < len(positions) else positions
    for sequence in gone:
        known.pop(sequence, None)
