"""The sources under Spark: few tests, because each query takes seconds; what they do is tested without it."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import ReceivingLink, SendingLink
from amqp10.wire.sections import DATA, encode_section
from pyspark_amqp10.columns import SCHEMA
from pyspark_amqp10.data_source import SPARK_SCHEMA
from pyspark_amqp10.lag_gauges import LagGauges, lags_of
from pyspark_amqp10.login import Login
from tests.pyspark_amqp10.test_round_trip import messages

pytestmark = pytest.mark.slow
Declare = Callable[..., str]
NAMES = count()
WITHIN_S = 10.0
PATIENCE_S = 60.0
"""For what Spark does in its own time."""


@pytest.fixture
def connect(broker_options: dict[str, str]) -> Callable[[], BlockingConnection]:
    """A connection of somebody else."""

    login = Login.parse(broker_options["url"], user="guest", password_file=broker_options["passwordFile"])

    def call() -> BlockingConnection:
        return login.connect()

    return call


@pytest.fixture
def publish(connect: Callable[[], BlockingConnection]) -> Callable[[str, int, int], None]:
    """Send numbered messages and wait until they are confirmed."""

    def call(address: str, first: int, end: int) -> None:
        with connect() as connection:
            sending = SendingLink.open(connection, address)
            sent = sending.send(
                [encode_section(DATA, b"%d" % number) for number in range(first, end)], within_s=WITHIN_S
            )
            assert sending.confirm(sent, within_s=WITHIN_S) == []

    return call


@pytest.fixture
def run(spark: SparkSession, broker_options: dict[str, str], tmp_path: Path) -> Callable[..., StreamingQuery]:
    """A streaming query of a source into Parquet files, until it has read what is there."""

    def call(name: str = "query", **options: str) -> StreamingQuery:
        rows = spark.readStream.format("amqp10").options(**broker_options, **options).load()
        query = (
            rows.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / name / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / name / "output"))
        )
        query.awaitTermination()
        return query

    return call


def numbers(rows: DataFrame) -> list[int]:
    return sorted(int(row.body) for row in rows.select("body").collect())


def test_the_columns_are_the_same_for_spark_and_for_arrow():
    assert to_arrow_schema(SPARK_SCHEMA, timezone="UTC") == SCHEMA


def test_a_batch_query_of_a_stream_is_split_over_tasks(
    spark: SparkSession, declare: Declare, publish: Any, broker_options: dict[str, str]
):
    address = declare(f"spark-{next(NAMES)}", "x-queue-type=stream")
    publish(address, 0, 1000)
    rows = (
        spark.read.format("amqp10").options(**broker_options, address=address, mode="stream", minPartitions="3").load()
    )
    assert rows.rdd.getNumPartitions() == 3
    assert numbers(rows) == list(range(1000))


def test_a_streaming_query_of_a_stream_goes_on_from_its_checkpoint(
    spark: SparkSession, declare: Declare, publish: Any, run: Any, tmp_path: Path
):
    address = declare(f"spark-{next(NAMES)}", "x-queue-type=stream")
    publish(address, 0, 250)
    options = {"address": address, "mode": "stream", "startingOffsets": "earliest", "maxRowsPerTrigger": "100"}
    query = run(**options)
    assert [one.numInputRows for one in query.recentProgress if one.numInputRows] == [100, 100, 50]
    lags = [json.loads(one.sources[0].latestOffset)["lag"]["rows"] for one in query.recentProgress]
    assert lags[:3] == [150, 50, 0]
    publish(address, 250, 300)
    run(**options)
    assert numbers(spark.read.parquet(str(tmp_path / "query" / "output"))) == list(range(300))


def test_a_streaming_query_of_a_queue_empties_it_and_goes_on(
    spark: SparkSession, declare: Declare, publish: Any, run: Any, tmp_path: Path, connect: Any
):
    address = declare(f"spark-{next(NAMES)}", "x-sequence=true")
    publish(address, 0, 250)
    query = run(address=address, maxRowsPerTrigger="100")
    assert [one.numInputRows for one in query.recentProgress if one.numInputRows] == [100, 100, 50]
    assert [lag.values["rows"] for one in query.recentProgress for lag in lags_of(one)][:3] == [150, 50, 0]
    with connect() as connection:
        assert ReceivingLink.open(connection, address).ready() == 0
    publish(address, 250, 300)
    run(address=address)
    assert numbers(spark.read.parquet(str(tmp_path / "query" / "output"))) == list(range(300))


def test_several_tasks_read_a_queue_as_one_reader_does(
    spark: SparkSession, declare: Declare, publish: Any, run: Any, tmp_path: Path, connect: Any
):
    """Limits, lag and rows are the same, and a checkpoint goes on with another number of readers."""
    address = declare(f"spark-{next(NAMES)}", "x-sequence=true")
    publish(address, 0, 250)
    query = run(address=address, maxRowsPerTrigger="100", readers="2")
    assert [one.numInputRows for one in query.recentProgress if one.numInputRows] == [100, 100, 50]
    assert [lag.values["rows"] for one in query.recentProgress for lag in lags_of(one)][:3] == [150, 50, 0]
    with connect() as connection:
        assert ReceivingLink.open(connection, address).ready() == 0
    publish(address, 250, 300)
    run(address=address)
    publish(address, 300, 350)
    run(address=address, readers="2")
    output = spark.read.parquet(str(tmp_path / "query" / "output"))
    assert numbers(output) == list(range(350))
    assert sorted(row.offset for row in output.select("offset").collect()) == list(range(350))


def test_a_watermark_of_a_queue_moves_with_the_times_of_arrival(
    spark: SparkSession, declare: Declare, publish: Any, broker_options: dict[str, str], tmp_path: Path
):
    address = declare(f"spark-{next(NAMES)}", "x-sequence=true", "x-enqueued-time=true")
    before = datetime.now(UTC) - timedelta(milliseconds=1)

    def windows() -> StreamingQuery:
        rows = spark.readStream.format("amqp10").options(**broker_options, address=address).load()
        counted = rows.withWatermark("enqueued", "0 seconds").groupBy(window("enqueued", "1 second")).count()
        query = (
            counted.writeStream.format("parquet")
            .outputMode("append")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "output"))
        )
        query.awaitTermination()
        return query

    publish(address, 0, 100)
    windows()
    came = datetime.now(UTC)
    while datetime.now(UTC) < came + timedelta(seconds=1.1):  # a window ends
        publish(address, 100, 101)
    publish(address, 101, 102)
    progress = windows().recentProgress
    marks = [one.eventTime["watermark"] for one in progress if "watermark" in one.eventTime]
    assert datetime.fromisoformat(marks[-1]) >= came
    found = spark.read.parquet(str(tmp_path / "output")).collect()
    assert sum(row["count"] for row in found) >= 100, "the windows that the watermark has passed are there"
    assert all(row["window"]["end"].astimezone(UTC) > before for row in found)


def test_the_lag_of_running_queries_stands_in_gauges(
    spark: SparkSession, declare: Declare, publish: Any, broker_options: dict[str, str], tmp_path: Path
):
    address = declare(f"spark-{next(NAMES)}", "x-queue-type=stream")
    publish(address, 0, 100)
    registry = CollectorRegistry()
    listener = LagGauges(registry)

    def shown(lag: float | None) -> bool:
        """Whether this comes to be the gauge's value; the listener hears of progress a little later."""
        labels = {"query": "behind", "addresses": address}
        patience = monotonic() + PATIENCE_S
        while registry.get_sample_value("amqp10_source_lag_rows", labels) != lag and monotonic() < patience:
            query.awaitTermination(0.1)
        return registry.get_sample_value("amqp10_source_lag_rows", labels) == lag

    spark.streams.addListener(listener)
    options = {"address": address, "mode": "stream", "startingOffsets": "earliest", "maxRowsPerTrigger": "40"}
    rows = spark.readStream.format("amqp10").options(**broker_options, **options).load()
    query = (
        rows.writeStream.format("noop")
        .queryName("behind")
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="1 hour")
        .start()
    )
    try:
        assert shown(60), "one batch of 40, and an hour until the next"
        query.stop()
        assert shown(None)
    finally:
        query.stop()
        spark.streams.removeListener(listener)


