"""A page of charts in one file, without scripts and other files; dark on white on paper, and light on dark on screens.

A chart shows rates over time, one line each: the colour is the protocol, dashes mark the second queue or direction.
Colour-blind readers can tell the two colours apart, and the legend does not depend on colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from amqp10.load.plan import Protocol
from bench.together.figures import Point, round_up

WIDTH, HEIGHT = 760, 320
LEFT, RIGHT, TOP, BOTTOM = 78, 12, 14, 44
TICKS = 5
_CLASSES: dict[Protocol, str] = {"0.9.1": "older", "1.0": "newer"}
_STYLE = """
:root { color-scheme: light dark;
  --ink: #1a1a1a; --paper: #ffffff; --grid: #d5d5d5; --older: #c44e00; --newer: #0063a8 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --paper: #161616; --grid: #444444; --older: #ff9d4d; --newer: #6cc0ff }
}
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2em auto;
  max-width: 60em; padding: 0 1em }
svg { width: 100%; height: auto } svg text { fill: var(--ink); font-size: 12px }
.grid { stroke: var(--grid) } .axis { stroke: var(--ink) }
.line { fill: none; stroke-width: 2 } .older { stroke: var(--older) } .newer { stroke: var(--newer) }
.dashed { stroke-dasharray: 7 4 }
pre { overflow-x: auto; border: 1px solid var(--grid); padding: 0.7em }
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart."""

    title: str
    protocol: Protocol
    dashed: bool
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Chart:
    """Rates over time of runs under the same conditions, and the table that belongs to them."""

    title: str
    lines: Sequence[Line]
    table: str


def page(title: str, introduction: str, charts: Sequence[Chart]) -> str:
    """Render the whole file."""
    body = "\n".join(
        f"<h2>{escape(chart.title)}</h2>\n{svg(chart)}\n<pre>{escape(chart.table)}</pre>" for chart in charts
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n<p>{escape(introduction)}</p>\n"
        f"{body}\n</body>\n</html>\n"
    )


def svg(chart: Chart) -> str:
    """Render the picture: a grid with numbers, the lines, and the legend below."""
    points = [point for line in chart.lines for point in line.points]
    time_end = round_up(max((seconds for seconds, _ in points), default=1.0))
    rate_end = round_up(max((rate for _, rate in points), default=1.0))
    height = HEIGHT + 20 * len(chart.lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(chart.title)}: messages per second over time</title>",
        *_grid(time_end, rate_end),
        *(_curve(line, time_end, rate_end) for line in chart.lines),
        *_legend(chart.lines),
        "</svg>",
    ]
    return "\n".join(parts)


def _x(seconds: float, time_end: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * seconds / time_end, 1)


def _y(rate: float, rate_end: float) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * rate / rate_end, 1)


def _grid(time_end: float, rate_end: float) -> Iterator[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for step in range(TICKS + 1):
        seconds, rate = time_end * step / TICKS, rate_end * step / TICKS
        x, y = _x(seconds, time_end), _y(rate, rate_end)
        style = "grid" if step else "axis"
        yield f'<line class="{style}" x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}"/>'
        yield f'<line class="{style}" x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}"/>'
        yield f'<text x="{x}" y="{bottom + 16}" text-anchor="middle">{seconds:g}</text>'
        yield f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{rate:,.0f}</text>'
    yield f'<text x="{right}" y="{bottom + 34}" text-anchor="end">seconds</text>'
    turned = f'x="14" y="{(TOP + bottom) / 2}" transform="rotate(-90 14 {(TOP + bottom) / 2})" text-anchor="middle"'
    yield f"<text {turned}>messages per second</text>"


def _style(line: Line) -> str:
    return f"line {_CLASSES[line.protocol]}" + (" dashed" if line.dashed else "")


def _curve(line: Line, time_end: float, rate_end: float) -> str:
    points = " ".join(f"{_x(seconds, time_end)},{_y(rate, rate_end)}" for seconds, rate in line.points)
    return f'<polyline class="{_style(line)}" points="{points}"><title>{escape(line.title)}</title></polyline>'


def _legend(lines: Sequence[Line]) -> Iterator[str]:
    for number, line in enumerate(lines):
        y = HEIGHT + 20 * number
        yield f'<line class="{_style(line)}" x1="{LEFT}" y1="{y}" x2="{LEFT + 44}" y2="{y}"/>'
        yield f'<text x="{LEFT + 54}" y="{y + 4}">{escape(line.title)}</text>'
