"""Alerts about long stalls, as messages for a queue: one when a stall has lasted long enough, and one when it ends."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

CONTENT_TYPE = "application/json"
TOLD = ("event", "node", "connection", "link", "direction", "address", "reason", "culprit", "since", "seconds")


def alerts(block_events: DataFrame) -> DataFrame:
    """Messages from ``silver.block_events`` with a timer. The subject is ``stall`` or ``stall-over``.

    An alert that is sent again after a crash has the same ``messageId``, so that its consumer can drop it.
    """
    identity = ("node", "connection", "link", "direction")
    return block_events.filter(F.col("event") != "interval").select(
        F.to_json(F.struct(*TOLD)).alias("body"),
        F.concat_ws(
            " ", *(F.coalesce(name, F.lit("-")) for name in identity), F.unix_micros("since"), "event"
        ).alias("messageId"),
        F.col("event").alias("subject"),
        F.lit(CONTENT_TYPE).alias("contentType"),
        F.lit(True).alias("durable"),
    )  # fmt: skip
