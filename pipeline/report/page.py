"""The page: HTML in one file that loads no others."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from pipeline.report.charts import Bar, Line, Span, bars_chart, lines_chart
from pipeline.report.figures import Figures, LinkFigures, Row

PROTOCOLS: Mapping[str, str] = {"amqp-1.0": "AMQP 1.0", "amqp-0-9-1": "AMQP 0.9.1"}
BARS_MAX = 20
STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #ffffff; --grid: #d5d5d5; --band: #f3d9a8; --bar: #0063a8 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --paper: #161616; --grid: #444444; --band: #5a4415; --bar: #6cc0ff }
}
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2em auto;
  max-width: 64em; padding: 0 1em }
svg { width: 100%; height: auto } svg text { fill: var(--ink); font-size: 12px }
.grid { stroke: var(--grid) } .axis { stroke: var(--ink) } .bar { fill: var(--bar) } .span { fill: var(--band) }
.line { fill: none; stroke-width: 2 } .dashed { stroke-dasharray: 7 4 }
.series0 { stroke: #0072b2 } .series1 { stroke: #d55e00 } .series2 { stroke: #009e73 } .series3 { stroke: #cc79a7 }
.series4 { stroke: #56b4e9 } .series5 { stroke: #e69f00 } .series6 { stroke: #8a8a00 } .series7 { stroke: #777777 }
table { border-collapse: collapse; width: 100% } th, td { border-bottom: 1px solid var(--grid); padding: 0.3em 0.6em;
  text-align: left; vertical-align: top; overflow-wrap: anywhere } .number { text-align: right; white-space: nowrap }
.found { font-weight: bold }
"""
"""Line colours are those of Okabe and Ito, which colour-blind readers can tell apart; 0.9.1's lines are dashed too."""


def page(figures: Figures) -> str:
    """Render the whole file."""
    body = "\n".join(part for section in _sections(figures) for part in section)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n<title>How it flowed</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>How it flowed</h1>\n{body}\n</body>\n</html>\n"
    )


def _sections(figures: Figures) -> Iterator[Sequence[str]]:
    yield _verdicts(figures)
    yield _rates(figures.links)
    yield _compared(figures)
    yield _blocked(figures.blocked)
    yield _link_credits(figures)
    yield _capacity(figures)
    yield _bench(figures.bench)
    yield _counts(figures.counts)


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


def _verdicts(figures: Figures) -> list[str]:
    rows = [
        [sentence(verdict), f"{float(str(verdict['share'])):.0%}", str(verdict["evidence"])]
        for verdict in figures.verdicts
    ]
    left_out = (
        f"<p>{figures.verdicts_left_out} more are in the table bottlenecks.</p>" if figures.verdicts_left_out else ""
    )
    introduction = (
        "<p>A verdict for each publishing connection of AMQP 0.9.1, by the three rules of its stages, and for each"
        " publishing link of AMQP 1.0, by the reasons that the broker told. Held up for less than a tenth of its time"
        " is no bottleneck.</p>"
    )
    return [
        "<h2>The bottleneck</h2>",
        introduction,
        _table(["verdict", "held up", "evidence"], rows, numbers={1}),
        left_out,
    ]


def _rates(links: Sequence[LinkFigures]) -> list[str]:
    lines = [
        Line(f"{PROTOCOLS.get(link.protocol, link.protocol)}, {link.name}", link.rates, link.protocol != "amqp-1.0")
        for link in links
    ]
    return ["<h2>Rates</h2>", lines_chart("messages per second over time", "messages per second", lines)]


def _compared(figures: Figures) -> list[str]:
    held_up = {row["connection"]: float(str(row["share"])) for row in figures.verdicts if row["link"] is None}
    waits = {(row["link"], row["direction"]): float(str(row["wait_seconds"])) for row in figures.waits}
    rows = []
    for link in figures.links:
        wait = waits.get((link.link, link.direction))
        share = link.blocked_share if link.protocol == "amqp-1.0" else held_up.get(link.connection, 0.0)
        rows.append([
            PROTOCOLS.get(link.protocol, link.protocol), link.name, f"{link.messages:,}", f"{link.rate:,.0f}",
            f"{share:.0%}", "-" if wait is None else f"{1000 * wait:,.0f} ms",
        ])  # fmt: skip
    introduction = (
        "<p>Over AMQP 0.9.1 the reader of a connection stops for all of its channels; over AMQP 1.0 each link waits for"
        " itself. The wait for an answer follows from what was unanswered at the end of each second"
        " (Little's law).</p>"
    )
    return [
        "<h2>AMQP 1.0 against AMQP 0.9.1</h2>",
        introduction,
        _table(
            ["protocol", "link", "messages", "messages/s", "held up", "wait"],
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
    lines = [Line(link.name, link.link_credits) for link in figures.links if link.link_credits]
    spans = [
        Span(f"session {row['session']}: the {row['side']}'s window", float(str(row["begin"])), float(str(row["end"])))
        for row in figures.windows
    ]
    chart = lines_chart("least link credit in each second", "link credit", lines, spans)
    introduction = (
        "<p>The least link credit of each second; behind it, when a session's incoming-window was closed."
        " AMQP 0.9.1 has neither.</p>"
    )
    return [
        "<h2>Link credit and windows</h2>",
        introduction,
        chart if lines else "<p>No link of AMQP 1.0 moved anything.</p>",
    ]


def _capacity(figures: Figures) -> list[str]:
    rows = [
        [
            str(row["subject"]), f"{float(str(row['rate'])):,.0f}", f"{float(str(row['blocked_share'])):.0%}",
            str(row["seconds"]), "the knee" if row["knee"] else "",
        ]
        for row in figures.capacity
    ]  # fmt: skip
    return [
        "<h2>Capacity</h2>",
        "<p>How much of their time publishers were held up at which rate. From the knee on it is a tenth or more.</p>",
        _table(["address or connection", "messages/s", "held up", "seconds", ""], rows[:200], numbers={1, 2, 3}),
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


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: set[int]) -> str:
    """An HTML table. Cells are text, and escaped here."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = [' class="number"' if at in numbers else "" for at in range(len(row))]
        return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table>\n<thead><tr>{cells('th', names)}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
