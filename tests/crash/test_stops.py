"""Some stops of a real broker under load; ``python -m tests.crash.stops`` does two hundred."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from tests.crash.cycle import KINDS
from tests.crash.stops import BY_091, Stops

RUNS = 3
SEED = 1


@pytest.mark.slow
def test_a_stop_in_the_midst_of_everything_is_in_order(tmp_path: Path, tell: Callable[[object], None]):
    stops = Stops(tmp_path / "data", SEED)
    trio.run(stops.run, RUNS)
    tell(stops.counted)
    assert stops.counted.stops == RUNS
    assert set(stops.counted.verdicts) == {*KINDS, BY_091}
    assert all(verdict.confirmed and not verdict.broken for verdict in stops.counted.verdicts.values())
