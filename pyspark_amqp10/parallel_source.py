"""Reading queues with several tasks: the driver has the broker hold the messages of a micro-batch, tasks read copies of
them, and the driver settles them when Spark has committed the batch.

No message goes to the driver. It has a link to each queue without link credit, and asks for a batch: the broker answers
with the sequence numbers of what it holds for this link. The numbers are divided into pieces; a task reads the copies
of its piece over a connection of its own. So a task can be repeated any number of times, with the same rows.

Offsets are those of :mod:`pyspark_amqp10.queue_source`, and a checkpoint of one way can be continued in the other. Also
as there, a batch is settled when Spark reports its commit or requests the next one, whichever is first; and numbers
that the offset has, and that are held again after a crash, are settled at once. At most one batch is held at a time.

When the driver's link ends, what it held is ready again. A task that does not get all of its messages then fails, also
if data loss is allowed: to go on would commit a batch without rows that are still in the queue. A batch that was
planned and not committed before a crash is held again, message by message, before its tasks begin.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import ReceivingLink
from amqp10.blocking.requests import BlockingManagement
from pyspark_amqp10.errors import BadOffset, ClientError, ConnectionLost, DataLost, NoLongerHeld
from pyspark_amqp10.holder import HOLD_BYTES_MAX, HOLD_MESSAGES_MAX, Holder, copies
from pyspark_amqp10.known_queues import KnownQueues
from pyspark_amqp10.offsets import (
    RANGES_MAX,
    Json,
    Numbers,
    QueueOffset,
    are_two,
    identities_in,
    queue_json,
    queue_offsets,
    with_identities,
)
from pyspark_amqp10.options import SourceOptions
from pyspark_amqp10.publisher_waits import UNKNOWN_WAITS
from pyspark_amqp10.queue_depths import UNKNOWN, QueueDepths, lag_of
from pyspark_amqp10.queue_source import LOOK_AGAIN_S, numbers_of
from pyspark_amqp10.rows import MessageRows
from pyspark_amqp10.stream_source import BATCH_BYTES_MAX, BATCH_ROWS, check_bad, is_another

IN_VAIN_MAX: Final = 100
"""After so many requests that gave nothing, although the queue says that messages are ready, the batch ends without
them. The queue is removing expired messages, some hundreds in each of its turns, and each request waits for a turn."""


class Piece(NamedTuple):
    """The messages of one queue that a task reads."""

    address: str
    identity: str | None
    """The identity of the queue's declaration, where it is known."""
    holder: str
    numbers: Numbers
    size: int
    """Bytes of the messages: an estimate, by the mean of the batch."""


class HeldOfQueue(NamedTuple):
    """The messages of one queue that are held for a micro-batch."""

    numbers: Numbers
    size: int


class PlannedBatch(NamedTuple):
    """The micro-batch that is held."""

    start: Json
    end: Json
    taken: dict[str, HeldOfQueue]
    """By address."""


class Room:
    """How much of what a micro-batch may have is left."""

    def __init__(self, rows: int, size: int) -> None:
        self.rows, self.size = rows, size

    def wanted(self, left: int | None) -> int:
        """How many messages to ask for now; ``left``: of this queue, None for any number."""
        if self.size <= 0:
            return 0
        return min(self.rows, HOLD_MESSAGES_MAX, HOLD_MESSAGES_MAX if left is None else left)


