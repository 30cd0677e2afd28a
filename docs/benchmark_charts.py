"""Pictures of the tables in docs/benchmarks.md: every row of them, with its median and its quartiles.

The tables are the source, so a table that is measured anew has a new picture after ``python -m docs.generate``.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

DOCS = Path(__file__).parent
PAGE = DOCS / "benchmarks.md"
CPU, RATE, SPARK = (DOCS / f"benchmarks-{name}.svg" for name in ("cpu", "rate", "spark"))

WIDTH = 760
LEFT = 250
RIGHT = 30
TOP = 62
ROW = 17
STYLE = (
    ".paper{fill:#fff}text{font:11px system-ui,sans-serif;fill:#333}.title{font-size:14px;font-weight:600}"
    ".grid{stroke:#ddd}.a{fill:#0b63ce;stroke:#0b63ce}.b{fill:#8a8f98;stroke:#8a8f98}.c{fill:#d97706;stroke:#d97706}"
)
COLOURS = ("a", "b", "c")
FIGURE = r"([\d,.]+) \(([\d,.]+)–([\d,.]+)\)"
TABLE_ROW = re.compile(rf"^\| `([\w-]+)` \| {FIGURE} \| {FIGURE} \| [^|]*\| {FIGURE} \| {FIGURE} \|", re.MULTILINE)
SPARK_ROW = re.compile(rf"^\| (alike|unlike) \| (source|sink) \| (\w+) \| {FIGURE} \|", re.MULTILINE)


class Spread(NamedTuple):
    """A median between a low and a high figure."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ChartRow:
    """A line of a picture: one spread for each series."""

    name: str
    spreads: Sequence[Spread]


def cpu() -> str:
    """CPU time of the broker for a message, beside RabbitMQ."""
    rows = [ChartRow(name, (_spread(*own), _spread(*peer))) for name, own, peer, _, _ in _table()]
    return svg("CPU time of the broker for a message, µs; less is better", ("Headgate", "RabbitMQ 4.0.5"), rows)


def rate() -> str:
    """Messages a second, beside RabbitMQ."""
    rows = [ChartRow(name, (_spread(*own), _spread(*peer))) for name, _, _, own, peer in _table()]
    return svg("Messages a second; more is better", ("Headgate", "RabbitMQ 4.0.5"), rows)


def spark() -> str:
    """Rows a second of the connectors for Spark."""
    found: dict[str, dict[str, Spread]] = {}
    for rows, what, where, *figures in SPARK_ROW.findall(PAGE.read_text(encoding="utf-8")):
        found.setdefault(f"{what}, {rows} rows", {})[where] = _spread(*figures)
    series = {"stream": "Headgate, a stream", "kafka": "Kafka 4.1.1, a topic", "queue": "Headgate, a queue"}
    return svg(
        "Rows a second in Spark; more is better",
        tuple(series.values()),
        [ChartRow(name, [spreads[where] for where in series]) for name, spreads in found.items()],
    )


def svg(title: str, series: Sequence[str], rows: Sequence[ChartRow]) -> str:
    """The text of a picture: a line for each row, with a dot at each median and a bar from low to high, over a
    logarithmic axis."""
    ends = [end for row in rows for spread in row.spreads for end in (spread.low, spread.high)]
    ticks = _ticks(min(ends), max(ends))
    low, high = log10(ticks[0]), log10(ticks[-1])
    apart = 9 if len(series) > 2 else 0
    row_height = ROW + apart * len(series) // 2
    height = TOP + row_height * len(rows) + 12

    def x(value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (log10(value) - low) / (high - low), 1)

    def lines() -> Iterator[str]:
        for tick in ticks:
            at = x(tick)
            yield f'<line class="grid" x1="{at}" y1="{TOP - 8}" x2="{at}" y2="{height - 8}"/>'
            yield f'<text x="{at}" y="{TOP - 12}" text-anchor="middle">{tick:,.0f}</text>'
        for number, row in enumerate(rows):
            middle = TOP + row_height * number + row_height // 2
            yield f'<text x="{LEFT - 10}" y="{middle + 4}" text-anchor="end">{escape(row.name)}</text>'
            for place, (colour, name, spread) in enumerate(zip(COLOURS, series, row.spreads, strict=False)):
                y = middle + apart * (place - 1)
                yield f'<line class="{colour}" x1="{x(spread.low)}" y1="{y}" x2="{x(spread.high)}" y2="{y}"/>'
                yield f'<circle class="{colour}" cx="{x(spread.middle)}" cy="{y}" r="4">'
                yield f"<title>{escape(f'{name}: {spread.middle:,g}')}</title></circle>"

    def legend() -> Iterator[str]:
        for number, (colour, name) in enumerate(zip(COLOURS, series, strict=False)):
            at = LEFT + 150 * number
            yield f'<circle class="{colour}" cx="{at}" cy="34" r="4"/><text x="{at + 9}" y="38">{escape(name)}</text>'

    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
            f'<text class="title" x="12" y="18">{escape(title)}</text>',
            *legend(),
            *lines(),
            "</svg>\n",
        ]
    )


def _ticks(low: float, high: float) -> list[float]:
    """Numbers for an axis from at most ``low`` to at least ``high``: powers of ten, or steps between them."""
    first, last = floor(log10(low)), ceil(log10(high))
    if last - first > 2:
        return [10.0**power for power in range(first, last + 1)]
    steps = [step * 10.0**power for power in range(first, last + 1) for step in (1, 2, 5)]
    return [
        step
        for step, before, after in zip(steps, [0.0, *steps], [*steps[1:], high], strict=False)
        if after > low and before < high
    ]


def _table() -> Iterator[tuple[str, list[str], list[str], list[str], list[str]]]:
    """The rows of the block beside RabbitMQ: the load, then CPU and rate of Headgate and of the peer."""
    text = PAGE.read_text(encoding="utf-8")
    block = text.partition("<!-- bench.table RabbitMQ:")[2].partition("<!-- end of bench.table -->")[0]
    for name, *figures in TABLE_ROW.findall(block):
        yield name, figures[0:3], figures[3:6], figures[6:9], figures[9:12]


def _spread(*figures: str) -> Spread:
    return Spread(*(float(figure.replace(",", "")) for figure in figures))
