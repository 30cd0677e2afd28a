"""Unlike messages and the patterns with many links, between the load processes and a real broker: every message arrives
with the values that were sent."""

import os
from collections.abc import Iterator

import pytest

from amqp10.load.management import ManagementPair
from amqp10.load.plan import PlannedTraffic
from bench.broker import Broker
from bench.scenario import Scenario
from bench.trial import Run, run_once
from tests.kit.broker_process import broker_process

pytestmark = pytest.mark.slow

MESSAGES = 600
"""More than 256, after which delivery-ids have their full width."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with broker_process() as address:
        yield Broker("Headgate", address.url(), address.pid)


def run(broker: Broker, pattern: str = "two-connections", *, protocol: str = "1.0", count: int = 1, **traffic) -> Run:
    scenario = Scenario(
        name="unlike",
        title="",
        pattern=pattern,
        count=count,
        protocol=protocol,
        traffic=PlannedTraffic(messages=MESSAGES, seconds=30.0, **traffic),
    )
    return run_once(broker, scenario, f"q-{os.getpid()}")


@pytest.mark.parametrize("shape", ["bulk", "unbatched"])
@pytest.mark.parametrize("protocol", ["1.0", "0.9.1"])
@pytest.mark.parametrize(
    "unlike",
    [
        {"content": "ids"},
        {"content": "properties"},
        {"content": "priorities"},
        {"keys": 7},
        {"sizes": (12, 300, 5000)},
        {"content": "priorities", "keys": 100, "sizes": (20, 200), "rate": 5000.0},
    ],
    ids=["ids", "properties", "priorities", "keys", "sizes", "everything"],
)
def test_every_message_arrives_as_it_was_sent(broker: Broker, protocol: str, shape: str, unlike: dict[str, object]):
    result = run(broker, protocol=protocol, shape=shape, **unlike)
    assert (result.void, result.messages) == ("", MESSAGES)


@pytest.mark.parametrize("protocol", ["1.0", "0.9.1"])
@pytest.mark.parametrize(
    ("pattern", "messages"),
    [
        ("one-connection", 4 * MESSAGES),
        ("connections", 4 * MESSAGES),
        ("pairs", 4 * MESSAGES),
        ("links", 4 * MESSAGES),
        ("competing", MESSAGES),
        ("fan-out", 4 * MESSAGES),
    ],
)
def test_patterns_with_many_links_are_valid_too(broker: Broker, protocol: str, pattern: str, messages: int):
    result = run(broker, pattern, protocol=protocol, count=4, shape="bulk")
    assert (result.void, result.messages) == ("", messages)


def test_one_pair_on_one_connection_may_have_routing_keys(broker: Broker):
    result = run(broker, "one-connection", keys=3)
    assert (result.void, result.messages) == ("", MESSAGES)


def test_nothing_is_left_behind(broker: Broker):
    run(broker, "fan-out", count=2)
    with ManagementPair(broker.url) as management:
        assert management.rows("queues") == []
        names = {row["name"] for row in management.rows("exchanges")}
    assert all(name in {"", "amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.topic"} for name in names)
