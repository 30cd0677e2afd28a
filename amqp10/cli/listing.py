"""Lists and single things, for people as tables and for programs as JSON.

What a thing looks like is the broker's snapshot of it; a command only chooses columns. JSON is the snapshot as it is,
so its fields are those that :mod:`amqp10.control` describes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from amqp10.addresses import percent_encode
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker
from amqp10.client import ClientConnection, RequestRefused
from core.rows import PAGE_MAX

if TYPE_CHECKING:
    from rich.table import Table

HTTP_BAD_REQUEST = 400
FILE_WIDTH = 1000
"""Characters of a line that is not for a terminal: tables are only as wide as they need to be."""
TIMES = ("since", "accepted_at")
"""Columns that are wall-clock times, in seconds."""

Row = Mapping[str, object]

AsJson = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON instead of a table.")]
AsJsonLines = Annotated[bool, Parameter(name="--json", negative="", help="Print a JSON object a line.")]


def noun(name: str, *, columns: Sequence[str], help_text: str) -> App:
    """A command for one kind of thing, with the verbs list and show."""
    app = App(name=name, help=help_text)
    one = name.removesuffix("s")

    def list_(*, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
        print_rows(fetch_all(url, name), columns, as_json=json)

    def show(identity: str, /, *, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
        print_one(fetch_one(url, name, identity), as_json=json)

    app.command(list_, name="list", help=f"List all {name}.\n\nFor example:\n\n    headgate {name} list")
    app.command(
        show,
        name="show",
        help=f"Show everything about one {one}.\n\nFor example:\n\n    headgate {name} show {one.upper()}",
    )
    return app


def fetch_all(url: str, kind: str) -> list[Row]:
    """The snapshots of all things of a kind."""
    return with_broker(url, lambda connection: pages(connection, kind))


def fetch_one(url: str, kind: str, identity: str) -> Row:
    """The snapshot of one thing. Raises CommandError when there is none."""

    async def ask(connection: ClientConnection) -> object:
        return (await connection.request("GET", f"/headgate/{kind}/{percent_encode(identity)}")).body

    return _row(with_broker(url, ask))


async def pages(connection: ClientConnection, kind: str) -> list[Row]:
    """The same over a connection that is there already."""
    rows: list[Row] = []
    limit, after = PAGE_MAX, ""
    while True:
        try:
            answer = await connection.request("GET", f"/headgate/{kind}?limit={limit}{after}")
        except RequestRefused as refused:
            if refused.status != HTTP_BAD_REQUEST or limit == 1:
                raise
            limit //= 2  # the things are large, and a page has a limit in bytes, too
            continue
        page = _row(answer.body)
        items = page.get("items")
        rows += [_row(item) for item in items] if isinstance(items, list) else []
        if page.get("next") is None:
            return rows
        after = f"&after={percent_encode(str(page['next']))}"


def _row(value: object) -> Row:
    if not isinstance(value, dict):
        raise CommandError(Exit.REFUSED, "the broker's answer is not understood; is it a Headgate of another version?")
    return {str(key): item for key, item in value.items()}


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
