"""Tutorial 17: Spark moves a queue into a table of Iceberg, exactly once, and back, with PyIceberg and without a jar.

To run it as 18_spark_lake.py, whose step ``fill`` fills the queue:

    pip install 'pyiceberg[sql-sqlite,pyarrow]'
    spark-submit --master 'local[2]' examples/18_spark_lake.py fill
    spark-submit --master 'local[2]' examples/18_spark_iceberg.py archive
    spark-submit --master 'local[2]' examples/18_spark_iceberg.py send-back
"""

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of
from pyspark.sql import DataFrame, SparkSession

TABLE = "shop.sales"
QUERY = "spark.sql.streaming.queryId"
BATCH = "spark.sql.streaming.epochId"
"""With these two properties Iceberg's own sink for Spark marks its snapshots."""


def catalog(folder: str) -> SqlCatalog:
    """A catalog in a file of SQLite, for one machine; ``pyiceberg.catalog.load_catalog`` opens others."""
    root = Path(folder).absolute() / "iceberg"
    root.mkdir(parents=True, exist_ok=True)
    found = SqlCatalog("lake", uri=f"sqlite:///{root}/catalog.db", warehouse=root.as_uri())
    found.create_namespace_if_not_exists("shop")
    return found


def newest_batch(table: Table, query: str) -> int:
    """The newest batch of the query that the table has; -1 if it has none. The newest snapshot comes first."""
    for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
        if snapshot.summary is not None and snapshot.summary[QUERY] == query:
            return int(snapshot.summary[BATCH])
    return -1


def append(frame: DataFrame, batch: int, folder: str) -> None:
    """Append a batch to the table, unless the table has it.

    The snapshot with the rows also says which batch of which query they are. Spark repeats a batch if it was killed
    before it had noted that the batch was done; then the table has a snapshot with the number of the batch already.
    The id of the query is that of its checkpoint, so a new checkpoint, whose batches begin at 0 again, is another
    query.
    """
    query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    rows = frame.toArrow()
    # PyIceberg repeats a commit that another one has overtaken. That may be one of a second run of this query.
    once = {"commit.retry.num-retries": "0"}
    table = catalog(folder).create_table_if_not_exists(TABLE, schema=rows.schema, properties=once)
    if newest_batch(table, query) < batch:
        table.append(rows, snapshot_properties={QUERY: query, BATCH: str(batch)})


def archive(
    spark: SparkSession,
    broker: Mapping[str, str],
    folder: str,
    address: str = "/queues/sales",
    write: Callable[[DataFrame, int, str], None] = append,
) -> None:
    """Move all messages of the queue into the table."""
    messages = spark.readStream.format("amqp10").options(**broker).option("address", address).load()
    query = (
        messages.writeStream.foreachBatch(lambda frame, batch: write(frame, batch, folder))
        .option("checkpointLocation", f"{folder}/checkpoints/sales-iceberg")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def read(folder: str) -> pa.Table:
    """All rows of the table."""
    return catalog(folder).load_table(TABLE).scan().to_arrow()


def send_back(
    spark: SparkSession, broker: Mapping[str, str], folder: str, address: str = "/queues/sales-again"
) -> None:
    """Send the messages of the table to another queue, with their ids, properties and annotations."""
    messages = spark.createDataFrame(read(folder).drop_columns(["address"]))
    messages.write.format("amqp10").mode("append").options(**broker).option("address", address).save()


def main() -> None:
    """Run one step."""
    steps = {"archive": archive, "send-back": send_back}
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=steps)
    parser.add_argument("--folder", default="lake")
    parser.add_argument("--url", default="amqp://127.0.0.1:5672")
    parser.add_argument("--user", default="guest")
    given = parser.parse_args()
    os.environ.setdefault("AMQP10_PASSWORD", "guest")  # for this machine only: never in an option, which Spark shows
    # PyIceberg takes only times of UTC.
    spark = SparkSession.builder.appName(given.step).config("spark.sql.session.timeZone", "UTC").getOrCreate()
    steps[given.step](spark, {"url": given.url, "user": given.user}, given.folder)
    spark.stop()


if __name__ == "__main__":
    main()
