"""What a command prints: tables and lines for people, JSON for programs.

JSON is the broker's snapshot as it is, so its fields are those that :mod:`amqp10.management.control` describes. Nothing
here knows how a broker is asked: commands that ask none need not load a client.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from rich.table import Table

FILE_WIDTH = 1000
"""Characters of a line that is not for a terminal: tables are only as wide as they need to be."""
TIMES = ("since", "accepted_at")
"""Columns that are wall-clock times, in seconds."""

Row = Mapping[str, object]

AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON instead of a table.")]
AsJsonLines = Annotated[bool, Parameter(name="--json", negative="", help="Print a JSON object a line.")]


def print_rows(rows: Sequence[Row], columns: Sequence[str], *, as_json: bool) -> None:
    """A table with a line for each row."""
    if as_json:
        print_json(rows)
        return
    table = _table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(_shown(column, row.get(column)) for column in columns))
    _print(table)


def print_one(row: Row, *, as_json: bool) -> None:
    """A table with a line for each field."""
    if as_json:
        print_json(row)
        return
    table = _table(header=False)
    for name, value in _flat(row):
        table.add_row(name, _shown(name, value))
    _print(table)


def tell(text: str, value: Row, *, as_json: bool) -> None:
    """What was done: a line for people, or the same for programs."""
    if as_json:
        print_json(value)
    else:
        print(text)


def print_json(value: object) -> None:
    """JSON with two spaces of indentation; what JSON has no form for is printed as text."""
    print(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def print_json_line(value: object) -> None:
    """The same in one line, for what has many."""
    print(json.dumps(value, default=str, ensure_ascii=False))


def _flat(row: Row, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Maps inside a row are rows themselves, except empty ones and arguments."""
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
        return datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds")
    if isinstance(value, dict | list):
        return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)


def _table(*, header: bool = True) -> "Table":
    from rich.table import Table  # here and not above: JSON needs none, and it takes 25 ms to load

    return Table(box=None, pad_edge=False, show_header=header)


def _print(table: "Table") -> None:
    """Names come from users: they are neither markup nor to be highlighted. Only a terminal has a width."""
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    console.print(table)
