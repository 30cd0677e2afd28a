"""The command that makes many random runs of flow control, with few of them."""

import pytest

from tests.machines.many_runs import main


def test_a_few_runs_find_no_fault(capsys: pytest.CaptureFixture[str]):
    assert main(["--runs", "50"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all("10 runs, no fault" in line for line in lines)


def test_no_run_is_no_command(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["--runs", "0"])
    assert "--runs must be at least 1" in capsys.readouterr().err
