"""The sources of flow events: the broker's stream, or a folder of Parquet files with messages or with rows."""

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession

from pipeline.tables import bronze
from pipeline.tables.records import FLOW_EVENTS, spark_schema

FLOW_STREAM = "/queues/%24flow"
"""The address of the stream ``$flow``."""
MESSAGES = "offset bigint, body binary"


class NoSource(Exception):
    """The named source cannot be read. The text says why, and what can be read."""


def broker_stream(spark: SparkSession, connector: dict[str, str]) -> DataFrame:
    """``flow_events`` from ``$flow`` of a broker, from its first message on, as a streaming data frame."""
    options = {"address": FLOW_STREAM, "mode": "stream", "startingOffsets": "earliest", "includeHeaders": "false"}
    return bronze.flow_events(spark.readStream.format("amqp10").options(**options | connector).load())


def folder_stream(spark: SparkSession, folder: str) -> DataFrame:
    """``flow_events`` from a folder, as a streaming data frame. Raises NoSource."""
    names = _column_names(folder)
    if "body" in names:
        return bronze.flow_events(spark.readStream.schema(MESSAGES).parquet(folder))
    if {"kind", "at"} <= names:
        return spark.readStream.schema(spark_schema(FLOW_EVENTS)).parquet(folder)
    raise NoSource(
        f"{folder} has neither messages (a column body) nor flow events (columns kind, at, ...);"
        f" its columns are {', '.join(sorted(names))}"
    )


def _column_names(folder: str) -> set[str]:
    """The columns of the files in a folder. They are read here and not by Spark, whose error message would be a page
    long."""
    if not Path(folder).is_dir():
        raise NoSource(f"{folder} is no folder; make one with: python -m pipeline generate --out {folder}")
    try:
        names = set(ds.dataset(folder, format="parquet").schema.names)
    except (pa.ArrowInvalid, OSError) as problem:
        raise NoSource(f"{folder} cannot be read as Parquet: {str(problem).splitlines()[0]}") from None
    if not names:
        raise NoSource(f"{folder} has no Parquet files")
    return names
