"""Archived messages by address and day, and their conversion back to messages."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

PARTITIONS = ("day",)
"""The partition columns of an address's archive."""
REPLAYED = (
    "body", "messageId", "correlationId", "subject", "groupId", "contentType", "durable", "priority", "properties"
)  # fmt: skip
"""The columns that a replayed message keeps. Annotations are left out, since they belong to the first broker."""


def archived(messages: DataFrame) -> DataFrame:
    """``messages`` from a source, with the day of their arrival: the broker's, or today where it tells none."""
    came = F.coalesce("enqueued", F.current_timestamp())
    return messages.withColumn("archived", F.current_timestamp()).withColumn("day", F.to_date(came))


def replayable(archive: DataFrame, *, address: str, first_day: str | None, last_day: str | None) -> DataFrame:
    """The messages of an address and of these days, the first and the last included, in order."""
    chosen = archive.filter(F.col("address") == address)
    if first_day is not None:
        chosen = chosen.filter(F.col("day") >= F.lit(first_day).cast("date"))
    if last_day is not None:
        chosen = chosen.filter(F.col("day") <= F.lit(last_day).cast("date"))
    return chosen.orderBy("archived", "offset").select(*REPLAYED)
