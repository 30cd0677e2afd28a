"""Finds the line in which a key of a TOML text stands, since the standard library's parser does not tell.

Nothing here knows TOML's grammar: a statement is the shortest run of lines that the parser accepts by itself, and the
result of that parse shows which keys the statement sets.
"""

import tomllib
from collections.abc import Iterator

Path = tuple[str | int, ...]
"""Keys from the top, and indexes in arrays of tables: ``("users", 0, "name")``."""


def line_numbers(text: str) -> dict[Path, int]:
    """The line, from 1, of each table and key of a valid text; a key inside a value has the line of the value's key."""
    lines: dict[Path, int] = {}
    table: Path = ()
    elements: dict[Path, int] = {}
    for number, parsed, is_header in _statements(text):
        if is_header:
            table = _table(parsed, elements)
            lines.setdefault(table, number)
        else:
            for path in _paths(parsed):
                lines.setdefault(table + path, number)
    return lines


def _statements(text: str) -> Iterator[tuple[int, dict[str, object], bool]]:
    """Each statement's line, its parsed value, and whether it is a table's header."""
    lines = text.replace("\r\n", "\n").split("\n")
    start = 0
    for stop in range(1, len(lines) + 1):
        try:
            parsed = tomllib.loads("\n".join(lines[start:stop]))
        except tomllib.TOMLDecodeError:
            continue
        if parsed:
            yield start + 1, parsed, lines[start].lstrip().startswith("[")
        start = stop


def _table(header: dict[str, object], elements: dict[Path, int]) -> Path:
    """The table that a header opens. ``elements`` has the last index of each array of tables."""
    path: Path = ()
    value: object = header
    while isinstance(value, dict) and value:
        key, value = next(iter(value.items()))
        path += (key,)
        if isinstance(value, list):
            elements[path] = elements.get(path, -1) + 1
            value = value[0]
        if path in elements:
            path += (elements[path],)
    return path


def _paths(value: object) -> Iterator[Path]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (key,)
            for path in _paths(inner):
                yield (key, *path)
