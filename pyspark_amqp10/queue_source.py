"""Reading queues: messages are fetched by link credit and drain, kept unsettled, and settled when Spark has committed.

Everything happens in the driver's planner process, on one link for each queue. A micro-batch is the messages that come
for one grant of link credit after the other, each with a drain; between batches the link credit is 0, so no message is
on its way unrequested.

Spark reports a commit late, and the last batch's never. But it requests the next batch from an offset only when the
batch that ended there is in its log. So a commit and such a request both settle. After a crash the broker delivers
unsettled messages again. The source recognises committed ones by the sequence number that the broker stamps; it settles
them then, and the fetch goes on behind them. From a broker that stamps no numbers, such messages become rows a second
time: at least once.

A batch that was planned and not committed when the driver died is read again by a task (:func:`read_again`), which
settles nothing: its link closes, and the driver's link gets the same messages again.

Spark does not ask this kind of source for a lag, so the offset of a batch carries it: what was left in the queues when
the batch had been fetched. Reading an offset ignores it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import pyarrow as pa

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import Deliveries, ReceivingLink
from amqp10.errors import ErrorCondition
from amqp10.wire.messaging import ACCEPTED, Error, Modified, Outcome, Rejected
from pyspark_amqp10.errors import BadOption, ClientError, ConnectionLost, DataLost
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
from pyspark_amqp10.parts import OFFSET_ANNOTATION, number_in
from pyspark_amqp10.publisher_waits import UNKNOWN_WAITS
from pyspark_amqp10.queue_depths import UNKNOWN, QueueDepths, lag_of
from pyspark_amqp10.rows import MessageRows
from pyspark_amqp10.stream_source import BATCH_ROWS, check_bad, is_another

FIRST_FETCH: Final = 500
"""Messages of the first fetch of a query, which shows how large they are: enough for an average, and with 128 KiB each
they are within the default of maxBytesPerTrigger."""
LOOK_AGAIN_S: Final = 0.2
"""Seconds to wait for messages that a dying process may still hold, before they are requested again."""
TRIED_IN_VAIN: Final = Modified(delivery_failed=True)
"""The outcome that ``onBadRow`` release gives: back to the queue, with one more failed delivery, which limits can
count."""


class Settlement(NamedTuple):
    """An outcome for deliveries of one link, both ends inclusive."""

    link: ReceivingLink
    first: int
    last: int
    outcome: Outcome


class QueueBatch(NamedTuple):
    """A micro-batch that Spark has not committed, as far as it is known."""

    end: Json
    settlements: list[Settlement]


class QueueSource:
    """The driver's side, for all queues of a query. Connects at the first fetch, and again after a lost connection."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._connection: BlockingConnection | None = None
        self._links: dict[str, ReceivingLink] = {}
        self._depths: QueueDepths | None = None
        self._batches: list[QueueBatch] = []
        self._known = KnownQueues(options)
        self._mean_bytes = 0.0
        """The mean size of the messages fetched last; 0 before the first."""
        self._left: dict[str, int] = {}
        """With AvailableNow: how many more messages may be fetched of a queue, where its broker tells the number."""

    def first(self) -> Json:
        """The offset at which a query without a checkpoint begins: nothing is committed."""
        return queue_json({address: QueueOffset(Numbers(), 0) for address in self._options.addresses})

    def stop_at_end(self) -> None:
        """Fetch no more messages than are there now."""
        left: dict[str, int | None] = {}
        for address in self._options.addresses:
            link = self._link(address)
            left[address] = link.ready()
            link.close()  # a task may have to read first, and a queue may allow only one active consumer
            del self._links[address]
        self._left = {address: count for address, count in left.items() if count is not None}

    def fetch(self, start: Json) -> tuple[list[pa.RecordBatch], Json]:
        """Return the next micro-batch behind ``start``, and the offset where it ends: ``start`` when there are no
        messages.

        A connection that was lost since the last batch is opened again, once: its unsettled messages come again, and
        are recognised.
        """
        begins = queue_offsets(start, self._options.addresses)
        self.committed(start)
        try:
            return self._fetch(start, begins)
        except ConnectionLost:
            self.close()
            return self._fetch(start, begins)

    def committed(self, end: Json) -> None:
        """Settle the batch that ends at this offset, and those before it: they are in Spark's log."""
        ends = [batch.end for batch in self._batches]
        if end not in ends:
            return
        done, self._batches = self._batches[: ends.index(end) + 1], self._batches[ends.index(end) + 1 :]
        with suppress(ClientError):  # the connection is lost: the messages come again, and are recognised
            for batch in done:
                for settlement in batch.settlements:
                    if settlement.link.attached:
                        settlement.link.settle(*settlement[1:])
            self._flush()

    def close(self) -> None:
        """Close the connection. Unsettled messages return to their queues."""
        self._links.clear()
        self._batches.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = self._depths = None

    # --- inside ----------------------------------------------------------------------------------------------------

    def _fetch(self, start: Json, begins: dict[str, QueueOffset]) -> tuple[list[pa.RecordBatch], Json]:
        written = identities_in(start)
        self._known.identities |= written
        batch = Fetch(self._options, self._schema)
        ends = {address: self._fetch_from(address, begin, batch) for address, begin in begins.items()}
        columns = batch.columns()
        for settlement in batch.at_once:
            settlement.link.settle(*settlement[1:])
        end = start
        if ends != begins or self._known.differ(begins, written):
            end = with_identities(queue_json(ends) | self._report(), self._known.identities)
            self._batches.append(QueueBatch(end, batch.settlements))
            if self._options.settle == "fetch":
                self.committed(end)
        self._flush()
        for address in self._left:
            self._left[address] -= ends[address].fetched - begins[address].fetched
        return columns, end

    def _report(self) -> Json:
        """What the progress of the query shows beside the offsets: what is left in the queues, and the flow control at
        them. A broker that fails to tell it does not end the query: the next fetch reports the reason."""
        credit: Json = {"link_credit": min(self._options.link_credit, self._options.rows_max)}
        try:
            depths = self._asking()
            lag = lag_of([depths.of(link, self._mean_bytes) for link in self._links.values()])
            return {"lag": lag, "flow": depths.waits.of(self._links) | credit}
        except ClientError:
            return {"lag": lag_of([UNKNOWN]), "flow": UNKNOWN_WAITS | credit}

    def _asking(self) -> QueueDepths:
        assert self._connection is not None
        if self._depths is None:
            self._depths = QueueDepths(self._connection)
        return self._depths

    def _fetch_from(self, address: str, begin: QueueOffset, batch: "Fetch") -> QueueOffset:
        """Fetch from one queue until it is empty or the batch is full; returns how far it has been read then."""
        link = self._link(address)
        begin = self._known.begin(link, begin, self._asking())
        taken, new = Taken(begin.committed), 0
        while (wanted := self._wanted(address, new, batch)) > 0:
            runs = link.fetch(wanted, within_s=self._options.drain_time_out_s)
            for run in joined(runs):
                new += batch.take(address, link, run, taken)
            if batch.fetched:
                self._mean_bytes = batch.fetched_bytes / batch.fetched
            if sum(len(run.entries) for run in runs) < wanted:
                break
        return QueueOffset((begin.committed | taken.new).newest(RANGES_MAX), begin.fetched + new)

    def _wanted(self, address: str, new: int, batch: "Fetch") -> int:
        """How many messages to request now, when ``new`` ones have come from this queue; 0 when the batch is full."""
        options = self._options
        wanted = min(options.link_credit, options.rows_max - batch.rows)
        if address in self._left:
            wanted = min(wanted, self._left[address] - new)
        bytes_left = options.bytes_max - batch.kept_bytes
        if not self._mean_bytes:
            return min(wanted, FIRST_FETCH)
        return min(
            wanted, int(bytes_left / self._mean_bytes) if batch.rows else max(1, int(bytes_left / self._mean_bytes))
        )

    def _link(self, address: str) -> ReceivingLink:
        options = self._options
        if self._connection is None:
            self._connection = options.login.connect(container_id=options.container_id)
        link = self._links.get(address)
        if link is None or not link.attached:
            link = self._links[address] = ReceivingLink.open(
                self._connection, address, name=options.link_name_of(address)
            )
        return link

    def _flush(self) -> None:
        if self._connection is not None and self._connection.failure is None:
            self._connection.flush()


