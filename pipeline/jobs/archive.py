"""The archive: stores messages of any queue or stream as Parquet by address and day, and sends them back to a queue.

A stream keeps its messages. Messages of a queue are removed from it: they are settled when they are in the archive.
"""

from pyspark.sql import DataFrame, SparkSession

from pipeline.jobs.run import Progress, follow
from pipeline.jobs.sources import NoSource
from pipeline.jobs.warehouse import checkpoint_of, path_of, read
from pipeline.tables import audit

MESSAGES = "messages"
NAME_BYTES_MAX = 200
"""Bytes of a checkpoint folder's name: file systems allow 255, and Spark's own files have longer names than their
folder."""


def archive(
    spark: SparkSession, connector: dict[str, str], address: str, warehouse: str, *, progress: Progress
) -> None:  # fmt: skip
    """Archive the messages that are there now, then stop."""
    messages = spark.readStream.format("amqp10").options(**connector).option("address", address).load()
    query = (
        audit.archived(messages)
        .writeStream.format("parquet")
        .partitionBy(*audit.PARTITIONS)
        .option("checkpointLocation", checkpoint_of(warehouse, _folder(address)))
        .trigger(availableNow=True)
        .start(f"{path_of(warehouse, MESSAGES)}/{_folder(address)}")
    )
    follow(query, address, progress)


def replay(
    spark: SparkSession,
    connector: dict[str, str],
    warehouse: str,
    *,
    address: str,
    to: str,
    days: tuple[str | None, str | None],
) -> int:
    """Send archived messages to an address; returns how many. Raises NoSource when none are archived."""
    try:
        kept: DataFrame = read(spark, f"{warehouse}/{MESSAGES}", _folder(address))
    except Exception as problem:
        if "PATH_NOT_FOUND" not in str(problem):
            raise
        raise NoSource(f"{warehouse} has no messages of {address}; archive them first") from None
    chosen = audit.replayable(kept, address=address, first_day=days[0], last_day=days[1]).coalesce(1).cache()
    count = chosen.count()
    chosen.write.format("amqp10").mode("append").options(**connector).option("address", to).save()
    return count


def _folder(address: str) -> str:
    """The folder name of an address. Each address has its own folder, since each is a query with a checkpoint."""
    name = "".join(letter if letter.isalnum() or letter in "-_." else f"={ord(letter):x}=" for letter in address)
    if len(name.encode()) > NAME_BYTES_MAX:
        raise NoSource(f"the address {address} is too long to be the name of a folder: at most {NAME_BYTES_MAX} bytes")
    return f"messages-{name}"
