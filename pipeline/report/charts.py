"""Charts as SVG, without scripts or other files, for paper and for dark screens.

Names of links and queues come from clients and may hold any characters: every text is escaped here and in ``page``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from math import floor, log10

WIDTH = 760
LEFT, RIGHT, TOP = 78, 12, 8
STRIP = 62
"""Height of the drawing of a strip, in pixels."""
GAP = 12
"""Room below a strip, in pixels."""
TEXT = 16
"""Height of a line of text, in pixels."""
TICKS = 5
ROW = 18
"""Height of a bar, in pixels."""
WORDS = 150
"""Width of the text behind a bar, in pixels."""
LETTERS = 108
"""Letters of a line of text that fit into a chart's width."""
STRIPS_MAX = 8
"""Strips of one chart: more do not fit on a page."""
AXIS_STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Value:
    """What a strip shows at a time: from ``low`` to ``high``."""

    second: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Strip:
    """One link: its name, its values over time, and when it was held up, by seconds, as parts of them."""

    title: str
    values: Sequence[Value]
    held_up: Sequence[tuple[float, float]] = ()
    older: bool = False


@dataclass(frozen=True, slots=True)
class ChartSpan:
    """A period of time, drawn as a band behind the values."""

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
    """The end of an axis: the next number that divides well."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next((step * power for step in AXIS_STEPS if step * power >= value * 0.999), 10 * power)


def clock(second: float, *, of: float) -> str:
    """A time in UTC, as exact as a chart of so many seconds can show."""
    at = datetime.fromtimestamp(second, UTC)
    return f"{at:%m-%d %H:%M}" if of > DAY_SECONDS else f"{at:%H:%M}" if of > DAY_SECONDS / 8 else f"{at:%H:%M:%S}"


def strips_chart(title: str, strips: Sequence[Strip], begin: float, end: float, spans: Sequence[ChartSpan] = ()) -> str:
    """A strip below the other for each link, over the same time; each has an axis of its own, named at its end.

    Lines above each other in one picture would hide each other where links move alike.
    """
    shown = strips[:STRIPS_MAX]
    length = max(end - begin, 1.0)
    parts: list[str] = []
    y = TOP
    for number, strip in enumerate(shown):
        lines = wrapped(strip.title)
        for line in lines:
            y += TEXT
            parts.append(f'<text class="name" x="{LEFT}" y="{y - 4}">{escape(line)}</text>')
        parts += [*_spans(spans, begin, length, y), *_strip(number, strip, begin, length, y)]
        y += STRIP + GAP
    parts += _clock_axis(begin, length, y)
    y += TEXT + 4
    if any(strip.held_up for strip in shown):
        parts += _key("held", "held up", LEFT, y)
    if spans:
        parts += _key("span", "an incoming-window was closed", LEFT + 200, y)
    height = y + TEXT + 4
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    return "\n".join([opening, f"<title>{escape(title)}</title>", *parts, "</svg>"])


def bars_chart(title: str, bars: Sequence[Bar]) -> str:
    """Bars of one kind, each with its name above it and its text behind it."""
    end = max((bar.value for bar in bars), default=0.0) or 1.0
    room = WIDTH - WORDS
    parts: list[str] = []
    y = 2
    for bar in bars:
        for line in wrapped(bar.title):
            y += TEXT
            parts.append(f'<text x="0" y="{y - 4}">{escape(line)}</text>')
        width = round(room * bar.value / end, 1)
        parts += [
            f'<rect class="bar" x="0" y="{y}" width="{width}" height="{ROW - 4}"/>',
            f'<text x="{width + 6}" y="{y + 12}">{escape(bar.words)}</text>',
        ]
        y += ROW + 6
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 4}" role="img">'
    return "\n".join([opening, f"<title>{escape(title)}</title>", *parts, "</svg>"])


def wrapped(text: str, letters: int = LETTERS) -> list[str]:
    """The lines of a text: names of any length are shown whole."""
    return [text[at : at + letters] for at in range(0, len(text), letters)] or [""]


def _x(second: float, begin: float, length: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * min(max((second - begin) / length, 0.0), 1.0), 1)


def _strip(number: int, strip: Strip, begin: float, length: float, top: float) -> Iterator[str]:
    right, bottom = WIDTH - RIGHT, top + STRIP
    end = round_up(max((value.high for value in strip.values), default=0.0))
    yield f'<line class="grid" x1="{LEFT}" y1="{top}" x2="{right}" y2="{top}"/>'
    yield f'<text x="{LEFT - 6}" y="{top + 11}" text-anchor="end">{end:,.10g}</text>'
    yield f'<text x="{LEFT - 6}" y="{bottom}" text-anchor="end">0</text>'
    for second, part in strip.held_up:
        x = _x(second, begin, length)
        width = max(_x(second + 1, begin, length) - x, 0.5)
        yield f'<rect class="held" x="{x}" y="{bottom + 2}" width="{width * part:.1f}" height="5"/>'

    def y(value: float) -> float:
        return round(bottom - STRIP * value / end, 1)

    upper = [(_x(value.second, begin, length), y(value.high)) for value in strip.values]
    lower = [(_x(value.second, begin, length), y(value.low)) for value in strip.values]
    area = " ".join(f"{x},{at}" for x, at in (*upper, *reversed(lower)))
    line = " ".join(f"{x},{at}" for x, at in upper)
    yield f'<polygon class="area series{number}" points="{area}"/>'
    dashed = " dashed" if strip.older else ""
    style = f"line series{number}{dashed}"
    yield f'<polyline class="{style}" points="{line}"><title>{escape(strip.title)}</title></polyline>'
    yield f'<line class="axis" x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>'


def _clock_axis(begin: float, length: float, y: float) -> Iterator[str]:
    for step in range(TICKS + 1):
        second = begin + length * step / TICKS
        anchor = "start" if step == 0 else "end" if step == TICKS else "middle"
        x = _x(second, begin, length)
        yield f'<text x="{x}" y="{y + 10}" text-anchor="{anchor}">{clock(second, of=length)}</text>'


def _spans(spans: Sequence[ChartSpan], begin: float, length: float, top: float) -> Iterator[str]:
    for span in spans:
        x, end = _x(span.begin, begin, length), _x(span.end, begin, length)
        yield (
            f'<rect class="span" x="{x}" y="{top}" width="{max(end - x, 1):.1f}" height="{STRIP}">'
            f"<title>{escape(span.title)}</title></rect>"
        )


def _key(style: str, words: str, x: float, y: float) -> Iterator[str]:
    yield f'<rect class="{style}" x="{x}" y="{y + 1}" width="30" height="10"/>'
    yield f'<text x="{x + 38}" y="{y + 10}">{escape(words)}</text>'