def test_messages_of_every_type_go_through_spark_and_back(
    spark: SparkSession, declare: Declare, connect: Any, broker_options: dict[str, str]
):
    """Headgate to Spark to Headgate to Spark: all that is the sender's is the same, bit for bit."""

    def read(address: str) -> pa.Table:
        options = broker_options | {"address": address, "mode": "stream"}
        rows = spark.read.format("amqp10").options(**options).load().orderBy("offset")
        return rows.drop(
            "offset", "address", "enqueued"
        ).toArrow()  # rows of Python do not show the first day of year 1

    @settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(messages(user_ids=st.none() | st.just(b"guest")), min_size=20, max_size=40))
    def check(entries: list[bytes]) -> None:
        first, second = (declare(f"spark-{next(NAMES)}", "x-queue-type=stream") for _ in range(2))
        with connect() as connection:
            sending = SendingLink.open(connection, first)
            sending.confirm(sending.send(entries, within_s=WITHIN_S), within_s=WITHIN_S)
        rows = spark.read.format("amqp10").options(**broker_options, address=first, mode="stream").load()
        assert rows.count() == len(entries)
        sink = {**broker_options, "address": second, "batchIdAnnotation": "false"}
        rows.coalesce(1).sortWithinPartitions("offset").drop("address").write.format("amqp10").mode("append").options(
            **sink
        ).save()
        assert read(second).equals(read(first))

    check()


