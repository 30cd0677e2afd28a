"""Operations on rows of every kind: list them page by page, show one, and say why something waits.

A row is a snapshot of one thing; :data:`core.rows.KINDS` has the kinds. Every page shows the broker as it is then:
what comes or goes between two pages may be missed, what stays is not, and nothing is listed twice.
"""

from typing import TYPE_CHECKING

from core.errors import NotFound
from core.interface import Snapshot
from core.operations.operation import (
    Answer,
    Arguments,
    Example,
    Field,
    Operation,
    Parameter,
    Right,
    Shape,
    Spelling,
    quoted,
)
from core.row_walks import page_of, row_of
from core.rows import KINDS, PAGE_MAX, WHY_KINDS
from core.slices import Walk

if TYPE_CHECKING:
    from core.control_plane import BrokerControl

KIND = Parameter(name="kind", sentence="The kind of the rows.", in_path=True, choices=KINDS)
IDENTITY = Parameter(name="identity", sentence="The row's identity, or its name if it has no identity.", in_path=True)


def _list(control: "BrokerControl", arguments: Arguments) -> Walk[Answer]:
    rows = control.rows(arguments.text("kind"))
    items, following = yield from page_of(rows, after=arguments.optional_text("after"), limit=arguments.number("limit"))
    return Answer(200, {"items": items, "next": following})


def _show(control: "BrokerControl", arguments: Arguments) -> Walk[Answer]:
    kind, identity = arguments.text("kind"), arguments.text("identity")
    return _found((yield from row_of(control, kind, identity)), kind, identity)


def _why(control: "BrokerControl", arguments: Arguments) -> Walk[Answer]:
    kind, identity = arguments.text("kind"), arguments.text("identity")
    named = control.queue_of_address(identity) if kind == "addresses" else identity
    return _found((yield from control.why(kind, named)), kind, identity)


def _found(row: Snapshot | None, kind: str, identity: str) -> Answer:
    if row is None:
        raise NotFound(f"there is no {quoted(identity)} under /headgate/{kind}")
    return Answer(200, row)


OPERATIONS = (
    Operation(
        name="rows.list",
        method="GET",
        path="/{kind}",
        summary="List the rows of a kind, in the order of their identities.",
        handler=_list,
        right=Right.MONITOR,
        parameters=(
            KIND,
            Parameter(
                name="limit",
                sentence="The most rows of one page. A page has more only to keep rows of one identity together.",
                kind="number",
                low=1,
                high=PAGE_MAX,
                default=PAGE_MAX,
            ),
            Parameter(name="after", sentence="The identity after which the page begins: ``next`` of the page before."),
        ),
        answer=Shape(
            "page",
            (
                Field("items", "list", "The rows of this page."),
                Field("next", "text", "The value of ``after`` for the next page; null for the last page."),
            ),
        ),
        example=Example(parameters={"kind": "queues", "limit": 1}, answer={"next": "archive"}),
    ),
    Operation(
        name="rows.show",
        method="GET",
        path="/{kind}/{identity}",
        summary="Show one row of a kind.",
        handler=_show,
        right=Right.MONITOR,
        parameters=(KIND, IDENTITY),
        answer=Shape("map"),
        example=Example(
            parameters={"kind": "queues", "identity": "orders"}, answer={"name": "orders", "messages_ready": 3}
        ),
    ),
    Operation(
        name="why",
        method="GET",
        path="/{kind}/{identity}/why",
        summary="Say what holds up a connection, a link or a queue, and what to do.",
        handler=_why,
        right=Right.MONITOR,
        parameters=(
            Parameter(name="kind", sentence="What waits.", in_path=True, choices=WHY_KINDS),
            Parameter(
                name="identity",
                sentence="The identity of the connection or link; for addresses a queue's name or its address.",
                in_path=True,
            ),
        ),
        answer=Shape("map"),
        example=Example(
            parameters={"kind": "addresses", "identity": "orders"}, answer={"waits": True, "waits_for": "no consumer"}
        ),
        also=(Spelling(method="GET", path="/why/{kind}/{identity}"),),
    ),
)
