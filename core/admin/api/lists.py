"""RabbitMQ's list parameters: pages, a filter by name, sorting, and a choice of columns.

As in RabbitMQ, the answer is the list itself; with ``page``, ``page_size`` or ``name`` it is an object that contains
the list. With ``use_regex`` the name is a pattern of :mod:`core.patterns`, whose matching takes linear time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from starlette.types import ASGIApp

from core.admin.api.operations import Call, Parameter
from core.admin.api.refusals import bad_request
from core.admin.api.rendering import ListOfRows, Walked, answered, walked
from core.interface import Snapshot
from core.patterns import Pattern, PatternError
from core.slices import Walk, gathered, in_order

PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX = 100, 500
"""RabbitMQ's values."""
PAGES_MAX = 10**9

COLUMNS = Parameter("columns", "Only these fields, separated by commas; a.b is b inside a.")
LIST = (
    Parameter("page", "Which page, from 1.", "integer", 1, PAGES_MAX),
    Parameter("page_size", "Items in a page.", "integer", 1, PAGE_SIZE_MAX),
    Parameter("name", "Only those with this in their name."),
    Parameter("use_regex", "The name is a regular expression that is searched for.", "boolean"),
    Parameter("sort", "The field to sort by; a.b is b inside a."),
    Parameter("sort_reverse", "The other way round.", "boolean"),
    Parameter("pagination", "Means nothing.", "boolean"),
    COLUMNS,
)
IGNORED = frozenset(
    f"{what}_{part}" for what in ("msg_rates", "lengths", "data_rates", "node_stats") for part in ("age", "incr")
) | {"disable_stats", "enable_queue_totals"}
"""Parameters about stored rates. Headgate stores none, so it ignores these parameters."""


def listed(call: Call, rows: Iterable[Snapshot | None]) -> ASGIApp:
    """Return the answer to a request for a list. ``rows`` is read while the answer is made; None in it stands for a row
    that was left out. Raises HttpRefusal."""
    columns = _paths(call)
    chosen = _chooser(call)
    if not call.query.keys() & {"page", "page_size", "name", "sort"}:
        return ListOfRows(None if row is None else _cut(row, columns) for row in rows)
    return Walked(_gathered(call, rows, columns, chosen))


def _chooser(call: Call) -> Callable[[Snapshot], bool]:
    """Return the filter by name that the call asks for. Raises HttpRefusal for an invalid pattern."""
    name = call.text("name")
    if not name:
        return lambda row: True
    if not call.flag("use_regex"):
        return lambda row: name in str(row.get("name", ""))
    try:
        pattern = Pattern(name)
    except PatternError as error:
        raise bad_request(f"name {name!r} is no regular expression: {error}") from None
    return lambda row: pattern.found_in(str(row.get("name", "")))


def _gathered(
    call: Call, rows: Iterable[Snapshot | None], columns: Sequence[Sequence[str]], wanted: Callable[[Snapshot], bool]
) -> Walk[ASGIApp]:
    chosen, total = [], 0
    for row in rows:
        total += row is not None
        if row is not None and wanted(row):
            chosen.append(row)
        yield
    sort = call.text("sort")
    if sort:
        path = sort.split(".")
        chosen = yield from in_order(chosen, key=lambda row: _rank(_at(row, path)), reverse=call.flag("sort_reverse"))
    if not call.query.keys() & {"page", "page_size", "name"}:
        return ListOfRows(_cut(row, columns) for row in chosen)
    return walked(_page(call, chosen, columns, total=total))


def shown(call: Call, row: Snapshot) -> ASGIApp:
    """Return the answer with one row, cut to the requested columns."""
    return answered(_cut(row, _paths(call)))


def _page(call: Call, rows: Sequence[Snapshot], columns: Sequence[Sequence[str]], *, total: int) -> Walk[Snapshot]:
    page, size = call.number("page", 1), call.number("page_size", PAGE_SIZE_DEFAULT)
    pages = max(1, -(-len(rows) // size))
    if page > pages:
        raise bad_request(f"page {page} is past the last one, which is {pages}")
    items = yield from gathered(_cut(row, columns) for row in rows[(page - 1) * size : page * size])
    return {
        "filtered_count": len(rows),
        "item_count": len(items),
        "items": items,
        "page": page,
        "page_count": pages,
        "page_size": size,
        "total_count": total,
    }


def _paths(call: Call) -> list[list[str]]:
    columns = call.text("columns")
    return [column.split(".") for column in columns.split(",")] if columns else []


def _cut(row: Snapshot, paths: Sequence[Sequence[str]]) -> Snapshot:
    if not paths:
        return row
    cut: Snapshot = {}
    for path in paths:
        value = _at(row, path)
        if value is None:
            continue
        inside = cut
        for key in path[:-1]:
            deeper = inside.setdefault(key, {})
            if not isinstance(deeper, dict):
                break  # the whole value was requested already
            inside = deeper
        else:
            inside[path[-1]] = value
    return cut


def _at(row: object, path: Sequence[str]) -> object:
    for key in path:
        row = row.get(key) if isinstance(row, Mapping) else None
    return row


def _rank(value: object) -> tuple[int, float, str]:
    """Return a sort key for any value: missing values come first, then numbers, then texts."""
    if value is None:
        return 0, 0.0, ""
    return (1, float(value), "") if isinstance(value, int | float) else (2, 0.0, str(value))


def kept(rows: Iterable[Snapshot], **wanted: object) -> Iterator[Snapshot | None]:
    """Yield the rows with these values, and None for each other row, so that a walk can pause after every row."""
    return (row if all(row.get(key) == value for key, value in wanted.items()) else None for row in rows)