class ParallelQueueSource:
    """The driver's side, for all queues of a query. Connects at the first plan, and again after a lost connection."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._connection: BlockingConnection | None = None
        self._management: BlockingManagement | None = None
        self._depths: QueueDepths | None = None
        self._holders: dict[str, Holder] = {}
        self._batch: PlannedBatch | None = None
        self._known = KnownQueues(options)
        self._mean_bytes = 0.0
        self._left: dict[str, int] = {}
        """With AvailableNow: how many more messages may be taken of a queue."""
        self._counted: dict[str, Numbers] = {}
        """The newest sequence numbers that are taken off these counts, by address."""

    def first(self) -> Json:
        """The offset at which a query without a checkpoint begins: nothing is committed."""
        return queue_json({address: QueueOffset(Numbers(), 0) for address in self._options.addresses})

    def stop_at_end(self) -> None:
        """Take no more messages than are there now."""
        ready = {address: self._holder(address).link.ready() for address in self._options.addresses}
        self._left = {address: count for address, count in ready.items() if count is not None}

    def plan(self, start: Json) -> Json:
        """Have the next micro-batch behind ``start`` held. Returns where it ends: ``start`` when there are no messages.

        A connection that was lost since the last batch is opened again, once: what it held is ready again, and
        committed messages are recognised.
        """
        begins = queue_offsets(start, self._options.addresses)
        self.committed(start)
        if self._batch is not None and self._batch.start == start and self._still_held(self._batch):
            return self._batch.end
        if self._batch is not None:  # it was never begun, or is not held any more
            self.close()
        try:
            return self._plan(start, begins)
        except ConnectionLost:
            self.close()
            return self._plan(start, begins)

    def tasks(self, start: Json, end: Json) -> list[list[Piece]]:
        """What each task of a micro-batch reads, at most as many tasks as the option ``readers`` says.

        A batch that another driver planned, before a crash, is held again first. Raises DataLost where messages of it
        are gone.
        """
        batch = self._batch
        if batch is None or batch.end != end:
            batch = self._batch = PlannedBatch(start, end, self._taken_again(start, end))
        tasks: list[list[Piece]] = [[] for _ in range(self._options.readers)]
        for address, taken in batch.taken.items():
            holder = self._holders[address]
            for task, numbers in zip(tasks, taken.numbers.pieces(len(tasks)), strict=False):
                size = taken.size * len(numbers) // len(taken.numbers)
                task.append(Piece(address, holder.link.queue_identity, holder.name, numbers, size))
        return [task for task in tasks if task]

    def committed(self, end: Json) -> None:
        """Settle the batch that ends at this offset: it is in Spark's log."""
        batch = self._batch
        if batch is None or batch.end != end:
            return
        self._batch = None
        try:
            for address, taken in batch.taken.items():
                holder = self._holders.get(address)
                if taken.numbers.ranges and holder is not None and holder.link.attached:
                    holder.settle(taken.numbers.ranges[0][0], taken.numbers.ranges[-1][1])
        except ClientError:  # without the connection the messages come again, and are recognised
            self.close()

    def close(self) -> None:
        """Close the connection. What was held is ready again."""
        self._holders.clear()
        self._batch = None
        if self._connection is not None:
            self._connection.close()
            self._connection = self._management = self._depths = None

    # --- a batch ---------------------------------------------------------------------------------------------------

    def _plan(self, start: Json, begins: dict[str, QueueOffset]) -> Json:
        written = identities_in(start)
        self._known.identities |= written
        room = Room(self._options.rows_max, self._options.bytes_max)
        taken: dict[str, HeldOfQueue] = {}
        ends = {address: self._take_from(address, begin, room, taken) for address, begin in begins.items()}
        if ends == begins and not self._known.differ(begins, written):
            return start
        rows = sum(len(one.numbers) for one in taken.values())
        if rows:
            self._mean_bytes = sum(one.size for one in taken.values()) / rows
        end = with_identities(queue_json(ends) | self._report(), self._known.identities)
        self._batch = PlannedBatch(start, end, taken)
        return end

    def _take_from(self, address: str, begin: QueueOffset, room: Room, batch: dict[str, HeldOfQueue]) -> QueueOffset:
        """Have messages of one queue held until it is empty or the batch is full. Returns how far it has been read
        then."""
        holder = self._holder(address)
        begin = self._known.begin(holder.link, begin, self._asking())
        taken, size, in_vain = Numbers(), 0, 0
        while (wanted := room.wanted(self._left.get(address))) > 0:
            given = holder.hold(wanted, min(room.size, HOLD_BYTES_MAX))
            self._count(address, given.numbers)
            repeated = given.numbers & begin.committed
            for first, last in repeated.ranges:
                holder.settle(first, last)
            new = given.numbers - repeated
            if new.ranges:
                new_size = given.size * len(new) // given.messages
                taken, size = taken | new, size + new_size
                room.rows, room.size = room.rows - len(new), room.size - new_size
            if not given.messages and not taken.ranges and in_vain < IN_VAIN_MAX and holder.link.ready():
                in_vain += 1
            elif given.messages < wanted and not repeated.ranges:
                break
        if taken.ranges:
            batch[address] = HeldOfQueue(taken, size)
        return QueueOffset((begin.committed | taken).newest(RANGES_MAX), begin.fetched + len(taken))

    def _taken_again(self, start: Json, end: Json) -> dict[str, HeldOfQueue]:
        """Hold the messages of a batch that was planned before a crash and not committed."""
        self.close()  # what this driver held for another batch would be missing
        options = self._options
        begins, ends = queue_offsets(start, options.addresses), queue_offsets(end, options.addresses)
        before, known = identities_in(start), identities_in(end)
        batch: dict[str, HeldOfQueue] = {}
        for address in options.addresses:
            holder = self._holder(address)
            if is_another(options, address, known.get(address), holder.link.queue_identity):
                continue
            anew = are_two(before.get(address), known.get(address))
            committed = Numbers() if anew else begins[address].committed
            wanted = ends[address].committed - committed
            if wanted.ranges:
                batch[address] = self._hold_again(holder, wanted, committed)
            elif ends[address].fetched > begins[address].fetched:
                raise BadOffset(
                    f"the checkpoint has a batch of {address} without sequence numbers, which several readers need: "
                    "take option readers away until it is committed"
                )
        return batch

    def _hold_again(self, holder: Holder, wanted: Numbers, committed: Numbers) -> HeldOfQueue:
        """Hold the messages with these numbers, and give back others that were held on the way. Waits for them as long
        as ``drainTimeout`` says: the broker may not have noticed yet that their former holder is dead."""
        options, address = self._options, holder.link.address
        found, others, size = Numbers(), Numbers(), 0
        waits = max(1, round(options.drain_time_out_s / LOOK_AGAIN_S))
        while (missing := wanted - found).ranges and waits > 0:
            given = holder.hold(min(len(missing), HOLD_MESSAGES_MAX), through=missing.ranges[-1][1])
            if not given.messages:
                waits -= 1
                assert self._connection is not None
                self._connection.moved_until(lambda: False, within_s=LOOK_AGAIN_S)
                continue
            found_now = given.numbers & wanted
            found, others = found | found_now, others | (given.numbers - wanted)
            size += given.size * len(found_now) // given.messages
            self._count(address, given.numbers & (wanted | committed))
        for first, last in (others & committed).ranges:
            holder.settle(first, last)
        for first, last in (others - committed).ranges:
            holder.settle(first, last, "released")
        if missing.ranges and options.fail_on_data_loss:
            raise DataLost(
                f"{address}: {len(missing)} messages of the batch that was begun before the crash were not ready again "
                f"within {options.drain_time_out_s:g} s, the first with the number {missing.ranges[0][0]}: they "
                "expired, or another consumer took them; option failOnDataLoss=false goes on with what is left"
            )
        return HeldOfQueue(found, size)

    def _count(self, address: str, held: Numbers) -> None:
        """Take messages off the count of those that may be taken, except those that were taken off before: a lost
        connection gives messages back, and they are held again."""
        if address in self._left:
            counted = self._counted.get(address, Numbers())
            self._left[address] -= len(held - counted)
            self._counted[address] = (counted | held).newest(RANGES_MAX)

    # --- the connection --------------------------------------------------------------------------------------------

    def _holder(self, address: str) -> Holder:
        options = self._options
        if self._connection is None:
            self._connection = options.login.connect(container_id=options.container_id)
            self._management = BlockingManagement(self._connection)
        assert self._management is not None
        holder = self._holders.get(address)
        if holder is None or not holder.link.attached:
            holder = self._holders[address] = Holder.open(self._connection, self._management, options, address)
        return holder

    def _still_held(self, batch: PlannedBatch) -> bool:
        return all(address in self._holders and self._holders[address].link.attached for address in batch.taken)

    def _asking(self) -> QueueDepths:
        assert self._connection is not None
        if self._depths is None:
            self._depths = QueueDepths(self._connection)
        return self._depths

    def _report(self) -> Json:
        """What the progress of the query shows beside the offsets: what is left in the queues, and the flow control at
        them. A broker that fails to tell it does not end the query: the next fetch reports the reason."""
        credit: Json = {"link_credit": min(self._options.link_credit, self._options.rows_max)}
        try:
            depths = self._asking()
            lag = lag_of([depths.of(holder.link, self._mean_bytes) for holder in self._holders.values()])
            return {"lag": lag, "flow": depths.waits.of(self._holders) | credit}
        except ClientError:
            return {"lag": lag_of([UNKNOWN]), "flow": UNKNOWN_WAITS | credit}


