"""Tutorial 17: Spark moves a queue into a table of Delta Lake, exactly once, and back, with delta-rs and without a jar.

To run it as 18_spark_lake.py, whose step ``fill`` fills the queue:

    pip install deltalake
    spark-submit --master 'local[2]' examples/18_spark_lake.py fill
    spark-submit --master 'local[2]' examples/18_spark_delta.py archive
    spark-submit --master 'local[2]' examples/18_spark_delta.py send-back
"""

import argparse
import os
from collections.abc import Callable, Mapping

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import to_date


def append(frame: DataFrame, batch: int, folder: str) -> None:
    """Append a batch to the table, unless the table has it.

    The commit of the rows also says which batch of which query they are. Spark repeats a batch if it was killed
    before it had noted that the batch was done; then the table has the number of the batch already. The id of the
    query is that of its checkpoint, so a new checkpoint, whose batches begin at 0 again, is another query.
    """
    query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    rows = frame.toArrow()
    table = DeltaTable.create(f"{folder}/sales-delta", rows.schema, mode="ignore", partition_by=["day"])
    newest = table.transaction_version(query)
    if newest is None or newest < batch:
        done = CommitProperties(app_transactions=[Transaction(query, batch)])
        write_deltalake(table, rows, mode="append", commit_properties=done)


def archive(
    spark: SparkSession,
    broker: Mapping[str, str],
    folder: str,
    address: str = "/queues/sales",
    write: Callable[[DataFrame, int, str], None] = append,
) -> None:
    """Move all messages of the queue into a table with a folder for each day."""
    messages = spark.readStream.format("amqp10").options(**broker).option("address", address).load()
    query = (
        messages.withColumn("day", to_date("enqueued"))
        .writeStream.foreachBatch(lambda frame, batch: write(frame, batch, folder))
        .option("checkpointLocation", f"{folder}/checkpoints/sales-delta")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def read(folder: str) -> pa.Table:
    """All rows of the table."""
    return DeltaTable(f"{folder}/sales-delta").to_pyarrow_table()


def send_back(
    spark: SparkSession, broker: Mapping[str, str], folder: str, address: str = "/queues/sales-again"
) -> None:
    """Send the messages of the table to another queue, with their ids, properties and annotations."""
    messages = spark.createDataFrame(read(folder).drop_columns(["day", "address"]))
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
    # A day is a day of UTC on each machine.
    spark = SparkSession.builder.appName(given.step).config("spark.sql.session.timeZone", "UTC").getOrCreate()
    steps[given.step](spark, {"url": given.url, "user": given.user}, given.folder)
    spark.stop()


if __name__ == "__main__":
    main()
