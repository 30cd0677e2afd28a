"""The page: HTML in one file that loads no others."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from pipeline.report.charts import Bar, ChartSpan, Strip, bars_chart, clock, strips_chart
from pipeline.report.figures import Figures, LinkFigures, Row

PROTOCOLS: Mapping[str, str] = {"amqp-1.0": "AMQP 1.0", "amqp-0-9-1": "AMQP 0.9.1"}
BARS_MAX = 20
STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #ffffff; --grid: #d5d5d5; --band: #f3d9a8; --bar: #0063a8 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --paper: #161616; --grid: #444444; --band: #5a4415; --bar: #6cc0ff }
}
@media print { h2, svg, tr { break-inside: avoid } body { font-size: 11px; margin: 0; max-width: none } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2em auto;
  max-width: 64em; padding: 0 1em }
svg { width: 100%; height: auto } svg text { fill: var(--ink); font-size: 12px }
.grid { stroke: var(--grid) } .axis { stroke: var(--ink) } .bar { fill: var(--bar) } .span { fill: var(--band) }
.name { font-weight: bold } .held { fill: #c00000 }
.line { fill: none; stroke: currentColor; stroke-width: 1.5 } .dashed { stroke-dasharray: 7 4 }
.area { stroke: none; fill: currentColor; fill-opacity: 0.18 }
.series0 { color: #0072b2 } .series1 { color: #d55e00 } .series2 { color: #009e73 } .series3 { color: #cc79a7 }
.series4 { color: #56b4e9 } .series5 { color: #e69f00 } .series6 { color: #8a8a00 } .series7 { color: #777777 }
.above td { color: #c00000 }
table { border-collapse: collapse; width: 100% } th, td { border-bottom: 1px solid var(--grid); padding: 0.3em 0.6em;
  text-align: left; vertical-align: top; overflow-wrap: anywhere } .number { text-align: right; white-space: nowrap }
.found { font-weight: bold }
"""
"""Line colours are those of Okabe and Ito, which colour-blind readers can tell apart; 0.9.1's lines are dashed too."""


def page(figures: Figures, *, limit: float | None = None) -> str:
    """Render the whole file. Verdicts on what was held up for more than ``limit`` of its time are marked."""
    body = "\n".join(part for section in _sections(figures, limit) for part in section)
    title = f"How it flowed: {_period(figures)}"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def _period(figures: Figures) -> str:
    if not figures.days:
        return "no day"
    first, last = figures.days[0], figures.days[-1]
    if first != last:
        return f"{first} to {last}"
    return f"{first}, {clock(figures.begin, of=0)} to {clock(figures.end, of=0)} UTC"


def _sections(figures: Figures, limit: float | None) -> Iterator[Sequence[str]]:
    yield _verdicts(figures, limit)
    yield _culprits(figures.culprits)
    yield _rates(figures)
    yield _compared(figures)
    yield _blocked(figures.blocked)
    yield _link_credits(figures)
    yield _capacity(figures)
    yield _weeks(figures.weeks)
    yield _bench(figures.bench)
    yield _counts(figures.counts)


def above(figures: Figures, limit: float) -> list[Row]:
    """The verdicts on what was held up for more than a share of its time."""
    return [row for row in figures.verdicts if float(str(row["share"])) > limit]


def sentence(verdict: Row) -> str:
    """The verdict as a sentence."""
    protocol = PROTOCOLS.get(str(verdict["protocol"]), str(verdict["protocol"]))
    if verdict["link"] is None:
        who = f"{protocol}, connection {verdict['connection']} ({verdict['container_id']})"
    else:
        who = f"{protocol}, link {verdict['link']} to {verdict['address'] or 'no address'}"
    found, culprit = verdict["bottleneck"], verdict["culprit"] or "an unknown one"
    if found is None:
        return f"{who}: no bottleneck"
    if verdict["link"] is not None:
        return f"{who}: it waits because of {found}; what has to change is {culprit}"
    named = {"queue": f"queue {culprit}", "channel": f"channel {culprit}: routing, CPU"}
    return f"{who}: the bottleneck is {named.get(str(found), 'the message store: the disk')}"


