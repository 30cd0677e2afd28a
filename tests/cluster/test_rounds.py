"""Rounds of real faults, in their short form: ``python -m tests.cluster.rounds`` runs many."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.cluster.history import Verdict
from tests.cluster.rounds import Report, main, print_report, share
from tests.kit.broker_process import ROOT

SHORT = ("--rounds", "2", "--seed", "3", "--hold", "1", "--patient", "--faults", "kill-both", "wipe")
LIMIT_S = 180


@pytest.mark.slow
def test_nothing_confirmed_is_lost_when_both_leaders_are_killed_or_a_node_loses_its_disk(
    tell: Callable[[object], None],
):
    command = [sys.executable, "-m", "tests.cluster.rounds", *SHORT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "round 2/2" in done.stdout
    assert "all promises were kept" in done.stdout
    tell(done.stdout)


def test_the_faults_can_be_listed(capsys):
    assert main(["--list"]) == 0
    assert "kill-both    kill -9 of both leaders together." in capsys.readouterr().out


def test_the_share_of_few_rounds_is_the_longest():
    assert share([1.0]) == 1.0
    assert share([float(n) for n in range(100)]) == 95.0


@pytest.mark.parametrize(
    ("report", "kept"),
    [
        (Report(), True),
        (Report(gaps={"kill-etcd": [2.9]}), True),
        (Report(gaps={"kill-etcd": [3.1]}), False),
        (Report(gaps={"wipe": [30.0]}), True),
        (Report(troubles=["a queue does not go on"]), False),
        (Report(verdict=Verdict(lost=["q:p:1:1"])), False),
        (Report(verdict=Verdict(unflagged=["q:p:1:1"])), False),
    ],
)
def test_what_a_report_says(report, kept, capsys):
    assert print_report(report, 7) is kept
    assert ("all promises were kept" in capsys.readouterr().out) is kept


def test_the_patient_do_not_judge_times():
    assert print_report(Report(gaps={"kill-etcd": [9.0]}), 7, patient=True)
