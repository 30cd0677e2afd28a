"""The archive: stores messages of any queue or stream as Parquet by address and day, and sends them back to a queue.

A stream keeps its messages. Messages of a queue are removed from it: they are settled when they are in the archive.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.jobs.run import Progress, follow
from pipeline.jobs.sources import NoSource
from pipeline.jobs.warehouse import checkpoint_of, path_of, read

MESSAGES = "messages"
PARTITIONS = ("day",)
"""The partition columns of an address's archive."""
REPLAYED = (
    "body", "messageId", "correlationId", "subject", "groupId", "contentType", "durable", "priority", "properties"
)  # fmt: skip
"""The columns that a replayed message keeps. Annotations are left out, since they belong to the first broker."""
NAME_BYTES_MAX = 200
"""Bytes of a checkpoint folder's name: file systems allow 255, and Spark's own files have longer names than their
folder."""


def archive(
    spark: SparkSession, connector: dict[str, str], address: str, warehouse: str, *, progress: Progress
) -> None:  # fmt: skip
    """Archive the messages that are there now, then stop."""
    messages = spark.readStream.format("amqp10").options(**connector).option("address", address).load()
    query = (
        archived(messages)
        .writeStream.format("parquet")
        .partitionBy(*PARTITIONS)
        .option("checkpointLocation", checkpoint_of(warehouse, _folder(address)))
        .trigger(availableNow=True)
        .start(f"{path_of(warehouse, MESSAGES)}/{_folder(address)}")
    )
    follow(query, address, progress)


def archived(messages: DataFrame) -> DataFrame:
    """``messages`` from a source, with the day of their arrival: the broker's, or today where it tells none."""
    came = F.coalesce("enqueued", F.current_timestamp())
    return messages.withColumn("archived", F.current_timestamp()).withColumn("day", F.to_date(came))


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
    chosen = replayable(kept, address=address, first_day=days[0], last_day=days[1]).coalesce(1).cache()
    count = chosen.count()
    chosen.write.format("amqp10").mode("append").options(**connector).option("address", to).save()
    return count


def replayable(kept: DataFrame, *, address: str, first_day: str | None, last_day: str | None) -> DataFrame:
    """The messages of an address and of these days, the first and the last included, in order."""
    chosen = kept.filter(F.col("address") == address)
    if first_day is not None:
        chosen = chosen.filter(F.col("day") >= F.lit(first_day).cast("date"))
    if last_day is not None:
        chosen = chosen.filter(F.col("day") <= F.lit(last_day).cast("date"))
    return chosen.orderBy("archived", "offset").select(*REPLAYED)


def _folder(address: str) -> str:
    """The folder name of an address. Each address has its own folder, since each is a query with a checkpoint."""
    name = "".join(letter if letter.isalnum() or letter in "-_." else f"={ord(letter):x}=" for letter in address)
    if len(name.encode()) > NAME_BYTES_MAX:
        raise NoSource(f"the address {address} is too long to be the name of a folder: at most {NAME_BYTES_MAX} bytes")
    return f"messages-{name}"
