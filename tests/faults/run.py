"""``python -m tests.faults.run KIND``: many faults, each followed by an audit; prints what was counted.

For example:

    python -m tests.faults.run power --points 10000
    python -m tests.faults.run sync --points 500 --seed 7
    python -m tests.faults.run space --points 100
    python -m tests.faults.run bits --points 2000

``power``: power cuts. ``sync``: the n-th sync fails, n from 1 to the number of points. ``space``: cycles of a full
disk. ``bits``: flipped bits.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from textwrap import indent

from tests.crash.ledger import Verdict
from tests.faults.bit_flips import flip_many
from tests.faults.failing_sync import fail_each
from tests.faults.full_disk import fill_often
from tests.faults.power import cut_often


def power(points: int, seed: int) -> None:
    """Run power cuts."""
    show(*cut_often(points, seed))


def sync(points: int, seed: int) -> None:
    """Run failing syncs."""
    show(*fail_each(range(1, points + 1), seed))


def space(points: int, seed: int) -> None:
    """Run cycles of a full disk."""
    verdicts, did, longest_s = fill_often(points, seed)
    show(verdicts, did)
    print(f"link credit was back {longest_s:.2f} s after the space at the latest")


def bits(points: int, seed: int) -> None:
    """Run flipped bits."""
    show({}, flip_many(points, seed))


KINDS: dict[str, tuple[Callable[[int, int], None], int]] = {
    "power": (power, 10_000),
    "sync": (sync, 500),
    "space": (space, 100),
    "bits": (bits, 2_000),
}
"""The function of each kind, and its default number of points."""


def covered(verdicts: Mapping[str, Verdict], did: Counter[str]) -> str:
    """Lines with the verdict on each queue, and with the count of each thing that was done."""
    done = ", ".join(f"{name} {count:,}" for name, count in sorted(did.items()))
    return "\n".join([*(f"{name}: {verdict}" for name, verdict in verdicts.items()), done])


def show(verdicts: Mapping[str, Verdict], did: Counter[str]) -> None:
    """Print the lines of :func:`covered`."""
    print(indent(covered(verdicts, did), "  "))


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m tests.faults.run"
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", default=list(KINDS), help=", ".join(KINDS))
    parser.add_argument("--points", type=int, help="how many faults of each kind; default: as the plan says")
    parser.add_argument("--seed", type=int, default=1, help="repeats a run's random choices (default 1)")
    arguments = parser.parse_args()
    unknown = set(arguments.kinds) - set(KINDS)
    if unknown:
        parser.error(f"no such kind: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    for kind in arguments.kinds:
        act, points = KINDS[kind]
        points = arguments.points or points
        began = time.monotonic()
        print(f"{kind}: {points:,} points, seed {arguments.seed}", flush=True)
        try:
            act(points, arguments.seed)
        except AssertionError as error:
            sys.exit(f"{kind}, seed {arguments.seed}: {error}\n" + "\n".join(getattr(error, "__notes__", ())))
        print(f"  {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
