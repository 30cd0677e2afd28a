"""Clients whose bytes take random times, in a short form."""

import pytest

from bench.random_delays import main


def test_runs_through_random_delays_are_sound(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--clients", "own", "--seeds", "2", "--seconds", "0.5", "--jitter", "10"])
    said = capsys.readouterr().out
    assert status == 0, said
    assert "2 of 2 runs are sound" in said


def test_a_broker_that_does_not_start_cannot_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--start", "false"]) == 2
    assert "cannot measure" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--seeds", "0"], "--seeds must be above 0"), (["--jitter", "-1"], "--jitter must be above 0")],
)
def test_a_wrong_command_line_is_refused(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err
