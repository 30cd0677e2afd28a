"""The sink against a broker: what a task does is a function of Arrow batches, so most of it needs no Spark."""

import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from amqp10.blocking.requests import BlockingManagement
from amqp10.client import Message
from amqp10.wire.sections import DATA, Properties, encode_section
from amqp10.wire.types import ULong
from pyspark_amqp10.encoding import BATCH_ANNOTATION, ROW_ANNOTATION
from pyspark_amqp10.errors import (
    BadColumn,
    BadMessage,
    BadOption,
    ClientError,
    LinkRefused,
    MessageRefused,
    TimedOut,
)
from pyspark_amqp10.options import CONNECTION_OPTIONS
from pyspark_amqp10.row_sender import RowSender
from pyspark_amqp10.sink import RUN_BYTES_MAX, RUN_ROWS_MAX, RowsWritten, RowWriter, runs
from pyspark_amqp10.sink_options import COLUMNS, SINK_OPTIONS, SinkOptions, check_columns
from tests.kit.broker_process import ROOT

pytestmark = pytest.mark.slow
Declare = Callable[..., str]
Take = Callable[[str], list[Message]]
NAMES = count()


@pytest.fixture
def queue(declare: Declare) -> str:
    """The address of an empty queue."""
    return declare(f"sink-{next(NAMES)}")


@pytest.fixture
def write(broker_options: dict[str, str]) -> Callable[..., RowsWritten]:
    """What a task does with these columns, given in batches of five rows."""

    def call(columns: dict[str, object], **options: str) -> RowsWritten:
        writer = RowWriter(SinkOptions.read(broker_options | options))
        batches = pa.table(columns).to_batches(max_chunksize=5)
        return writer.write(iter(batches), partition=3, batch="query/7/3")

    return call


