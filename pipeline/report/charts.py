"""Charts as SVG, without scripts or other files, for paper and for dark screens.

Names of links and queues come from clients and may hold any characters: every text is escaped here and in ``page``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

Point = tuple[float, float]

WIDTH, HEIGHT = 760, 300
LEFT, RIGHT, TOP, BOTTOM = 78, 12, 14, 44
TICKS = 5
ROW = 22
"""Height of a bar, and of a line of a legend, in pixels."""
LABELS = 300
"""Width of the names of bars, in pixels."""
SERIES_MAX = 8
"""Lines of one chart: more could not be told apart."""
AXIS_STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart. ``older`` ones, AMQP 0.9.1's, are dashed."""

    title: str
    points: Sequence[Point]
    older: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A period of time, drawn as a band behind the lines."""

    title: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its name, its length, and the text behind it."""

    title: str
    value: float
    words: str


def round_up(value: float) -> float:
    """The end of an axis: the next number that divides well by five."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next((step * power for step in AXIS_STEPS if step * power >= value * 0.999), 10 * power)


def lines_chart(title: str, unit: str, lines: Sequence[Line], spans: Sequence[Span] = ()) -> str:
    """Values over seconds, with a legend below."""
    shown = lines[:SERIES_MAX]
    points = [point for line in shown for point in line.points]
    time_end = round_up(max([x for x, _ in points] + [span.end for span in spans], default=1.0))
    value_end = round_up(max((y for _, y in points), default=1.0))
    height = HEIGHT + ROW * (len(shown) + bool(spans))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        *_spans(spans, time_end),
        *_grid(time_end, value_end, unit),
        *(_curve(number, line, time_end, value_end) for number, line in enumerate(shown)),
        *_legend(shown, spans),
        "</svg>",
    ]
    return "\n".join(parts)


def bars_chart(title: str, bars: Sequence[Bar]) -> str:
    """Bars of one kind, each with its name before it and its text behind it."""
    end = max((bar.value for bar in bars), default=0.0) or 1.0
    room = WIDTH - LABELS - 150
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {ROW * len(bars) + 10}" role="img">',
        f"<title>{escape(title)}</title>",
    ]
    for number, bar in enumerate(bars):
        y, width = 5 + ROW * number, round(room * bar.value / end, 1)
        parts += [
            f'<text x="{LABELS - 8}" y="{y + 15}" text-anchor="end">{escape(bar.title)}</text>',
            f'<rect class="bar" x="{LABELS}" y="{y + 2}" width="{width}" height="{ROW - 5}"/>',
            f'<text x="{LABELS + width + 6}" y="{y + 15}">{escape(bar.words)}</text>',
        ]
    return "\n".join([*parts, "</svg>"])


def _x(seconds: float, time_end: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * seconds / time_end, 1)


def _y(value: float, value_end: float) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / value_end, 1)


def _grid(time_end: float, value_end: float, unit: str) -> Iterator[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for step in range(TICKS + 1):
        seconds, value = time_end * step / TICKS, value_end * step / TICKS
        x, y = _x(seconds, time_end), _y(value, value_end)
        style = "grid" if step else "axis"
        yield f'<line class="{style}" x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}"/>'
        yield f'<line class="{style}" x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}"/>'
        yield f'<text x="{x}" y="{bottom + 16}" text-anchor="middle">{seconds:g}</text>'
        yield f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{value:,.10g}</text>'
    yield f'<text x="{right}" y="{bottom + 34}" text-anchor="end">seconds</text>'
    turned = f'x="14" y="{(TOP + bottom) / 2}" transform="rotate(-90 14 {(TOP + bottom) / 2})" text-anchor="middle"'
    yield f"<text {turned}>{escape(unit)}</text>"


def _style(number: int, line: Line) -> str:
    return f"line series{number}" + (" dashed" if line.older else "")


def _curve(number: int, line: Line, time_end: float, value_end: float) -> str:
    points = " ".join(f"{_x(x, time_end)},{_y(y, value_end)}" for x, y in line.points)
    return f'<polyline class="{_style(number, line)}" points="{points}"><title>{escape(line.title)}</title></polyline>'


def _spans(spans: Sequence[Span], time_end: float) -> Iterator[str]:
    for span in spans:
        x, end = _x(span.begin, time_end), _x(span.end, time_end)
        yield (
            f'<rect class="span" x="{x}" y="{TOP}" width="{max(end - x, 1):.1f}" height="{HEIGHT - TOP - BOTTOM}">'
            f"<title>{escape(span.title)}</title></rect>"
        )


def _legend(lines: Sequence[Line], spans: Sequence[Span]) -> Iterator[str]:
    for number, line in enumerate(lines):
        y = HEIGHT + ROW * number
        yield f'<line class="{_style(number, line)}" x1="{LEFT}" y1="{y}" x2="{LEFT + 44}" y2="{y}"/>'
        yield f'<text x="{LEFT + 54}" y="{y + 4}">{escape(line.title)}</text>'
    if spans:
        y = HEIGHT + ROW * len(lines)
        yield f'<rect class="span" x="{LEFT}" y="{y - 8}" width="44" height="14"/>'
        yield f'<text x="{LEFT + 54}" y="{y + 4}">an incoming-window was closed</text>'
