"""``python -m tests.crash.run --cycles N``: kill a broker N times, and audit it after each time.

For example:

    python -m tests.crash.run --cycles 1000
    python -m tests.crash.run --cycles 50 --seed 7 --kinds classic quorum
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import trio

from tests.crash.cycle import KINDS, Subject, live
from tests.crash.ledger import Verdict

LIVES_PER_QUEUE = 20
"""After this many lives the queues get new names, because a stream that keeps everything takes longer to read each
time."""
CLEAN_SHARE = 0.1
"""The share of lives that end with an orderly stop, so that both kinds of start are audited."""


async def run(cycles: int, seed: int, kinds: tuple[str, ...], folder: Path, *, say: bool) -> dict[str, Verdict]:
    """Run this many lives. Raises AssertionError for the first promise that was not kept."""
    rng = random.Random(seed)
    totals = {kind: Verdict() for kind in kinds}
    subjects: list[Subject] = []
    began = time.monotonic()
    for cycle in range(cycles + 1):
        if cycle % LIVES_PER_QUEUE == 0:
            subjects = [Subject(kind, f"{kind}-{cycle}") for kind in kinds]
        last = cycle == cycles
        verdicts = await live(folder, subjects, rng, kill=not last and rng.random() >= CLEAN_SHARE)
        for kind, verdict in verdicts.items():
            totals[kind].add(verdict)
        if say and (last or (cycle + 1) % 25 == 0):
            print(f"{cycle + 1} lives, {time.monotonic() - began:.0f} s, seed {seed}", flush=True)
    return totals


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m tests.crash.run"
    )
    parser.add_argument("--cycles", type=int, default=1000, help="how often to kill (default 1000)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="repeats a run's random choices")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--folder", type=Path, help="kept after a failure; default: a temporary one")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="headgate-crash-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        totals = trio.run(
            lambda: run(arguments.cycles, arguments.seed, tuple(arguments.kinds), folder / "data", say=True)
        )
    except AssertionError as error:
        sys.exit(f"seed {arguments.seed}, folder {folder} (kept): {error}")
    for kind, verdict in totals.items():
        print(f"{kind}: {verdict}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
