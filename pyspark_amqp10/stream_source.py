"""Reading streams: where a micro-batch ends, how it is divided into tasks, and what a task reads.

The driver asks where the streams end and plans ranges of offsets; it reads no messages. A task attaches at the first
offset of its range, grants only as much link credit as the range needs, and stops before its end. Nothing is settled,
so Spark can have a range read again any number of times, with the same rows.

Lag is the difference between the end that Spark has reached and the end of the stream: in rows (an upper bound, since
offsets may leap), in bytes by the mean size of a row, and in seconds since the stream first went beyond that end.
"""

import logging
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import Final

import pyarrow as pa

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import ReceivingLink
from pyspark_amqp10.errors import BadMessage, DataLost, TimedOut
from pyspark_amqp10.found_streams import FoundStreams
from pyspark_amqp10.offsets import (
    Json,
    OffsetRange,
    admitted,
    are_two,
    first_offsets,
    identities_in,
    split,
    stream_json,
    stream_offsets,
    with_found,
    with_identities,
)
from pyspark_amqp10.options import Position, SourceOptions
from pyspark_amqp10.parts import number_in
from pyspark_amqp10.publisher_waits import UNKNOWN_WAITS, PublisherWaits
from pyspark_amqp10.rows import MessageRows
from pyspark_amqp10.stream_ends import Ends, StreamEnds, open_stream

BATCH_ROWS: Final = 10_000
"""Rows of one Arrow batch: Spark's own default."""
BATCH_BYTES_MAX: Final = 16 * 2**20
"""Bytes of the messages of one Arrow batch: what a task holds at once besides its link credit."""
SAMPLES_MAX: Final = 1024
"""Ends of a stream that are kept with their times, to compute the lag in seconds."""

log = logging.getLogger(__name__)


