"""The triggered run: reads new events, pairs blocked and unblocked records, recomputes the answers, and stops.

The position up to which events were read is stored beside the tables: the next run continues there, also when this one
was killed. So no event is in ``flow_events`` twice, and a stall at the end of this run is paired with its end in the
next.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.jobs.warehouse import BRONZE, SILVER, checkpoint_of, path_of, read, write
from pipeline.tables import bench, bottlenecks, bronze, gold, silver
from pipeline.tables.capacity import capacity
from pipeline.tables.records import FLOW_EVENTS, spark_schema

Progress = Callable[[str], None]
LOOK_SECONDS = 1
"""Seconds between two checks of a query's progress."""


def run(spark: SparkSession, events: DataFrame, warehouse: str, *, benches: str | None, progress: Progress) -> None:
    """Update all tables. ``events`` is a streaming data frame of ``flow_events``; ``benches`` a folder of result
    files."""
    take_in(spark, events, warehouse, progress)
    answer(spark, warehouse, progress)
    if benches is not None:
        progress("bench_results: the benchmarks' result files")
        results = write(bench.bench_results(spark, benches), warehouse, "bench_results")
        write(bench.bench_compared(results), warehouse, "bench_compared")


def take_in(spark: SparkSession, events: DataFrame, warehouse: str, progress: Progress) -> None:
    """Read new events into bronze and silver."""
    append(events, warehouse, BRONZE, progress)
    kept = spark.readStream.schema(spark_schema(FLOW_EVENTS)).parquet(path_of(warehouse, BRONZE))
    append(silver.block_events(kept), warehouse, SILVER, progress)


def append(table: DataFrame, warehouse: str, name: str, progress: Progress) -> None:
    """Append new rows to a table, then stop."""
    query = (
        table.writeStream.format("parquet")
        .outputMode("append")
        .option("checkpointLocation", checkpoint_of(warehouse, name))
        .trigger(availableNow=True)
        .start(path_of(warehouse, name))
    )
    follow(query, name, progress)


def follow(query: StreamingQuery, name: str, progress: Progress) -> None:
    """Wait until a query ends, and report its progress; raises its error."""
    told = -1
    try:
        while not query.awaitTermination(LOOK_SECONDS):
            told = _tell(query, name, told, progress)
    finally:
        query.stop()
    _tell(query, name, told, progress)


def _tell(query: StreamingQuery, name: str, told: int, progress: Progress) -> int:
    rows = sum(batch.numInputRows for batch in query.recentProgress)
    if rows != told:
        progress(f"{name}: {rows:,} rows read")
    return rows


def answer(spark: SparkSession, warehouse: str, progress: Progress) -> None:
    """Recompute the tables made from bronze and silver."""

    def make(name: str, table: DataFrame) -> DataFrame:
        progress(name)
        return write(table, warehouse, name)

    events = read(spark, warehouse, BRONZE)
    make("event_counts", bronze.event_counts(events))
    links = make("links", gold.links(events))
    intervals = read(spark, warehouse, SILVER).unionByName(silver.open_intervals(events))
    intervals = make("intervals", intervals)
    seconds = make("link_seconds", gold.link_seconds(events))
    blocked = make("blocked_seconds", gold.blocked_seconds(intervals))
    timeline = make("link_timeline", gold.link_timeline(seconds, blocked))
    make("queue_seconds", gold.queue_seconds(timeline, links))
    make("waits", gold.waits(seconds))
    make("closed_windows", gold.closed_windows(events))
    shares = make("blocked_shares", gold.blocked_shares(intervals, events))
    flow = make("bottleneck_seconds", bottlenecks.bottleneck_seconds(bottlenecks.stages_in_flow(events)))
    make("bottlenecks", bottlenecks.bottlenecks(flow, shares, links))
    make("capacity", capacity(timeline, flow, links))