# --- a task --------------------------------------------------------------------------------------------------------


def read_held(options: SourceOptions, pieces: list[Piece], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, as Arrow batches. It opens its own connection: it runs in another process.

    Raises NoLongerHeld when messages are missing, however many rows it has yielded.
    """
    with options.login.connect(container_id=options.container_id) as connection:
        for piece in pieces:
            link = copies(connection, piece.address, options.link_name_of(piece.address), piece.holder, piece.numbers)
            if not is_another(options, piece.address, piece.identity, link.queue_identity):
                yield from _rows(options, link, piece, schema)
            link.close()


def _rows(options: SourceOptions, link: ReceivingLink, piece: Piece, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    count = len(piece.numbers)
    at_once = max(1, min(BATCH_ROWS, options.link_credit, BATCH_BYTES_MAX * count // max(piece.size, 1)))
    left = piece.numbers
    while left.ranges:
        rows = MessageRows(piece.address, schema)
        runs = link.fetch(min(at_once, len(left)), within_s=options.drain_time_out_s)
        rows.take([entry for run in runs for entry in run.entries])  # many at once cost less than few
        came = numbers_of(rows.numbers)
        if not came.ranges or len(rows) != len(came) or (came - left).ranges:
            raise NoLongerHeld(
                f"{piece.address}: {len(left)} messages, the first with the number {left.ranges[0][0]}, are not held "
                "for this query any more: the driver's link has ended, or the consumer time-out has passed; nothing "
                "is lost, and the query continues from its checkpoint when it is started again"
            )
        left -= came
        check_bad(options, rows)
        yield rows.columns()
