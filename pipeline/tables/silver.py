"""Silver: what stood still, from when until when, and why. Two records, ``blocked`` and ``unblocked``, become one row.

The records of a connection are processed in order, separately for each link and direction. A link that is still blocked
when a batch ends stays in the state until its end comes, in this batch or after a restart.

An interval also ends where its ``unblocked`` cannot come any more: the link or the connection is gone, the link is
blocked again, or the broker has restarted and uses its numbers again. ``ended_by`` says which; except for ``unblocked``
the end is the latest possible one.

With ``stall_after_ms`` a timer reports a link that has stood still for that long and still does: a row ``stall``, and a
row ``stall-over`` when it goes on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from pipeline.tables.days import day_begin, horizon
from pipeline.tables.records import spark_schema

KINDS = ("blocked", "unblocked", "link-detached", "connection-opened", "connection-closed")
"""The records that begin and end intervals."""
INPUT = ("node", "connection", "kind", "sequence", "position", "link", "direction", "address", "reason", "culprit")

BLOCK_INTERVALS = {
    "event": "string",
    "node": "string",
    "connection": "string",
    "link": "string",
    "direction": "string",
    "address": "string",
    "reason": "string",
    "culprit": "string",
    "since": "timestamp",
    "until": "timestamp",
    "seconds": "double",
    "ended_by": "string",
}
"""``event`` is ``interval``; with a timer also ``stall`` and ``stall-over``. ``link`` is null for a 0.9.1 reader."""

_PAIRED = {**BLOCK_INTERVALS, "since": "bigint", "until": "bigint"}
"""In the processor times are microseconds since 1970: a Python datetime would depend on the process's time zone."""
_OPEN_KEY = "link string, direction string"
_OPEN_VALUE = "address string, reason string, culprit string, since_us bigint, told boolean"


@dataclass(frozen=True, slots=True)
class BlockedInterval:
    """A link or reader that stands still, as it is kept in the state."""

    address: str | None
    reason: str | None
    culprit: str | None
    since_us: int
    told: bool = False

    def value(self) -> tuple[object, ...]:
        return (self.address, self.reason, self.culprit, self.since_us, self.told)


def block_events(events: DataFrame, *, stall_after_ms: int | None = None) -> DataFrame:
    """Rows of ``block_intervals`` from ``flow_events``, a streaming data frame."""
    return (
        events.filter(F.col("kind").isin(*KINDS) & F.col("connection").isNotNull())
        .select(
            *INPUT,
            F.unix_micros("at").alias("at"),
            F.coalesce(F.unix_micros("since"), F.unix_micros("at") - (F.col("seconds") * 1e6).cast("bigint")).alias(
                "since"
            ),
        )
        .groupBy("node", "connection")
        .transformWithState(
            BlockProcessor(stall_after_ms),
            spark_schema(_PAIRED),
            "Append",
            "None" if stall_after_ms is None else "ProcessingTime",
        )
        .withColumn("since", F.timestamp_micros("since"))
        .withColumn("until", F.timestamp_micros("until"))
    )


def intervals(events: DataFrame, *, newest: str | None = None) -> DataFrame:
    """``intervals``: what stood still on each day, also what still does at the day's end (``ended_by`` is ``open``).

    ``events`` have days and begin with the records in effect (:mod:`pipeline.tables.days`). An interval over midnight
    has a row on each day, of that day's part; ``began`` is when the whole interval began.
    """
    return paired_intervals(events).unionByName(open_intervals(events, newest=newest))


def open_intervals(events: DataFrame, *, newest: str | None = None) -> DataFrame:
    """The stalls that go on at the end of a day: ``until`` is midnight, or on the newest day the time of its last
    record.

    A plain query over bronze: it finds links whose newest record that begins or ends an interval is a ``blocked``.
    """
    places = ("day", "node", "connection", "link", "direction")
    latest = F.max_by(F.struct("day", *INPUT, "at", "since"), F.struct("at", "sequence", "position"))
    links = (
        events.filter(F.col("kind").isin("blocked", "unblocked", "link-detached"))
        .groupBy(*places)
        .agg(latest.alias("latest"))
        .select("latest.*")
        .filter("kind = 'blocked'")
    )
    ends = (
        events.filter(F.col("kind").isin("connection-opened", "connection-closed"))
        .groupBy("day", "node", "connection")
        .agg(F.max("at").alias("ended"))
    )
    still = (
        links.join(ends, ["day", "node", "connection"], "left")
        .filter("ended is null or ended < at")
        .join(F.broadcast(horizon(events, newest)), "day")
        .withColumn("until", F.timestamp_micros("horizon_us"))
        .withColumn("ended_by", F.lit("open"))
    )
    return _parts(still)


def paired_intervals(events: DataFrame) -> DataFrame:
    """The intervals that end on each day, as a plain query over bronze, without state between runs.

    Over the records of one day the rows are those of :func:`block_events`: an ``unblocked`` has all facts of its
    interval, and a ``blocked`` that is followed by another record ends there.
    """
    place = Window.partitionBy("day", "node", "connection", "link", "direction").orderBy("at", "sequence", "position")
    later = [F.lead(name).over(place).alias(f"next_{name}") for name in ("kind", "at", "since")]
    own = events.filter(F.col("kind").isin("blocked", "unblocked", "link-detached")).select(
        "day", *INPUT, "at", "since", *later
    )
    whole = events.filter(F.col("kind").isin("connection-opened", "connection-closed")).select(
        *(F.col(name).alias(f"whole_{name}") for name in ("day", "node", "connection", "at", "kind"))
    )
    gone = [F.col(f"whole_{name}") == F.col(name) for name in ("day", "node", "connection")]
    ended = F.struct(F.col("whole_at").alias("at"), F.col("whole_kind").alias("kind"))
    begun = own.filter("kind = 'blocked'")
    lost = (
        begun.join(whole, [*gone, F.col("whole_at") >= F.col("at")], "left")
        .groupBy("day", *INPUT, "at", "since", "next_kind", "next_at", "next_since")
        .agg(F.min(F.when(F.col("whole_at").isNotNull(), ended)).alias("gone"))
        .withColumn("next", F.when(F.col("next_kind").isNotNull(), _following()))
        .withColumn("end", F.least("next", "gone"))
        .filter("end is not null and end.kind != 'unblocked'")
        .select("day", *INPUT, "since", F.col("end.at").alias("until"), F.col("end.kind").alias("ended_by"))
    )
    over = own.filter("kind = 'unblocked'").select(
        "day", *INPUT, "since", F.col("at").alias("until"), F.col("kind").alias("ended_by")
    )
    return _parts(over.unionByName(lost))


