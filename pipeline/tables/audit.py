"""Messages kept by address and day, and made messages again."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

PARTITIONS = ("day",)
"""Folders of an address's archive."""
REPLAYED = (
    "body", "messageId", "correlationId", "subject", "groupId", "contentType", "durable", "priority", "properties"
)  # fmt: skip
"""What a message takes along. Annotations are of the broker that it came from."""


def archived(messages: DataFrame) -> DataFrame:
    """``messages``: what a source brought, with the day it came on: the broker's, or where it says none, today."""
    came = F.coalesce("enqueued", F.current_timestamp())
    return messages.withColumn("archived", F.current_timestamp()).withColumn("day", F.to_date(came))


def replayable(archive: DataFrame, *, address: str, first_day: str | None, last_day: str | None) -> DataFrame:
    """The messages of an address and of these days, the first and the last included, in their order."""
    chosen = archive.filter(F.col("address") == address)
    if first_day is not None:
        chosen = chosen.filter(F.col("day") >= F.lit(first_day).cast("date"))
    if last_day is not None:
        chosen = chosen.filter(F.col("day") <= F.lit(last_day).cast("date"))
    return chosen.orderBy("archived", "offset").select(*REPLAYED)
