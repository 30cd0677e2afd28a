"""``subscribePattern``: a query reads the streams whose names fit, and finds new ones while it runs."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from amqp10.blocking.links import SendingLink
from amqp10.blocking.requests import BlockingManagement
from amqp10.wire.sections import DATA, encode_section
from pyspark_amqp10.columns import SCHEMA
from pyspark_amqp10.errors import BadOption, DataLost
from pyspark_amqp10.login import Login
from pyspark_amqp10.offsets import Json
from pyspark_amqp10.options import SourceOptions
from pyspark_amqp10.stream_source import StreamSource, read_range

Declare = Callable[..., str]
RUNS = count()
WITHIN_S = 10.0
STREAM = "x-queue-type=stream"


class Streams:
    """Streams of one test, whose names begin alike."""

    def __init__(self, broker_options: dict[str, str], declare: Declare) -> None:
        self._options, self._declare = broker_options, declare
        self.prefix = f"found-{next(RUNS)}-"

    def declare(self, name: str, argument: str = STREAM) -> str:
        return self._declare(self.prefix + name, argument)

    def options(self, **given: str) -> SourceOptions:
        where = {"mode": "stream", "subscribePattern": f"{self.prefix}.*", "startingOffsets": "earliest"}
        return SourceOptions.read(self._options | where | given)

    def _login(self) -> Login:
        return Login.parse(self._options["url"], user="guest", password_file=self._options["passwordFile"])

    def publish(self, address: str, *bodies: bytes) -> None:
        with self._login().connect() as connection:
            sending = SendingLink.open(connection, address)
            sent = sending.send([encode_section(DATA, each) for each in bodies], within_s=WITHIN_S)
            assert sending.confirm(sent, within_s=WITHIN_S) == []

    def delete(self, address: str) -> None:
        with self._login().connect() as connection:
            BlockingManagement(connection).request("DELETE", address)


@pytest.fixture
def streams(broker_options: dict[str, str], declare: Declare) -> Streams:
    return Streams(broker_options, declare)


def rows(options: SourceOptions, source: StreamSource, start: Json, end: Json) -> list[bytes]:
    found: list[bytes] = []
    for wanted in source.ranges(start, end):
        for batch in read_range(options, wanted, SCHEMA):
            found += [row["body"] for row in batch.to_pylist()]
    return found


@pytest.mark.slow
def test_streams_that_fit_are_read_and_new_ones_are_found_from_their_first_message(streams: Streams) -> None:
    streams.publish(streams.declare("a"), b"a0", b"a1")
    streams.declare("no stream", "x-queue-type=classic")
    options = streams.options()
    source = StreamSource(options)
    start = source.first()
    first = source.latest(start, None, None)
    assert rows(options, source, start, first) == [b"a0", b"a1"]
    assert source.latest(first, None, None) == first, "nothing has come"
    added = streams.declare("b")
    assert source.latest(first, None, None) == first, "an empty stream makes no batch"
    streams.publish(added, b"b0")
    second = source.latest(first, None, None)
    assert rows(options, source, first, second) == [b"b0"]
    again = StreamSource(options)
    assert rows(options, again, first, second) == [b"b0"], "the checkpoint alone says what the batch was"
    third = again.latest(second, None, None)
    assert rows(options, again, second, third) == []
    assert again.latest(third, None, None) == third
    source.close()
    again.close()


@pytest.mark.slow
def test_the_limit_of_a_batch_holds_for_new_streams_too(streams: Streams) -> None:
    options = streams.options()
    source = StreamSource(options)
    start = source.first()
    for name in "abc":
        streams.publish(streams.declare(name), *[b"%s%d" % (name.encode(), number) for number in range(10)])
    seen: list[bytes] = []
    for _ in range(20):
        end = source.latest(start, 7, None)
        got = rows(options, source, start, end)
        assert len(got) <= 7
        seen += got
        start = end
    assert sorted(seen) == sorted(b"%s%d" % (name.encode(), number) for name in "abc" for number in range(10))
    source.close()


@pytest.mark.slow
def test_a_stream_that_is_gone_ends_the_query_or_is_left_out(streams: Streams) -> None:
    kept, gone = streams.declare("a"), streams.declare("b")
    streams.publish(kept, b"a0")
    streams.publish(gone, b"b0")
    source = StreamSource(streams.options())
    end = source.latest(source.first(), None, None)
    streams.delete(gone)
    with pytest.raises(DataLost, match=r"b: the stream was deleted, .* failOnDataLoss=false"):
        source.latest(end, None, None)
    source.close()
    options = streams.options(failOnDataLoss="false")
    tolerant = StreamSource(options)
    streams.publish(kept, b"a1")
    assert rows(options, tolerant, end, tolerant.latest(end, None, None)) == [b"a1"]
    tolerant.close()


@pytest.mark.slow
def test_a_run_to_the_present_end_ignores_streams_that_come_later(streams: Streams) -> None:
    streams.publish(streams.declare("a"), b"a0")
    options = streams.options()
    source = StreamSource(options)
    start = source.first()
    source.stop_at_end()
    streams.publish(streams.declare("b"), b"b0")
    assert rows(options, source, start, source.latest(start, None, None)) == [b"a0"]
    source.close()


@pytest.mark.slow
def test_lag_of_a_query_that_has_found_nothing_is_0(streams: Streams) -> None:
    source = StreamSource(streams.options())
    assert source.lag()["lag"] == {"rows": 0, "bytes": 0, "seconds": 0.0}
    source.close()


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (
            {"mode": "stream", "subscribePattern": "("},
            "option subscribePattern is '\\('; it must be a regular expression",
        ),
        ({"mode": "stream", "subscribePattern": ""}, "must not be empty"),
        ({"subscribePattern": "a"}, "option subscribePattern is for streams"),
        ({"mode": "stream", "subscribePattern": "a", "address": "/queues/a"}, "exclude each other"),
        ({"mode": "stream", "subscribePattern": "a", "addresses": "/queues/a"}, "exclude each other"),
        (
            {"mode": "stream", "subscribePattern": "a", "startingOffsets": '{"/queues/a": 1}'},
            "with subscribePattern it is earliest or latest",
        ),
        ({"mode": "stream"}, "address, addresses and subscribePattern must say"),
    ],
)
def test_nonsense_is_refused(given: dict[str, Any], wrong: str) -> None:
    with pytest.raises(BadOption, match=wrong):
        SourceOptions.read({"url": "amqp://127.0.0.1"} | given)