def _parts(found: DataFrame) -> DataFrame:
    """The parts of intervals that lie in their day."""
    since = F.timestamp_micros(F.greatest(F.unix_micros("since"), day_begin()))
    return (
        found.withColumn("began", F.col("since"))
        .withColumn("since", since)
        .select(
            "day",
            F.lit("interval").alias("event"),
            *("node", "connection", "link", "direction", "address", "reason", "culprit", "since", "until"),
            ((F.unix_micros("until") - F.unix_micros("since")) / 1e6).alias("seconds"),
            "ended_by",
            "began",
        )
    )


def _following() -> Column:
    """Kind and time of the next record of the same link and direction; the time of a ``blocked`` is its ``since``."""
    at = F.when(F.col("next_kind") == "blocked", F.col("next_since")).otherwise(F.col("next_at"))
    return F.struct(at.alias("at"), F.col("next_kind").alias("kind"))


class BlockProcessor(StatefulProcessor):
    """Pairs the records of one connection. Its state: what stands still of it, by link and direction."""

    def __init__(self, stall_after_ms: int | None = None) -> None:
        self._stall_after_ms = stall_after_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls this once for each partition."""
        self._handle = handle
        self._open = handle.getMapState("open", _OPEN_KEY, _OPEN_VALUE)

    def handleInputRows(
        self, key: tuple[object, ...], rows: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:  # fmt: skip
        """Process the records of one connection in this batch."""
        for row in sorted(rows, key=lambda row: (row["at"], row["sequence"] or 0, row["position"] or 0)):
            match row["kind"]:
                case "blocked":
                    yield from self._blocked(key, row, timerValues)
                case "unblocked":
                    yield from self._unblocked(key, row)
                case "link-detached":
                    yield from self._end(key, _place(row), row["at"], "link-detached")
                case ended_by:
                    for place, _ in list(self._open.iterator()):
                        yield from self._end(key, place, row["at"], ended_by)

    def handleExpiredTimer(
        self, key: tuple[object, ...], timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:  # fmt: skip
        """Report what has stood still for long enough in this connection."""
        assert self._stall_after_ms is not None
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        for place, value in list(self._open.iterator()):
            found = BlockedInterval(*value)
            if not found.told and found.since_us // 1000 + self._stall_after_ms <= now_ms:
                self._open.updateValue(place, replace(found, told=True).value())
                yield _row("stall", key, place, found, until=now_ms * 1000, ended_by=None)

    def _blocked(self, key: tuple[object, ...], row: Row, timers: TimerValues) -> Iterator[Row]:
        place, since_us = _place(row), row["at"] if row["since"] is None else row["since"]
        yield from self._end(key, place, since_us, "blocked")
        self._open.updateValue(place, BlockedInterval(row["address"], row["reason"], row["culprit"], since_us).value())
        if self._stall_after_ms is not None:
            due_ms = since_us // 1000 + self._stall_after_ms
            self._handle.registerTimer(max(due_ms, timers.getCurrentProcessingTimeInMs()))

    def _unblocked(self, key: tuple[object, ...], row: Row) -> Iterator[Row]:
        """End an interval. The record has all facts; the one of the beginning may be dropped, or before the first
        record."""
        place, until = _place(row), row["at"]
        value = self._open.getValue(place)
        told = value is not None and BlockedInterval(*value).told
        self._open.removeKey(place)
        since_us = until if row["since"] is None else row["since"]
        found = BlockedInterval(row["address"], row["reason"], row["culprit"], since_us, told)
        yield from _ended(key, place, found, until, "unblocked")

    def _end(self, key: tuple[object, ...], place: tuple[str, str], until: int, ended_by: str) -> Iterator[Row]:
        value = self._open.getValue(place)
        if value is not None:
            self._open.removeKey(place)
            yield from _ended(key, place, BlockedInterval(*value), until, ended_by)


def _ended(
    key: tuple[object, ...], place: tuple[str, str], found: BlockedInterval, until: int, ended_by: str
) -> Iterator[Row]:  # fmt: skip
    yield _row("interval", key, place, found, until=until, ended_by=ended_by)
    if found.told:
        yield _row("stall-over", key, place, found, until=until, ended_by=ended_by)


def _row(
    event: str,
    key: tuple[object, ...],
    place: tuple[str, str],
    found: BlockedInterval,
    *,
    until: int,
    ended_by: str | None,
) -> Row:
    node, connection = key
    link, direction = place
    values = (
        event, node, connection, link or None, direction, found.address, found.reason, found.culprit,
        found.since_us, until, max(until - found.since_us, 0) / 1e6, ended_by,
    )  # fmt: skip
    return Row(**dict(zip(BLOCK_INTERVALS, values, strict=True)))


def _place(row: Row) -> tuple[str, str]:
    """Keys of the state, which are never null: a 0.9.1 reader has no link."""
    return (row["link"] or "", row["direction"] or "")
