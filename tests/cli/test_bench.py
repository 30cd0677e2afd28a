"""``headgate bench``: loads of each kind over both protocols on a broker with sockets, what is printed, and errors."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from hdrh.histogram import HdrHistogram

from amqp10.cli.bench import NO_PACKAGES, buckets, percentiles, queue_name
from amqp10.cli.exits import CommandError, Exit
from amqp10.load.checks import latency_histogram
from tests.kit.broker_process import ROOT, BrokerAddress, broker_process
from tests.kit.command_line import Ran, run_forked

pytestmark = pytest.mark.slow

PROTOCOLS = ["1.0", "0.9.1"]
WITHOUT_HISTOGRAMS = """
import sys
sys.modules["hdrh"] = None  # Python then finds no such module
from amqp10.cli.main import run
sys.exit(run(["bench", "publish"]))
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerAddress]:
    with broker_process() as address:
        yield address


def bench(broker: BrokerAddress, *words: str) -> Ran:
    """A process of its own: the load turns the collector of cycles off."""
    return run_forked("bench", *words, url=broker.url())


def summary(ran: Ran) -> dict[str, object]:
    """The last line of the output as JSON; all lines before it are progress."""
    *lines, last = [json.loads(line) for line in ran.out.splitlines()]
    assert all("summary" not in line for line in lines)
    found: dict[str, object] = last
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_messages_are_written_one_by_one_where_that_is_wanted(broker: BrokerAddress, protocol: str):
    queue = f"bench-unbatched-{protocol}"
    assert run_forked("queues", "declare", queue, url=broker.url()).code == Exit.DONE
    options = ("--unbatched", "--messages", "300", "--protocol", protocol, "--json")
    published = summary(bench(broker, "publish", queue, "--in-flight", "10", *options))
    assert (published["confirmed"], published["unconfirmed"]) == (300, 0)
    consumed = summary(bench(broker, "consume", queue, *options))
    assert consumed["received"] == 300


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_publish_and_consume_count_the_same_messages(broker: BrokerAddress, protocol: str):
    queue = f"bench-{protocol}"
    assert run_forked("queues", "declare", queue, url=broker.url()).code == Exit.DONE
    ran = bench(broker, "publish", queue, "--messages", "5000", "--protocol", protocol, "--json")
    assert ran.code == Exit.DONE, ran.err
    published = summary(ran)
    assert (published["sent"], published["confirmed"], published["unconfirmed"]) == (5000, 5000, 0)
    timed = published["latency_ms"]
    assert isinstance(timed, dict)
    assert 0 < timed["p50"] <= timed["p99"] <= timed["p100"]
    histogram = published["histogram"]
    assert isinstance(histogram, list)
    assert sum(step["messages"] for step in histogram) == 5000
    ran = bench(broker, "consume", f"/queues/{queue}", "--messages", "5000", "--protocol", protocol, "--json")
    assert ran.code == Exit.DONE, ran.err
    assert summary(ran)["received"] == 5000


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_latency_is_that_of_every_message_and_the_queue_is_gone(broker: BrokerAddress, protocol: str):
    ran = bench(broker, "latency", "--rate", "500", "--seconds", "1.5", "--protocol", protocol, "--json")
    assert ran.code == Exit.DONE, ran.err
    found = summary(ran)
    assert (found["sent"], found["received"], found["missing"], found["foreign"]) == (750, 750, 0, 0)
    assert sum(step["messages"] for step in found["histogram"]) == 750  # type: ignore[attr-defined]
    progress = [json.loads(line) for line in ran.out.splitlines()[:-1]]
    assert progress
    assert progress[0]["sent_per_second"] == pytest.approx(500, rel=0.3)
    assert "headgate-bench" not in run_forked("queues", "list", url=broker.url()).out


def test_requests_are_answered(broker: BrokerAddress):
    ran = bench(broker, "request", "--rate", "200", "--seconds", "1", "--json")
    assert ran.code == Exit.DONE, ran.err
    found = summary(ran)
    assert (found["sent"], found["received"], found["missing"]) == (200, 200, 0)


def test_what_holds_a_publisher_up_is_told_as_the_broker_says_it(broker: BrokerAddress):
    full = ("--argument", "x-max-length=100", "--argument", "x-overflow=block")
    assert run_forked("queues", "declare", "bench-full", *full, url=broker.url()).code == Exit.DONE
    ran = bench(broker, "publish", "bench-full", "--seconds", "2")
    assert "queue-full" in ran.out
    assert "held up by queue-full" in ran.out


