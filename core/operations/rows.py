"""Operations on rows of every kind: list them page by page, show one, and say why something waits.

A row is a snapshot of one thing; :data:`core.rows.KINDS` has the kinds. Every page shows the broker as it is then:
what comes or goes between two pages may be missed, what stays is not, and nothing is listed twice.
"""

from core.control_plane import BrokerControl
from core.errors import NotFound
from core.interface import Snapshot
from core.observe.why import why as what_holds_up
from core.observe.why_minute import worst_waits
from core.operations.operation import (
    VHOST,
    AnswerField,
    Arguments,
    Parameter,
    Reply,
    Shape,
    Spelling,
    operation,
    quoted,
)
from core.row_walks import RowSource, page_of, row_of
from core.rows import KINDS, PAGE_MAX, SERVER_KINDS, WHY_KINDS
from core.slices import Walk

KIND = Parameter("kind", "The kind of the rows.", in_path=True, choices=KINDS)
IDENTITY = Parameter("identity", "The row's identity, or its name if it has no identity.", in_path=True)
LIMIT = Parameter(
    "limit",
    "The most rows of one page. A page has more only to keep rows of one identity together.",
    "number",
    low=1,
    high=PAGE_MAX,
    default=PAGE_MAX,
)
AFTER = Parameter("after", "The identity after which the page begins: ``next`` of the page before.")
OF_VHOST = Parameter(
    "vhost",
    "The virtual host. Without it, connections and what belongs to them are those of all virtual hosts, and other rows "
    "those of the connection's own, or of ``/``.",
)
WAITING = Parameter("kind", "What waits.", in_path=True, choices=WHY_KINDS)
SUBJECT = Parameter(
    "identity", "The identity of the connection or link; for addresses a queue's name or its address.", in_path=True
)
WORST_MAX = 100
"""Items of one answer: 1 ms for each."""
WORST_LIMIT = Parameter("limit", "The most links and readers.", "number", low=1, high=WORST_MAX, default=10)
WORST = Shape(
    "map",
    (
        AnswerField("over_seconds", "number", "How long the last minute was: 65 seconds at most, fewer after a start."),
        AnswerField("waited", "number", "How many links and readers have waited in the last minute."),
        AnswerField("waiting", "number", "How many wait now, and have for 50 ms."),
        AnswerField("items", "list", "Those that have waited most, with ``root`` and ``last_minute`` as in ``why``."),
    ),
)
PAGE = Shape(
    "page",
    (
        AnswerField("items", "list", "The rows of this page."),
        AnswerField("next", "text", "The value of ``after`` for the next page; null for the last page."),
    ),
)


@operation(
    "rows.list",
    "GET",
    "/{kind}",
    *(KIND, LIMIT, AFTER, OF_VHOST),
    answer=PAGE,
    example={"kind": "queues", "limit": 1},
    gives={"next": "archive"},
)
def list_(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    """List the rows of a kind, in the order of their identities."""
    kind = arguments.text("kind")
    rows = _source(control, arguments, kind).rows(kind)
    after = arguments.optional_text("after")
    items, following = yield from page_of(rows, after=after, limit=arguments.number("limit"))
    return Reply(200, {"items": items, "next": following})


@operation(
    "rows.show",
    "GET",
    "/{kind}/{identity}",
    *(KIND, IDENTITY, OF_VHOST),
    answer=Shape("map"),
    example={"kind": "queues", "identity": "orders"},
    gives={"name": "orders", "messages_ready": 3},
)
def show(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    """Show one row of a kind."""
    kind, identity = arguments.text("kind"), arguments.text("identity")
    return _found((yield from row_of(_source(control, arguments, kind), kind, identity)), kind, identity)


@operation(
    "why",
    "GET",
    "/{kind}/{identity}/why",
    *(WAITING, SUBJECT, VHOST),
    answer=Shape("map"),
    example={"kind": "addresses", "identity": "orders"},
    gives={"waits": True, "waits_for": "no consumer"},
    also=(Spelling("GET", "/why/{kind}/{identity}"),),
)
def why(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    """Say what holds up a connection, a link or a queue, and what to do."""
    kind, identity = arguments.text("kind"), arguments.text("identity")
    host = arguments.text("vhost") if kind == "addresses" else control.host_of(identity)
    named = control.queue_of_address(identity) if kind == "addresses" else identity
    return _found((yield from what_holds_up(control.on(host), kind, named)), kind, identity)


@operation("why.worst", "GET", "/why", WORST_LIMIT, OF_VHOST, answer=WORST, gives={"waited": 0})
def worst(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    """Show the links and readers that have waited most in the last minute, for which reasons, and who is to blame."""
    found = yield from worst_waits(_source(control, arguments, "stalls"), arguments.number("limit"))
    return Reply(200, found)


def _source(control: BrokerControl, arguments: Arguments, kind: str) -> RowSource:
    named = arguments.optional_text("vhost")
    if named is None and (kind in SERVER_KINDS or kind == "stalls"):
        return control
    return control.on(named or arguments.rights.virtual_host)


def _found(row: Snapshot | None, kind: str, identity: str) -> Reply:
    if row is None:
        raise NotFound(f"there is no {quoted(identity)} under /headgate/{kind}")
    return Reply(200, row)


OPERATIONS = (list_, show, why, worst)