def _verdicts(figures: Figures, limit: float | None) -> list[str]:
    rows = [
        [
            *([str(verdict["day"])] if len(figures.days) > 1 else []),
            sentence(verdict),
            f"{float(str(verdict['share'])):.0%}",
            str(verdict["evidence"]),
        ]
        for verdict in figures.verdicts
    ]
    marked = {
        number
        for number, verdict in enumerate(figures.verdicts)
        if limit is not None and float(str(verdict["share"])) > limit
    }
    left_out = (
        f"<p>{figures.verdicts_left_out} more are in the table bottlenecks.</p>" if figures.verdicts_left_out else ""
    )
    introduction = (
        "<p>A verdict for each publishing connection of AMQP 0.9.1, by the three rules of its stages, and for each"
        " publishing link of AMQP 1.0, by the reasons that the broker told. Held up for less than a tenth of its time"
        " is no bottleneck.</p>"
    )
    above_limit = "" if limit is None else f"<p>{len(marked)} of them were held up for more than {limit:.0%}.</p>"
    names = [*(["day"] if len(figures.days) > 1 else []), "verdict", "held up", "evidence"]
    table = _table(names, rows, numbers={len(names) - 2}, marked=marked)
    return ["<h2>The bottleneck</h2>", introduction, above_limit, table, left_out]


