"""Measures cases in turn on one broker after another; prints, stores and draws the results."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from amqp10.load.plan import Protocol
from amqp10.load.wire import WireError
from bench.broker import ROOT, SCRATCH, Broker, BrokerError
from bench.environment import Environment, observe
from bench.results import Entry, Figures, Results
from bench.together.brokers import Options, add_options, broker_for, options_of
from bench.together.job import Job
from bench.together.measure import Outcome, faults_of, run_job
from bench.together.page import Chart, Line, page
from bench.trial import TrialError

PAUSE_SECONDS = 0.5
"""Pause between two runs, in which brokers clean up after a deleted queue."""

Verdict = tuple[str, bool]
"""The text of a goal, and whether it is met."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case to measure.

    prepared: declares the queues, and deletes them at the end.
    figures: computes the figures of an outcome.
    """

    name: str
    protocol: Protocol
    prepared: Callable[[Broker], AbstractContextManager[Job]]
    figures: Callable[[Outcome], Figures]


@dataclass(slots=True)
class Measured:
    """The runs of one case."""

    case: Case
    runs: list[Figures] = field(default_factory=list)
    outcome: Outcome | None = None
    """The outcome of the last run, for the chart."""

    @property
    def void(self) -> str:
        return next((str(run["void"]) for run in self.runs if run["void"]), "")

    def figure(self, name: str) -> float | None:
        """The median of a figure; None where there is none."""
        values = [value for run in self.runs if isinstance(value := run.get(name), int | float)]
        return median(values) if values else None


Round = dict[str, Measured]
"""The measured cases of one broker, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One of the two benchmarks.

    table, verdicts: computed from a round; the sync delay in milliseconds decides which goals apply.
    lines: the lines of a case in the chart.
    """

    name: str
    title: str
    introduction: str
    cases: Sequence[Case]
    table: Callable[[Round], str]
    verdicts: Callable[[Round, float], list[Verdict]]
    lines: Callable[[Case, Outcome], list[Line]]


def measure(broker: Broker, cases: Sequence[Case], runs: int) -> Round:
    """Measure every case in turn, ``runs`` times."""
    round_ = {case.name: Measured(case) for case in cases}
    for _ in range(runs):
        for measured in round_.values():
            time.sleep(PAUSE_SECONDS)
            _run(broker, measured)
    return round_


def _run(broker: Broker, measured: Measured) -> None:
    case = measured.case
    try:
        with case.prepared(broker) as job:
            outcome = run_job(broker, job)
    except (TrialError, BrokerError, WireError, OSError) as failure:
        measured.runs.append({"void": f"broke off: {failure}"})
        return
    measured.outcome = outcome
    measured.runs.append({**case.figures(outcome), "void": faults_of(job, outcome)})


def run(options: Options, comparison: Comparison) -> int:
    """Measure everything on each broker; returns the exit status."""
    environment = observe(SCRATCH)
    print(f"commit {environment.commit}, {environment.machine}, {len(environment.cpus)} CPUs,"
          f" fdatasync p50 {environment.fdatasync_p50_ms} ms; client: {options.client}", flush=True)  # fmt: skip
    entries: list[Entry] = []
    charts: list[Chart] = []
    met = True
    for delay_ms in options.sync_delays_ms:
        with broker_for(options, delay_ms) as broker:
            round_ = measure(broker, comparison.cases, options.runs)
        title = _title(comparison, broker, environment, delay_ms)
        verdicts = comparison.verdicts(round_, delay_ms)
        met &= all(good for _, good in verdicts)
        words = [f"{text}: {'met' if good else 'MISSED'}" for text, good in verdicts]
        voids = [f"VOID, {name}: {one.void}" for name, one in round_.items() if one.void]
        text = "\n".join([comparison.table(round_), *words, *voids])
        print(f"\n{title}\n{text}", flush=True)
        entries += [_entry(comparison, one, broker, delay_ms, options) for one in round_.values()]
        charts.append(Chart(title, _lines(comparison, round_), text))
    _write(options, comparison, environment, entries, charts)
    if any(entry.void for entry in entries):
        print("VOID: at least one run is not a result", file=sys.stderr)
        return 1
    return 3 if options.goals and not met else 0


def _title(comparison: Comparison, broker: Broker, environment: Environment, delay_ms: float) -> str:
    slowed = f"each sync {delay_ms:g} ms longer" if delay_ms else "disk as it is"
    return f"{comparison.title}: {broker.name}, {slowed} (fdatasync p50 {environment.fdatasync_p50_ms} ms)"


def _entry(comparison: Comparison, one: Measured, broker: Broker, delay_ms: float, options: Options) -> Entry:
    return Entry(
        scenario=f"{comparison.name}, {one.case.name}, {delay_ms:g} ms",
        parameters={"seconds": options.seconds, "client": options.client, "sync_delay_ms": delay_ms},
        broker=broker.name,
        runs=tuple(one.runs),
    )


def _lines(comparison: Comparison, round_: Round) -> list[Line]:
    return [
        line for one in round_.values() if one.outcome is not None for line in comparison.lines(one.case, one.outcome)
    ]


def _write(
    options: Options,
    comparison: Comparison,
    environment: Environment,
    entries: Sequence[Entry],
    charts: Sequence[Chart],
) -> None:
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{comparison.name}-{environment.commit}.json"
    output: Path = options.output or ROOT / "bench/results" / name
    Results(environment=environment.to_json(), warm_up_seconds=0.0, entries=tuple(entries)).write(output)
    drawn = options.page or output.with_suffix(".html")
    drawn.parent.mkdir(parents=True, exist_ok=True)
    where = ", ".join(f"{key}: {value}" for key, value in environment.to_json().items())
    drawn.write_text(page(comparison.title, f"{comparison.introduction} {where}.", charts))
    print(f"\nresult file: {output}\npage: {drawn}")


def run_command(
    parser: argparse.ArgumentParser,
    words: Sequence[str] | None,
    comparison: Callable[[Options, argparse.Namespace], Comparison],
) -> int:
    """Read the command line and run; returns the exit status."""
    add_options(parser)
    found = parser.parse_args(words)
    options = options_of(parser, found)
    try:
        return run(options, comparison(options, found))
    except (BrokerError, WireError, ValueError, OSError) as problem:
        print(f"cannot measure: {problem}", file=sys.stderr)
        return 2


def sound_figure(round_: Round, case: str, name: str) -> float | None:
    """The median of a figure; None where the case was not measured, or was void."""
    one = round_.get(case)
    return None if one is None or one.void else one.figure(name)


def cell(value: float | None, style: str = ",.0f") -> str:
    """A number as a cell of a table; a dash where there is none."""
    return "-" if value is None else format(value, style)


def ratio(a: float | None, b: float | None) -> float | None:
    """a / b; None when one of them is unknown."""
    return a / b if a is not None and b else None
