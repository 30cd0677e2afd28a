"""The last minute in the answers of ``why``, and those that waited most in it.

A ``last_minute`` is a map of ``over_seconds``, how long the last minute was; ``seconds`` and ``share``, for how long
and for which share of it the subject has waited; and ``by_reason``, a list of ``reason``, ``culprit``, ``seconds`` and
``share``, the longest first. For a connection or a queue, these are sums over its links and readers that have waited;
``links`` is how many these are, and the shares are those of all their time together.
"""

from collections.abc import Iterable, Sequence

from core.interface import Snapshot
from core.observe.stalls import waiting_shares
from core.observe.why_chain import nothing
from core.observe.why_ends import has_reader, link_answer, reader_answer
from core.observe.why_root import NEEDED, root_of
from core.observe.why_rows import Rows, count, figures, text, texts
from core.row_walks import RowSource
from core.slices import Walk, gathered, in_order

FIELDS = ("over_seconds", "seconds", "share", "by_reason")


def minute_of(rows: Rows, kind: str, identity: str) -> Walk[Snapshot | None]:
    """Return the last minute of a link, a connection or a queue; None if it has not waited."""
    if kind == "links":
        return _fields((yield from rows.find("last_minute", identity)))
    if kind == "connections":
        waited = yield from gathered(rows.source.rows("last_minute"))
        return _sum([row for row in waited if row.get("connection") == identity])
    ends: set[str | None] = {text(link, "identity") for link in rows.of("links", "queue", identity)}
    ends |= {text(one, "connection") for one in rows.all("channels") if identity in texts(one, "publishes_to")}
    ends.discard(None)
    waited = yield from gathered(rows.source.rows("last_minute"))
    return _sum([row for row in waited if text(row, "identity") in ends])


def _fields(row: Snapshot) -> Snapshot | None:
    return figures(row, *FIELDS) if row else None


def _sum(waited: Sequence[Snapshot]) -> Snapshot | None:
    if not waited:
        return None
    if len(waited) == 1:
        return figures(waited[0], *FIELDS) | {"links": 1}
    seconds: dict[tuple[str, str], float] = {}
    for row in waited:
        for one in _reasons(row):
            key = (str(one.get("reason")), str(one.get("culprit")))
            seconds[key] = seconds.get(key, 0.0) + count(one, "seconds")
    over = max(count(row, "over_seconds") for row in waited)
    shares = waiting_shares(over * len(waited), [(*key, value) for key, value in seconds.items()])
    return shares | {"over_seconds": over, "links": len(waited)}


def _reasons(row: Snapshot) -> Iterable[Snapshot]:
    found = row.get("by_reason")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def worst_waits(source: RowSource, limit: int) -> Walk[Snapshot]:
    """Return the links and readers that have waited most in the last minute: ``over_seconds``, how many have waited
    (``waited``) and wait now (``waiting``), and ``items``. Each item has who it is, what holds it up now as ``why``
    answers, ``root`` and ``last_minute``; ``present`` is false for one that is gone."""
    rows = Rows(source)
    yield from rows.gather(*NEEDED)
    waited = yield from gathered(source.rows("last_minute"))
    items: list[Snapshot] = []
    ranked = yield from in_order(waited, key=_rank, reverse=True)
    for row in ranked[:limit]:
        item = yield from _item(rows, row)
        items += [item]
    return {
        "over_seconds": max((count(row, "over_seconds") for row in waited), default=0.0),
        "waited": len(waited),
        "waiting": len(rows.all("stalls")),
        "items": items,
    }


def _rank(row: Snapshot) -> tuple[float, bool, str]:
    """Longer waits first; of equal ones those of publishers, since a consumer may mean to wait."""
    return round(count(row, "seconds")), row.get("direction") == "in", str(row.get("identity"))


def _item(rows: Rows, row: Snapshot) -> Walk[Snapshot]:
    identity = text(row, "identity")
    link = rows.one("links", identity)
    connection = {} if link else rows.one("connections", identity)
    answer = nothing(f"{identity} is gone.")
    if link:
        answer = link_answer(rows, link)
    elif connection and has_reader(connection):
        yield from rows.gather("channels", within=identity)
        answer = reader_answer(rows, connection)
    root = yield from root_of(rows, answer, link)
    who = figures(row, "identity", "connection", "peer", "container_id", "user", "vhost", "address", "direction")
    now = {key: answer[key] for key in ("waits", "reason", "culprit", "since", "seconds", "sentence", "advice")}
    return {**who, "present": bool(link or connection), **now, "root": root, "last_minute": _fields(row)}