def _culprits(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    cells = [
        [
            str(row["user"] or "-"), str(row["address"] or "-"), str(row["culprit"] or "-"),
            f"{float(str(row['blocked_us_sum'])) / 1e6:,.1f} s", f"{row['intervals_sum']}",
        ]
        for row in rows
    ]  # fmt: skip
    return [
        "<h2>Who waited most, and for what</h2>",
        "<p>Stalls of 50 ms and longer, added up by user and queue.</p>",
        _table(["user", "queue", "what has to change", "blocked", "times"], cells, numbers={3, 4}),
    ]


def _title(link: LinkFigures) -> str:
    return f"{PROTOCOLS.get(link.protocol, link.protocol)}, {link.name}"


def _rates(figures: Figures) -> list[str]:
    strips = [
        Strip(f"{_title(link)}: {link.rate:,.0f} messages/s", link.rates, link.held_up, link.protocol != "amqp-1.0")
        for link in figures.links
    ]
    if not strips:
        return ["<h2>Rates</h2>", "<p>No link moved anything.</p>"]
    return [
        "<h2>Rates</h2>",
        "<p>Messages per second of each link, with an axis of its own; below it, when it was held up.</p>",
        strips_chart("messages per second over time", strips, figures.begin, figures.end),
    ]


def _compared(figures: Figures) -> list[str]:
    waits = {
        (row["day"], row["node"], row["connection"], row["link"], row["direction"]): float(str(row["wait_seconds"]))
        for row in figures.waits
    }
    by_link = {key[2:]: wait for key, wait in waits.items()}
    rows = []
    for link in figures.links:
        wait = by_link.get((link.connection, link.link, link.direction))
        rows.append([
            PROTOCOLS.get(link.protocol, link.protocol), link.name, f"{link.messages:,}", f"{link.seconds:,.1f}",
            f"{link.rate:,.0f}", "-" if wait is None else f"{1000 * wait:,.0f} ms",
        ])  # fmt: skip
    introduction = (
        "<p>What can be compared. For how long something was held up cannot: over AMQP 0.9.1 that is the time of the"
        " connection's reader, which stops for all of its channels, as sampled every 10 ms; over AMQP 1.0 it is that of"
        " a link alone, in stalls of 50 ms and longer. The wait for an answer follows from what was unanswered at the"
        " end of each second (Little's law).</p>"
    )
    return [
        "<h2>AMQP 1.0 beside AMQP 0.9.1</h2>",
        introduction,
        _table(
            ["protocol", "link", "messages", "seconds", "messages/s", "wait"],
            sorted(rows), numbers={2, 3, 4, 5},
        ),
    ]  # fmt: skip


def _blocked(rows: Sequence[Row]) -> list[str]:
    title = "Blocked time by reason"
    if not rows:
        return [f"<h2>{title}</h2>", "<p>Nothing stood still for 50 ms or longer.</p>"]
    bars = []
    for row in rows[:BARS_MAX]:
        seconds = float(str(row["blocked_us_sum"])) / 1e6
        words = f"{seconds:,.1f} s, {row['intervals_sum']} times"
        bars.append(Bar(f"{row['reason']} ({row['direction']}): {row['culprit']}", seconds, words))
    return [f"<h2>{title}</h2>", "<p>Stalls of 50 ms and longer, added up over all links.</p>", bars_chart(title, bars)]


def _link_credits(figures: Figures) -> list[str]:
    newer = [link for link in figures.links if link.link_credits]
    used_up = [link for link in newer if not any(value.high for value in link.link_credits)]
    strips = [Strip(_title(link), link.link_credits) for link in newer if link not in used_up]
    without = [
        f"<p>{escape(_title(link))} had none left whenever its records looked: it used up the"
        f" {link.granted / link.seconds if link.seconds else link.granted:,.0f} messages/s that it was granted.</p>"
        for link in used_up
    ]
    spans = [
        ChartSpan(
            f"session {row['session']}: the {row['side']}'s window", float(str(row["begin"])), float(str(row["end"]))
        )
        for row in figures.windows
    ]
    introduction = (
        "<p>From the least to the most link credit of each second: a link that uses it up reaches 0, and is held up"
        " only where the most is low, too. Behind it, when a session's incoming-window was closed. AMQP 0.9.1 has"
        " neither.</p>"
    )
    return [
        "<h2>Link credit and windows</h2>",
        introduction,
        *without,
        strips_chart("link credit in each second", strips, figures.begin, figures.end, spans)
        if strips
        else ("" if without else "<p>No link of AMQP 1.0 moved anything.</p>"),
    ]


def _capacity(figures: Figures) -> list[str]:
    rows = [
        [
            str(row["subject"]), f"{float(str(row['rate'])):,.0f}", f"{float(str(row['blocked_share'])):.0%}",
            f"{float(str(row['seconds'])):.1f}", "the knee" if row["knee"] else "",
        ]
        for row in figures.capacity
    ]  # fmt: skip
    return [
        "<h2>Capacity</h2>",
        "<p>How much of their time publishers were held up at which rate. From the knee on it is a tenth or more.</p>",
        _table(["address or connection", "messages/s", "held up", "seconds", ""], rows[:200], numbers={1, 2, 3}),
    ]


def _weeks(rows: Sequence[Row]) -> list[str]:
    if len(rows) < 2:
        return []

    def change(row: Row, name: str, unit: float, words: str) -> list[str]:
        now, before = (None if row[key] is None else float(str(row[key])) / unit for key in (name, f"{name}_before"))
        return [
            "-" if value is None else format(value, words) for value in (now, before)
        ] + ["-" if not now or not before else f"{now / before - 1:+.0%}"]  # fmt: skip

    cells = [
        [
            f"{row['day']} and {row['before']}", *change(row, "messages", 1, ",.0f"),
            *change(row, "blocked_us", 1e6, ",.1f"), *change(row, "bottlenecks", 1, ".0f")[:2],
        ]
        for row in rows
    ]  # fmt: skip
    names = [
        *("days", "messages", "a week before", "change"),
        *("blocked s", "a week before", "change", "bottlenecks", "a week before"),
    ]
    return [
        "<h2>Week beside week</h2>",
        "<p>Each of the last seven days, and the same day of the week before.</p>",
        _table(names, cells, numbers=set(range(1, len(names)))),
    ]


def _bench(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    cells = [
        [
            str(row["scenario"]), str(row["broker"]), str(row["figure"]), f"{float(str(row['median'])):,.4g}",
            f"x{float(str(row['ratio'])):.3g}", f"{row['earlier_file']} ({row['earlier_commit']})",
        ]
        for row in rows
    ]  # fmt: skip
    return [
        "<h2>Benchmarks</h2>",
        "<p>Figures whose spread shares no value with that of the file before.</p>",
        _table(["scenario", "broker", "figure", "median", "change", "against"], cells, numbers={3, 4}),
    ]


def _counts(rows: Sequence[Row]) -> list[str]:
    cells = [
        [
            str(row["node"] or "-"), str(row["kind"] or f"not readable: {row['fault']}"),
            *(f"{int(str(row[name])):,}" for name in ("records", "unknown", "dropped")),
        ]
        for row in rows
    ]  # fmt: skip
    introduction = (
        "<p>Records of kinds or with fields that this version does not know are kept. Dropped are those that the broker"
        " had no room for: with any, other figures are too low.</p>"
    )
    return [
        "<h2>Records</h2>",
        introduction,
        _table(["node", "kind", "records", "unknown", "dropped"], cells, numbers={2, 3, 4}),
    ]


def _table(
    names: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: set[int], marked: set[int] | None = None
) -> str:
    """An HTML table. Cells are text, and escaped here."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = [' class="number"' if at in numbers else "" for at in range(len(row))]
        return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    mark = ' class="above"'
    body = "\n".join(
        f"<tr{mark if number in (marked or set()) else ''}>{cells('td', row)}</tr>" for number, row in enumerate(rows)
    )
    return f"<table>\n<thead><tr>{cells('th', names)}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
