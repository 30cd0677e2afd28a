"""Queues read as Spark reads them, without Spark: what it calls, in its order, also across crashes.

A crash is a source whose connection is closed: the broker delivers again what it held. The order of calls is Spark's:
``fetch(start)`` only when the batch that ended at ``start`` is in its log, ``committed`` late and never for the last.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from time import monotonic
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import ReceivingLink, SendingLink
from amqp10.blocking.requests import BlockingManagement
from amqp10.client import Message
from amqp10.wire.sections import DATA, MESSAGE_ANNOTATIONS, encode_section
from amqp10.wire.types import Symbol
from pyspark_amqp10.columns import SCHEMA
from pyspark_amqp10.errors import BadMessage, BadOffset, BadOption, DataLost, LinkRefused
from pyspark_amqp10.login import Login
from pyspark_amqp10.offsets import Json, Numbers, queue_offsets, stream_json
from pyspark_amqp10.options import SourceOptions
from pyspark_amqp10.queue_depths import Depth, QueueDepths
from pyspark_amqp10.queue_source import QueueSource, numbers_of, read_again, repeated_places

pytestmark = pytest.mark.slow
Declare = Callable[..., str]
Take = Callable[[str], list[Message]]
NAMES = count()
WITHIN_S = 10.0
BAD = b"\x00\x53\x77\xa1\x01\xff"
"""A body that is a string and no UTF-8: a broker does not look inside bodies, and passes it on."""


@pytest.fixture
def queue(declare: Declare) -> str:
    """The address of an empty queue that stamps sequence numbers."""
    return declare(f"source-{next(NAMES)}", "x-sequence=true")


@pytest.fixture
def plain_queue(declare: Declare) -> str:
    """The address of one that does not."""
    return declare(f"source-{next(NAMES)}")


@pytest.fixture
def connection(broker_options: dict[str, str]) -> Iterator[BlockingConnection]:
    """A connection of another client."""
    login = Login.parse(broker_options["url"], user="guest", password_file=broker_options["passwordFile"])
    with login.connect() as opened:
        yield opened


@pytest.fixture
def publish(connection: BlockingConnection) -> Callable[[str, list[bytes]], None]:
    """Send encoded messages and wait until they are confirmed."""

    def call(address: str, entries: list[bytes]) -> None:
        sending = SendingLink.open(connection, address)
        sent = sending.send(entries, within_s=WITHIN_S)
        assert sending.confirm(sent, within_s=WITHIN_S) == []
        sending.close()

    return call


@pytest.fixture
def options(broker_options: dict[str, str]) -> Callable[..., SourceOptions]:
    """Options of a query of queues."""

    def call(*addresses: str, **given: str) -> SourceOptions:
        return SourceOptions.read(broker_options | {"addresses": ",".join(addresses), "drainTimeout": "2s"} | given)

    return call


@pytest.fixture
def source(options: Callable[..., SourceOptions]) -> Iterator[Callable[..., QueueSource]]:
    """A source of these queues; all are closed in the end."""
    made: list[QueueSource] = []

    def call(*addresses: str, **given: str) -> QueueSource:
        made.append(QueueSource(options(*addresses, **given), SCHEMA))
        return made[-1]

    yield call
    for one in made:
        one.close()


@pytest.fixture
def stamped(peer: object) -> Callable[..., Numbers]:
    """The numbers of these ranges, which a checkpoint has; none with a broker that stamps none."""

    def call(*ranges: tuple[int, int]) -> Numbers:
        return Numbers(ranges if peer is None else ())

    return call


def ready(connection: BlockingConnection, address: str) -> int | None:
    """How many messages are there, whatever they are."""
    return ReceivingLink.open(connection, address).ready()


def messages(n: int, first: int = 0) -> list[bytes]:
    return [encode_section(DATA, b"%d" % number) for number in range(first, first + n)]


def numbers(batches: Any) -> list[int]:
    return [int(row["body"]) for batch in batches for row in batch.to_pylist()]


def everything(source: QueueSource, start: Json) -> tuple[list[int], Json]:
    """All batches up to the one that has nothing, as AvailableNow calls for them."""
    got: list[int] = []
    while True:
        batches, end = source.fetch(start)
        if end == start:
            return got, end
        got += numbers(batches)
        start = end


def test_batches_follow_each_other_and_each_is_settled_when_it_is_committed(
    queue: str, publish: Any, source: Any, take: Take, stamped: Any
):
    publish(queue, messages(25))
    reader = source(queue, maxRowsPerTrigger="10")
    start = reader.first()
    first, first_end = reader.fetch(start)
    assert numbers(first) == list(range(10))
    second, second_end = reader.fetch(first_end)
    assert numbers(second) == list(range(10, 20))
    reader.committed(first_end)
    third, third_end = reader.fetch(second_end)
    assert numbers(third) == list(range(20, 25))
    reader.close()
    assert [message.body for message in take(queue)] == [b"%d" % number for number in range(20, 25)], "not committed"
    assert queue_offsets(third_end, [queue])[queue].committed == stamped((0, 24))


def test_the_last_batch_is_settled_when_the_next_one_is_asked_for(queue: str, publish: Any, source: Any, take: Take):
    publish(queue, messages(5))
    reader = source(queue)
    got, end = everything(reader, reader.first())
    assert got == [0, 1, 2, 3, 4]
    assert reader.fetch(end) == ([], end)
    reader.close()
    assert take(queue) == []


def test_nothing_is_settled_before_the_commit(queue: str, publish: Any, source: Any, take: Take):
    publish(queue, messages(5))
    reader = source(queue)
    reader.fetch(reader.first())
    reader.close()
    assert len(take(queue)) == 5


def test_between_batches_there_is_no_link_credit(queue: str, publish: Any, source: Any, connection: BlockingConnection):
    publish(queue, messages(5))
    reader = source(queue)
    reader.fetch(reader.first())
    publish(queue, messages(3, 5))
    assert ReceivingLink.open(connection, queue).ready() == 3, "the reader, which is attached, took none of them"


def test_a_crash_before_the_commit_of_a_batch_that_was_written(queue: str, publish: Any, source: Any, take: Take):
    """Spark has the batch in its log, and the broker has no outcome: what comes again is known and left out."""
    publish(queue, messages(30))
    before = source(queue, maxRowsPerTrigger="10")
    _, end = before.fetch(before.first())
    before.close()
    after = source(queue, maxRowsPerTrigger="10")
    got, last = everything(after, end)
    assert got == list(range(10, 30)), "no empty batch in between, and none of the first ten again"
    after.close()
    assert take(queue) == []
    assert queue_offsets(last, [queue])[queue].fetched == 30


def test_a_crash_amid_a_batch_that_was_planned(queue: str, publish: Any, source: Any, options: Any, take: Take):
    """Spark asks a task for the same rows again, then goes on behind them."""
    publish(queue, messages(30))
    before = source(queue, maxRowsPerTrigger="10")
    _, first_end = before.fetch(before.first())
    second, second_end = before.fetch(first_end)
    before.close()
    again = numbers(read_again(options(queue), first_end, second_end, SCHEMA))
    assert again == numbers(second) == list(range(10, 20))
    after = source(queue)
    got, _ = everything(after, second_end)
    assert got == list(range(20, 30))
    after.close()
    assert take(queue) == []


def test_a_broker_that_comes_back_is_connected_to_again(queue: str, publish: Any, source: Any, connection: Any):
    publish(queue, messages(20))
    reader = source(queue, maxRowsPerTrigger="10", containerId="lost")
    _, end = reader.fetch(reader.first())
    management = BlockingManagement(connection)
    page: Any = management.request("GET", "/headgate/connections").body
    (mine,) = [one for one in page["items"] if one["container_id"] == "lost"]
    management.request("DELETE", f"/headgate/connections/{mine['identity']}")
    got, _ = everything(reader, end)
    assert got == list(range(10, 20)), "what the lost connection held came again, and was known"


def test_available_now_takes_what_was_there(queue: str, publish: Any, source: Any):
    publish(queue, messages(15))
    reader = source(queue, maxRowsPerTrigger="10")
    reader.stop_at_end()
    publish(queue, messages(10, 15))
    got, _ = everything(reader, reader.first())
    assert got == list(range(15))


def test_a_batch_is_bounded_by_bytes(queue: str, publish: Any, source: Any):
    publish(queue, [encode_section(DATA, b"%0900d" % number) for number in range(2000)])
    reader = source(queue, maxBytesPerTrigger="1000000")
    batches, end = reader.fetch(reader.first())
    assert 900 <= len(numbers(batches)) <= 1112
    batches, _ = reader.fetch(end)
    assert 900 <= len(numbers(batches)) <= 1112


def test_several_queues_share_a_batch(declare: Declare, publish: Any, source: Any, take: Take):
    addresses = [declare(f"source-{next(NAMES)}", "x-sequence=true") for _ in range(2)]
    publish(addresses[0], messages(5))
    publish(addresses[1], messages(5, 100))
    reader = source(*addresses, linkName="both")
    batches, end = reader.fetch(reader.first())
    assert sorted(numbers(batches)) == [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]
    assert {row["address"] for batch in batches for row in batch.to_pylist()} == set(addresses)
    reader.committed(end)
    reader.close()
    assert [take(address) for address in addresses] == [[], []]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_the_time_of_arrival_is_that_of_each_message(
    kind: str, declare: Declare, publish: Any, source: Any, connection: BlockingConnection
):
    address = declare(f"queue-{next(NAMES)}", f"x-queue-type={kind}", "x-sequence=true", "x-enqueued-time=true")
    before = datetime.now(UTC) - timedelta(milliseconds=1)  # stamps are whole milliseconds
    publish(address, messages(3))
    with_own = encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-a"): 1}) + encode_section(DATA, b"x")
    publish(address, [with_own])
    between = datetime.now(UTC)
    link = ReceivingLink.open(connection, address)
    assert link.fetch(4, within_s=WITHIN_S)
    link.close()  # they go back unsettled, and keep their times
    batches, _ = source(address).fetch(source(address).first())
    got = [row for batch in batches for row in batch.to_pylist()]
    times = [row["enqueued"] for row in got]
    assert len(times) == 4
    assert before <= times[0] <= times[2] <= times[3] <= between
    assert [row["annotations"] for row in got[:3]] == [None] * 3
    assert [key for key, _ in got[3]["annotations"]] == ["x-a"]


def test_without_numbers_a_crash_repeats_and_loses_nothing(
    plain_queue: str, publish: Any, source: Any, options: Any, take: Take
):
    publish(plain_queue, messages(20))
    before = source(plain_queue, maxRowsPerTrigger="10")
    start = before.first()
    _, end = before.fetch(start)
    before.close()
    assert numbers(read_again(options(plain_queue), start, end, SCHEMA)) == list(range(10))
    after = source(plain_queue)
    got, _ = everything(after, end)
    assert got == list(range(20)), "at least once"
    after.close()
    assert take(plain_queue) == []


def test_the_offset_of_a_batch_says_what_was_left(declare: Declare, publish: Any, source: Any, peer: object):
    addresses = [declare(f"source-{next(NAMES)}", "x-sequence=true") for _ in range(2)]
    for address in addresses:
        publish(address, messages(200))
    reader = source(*addresses, maxRowsPerTrigger="1")
    _, end = reader.fetch(reader.first())
    assert end["lag"]["rows"] == 399
    assert end["lag"]["bytes"] > 399 * len(messages(1)[0])
    if peer is None:
        patience = monotonic() + WITHIN_S
        while end["lag"]["seconds"] < 0.2 and monotonic() < patience:
            _, end = reader.fetch(end)
        assert 0.2 <= end["lag"]["seconds"] < WITHIN_S + 1
    else:
        assert end["lag"]["seconds"] is None
    reader.close()
    reader = source(*addresses)
    _, end = everything(reader, end)
    assert end["lag"] == {"rows": 0, "bytes": 0, "seconds": 0.0}


def test_a_lag_is_also_found_by_the_flow_of_a_link(plain_queue: str, publish: Any, connection: BlockingConnection):
    publish(plain_queue, messages(3))
    link = ReceivingLink.open(connection, plain_queue)
    depths = QueueDepths(connection, probe=True)
    assert depths.of(link, 10.0) == Depth(rows=3, bytes=30, seconds=None)
    link.fetch(3, within_s=WITHIN_S)
    assert depths.of(link, 10.0) == Depth(rows=0, bytes=0, seconds=0.0)


def test_settled_at_once_if_wished(queue: str, publish: Any, source: Any, take: Take):
    publish(queue, messages(5))
    reader = source(queue, settle="fetch")
    reader.fetch(reader.first())
    reader.close()
    assert take(queue) == []


def test_a_message_that_another_consumer_gave_back_late_is_new(
    queue: str, publish: Any, source: Any, connection: Any, stamped: Any
):
    """Its number is below those that are committed, and it never was."""
    publish(queue, messages(3))
    other = ReceivingLink.open(connection, queue)
    other.fetch(1, within_s=WITHIN_S)
    reader = source(queue)
    got, end = everything(reader, reader.first())
    assert got == [1, 2]
    other.close()
    got, end = everything(reader, end)
    assert got == [0]
    assert queue_offsets(end, [queue])[queue].committed == stamped((0, 2))


def test_a_batch_of_which_messages_are_gone(queue: str, publish: Any, source: Any, options: Any, take: Take):
    publish(queue, messages(5))
    before = source(queue)
    start = before.first()
    _, end = before.fetch(start)
    before.close()
    take(queue)
    with pytest.raises(DataLost, match=f"{queue}: 5 messages of the batch .* the first with the number 0"):
        list(read_again(options(queue, drainTimeout="300ms"), start, end, SCHEMA))
    assert numbers(read_again(options(queue, drainTimeout="300ms", failOnDataLoss="false"), start, end, SCHEMA)) == []


def test_a_message_that_is_no_row_ends_the_query_and_nothing_is_settled(
    queue: str, publish: Any, source: Any, connection: Any
):
    publish(queue, [*messages(2), BAD])
    reader = source(queue)
    with pytest.raises(BadMessage, match=f"{queue}: (the|a) message .*cannot become a row.*onBadRow"):
        reader.fetch(reader.first())
    reader.close()
    assert ready(connection, queue) == 3


def test_a_message_that_is_no_row_can_be_rejected(
    declare: Declare, publish: Any, source: Any, connection: Any, stamped: Any
):
    dead = declare(f"source-{next(NAMES)}")
    name = dead.removeprefix("/queues/")
    address = declare(
        f"source-{next(NAMES)}", "x-sequence=true", "x-dead-letter-exchange=", f"x-dead-letter-routing-key={name}"
    )
    publish(address, [*messages(2), BAD, *messages(2, 2)])
    reader = source(address, onBadRow="reject")
    got, end = everything(reader, reader.first())
    assert got == [0, 1, 2, 3]
    assert queue_offsets(end, [address])[address].committed == stamped((0, 4))
    reader.close()
    assert ready(connection, address) == 0
    link = ReceivingLink.open(connection, dead)
    link.stream(1, messages=1)
    assert len(link.arrived(within_s=WITHIN_S)) == 1


def test_a_message_that_is_no_row_can_be_given_back(
    queue: str, publish: Any, source: Any, connection: Any, stamped: Any
):
    publish(queue, [*messages(2), BAD, *messages(2, 2)])
    reader = source(queue, onBadRow="release")
    batches, end = reader.fetch(reader.first())
    assert numbers(batches) == [0, 1, 2, 3]
    assert queue_offsets(end, [queue])[queue].committed == stamped((0, 1), (3, 4))
    reader.committed(end)
    reader.close()
    assert ready(connection, queue) == 1


def test_a_message_that_is_no_row_can_become_one_of_nulls(queue: str, publish: Any, source: Any, peer: object):
    publish(queue, [BAD])
    reader = source(queue, onBadRow="null")
    batches, _ = reader.fetch(reader.first())
    ((row,),) = [batch.to_pylist() for batch in batches]
    assert row["body"].endswith(BAD)
    assert row["offset"] == (0 if peer is None else None)
    assert row["durable"] is None


def test_a_stream_is_no_queue(declare: Declare, publish: Any, source: Any):
    address = declare(f"source-{next(NAMES)}", "x-queue-type=stream")
    reader = source(address)
    reader.fetch(reader.first())
    publish(address, messages(1))
    with pytest.raises(BadOption, match=f"{address} is a stream: set option mode to stream"):
        reader.fetch(reader.first())


def test_a_queue_that_does_not_exist(source: Any):
    reader = source("/queues/none")
    with pytest.raises(LinkRefused, match="no queue 'none'"):
        reader.fetch(reader.first())


def test_the_checkpoint_of_another_query(queue: str, source: Any):
    with pytest.raises(BadOffset, match="of a query with mode 'stream', this one has 'queue'"):
        source(queue).fetch(stream_json({queue: 3}))


@given(st.lists(st.integers(0, 50) | st.none(), max_size=12), st.frozensets(st.integers(0, 50)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_repeated_are_exactly_the_numbers_that_were_there(came: list[int | None], before: frozenset[int]):
    known = Numbers.of(before)
    assert repeated_places(came, known) == {place for place, number in enumerate(came) if number in before}
    assert numbers_of(came) == Numbers.of(number for number in came if number is not None)
