"""The cost of a broker in memory: idle, per queued message, per idle connection, per application.

Each figure is the growth of the process tree's resident memory between two moments, so it can be measured on a broker
that was running before. *idle* is the memory itself and is meaningful only for a freshly started broker. Applications
publish and consume for some seconds at the scenario's rate, with every message accounted for, and stay connected while
the memory is read.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from amqp10.load.plan import Application
from bench.broker import Broker
from bench.scenario import Scenario
from bench.trial import conduct, running, summarise

SETTLE_SECONDS = 1.0
"""Pause before the broker's memory is read."""
PROCESS_CONNECTIONS_MAX = 250
"""Connections of one load process: few enough that finding the due ones costs little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRun:
    """One measurement. `value` is in `unit`; `void` says why it is not valid."""

    value: float
    unit: str
    resident_mib: float
    void: str = ""

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def measure_once(broker: Broker, scenario: Scenario, queue: str) -> MemoryRun:
    """Measure what the scenario's pattern names."""
    before = _resident(broker)
    match scenario.pattern:
        case "idle":
            return MemoryRun(value=_mib(before), unit="MiB", resident_mib=_mib(before))
        case "queued":
            return _queued(broker, scenario, queue, before)
        case "idle-connections":
            idle = [Application() for _ in range(scenario.count)]
            with running(broker, scenario.traffic, _split(idle)):
                after = _resident(broker)
            return _each(before, after, scenario.count, "KiB per connection", 2**10)
        case _:
            return _applications(broker, scenario, queue)


def _queued(broker: Broker, scenario: Scenario, queue: str, before: int) -> MemoryRun:
    """Memory beyond the body of each of `count` messages that wait in a queue."""
    traffic = replace(scenario.traffic, messages=scenario.count)
    with _queues(broker, [queue]), running(broker, traffic, [[scenario.publisher(queue)]]) as processes:
        outcome = conduct(processes)
        after = _resident(broker)
        with broker.management() as management:
            waiting = management.message_count(queue)
    sent = sum(outcome.sent.values())
    void = "" if sent == waiting == scenario.count else f"{sent} sent, {waiting} in the queue, not {scenario.count}"
    overhead = (after - before) / scenario.count - traffic.size
    return MemoryRun(value=round(overhead, 1), unit="bytes per message", resident_mib=_mib(after), void=void)


def _applications(broker: Broker, scenario: Scenario, queue: str) -> MemoryRun:
    """Memory of each of `count` applications that publish to and consume from a queue of their own."""
    queues = [f"{queue}-{index}" for index in range(scenario.count)]
    applications = [
        replace(scenario.publisher(name, index), consume_from=name, link_credit=scenario.link_credit)
        for index, name in enumerate(queues)
    ]
    if scenario.pattern == "split-applications":
        applications = [half for one in applications for half in _halves(one)]
    with _queues(broker, queues):
        before = _resident(broker)
        with running(broker, scenario.traffic, _split(applications)) as processes:
            outcome = conduct(processes)
            after = _resident(broker)
    void = summarise(outcome, consumed=True, cpu_seconds=0.0, resident=after).void
    return replace(_each(before, after, scenario.count, "KiB per application", 2**10), void=void)


def _halves(application: Application) -> tuple[Application, Application]:
    return replace(application, consume_from=""), replace(application, publish_to="")


def _split(applications: list[Application]) -> list[list[Application]]:
    size = PROCESS_CONNECTIONS_MAX
    return [applications[at : at + size] for at in range(0, len(applications), size)]


@contextlib.contextmanager
def _queues(broker: Broker, queues: list[str]) -> Iterator[None]:
    with broker.management() as management:
        for queue in queues:
            management.declare_queue(queue)
    try:
        yield
    finally:
        with broker.management() as management:
            for queue in queues:
                management.delete_queue(queue)


def _resident(broker: Broker) -> int:
    time.sleep(SETTLE_SECONDS)
    return broker.resident_bytes()


def _each(before: int, after: int, count: int, unit: str, unit_bytes: int) -> MemoryRun:
    value = (after - before) / count / unit_bytes
    return MemoryRun(value=round(value, 2), unit=unit, resident_mib=_mib(after))


def _mib(size: int) -> float:
    return round(size / 2**20, 1)