def joined(runs: Sequence[Deliveries]) -> list[Deliveries]:
    """Runs whose delivery-ids follow one another as one run, of :data:`BATCH_ROWS` messages or a little more: many
    messages become rows at less cost than few."""
    longer: list[Deliveries] = []
    for run in runs:
        last = longer[-1] if longer else None
        if last is None or last.last + 1 != run.first or last.settled != run.settled or len(last.entries) >= BATCH_ROWS:
            longer.append(run)
        else:
            longer[-1] = Deliveries(last.first, last.entries + run.entries, run.settled)
    return longer


class Taken:
    """The sequence numbers that have come in this batch, and those that were committed before."""

    def __init__(self, before: Numbers) -> None:
        self.before = before
        self.new = Numbers()


class Fetch:
    """One micro-batch while it is fetched: the rows of all its queues, and the settlements with their times."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self.rows = 0
        """New rows: those that Spark gets, and bad ones."""
        self.kept_bytes = 0
        self.fetched = 0
        """Messages, with those that were committed before."""
        self.fetched_bytes = 0
        self.settlements: list[Settlement] = []
        """To be done when the batch is committed."""
        self.at_once: list[Settlement] = []
        """To be done at once: for messages that were committed before."""
        self._options = options
        self._schema = schema
        self._parts: list[tuple[MessageRows, set[int]]] = []
        """Rows, and the places of those that Spark does not get."""

    def take(self, address: str, link: ReceivingLink, run: Deliveries, taken: Taken) -> int:
        """Take a run of deliveries. Returns how many of them are new."""
        if not self._parts or self._parts[-1][0].address != address or len(self._parts[-1][0]) >= BATCH_ROWS:
            self._parts.append((MessageRows(address, self._schema), set()))
        rows, left_out = self._parts[-1]
        begin = len(rows)
        rows.take(run.entries)
        _check_is_queue(address, run.entries[0])
        self.fetched += len(run.entries)
        size = sum(map(len, run.entries))
        self.fetched_bytes += size
        numbers = rows.numbers[begin:]
        repeated = repeated_places(numbers, taken.before | taken.new)
        outcomes = self._outcomes(rows, begin, len(numbers))
        if not repeated and not outcomes:  # nearly always
            taken.new |= numbers_of(numbers)
            self.settlements.append(Settlement(link, run.first, run.last, ACCEPTED))
            self.rows += len(numbers)
            self.kept_bytes += size
            return len(numbers)
        new: list[int | None] = []
        for place, number in enumerate(numbers):
            outcome = outcomes.get(place, ACCEPTED)
            settlement = Settlement(link, run.first + place, run.first + place, outcome)
            (self.at_once if place in repeated else self.settlements).append(settlement)
            if place in repeated or place in outcomes:
                left_out.add(begin + place)
            if place not in repeated and not isinstance(outcome, Modified):
                new.append(number)
        taken.new |= numbers_of(new)
        fresh = len(numbers) - len(repeated)
        self.rows += fresh
        self.kept_bytes += size * fresh // len(numbers)
        return fresh

    def columns(self) -> list[pa.RecordBatch]:
        """Return the rows. Raises BadMessage for a message that cannot become a row, if the options say so."""
        for rows, _ in self._parts:
            check_bad(self._options, rows)
        parts = [rows.columns(left_out=left_out) for rows, left_out in self._parts]
        return [part for part in parts if part.num_rows]

    def _outcomes(self, rows: MessageRows, begin: int, count: int) -> dict[int, Outcome]:
        """The outcomes of messages that Spark does not get, by their place in the run."""
        if not rows.bad or self._options.on_bad_row not in ("reject", "release"):
            return {}
        return {
            bad.place - begin: _refusal(self._options, bad.reason)
            for bad in rows.bad
            if begin <= bad.place < begin + count
        }


def _refusal(options: SourceOptions, reason: str) -> Outcome:
    if options.on_bad_row == "release":
        return TRIED_IN_VAIN
    return Rejected(error=Error(condition=ErrorCondition.DECODE_ERROR, description=reason))


def numbers_of(numbers: list[int] | list[int | None]) -> Numbers:
    """The set of the numbers that are not None. They are nearly always consecutive, but may be in any order."""
    if numbers and numbers[0] is not None and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return Numbers([(numbers[0], numbers[0] + len(numbers) - 1)])
    return Numbers.of(number for number in numbers if number is not None)


def repeated_places(numbers: list[int | None], before: Numbers) -> set[int]:
    """The places of the numbers that are in ``before``."""
    present = [number for number in numbers if number is not None]
    if not present or not before.ranges or min(present) > before.ranges[-1][1]:
        return set()
    return {place for place, number in enumerate(numbers) if number is not None and number in before}


def _check_is_queue(address: str, entry: bytes) -> None:
    if OFFSET_ANNOTATION.encode() in entry[:256]:  # the broker puts it at the beginning of the message
        raise BadOption(f"{address} is a stream: set option mode to stream")


# --- reading a batch again -----------------------------------------------------------------------------------------


def read_again(options: SourceOptions, start: Json, end: Json, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch that was planned before a crash and not committed. It runs in a task, and settles
    nothing.

    Messages may be missing at first, while the broker has not noticed that their consumer has died. The task waits for
    them as long as ``drainTimeout`` says. Raises DataLost for those that do not come.
    """
    begins, ends = queue_offsets(start, options.addresses), queue_offsets(end, options.addresses)
    before, known = identities_in(start), identities_in(end)
    with options.login.connect(container_id=options.container_id) as connection:
        for address in options.addresses:
            rows = MessageRows(address, schema)
            link = ReceivingLink.open(connection, address, name=options.link_name_of(address))
            if is_another(options, address, known.get(address), link.queue_identity):
                link.close()
                continue
            anew = are_two(before.get(address), known.get(address))
            wanted = ends[address].committed - (Numbers() if anew else begins[address].committed)
            if wanted.ranges:
                entries = _with_numbers(options, connection, link, wanted)
            else:
                entries = _as_many(options, connection, link, ends[address].fetched - begins[address].fetched)
            rows.take(entries)
            check_bad(options, rows)
            left_out = () if options.on_bad_row == "null" else {bad.place for bad in rows.bad}
            if len(rows):
                yield rows.columns(left_out=left_out)
            link.close()


