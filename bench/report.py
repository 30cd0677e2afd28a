"""Results as text: a line per scenario and broker, the ratios to the peer, the goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.results import Entry
from bench.scenario import Goal, Scenario

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


def ratios(measured: Entry, peer: Entry) -> dict[str, float]:
    """The measured broker's medians divided by the peer's; nothing when either is void."""
    if measured.void or peer.void:
        return {}
    a, b = measured.figures, peer.figures
    wanted = ("rate", "broker_cpu_us", "p99_ms", "value")
    return {name: a[name].median / b[name].median for name in wanted if name in a and name in b and b[name].median}


def versus(measured: Entry, peer: Entry) -> str:
    """The ratios as text."""
    found = ratios(measured, peer)
    words = {"rate": "messages/s", "broker_cpu_us": "CPU per message", "p99_ms": "p99", "value": "memory"}
    parts = [f"{words[name]} x{value:.3g}" for name, value in found.items()]
    return f"{'':22}against {peer.broker}: " + (", ".join(parts) or "nothing to compare")


def verdicts(goal: Goal, measured: Entry, peer: Entry | None) -> list[tuple[str, bool]]:
    """Each goal that could be judged by this scenario alone, as text, and whether it is met."""
    if measured.void:
        return []
    found = ratios(measured, peer) if peer is not None else {}
    figures = measured.figures
    checks: list[tuple[str, bool]] = []
    if goal.p99_ms_max is not None and "p99_ms" in figures:
        checks.append((f"p99 at most {goal.p99_ms_max:g} ms", figures["p99_ms"].median <= goal.p99_ms_max))
    if goal.rate_ratio_min is not None and "rate" in found:
        checks.append((f"rate at least {goal.rate_ratio_min:g} times", found["rate"] >= goal.rate_ratio_min))
    for name, words, limit in (
        ("broker_cpu_us", "CPU per message", goal.cpu_ratio_max),
        ("p99_ms", "p99", goal.p99_ratio_max),
    ):
        if limit is not None and name in found:
            checks.append((f"{words} at most {limit:.3g} times", found[name] <= limit))
    if goal.memory_max is not None and "value" in figures:
        checks.append((f"at most {goal.memory_max:g}", figures["value"].median <= goal.memory_max))
    return checks


def verdicts_between(goal: Goal, measured: Entry, others: Mapping[str, Entry]) -> list[tuple[str, bool | None]]:
    """Each goal beside another scenario of the same run, as text, and whether it is met; None: it cannot be judged."""
    checks: list[tuple[str, bool | None]] = []
    for name, limit in goal.cpu_ratio_max_to.items():
        words = f"CPU per message at most {limit:.3g} times that of {name}"
        other = others.get(name)
        if other is None or other.void or measured.void:
            checks.append((words, None))
            continue
        ratio = measured.figures["broker_cpu_us"].median / other.figures["broker_cpu_us"].median
        checks.append((f"{words} (x{ratio:.3g})", ratio <= limit))
    return checks
