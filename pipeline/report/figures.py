"""The data of the page, read from the tables: small, whatever the size of the tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from pipeline.report.charts import SERIES_MAX, Point

Row = dict[str, object]
POINTS_MAX = 400
"""Points of one line: half of a chart's width in pixels."""
VERDICTS_MAX = 200
"""Rows of the table of verdicts; those with a bottleneck come first."""
BENCH_MAX = 60


class NoTables(Exception):
    """The folder is no warehouse. The text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFigures:
    """A link, and its values over the seconds since the first second of all links."""

    link: str
    connection: str
    protocol: str
    direction: str
    address: str
    messages: int
    seconds: int
    blocked_share: float
    rates: Sequence[Point] = field(repr=False)
    link_credits: Sequence[Point] = field(repr=False)

    @property
    def name(self) -> str:
        """The link and its address."""
        return f"{self.link} {'to' if self.direction == 'in' else 'from'} {self.address}" if self.address else self.link

    @property
    def rate(self) -> float:
        """Messages per second, on average."""
        return self.messages / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All data of the page."""

    counts: Sequence[Row]
    verdicts: Sequence[Row]
    verdicts_left_out: int
    links: Sequence[LinkFigures]
    blocked: Sequence[Row]
    """Microseconds by reason and culprit."""
    windows: Sequence[Row]
    """``begin`` and ``end`` in seconds since the first second."""
    capacity: Sequence[Row]
    waits: Sequence[Row]
    bench: Sequence[Row]


def read_figures(warehouse: str) -> Figures:
    """Read the figures from the tables. Raises NoTables."""
    verdicts = sorted(_rows(warehouse, "bottlenecks"), key=_order)
    timeline = _dataset(warehouse, "link_timeline")
    begin = _first_second(timeline)
    return Figures(
        counts=sorted(_rows(warehouse, "event_counts"), key=lambda row: -int(str(row["records"]))),
        verdicts=verdicts[:VERDICTS_MAX],
        verdicts_left_out=max(len(verdicts) - VERDICTS_MAX, 0),
        links=_links(warehouse, timeline, begin),
        blocked=_blocked(warehouse),
        windows=_windows(warehouse, begin),
        capacity=sorted(_rows(warehouse, "capacity"), key=lambda row: (str(row["subject"]), row["rate_from"])),
        waits=_rows(warehouse, "waits"),
        bench=_bench(warehouse),
    )


def _order(row: Row) -> tuple[bool, float, str]:
    return (row["bottleneck"] is None, -float(str(row["share"])), str(row["connection"]))


def _dataset(warehouse: str, table: str) -> ds.Dataset:
    try:
        found = ds.dataset(f"{warehouse.rstrip('/')}/{table}", format="parquet")
    except (OSError, pa.ArrowInvalid):
        raise NoTables(
            f"{warehouse} has no table {table}; make the tables with: python -m pipeline run --warehouse {warehouse}"
        ) from None
    if not found.schema.names:
        raise NoTables(f"the table {table} in {warehouse} is empty; make the tables again with: python -m pipeline run")
    return found


def _rows(warehouse: str, table: str) -> list[Row]:
    rows: list[Row] = _dataset(warehouse, table).to_table().to_pylist()
    return rows


def _first_second(timeline: ds.Dataset) -> int:
    seconds = timeline.to_table(columns=["second"])["second"]
    return int(pc.min(seconds).as_py() or 0)


def _links(warehouse: str, timeline: ds.Dataset, begin: int) -> list[LinkFigures]:
    """The links that moved the most messages, of both protocols."""
    known = {(row["node"], row["link"], row["direction"]): row for row in _rows(warehouse, "links")}
    totals = (
        timeline.to_table(columns=["node", "link", "direction", "transfers", "second", "blocked_us"])
        .group_by(["node", "link", "direction"])
        .aggregate([("transfers", "sum"), ("blocked_us", "sum"), ("second", "count")])
        .sort_by([("transfers_sum", "descending")])
        .to_pylist()
    )
    found, taken = [], {"amqp-1.0": 0, "amqp-0-9-1": 0}
    for row in totals:
        link = known.get((row["node"], row["link"], row["direction"]))
        protocol = "" if link is None else str(link["protocol"])
        if link is None or not row["transfers_sum"] or taken.get(protocol, SERIES_MAX) >= SERIES_MAX // 2:
            continue
        taken[protocol] += 1
        found.append(_link(timeline, link, row, begin))
    return found


def _link(timeline: ds.Dataset, link: Row, total: Row, begin: int) -> LinkFigures:
    chosen = (pc.field("link") == link["link"]) & (pc.field("direction") == link["direction"])
    columns = ["second", "transfers", "link_credit_min"]
    seconds = timeline.to_table(columns=columns, filter=chosen & (pc.field("node") == link["node"]))
    rows = seconds.sort_by("second").to_pylist()
    span = int(str(link["last_second"])) - int(str(link["first_second"])) + 1
    return LinkFigures(
        link=str(link["link"]),
        connection=str(link["connection"]),
        protocol=str(link["protocol"]),
        direction=str(link["direction"]),
        address=str(link["address"] or ""),
        messages=int(str(total["transfers_sum"])),
        seconds=span,
        blocked_share=float(str(total["blocked_us_sum"])) / 1e6 / span,
        rates=_thinned([(row["second"] - begin, row["transfers"]) for row in rows]),
        link_credits=_thinned(
            [(row["second"] - begin, row["link_credit_min"]) for row in rows if row["link_credit_min"] is not None]
        ),
    )


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Means over as many seconds as are needed to make the line short enough."""
    step = -(-len(points) // POINTS_MAX) or 1
    groups = [points[at : at + step] for at in range(0, len(points), step)]
    return [(group[0][0], sum(value for _, value in group) / len(group)) for group in groups]


def _blocked(warehouse: str) -> list[Row]:
    found: list[Row] = (
        _dataset(warehouse, "blocked_shares")
        .to_table(columns=["reason", "culprit", "direction", "blocked_us", "intervals"])
        .group_by(["direction", "reason", "culprit"])
        .aggregate([("blocked_us", "sum"), ("intervals", "sum")])
        .sort_by([("blocked_us_sum", "descending")])
        .to_pylist()
    )
    return found


def _windows(warehouse: str, begin: int) -> list[Row]:
    found: list[Row] = []
    for row in _rows(warehouse, "closed_windows"):
        since, until = row["since"], row["until"] or row["since"]
        seconds = (since.timestamp() - begin, until.timestamp() - begin)  # type: ignore[attr-defined]
        found.append(row | {"begin": max(seconds[0], 0.0), "end": max(seconds[1], 0.0)})
    return found


def _bench(warehouse: str) -> list[Row]:
    """The benchmark comparisons, largest changes first; empty when no result files were read."""
    if not Path(warehouse, "bench_compared").exists():
        return []
    rows = [row for row in _rows(warehouse, "bench_compared") if row["ratio"] is not None and not row["overlap"]]
    return sorted(rows, key=lambda row: -abs(float(str(row["ratio"])) - 1))[:BENCH_MAX]
