"""Random runs of flow control, as many as are asked for: ``python -m tests.machines.many_runs --runs 100000``.

The suite makes some of them each time. The runs are of the state machines of link credit, queue grants and session
windows, against models that count one by one, in serial numbers that wrap; and of a whole front end with adaptive flow
control and publishers at a distance: grants, drains, alarms, pauses, bounds, lost shares and window changes. Each kind
of runs gets the same number.

The runs are made in batches. The random choices of a batch follow from its seed: the first batch of each kind has the
one that is asked for, the next the next. A run that finds a fault ends the command with the shortest such run that was
found, and with the command that makes its batch again.

Examples:
  python -m tests.machines.many_runs --runs 100000 --processes 2
  python -m tests.machines.many_runs --runs 5000 --seed 17
  python -m tests.machines.many_runs --only QueueGrantMachine --runs 1000 --seed 40

Exit status: 0; 1 when a fault was found; 2 when the command line is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.amqp10.frontend.test_publisher_windows import RUNS, one_run
from tests.machines.test_link_credit_machine import QueueGrantMachine, ReceiverCreditMachine, SenderCreditMachine
from tests.machines.test_session_window_machine import SessionWindowMachine

STEPS = 30
MACHINES = (SenderCreditMachine, ReceiverCreditMachine, QueueGrantMachine, SessionWindowMachine)
BATCH_RUNS = 1000
"""About ten seconds, and few enough that Hypothesis, which remembers all runs of a batch, needs little memory."""


def many(runs: int, *, steps: int = STEPS) -> settings:
    """Settings for so many runs, each with new random choices."""
    return settings(
        max_examples=runs, stateful_step_count=steps, deadline=None, database=None, suppress_health_check=[*HealthCheck]
    )


def machine(kind: type[RuleBasedStateMachine], runs: int, first: int) -> None:
    """Run a state machine, with random choices that follow from a seed. Raises what the first fault raised."""
    seed(first)(kind)
    run_state_machine_as_test(kind, settings=many(runs))


def front_end(runs: int, first: int) -> None:
    """Run a whole front end in the same way. Raises what the first fault raised."""

    def run(steps: list[tuple[str, int, int, int, float]], links: int, round_trip: float, first_id: int) -> None:
        one_run(steps, links, round_trip, first_id)

    seed(first)(many(runs)(given(*RUNS)(run)))()


Kinds = Mapping[str, Callable[[int, int], None]]
KINDS: Kinds = {
    **{kind.__name__: partial(machine, kind) for kind in MACHINES},
    "FrontEnd": front_end,
}


@dataclass(frozen=True, slots=True)
class Batch:
    """Runs of one kind whose random choices follow from one seed."""

    kind: str
    runs: int
    seed: int

    def __str__(self) -> str:
        return f"python -m tests.machines.many_runs --only {self.kind} --runs {self.runs} --seed {self.seed}"

    def fault(self, make: Callable[[int, int], None]) -> str:
        """Make the runs, of which :data:`KINDS` has the function. Returns what went wrong, or nothing."""
        try:
            make(self.runs, self.seed)
        except (Exception, pytest.fail.Exception) as fault:
            return "\n".join([f"{self.kind}: {fault!r}", *getattr(fault, "__notes__", ()), f"again with: {self}"])
        return ""


def batches(kinds: Sequence[str], runs: int, first: int) -> list[Batch]:
    """The batches of so many runs of all these kinds together, those of one seed one after the other."""
    each = -(-runs // len(kinds))
    return [
        Batch(kind, min(BATCH_RUNS, each - begin), first + number)
        for number, begin in enumerate(range(0, each, BATCH_RUNS))
        for kind in kinds
    ]


def results(asked: Sequence[Batch], processes: int, kinds: Kinds) -> Iterator[tuple[Batch, str]]:
    """Make all runs, some batches at a time. Yields each batch when it is done, with its fault."""
    if processes == 1:
        yield from ((batch, batch.fault(kinds[batch.kind])) for batch in asked)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as executor:
        yield from _results(executor, asked, kinds)


def _results(executor: Executor, asked: Sequence[Batch], kinds: Kinds) -> Iterator[tuple[Batch, str]]:
    under_way: dict[Future[str], Batch] = {executor.submit(batch.fault, kinds[batch.kind]): batch for batch in asked}
    try:
        for done in as_completed(under_way):
            yield under_way[done], done.result()
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line. Exits with 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.machines.many_runs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100_000, help="all kinds together (100,000)")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=[*KINDS], metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seed", type=int, default=1, help="of the first batch of each kind (1)")
    parser.add_argument("--processes", type=int, default=1, help="batches that are made at the same time (1)")
    asked = parser.parse_args(arguments)
    for name, least in (("runs", 1), ("seed", 0), ("processes", 1)):
        if getattr(asked, name) < least:
            parser.error(f"--{name} must be at least {least}, not {getattr(asked, name)}")
    return asked


def main(arguments: Sequence[str] | None = None, kinds: Kinds = KINDS) -> int:
    """Make all runs, and print after each batch how many there were. Returns the exit status."""
    asked = parse(arguments)
    todo = batches(asked.only, asked.runs, asked.seed)
    in_all = sum(batch.runs for batch in todo)
    made: Counter[str] = Counter()
    began = time.monotonic()
    for batch, fault in results(todo, asked.processes, kinds):
        if fault:
            print(fault, file=sys.stderr)
            return 1
        made[batch.kind] += batch.runs
        seconds = time.monotonic() - began
        print(f"{made.total():>9,} of {in_all:,} runs, {seconds:.0f} s: {batch.kind}, seed {batch.seed}", flush=True)
    print(*(f"{kind}: {runs:,} runs, no fault" for kind, runs in made.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