def said(error: PySparkException) -> str:
    """What the connector said: the line of its exception, inside Spark's."""
    errors = ("pyspark_amqp10.errors.", "amqp10.client_core.errors.")
    lines = [line for line in str(error).splitlines() if line.startswith(errors)]
    assert len(lines) == 1, "one clear message"
    return lines[0].partition(": ")[2]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"adress": "/queues/a"}, "there is no option 'adress' here; did you mean address?"),
        ({"address": "/queues/a", "url": "amqp://guest:s3cret@host"}, "option url has a password in it"),
        ({"address": "/queues/a"}, "a batch query reads streams: set option mode to stream"),
        ({"address": "/queues/none", "mode": "stream"}, "no queue 'none'"),
        ({"address": "/queues/a", "mode": "stream", "url": "amqp://127.0.0.1:1"}, "cannot connect to 127.0.0.1:1"),
        ({"address": "/queues/a", "mode": "stream", "user": "nobody"}, "wrong credentials"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_query_is_one_line(
    spark: SparkSession, broker_options: dict[str, str], options: dict[str, str], text: str
):
    with pytest.raises(PySparkException) as caught:
        spark.read.format("amqp10").options(**(broker_options | options)).load().count()
    assert text in said(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (
            "text STRING",
            "the schema asks for a column 'text', which the source does not have; there are body, bodyType",
        ),
        ("messageid STRING", "the source does not have; did you mean messageId?"),
        ("body STRING", "the schema asks for column body as string; it is binary: cast it after reading"),
    ],
)
def test_columns_that_the_source_does_not_have_are_refused(
    spark: SparkSession, broker_options: dict[str, str], schema: str, text: str
):
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("amqp10").schema(schema).options(
            **broker_options, address="/queues/a", mode="stream"
        ).load().collect()
    assert text in said(caught.value)


def test_what_is_wrong_with_the_options_is_told_at_load(spark: SparkSession, broker_options: dict[str, str]):
    with pytest.raises(PySparkException) as caught:
        spark.readStream.format("amqp10").options(**broker_options, address="/queues/a", mapValues="typo").load()
    assert "option mapValues is 'typo'; it must be typed or text" in said(caught.value)


def test_a_query_may_name_the_columns_that_it_needs(
    spark: SparkSession, declare: Declare, publish: Any, broker_options: dict[str, str]
):
    address = declare(f"spark-{next(NAMES)}", "x-queue-type=stream")
    publish(address, 0, 3)
    reading = spark.read.format("amqp10").schema("offset BIGINT, body BINARY").options(**broker_options, mode="stream")
    rows = reading.option("address", address).load().collect()
    assert sorted((row.offset, bytes(row.body)) for row in rows) == [(0, b"0"), (1, b"1"), (2, b"2")]


def test_the_plan_shows_no_password(spark: SparkSession, broker_options: dict[str, str], declare: Declare):
    address = declare(f"spark-{next(NAMES)}", "x-queue-type=stream")
    rows = spark.read.format("amqp10").options(**broker_options, address=address, mode="stream").load()
    plan = rows._jdf.queryExecution().toString()
    assert "amqp10" in plan
    assert "guest\n" not in plan


def test_the_checkpoint_of_another_query_and_a_message_that_is_no_row_settle_nothing(
    declare: Declare, publish: Any, run: Any, connect: Any
):
    first, other = (declare(f"spark-{next(NAMES)}", "x-sequence=true") for _ in range(2))
    publish(first, 0, 5)
    run(address=first)
    publish(other, 0, 5)
    with pytest.raises(StreamingQueryException) as caught:
        run(address=other)
    assert f"the checkpoint is of a query that reads {first}, this one reads {other}" in said(caught.value)
    with connect() as connection:
        sending = SendingLink.open(connection, other)
        sent = sending.send([b"\x00\x53\x77\xa1\x01\xff"], within_s=WITHIN_S)
        sending.confirm(sent, within_s=WITHIN_S)
    with pytest.raises(StreamingQueryException) as caught:
        run("another", address=other)
    assert re.match(f"{other}: (a|the) message .*cannot become a row", said(caught.value))
    with connect() as connection:
        assert ReceivingLink.open(connection, other).ready() == 6
