"""Results as text: a line per scenario and broker, the ratios to the peer."""

from __future__ import annotations

from collections.abc import Sequence

from bench.goals import pair_ratios
from bench.results import Entry
from bench.scenario import Scenario

_HEADING = (
    f"{'broker':22}{'messages/s':>12} {'(lowest - highest)':>22}{'broker':>10}{'client':>9}{'RSS':>8}"
    f"{'p50':>9}{'p99':>9}{'p99.9':>9}\n"
    f"{'':22}{'':12} {'':22}{'µs/msg':>10}{'µs/msg':>9}{'MiB':>8}{'ms':>9}{'ms':>9}{'ms':>9}"
)


def heading(scenario: Scenario) -> str:
    """The scenario's title, and the names of the columns."""
    client = "" if scenario.client == "own" else f"; client {scenario.client}"
    return f"\n{scenario.name}: {scenario.title}{client}" + ("" if scenario.is_memory else f"\n{_HEADING}")


def line(entry: Entry) -> str:
    """One scenario on one broker."""
    figures = entry.figures
    name = f"{entry.broker[:21]:22}"
    if entry.void:
        return f"{name}VOID: {entry.void}"
    if "value" in figures:
        value = figures["value"]
        unit = entry.runs[0]["unit"]
        return f"{name}{value.median:>12,.1f} {f'({value.low:,.1f} - {value.high:,.1f})':>22} {unit}"
    rate = figures["rate"]
    text = f"{name}{rate.median:>12,.0f} {f'({rate.low:,.0f} - {rate.high:,.0f})':>22}"
    for figure, width in (("broker_cpu_us", 10), ("client_cpu_us", 9), ("resident_mib", 8)):
        text += f"{figures[figure].median:>{width},.2f}"
    for figure in ("p50_ms", "p99_ms", "p99_9_ms"):
        text += f"{figures[figure].median:>9,.2f}" if figure in figures else f"{'-':>9}"
    return text


def sweeps(entries: Sequence[Entry]) -> str:
    """A table for every scenario that was measured at several link credits: messages/s of each broker."""
    groups: dict[str, dict[int, dict[str, Entry]]] = {}
    for entry in entries:
        stem, _, link_credit = entry.scenario.partition("@")
        if link_credit:
            groups.setdefault(stem, {}).setdefault(int(link_credit), {})[entry.broker] = entry
    lines = []
    for stem, points in groups.items():
        brokers = sorted({broker for point in points.values() for broker in point})
        lines += [f"\n{stem}: messages/s", f"{'link credit':>12}" + "".join(f"{name[:21]:>22}" for name in brokers)]
        for at, point in points.items():
            lines.append(f"{at:>12}" + "".join(f"{_rate(point.get(name)):>22}" for name in brokers))
    return "\n".join(lines)


def _rate(entry: Entry | None) -> str:
    if entry is None:
        return "-"
    return "VOID" if entry.void else f"{entry.figures['rate'].median:,.0f}"


def versus(measured: Entry, peer: Entry) -> str:
    """The ratios to the peer as text: the medians of the pairs of runs."""
    words = {"rate": "messages/s", "broker_cpu_us": "CPU per message", "p99_ms": "p99", "value": "memory"}
    found = {of: pair_ratios(measured, peer, name) for name, of in words.items()}
    parts = [f"{of} x{ratio.median:.3g}" for of, ratio in found.items() if ratio is not None]
    return f"{'':22}against {peer.broker}: " + (", ".join(parts) or "nothing to compare")
