"""Simulate many clusters, each from a seed: ``python -m tests.cluster.simulate --seeds 10000``."""

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

from core.engine.quorum.shared_log import LogBroken
from core.store.errors import StoreDamaged, StoreFailure
from tests.cluster.engine import Mistake
from tests.cluster.stream_subject import Broken
from tests.cluster.world import World

STEPS = 300
"""Steps of one seed; about seven and a half seconds of virtual time."""
SHOWN_MAX = 10
BATCH = 50
"""Seeds that one process simulates at a time."""


class Outcome(NamedTuple):
    """What became of one seed."""

    seed: int
    why: str
    """Which promise was not kept; "" if all were."""
    did: Counter[str]


def simulate(seed: int, mistake: Mistake | None = None, *, steps: int = STEPS, trace: bool = False) -> Outcome:
    """Simulate one cluster."""
    world = World(seed, mistake, print if trace else lambda line: None)
    try:
        world.run(steps)
    except (Broken, LogBroken, StoreDamaged, StoreFailure, AssertionError) as broken:
        if trace:
            traceback.print_exc()
        return Outcome(seed, f"{type(broken).__name__}: {broken}", world.did)
    return Outcome(seed, "", world.did)


def simulate_some(seeds: range, mistake: Mistake | None) -> list[Outcome]:
    """Simulate several clusters."""
    return [simulate(seed, mistake) for seed in seeds]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 1 if a promise was not kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many clusters to simulate")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="simulate this one only")
    parser.add_argument("--trace", action="store_true", help="with --seed: print everything that happens")
    parser.add_argument("--mistake", choices=[mistake.value for mistake in Mistake], help="put a mistake in")
    parser.add_argument("--processes", type=int, default=1, help="how many processes to use")
    chosen = parser.parse_args(arguments)
    mistake = None if chosen.mistake is None else Mistake(chosen.mistake)
    if chosen.seed is not None:
        outcome = simulate(chosen.seed, mistake, trace=chosen.trace)
        print(outcome.why or f"all promises were kept: {dict(outcome.did)}")
        return int(bool(outcome.why))
    began = time.monotonic()
    end = chosen.first + chosen.seeds
    batches = [range(first, min(first + BATCH, end)) for first in range(chosen.first, end, BATCH)]
    did: Counter[str] = Counter()
    broken: list[Outcome] = []
    with ProcessPoolExecutor(chosen.processes) as pool:
        for outcomes in pool.map(partial(simulate_some, mistake=mistake), batches):
            for outcome in outcomes:
                did.update(outcome.did)
                if outcome.why:
                    broken.append(outcome)
    seconds = time.monotonic() - began
    print(f"{chosen.seeds} seeds in {seconds:.1f} s; {', '.join(f'{name} {n:,}' for name, n in sorted(did.items()))}")
    print(f"promises broken with {len(broken)} seeds")
    for outcome in broken[:SHOWN_MAX]:
        print(f"  --seed {outcome.seed}: {outcome.why[:300]}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