def _with_numbers(
    options: SourceOptions, connection: BlockingConnection, link: ReceivingLink, wanted: Numbers
) -> list[bytes]:
    """Return the messages with these numbers, in order."""
    found: dict[int, bytes] = {}

    def take(runs: list[Deliveries]) -> int:
        for run in runs:
            found.update(
                (number, entry)
                for number, entry in zip(map(number_in, run.entries), run.entries, strict=True)
                if number is not None and number in wanted
            )
        return len(wanted) - len(found)

    missing = _until_none_missing(options, connection, link, take, len(wanted))
    if missing and options.fail_on_data_loss:
        left = wanted - Numbers.of(found)
        raise DataLost(
            f"{link.address}: {missing} messages of the batch that was begun before the crash did not come again "
            f"within {options.drain_time_out_s:g} s, the first with the number {left.ranges[0][0]}: they expired, or "
            "another consumer took them; option failOnDataLoss=false goes on with what is left"
        )
    return [found[number] for number in sorted(found)]


def _as_many(options: SourceOptions, connection: BlockingConnection, link: ReceivingLink, count: int) -> list[bytes]:
    """Return ``count`` messages, or as many as there are, from a broker that stamps no numbers."""
    entries: list[bytes] = []

    def take(runs: list[Deliveries]) -> int:
        for run in runs:
            entries.extend(run.entries)
        return count - len(entries)

    _until_none_missing(options, connection, link, take, count)
    return entries


def _until_none_missing(
    options: SourceOptions,
    connection: BlockingConnection,
    link: ReceivingLink,
    take: Callable[[list[Deliveries]], int],
    missing: int,
) -> int:
    """Fetch until no message is missing or none has come for ``drainTimeout``. Returns how many are still missing."""
    waits = max(1, round(options.drain_time_out_s / LOOK_AGAIN_S))
    while missing > 0 and waits > 0:
        granted = min(missing, options.link_credit)
        runs = link.fetch(granted, within_s=options.drain_time_out_s)
        missing = take(runs)
        if not runs:
            waits -= 1
            connection.moved_until(lambda: False, within_s=LOOK_AGAIN_S)
    return missing
