"""Thirty kills of a real broker, each followed by an audit; ``make crash`` does it a thousand times.

The test tells its counts, so that a run shows what it has covered.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from tests.crash import answered
from tests.crash.cycle import CONFIRMED_MIN, KINDS
from tests.crash.ledger import Verdict
from tests.crash.run import run

PARTS = range(5)
"""The parts of the test, each with a seed and a data folder of its own."""
CYCLES = 6
AT_ONCE = 3
"""Parts that run at the same time: a part mostly waits for its broker to start. More would wait for processors."""


@pytest.fixture(scope="module")
def totals(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Verdict] | AssertionError]:
    """The counts of each part, or the promise that was not kept."""
    found: dict[int, dict[str, Verdict] | AssertionError] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def one(part: int) -> None:
        async with limit:
            try:
                found[part] = await run(
                    CYCLES, part, KINDS, tmp_path_factory.mktemp(f"part-{part}") / "data", say=False
                )
            except AssertionError as error:
                found[part] = error

    async def every() -> None:
        async with trio.open_nursery() as nursery:
            for part in PARTS:
                nursery.start_soon(one, part)

    trio.run(every)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_a_killed_broker_keeps_what_it_confirmed(
    part: int, totals: dict[int, dict[str, Verdict] | AssertionError], tell: Callable[[object], None]
) -> None:
    counted = totals[part]
    if isinstance(counted, AssertionError):
        raise counted
    tell("\n".join([f"{CYCLES} lives", *(f"{kind}: {verdict}" for kind, verdict in counted.items())]))
    assert all(not verdict.broken for verdict in counted.values())
    assert sum(verdict.confirmed for verdict in counted.values()) >= CYCLES * CONFIRMED_MIN


@pytest.mark.slow
def test_a_purge_or_delete_that_was_answered_does_not_come_undone(tmp_path: Path) -> None:
    figures = trio.run(answered.run, 2, tmp_path / "data")
    assert figures.answered.total() >= 3
    assert not figures.back.total(), figures