class StreamSource:
    """The driver's side, for all addresses of a query. Connects at the first question, and again after a lost
    connection."""

    def __init__(self, options: SourceOptions, *, clock: Callable[[], float] = monotonic, probe: bool = False) -> None:
        """``probe``: probe by attaching also where the broker answers a request."""
        self._options = options
        self._clock = clock
        self._probe = probe
        self._connection: BlockingConnection | None = None
        self._asking: StreamEnds | None = None
        self._waits: PublisherWaits | None = None
        self._ends: dict[str, Ends] = {}
        self._target: dict[str, int] | None = None
        """With AvailableNow: the offsets at which the query ends."""
        self._reached: dict[str, int] = {}
        self._lags: dict[str, Lag] = defaultdict(Lag)
        self._found: FoundStreams | None = None

    def first(self) -> Json:
        """The offset at which a query without a checkpoint begins, by ``startingOffsets`` or ``startingTimestamp``."""
        options = self._options
        return self._json(self._where(options.starting_offsets, options.starting_timestamp_ms, "latest"))

    def range(self) -> tuple[Json, Json]:
        """The first and the last offset of a batch query."""
        options = self._options
        start = self._where(options.starting_offsets, options.starting_timestamp_ms, "earliest")
        end = self._where(options.ending_offsets, options.ending_timestamp_ms, "latest")
        self._check_kept(start)
        return self._json(start), self._json(end)

    def stop_at_end(self) -> None:
        """Ignore messages that come after the present end."""
        self._target = {address: ends.end for address, ends in self._ask().items()}

    def latest(self, start: Json, rows_max: int | None, bytes_max: int | None) -> Json:
        """The end of the micro-batch that begins at ``start``."""
        begins = self._begins(start)
        known = identities_in(start)
        ends = self._ask()
        found = self._follow_pattern(begins)
        self._check_same(begins, known)
        self._check_kept(begins)
        latest = {address: one.end for address, one in ends.items()}
        if self._target is not None:
            latest = {address: min(end, self._target.get(address, begins[address])) for address, end in latest.items()}
        for address in latest:
            if ends[address].end < begins[address]:  # declared again, and data loss is allowed
                begins[address] = ends[address].first
        limit = rows_max
        if bytes_max is not None:
            row_bytes = max((one.row_bytes for one in ends.values()), default=0.0)
            if row_bytes:
                limit = min(max(1, int(bytes_max / row_bytes)), rows_max or bytes_max)
        self._reached = admitted(begins, latest, limit)
        for address, first in list(found.items()):
            if self._reached[address] == first:  # it is found again when it has something to read
                del self._reached[address], found[address]
        known = {address: identity for address, identity in known.items() if address in self._reached}
        return with_found(self._json(self._reached, known), found)

    def ranges(self, start: Json, end: Json) -> list[OffsetRange]:
        """The ranges for the tasks of a micro-batch."""
        begins = first_offsets(end) | self._begins(start)
        before, after = identities_in(start), identities_in(end)
        ranges: list[OffsetRange] = []
        for address, last in sorted(self._begins(end).items()):
            identity = after.get(address)
            anew = begins[address] > last or are_two(before.get(address), identity)  # and data loss is allowed
            ranges.append(OffsetRange(address, 0 if anew else begins[address], last, identity))
        return split(ranges, self._options.min_partitions)

    def lag(self) -> Json:
        """The present ends of the streams, the lag of the planned batches, and the flow control at the streams."""
        ends = self._ask()
        report = self._json({address: one.end for address, one in ends.items()})
        lags = [
            self._lags[address].of(self._reached.get(address, one.end), one, self._clock())
            for address, one in ends.items()
        ]
        report["lag"] = {
            "rows": sum(rows for rows, _, _ in lags),
            "bytes": sum(size for _, size, _ in lags),
            "seconds": round(max((seconds for _, _, seconds in lags), default=0.0), 3),
        }
        waits = UNKNOWN_WAITS if self._waits is None else self._waits.of(ends)
        report["flow"] = waits | {"link_credit": self._options.link_credit}
        return report

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = self._asking = None

    # --- inside ----------------------------------------------------------------------------------------------------

    def _begins(self, start: Json) -> dict[str, int]:
        """The offsets that a checkpoint has of the streams of this query."""
        return stream_offsets(start, None if self._options.pattern is not None else self._options.addresses)

    def _follow_pattern(self, begins: dict[str, int]) -> dict[str, int]:
        """Add the streams to ``begins`` that were not there before, from their first message on, and take those away
        that are gone. Returns the new ones. Raises DataLost."""
        if self._options.pattern is None:
            return {}
        for address in sorted(set(begins) - set(self._ends)):
            lost(
                self._options, f"{address}: the stream was deleted, or its name does not fit subscribePattern any more"
            )
            del begins[address]
        found = {address: ends.first for address, ends in self._ends.items() if address not in begins}
        begins |= found
        return found

    def _ask(self) -> dict[str, Ends]:
        options = self._options
        if self._connection is None or self._asking is None or self._connection.failure is not None:
            self._connection = options.login.connect(container_id=options.container_id)
            self._asking = StreamEnds(self._connection, drain_time_out_s=options.drain_time_out_s, probe=self._probe)
            self._waits = PublisherWaits(self._connection)
            self._found = None if options.pattern is None else FoundStreams(self._connection, options.pattern)
        addresses = options.addresses if self._found is None else self._found.addresses()
        self._ends = {address: self._asking.of(address) for address in addresses}
        for address, ends in self._ends.items():
            self._lags[address].sampled(ends.end, self._clock())
        return self._ends

    def _where(
        self, offsets: Position | Mapping[str, Position] | None, time_ms: int | None, default: Position
    ) -> dict[str, int]:
        ends = self._ask()
        assert self._asking is not None
        if time_ms is not None:
            return {address: self._asking.at(address, time_ms, one) for address, one in ends.items()}
        places: dict[str, int] = {}
        for address, one in ends.items():
            position = offsets[address] if isinstance(offsets, Mapping) else offsets or default
            if isinstance(position, int):
                places[address] = position
            else:
                places[address] = one.first if position == "earliest" else one.end
        return places

    def _json(self, offsets: Mapping[str, int], known: Mapping[str, str] | None = None) -> Json:
        """Offsets with the identities that the broker sends, or with those ``known`` where it sends none."""
        ends = self._ends.items()
        told = {address: one.identity for address, one in ends if one.identity is not None and address in offsets}
        return with_identities(stream_json(offsets), {**(known or {}), **told})

    def _check_same(self, begins: dict[str, int], known: Mapping[str, str]) -> None:
        """Begin a stream that is not the one that was read at its first offset, where data loss is allowed."""
        for address, one in self._ends.items():
            if is_another(self._options, address, known.get(address), one.identity):
                begins[address] = one.first
                self._lags[address] = Lag()

    def _check_kept(self, begins: Mapping[str, int]) -> None:
        for address, begin in begins.items():
            ends = self._ends[address]
            if begin < ends.first:
                lost(self._options, f"{address}: offsets {begin} to {ends.first - 1} are gone, by its retention")
            elif begin > ends.end:
                lost(
                    self._options,
                    f"{address}: the query is at offset {begin}, but the stream ends at {ends.end}: it was deleted and "
                    "declared anew, or the offset is wrong",
                )


