"""One run of one scenario against one broker: starts load processes, conducts the run and judges it.

The clock starts when all links are attached, and stops at the last arrival (without consumers, at the last outcome or
send). Broker CPU is read at the same start and once every load process has reported.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from hdrh.histogram import HdrHistogram

from amqp10.load.checks import latency_histogram
from amqp10.load.ledger import LedgerVerdict, Range, judge
from amqp10.load.plan import PATIENCE_SECONDS, Application, Plan, PlannedTraffic, routing_key
from bench.broker import ROOT, Broker
from bench.clients.programs import Client, ToldPlan, command
from bench.scenario import Scenario, exchange_of

Event: TypeAlias = "dict[str, object]"

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(4 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(16 * 2**20)}
"""glibc keeps the memory of messages that a load process has checked, for the next ones. Otherwise a consumer of
messages of 64 KiB spends half of its time on pages that the kernel maps and unmaps, and is slower than the broker."""
FILL_SECONDS = 60.0
"""Time limit to fill a queue with the scenario's messages before a receiver is measured."""


class TrialError(Exception):
    """A run that was interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The figures of one run. `void` says why it is void; empty when it is valid."""

    messages: int
    seconds: float
    rate: float
    broker_cpu_us: float
    client_cpu_us: float
    resident_mib: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    p99_9_ms: float | None = None
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    void: str = ""

    def to_json(self) -> dict[str, object]:
        return asdict(self)


class Told(Protocol):
    """A plan or measurement that is sent to a process."""

    def to_json(self) -> str: ...


class LoadProcess:
    """One process with the protocol of `amqp10.load`, started by this command, and the conversation with it."""

    def __init__(self, plan: Told, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
            env={**os.environ, **KEEP_MEMORY},
        )
        self._say(plan.to_json())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        with self._process:  # this closes the pipes, which makes the process close its connections, and waits
            pass

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def tell(self, told: Told) -> None:
        """Send the next order, for modules that take several."""
        self._say(told.to_json())

    def kill(self) -> None:
        """Kill the process: its results are not needed."""
        self._process.kill()

    def go(self, start_ns: int) -> None:
        self._say(json.dumps({"go": start_ns}))

    def finish(self, expected: int | None) -> None:
        self._say(json.dumps({"finish": expected}))

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def expect(self, event: str) -> Event:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise TrialError("a load process died; its last words are above")
        said: Event = json.loads(line)
        if said["event"] != event:
            raise TrialError(str(said.get("reason", said)))
        return said


