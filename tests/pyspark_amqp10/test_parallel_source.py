"""Queues read by several tasks, as Spark has it done, without Spark: what it calls, in its order, also across crashes.

A crash is a source whose connection is closed: what the broker held for it is ready again.
"""

from collections.abc import Callable, Iterator
from itertools import count
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import ReceivingLink, SendingLink
from amqp10.blocking.requests import BlockingManagement
from amqp10.client import Message
from amqp10.wire.messaging import RELEASED
from amqp10.wire.sections import DATA, Header, encode_header, encode_section
from pyspark_amqp10.columns import SCHEMA
from pyspark_amqp10.errors import BadMessage, BadOffset, BadOption, DataLost, LinkRefused, NoLongerHeld, RequestRefused
from pyspark_amqp10.holder import Holder
from pyspark_amqp10.login import Login
from pyspark_amqp10.offsets import Json, Numbers, QueueOffset, queue_json, queue_offsets
from pyspark_amqp10.options import SourceOptions
from pyspark_amqp10.parallel_source import ParallelQueueSource, Piece, read_held
from pyspark_amqp10.queue_source import QueueSource

pytestmark = pytest.mark.slow
Declare = Callable[..., str]
Take = Callable[[str], list[Message]]
NAMES = count()
WITHIN_S = 10.0
READERS = 4
BAD = b"\x00\x53\x77\xa1\x01\xff"
"""A body that is a string and no UTF-8."""


@pytest.fixture
def queue(declare: Declare) -> str:
    """The address of an empty queue that stamps sequence numbers."""
    return declare(f"parallel-{next(NAMES)}", "x-sequence=true")


@pytest.fixture
def connection(broker_options: dict[str, str]) -> Iterator[BlockingConnection]:
    """A connection of another client."""
    login = Login.parse(broker_options["url"], user="guest", password_file=broker_options["passwordFile"])
    with login.connect() as opened:
        yield opened


@pytest.fixture
def management(connection: BlockingConnection) -> BlockingManagement:
    """Requests of another client."""
    return BlockingManagement(connection)


@pytest.fixture
def consumer(connection: BlockingConnection) -> Callable[[str], ReceivingLink]:
    """A consumer of another client."""
    return lambda address: ReceivingLink.open(connection, address)


@pytest.fixture
def publish(connection: BlockingConnection) -> Callable[[str, list[bytes]], None]:
    """Send encoded messages and wait until they are confirmed."""

    def call(address: str, entries: list[bytes], header: bytes = b"") -> None:
        sending = SendingLink.open(connection, address)
        sent = sending.send(entries, header=header, within_s=WITHIN_S)
        assert sending.confirm(sent, within_s=WITHIN_S) == []
        sending.close()

    return call


class QueryWithReaders:
    """What Spark does with a source of several readers."""

    def __init__(self, options: SourceOptions, schema: pa.Schema = SCHEMA) -> None:
        self.options = options
        self.source = ParallelQueueSource(options)
        self._schema = schema

    def read(self, start: Json, end: Json) -> list[int]:
        """All tasks of a batch, one after the other."""
        return [number for task in self.source.tasks(start, end) for number in numbers(self.task(task))]

    def task(self, pieces: list[Piece]) -> list[pa.RecordBatch]:
        return list(read_held(self.options, pieces, self._schema))

    def batch(self, start: Json) -> tuple[list[int], Json]:
        end = self.source.plan(start)
        return self.read(start, end), end

    def everything(self, start: Json) -> tuple[list[int], Json]:
        """All batches up to the one that has nothing, as AvailableNow calls for them."""
        got: list[int] = []
        while (end := self.source.plan(start)) != start:
            got += self.read(start, end)
            start = end
        return got, end


@pytest.fixture
def driver(broker_options: dict[str, str]) -> Iterator[Callable[..., QueryWithReaders]]:
    """A driver for these queues; all are closed in the end."""
    made: list[QueryWithReaders] = []

    def call(*addresses: str, **given: str) -> QueryWithReaders:
        own = {"addresses": ",".join(addresses), "drainTimeout": "2s", "readers": str(READERS)}
        made.append(QueryWithReaders(SourceOptions.read(broker_options | own | given)))
        return made[-1]

    yield call
    for one in made:
        one.source.close()


