"""The output of commands: tables and lines for people, JSON for programs.

The JSON is the broker's row without changes, with the fields that :mod:`amqp10.management.control` describes. This
module imports no client, because some commands ask no broker.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence

FILE_WIDTH = 1000
"""The most characters of a line in output that is not for a terminal."""
GAP = "  "
"""Between two columns."""
TIMES = ("since", "accepted_at")
"""Fields with a wall-clock time, in seconds since 1970."""

Row = Mapping[str, object]


def print_rows(rows: Sequence[Row], columns: Sequence[str], *, as_json: bool) -> None:
    """A table with a line for each row."""
    if as_json:
        print_json(rows)
    else:
        _print_table([tuple(_shown(column, row.get(column)) for column in columns) for row in rows], columns)


def print_one(row: Row, *, as_json: bool) -> None:
    """A table with a line for each field."""
    if as_json:
        print_json(row)
    else:
        _print_table([(name, _shown(name, value)) for name, value in _flat(row)])


def begin_again() -> None:
    """Clear a terminal for the next table; other output gets an empty line between two of them."""
    print("\x1b[H\x1b[2J" if sys.stdout.isatty() else "\n", end="", flush=True)


def tell(text: str, value: Row, *, as_json: bool) -> None:
    """Print the result of a command: the text, or the value as JSON."""
    if as_json:
        print_json(value)
    else:
        print(text)


def print_json(value: object) -> None:
    """Print JSON with two spaces of indentation. A value that JSON cannot represent is printed as text."""
    print(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def print_json_line(value: object) -> None:
    """Print JSON on one line."""
    print(json.dumps(value, default=str, ensure_ascii=False))


def _flat(row: Row, prefix: str = "") -> Iterator[tuple[str, object]]:
    """The fields of a row and of the maps in it. Empty maps and arguments are kept whole."""
    for name, value in row.items():
        if isinstance(value, dict) and value and name != "arguments":
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _shown(name: str, value: object) -> str:
    if value is None or value in ({}, []):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in TIMES and isinstance(value, int | float):
        from datetime import UTC, datetime  # here and not above: most rows have no time

        return datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds")
    if isinstance(value, dict | list):
        return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)


def _print_table(rows: Sequence[Sequence[str]], header: Sequence[str] | None = None) -> None:
    lines = None if _may_be_terminal() else plain_lines(rows, header)
    if lines is None:
        print_with_rich(rows, header)
    else:
        print("".join(f"{line}\n" for line in lines), end="")


def _may_be_terminal() -> bool:
    """Whether rich could take the output for a terminal, which has a width and shows a header in bold."""
    return sys.stdout.isatty() or not {"FORCE_COLOR", "TTY_COMPATIBLE"}.isdisjoint(os.environ)


def plain_lines(rows: Sequence[Sequence[str]], header: Sequence[str] | None) -> list[str] | None:
    """The lines of a table that is not for a terminal, as rich would print them; rich takes 30 ms of CPU to import.

    None for a table that needs rich: one that is too wide, or has characters that are not one column wide.
    """
    table = [*([] if header is None else [header]), *rows]
    if not all(cell.isascii() and cell.isprintable() for row in table for cell in row):
        return None
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    if not table or not all(widths) or sum(widths) + len(GAP) * (len(widths) - 1) > FILE_WIDTH:
        return None
    return [GAP.join(map(str.ljust, row, widths)) for row in table]


def print_with_rich(rows: Sequence[Sequence[str]], header: Sequence[str] | None) -> None:
    """Print a table as a terminal shows it. Names come from users, so nothing in them is markup. Only a terminal has a
    width."""
    from rich.console import Console  # here and not above: see plain_lines
    from rich.table import Table

    table = Table(*(() if header is None else header), box=None, pad_edge=False, show_header=header is not None)
    for column in table.columns:  # a table of one thing has no columns yet
        column.overflow = "fold"
    for row in rows:
        table.add_row(*row)
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    console.print(table)
