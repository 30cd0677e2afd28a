"""Runs of scenarios on brokers by turns, so that other work on the machine disturbs all of them alike."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from amqp10.load.wire import WireError
from bench.broker import Broker, BrokerError, connect, started
from bench.memory import measure_once
from bench.results import Entry, Figures
from bench.scenario import Scenario
from bench.trial import Run, TrialError, run_once

WARM_UP_SECONDS = 1.0
WARM_UP_MESSAGES = 100_000
PAUSE_SECONDS = 0.3
"""Pause between two runs, in which brokers clean up after a deleted queue."""

RunOnce = Callable[[Broker, Scenario], Figures]
"""Makes one run."""
Say = Callable[[str], None]


def queue_names() -> Iterator[str]:
    """A new queue name for every run."""
    number = 0
    while True:
        number += 1
        yield f"bench-{os.getpid()}-{number}"


def warm_up(scenario: Scenario) -> Scenario:
    """The scenario, shortened."""
    traffic = replace(
        scenario.traffic,
        seconds=min(scenario.traffic.seconds, WARM_UP_SECONDS),
        messages=min(scenario.traffic.messages, WARM_UP_MESSAGES),
    )
    return replace(scenario, traffic=traffic)


def void_run(reason: str) -> Figures:
    """The figures of a run that has none."""
    return Run(messages=0, seconds=0, rate=0, broker_cpu_us=0, client_cpu_us=0, resident_mib=0, void=reason).to_json()


def runner(patience_seconds: float) -> RunOnce:
    """Makes runs, each on a queue of its own; a run that is interrupted is void."""
    queues = queue_names()

    def run(broker: Broker, scenario: Scenario) -> Figures:
        queue = next(queues)
        try:
            if scenario.is_memory:
                return measure_once(broker, scenario, queue).to_json()
            return run_once(broker, scenario, queue, patience_seconds=patience_seconds).to_json()
        except (TrialError, BrokerError, WireError, OSError) as failure:
            return void_run(f"broke off: {failure}")

    return run


@contextlib.contextmanager
def measured_and_peer(start: str, url: str | None, pid: int | None, peer: Broker | None) -> Iterator[list[Broker]]:
    """The broker to measure, started with this command unless one runs at `url`, and the peer if there is one."""
    others = [] if peer is None else [peer]
    if url is not None:
        yield [connect(url, pid), *others]
        return
    with started(start) as broker:
        yield [broker, *others]


def take_turns(
    jobs: Sequence[tuple[Scenario, Sequence[Broker]]], runs: int, run: RunOnce, say: Say = lambda _: None
) -> list[list[Entry]]:
    """Warm up with each scenario on its brokers, then make rounds, in each of which every scenario runs once on each of
    its brokers. Returns for each scenario an entry per broker.

    A warm-up counts only when it is void: a message lost in it is a lost message. Memory is measured once.
    """
    figures: list[list[list[Figures]]] = [[[] for _ in brokers] for _, brokers in jobs]
    say("warming up")
    for (scenario, brokers), kept in zip(jobs, figures, strict=True):
        if not scenario.is_memory:
            for broker, of_broker in zip(brokers, kept, strict=True):
                of_broker += [one for one in [run(broker, warm_up(scenario))] if one["void"]]
    for number in range(runs):
        say(f"run {number + 1} of {runs}")
        for (scenario, brokers), kept in zip(jobs, figures, strict=True):
            if scenario.is_memory and number:
                continue
            for broker, of_broker in zip(brokers, kept, strict=True):
                time.sleep(PAUSE_SECONDS)
                of_broker.append(run(broker, scenario))
    return [
        [
            Entry(scenario=scenario.name, parameters=scenario.parameters(), broker=broker.name, runs=tuple(of_broker))
            for broker, of_broker in zip(brokers, kept, strict=True)
        ]
        for (scenario, brokers), kept in zip(jobs, figures, strict=True)
    ]
