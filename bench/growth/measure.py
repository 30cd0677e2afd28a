"""Measures the rows of one dimension: grows it from column to column, and carries out the operations beside."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import psutil

from amqp10.load.wire import WireError
from bench.broker import BrokerError
from bench.growth.dimensions import Dimension
from bench.growth.grown_broker import GrownBroker, grown_broker
from bench.growth.operations import Operation
from bench.growth.table import Cell, Row

Say = Callable[[str], None]

BATCH_CPU_SECONDS = 0.04
"""A batch is large enough when the broker spends this much on it: forty times the resolution."""
RESOLUTION_SECONDS = 0.001
"""By how much the CPU time of a batch may be off beside its noise: what a broker does twice in a second for itself."""
LEAST = 20
"""The first batch."""
LARGER_MAX = 10
"""How many times as large the next batch may be: the first ones are slower than later ones."""
RUNS = 5
CELL_SECONDS_MAX = 15.0
"""A cell that has taken this long is not repeated again."""
IDLE_SECONDS = 1.0
"""As long as the longest interval at which a broker does something for itself again and again."""
SECOND_RESOLUTION_SECONDS = 0.005
MEMORY_SHARE = 0.5
"""Things that would need more of the available memory are left out."""
GROWTH_SECONDS_MAX = 600.0
"""Things that would take longer to make are left out."""
MEMORY_RESOLUTION_BYTES = 4 * 2**20
"""By how much resident memory may be off: Python takes it from the system in arenas of 1 MiB, and a connection of ours
needs some."""
SECOND = "a second without any operation"
MEMORY = "memory of one thing"


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: the broker's CPU time and the wall time of an operation."""

    cost: float
    wall: float
    seconds: float
    """Until the broker had done everything."""


def run_batch(grown: GrownBroker, operation: Operation, count: int, idle: float) -> Batch:
    """Carry out an operation so many times, and wait until the broker has done also what it put off."""
    operation.before(grown, count)
    before, began = grown.processor_time.settled(idle), time.monotonic()
    operation.act(grown, count)
    answered = time.monotonic()
    cpu = grown.processor_time.settled(idle) - before
    took = time.monotonic() - began
    operation.after(grown, count)
    return Batch(cpu / count, (answered - began) / count, took)


def measure(grown: GrownBroker, operation: Operation, idle: float) -> Cell:
    """Measure one cell. ``idle`` is the CPU time that the broker uses in a second without any operation."""
    began = time.monotonic()
    count = min(LEAST, operation.most)
    batch = run_batch(grown, operation, count, idle)
    while batch.cost * count < BATCH_CPU_SECONDS and count < operation.most:
        wanted = 1.25 * BATCH_CPU_SECONDS / max(batch.cost, 1e-9)
        count = min(operation.most, max(2 * count, min(int(wanted), LARGER_MAX * count)))
        batch = run_batch(grown, operation, count, idle)
    batches = [batch]
    while len(batches) < RUNS and time.monotonic() - began < CELL_SECONDS_MAX:
        batches.append(run_batch(grown, operation, count, idle))
    seconds = median(one.seconds for one in batches)
    return Cell(
        things=grown.things,
        cost=median(one.cost for one in batches),
        resolution=(RESOLUTION_SECONDS + idle * seconds) / count,
        wall=median(one.wall for one in batches),
        operations=count,
        runs=len(batches),
    )


def too_many(dimension: Dimension, things: int) -> str:
    """Why so many things are left out; empty when they are not."""
    if things > dimension.most:
        return f"at most {dimension.most:,}: {dimension.why_not_more}"
    needed, there = things * dimension.bytes_each, psutil.virtual_memory().available
    if needed > there * MEMORY_SHARE:
        return f"about {needed / 2**30:.1f} GiB, of which {there / 2**30:.1f} GiB are available"
    if (seconds := things * dimension.seconds_each) > GROWTH_SECONDS_MAX:
        return f"about {seconds:.0f} s to make them, more than {GROWTH_SECONDS_MAX:.0f} s"
    return ""


def measure_dimension(
    dimension: Dimension, operations: Sequence[Operation], columns: Sequence[int], say: Say
) -> tuple[list[Row], str]:
    """Measure the operations beside more and more things. The last row is a second without any operation.

    Also returns what ended the measurement before its time; empty when nothing did. Then the rows have what was
    measured before.
    """
    rows = [Row(operation.name, dimension.name, series=[[]]) for operation in operations]
    second = Row(SECOND, dimension.name, series=[[]])
    doing = "starting a broker"
    try:
        with grown_broker() as grown:
            grown.prepare()
            dimension.begin(grown)
            for things in columns:
                if why := too_many(dimension, things):
                    for row in (*rows, second):
                        row.left_out[things] = why
                    continue
                doing = f"making {things:,} {dimension.name}"
                _grow(grown, dimension, things, say)
                idle = grown.processor_time.per_second(IDLE_SECONDS)
                second.series[0].append(Cell(things=things, cost=idle, resolution=SECOND_RESOLUTION_SECONDS))
                for operation, row in zip(operations, rows, strict=True):
                    doing = f"{things:,} {dimension.name}: {operation.name}"
                    say(doing)
                    row.series[0].append(measure(grown, operation, idle))
    except (WireError, BrokerError, OSError) as problem:
        return [*rows, second], f"{doing}: {type(problem).__name__}: {problem}"
    return [*rows, second], ""


def _grow(grown: GrownBroker, dimension: Dimension, things: int, say: Say) -> None:
    say(f"making {things - grown.things:,} {dimension.name}")
    dimension.grow(grown, grown.things, things)
    grown.things = things
    grown.processor_time.settled()


def measure_memory(dimension: Dimension, columns: Sequence[int], say: Say) -> tuple[Row, str]:
    """Measure what a thing costs in memory, over each power of ten up to the last column and between columns.

    Also returns what ended the measurement before its time; empty when nothing did.
    """
    row = Row(MEMORY, dimension.name, unit="B", series=[[]])
    try:
        _fill_memory_row(row, dimension, columns, say)
    except (WireError, BrokerError, OSError) as problem:
        return row, f"{dimension.name}: {MEMORY}: {type(problem).__name__}: {problem}"
    return row, ""


def _fill_memory_row(row: Row, dimension: Dimension, columns: Sequence[int], say: Say) -> None:
    with grown_broker() as grown:
        grown.prepare()
        dimension.begin(grown)
        grown.processor_time.settled()
        before = grown.broker.resident_bytes()
        for things in with_powers(columns):
            if why := too_many(dimension, things):
                if things in columns:
                    row.left_out[things] = why
                continue
            added = things - grown.things
            _grow(grown, dimension, things, say)
            after = grown.broker.resident_bytes()
            resolution = MEMORY_RESOLUTION_BYTES / added
            row.series[0].append(Cell(things=things, cost=(after - before) / added, resolution=resolution))
            before = after


def with_powers(columns: Sequence[int]) -> list[int]:
    """The columns, and the powers of ten up to the last of them, in order."""
    powers = (10**exponent for exponent in range(10))
    return sorted({*columns, *(one for one in powers if one <= max(columns))})
