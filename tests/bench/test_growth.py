"""The table of the growth benchmark: its form, its exit status, and one small run of two rows."""

import json
from pathlib import Path

import pytest

from bench.growth.__main__ import COLUMNS, QUICK, main, outcome, parse, row_names
from bench.growth.dimensions import DIMENSIONS
from bench.growth.measure import too_many, with_powers
from bench.growth.table import Cell, Row, complaint, head, line, notes, shown

COLUMNS_OF_ROWS = (1, 100, 10_000)


def row(*costs: float, operation: str = "declare a queue", unit: str = "s", again: tuple[float, ...] = ()) -> Row:
    series = [
        [
            Cell(things=things, cost=cost, resolution=1e-9, wall=2 * cost)
            for things, cost in zip(COLUMNS_OF_ROWS, one, strict=False)
        ]
        for one in (costs, again)
        if one
    ]
    return Row(operation, "queues", unit=unit, series=series)


def test_a_row_shows_cpu_time_and_wall_time_of_each_column():
    assert line(row(12e-6, 0.0125, 1.5), COLUMNS_OF_ROWS).split("  ")[-1] == "GROWS"
    assert head(COLUMNS_OF_ROWS).split() == ["operation", "1", "100", "10,000", "verdict"]
    words = line(row(12e-6, 15e-6, 20e-6), COLUMNS_OF_ROWS).split()
    assert words[:3] == ["declare", "a", "queue"]
    assert words[3:] == [
        "12.0",
        "us",
        "(24.0",
        "us)",
        "15.0",
        "us",
        "(30.0",
        "us)",
        "20.0",
        "us",
        "(40.0",
        "us)",
        "flat",
    ]


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (1.5e-7, "s", "0.15 us"), (2.34e-6, "s", "2.34 us"), (0.0999, "s", "99.9 ms"), (12.3, "s", "12.3 s"),
        (0.0, "s", "0.00 us"), (1500.0, "B", "1.46 KiB"), (700.0, "B", "700 B"), (3e6, "B", "2.86 MiB"),
    ],
)  # fmt: skip
def test_costs_are_shown_in_the_unit_that_fits(value, unit, words):
    assert shown(value, unit) == words


def test_what_is_left_out_says_why_once():
    rows = [row(1e-6, 1e-6), row(2e-6, 2e-6, operation="delete a queue")]
    for one in rows:
        one.left_out[10_000] = "about 9.0 GiB, of which 4.0 GiB are available"
    assert line(rows[0], COLUMNS_OF_ROWS).split()[-4:] == ["us)", "-", "not", "judged"]
    assert notes(rows) == ["10,000 queues: about 9.0 GiB, of which 4.0 GiB are available"]


def test_a_row_that_is_linear_fails_the_run_and_is_named(capsys: pytest.CaptureFixture[str]):
    linear = row(*(1e-6 * things for things in COLUMNS_OF_ROWS), operation="delete a queue")
    assert outcome([row(1e-3, 1e-3, 1.1e-3), linear], []) == 1
    said = capsys.readouterr()
    assert "2 rows: 1 grow, 0 have too few measurements" in said.out
    assert said.err == f"GROWS {complaint(linear)}\n"
    assert said.err.startswith("GROWS delete a queue / queues: 1.00 us beside 1, 100 us beside 100, and 10.0 ms beside")


def test_rows_that_do_not_grow_pass(capsys: pytest.CaptureFixture[str]):
    assert outcome([row(1e-3, 2e-3, 3e-3), row(1e-3, 1e-3)], []) == 0
    assert "2 rows: 0 grow, 1 have too few measurements" in capsys.readouterr().out


def test_a_dimension_that_broke_off_is_no_success(capsys: pytest.CaptureFixture[str]):
    assert outcome([], ["100 queues: declare a queue: WireError: refused"]) == 2
    assert capsys.readouterr().err == "cannot measure: 100 queues: declare a queue: WireError: refused\n"


def test_a_row_fails_when_it_grows_each_time_it_is_measured():
    assert not row(1e-3, 1e-3, 1.0, again=(1e-3, 1e-3, 1e-3)).failed
    assert row(1e-3, 1e-3, 1.0, again=(1e-3, 1e-3, 0.9)).failed


def test_no_two_rows_have_the_same_name():
    names = [name for one in DIMENSIONS for name in row_names(one)]
    assert len(set(names)) == len(names) > 300
    assert len({one.name for one in DIMENSIONS}) == len(DIMENSIONS)


def test_what_does_not_fit_is_left_out():
    connections = next(one for one in DIMENSIONS if one.name == "connections")
    assert too_many(connections, 100) == ""
    assert too_many(connections, 1_000_000) == "at most 15,000: descriptors and ports of one machine"
    queues = next(one for one in DIMENSIONS if one.name == "queues")
    assert "are available" in too_many(queues, 10**9)


def test_memory_is_read_at_the_powers_of_ten_too():
    assert with_powers((1, 100, 500)) == [1, 10, 100, 500]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--columns", "1,100"], "2 columns, and growth is seen in 3 or more"),
        (["--columns", "0,1,2"], "a column is 1 to 10,000,000 things"),
        (["--columns", "1,2,many"], "--columns"),
        (["--columns", "1,2,3", "--quick"], "give one of them"),
        (["--only", "("], "is no regular expression"),
    ],
)
def test_a_wrong_command_line_is_told(words, told, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as refused:
        parse(words)
    assert refused.value.code == 2
    assert told in capsys.readouterr().err


def test_columns():
    assert parse([]).columns == COLUMNS
    assert parse(["--quick"]).columns == QUICK
    assert parse(["--columns", "100,1,10"]).columns == (1, 10, 100)


def test_rows_can_be_listed_and_a_row_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]):
    assert main(["--list", "--only", "^purge.* / connections$"]) == 0
    assert capsys.readouterr().out == "purge a queue of a message / connections\n"
    assert main(["--only", "no such row"]) == 2
    assert "no row has 'no such row' in its name" in capsys.readouterr().err


@pytest.mark.slow
def test_two_rows_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "growth.json"
    wanted = r"^(purge a queue of a message|publish and confirm \(0.9.1\)) / queues$"
    status = main(["--only", wanted, "--columns", "1,10,100", "--json", str(path)])
    said = capsys.readouterr()
    assert status == 0, said.out + said.err
    assert "2 rows: 0 grow, 0 have too few measurements" in said.out
    assert "dimension 1 of 1: queues" in said.err
    document = json.loads(path.read_text())
    assert document["columns"] == [1, 10, 100]
    assert [one["operation"] for one in document["rows"]] == [
        "publish and confirm (0.9.1)",
        "purge a queue of a message",
    ]
    for one in document["rows"]:
        assert one["verdict"] == "flat"
        (series,) = one["series"]
        assert [cell["things"] for cell in series] == [1, 10, 100]
        assert all(cell["cost"] > 0 and cell["operations"] >= 20 for cell in series)