def test_a_publisher_at_a_rate_that_stays_held_up_ends(broker: BrokerAddress):
    """It is held up for longer than the load has patience, and what it has sent is all confirmed."""
    full = ("--argument", "x-max-length=1", "--argument", "x-overflow=block")
    assert run_forked("queues", "declare", "bench-stays-full", *full, url=broker.url()).code == Exit.DONE
    ran = bench(broker, "publish", "bench-stays-full", "--rate", "1000", "--seconds", "2", "--json")
    assert ran.code == Exit.DONE, ran.err
    found = summary(ran)
    assert found["sent"] == found["confirmed"]
    assert found["blocked_seconds"]["queue-full"] > 2.0  # type: ignore[index]


def test_a_person_reads_rates_percentiles_and_a_histogram(broker: BrokerAddress):
    ran = bench(broker, "latency", "--rate", "100", "--seconds", "2.5")
    assert ran.code == Exit.DONE, ran.err
    header, first, *_ = ran.out.splitlines()
    assert header.split()[:2] == ["time", "sent/s"]
    assert first.lstrip().startswith("1.0s")
    assert "p99.9" in ran.out
    assert "#" in ran.out


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("publish", "no-such-queue"), Exit.NOT_FOUND, "no-such-queue"),
        (("publish", "no-such-queue", "--protocol", "0.9.1", "--seconds", "1"), Exit.DONE, ""),
        (("consume", "no-such-queue", "--protocol", "0.9.1"), Exit.NOT_FOUND, "no-such-queue"),
        (("publish", "/exchanges/amq.topic/a"), Exit.USAGE, "is no queue"),
        (("latency", "--rate", "0"), Exit.USAGE, "--rate 0"),
        (("publish", "--rate", "nan"), Exit.USAGE, "--rate nan"),
        (("publish", "--seconds", "0"), Exit.USAGE, "--seconds 0"),
        (("publish", "--size", "3"), Exit.USAGE, "20"),
        (("publish", "--protocol", "2.0"), Exit.USAGE, "2.0"),
    ],
)
def test_wrong_subjects_and_values_are_named(broker: BrokerAddress, words: tuple[str, ...], code: Exit, text: str):
    ran = bench(broker, *words)
    assert (ran.code, text in ran.err) == (code, True), ran.err


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_wrong_password_is_told(broker: BrokerAddress, protocol: str):
    url = broker.url().replace("guest:guest", "guest:wrong")
    ran = run_forked("bench", "publish", "q", "--protocol", protocol, url=url)
    assert ran.code == Exit.NOT_LET_IN
    assert "password" in ran.err


def test_a_broker_that_is_not_there_is_told():
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ran = run_forked("bench", "publish", url=f"amqp://guest:guest@127.0.0.1:{port}")
    assert ran.code == Exit.UNREACHABLE
    assert f"127.0.0.1:{port}" in ran.err


def test_a_virtual_host_cannot_be_measured(broker: BrokerAddress):
    ran = run_forked("bench", "publish", url=f"{broker.url()}/shop")
    assert (ran.code, "'shop'" in ran.err) == (Exit.USAGE, True)


def test_names_and_addresses_of_queues():
    assert queue_name("orders") == queue_name("/queues/orders") == "orders"
    assert queue_name("/queues/a%2Fb") == "a/b"
    for wrong in ("/exchanges/x", "/queues/a/b", "/"):
        with pytest.raises(CommandError, match="is no queue"):
            queue_name(wrong)


def histogram(*microseconds: int) -> HdrHistogram:
    found = latency_histogram()
    for value in microseconds:
        found.record_value(value)
    return found


def test_percentiles_and_steps_of_a_histogram():
    assert percentiles(histogram()) == {}
    assert buckets(histogram()) == []
    found = histogram(*[100] * 99, 900)
    assert percentiles(found)["p50"] == pytest.approx(0.1, rel=0.01)
    assert percentiles(found)["p100"] == pytest.approx(0.9, rel=0.01)
    assert buckets(found) == [(0.128, 99), (0.256, 0), (0.512, 0), (1.024, 1)]
    assert buckets(histogram(60_000_000))[-1][1] == 1


def test_hdrhistogram_need_not_be_installed():
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_HISTOGRAMS], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert ran.returncode == Exit.USAGE
    assert ran.stderr == f"headgate: {NO_PACKAGES}\n"
