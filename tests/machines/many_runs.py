"""Random runs of flow control, as many as are asked for: ``python -m tests.machines.many_runs --runs 100000``.

The suite makes some of them each time. The runs are of the state machines of link credit, queue grants and session
windows, against models that count one by one, in serial numbers that wrap; and of a whole front end with adaptive flow
control and publishers at a distance: grants, drains, alarms, pauses, bounds, lost shares and window changes. Each kind
of runs gets the same number. A run that finds a fault ends the command with the shortest such run that was found.

Exit status: 0; 1 when a fault was found; 2 when the command line is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from hypothesis import HealthCheck, given, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.amqp10.frontend.test_publisher_windows import RUNS, one_run
from tests.machines.test_link_credit_machine import QueueGrantMachine, ReceiverCreditMachine, SenderCreditMachine
from tests.machines.test_session_window_machine import SessionWindowMachine

STEPS = 30
MACHINES = (SenderCreditMachine, ReceiverCreditMachine, QueueGrantMachine, SessionWindowMachine)


def many(runs: int, *, steps: int = STEPS) -> settings:
    """Settings for so many runs, each with new random choices."""
    return settings(
        max_examples=runs, stateful_step_count=steps, deadline=None, database=None, suppress_health_check=[*HealthCheck]
    )


def machine(kind: type[RuleBasedStateMachine], runs: int) -> None:
    """Run a state machine. Raises what the first fault raised."""
    run_state_machine_as_test(kind, settings=many(runs))


def front_end(runs: int) -> None:
    """Run a whole front end. Raises what the first fault raised."""
    many(runs)(given(*RUNS)(one_run))()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all kinds and print how many runs there were. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.machines.many_runs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100_000, help="all kinds together (100,000)")
    asked = parser.parse_args(arguments)
    if asked.runs < 1:
        parser.error(f"--runs must be at least 1, not {asked.runs}")
    kinds: list[tuple[str, Callable[[int], None]]] = [(kind.__name__, partial(machine, kind)) for kind in MACHINES]
    kinds.append(("front end with adaptive flow control", front_end))
    each = -(-asked.runs // len(kinds))
    for name, run in kinds:
        began = time.monotonic()
        try:
            run(each)
        except Exception as fault:
            print(f"{name}: {fault!r}", *getattr(fault, "__notes__", ()), sep="\n", file=sys.stderr)
            return 1
        print(f"{name}: {each:,} runs, no fault, {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
