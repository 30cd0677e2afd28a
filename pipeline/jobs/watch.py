"""The watch: reads flow events as they come, and sends alerts about long stalls to a queue, until it is stopped.

There is one alert when a stall has lasted long enough, and one when it ends.

One job, with the functions of the triggered run: ``python -m pipeline watch``, or ``spark-submit`` with
``pipeline/__main__.py watch``. The watch and the triggered run have separate positions in the stream, and neither waits
for the other.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.tables import silver

TRIGGER = "1 second"
"""Time between two micro-batches. A stall is reported in the first one after its time."""
LOOK_SECONDS = 1
CONTENT_TYPE = "application/json"
TOLD = ("event", "node", "connection", "link", "direction", "address", "reason", "culprit", "since", "seconds")
"""The columns that an alert tells."""


def watch(
    events: DataFrame, *, stall_after_s: float, checkpoint: str, connector: dict[str, str], address: str
) -> StreamingQuery:  # fmt: skip
    """Send alerts about ``events``, a streaming data frame, to the queue at ``address``."""
    found = silver.block_events(events, stall_after_ms=round(stall_after_s * 1000))
    writer = alerts(found).writeStream.format("amqp10").options(**connector).option("address", address)
    return writer.option("checkpointLocation", checkpoint).trigger(processingTime=TRIGGER).start()


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


def follow(query: StreamingQuery, tell: Callable[[str], None]) -> None:
    """Wait until the query is stopped or fails. Raises its error."""
    told, alerted = -1, 0
    seen: set[int] = set()
    try:
        while not query.awaitTermination(LOOK_SECONDS):
            for batch in query.recentProgress:
                if batch.batchId not in seen:
                    seen.add(batch.batchId)
                    alerted += max(batch.sink.numOutputRows, 0)
            if seen and max(seen) != told:
                told = max(seen)
                tell(f"batch {told}: {alerted} alerts so far")
    finally:
        query.stop()
