"""Verdicts on AMQP 0.9.1: what counts is for how long a reader was in flow."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pipeline.jobs.run import SMALL_SETTINGS, other_settings
from pipeline.tables.bottlenecks import bottleneck_seconds, bottlenecks, stages_in_flow
from pipeline.tables.days import of_days
from pipeline.tables.gold import blocked_shares, links
from pipeline.tables.records import FLOW_EVENTS, arrow_schema
from pipeline.tables.silver import intervals

SECOND, BEGIN = 1_000_000, 1_795_787_452 * 1_000_000
Row = dict[str, object]


def connection(name: str, held_ms: int) -> list[Row]:
    """Eight seconds at 420,000 messages a second; in seven of them the reader is blocked for so long, and shorter than
    a record three times more."""
    own: Row = {"node": "n", "connection": name, "interval": 0.01}
    stage = own | {"kind": "stage", "stage": "reader", "name": name}
    rows = [own | {"kind": "connection-opened", "at": BEGIN, "protocol": "amqp-0-9-1", "container_id": name}]
    for second in range(8):
        at = BEGIN + second * SECOND
        moved = own | {"kind": "activity", "link": f"{name}/1", "direction": "in", "transfers": 210_000}
        rows += [moved | {"at": at}, moved | {"at": at + SECOND - 1}]
        if second:
            blocked = stage | {"at": at + 100_000, "blocks": 1, "blocked": True, "held_up_by": f"{name}/1"}
            rows += [blocked, stage | {"at": at + 100_000 + held_ms * 1000, "blocked": False}]
            short = stage | {"blocks": 9, "blocked": False, "held_up_by": f"{name}/1"}
            rows += [short | {"at": at + 700_000 + n * 50_000} for n in range(3)]
    return rows


@pytest.mark.spark
@pytest.mark.slow
def test_some_blocks_in_seven_of_eight_seconds_are_no_bottleneck_and_a_fifth_of_the_time_is(spark: SparkSession):
    rows = connection("healthy", 20) + connection("slow", 230)
    with other_settings(spark, SMALL_SETTINGS):  # those of a run over so few records, which keeps tables, too
        events = of_days(spark.createDataFrame(pa.Table.from_pylist(rows, schema=arrow_schema(FLOW_EVENTS))))
        events = events.coalesce(1).localCheckpoint()
        seconds = bottleneck_seconds(stages_in_flow(events)).localCheckpoint()
        shares = blocked_shares(intervals(events).localCheckpoint(), events).localCheckpoint()
        found = bottlenecks(seconds, shares, links(events).localCheckpoint())
        verdicts = {row.connection: row for row in found.collect()}
    healthy, slow = verdicts["healthy"], verdicts["slow"]
    assert (healthy.bottleneck, healthy.culprit) == (None, None)
    assert healthy.share == pytest.approx(7 * 0.02 / 8, rel=1e-6)
    assert healthy.evidence.startswith("of 8.0 s the reader was in flow for 0.14 s")
    assert (slow.bottleneck, slow.culprit) == ("channel", "slow/1")
    assert slow.share == pytest.approx(7 * 0.23 / 8, rel=1e-6)
