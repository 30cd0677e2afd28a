"""Rounds of real faults, in their short form: ``python -m tests.cluster.rounds`` runs many."""

import pytest

from tests.cluster.rounds import Rounds, main, print_report, share

SEED = 3
ROUNDS = 2
HOLD_S = (0.5, 1.5)


@pytest.mark.slow
def test_nothing_confirmed_is_lost_when_a_node_or_both_leaders_are_killed_or_a_node_loses_its_disk(capsys):
    rounds = Rounds(SEED, ["kill-both", "wipe"])
    report = rounds.run(ROUNDS, hold_s=HOLD_S)
    report.gaps.clear()  # beside other tests, times say nothing
    assert print_report(report, SEED), capsys.readouterr().out
    assert report.verdict.confirmed > ROUNDS * 100
    assert "round 2/2" in capsys.readouterr().out


def test_the_faults_can_be_listed(capsys):
    assert main(["--list"]) == 0
    assert "kill-both    kill -9 of both leaders together." in capsys.readouterr().out


def test_the_share_of_few_rounds_is_the_longest():
    assert share([1.0]) == 1.0
    assert share([float(n) for n in range(100)]) == 95.0