@pytest.mark.parametrize(
    ("rows", "size", "most"),
    [
        (0, 1, RUN_ROWS_MAX),
        (RUN_ROWS_MAX, 100, RUN_ROWS_MAX),
        (2 * RUN_ROWS_MAX + 1, 100, RUN_ROWS_MAX),
        (200, RUN_BYTES_MAX // 100, 100),
        (3, RUN_BYTES_MAX + 1, 1),
    ],
)
def test_rows_are_encoded_in_runs_of_so_many_rows_and_bytes(rows: int, size: int, most: int):
    body = pa.repeat(pa.scalar(bytes(size)), rows)
    found = list(runs(pa.record_batch([body], names=["body"])))
    assert sum(run.num_rows for run in found) == rows
    assert all(0 < run.num_rows <= most for run in found)
    assert len(found) <= rows // most + 2


def bodies(messages: list[Message]) -> list[object]:
    return [message.body for message in messages]


def said(message: Message) -> tuple[bool, int]:
    """What the header says that is the sender's."""
    assert message.header is not None
    return message.header.durable, message.header.priority


def test_it_asks_the_broker_for_as_much_link_credit_as_it_may_have_messages_without_outcome(
    queue: str, broker_options: dict[str, str]
):
    login = SinkOptions.read(broker_options).login
    with login.connect() as connection, login.connect() as observing:
        sender = RowSender(connection, unconfirmed_max=1000, links_max=1, within_s=30)
        entries = [encode_section(DATA, b"row")] * 200
        sender.send(queue, entries, range(len(entries)))
        shown: Any = BlockingManagement(observing).request("GET", "/headgate/links").body
        assert sender.finish() == len(entries)
    assert [row["max_link_credit"] for row in shown["items"] if row["address"] == queue] == [1000]


def test_rows_become_messages_with_all_that_they_have(queue: str, write: Callable[..., RowsWritten], take: Take):
    written = write(
        {
            "body": [b"first", b"second"],
            "messageId": ["m1", None],
            "correlationId": ["c", "c"],
            "subject": ["s", None],
            "groupId": [None, "g"],
            "contentType": ["text/plain", None],
            "durable": [False, None],
            "priority": pa.array([7, None], pa.int8()),
            "properties": pa.array([[("k", "v"), ("n", None)], None], pa.map_(pa.string(), pa.string())),
        },
        address=queue,
    )
    assert written == RowsWritten(partition=3, rows=2)
    first, second = take(queue)
    assert first.body == b"first"
    assert first.properties == Properties(message_id="m1", correlation_id="c", subject="s", content_type="text/plain")
    assert first.application_properties == {"k": "v", "n": None}
    assert said(first) == (False, 7)
    assert first.annotations[BATCH_ANNOTATION] == "query/7/3"
    assert first.annotations[ROW_ANNOTATION] == ULong(0)
    assert second.properties == Properties(correlation_id="c", group_id="g")
    assert said(second) == (True, 4)
    assert second.annotations[ROW_ANNOTATION] == ULong(1)


def test_a_task_that_is_repeated_says_the_same_again(queue: str, write: Callable[..., RowsWritten], take: Take):
    for _ in range(2):
        write({"body": [str(row).encode() for row in range(12)]}, address=queue)
    messages = take(queue)
    assert len(messages) == 24
    kept = {(m.annotations[BATCH_ANNOTATION], m.annotations[ROW_ANNOTATION]): m.body for m in messages}
    assert kept == {("query/7/3", ULong(row)): str(row).encode() for row in range(12)}


def test_without_the_annotations(queue: str, write: Callable[..., RowsWritten], take: Take):
    write({"body": ["text"]}, address=queue, batchIdAnnotation="false", durable="false")
    (message,) = take(queue)
    assert message.body == b"text"
    assert message.annotations.keys().isdisjoint({BATCH_ANNOTATION, ROW_ANNOTATION})
    assert said(message) == (False, 4)


def test_rows_go_where_they_say_in_order(declare: Declare, write: Callable[..., RowsWritten], take: Take):
    """With two links for three addresses, links are closed and opened again."""
    queues = [declare(f"sink-address-{number}") for number in range(3)]
    rows = range(30)
    written = write(
        {
            "body": [str(row).encode() for row in rows],
            "address": [queues[row % 3] if row % 3 else None for row in rows],
        },
        address=queues[0],
        maxLinks="2",
        maxUnconfirmed="4",
    )
    assert written.rows == 30
    for number, address in enumerate(queues):
        assert bodies(take(address)) == [str(row).encode() for row in rows if row % 3 == number]


def test_no_rows_need_no_broker():
    writer = RowWriter(SinkOptions.read({"url": "amqp://127.0.0.1:1", "address": "/queues/none"}))
    empty = pa.table({"body": pa.array([], pa.binary())}).to_batches()
    assert writer.write(iter(empty), partition=0, batch="b") == RowsWritten(0, 0)


@pytest.mark.parametrize(
    ("arguments", "columns", "options", "kind", "complaint"),
    [
        (
            ["x-max-length=7", "x-overflow=reject-publish"],
            {"body": [b"x"] * 12},
            {},
            MessageRefused,
            r"query/7/3: row 7: /queues/\S+ rejected the message: .*; 4 more rows were not accepted \(amqp:",
        ),
        (
            ["x-max-length=7", "x-overflow=block"],
            {"body": [b"x"] * 1000},
            {"confirmTimeout": "300ms"},
            TimedOut,
            r"query/7/3: .* did not answer within 0\.3 s: /queues/\S+: .*; it makes this link wait: queue-full",
        ),
        (
            [],
            {"body": [b"x", bytes(17 * 2**20)]},
            {},
            BadMessage,
            r"query/7/3: row 1: its message has 17825\d\d\d bytes, and /queues/\S+ takes at most \d+; make its body",
        ),
        (
            [],
            {"body": [b"x"], "address": ["/queues/no-such-queue"]},
            {},
            LinkRefused,
            r"query/7/3: .*/queues/no-such-queue closed the link: .*\(amqp:not-found\)",
        ),
        (
            [],
            {"body": [b"x"] * 3, "address": ["/exchanges/amq.direct/nobody"] * 3},
            {},
            MessageRefused,
            r"query/7/3: row 0: /exchanges/amq\.direct/nobody released the message: it .*; 2 more rows were not",
        ),
    ],
    ids=["rejected", "no link credit", "too large", "no such queue", "not routed"],
)
def test_rows_that_the_broker_does_not_take(
    declare: Declare,
    write: Callable[..., RowsWritten],
    arguments: list[str],
    columns: dict[str, object],
    options: dict[str, str],
    kind: type[ClientError],
    complaint: str,
):
    address = declare(f"sink-{next(NAMES)}", *arguments)
    with pytest.raises(kind, match=complaint):
        write(columns, address=address, **options)


def test_a_row_without_an_address(write: Callable[..., RowsWritten], queue: str):
    with pytest.raises(BadMessage, match="row 1: column address is null, and there is no option address"):
        write({"body": [b"x", b"y"], "address": [queue, None]})


@pytest.mark.parametrize(
    ("types", "complaint"),
    [
        ({"body": "binary", "messageid": "string"}, "no column 'messageid'; did you mean messageId?"),
        ({"body": "binary", "zzz": "string"}, "no column 'zzz'; there are body, bodyType"),
        ({"body": "int"}, "column body is int; it must be binary or string"),
        ({"body": "binary", "properties": "map<string,int>"}, "it must be map<string,string>"),
        ({"subject": "string"}, "there is no column body; the columns are subject"),
        ({"body": "binary"}, "nothing says where rows go: set option address"),
    ],
)
def test_columns_that_no_message_has(types: dict[str, str], complaint: str):
    with pytest.raises(BadColumn, match=complaint.replace("?", r"\?")):
        check_columns(types, address=None)


def test_all_columns_at_once():
    check_columns({name: types[0] for name, types in COLUMNS.items()}, address=None)


def test_options_of_a_source_are_told_from_mistakes():
    with pytest.raises(BadOption, match="option mode cannot be used here: it is of a source only"):
        SinkOptions.read({"url": "amqp://127.0.0.1", "mode": "queue"})
    with pytest.raises(BadOption, match="no option 'confirmtimeot' here; did you mean confirmTimeout"):
        SinkOptions.read({"url": "amqp://127.0.0.1", "confirmtimeot": "1s"})


def test_every_option_and_every_column_is_described():
    page = (ROOT / "docs" / "spark" / "sink.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    first_cells = [line.split("|")[1] for line in rows]
    described = set(re.findall(r"`(\w+)`", " ".join(first_cells)))
    options = {option.name: option for option in (*CONNECTION_OPTIONS, *SINK_OPTIONS)}
    assert options.keys() | COLUMNS.keys() <= described
    for option in SINK_OPTIONS:
        assert any(row.startswith(f"| `{option.name}` | `{option.default}` |") for row in rows), option.name


# --- with Spark ----------------------------------------------------------------------------------------------------


def test_a_data_frame_is_written(spark: SparkSession, broker_options: dict[str, str], queue: str, take: Take):
    frame = spark.range(1000).select(F.col("id").cast("string").alias("body"))
    frame.write.format("amqp10").options(**broker_options, address=queue).mode("append").save()
    messages = take(queue)
    assert sorted(int(message.body) for message in messages) == list(range(1000))
    batches = {message.annotations[BATCH_ANNOTATION].rpartition("/")[0] for message in messages}
    assert len(batches) == 1


def test_a_stream_is_written_with_the_numbers_of_its_batches(
    spark: SparkSession, broker_options: dict[str, str], queue: str, take: Take, tmp_path: Path
):
    for number in range(2):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / str(number)).write_text("".join(f"{number}-{line}\n" for line in range(3)))
    query = (
        spark.readStream.option("maxFilesPerTrigger", 1)
        .text(str(tmp_path / "in"))
        .withColumnRenamed("value", "body")
        .writeStream.format("amqp10")
        .options(**broker_options, address=queue, checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    annotated = {
        (message.annotations[BATCH_ANNOTATION], message.annotations[ROW_ANNOTATION].value) for message in take(queue)
    }
    assert annotated == {(f"{query.id}/{batch}/0", row) for batch in range(2) for row in range(3)}


def test_what_is_wrong_is_told_before_anything_is_sent(
    spark: SparkSession, broker_options: dict[str, str], queue: str, take: Take
):
    frame = spark.createDataFrame([("x", "m")], "body string, messageID string")
    writing = frame.write.format("amqp10").options(**broker_options, address=queue)
    with pytest.raises(Exception, match="BadColumn: an AMQP message has no column 'messageID'; did you mean messageId"):
        writing.mode("append").save()
    with pytest.raises(Exception, match="BadOption: messages cannot be overwritten"):
        writing.mode("overwrite").save()
    assert take(queue) == []
