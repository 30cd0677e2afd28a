"""A table that is not for a terminal is printed without rich, and has the lines that rich would print."""

import io
from contextlib import redirect_stdout

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.cli.printing import FILE_WIDTH, plain_lines, print_rows, print_with_rich

CELLS = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=40)
TABLES = st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=1, max_size=6))


@given(table=TABLES, with_header=st.booleans())
@example(table=[["[bold]", ":smile:"], ["a", " "]], with_header=True)
def test_a_table_has_the_same_lines_with_and_without_rich(table: list[list[str]], with_header: bool):
    header, rows = (table[0], table[1:]) if with_header else (None, table)
    lines = plain_lines(rows, header)
    assert lines is not None
    output = io.StringIO()
    with redirect_stdout(output):
        print_with_rich(rows, header)
    assert "".join(f"{line}\n" for line in lines) == output.getvalue()


@pytest.mark.parametrize("cell", ["größe", "日本", "two\nlines", "a\tb", "", "x" * (FILE_WIDTH + 1)])
def test_a_table_that_needs_rich(cell: str):
    assert plain_lines([[cell]], None) is None


def test_a_name_with_wide_letters_is_aligned(capsys: pytest.CaptureFixture[str]):
    print_rows([{"name": "日本", "type": "classic"}, {"name": "ab", "type": "quorum"}], ("name", "type"), as_json=False)
    assert capsys.readouterr().out.splitlines() == ["name  type   ", "日本  classic", "ab    quorum "]
