"""The rows of a broker: all rows of a kind, or one row by its identity, and the commands ``list`` and ``show``.

The broker decides the fields of a row. A command only chooses the columns of its table.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cyclopts import App

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import AsJson, Row, print_one, print_rows
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker
from amqp10.wire.percent import percent_encode
from core.rows import PAGE_MAX

if TYPE_CHECKING:
    from amqp10.blocking.requests import BlockingManagement

HTTP_BAD_REQUEST = 400


def noun(name: str, *, columns: Sequence[str], help_text: str) -> App:
    """A command for one kind of row, with the verbs list and show."""
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
        help=f"Show all fields of one {one}.\n\nFor example:\n\n    headgate {name} show {one.upper()}",
    )
    return app


def fetch_all(url: str, kind: str) -> list[Row]:
    """All rows of a kind."""
    return with_broker(url, lambda broker: pages(broker, kind))


def fetch_one(url: str, kind: str, identity: str) -> Row:
    """The row with this identity. Raises CommandError when there is none."""
    path = f"/headgate/{kind}/{percent_encode(identity)}"
    return _row(with_broker(url, lambda broker: broker.request("GET", path).body))


def pages(broker: "BlockingManagement", kind: str) -> list[Row]:
    """All rows of a kind, requested page by page over an open connection."""
    from amqp10.client_core.errors import RequestRefused  # here and not above: help needs no client

    rows: list[Row] = []
    limit, after = PAGE_MAX, ""
    while True:
        try:
            answer = broker.request("GET", f"/headgate/{kind}?limit={limit}{after}")
        except RequestRefused as refused:
            if refused.status != HTTP_BAD_REQUEST or limit == 1:
                raise
            limit //= 2  # these rows are large, and a page has a limit in bytes too
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
