"""The data of the page, read from the tables: small, whatever the size of the tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.jobs.contents import READS_MAX, Contents, place_of, read_contents, read_table
from pipeline.report.charts import STRIPS_MAX, Value

Row = dict[str, object]
POINTS_MAX = 400
"""Values of one strip: half of a chart's width in pixels."""
VERDICTS_MAX = 200
"""Rows of the table of verdicts; those with a bottleneck come first."""
BENCH_MAX = 60
CULPRITS_MAX = 20
WEEK_DAYS = 7
DAY_SECONDS = 86_400
MICROSECONDS = 1_000_000


class NoTables(Exception):
    """The folder is no warehouse, or has nothing of these days. The text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFigures:
    """A link, and its values over the seconds since 1970."""

    link: str
    connection: str
    protocol: str
    direction: str
    address: str
    container_id: str
    messages: int
    granted: int
    """Messages for which it was granted link credit."""
    seconds: float
    """For how long it was there."""
    rates: Sequence[Value] = field(repr=False)
    link_credits: Sequence[Value] = field(repr=False)
    held_up: Sequence[tuple[float, float]] = field(default=(), repr=False)
    """Seconds and the parts of them in which it, or its 0.9.1 connection's reader, was held up."""

    @property
    def name(self) -> str:
        """The link, its client and its address."""
        who = f"{self.link} of {self.container_id}" if self.container_id else self.link
        return f"{who} {'to' if self.direction == 'in' else 'from'} {self.address}" if self.address else who

    @property
    def rate(self) -> float:
        """Messages per second, on average."""
        return self.messages / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All data of the page."""

    days: Sequence[str]
    """The days that the page is about, but for :attr:`weeks`."""
    begin: float
    """The first second of the charts, since 1970."""
    end: float
    counts: Sequence[Row]
    verdicts: Sequence[Row]
    verdicts_left_out: int
    links: Sequence[LinkFigures]
    blocked: Sequence[Row]
    """Microseconds by reason and culprit."""
    culprits: Sequence[Row]
    """Microseconds by user and address."""
    windows: Sequence[Row]
    """``begin`` and ``end`` in seconds since 1970."""
    capacity: Sequence[Row]
    waits: Sequence[Row]
    weeks: Sequence[Row]
    """Messages and blocked time of each of the last seven days, and of the same day of the week before."""
    bench: Sequence[Row]


class _Tables:
    """The tables as of one version."""

    def __init__(self, warehouse: str, first_day: str | None, last_day: str | None) -> None:
        self.warehouse = warehouse
        self.fs, self.root = place_of(warehouse)
        contents = read_contents(self.fs, self.root)
        if contents is None or not contents.days:
            raise NoTables(
                f"{warehouse} has no tables; make the tables with: python -m pipeline run --warehouse {warehouse}"
            )
        self.contents: Contents = contents
        last = last_day or max(contents.days)
        first = first_day or last
        self.days = [day for day in sorted(contents.days) if first <= day <= last]
        if not self.days:
            raise NoTables(
                f"{warehouse} has nothing of {first} to {last}; it has {min(contents.days)} to {max(contents.days)}"
            )

    def table(
        self,
        name: str,
        days: Sequence[str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        chosen: pc.Expression | None = None,
    ) -> pa.Table | None:
        wanted = self.days if days is None else days
        return read_table(self.fs, self.root, self.contents, name, wanted, columns=columns, chosen=chosen)

    def rows(self, name: str) -> list[Row]:
        found = self.table(name)
        rows: list[Row] = [] if found is None else found.to_pylist()
        return rows


def read_figures(warehouse: str, *, first_day: str | None = None, last_day: str | None = None) -> Figures:
    """Read the figures of some days from the tables, without bounds those of the newest day. Raises NoTables."""
    for attempt in range(READS_MAX):
        try:
            return _read(_Tables(warehouse, first_day, last_day))
        except FileNotFoundError:  # a run has replaced them meanwhile
            if attempt == READS_MAX - 1:
                raise
    raise AssertionError


def _read(tables: _Tables) -> Figures:
    verdicts = sorted(tables.rows("bottlenecks"), key=_order)
    links = tables.rows("links")
    begin = min((_int(row["first_second"]) for row in links), default=0)
    return Figures(
        days=tables.days,
        begin=begin,
        end=max((_int(row["last_second"]) for row in links), default=0) + 1,
        counts=sorted(tables.rows("event_counts"), key=lambda row: -_int(row["records"])),
        verdicts=verdicts[:VERDICTS_MAX],
        verdicts_left_out=max(len(verdicts) - VERDICTS_MAX, 0),
        links=_links(tables, links),
        blocked=_blocked(tables, ["direction", "reason", "culprit"]),
        culprits=_blocked(tables, ["user", "address", "culprit"])[:CULPRITS_MAX],
        windows=_windows(tables),
        capacity=sorted(
            tables.rows("capacity"), key=lambda row: (str(row["day"]), str(row["subject"]), _float(row["rate_from"]))
        ),
        waits=tables.rows("waits"),
        weeks=_weeks(tables),
        bench=_bench(tables),
    )


def _int(value: object) -> int:
    return int(str(value))


def _float(value: object) -> float:
    return float(str(value))


def _order(row: Row) -> tuple[bool, float, str, str]:
    return (row["bottleneck"] is None, -_float(row["share"]), str(row["day"]), str(row["connection"]))


def _links(tables: _Tables, links: Sequence[Row]) -> list[LinkFigures]:
    """The links that moved the most messages, of both protocols."""
    columns = ["day", "node", "connection", "link", "direction"]
    timeline = tables.table("link_timeline", columns=[*columns, "transfers", "granted"])
    if timeline is None:
        return []
    known = {tuple(row[name] for name in columns): row for row in links}
    totals = (
        timeline.group_by(columns)
        .aggregate([("transfers", "sum"), ("granted", "sum")])
        .sort_by([("transfers_sum", "descending"), ("day", "ascending"), ("link", "ascending")])
        .to_pylist()
    )
    readers = _reader_seconds(tables)
    found, taken = [], {"amqp-1.0": 0, "amqp-0-9-1": 0}
    for row in totals:
        link = known.get(tuple(row[name] for name in columns))
        protocol = "" if link is None else str(link["protocol"])
        if link is None or not row["transfers_sum"] or taken.get(protocol, STRIPS_MAX) >= STRIPS_MAX // 2:
            continue
        taken[protocol] += 1
        place = (link["day"], link["node"], link["connection"])
        found.append(_link(tables, link, row, readers.get(place, {})))
    return found


def _reader_seconds(tables: _Tables) -> dict[tuple[object, ...], dict[int, float]]:
    """For each 0.9.1 connection the seconds in which its reader was in flow, and the parts of them."""
    found: dict[tuple[object, ...], dict[int, float]] = {}
    table = tables.table("bottleneck_seconds", columns=["day", "node", "connection", "second", "reader_us"])
    for row in [] if table is None else table.to_pylist():
        own = found.setdefault((row["day"], row["node"], row["connection"]), {})
        own[row["second"]] = min(row["reader_us"] / MICROSECONDS, 1.0)
    return found


def _link(tables: _Tables, link: Row, total: Row, reader: dict[int, float]) -> LinkFigures:
    chosen = pc.field("link") == link["link"]
    for name in ("node", "connection", "direction"):
        chosen &= pc.field(name) == link[name]
    columns = ["second", "transfers", "link_credit_min", "link_credit_max", "blocked_us"]
    table = tables.table("link_timeline", [str(link["day"])], columns=columns, chosen=chosen)
    rows = [] if table is None else table.sort_by("second").to_pylist()
    older = link["protocol"] == "amqp-0-9-1"
    held_up = (
        reader if older else {row["second"]: row["blocked_us"] / MICROSECONDS for row in rows if row["blocked_us"]}
    )
    span = (_int(link["last_us"]) - _int(link["first_us"])) / MICROSECONDS
    return LinkFigures(
        link=str(link["link"]),
        connection=str(link["connection"]),
        protocol=str(link["protocol"]),
        direction=str(link["direction"]),
        address=str(link["address"] or ""),
        container_id=str(link["container_id"] or ""),
        messages=_int(total["transfers_sum"]),
        granted=_int(total["granted_sum"] or 0),
        seconds=span,
        rates=_thinned([_rate(row, link) for row in rows]),
        link_credits=_thinned(
            [
                Value(row["second"], row["link_credit_min"], row["link_credit_max"])
                for row in rows
                if row["link_credit_min"] is not None
            ]
        ),
        held_up=sorted(held_up.items()),
    )


def _rate(row: Row, link: Row) -> Value:
    """Messages per second in a second, of which a link's first and last one may be a part only."""
    second = _int(row["second"])
    inside = min(_int(link["last_us"]), (second + 1) * MICROSECONDS) - max(
        _int(link["first_us"]), second * MICROSECONDS
    )
    part = inside / MICROSECONDS
    rate = _int(row["transfers"]) / part if part >= 0.1 else float(_int(row["transfers"]))
    return Value(second, 0.0, rate)


