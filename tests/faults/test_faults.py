"""Faults of every kind, in a number that a test run can afford; ``make faults`` runs many more.

The tests tell their counts, so that a run shows what it has covered.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import files
from tests.faults.bit_flips import flip_many
from tests.faults.failing_sync import fail_each
from tests.faults.full_disk import fill_often
from tests.faults.power import cut_often
from tests.faults.run import covered

SEED = 1
Tell = Callable[[object], None]


@pytest.mark.slow
def test_a_power_cut_takes_nothing_that_was_promised(tell: Tell) -> None:
    verdicts, did = cut_often(300, SEED)
    tell(covered(verdicts, did))
    assert did["points"] == 300
    assert set(verdicts) == {"classic", "lazy", "synced", "quorum", "stream"}
    assert all(verdict.confirmed > 1000 for verdict in verdicts.values())


@pytest.mark.slow
def test_nothing_is_confirmed_after_a_failed_sync(tell: Tell) -> None:
    numbers = [*range(1, 21), *range(40, 501, 40)]
    verdicts, did = fail_each(numbers, SEED)
    tell(covered(verdicts, did))
    assert did["points"] == len(numbers)
    assert all(did[f"failures of {lane}"] for lane in ("classic", "quorum", "streams"))


@pytest.mark.slow
def test_publishers_wait_for_space_and_consumers_do_not(tell: Tell) -> None:
    verdicts, did, longest_s = fill_often(5, SEED)
    tell(covered(verdicts, did))
    assert longest_s <= 1.0
    assert did["cycles"] == 5
    assert did["delivered while full"] > 100
    assert all(verdict.confirmed > 100 for verdict in verdicts.values())


@pytest.mark.slow
def test_a_flipped_bit_is_detected_and_costs_one_record_at_most(tell: Tell) -> None:
    became = flip_many(100, SEED)
    tell(covered({}, became))
    assert became.total() == 100
    assert set(became) == {"refused", "refused when read", "passed over", "rebuilt", "found by check"}


@pytest.mark.slow
def test_a_damaged_file_is_never_passed_over_in_silence(tell: Tell, tmp_path: Path) -> None:
    table, bad = files.run(60, SEED, tmp_path, long=False, say=lambda line: None)
    tell(files.show(table)[-1])
    assert bad == []
    assert table.total() > 45
