"""The command lines that measure: their options, and how they show their progress. No test runs the measurements."""

import io
from datetime import timedelta

import pytest

from pipeline import measure_days
from pipeline.measure import EVENTS_MIN, main, make, progress_on
from tests.pyspark_amqp10.measure_sink import build_parser


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def told(stream: io.StringIO, of: int = 100_000_000, step: int = 1_000_000) -> str:
    progress = progress_on(stream)
    for done in range(step, of + 1, step):
        progress(done, of)
    return stream.getvalue()


def test_without_a_terminal_progress_is_a_line_for_each_ten_percent():
    lines = told(io.StringIO()).splitlines()
    assert lines == [f"generated {n * 10_000_000:,} of 100,000,000 ({n * 10} %)" for n in range(1, 11)]


def test_steps_that_are_larger_are_a_line_each():
    assert told(io.StringIO(), of=200, step=50).splitlines() == [
        f"generated {done} of 200 ({done // 2} %)" for done in (50, 100, 150, 200)
    ]


def test_on_a_terminal_progress_stays_in_its_line():
    text = told(Terminal())
    assert text.count("\r") == 100
    assert text.count("\n") == 1
    assert text.endswith("\rgenerated 100,000,000 of 100,000,000\n")


@pytest.mark.parametrize("events", [EVENTS_MIN, 7, 4_321, 250_000])
def test_as_many_events_are_made_as_are_asked_for(events: int, tmp_path, capsys: pytest.CaptureFixture[str]):
    assert make(tmp_path / "events", events).events == events
    assert capsys.readouterr().err.splitlines()[-1] == f"generated {events:,} of {events:,} (100 %)"


@pytest.mark.parametrize("words", [["--events", "-1"], ["--events", "2"], ["--events", "0", "--check", "1"]])
def test_figures_that_make_no_sense_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert f"is {words[-1]}; it must be 0, or 3 or more" in capsys.readouterr().err


def test_days_that_make_no_sense_are_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        measure_days.main(["--days", "0"])
    assert ended.value.code == 2
    assert "--days is 0 and --events 300000; both must be 1 or more" in capsys.readouterr().err


def test_a_made_day_is_the_same_on_other_days_but_for_its_times(tmp_path):
    table = measure_days.made_day(tmp_path / "day", "stalls", 200)
    later = measure_days.day_after(table, 3)
    for name in ("at", "since"):
        moved = [at and at + timedelta(days=3) for at in table.column(name).to_pylist()]
        assert later.column(name).to_pylist() == moved
    assert later.drop_columns(["at", "since"]) == table.drop_columns(["at", "since"])


def test_the_sink_is_measured_in_all_cases_or_in_those_that_are_named(capsys: pytest.CaptureFixture[str]):
    parser = build_parser()
    assert parser.parse_args([]).case is None
    assert parser.parse_args(["--case", "plain", "--rows", "5"]).case == ["plain"]
    with pytest.raises(SystemExit):
        parser.parse_args(["--case", "none"])
    assert "invalid choice: 'none' (choose from 'annotated', 'plain')" in capsys.readouterr().err
