"""Streams read as Spark reads them, without Spark: ranges planned by one object, read by functions."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from amqp10.blocking.links import SendingLink
from amqp10.client import Message
from amqp10.wire.sections import APPLICATION_PROPERTIES, DATA, MESSAGE_ANNOTATIONS, encode_section
from amqp10.wire.types import Symbol
from pyspark_amqp10.columns import SCHEMA
from pyspark_amqp10.errors import BadMessage, BadOffset, BadOption, DataLost, LinkRefused
from pyspark_amqp10.login import Login
from pyspark_amqp10.offsets import Json, OffsetRange, stream_json, stream_offsets
from pyspark_amqp10.options import SourceOptions
from pyspark_amqp10.stream_ends import Ends
from pyspark_amqp10.stream_source import Lag, StreamSource, read_range

pytestmark = pytest.mark.slow
Declare = Callable[..., str]
Read = Callable[..., list[dict[str, Any]]]
NAMES = count()
WITHIN_S = 10.0


@pytest.fixture
def stream(declare: Declare) -> str:
    """The address of an empty stream."""
    return declare(f"stream-{next(NAMES)}", "x-queue-type=stream")


@pytest.fixture
def publish(broker_options: dict[str, str]) -> Callable[[str, list[bytes]], None]:
    """Send encoded messages and wait until they are confirmed."""

    def call(address: str, entries: list[bytes]) -> None:
        login = Login.parse(broker_options["url"], user="guest", password_file=broker_options["passwordFile"])
        with login.connect() as connection:
            sending = SendingLink.open(connection, address)
            sent = sending.send(entries, within_s=WITHIN_S)
            assert sending.confirm(sent, within_s=WITHIN_S) == []

    return call


@pytest.fixture
def options(broker_options: dict[str, str]) -> Callable[..., SourceOptions]:
    """Options of a query of streams."""

    def call(*addresses: str, **given: str) -> SourceOptions:
        where = {"mode": "stream", "addresses": ",".join(addresses), "drainTimeout": "2s"}
        return SourceOptions.read(broker_options | where | given)

    return call


def messages(n: int) -> list[bytes]:
    return [encode_section(DATA, b"%d" % number) for number in range(n)]


def offsets(*jsons: Json) -> list[object]:
    """What offsets say of places; a broker may tell identities besides."""
    return [json["offsets"] for json in jsons]


def rows(options: SourceOptions, address: str, first: int, end: int) -> list[dict[str, Any]]:
    batches = read_range(options, OffsetRange(address, first, end), SCHEMA)
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_range_is_read_exactly(stream: str, publish: Any, options: Any):
    publish(stream, messages(1000))
    for first, end in ((0, 1000), (10, 11), (250, 750)):
        got = rows(options(stream, creditPerLink="100"), stream, first, end)
        assert [row["offset"] for row in got] == list(range(first, end))
        assert [row["body"] for row in got] == [b"%d" % number for number in range(first, end)]


def test_a_micro_batch_ends_at_its_limit_and_then_at_the_end(stream: str, publish: Any, options: Any):
    publish(stream, messages(50))
    source = StreamSource(options(stream, startingOffsets="earliest"))
    start = source.first()
    middle = source.latest(start, 30, None)
    end = source.latest(middle, 30, None)
    assert offsets(start, middle, end) == [{stream: 0}, {stream: 30}, {stream: 50}]
    assert source.latest(end, 30, None) == end, "nothing new has the same offset"
    assert [one[:3] for one in source.ranges(start, middle)] == [(stream, 0, 30)]
    source.close()


def test_bytes_limit_a_micro_batch_too(stream: str, publish: Any, options: Any):
    publish(stream, [encode_section(DATA, bytes(1000))] * 100)
    source = StreamSource(options(stream))
    end = source.latest(stream_json({stream: 0}), None, 20_000)
    assert 15 <= end["offsets"][stream] <= 20  # type: ignore[index]
    source.close()


def test_a_query_begins_at_the_end_unless_it_says_otherwise(stream: str, publish: Any, options: Any):
    publish(stream, messages(5))
    for given, offset in (
        ({}, 5),
        ({"startingOffsets": "earliest"}, 0),
        ({"startingOffsets": f'{{"{stream}": 3}}'}, 3),
        ({"startingTimestamp": "2020-01-01"}, 0),
        ({"startingTimestamp": "2100-01-01"}, 5),
    ):
        source = StreamSource(options(stream, **given))
        assert offsets(source.first()) == [{stream: offset}], given
        source.close()


def test_a_batch_query_reads_from_the_first_to_the_last(stream: str, publish: Any, options: Any):
    publish(stream, messages(5))
    source = StreamSource(options(stream))
    assert offsets(*source.range()) == [{stream: 0}, {stream: 5}]
    source.close()
    source = StreamSource(options(stream, startingOffsets=f'{{"{stream}": 1}}', endingOffsets=f'{{"{stream}": 4}}'))
    assert offsets(*source.range()) == [{stream: 1}, {stream: 4}]
    source.close()


def test_available_now_ends_where_the_streams_ended(declare: Declare, publish: Any, options: Any):
    addresses = [declare(f"stream-{next(NAMES)}", "x-queue-type=stream") for _ in range(2)]
    publish(addresses[0], messages(5))
    source = StreamSource(options(*addresses))
    source.stop_at_end()
    publish(addresses[0], messages(5))
    publish(addresses[1], messages(5))
    end = source.latest(stream_json(dict.fromkeys(addresses, 0)), None, None)
    assert offsets(end) == [{addresses[0]: 5, addresses[1]: 0}]
    source.close()


def test_ranges_are_split_over_tasks(stream: str, options: Any):
    source = StreamSource(options(stream, minPartitions="4"))
    ranges = source.ranges(stream_json({stream: 100}), stream_json({stream: 500}))
    assert ranges == [OffsetRange(stream, first, first + 100) for first in (100, 200, 300, 400)]


def test_lag_is_told_in_rows_bytes_and_seconds(stream: str, publish: Any, options: Any):
    now = 100.0
    source = StreamSource(options(stream), clock=lambda: now)
    publish(stream, messages(10))
    start = source.latest(stream_json({stream: 0}), 4, None)
    now = 107.5
    lag = source.lag()
    assert lag["offsets"] == {stream: 10}
    assert lag["lag"]["rows"] == 6  # type: ignore[index]
    assert lag["lag"]["bytes"] > 0  # type: ignore[index]
    assert lag["lag"]["seconds"] == 7.5  # type: ignore[index]
    source.latest(start, None, None)
    assert source.lag()["lag"] == {"rows": 0, "bytes": 0, "seconds": 0.0}
    source.close()


def test_lag_in_seconds_counts_from_the_moment_the_stream_went_beyond():
    lag = Lag()
    for end, now in ((10, 1.0), (20, 2.0), (20, 3.0), (30, 4.0)):
        lag.sampled(end, now)
    assert lag.of(5, Ends(0, 30, 2.0), 10.0) == (25, 50, 9.0)
    assert lag.of(10, Ends(0, 30, 2.0), 10.0) == (20, 40, 8.0)
    assert lag.of(25, Ends(0, 30, 2.0), 10.0) == (5, 10, 6.0)
    assert lag.of(30, Ends(0, 30, 2.0), 10.0) == (0, 0, 0.0)


def test_what_retention_removed_ends_the_query_or_is_left_out(declare: Declare, publish: Any, options: Any):
    address = declare(
        f"stream-{next(NAMES)}",
        "x-queue-type=stream",
        "x-max-length-bytes=20000",
        "x-stream-max-segment-size-bytes=10000",
    )
    for first in range(0, 100, 5):
        publish(address, [encode_section(DATA, b"%01000d" % number) for number in range(first, first + 5)])
    source = StreamSource(options(address))
    with pytest.raises(
        DataLost, match=rf"{address}: offsets 0 to \d+ are gone, by its retention; option failOnDataLoss"
    ):
        source.latest(stream_json({address: 0}), None, None)
    with pytest.raises(DataLost, match="are gone, by its retention"):
        rows(options(address), address, 0, 100)
    source.close()
    lossy = options(address, failOnDataLoss="false")
    source = StreamSource(lossy)
    latest = source.latest(stream_json({address: 0}), None, None)
    source.close()
    end = stream_offsets(latest, [address])[address]
    got = rows(lossy, address, 0, end)
    assert got[-1]["offset"] == end - 1
    numbers = [int(row["body"]) for row in got]
    assert numbers == list(range(numbers[0], 100))
    assert numbers[0] > 0


def test_a_stream_that_was_declared_anew_is_noticed(stream: str, publish: Any, options: Any):
    publish(stream, messages(5))
    source = StreamSource(options(stream))
    with pytest.raises(DataLost, match=f"{stream}: the query is at offset 9, but the stream ends at 5: it was deleted"):
        source.latest(stream_json({stream: 9}), None, None)
    source.close()
    with pytest.raises(DataLost, match="offsets 5 to 8 are wanted, but the stream has 0 to 4"):
        rows(options(stream), stream, 3, 9)
    lossy = options(stream, failOnDataLoss="false")
    source = StreamSource(lossy)
    end = source.latest(stream_json({stream: 9}), None, None)
    assert offsets(end) == [{stream: 5}]
    ranges = source.ranges(stream_json({stream: 9}), end)
    assert [one[:3] for one in ranges] == [(stream, 0, 5)], "from its beginning"
    source.close()


def test_the_checkpoint_of_another_query(stream: str, options: Any):
    source = StreamSource(options(stream))
    with pytest.raises(BadOffset, match=f"of a query that reads /queues/other, this one reads {stream}"):
        source.latest(stream_json({"/queues/other": 1}), None, None)
    source.close()


@pytest.mark.parametrize("probe", [False, True])
def test_a_queue_that_is_no_stream_and_keeps_what_it_has(
    declare: Declare, publish: Any, options: Any, take: Callable[[str], list[Message]], probe: bool
):
    address = declare(f"stream-{next(NAMES)}")
    publish(address, messages(3))
    source = StreamSource(options(address), probe=probe)
    with pytest.raises(BadOption, match=f"{address} is no stream: set option mode to queue"):
        source.first()
    source.close()
    assert len(take(address)) == 3


def test_a_task_is_not_given_a_queue_that_is_no_stream(declare: Declare, options: Any):
    address = declare(f"stream-{next(NAMES)}")
    with pytest.raises(BadOption, match=f"{address} is no stream"):
        rows(options(address), address, 0, 1)


def test_a_stream_that_does_not_exist(options: Any):
    source = StreamSource(options("/queues/none"))
    with pytest.raises(LinkRefused, match="no queue 'none'"):
        source.first()
    source.close()


BAD = b"\x00\x53\x77\xa1\x01\xff"
"""A body that is a string and no UTF-8: a broker does not look inside bodies, and passes it on."""


def test_a_message_that_is_no_row(stream: str, publish: Any, options: Any):
    publish(stream, [*messages(2), BAD, *messages(1)])
    with pytest.raises(BadMessage, match=f"{stream}: the message with the number 2 cannot become a row: .*onBadRow"):
        rows(options(stream), stream, 0, 4)
    for outcome in ("reject", "release"):
        assert [row["offset"] for row in rows(options(stream, onBadRow=outcome), stream, 0, 4)] == [0, 1, 3]
    got = rows(options(stream, onBadRow="null"), stream, 0, 4)
    assert [row["offset"] for row in got] == [0, 1, 2, 3]
    assert got[2]["body"].endswith(BAD)
    assert got[2]["messageId"] is None


def test_ends_are_found_without_asking_the_management_node(stream: str, publish: Any, options: Any):
    """As of any broker but ours: by attaching, at the first message and at the last."""
    publish(stream, messages(300))
    source = StreamSource(options(stream), probe=True)
    assert offsets(source.first()) == [{stream: 300}]
    assert offsets(*source.range()) == [{stream: 0}, {stream: 300}]
    assert offsets(source.latest(stream_json({stream: 7}), None, None)) == [{stream: 300}]
    source.close()


def test_messages_with_properties_are_read_as_they_are(stream: str, publish: Any, options: Any):
    entry = encode_section(APPLICATION_PROPERTIES, {"k": "v"}) + encode_section(DATA, b"x")
    publish(stream, [entry] * 3)
    got = rows(options(stream), stream, 0, 3)
    assert [row["properties"] for row in got] == [[("k", {"type": "string", "text": "v", "encoded": b"\xa1\x01v"})]] * 3


def test_the_time_of_arrival_is_that_of_each_message(declare: Callable[..., str], publish: Any, options: Any):
    address = declare(f"stream-{next(NAMES)}", "x-queue-type=stream", "x-enqueued-time=true")
    before = datetime.now(UTC) - timedelta(milliseconds=1)  # stamps are whole milliseconds
    annotated = encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-a"): 1}) + encode_section(DATA, b"x")
    publish(address, messages(3))
    publish(address, [annotated])
    got = rows(options(address), address, 0, 4)
    times = [row["enqueued"] for row in got]
    assert before <= times[0] <= times[2] <= times[3] <= datetime.now(UTC)
    assert [row["offset"] for row in got] == [0, 1, 2, 3]
    assert [row["annotations"] for row in got[:3]] == [None] * 3
    assert [key for key, _ in got[3]["annotations"]] == ["x-a"]


def test_a_stream_that_was_declared_without_it_tells_no_time(stream: str, publish: Any, options: Any):
    publish(stream, messages(1))
    assert rows(options(stream), stream, 0, 1)[0]["enqueued"] is None
