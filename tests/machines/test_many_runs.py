"""The command that makes many random runs of flow control, with few of them."""

import pytest

from tests.machines.many_runs import KINDS, Batch, batches, main


def test_a_few_runs_find_no_fault(capsys: pytest.CaptureFixture[str]):
    assert main(["--runs", "50"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[4].startswith("       50 of 50 runs")
    assert lines[5:] == [f"{kind}: 10 runs, no fault" for kind in KINDS]


def test_the_batches_of_a_kind_have_seeds_of_their_own():
    two = ["QueueGrantMachine", "FrontEnd"]
    assert batches(two, 2400, 7) == [
        Batch(kind, runs, seed) for runs, seed in ((1000, 7), (200, 8)) for kind in two
    ]  # fmt: skip


def test_a_fault_is_told_with_the_command_that_finds_it_again(capsys: pytest.CaptureFixture[str]):
    seen: list[tuple[int, int]] = []

    def faulty(runs: int, seed: int) -> None:
        seen.append((runs, seed))
        assert seed < 41, "two grants at once"

    words = ["--only", "QueueGrantMachine", "--runs", "3000", "--seed", "40"]
    assert main(words, {"QueueGrantMachine": faulty}) == 1
    assert seen == [(1000, 40), (1000, 41)]
    said = capsys.readouterr().err
    assert "two grants at once" in said
    assert "again with: python -m tests.machines.many_runs --only QueueGrantMachine --runs 1000 --seed 41" in said


@pytest.mark.parametrize("words", [["--runs", "0"], ["--seed", "-1"], ["--processes", "0"]])
def test_a_number_that_is_too_small_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(words)
    assert f"{words[0]} must be at least" in capsys.readouterr().err
