"""A plot of the messages that are unconfirmed in a simulated run, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 10, 30, 30
COLOURS = ("#c2410c", "#1d4ed8")
"""Told apart by their lightness too."""
POINTS = 700
"""A line has so many points at most: one for each pixel, the highest value of its time."""
TICKS = 4


def drawn(title: str, histories: Mapping[str, Sequence[tuple[float, int]]], seconds: float) -> str:
    """Draw a line for each of the histories: times in seconds, and messages."""
    top = max((messages for history in histories.values() for _, messages in history), default=0) or 1
    return "\n".join([*_frame(title, top, seconds), *_lines(histories, top, seconds), "</svg>", ""])


def _frame(title: str, top: int, seconds: float) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        f' font-size="12">'
    )
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    yield f'<text x="{LEFT}" y="18">{title}: unconfirmed messages</text>'
    for tick in range(TICKS + 1):
        x, y = _x(seconds * tick / TICKS, seconds), _y(top * tick / TICKS, top)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{top * tick / TICKS:,.0f}</text>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - 10}" text-anchor="middle">{seconds * tick / TICKS:g} s</text>'


def _lines(histories: Mapping[str, Sequence[tuple[float, int]]], top: int, seconds: float) -> Iterator[str]:
    for number, (name, history) in enumerate(histories.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(
            f"{_x(at, seconds):.1f},{_y(messages, top):.1f}" for at, messages in _highest(history, seconds)
        )
        yield f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>'
        yield f'<text x="{WIDTH - RIGHT - 90 * (len(histories) - number)}" y="18" fill="{colour}">{name}</text>'


def _highest(history: Sequence[tuple[float, int]], seconds: float) -> Iterator[tuple[float, int]]:
    """The highest value of each pixel, in the order of time; what does not change keeps its height."""
    highest: dict[int, int] = {}
    for at, messages in history:
        pixel = int(at / seconds * POINTS)
        highest[pixel] = max(messages, highest.get(pixel, 0))
    last = 0
    for pixel in range(POINTS):
        last = highest.get(pixel, last)
        yield pixel / POINTS * seconds, last


def _x(at: float, seconds: float) -> float:
    return LEFT + at / seconds * (WIDTH - LEFT - RIGHT)


def _y(messages: float, top: float) -> float:
    return HEIGHT - BOTTOM - messages / top * (HEIGHT - TOP - BOTTOM)
