"""Rates over time as a picture: an SVG file without scripts, readable on paper white and on screen black.

Tutorial 7 draws with it. The colour of a line is for its pair, and dashes tell the pair's two lines apart. The legend
names both in words. The colours are two that colour-blind readers tell apart.
"""

from collections.abc import Iterator, Sequence
from html import escape
from math import floor, log10
from typing import NamedTuple

WIDTH, HEIGHT = 760, 300
"""The size of the picture without its legend, in the units of its coordinates."""
LEFT, RIGHT, TOP, BOTTOM = 70, 14, 26, 44
TIME_TICKS, RATE_TICKS = 6, 5
LEGEND_LINE = 20
STYLE = """
svg { --ink: #1a1a1a; --paper: #ffffff; --grid: #d5d5d5; --band: #f1ede4; --first: #0063a8; --second: #c44e00 }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e8e8e8; --paper: #161616; --grid: #444444; --band: #2b2721; --first: #6cc0ff; --second: #ff9d4d }
}
text { fill: var(--ink); font: 12px system-ui, sans-serif }
.paper { fill: var(--paper) } .band { fill: var(--band) } .grid { stroke: var(--grid) } .axis { stroke: var(--ink) }
.line { fill: none; stroke-width: 2 } .first { stroke: var(--first) } .second { stroke: var(--second) }
.dashed { stroke-dasharray: 7 4 }
"""


class Line(NamedTuple):
    """One line: (seconds, messages per second) at each point."""

    title: str
    style: str
    """The style: `first` or `second`, and `dashed` behind it."""
    points: Sequence[tuple[float, float]]


class Band(NamedTuple):
    """A named part of the time, in seconds."""

    title: str
    begin: float
    end: float


def svg(title: str, lines: Sequence[Line], band: Band) -> str:
    """The text of the picture: the band, a grid with numbers, the lines, the legend below."""
    seconds = round_up(max(at for line in lines for at, _ in line.points))
    rate = round_up(max(1.0, *(rate for line in lines for _, rate in line.points)))
    height = HEIGHT + LEGEND_LINE * len(lines)
    begin, end = _x(band.begin, seconds), _x(band.end, seconds)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        f'<rect class="band" x="{begin}" y="{TOP}" width="{end - begin:.1f}" height="{HEIGHT - TOP - BOTTOM}"/>',
        f'<text x="{(begin + end) / 2:.1f}" y="{TOP - 8}" text-anchor="middle">{escape(band.title)}</text>',
        *_grid(seconds, rate),
        *(_curve(line, seconds, rate) for line in lines),
        *_legend(lines),
        "</svg>\n",
    ]
    return "\n".join(parts)


def round_up(value: float) -> float:
    """The end of an axis: 1, 1.5, 2, 3, 4, 5, 6 or 8 times a power of ten. It may be 1 % too small."""
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value * 0.99)


def _x(at: float, seconds: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * at / seconds, 1)


def _y(rate: float, rate_end: float) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * rate / rate_end, 1)


def _grid(seconds: float, rate_end: float) -> Iterator[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for step in range(TIME_TICKS + 1):
        at = seconds * step / TIME_TICKS
        x, style = _x(at, seconds), "grid" if step else "axis"
        yield f'<line class="{style}" x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}"/>'
        yield f'<text x="{x}" y="{bottom + 16}" text-anchor="middle">{at:g}</text>'
    for step in range(RATE_TICKS + 1):
        rate = rate_end * step / RATE_TICKS
        y, style = _y(rate, rate_end), "grid" if step else "axis"
        yield f'<line class="{style}" x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{rate:,.0f}</text>'
    yield f'<text x="{right}" y="{bottom + 34}" text-anchor="end">seconds</text>'
    yield f'<text x="{LEFT}" y="{TOP - 8}">messages per second</text>'


def _curve(line: Line, seconds: float, rate_end: float) -> str:
    points = " ".join(f"{_x(at, seconds)},{_y(rate, rate_end)}" for at, rate in line.points)
    return f'<polyline class="line {line.style}" points="{points}"><title>{escape(line.title)}</title></polyline>'


def _legend(lines: Sequence[Line]) -> Iterator[str]:
    for number, line in enumerate(lines):
        y = HEIGHT + LEGEND_LINE * number
        yield f'<line class="line {line.style}" x1="{LEFT}" y1="{y}" x2="{LEFT + 44}" y2="{y}"/>'
        yield f'<text x="{LEFT + 54}" y="{y + 4}">{escape(line.title)}</text>'