@contextlib.contextmanager
def running(
    broker: Broker,
    traffic: PlannedTraffic,
    groups: Sequence[Sequence[Application]],
    *,
    client: Client = "own",
    patience_seconds: float = PATIENCE_SECONDS,
) -> Iterator[list[LoadProcess]]:
    """Start a load process for each group of applications, and wait until all are attached. Raises ClientError when the
    client is not there, or cannot carry out such a plan."""
    with contextlib.ExitStack() as stack:
        processes = []
        for group in groups:
            plan = Plan(url=broker.url, traffic=traffic, applications=tuple(group), patience_seconds=patience_seconds)
            processes.append(stack.enter_context(LoadProcess(ToldPlan(plan, client), command(client))))
        for process in processes:
            process.expect("ready")
        yield processes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the load processes of a run reported together."""

    sent: dict[int, int]
    start_ns: int
    end_ns: int
    client_cpu_seconds: float
    received: list[dict[int, list[Range]]]
    faults: dict[str, int]
    latency: HdrHistogram = field(default_factory=latency_histogram)

    @property
    def total_received(self) -> int:
        return sum(count for one in self.received for ranges in one.values() for _, count in ranges)


def conduct(
    processes: Sequence[LoadProcess],
    *,
    share_queue: bool = False,
    filled: dict[int, int] | None = None,
    copies: int = 1,
) -> Outcome:
    """Start all processes at once and wait for their reports.

    share_queue: several consumers share a queue, so no consumer knows how many messages it will get. filled: how many
    messages of each publisher were in the queue before. copies: how many deliveries a message becomes.
    """
    start_ns = time.monotonic_ns()
    for process in processes:
        process.go(start_ns)
    sent = dict(filled or {})
    for process in processes:
        sent |= {int(name): count for name, count in _table(process.expect("published"), "sent").items()}
    for process in processes:
        process.finish(None if share_queue else sum(sent.values()) * copies)
    return _gather(sent, start_ns, [process.expect("report") for process in processes])


def _gather(sent: dict[int, int], start_ns: int, reports: list[Event]) -> Outcome:
    latency = latency_histogram()
    received: list[dict[int, list[Range]]] = []
    for report in reports:
        latency.decode_and_add(str(report["latency"]))
        ledgers = report["received"]
        assert isinstance(ledgers, list)
        received += [{int(k): [(a, b) for a, b in ranges] for k, ranges in one.items()} for one in ledgers]
    arrival_ns = max(_number(report, "last_arrival_ns") for report in reports)
    progress_ns = max(_number(report, "last_progress_ns") for report in reports)
    return Outcome(
        sent=sent,
        start_ns=start_ns,
        end_ns=int(arrival_ns or progress_ns),
        client_cpu_seconds=sum(_number(report, "cpu_seconds") for report in reports),
        received=received,
        faults={
            kind: int(sum(_number(report, kind) for report in reports))
            for kind in ("unconfirmed", "refused", "corrupted")
        },
        latency=latency,
    )


def _table(event: Event, key: str) -> dict[str, int]:
    table = event[key]
    assert isinstance(table, dict)
    return table


def _number(event: Event, key: str) -> float:
    value = event[key]
    assert isinstance(value, int | float)
    return value


def run_once(broker: Broker, scenario: Scenario, queue: str, *, patience_seconds: float = PATIENCE_SECONDS) -> Run:
    """Run the scenario once, on queues and an exchange that are named after `queue` and exist for the run."""
    with declared(broker, scenario, queue):
        filled = _fill(broker, scenario, queue) if scenario.pattern == "receiver" else {}
        groups = scenario.processes(queue)
        with running(
            broker, scenario.traffic, groups, client=scenario.client, patience_seconds=patience_seconds
        ) as processes:
            cpu_before = broker.cpu_seconds()
            outcome = conduct(processes, share_queue=scenario.pattern == "many", filled=filled, copies=scenario.copies)
            cpu_seconds = broker.cpu_seconds() - cpu_before
            resident = broker.resident_bytes()
        return summarise(
            outcome,
            consumed=scenario.pattern != "sender",
            cpu_seconds=cpu_seconds,
            resident=resident,
            copied=scenario.copies > 1,
        )


@contextlib.contextmanager
def declared(broker: Broker, scenario: Scenario, queue: str) -> Iterator[None]:
    """Declare what a run needs, and delete it at the end: queues, and an exchange with its bindings."""
    made: list[str] = []  # only these are deleted, so that a refused queue is the error that is reported
    exchange = exchange_of(queue)
    try:
        with broker.management() as management:
            for name in scenario.queues(queue):
                management.declare_queue(name, queue_type=scenario.queue_type)
                made.append(name)
            if scenario.routed:
                management.declare_exchange(exchange, "fanout" if scenario.pattern == "fan-out" else "direct")
                keys = [routing_key(number) for number in range(scenario.traffic.keys)]
                for name in made:
                    management.bind(exchange, name, keys)
        yield
    finally:
        with broker.management() as management:
            for name in made:
                management.delete_queue(name)
            if scenario.routed:
                management.delete_exchange(exchange)


def _fill(broker: Broker, scenario: Scenario, queue: str) -> dict[int, int]:
    """Publish the scenario's number of messages, as fast as its client can; returns how many each publisher sent."""
    traffic = replace(scenario.traffic, settled=False, rate=0.0, seconds=FILL_SECONDS)
    if scenario.client == "own":
        traffic = replace(traffic, shape="bulk", in_flight=0)
    with running(broker, traffic, [[scenario.publisher(queue)]], client=scenario.client) as processes:
        return conduct(processes).sent


def summarise(outcome: Outcome, *, consumed: bool, cpu_seconds: float, resident: int, copied: bool = False) -> Run:
    """Compute the figures of a run, and whether it is valid. `copied`: every consumer must have got all messages."""
    verdict = judge(outcome.sent, outcome.received) if consumed and not copied else LedgerVerdict()
    for one in outcome.received if copied else ():
        verdict += judge(outcome.sent, [one])
    messages = outcome.total_received if consumed else sum(outcome.sent.values())
    seconds = max((outcome.end_ns - outcome.start_ns) / 1e9, 1e-9)
    faults = [str(verdict)] if not verdict.clean else []
    faults += [f"{count} {kind}" for kind, count in outcome.faults.items() if count]
    if not messages:
        faults.append("no message at all")
    timed = outcome.latency.get_total_count() > 0

    def milliseconds(percentile: float) -> float | None:
        return outcome.latency.get_value_at_percentile(percentile) / 1000 if timed else None

    return Run(
        messages=messages,
        seconds=round(seconds, 4),
        rate=round(messages / seconds, 1),
        broker_cpu_us=round(cpu_seconds / max(messages, 1) * 1e6, 3),
        client_cpu_us=round(outcome.client_cpu_seconds / max(messages, 1) * 1e6, 3),
        resident_mib=round(resident / 2**20, 1),
        p50_ms=milliseconds(50),
        p99_ms=milliseconds(99),
        p99_9_ms=milliseconds(99.9),
        lost=verdict.lost,
        duplicated=verdict.duplicated,
        reordered=verdict.reordered,
        void="; ".join(faults),
    )
