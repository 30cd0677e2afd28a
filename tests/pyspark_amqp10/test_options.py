"""The options of a source: what their texts mean, and what is said of those that are wrong."""

import pytest

from pyspark_amqp10.errors import BadOption
from pyspark_amqp10.options import (
    SOURCE_OPTIONS,
    Option,
    SourceOptions,
    duration_s,
    positions,
    size_bytes,
    timestamp_ms,
)

URL = "amqp://broker.example:5673/shop"
QUEUE = {"url": URL, "address": "/queues/orders"}
STREAM = QUEUE | {"mode": "stream"}
FOREIGN = Option("confirmTimeout", duration_s, "60s", "of another table")


def refusal(given: dict[str, str]) -> str:
    with pytest.raises(BadOption) as caught:
        SourceOptions.read(given, others=(FOREIGN,))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_not_given_has_its_default():
    options = SourceOptions.read(QUEUE)
    url = options.login.url
    assert (url.host, url.port, url.virtual_host) == ("broker.example", 5673, "shop")
    assert options.addresses == ("/queues/orders",)
    assert (options.mode, options.on_bad_row, options.settle) == ("queue", "fail", "commit")
    assert (options.rows_max, options.bytes_max, options.drain_time_out_s) == (100_000, 64 * 2**20, 10.0)
    assert options.fail_on_data_loss
    assert options.include_headers
    assert options.starting_offsets is None
    assert options.min_partitions is None
    assert options.readers == 1


def test_names_have_no_case_as_spark_hands_them_over():
    given = {name.lower(): value for name, value in STREAM.items()} | {
        "maxrowspertrigger": "5", "startingoffsets": "Earliest", "onbadrow": "NULL", "failondataloss": "False",
        "minpartitions": "4", "maxbytespertrigger": "2m", "draintimeout": "500ms", "includeheaders": "false",
    }  # fmt: skip
    options = SourceOptions.read(given)
    assert (options.rows_max, options.bytes_max, options.min_partitions) == (5, 2 * 2**20, 4)
    assert (options.starting_offsets, options.on_bad_row, options.drain_time_out_s) == ("earliest", "null", 0.5)
    assert not options.fail_on_data_loss
    assert not options.include_headers


def test_several_addresses():
    options = SourceOptions.read({"url": URL, "addresses": "/queues/a, /queues/b"})
    assert options.addresses == ("/queues/a", "/queues/b")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (QUEUE | {"maxRowPerTrigger": "1"}, "no option 'maxRowPerTrigger' here; did you mean maxRowsPerTrigger?"),
        (QUEUE | {"zzz": "1"}, "there is no option 'zzz' here; there are url, user"),
        (QUEUE | {"confirmTimeout": "1s"}, "option confirmTimeout cannot be used here"),
        ({"address": "/queues/a"}, "option url is missing; it says where the broker is: amqp://HOST:PORT"),
        ({"url": URL}, "one of the options address, addresses and subscribePattern must say what is read"),
        (QUEUE | {"addresses": "/queues/b"}, "one of the options address, addresses and subscribePattern"),
        (QUEUE | {"maxRowsPerTrigger": "0"}, "option maxRowsPerTrigger is '0'; it must be a whole number from 1 to"),
        (QUEUE | {"mode": "topic"}, "option mode is 'topic'; it must be queue or stream"),
        (QUEUE | {"drainTimeout": "soon"}, "option drainTimeout is 'soon'; it must be a time such as 500ms"),
        (QUEUE | {"maxBytesPerTrigger": "0"}, "option maxBytesPerTrigger is '0'; it must be a size"),
        (QUEUE | {"failOnDataLoss": "yes"}, "option failOnDataLoss is 'yes'; it must be true or false"),
        (QUEUE | {"address": ""}, "option address is ''; it must not be empty"),
        ({"url": URL, "addresses": "a,,b"}, "option addresses is 'a,,b'; it must be addresses with commas"),
        (QUEUE | {"startingOffsets": "earliest"}, "option startingOffsets is for streams: set option mode to stream"),
        (QUEUE | {"endingTimestamp": "1"}, "option endingTimestamp is for streams"),
        (QUEUE | {"minPartitions": "2"}, "option minPartitions is for streams"),
        (STREAM | {"settle": "fetch"}, "option settle is for queues"),
        (QUEUE | {"readers": "0"}, "option readers is '0'; it must be a whole number from 1 to 1024"),
        (QUEUE | {"readers": "1025"}, "option readers is '1025'; it must be a whole number from 1 to 1024"),
        (STREAM | {"readers": "2"}, "option readers is for queues: option minPartitions divides"),
        (QUEUE | {"readers": "2", "settle": "fetch"}, "option settle cannot be fetch with several readers"),
        (QUEUE | {"readers": "2", "onBadRow": "reject"}, "option onBadRow cannot be reject with several readers"),
        (QUEUE | {"readers": "2", "onBadRow": "release"}, "set it to fail or null, or readers to 1"),
        (STREAM | {"startingOffsets": "first"}, "option startingOffsets is 'first'; it must be earliest"),
        (STREAM | {"startingOffsets": '{"/queues/orders": -1}'}, "it must be earliest, latest, or JSON"),
        (STREAM | {"startingOffsets": '{"/queues/x": 1}'}, "offsets for /queues/x, but the query reads /queues/orders"),
        (STREAM | {"startingOffsets": "latest", "startingTimestamp": "1"}, "exclude each other"),
        (STREAM | {"startingTimestamp": "yesterday"}, "it must be milliseconds since 1970, or a time such as"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_remedy(given: dict[str, str], said: str):
    assert said in refusal(given)


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("10s", 10.0), ("3", 3.0), ("5m", 300.0), ("1h", 3600.0), (" 2 S ", 2.0)]
)
def test_times(text: str, seconds: float):
    assert duration_s(text) == seconds


@pytest.mark.parametrize(("text", "size"), [("1", 1), ("512k", 2**19), ("64MB", 2**26), ("2g", 2**31)])
def test_sizes(text: str, size: int):
    assert size_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1767225600000", 1_767_225_600_000),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01", 1_767_225_600_000),
        ("2026-01-01T01:00:00.5+01:00", 1_767_225_600_500),
    ],
)
def test_moments(text: str, time_ms: int):
    assert timestamp_ms(text) == time_ms


def test_offsets_for_each_address():
    assert positions('{"/queues/a": 7, "/queues/b": "earliest"}') == {"/queues/a": 7, "/queues/b": "earliest"}


def test_every_option_of_a_source_has_a_meaning_and_a_default_that_can_be_read():
    for option in SOURCE_OPTIONS:
        assert option.meaning
        if option.default is not None:
            option.read(option.default)
