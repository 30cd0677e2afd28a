"""What headgate bench and PerfTest say is read alike, and rates that differ are named."""

import pytest

from bench.broker import BrokerError
from bench.perf_test.__main__ import Measured, differ, main, table
from bench.perf_test.tools import HEADGATE_BENCH, PERF_TEST, Load, command, readings, run

SAID = """id: x, starting producer #0, channel #0
id: x, time 2.001 s, sent: 1504 msg/s, confirmed: 1504 msg/s, nacked: 0 msg/s, received: 1550 msg/s, \
min/median/75th/95th/99th consumer latency: 287/2561/8664/18170/41028 µs, confirm latency: 271/1007/3113/6469/13763 µs
id: x, sending rate avg: 1171 msg/s
id: x, consumer latency min/median/75th/95th/99th 239/2413/16596/63453/69936 µs
"""
OURS = """{"seconds": 1.0, "sent_per_second": 1000, "received_per_second": 999, "latency_ms": {"p50": 3.5, "p99": 54.8}}
{"summary": "latency", "sent_per_second": 1000, "received_per_second": 1000, "latency_ms": {"p50": 3.5, "p99": 54.8}}
"""


@pytest.mark.parametrize(("consumers", "half", "most"), [(True, 2.561, 41.028), (False, 1.007, 13.763)])
def test_the_seconds_of_perf_test_are_read(consumers: bool, half: float, most: float):
    (one,) = readings(PERF_TEST, SAID, consumers=consumers)
    assert one == {"sent": 1504.0, "received": 1550.0, "p50": half, "p99": most}


def test_the_seconds_of_headgate_bench_are_read_and_its_summary_is_not_one():
    (one,) = readings(HEADGATE_BENCH, OURS, consumers=True)
    assert one == {"sent": 1000.0, "received": 999.0, "p50": 3.5, "p99": 54.8}


def measured(sent: float, received: float) -> Measured:
    return Measured([{"sent": sent, "received": received, "p50": 1.0, "p99": 2.0}], [5.0])


@pytest.mark.parametrize(
    ("sent", "received", "consumers", "named"),
    [(1000, 1000, 1, []), (1099, 950, 1, []), (1200, 1000, 1, ["sent"]), (1000, 0, 1, ["received"]), (1000, 0, 0, [])],
)
def test_rates_that_differ_by_more_than_a_tenth_are_named(
    sent: float, received: float, consumers: int, named: list[str]
):
    found = {HEADGATE_BENCH: measured(sent, received), PERF_TEST: measured(1000, 1000)}
    assert differ(found, consumers) == named
    assert f"| a load | headgate bench | {sent:,.0f} |" in table({"a load": found})


def test_headgate_bench_gets_the_load():
    load = Load(name="a load", producers=2, consumers=3, rate=100, confirm=7, qos=9, size=64)
    words = command(HEADGATE_BENCH, load, "amqp://here", "q", 5)
    assert words[3:7] == ["bench", "latency", "q", "--protocol"]
    assert {"--connections", "2", "--in-flight", "7", "--credit", "9", "--consumers", "3"} <= set(words)
    words = command(HEADGATE_BENCH, Load(name="a load", producers=1, consumers=0, rate=0), "amqp://here", "q", 5)
    assert words[3:5] == ["bench", "publish"]
    assert "--credit" not in words


def test_a_tool_that_fails_is_an_error_with_what_it_said():
    with pytest.raises(BrokerError, match="what is wrong"):
        run(["sh", "-c", "echo what is wrong; exit 3"])


def test_no_rounds_are_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["--rounds", "0"])
    assert "must be 1 or more" in capsys.readouterr().err
