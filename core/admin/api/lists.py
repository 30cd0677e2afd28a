"""RabbitMQ's list parameters: pages, a filter by name, sorting, and a choice of columns.

As in RabbitMQ, the answer is the list itself; with ``page``, ``page_size`` or ``name`` it is an object that contains
the list. With ``use_regex`` the name is a pattern of :mod:`core.patterns`, whose matching takes linear time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from core.admin.api.refusals import bad_request
from core.interface import Snapshot
from core.operations.operation import Arguments, Parameter, Reply
from core.patterns import Pattern, PatternError
from core.slices import Walk, gathered, in_order

PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX = 100, 500
"""RabbitMQ's values."""
PAGES_MAX = 10**9

COLUMNS = Parameter(name="columns", sentence="Only these fields, separated by commas; a.b is b inside a.")
IGNORED = tuple(
    Parameter(name=name, sentence="Ignored: Headgate stores no rates.", ignored=True)
    for name in (
        *(
            f"{what}_{part}"
            for what in ("msg_rates", "lengths", "data_rates", "node_stats")
            for part in ("age", "incr")
        ),
        "disable_stats",
        "enable_queue_totals",
    )
)
"""RabbitMQ's parameters about stored rates."""
ITEM = (COLUMNS, *IGNORED)
"""The parameters of a request for one row."""
LIST = (
    Parameter(name="page", sentence="Which page, from 1.", kind="number", low=1, high=PAGES_MAX),
    Parameter(name="page_size", sentence="Items in a page.", kind="number", low=1, high=PAGE_SIZE_MAX),
    Parameter(name="name", sentence="Only those with this in their name."),
    Parameter(name="use_regex", sentence="The name is a regular expression that is searched for.", kind="flag"),
    Parameter(name="sort", sentence="The field to sort by; a.b is b inside a."),
    Parameter(name="sort_reverse", sentence="The other way round.", kind="flag"),
    Parameter(name="pagination", sentence="Means nothing.", kind="flag"),
    *ITEM,
)
"""The parameters of a request for a list."""
FOR_PAGES = ("page", "page_size", "name")
"""Each of these asks for an object with a page."""


def listed(arguments: Arguments, rows: Iterable[Snapshot | None]) -> Reply | Walk[Reply]:
    """Return the answer to a request for a list. ``rows`` is read while the answer is made; None in it stands for a row
    that was left out. Raises HttpRefusal."""
    columns = _paths(arguments)
    chosen = _chooser(arguments)
    if all(arguments.values[name] is None for name in (*FOR_PAGES, "sort")):
        return Reply(200, (None if row is None else _cut(row, columns) for row in rows))
    return _gathered(arguments, rows, columns, chosen)


def _chooser(arguments: Arguments) -> Callable[[Snapshot], bool]:
    """Return the filter by name that the call asks for. Raises HttpRefusal for an invalid pattern."""
    name = arguments.optional_text("name")
    if not name:
        return lambda row: True
    if not arguments.flag("use_regex"):
        return lambda row: name in str(row.get("name", ""))
    try:
        pattern = Pattern(name)
    except PatternError as error:
        raise bad_request(f"name {name!r} is no regular expression: {error}") from None
    return lambda row: pattern.found_in(str(row.get("name", "")))


def _gathered(
    arguments: Arguments,
    rows: Iterable[Snapshot | None],
    columns: Sequence[Sequence[str]],
    wanted: Callable[[Snapshot], bool],
) -> Walk[Reply]:
    chosen, total = [], 0
    for row in rows:
        total += row is not None
        if row is not None and wanted(row):
            chosen.append(row)
        yield None
    sort, reverse = arguments.optional_text("sort"), arguments.flag("sort_reverse")
    if sort:
        path = sort.split(".")
        chosen = yield from in_order(chosen, key=lambda row: _rank(_at(row, path)), reverse=reverse)
    if all(arguments.values[name] is None for name in FOR_PAGES):
        return Reply(200, (_cut(row, columns) for row in chosen))
    return Reply(200, (yield from _page(arguments, chosen, columns, total=total)))


def shown(arguments: Arguments, row: Snapshot) -> Reply:
    """Return the answer with one row, cut to the requested columns."""
    return Reply(200, _cut(row, _paths(arguments)))


def _page(
    arguments: Arguments, rows: Sequence[Snapshot], columns: Sequence[Sequence[str]], *, total: int
) -> Walk[Snapshot]:
    page = arguments.optional_number("page") or 1
    size = arguments.optional_number("page_size") or PAGE_SIZE_DEFAULT
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


def _paths(arguments: Arguments) -> list[list[str]]:
    columns = arguments.optional_text("columns")
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


def kept(rows: Iterable[Snapshot | None], **wanted: object) -> Iterator[Snapshot | None]:
    """Yield the rows with these values, and None for each other row, so that a walk can pause after every row."""
    return (
        row if row is not None and all(row.get(key) == value for key, value in wanted.items()) else None for row in rows
    )