@pytest.fixture
def anew(management: BlockingManagement, declare: Declare) -> Callable[[str], None]:
    """Delete a queue and declare it again."""

    def call(address: str) -> None:
        management.request("DELETE", address)
        assert declare(address.removeprefix("/queues/"), "x-sequence=true") == address

    return call


def depth(management: BlockingManagement, address: str) -> tuple[int, int]:
    """The messages that are ready, and those that consumers hold."""
    shown: Any = management.request("GET", "/headgate" + address).body
    return shown["messages_ready"], shown["messages_unacknowledged"]


def messages(n: int, first: int = 0) -> list[bytes]:
    return [encode_section(DATA, b"%d" % number) for number in range(first, first + n)]


def numbers(batches: list[pa.RecordBatch]) -> list[int]:
    return [int(row["body"]) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_batches_follow_each_other_and_each_is_settled_when_it_is_committed(
    kind: str, declare: Declare, publish: Any, driver: Any, management: BlockingManagement
):
    queue = declare(f"parallel-{next(NAMES)}", "x-sequence=true", f"x-queue-type={kind}")
    publish(queue, messages(25))
    one = driver(queue, maxRowsPerTrigger="10")
    first, first_end = one.batch(one.source.first())
    assert first == list(range(10))
    assert depth(management, queue) == (15, 10), "nothing is settled before the commit"
    second, second_end = one.batch(first_end)
    assert second == list(range(10, 20))
    one.source.committed(first_end)
    assert depth(management, queue) == (5, 10)
    one.source.committed(second_end)
    assert depth(management, queue) == (5, 0)
    third, third_end = one.batch(second_end)
    assert third == list(range(20, 25))
    assert queue_offsets(third_end, [queue])[queue].committed == Numbers([(0, 24)])
    assert one.source.plan(third_end) == third_end, "the last batch is settled, and there is no other"
    assert depth(management, queue) == (0, 0)


def test_the_messages_are_divided_and_every_attempt_of_a_task_has_the_same(queue: str, publish: Any, driver: Any):
    publish(queue, messages(10))
    one = driver(queue, creditPerLink="2")
    start = one.source.first()
    end = one.source.plan(start)
    tasks = one.source.tasks(start, end)
    assert [[len(piece.numbers) for piece in task] for task in tasks] == [[2], [3], [2], [3]]
    attempts = [read_held(one.options, tasks[1], SCHEMA) for _ in range(2)]
    batches: list[list[pa.RecordBatch]] = [[], []]
    for batch, other in zip(*attempts, strict=True):  # two attempts at once
        batches[0].append(batch)
        batches[1].append(other)
    assert numbers(batches[0]) == numbers(batches[1]) == [2, 3, 4]
    assert one.source.tasks(start, end) == tasks, "Spark may ask again"


def test_fewer_messages_than_readers_are_fewer_tasks(queue: str, publish: Any, driver: Any):
    publish(queue, messages(2))
    one = driver(queue)
    start = one.source.first()
    assert len(one.source.tasks(start, one.source.plan(start))) == 2


def test_a_plan_that_is_asked_for_again_is_the_same(queue: str, publish: Any, driver: Any):
    publish(queue, messages(5))
    one = driver(queue)
    start = one.source.first()
    end = one.source.plan(start)
    publish(queue, messages(5, 5))
    assert one.source.plan(start) == end
    assert one.read(start, end) == list(range(5))


def test_a_crash_before_the_commit_of_a_batch_that_was_written(
    queue: str, publish: Any, driver: Any, management: BlockingManagement
):
    """Spark has the batch in its log, and the broker has no outcome: what comes again is known and left out."""
    publish(queue, messages(30))
    before = driver(queue, maxRowsPerTrigger="10")
    end = before.source.plan(before.source.first())
    before.source.close()
    after = driver(queue, maxRowsPerTrigger="10")
    got, last = after.everything(end)
    assert got == list(range(10, 30)), "no empty batch in between, and none of the first ten again"
    assert depth(management, queue) == (0, 0)
    assert queue_offsets(last, [queue])[queue].fetched == 30


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_crash_amid_a_batch_that_was_planned(
    kind: str, declare: Declare, publish: Any, driver: Any, management: BlockingManagement, consumer: Any
):
    """Spark has the same rows read again, then goes on behind them. What else has become ready is not among them."""
    queue = declare(f"parallel-{next(NAMES)}", "x-sequence=true", f"x-queue-type={kind}")
    publish(queue, messages(40))
    other = consumer(queue)
    taken = other.fetch(5, within_s=WITHIN_S)
    before = driver(queue, maxRowsPerTrigger="10")
    first_end = before.source.plan(before.source.first())
    second, second_end = before.batch(first_end)
    assert second == list(range(15, 25))
    before.source.close()
    other.settle(taken[0].first, taken[-1].last, RELEASED)
    other.sync()
    after = driver(queue)
    assert after.read(first_end, second_end) == second
    assert depth(management, queue) == (20, 10), "the first batch is settled, and what the other gave back is ready"
    got, _ = after.everything(second_end)
    assert got == [*range(5), *range(25, 40)]
    assert depth(management, queue) == (0, 0)


def test_a_crash_after_which_messages_of_the_batch_are_gone(queue: str, publish: Any, driver: Any, take: Take):
    publish(queue, messages(10))
    before = driver(queue)
    start = before.source.first()
    end = before.source.plan(start)
    before.source.close()
    assert len(take(queue)) == 10
    publish(queue, messages(3, 10))
    with pytest.raises(DataLost, match="10 messages of the batch that was begun before the crash were not ready again"):
        driver(queue, drainTimeout="300ms").source.tasks(start, end)
    after = driver(queue, drainTimeout="300ms", failOnDataLoss="false")
    assert after.read(start, end) == []
    assert after.everything(end)[0] == [10, 11, 12]


def settle_down(management: BlockingManagement, address: str, wanted: tuple[int, int]) -> None:
    """Ask until the broker has done what a lost connection leaves to do."""
    deadline = monotonic() + WITHIN_S
    while (found := depth(management, address)) != wanted:
        assert monotonic() < deadline, found


def drop(management: BlockingManagement, container_id: str) -> None:
    """Close the connection of another client."""
    page: Any = management.request("GET", "/headgate/connections").body
    for one in page["items"]:
        if one["container_id"] == container_id:
            management.request("DELETE", f"/headgate/connections/{one['identity']}")


def test_a_driver_that_loses_its_connection_amid_a_batch(
    queue: str, publish: Any, driver: Any, management: BlockingManagement
):
    """Its tasks fail, also if data loss is allowed, and the query that is started again has every row once."""
    publish(queue, messages(20))
    one = driver(queue, maxRowsPerTrigger="10", containerId="lost-amid", failOnDataLoss="false")
    start = one.source.first()
    end = one.source.plan(start)
    tasks = one.source.tasks(start, end)
    got = numbers(one.task(tasks[0]))
    drop(management, "lost-amid")
    settle_down(management, queue, (20, 0))
    with pytest.raises(NoLongerHeld, match=f"{queue}: 3 messages, the first with the number 2, are not held"):
        one.task(tasks[1])
    one.source.close()
    after = driver(queue)
    assert after.read(start, end) == list(range(10))
    assert got == [0, 1], "the first task's rows were of the same batch"
    assert after.everything(end)[0] == list(range(10, 20))


def test_messages_that_are_held_for_longer_than_the_consumer_time_out(
    declare: Declare, publish: Any, driver: Any, management: BlockingManagement
):
    queue = declare(f"parallel-{next(NAMES)}", "x-sequence=true", "x-consumer-timeout=1")
    publish(queue, messages(10))
    one = driver(queue)
    start = one.source.first()
    end = one.source.plan(start)
    tasks = one.source.tasks(start, end)
    settle_down(management, queue, (10, 0))
    with pytest.raises(NoLongerHeld, match="or the consumer time-out has passed; nothing is lost"):
        one.task(tasks[0])
    one.source.committed(end)
    assert depth(management, queue) == (10, 0), "what the driver does not hold it cannot settle"


def test_a_purge_amid_a_batch_takes_nothing_of_it(
    queue: str, publish: Any, driver: Any, management: BlockingManagement
):
    publish(queue, messages(10))
    one = driver(queue, maxRowsPerTrigger="6")
    start = one.source.first()
    end = one.source.plan(start)
    management.request("DELETE", f"{queue}/messages")
    assert depth(management, queue) == (0, 6)
    assert one.read(start, end) == list(range(6))
    assert one.source.plan(end) == end
    assert depth(management, queue) == (0, 0)


def test_a_driver_that_loses_its_connection_between_batches_connects_again(
    queue: str, publish: Any, driver: Any, management: BlockingManagement
):
    publish(queue, messages(20))
    one = driver(queue, maxRowsPerTrigger="10", containerId="lost-between")
    got, end = one.batch(one.source.first())
    drop(management, "lost-between")
    assert got + one.everything(end)[0] == list(range(20)), "what the lost connection held came again, and was known"
    assert depth(management, queue) == (0, 0)


def test_available_now_takes_what_was_there(queue: str, publish: Any, driver: Any):
    publish(queue, messages(15))
    one = driver(queue, maxRowsPerTrigger="10")
    one.source.stop_at_end()
    publish(queue, messages(10, 15))
    assert one.everything(one.source.first())[0] == list(range(15))


def test_available_now_takes_all_that_was_there_although_a_connection_is_lost(
    queue: str, publish: Any, driver: Any, management: BlockingManagement
):
    """The messages of a batch that could not be settled are held again, and count once."""
    publish(queue, messages(40))
    one = driver(queue, maxRowsPerTrigger="10", containerId="lost-to-the-end")
    one.source.stop_at_end()
    publish(queue, messages(10, 40))
    got, end = one.batch(one.source.first())
    drop(management, "lost-to-the-end")
    assert got + one.everything(end)[0] == list(range(40))
    settle_down(management, queue, (10, 0))


@pytest.mark.parametrize("planned", [False, True])
def test_available_now_after_a_crash_takes_all_that_was_there_and_no_more(
    queue: str, publish: Any, driver: Any, management: BlockingManagement, planned: bool
):
    """A batch was written and not settled, or it was settled and the next one was planned."""
    publish(queue, messages(45))
    before = driver(queue, maxRowsPerTrigger="10")
    _, written = before.batch(before.source.first())
    end = before.source.plan(written) if planned else written
    before.source.close()
    settle_down(management, queue, (35 if planned else 45, 0))
    after = driver(queue, maxRowsPerTrigger="10")
    after.source.stop_at_end()
    publish(queue, messages(5, 45))
    got = after.read(written, end) if planned else []
    assert got + after.everything(end)[0] == list(range(10, 45))
    settle_down(management, queue, (5, 0))


def test_a_batch_is_bounded_by_bytes(queue: str, publish: Any, driver: Any):
    publish(queue, [encode_section(DATA, b"%0900d" % number) for number in range(2000)])
    one = driver(queue, maxBytesPerTrigger="1000000")
    first, end = one.batch(one.source.first())
    second, _ = one.batch(end)
    assert 1000 <= len(first) <= 1112
    assert first + second == list(range(len(first) + len(second)))


def test_several_queues_share_a_batch_and_its_tasks(
    declare: Declare, publish: Any, driver: Any, management: BlockingManagement
):
    addresses = [declare(f"parallel-{next(NAMES)}", "x-sequence=true") for _ in range(2)]
    publish(addresses[0], messages(5))
    publish(addresses[1], messages(5, 100))
    one = driver(*addresses, linkName="both", maxRowsPerTrigger="8", readers="2")
    start = one.source.first()
    end = one.source.plan(start)
    assert [[len(piece.numbers) for piece in task] for task in one.source.tasks(start, end)] == [[2, 1], [3, 2]]
    assert sorted(one.read(start, end)) == [0, 1, 2, 3, 4, 100, 101, 102]
    assert one.everything(end)[0] == [103, 104]
    assert [depth(management, address) for address in addresses] == [(0, 0), (0, 0)]


def test_another_consumer_shares_the_messages(queue: str, publish: Any, driver: Any, consumer: Any):
    publish(queue, messages(30))
    other = consumer(queue)
    one = driver(queue, maxRowsPerTrigger="10")
    first, end = one.batch(one.source.first())
    runs = other.fetch(10, within_s=WITHIN_S)
    assert sum(len(run.entries) for run in runs) == 10
    got, end = one.everything(end)
    assert first + got == [*range(10), *range(20, 30)]
    assert queue_offsets(end, [queue])[queue].committed == Numbers([(0, 9), (20, 29)])


def test_two_queries_share_the_messages(queue: str, publish: Any, driver: Any):
    publish(queue, messages(20))
    one, two = driver(queue, maxRowsPerTrigger="10"), driver(queue, maxRowsPerTrigger="10")
    ends = [each.source.plan(each.source.first()) for each in (one, two)]
    assert one.read(one.source.first(), ends[0]) == list(range(10))
    assert two.read(two.source.first(), ends[1]) == list(range(10, 20))


def test_a_queue_with_a_single_active_consumer_gives_nothing_to_the_second(
    declare: Declare, publish: Any, driver: Any, consumer: Any
):
    queue = declare(f"parallel-{next(NAMES)}", "x-sequence=true", "x-single-active-consumer=true")
    publish(queue, messages(5))
    consumer(queue)
    one = driver(queue)
    with pytest.raises(RequestRefused, match="another consumer is the single active one"):
        one.source.plan(one.source.first())


def test_messages_of_several_priorities_are_rows_once(
    declare: Declare, publish: Any, driver: Any, management: BlockingManagement
):
    queue = declare(f"parallel-{next(NAMES)}", "x-sequence=true", "x-max-priority=9")
    for number in range(20):
        publish(queue, messages(1, number), encode_header(Header(priority=number % 3)))
    before = driver(queue, maxRowsPerTrigger="10")
    start = before.source.first()
    first, end = before.batch(start)
    assert sorted(first) == sorted(sorted(range(20), key=lambda number: -(number % 3))[:10])
    before.source.close()
    after = driver(queue, maxRowsPerTrigger="10")
    assert after.read(start, end) == first
    assert sorted(first + after.everything(end)[0]) == list(range(20))
    assert depth(management, queue) == (0, 0)


def test_messages_that_have_expired_do_not_end_a_run(queue: str, publish: Any, driver: Any):
    publish(queue, messages(3000, 1000), encode_header(Header(ttl=1)))
    publish(queue, messages(10))
    got, _ = driver(queue).everything(driver(queue).source.first())
    assert [number for number in got if number < 1000] == list(range(10))


def test_a_queue_declared_anew_between_plan_and_read(queue: str, publish: Any, driver: Any, anew: Any):
    publish(queue, messages(10))
    one, lenient = driver(queue), driver(queue, failOnDataLoss="false")
    start = one.source.first()
    end = one.source.plan(start)
    tasks = one.source.tasks(start, end)
    anew(queue)
    publish(queue, messages(3, 50))
    with pytest.raises(DataLost, match="was deleted and declared anew"):
        one.task(tasks[0])
    assert lenient.task(tasks[0]) == []
    with pytest.raises(DataLost, match="was deleted and declared anew"):
        driver(queue).source.tasks(start, end)
    with pytest.raises(DataLost, match="was deleted and declared anew"):
        driver(queue).source.plan(end)
    assert lenient.read(start, end) == []
    assert lenient.everything(end)[0] == [50, 51, 52], "its numbers begin anew, and are not taken for the former ones"


def test_a_queue_that_is_deleted_amid_a_batch(queue: str, publish: Any, driver: Any, management: BlockingManagement):
    publish(queue, messages(10))
    one = driver(queue)
    start = one.source.first()
    end = one.source.plan(start)
    tasks = one.source.tasks(start, end)
    management.request("DELETE", queue)
    with pytest.raises(LinkRefused, match="no queue"):
        one.task(tasks[0])
    with pytest.raises(LinkRefused, match="no queue"):
        one.source.plan(end)


def test_the_checkpoint_of_one_reader_is_continued_by_several_and_back(queue: str, publish: Any, driver: Any):
    publish(queue, messages(30))
    several = driver(queue, maxRowsPerTrigger="10")
    one = QueueSource(driver(queue, maxRowsPerTrigger="10", readers="1").options, SCHEMA)
    _, first_end = one.fetch(one.first())
    one.close()
    second, second_end = several.batch(first_end)
    several.source.close()
    third, third_end = one.fetch(second_end)
    one.close()
    assert second == list(range(10, 20))
    assert numbers(third) == list(range(20, 30))
    several = driver(queue)
    assert several.read(second_end, third_end) == list(range(20, 30)), "a batch that the other way has planned"
    assert several.source.plan(third_end) == third_end


def test_the_offset_has_the_lag(queue: str, publish: Any, driver: Any):
    publish(queue, messages(25))
    one = driver(queue, maxRowsPerTrigger="10")
    end = one.source.plan(one.source.first())
    assert end["lag"]["rows"] == 15
    assert end["lag"]["bytes"] > 0


def test_only_the_wanted_columns_are_read(queue: str, publish: Any, driver: Any):
    publish(queue, messages(2))
    one = driver(queue)
    start = one.source.first()
    tasks = one.source.tasks(start, one.source.plan(start))
    schema = pa.schema([SCHEMA.field("offset"), SCHEMA.field("body")])
    rows = [row for task in tasks for batch in read_held(one.options, task, schema) for row in batch.to_pylist()]
    assert rows == [{"offset": 0, "body": b"0"}, {"offset": 1, "body": b"1"}]


def test_a_message_that_cannot_become_a_row(queue: str, publish: Any, driver: Any, management: BlockingManagement):
    publish(queue, [*messages(1), BAD])
    one = driver(queue, readers="2")
    start = one.source.first()
    end = one.source.plan(start)
    with pytest.raises(BadMessage, match="the message with the number 1 cannot become a row"):
        one.read(start, end)
    one.source.close()
    settle_down(management, queue, (2, 0))
    lenient = driver(queue, onBadRow="null")
    tasks = lenient.source.tasks(start, end)
    rows = [row for task in tasks for batch in lenient.task(task) for row in batch.to_pylist()]
    assert [(row["offset"], row["body"][-1:]) for row in rows] == [(0, b"0"), (1, b"\xff")]


def test_a_queue_without_numbers_is_refused(declare: Declare, publish: Any, driver: Any):
    queue = declare(f"parallel-{next(NAMES)}")
    publish(queue, messages(5))
    one = driver(queue)
    with pytest.raises(LinkRefused, match="so it needs x-sequence"):
        one.source.plan(one.source.first())


def test_a_batch_that_one_reader_has_planned_without_numbers_is_refused(queue: str, driver: Any):
    one = driver(queue)
    end = queue_json({queue: QueueOffset(Numbers(), 5)})
    with pytest.raises(BadOffset, match="without sequence numbers, which several readers need"):
        one.source.tasks(one.source.first(), end)


def test_another_broker_is_refused(driver: Any, management: BlockingManagement):
    connection: Any = SimpleNamespace(
        broker={"product": "RabbitMQ", "version": "4.0.5"}, url=SimpleNamespace(place="broker.example:5672")
    )
    with pytest.raises(BadOption, match=r"option readers is 4, and broker\.example:5672 is not Headgate: set it to 1"):
        Holder.open(connection, management, driver("/queues/a").options, "/queues/a")


def test_a_stream_is_refused(declare: Declare, driver: Any):
    one = driver(declare(f"parallel-{next(NAMES)}", "x-queue-type=stream"))
    with pytest.raises(LinkRefused, match="the messages of a stream are not held"):
        one.source.plan(one.source.first())


def test_an_address_that_is_not_a_queue_is_refused(driver: Any):
    one = driver("/exchanges/amq.topic/a")
    with pytest.raises(BadOption, match="option readers is 4, so /exchanges/"):
        one.source.plan(one.source.first())
