"""Jobs that use a broker: alerts of the watch, and messages into the archive and out again."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.generate.files import Answers, generate
from pipeline.jobs.archive import archive, replay
from pipeline.jobs.sources import NoSource, folder_stream
from pipeline.jobs.watch import watch

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PATIENCE_SECONDS = 400.0
Declare = Callable[..., str]
Take = Callable[[str], list[object]]


def stalls(folder: Path) -> Answers:
    return generate(folder, "stalls", events=60, connections=2, records=5, seed=1, progress=lambda done, of: None)


def test_the_watch_tells_the_queue_of_what_stands_still(
    spark: SparkSession, declare: Declare, take: Take, broker_options: dict[str, str], tmp_path: Path
):
    answers = stalls(tmp_path / "events")
    address = declare("alerts-of-the-watch")
    query = watch(
        folder_stream(spark, str(tmp_path / "events")),
        stall_after_s=5.0,
        checkpoint=str(tmp_path / "checkpoint"),
        connector=broker_options,
        address=address,
    )
    found: list[object] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while len(found) < answers.open_intervals and time.monotonic() < deadline:
            assert query.exception() is None
            found += take(address)
            query.awaitTermination(3)
    finally:
        query.stop()
    alerts = [json.loads(message.body) for message in found]
    assert sorted(alert["link"] for alert in alerts) == ["c0/0/0", "c1/0/0"]
    assert {(alert["event"], alert["reason"], alert["culprit"]) for alert in alerts} == {
        ("stall", "store-slow", "store")
    }
    assert all(alert["seconds"] > 5 for alert in alerts)


def test_messages_go_into_the_archive_and_out_again(
    spark: SparkSession, declare: Declare, take: Take, broker_options: dict[str, str], tmp_path: Path
):
    source, target = declare("archive-from"), declare("archive-to")
    rows = [(f"message {n}", f"id-{n}", {"n": str(n)}) for n in range(20)]
    columns = "body string, messageId string, properties map<string,string>"
    sink = spark.createDataFrame(rows, columns).coalesce(1).write.format("amqp10").mode("append")
    sink.options(**broker_options).option("address", source).save()
    archive(spark, broker_options, source, str(tmp_path), progress=lambda line: None)
    [folder] = (tmp_path / "messages").iterdir()
    assert len(list(folder.glob("day=*/*.parquet"))) >= 1
    sent = replay(spark, broker_options, str(tmp_path), address=source, to=target, days=("2000-01-01", None))
    assert sent == 20
    found = take(target)
    assert [message.body for message in found] == [row[0].encode() for row in rows]
    assert replay(spark, broker_options, str(tmp_path), address=source, to=target, days=(None, "2000-01-01")) == 0


def test_replaying_what_was_never_archived_is_told(spark: SparkSession, tmp_path: Path):
    with pytest.raises(NoSource, match="has no messages of /queues/none; archive them first"):
        replay(spark, {}, str(tmp_path), address="/queues/none", to="/queues/x", days=(None, None))
