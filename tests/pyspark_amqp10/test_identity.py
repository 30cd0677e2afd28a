"""Queues and streams that were deleted and declared anew while a checkpoint remembers the former: nothing is left out
in silence. Read as Spark reads them, without Spark."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from amqp10.blocking.links import ReceivingLink, SendingLink
from amqp10.cli.exits import Exit
from amqp10.cli.main import run as headgate
from amqp10.wire.sections import DATA, encode_section
from pyspark_amqp10.columns import SCHEMA
from pyspark_amqp10.errors import BadOffset, DataLost, LinkRefused
from pyspark_amqp10.login import Login
from pyspark_amqp10.offsets import (
    Json,
    Numbers,
    QueueOffset,
    identities_in,
    queue_json,
    queue_offsets,
    stream_json,
    stream_offsets,
    with_identities,
)
from pyspark_amqp10.options import SourceOptions
from pyspark_amqp10.queue_source import QueueSource, read_again
from pyspark_amqp10.stream_source import StreamSource, read_range
from tests.kit.broker_process import BrokerAddress

pytestmark = pytest.mark.slow
Declare = Callable[..., str]
NAMES = count()
WITHIN_S = 10.0
NUMBERED, STREAM = "x-sequence=true", "x-queue-type=stream"
ANEW = (
    "{} was deleted and declared anew: the query has read the one with the identity {}, and the one that is there now"
)
IDENTITY = "[0-9a-f]{32}"


@pytest.fixture
def login(broker_options: dict[str, str]) -> Login:
    return Login.parse(broker_options["url"], user="guest", password_file=broker_options["passwordFile"])


@pytest.fixture
def publish(login: Login) -> Callable[[str, int, int], None]:
    """Send numbered messages and wait until they are confirmed."""

    def call(address: str, first: int, end: int) -> None:
        with login.connect() as connection:
            sending = SendingLink.open(connection, address)
            sent = sending.send(
                [encode_section(DATA, b"%d" % number) for number in range(first, end)], within_s=WITHIN_S
            )
            assert sending.confirm(sent, within_s=WITHIN_S) == []

    return call


@pytest.fixture
def anew(broker: BrokerAddress, declare: Declare) -> Callable[..., None]:
    """Delete a queue and declare it again."""

    def call(address: str, *arguments: str) -> None:
        name = address.removeprefix("/queues/")
        assert headgate(["queues", "delete", name, "--url", broker.url()]) is Exit.DONE
        assert declare(name, *arguments) == address

    return call


@pytest.fixture
def options(broker_options: dict[str, str]) -> Callable[..., SourceOptions]:
    def call(address: str, **given: str) -> SourceOptions:
        return SourceOptions.read(broker_options | {"addresses": address, "drainTimeout": "2s"} | given)

    return call


def values(batches: Any) -> list[int]:
    return [int(row["body"]) for batch in batches for row in batch.to_pylist()]


def read_stream(options: SourceOptions, start: Json, *, probe: bool = False) -> tuple[list[int], Json]:
    """A micro-batch with all that is there."""
    source = StreamSource(options, probe=probe)
    try:
        end = source.latest(start, None, None)
        return [number for one in source.ranges(start, end) for number in values(read_range(options, one, SCHEMA))], end
    finally:
        source.close()


def read_queue(options: SourceOptions, start: Json) -> tuple[list[int], Json]:
    """All micro-batches up to the one with nothing in it, the last one committed."""
    source, got = QueueSource(options, SCHEMA), []
    try:
        while True:
            batches, end = source.fetch(start)
            if end == start:
                return got, end
            got += values(batches)
            start = end
    finally:
        source.close()


def first_of_stream(options: SourceOptions) -> Json:
    source = StreamSource(options)
    try:
        return source.first()
    finally:
        source.close()


def test_a_consumer_is_told_the_identity_and_every_declaration_has_another(declare: Declare, login: Login, anew: Any):
    address = declare(f"identity-{next(NAMES)}")
    with login.connect() as connection:
        first, again = (ReceivingLink.open(connection, address).queue_identity for _ in range(2))
        anew(address)
        other = ReceivingLink.open(connection, address).queue_identity
    assert first == again
    assert first is not None
    assert other is not None
    assert len(first) == len(other) == 32
    assert first != other


@pytest.mark.parametrize("probe", [False, True])
def test_60_of_60_messages_of_a_stream_that_was_declared_anew(
    declare: Declare, publish: Any, anew: Any, options: Any, probe: bool
):
    """Below the offset that the checkpoint remembers, at it and beyond it."""
    address = declare(f"identity-{next(NAMES)}", STREAM)
    of_stream = options(address, mode="stream", startingOffsets="earliest")
    publish(address, 0, 60)
    got, end = read_stream(of_stream, first_of_stream(of_stream), probe=probe)
    assert got == list(range(60))
    known = identities_in(end)[address]
    anew(address, STREAM)
    lossy = options(address, mode="stream", failOnDataLoss="false")
    for first, last in ((1000, 1030), (1030, 1060), (1060, 1100)):
        publish(address, first, last)
        with pytest.raises(DataLost, match=ANEW.format(address, known) + f" has {IDENTITY}; .*failOnDataLoss=false"):
            read_stream(of_stream, end, probe=probe)
        got, new_end = read_stream(lossy, end, probe=probe)
        assert got == list(range(1000, last)), "from its beginning"
        assert identities_in(new_end)[address] != known
        assert read_stream(of_stream, new_end, probe=probe) == ([], new_end), "and on from there"


def test_60_of_60_messages_of_a_queue_that_was_declared_anew(declare: Declare, publish: Any, anew: Any, options: Any):
    address = declare(f"identity-{next(NAMES)}", NUMBERED)
    publish(address, 0, 60)
    got, end = read_queue(options(address), queue_json({address: QueueOffset(Numbers(), 0)}))
    assert got == list(range(60))
    known = identities_in(end)[address]
    anew(address, NUMBERED)
    publish(address, 1000, 1060)
    for _ in range(2):
        with pytest.raises(DataLost, match=ANEW.format(address, known) + f" has {IDENTITY}; .*failOnDataLoss=false"):
            read_queue(options(address), end)
    got, new_end = read_queue(options(address, failOnDataLoss="false"), end)
    assert got == list(range(1000, 1060))
    assert queue_offsets(new_end, [address])[address] == QueueOffset(Numbers([(0, 59)]), 120)
    assert identities_in(new_end)[address] != known


def test_a_queue_that_is_declared_anew_while_it_is_read(declare: Declare, publish: Any, anew: Any, options: Any):
    address = declare(f"identity-{next(NAMES)}", NUMBERED)
    publish(address, 0, 5)
    source = QueueSource(options(address), SCHEMA)
    _, end = source.fetch(source.first())
    assert source.fetch(end) == ([], end)
    anew(address, NUMBERED)
    publish(address, 5, 10)
    with pytest.raises(LinkRefused, match="was deleted"):
        source.fetch(end)
    with pytest.raises(DataLost, match="declared anew"):
        source.fetch(end)
    source.close()


def test_a_task_reads_no_queue_or_stream_but_the_one_that_was_planned(
    declare: Declare, publish: Any, anew: Any, options: Any
):
    stream = declare(f"identity-{next(NAMES)}", STREAM)
    publish(stream, 0, 5)
    of_stream = options(stream, mode="stream")
    source = StreamSource(of_stream)
    (planned,) = source.ranges(*source.range())
    anew(stream, STREAM)
    publish(stream, 5, 10)
    with pytest.raises(DataLost, match="declared anew"):
        values(read_range(of_stream, planned, SCHEMA))
    lossy = options(stream, mode="stream", failOnDataLoss="false")
    assert values(read_range(lossy, planned, SCHEMA)) == [], (
        "those rows are gone, and the new ones come with a new plan"
    )
    source.close()

    queue = declare(f"identity-{next(NAMES)}", NUMBERED)
    publish(queue, 0, 5)
    start = queue_json({queue: QueueOffset(Numbers(), 0)})
    before_crash = QueueSource(options(queue), SCHEMA)
    _, end = before_crash.fetch(start)
    before_crash.close()
    anew(queue, NUMBERED)
    publish(queue, 5, 10)
    with pytest.raises(DataLost, match="declared anew"):
        values(read_again(options(queue), start, end, SCHEMA))
    assert values(read_again(options(queue, failOnDataLoss="false"), start, end, SCHEMA)) == []


def test_a_batch_behind_the_loss_is_read_again_whole(declare: Declare, publish: Any, anew: Any, options: Any):
    """Its numbers were committed too, of the former queue."""
    address = declare(f"identity-{next(NAMES)}", NUMBERED)
    publish(address, 0, 5)
    _, end = read_queue(options(address), queue_json({address: QueueOffset(Numbers(), 0)}))
    anew(address, NUMBERED)
    publish(address, 5, 10)
    lossy = options(address, failOnDataLoss="false")
    source = QueueSource(lossy, SCHEMA)
    batch, planned = source.fetch(end)
    source.close()
    assert values(batch) == values(read_again(lossy, end, planned, SCHEMA)) == [5, 6, 7, 8, 9]


def test_a_checkpoint_of_an_earlier_version_is_taken_once_and_filled_in(declare: Declare, publish: Any, options: Any):
    stream = declare(f"identity-{next(NAMES)}", STREAM)
    publish(stream, 0, 5)
    got, end = read_stream(options(stream, mode="stream"), stream_json({stream: 3}))
    assert got == [3, 4]
    assert stream_offsets(end, [stream]) == {stream: 5}
    assert len(identities_in(end)[stream]) == 32

    queue = declare(f"identity-{next(NAMES)}", NUMBERED)
    publish(queue, 0, 5)
    old = queue_json({queue: QueueOffset(Numbers([(0, 2)]), 3)})
    got, end = read_queue(options(queue), old)
    assert got == [3, 4], "the others were settled late, and came again"
    assert len(identities_in(end)[queue]) == 32
    idle = queue_json(queue_offsets(end, [queue]))
    assert identities_in(read_queue(options(queue), idle)[1]) == identities_in(end), "also where nothing comes"


def test_numbers_that_a_queue_has_not_given_yet_are_of_another(declare: Declare, publish: Any, options: Any):
    address = declare(f"identity-{next(NAMES)}", NUMBERED)
    publish(address, 0, 59)
    old = queue_json({address: QueueOffset(Numbers([(0, 59)]), 60)})
    said = (
        f"has read the number 59, and the queue that is there now, with the identity {IDENTITY}, has given 59 numbers"
    )
    with pytest.raises(DataLost, match=said):
        read_queue(options(address), old)
    got, end = read_queue(options(address, failOnDataLoss="false"), old)
    assert got == list(range(59))
    assert read_queue(options(address), end) == ([], end)


def test_identities_that_are_none():
    with pytest.raises(BadOffset, match="must be texts"):
        identities_in(stream_json({"/queues/a": 1}) | {"identities": {"/queues/a": 7}})
    assert identities_in(with_identities(stream_json({}), {})) == {}
