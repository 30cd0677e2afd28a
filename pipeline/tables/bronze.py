"""Bronze: the broker's records, one row for each."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.tables.days import own_records
from pipeline.tables.packets import rows_of
from pipeline.tables.records import FIELDS, FLOW_EVENTS, arrow_schema, spark_schema

ROWS_AT_ONCE = 8_192
"""Rows of a batch that is returned to Spark: 3 MB of activity records."""


def flow_events(messages: DataFrame) -> DataFrame:
    """``flow_events`` from messages with a ``body`` and an ``offset``, which is null for messages that come from no
    stream."""
    return messages.select("offset", "body").mapInArrow(_decode, spark_schema(FLOW_EVENTS))


def _decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(FLOW_EVENTS)
    rows: list[dict[str, object]] = []
    for batch in batches:
        for offset, body in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            rows += rows_of(body, offset=offset)
            if len(rows) >= ROWS_AT_ONCE:
                yield pa.RecordBatch.from_pylist(rows, schema=schema)
                rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def event_counts(events: DataFrame) -> DataFrame:
    """``event_counts``: counts of records by day, node and kind, and of those that this version does not know.

    ``unknown`` counts records of kinds, or with fields, of a later schema; they are kept. A row without a kind counts
    packets that could not be read; ``fault`` has one of the reasons. ``dropped`` counts records for which the broker
    had no room.
    """
    known = F.col("kind").isin(*FIELDS)
    return (
        own_records(events)
        .groupBy("day", "node", "kind")
        .agg(
            F.count("*").alias("records"),
            F.count_if(F.col("kind").isNotNull() & (~known | F.col("rest").isNotNull())).alias("unknown"),
            F.coalesce(F.sum(F.when(F.col("kind") == "dropped", F.col("records"))), F.lit(0)).alias("dropped"),
            F.min("at").alias("first"),
            F.max("at").alias("last"),
            F.min("fault").alias("fault"),
        )
    )
