"""The table as Markdown, and its place on a page."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from bench.broker import ROOT
from bench.declarations import RATES
from bench.goals import Quartiles, figures_of, pair_ratios
from bench.results import Entry, Results
from bench.table.groups import LoadGroup
from bench.table.rows import LoadRow, rows

ALONE = "alone"
"""The name of a block without a peer."""
NOTHING = "–"
WIDTH = 130
_BLOCK = re.compile(r"<!-- bench\.table (\S+): (\S+) -->\n.*?<!-- end of bench\.table -->\n", re.DOTALL)


class PageError(Exception):
    """A page into which the table cannot be put; the text says why."""


def peer_of(results: Results) -> str:
    """The peer's product, with its version."""
    seen: set[tuple[str, str]] = set()
    for entry in results.entries:
        key = entry.scenario, str(entry.parameters.get("client"))
        if key in seen:
            return entry.broker
        seen.add(key)
    return ALONE


def block(results: Results, groups: Sequence[LoadGroup], file: Path) -> str:
    """The part of a page between its two marks, with them."""
    peer = peer_of(results).partition(" ")[0]
    where = file.resolve()
    path = where.relative_to(ROOT) if where.is_relative_to(ROOT) else where.name
    return f"<!-- bench.table {peer}: {path} -->\n{markdown(results, groups)}<!-- end of bench.table -->\n"


def blocks_of(page: str) -> dict[str, tuple[str, str]]:
    """Each block of a page by its peer: the result file that it names, and its text."""
    return {found[1]: (found[2], found[0]) for found in _BLOCK.finditer(page)}


def put(page: str, new: str) -> str:
    """The page with the new block in place of the one with the same peer. Raises PageError when there is none."""
    [peer] = blocks_of(new)
    found = blocks_of(page)
    if peer not in found:
        raise PageError(
            f"the page has no block for {peer}: write the lines '<!-- bench.table {peer}: none -->' and "
            "'<!-- end of bench.table -->' where the table is to be"
        )
    return page.replace(found[peer][1], new)


def markdown(results: Results, groups: Sequence[LoadGroup]) -> str:
    """All groups of which something was measured, with their goals."""
    tables = [(group, found) for group in groups if (found := rows(group, results))]
    all_rows = [row for _, found in tables for row in found]
    lines = [*_about(results, all_rows), ""]
    for group, found in tables:
        lines += [f"**{group.title}**", "", *(_declared(found) if group.ways else _loads(found)), *_goals(found)]
    return "\n".join(lines)


def _about(results: Results, all_rows: Sequence[LoadRow]) -> list[str]:
    about, peer = results.environment, peer_of(results)
    runs = max((len(entry.runs) for entry in results.entries if not entry.void), default=0)
    judged = [one for row in all_rows for one in row.judgements]
    met = sum(one.met is True for one in judged)
    void = sum(bool(row.void) for row in all_rows)
    cpus = about["cpus"]
    assert isinstance(cpus, list | tuple)
    beside = f"by turns on Headgate and on {peer}" if peer != ALONE else "without a peer"
    lost = f"Void rows: {void}" if void else "No message was lost, duplicated or reordered"
    words = (
        f"Measured on {about.get('date', 'a day that the file does not name')}, commit {about['commit']}, with "
        f"`python -m bench.table`: {runs} runs of each row, {beside}; {about['machine']}, {len(cpus)} CPUs shared by "
        f"clients and broker, {about['interpreter']}, fdatasync p50 {about['fdatasync_p50_ms']} ms. Figures are "
        "medians, with the quartiles in brackets. A ratio is the median of the ratios of runs that were made one after "
        f"the other. {lost}. {met} of {len(judged)} goals are met."
    )
    return textwrap.wrap(words, WIDTH)


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return [_cells(*head), f"|{'---|' * len(head)}", *(_cells(*line) for line in lines), ""]


def _loads(found: Sequence[LoadRow]) -> list[str]:
    timed = any("p50_ms" in row.measured.figures for row in found if row.measured is not None)
    own = next((_product(row.measured) for row in found if row.measured is not None), "")
    peer = next((_product(row.peer) for row in found if row.peer is not None), "peer")
    head = ["load", f"{own} CPU µs a message", f"{peer} CPU", "CPU", f"{own} messages/s", f"{peer} messages/s", "rate"]
    head += [f"{own} p50, p99 ms", f"{peer} p50, p99 ms"] if timed else []
    return _table(head, [_load(row, len(head), timed) for row in found])


def _product(entry: Entry) -> str:
    """The broker's name without its version."""
    return entry.broker.partition(" ")[0]


def _load(row: LoadRow, width: int, timed: bool) -> list[str]:
    if (without := _without(row, width)) is not None:
        return without
    assert row.measured is not None
    cells = [f"`{row.name}`"]
    for name, form in (("broker_cpu_us", ".1f"), ("rate", ",.0f")):
        cells += [_spread(figures_of(entry, name), form) for entry in (row.measured, row.peer)]
        cells.append(_times(pair_ratios(row.measured, row.peer, name)))
    if timed:
        cells += [_latency(entry) for entry in (row.measured, row.peer)]
    return cells


def _declared(found: Sequence[LoadRow]) -> list[str]:
    names = [*RATES, "longest_wait_ms", "broker_cpu_us"]
    words = [*(f"{name}/s" for name in RATES), "longest wait beside ms", "CPU µs a queue"]
    head = ["way", "broker", *words]
    lines = []
    for row in found:
        if (without := _without(row, len(head))) is not None:
            lines.append(without)
            continue
        for entry in (row.measured, row.peer):
            if entry is not None:
                cells = [_spread(figures_of(entry, name), ",.0f" if name in RATES else ",.1f") for name in names]
                lines.append([row.name.removeprefix("declarations, "), entry.broker, *cells])
    return _table(head, lines)


def _without(row: LoadRow, width: int) -> list[str] | None:
    """The line of a row that has no figures."""
    reason = f"VOID: {row.void}" if row.void else f"not run: {row.note}" if row.measured is None else ""
    return [f"`{row.name}`", reason, *[""] * (width - 2)] if reason else None


def _goals(found: Sequence[LoadRow]) -> list[str]:
    lines = [
        [f"`{row.name}`", one.goal, one.figure, "met" if one.met else f"**{one.verdict}**"]
        for row in found
        for one in row.judgements
    ]
    notes = [f"`{row.name}`, the peer: not run: {row.note}." for row in found if row.note and row.measured is not None]
    return (_table(["load", "goal", "figure", ""], lines) if lines else []) + ([*notes, ""] if notes else [])


def _spread(figure: Quartiles | None, form: str) -> str:
    if figure is None:
        return NOTHING
    return f"{figure.median:{form}} ({figure.lower:{form}}–{figure.upper:{form}})"


def _times(ratio: Quartiles | None) -> str:
    return NOTHING if ratio is None else f"×{ratio.median:.3g} ({ratio.lower:.3g}–{ratio.upper:.3g})"


def _latency(entry: Entry | None) -> str:
    both = [figures_of(entry, name) for name in ("p50_ms", "p99_ms")]
    return ", ".join(f"{one.median:.2f}" for one in both if one is not None) or NOTHING