def _thinned(values: Sequence[Value]) -> list[Value]:
    """The bounds of as many seconds as are needed to make a strip short enough."""
    step = -(-len(values) // POINTS_MAX) or 1
    groups = [values[at : at + step] for at in range(0, len(values), step)]
    return [Value(group[0].second, min(one.low for one in group), max(one.high for one in group)) for group in groups]


def _blocked(tables: _Tables, names: Sequence[str]) -> list[Row]:
    """Blocked time by some columns of ``blocked_shares``, the longest first."""
    table = tables.table("blocked_shares", columns=[*names, "blocked_us", "intervals"])
    if table is None:
        return []
    found: list[Row] = (
        table.group_by([*names])
        .aggregate([("blocked_us", "sum"), ("intervals", "sum")])
        .sort_by([("blocked_us_sum", "descending")])
        .to_pylist()
    )
    return found


def _windows(tables: _Tables) -> list[Row]:
    found: list[Row] = []
    for row in tables.rows("closed_windows"):
        since, until = row["since"], row["until"] or row["since"]
        seconds = (since.timestamp(), until.timestamp())  # type: ignore[attr-defined]
        found.append(row | {"begin": seconds[0], "end": seconds[1]})
    return found


def _weeks(tables: _Tables) -> list[Row]:
    """The last seven days, each beside the same day of the week before."""
    last = date.fromisoformat(tables.days[-1])
    days = [(last - timedelta(days=back)).isoformat() for back in reversed(range(2 * WEEK_DAYS))]
    messages = _sums(tables, days, "link_seconds", "transfers")
    blocked = _sums(tables, days, "blocked_shares", "blocked_us")
    verdicts = _sums(tables, days, "bottlenecks", None)
    found: list[Row] = []
    for day, before in zip(days[WEEK_DAYS:], days[:WEEK_DAYS], strict=True):
        if day not in tables.contents.days and before not in tables.contents.days:
            continue
        found.append({
            "day": day, "before": before, "messages": messages.get(day), "messages_before": messages.get(before),
            "blocked_us": blocked.get(day), "blocked_us_before": blocked.get(before),
            "bottlenecks": verdicts.get(day), "bottlenecks_before": verdicts.get(before),
        })  # fmt: skip
    return found


def _sums(tables: _Tables, days: Sequence[str], name: str, column: str | None) -> dict[str, int]:
    """By day the sum of a column, or without one the number of bottlenecks; only of days that were made."""
    made = [day for day in days if day in tables.contents.days]
    table = tables.table(name, made, columns=["day", column or "bottleneck"])
    found = dict.fromkeys(made, 0)
    if table is not None:
        kind = "sum" if column else "count"
        for row in table.group_by("day").aggregate([(column or "bottleneck", kind)]).to_pylist():
            found[row["day"]] = row[f"{column or 'bottleneck'}_{kind}"] or 0
    return found


def _bench(tables: _Tables) -> list[Row]:
    """The benchmark comparisons, largest changes first; empty when no result files were read."""
    rows = [row for row in tables.rows("bench_compared") if row["ratio"] is not None and not row["overlap"]]
    return sorted(rows, key=lambda row: -abs(_float(row["ratio"]) - 1))[:BENCH_MAX]
