"""Fifty kills of a real broker, each followed by an audit; ``make crash`` does it a thousand times.

What was counted is printed, so that a run shows what it has covered.
"""

from pathlib import Path

import pytest
import trio

from tests.crash.cycle import CONFIRMED_MIN, KINDS
from tests.crash.run import run

PARTS = range(5)
"""Each with a seed and a data folder of its own."""
CYCLES = 10


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_a_killed_broker_keeps_what_it_confirmed(part: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    totals = trio.run(lambda: run(CYCLES, part, KINDS, tmp_path / "data", say=False))
    with capsys.disabled():
        print(f"\n{CYCLES} lives, seed {part}")
        for kind, verdict in totals.items():
            print(f"  {kind}: {verdict}")
    assert all(not verdict.broken for verdict in totals.values())
    assert sum(verdict.confirmed for verdict in totals.values()) >= CYCLES * CONFIRMED_MIN