class Lag:
    """How far one stream is ahead of the reached offset, with the times at which its ends were seen."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, float]] = deque(maxlen=SAMPLES_MAX)
        """Ends and times, both ascending."""

    def sampled(self, end: int, now: float) -> None:
        """Note the end of the stream at this time."""
        if not self._samples or end > self._samples[-1][0]:
            self._samples.append((end, now))

    def of(self, reached: int, ends: Ends, now: float) -> tuple[int, int, float]:
        """Rows, bytes, and seconds since the stream was first seen beyond the reached offset."""
        rows = max(0, ends.end - max(reached, ends.first))
        if not rows:
            return 0, 0, 0.0
        samples = list(self._samples)
        place = bisect_right(samples, reached, key=lambda sample: sample[0])
        since = samples[place][1] if place < len(samples) else now
        return rows, round(rows * ends.row_bytes), now - since


def lost(options: SourceOptions, what: str) -> None:
    """Report lost rows: raise or log, as ``failOnDataLoss`` says."""
    if options.fail_on_data_loss:
        raise DataLost(f"{what}; option failOnDataLoss=false goes on with what is left")
    log.warning("%s; going on with what is left", what)


def is_another(options: SourceOptions, address: str, known: str | None, told: str | None) -> bool:
    """Whether a queue or stream is not the one that was read, as their identities show. Then the offsets read so far
    say nothing about the present one. Raises DataLost, as ``failOnDataLoss`` says."""
    if not are_two(known, told):
        return False
    lost(
        options,
        f"{address} was deleted and declared anew: the query has read the one with the identity {known}, and the one "
        f"that is there now has {told}; another checkpointLocation begins a new query",
    )
    return True


# --- a task --------------------------------------------------------------------------------------------------------


def read_range(options: SourceOptions, wanted: OffsetRange, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range of offsets, as Arrow batches. It opens its own connection: it runs in another
    process."""
    with options.login.connect(container_id=options.container_id) as connection:
        link = open_stream(connection, wanted.address, wanted.first, name=options.link_name)
        if is_another(options, wanted.address, wanted.identity, link.queue_identity):
            return
        link.stream(options.link_credit, messages=wanted.end - wanted.first)
        held: list[bytes] = []
        held_bytes, first = 0, True
        for entries in _entries(options, connection, link, wanted):
            if first:
                first = False
                _check_first(options, connection, wanted, number_in(entries[0]))
            held += entries
            held_bytes += sum(map(len, entries))
            if len(held) >= BATCH_ROWS or held_bytes >= BATCH_BYTES_MAX:
                yield _columns(options, wanted, held, schema)
                held, held_bytes = [], 0
        if held:
            yield _columns(options, wanted, held, schema)


def _columns(options: SourceOptions, wanted: OffsetRange, entries: list[bytes], schema: pa.Schema) -> pa.RecordBatch:
    """The columns of messages, without bad ones that are to be left out. Many at once cost less than few."""
    rows = MessageRows(wanted.address, schema)
    rows.take(entries)
    check_bad(options, rows)
    return rows.columns(left_out=() if options.on_bad_row == "null" else {one.place for one in rows.bad})


def check_bad(options: SourceOptions, rows: MessageRows) -> None:
    """With ``onBadRow`` fail, raise BadMessage for a message that could not be decoded, which ends the query."""
    if rows.bad and options.on_bad_row == "fail":
        place, reason = rows.bad[0]
        number = rows.numbers[place]
        message = "a message without a number" if number is None else f"the message with the number {number}"
        raise BadMessage(
            f"{rows.address}: {message} cannot become a row: {reason}; option onBadRow can leave such messages out, or "
            "make rows of their bytes"
        )


def _entries(
    options: SourceOptions, connection: BlockingConnection, link: ReceivingLink, wanted: OffsetRange
) -> Iterator[list[bytes]]:
    """The messages of the range, in lists that are not empty. Brokers may send some before it, by whole chunks."""
    last = wanted.first - 1
    while last < wanted.end - 1:
        runs = link.arrived(within_s=options.drain_time_out_s)
        if not runs:
            _missing(options, connection, wanted, last + 1)
            return
        for run in runs:
            low, last = _number(run.entries[0], wanted), _number(run.entries[-1], wanted)
            entries = run.entries
            if low < wanted.first:
                entries = entries[bisect_left(entries, wanted.first, key=lambda one: _number(one, wanted)) :]
            if last >= wanted.end:
                entries = entries[: bisect_left(entries, wanted.end, key=lambda one: _number(one, wanted))]
            if entries:
                yield entries
            if last >= wanted.end:
                return


def _number(entry: bytes, wanted: OffsetRange) -> int:
    number = number_in(entry)
    if number is None:
        raise BadMessage(f"{wanted.address}: a message without an offset; the broker does not say where it stands")
    return number


def _check_first(
    options: SourceOptions, connection: BlockingConnection, wanted: OffsetRange, first: int | None
) -> None:
    """Check a first message behind the first wanted offset: offsets have leapt, or retention has removed messages."""
    if first is None or first == wanted.first:
        return
    ends = StreamEnds(connection, drain_time_out_s=options.drain_time_out_s).of(wanted.address)
    if ends.first > wanted.first:
        lost(options, f"{wanted.address}: offsets {wanted.first} to {ends.first - 1} are gone, by its retention")


def _missing(options: SourceOptions, connection: BlockingConnection, wanted: OffsetRange, begin: int) -> None:
    """Raise the reason why no messages came for so long."""
    ends = StreamEnds(connection, drain_time_out_s=options.drain_time_out_s).of(wanted.address)
    if ends.end < wanted.end or ends.first >= wanted.end:
        lost(
            options,
            f"{wanted.address}: offsets {begin} to {wanted.end - 1} are wanted, but the stream has {ends.first} to "
            f"{ends.end - 1}",
        )
        return
    raise TimedOut(
        f"{wanted.address}: offsets {begin} to {wanted.end - 1} did not come within {options.drain_time_out_s:g} s; "
        "option drainTimeout can be longer"
    )
