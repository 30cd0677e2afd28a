"""The watch: reads flow events as they come, and sends alerts about long stalls to a queue, until it is stopped.

One job, with the functions of the triggered run: ``python -m pipeline watch``, or ``spark-submit`` with
``pipeline/__main__.py watch``. The watch and the triggered run have separate positions in the stream, and neither waits
for the other.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.tables import silver
from pipeline.tables.alerts import alerts

TRIGGER = "1 second"
"""Time between two micro-batches. A stall is reported in the first one after its time."""
LOOK_SECONDS = 1


def watch(
    events: DataFrame, *, stall_after_s: float, checkpoint: str, connector: dict[str, str], address: str
) -> StreamingQuery:  # fmt: skip
    """Send alerts about ``events``, a streaming data frame, to the queue at ``address``."""
    found = silver.block_events(events, stall_after_ms=round(stall_after_s * 1000))
    writer = alerts(found).writeStream.format("amqp10").options(**connector).option("address", address)
    return writer.option("checkpointLocation", checkpoint).trigger(processingTime=TRIGGER).start()


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
