"""The figures of runs: medians and spreads, ratios to Kafka by pairs, goals, a table, and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from bench.results import Spread

FORMAT = 1
PEER = "kafka"
GOALS = {"stream": 1.0, "queue": 0.5}
"""The least rate beside Kafka's, of the median ratio."""
WAYS = ("sink", "source")
HEADING = (
    "| rows | | | rows/s: median (lowest–highest) | beside Kafka | rows/s with the query's start "
    "| CPU µs a row: Spark | broker |"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One run: all rows were written, or read."""

    kind: str
    way: str
    """``sink`` or ``source``."""
    system: str
    number: int
    """Of the round."""
    rows: int
    seconds: float
    """A sink: of the whole write. A source: of the micro-batches with rows, planning and logs included."""
    whole_seconds: float
    """A source: from the start of the query to its end."""
    broker_cpu_us: float
    spark_cpu_us: float
    """For a row: Java, Python workers, and the driver."""
    void: str = ""
    """Why the run does not count."""

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds if self.seconds else 0.0


def checked(rows: int, total: int, found_rows: int, found_total: int | None) -> str:
    """Why a run is void whose rows were counted and summed up like this; empty when they are right."""
    if found_rows != rows:
        return f"{found_rows} rows instead of {rows}"
    if found_total != total:
        return "the values of the rows are not those that were written"
    return ""


def ratios(passes: Sequence[Pass], kind: str, way: str, system: str) -> Spread | None:
    """The rate beside Kafka's in the same round, over the rounds; None without a pair."""
    rates: dict[tuple[str, int], float] = {
        (one.system, one.number): one.rate for one in passes if one.kind == kind and one.way == way and not one.void
    }
    pairs = [
        rate / rates[PEER, number]
        for (name, number), rate in rates.items()
        if name == system and (PEER, number) in rates
    ]
    return Spread.of(pairs) if pairs else None


def missed(passes: Sequence[Pass]) -> list[str]:
    """The goals that are not met, in words."""
    lines = []
    for kind in sorted({one.kind for one in passes}):
        for way in WAYS:
            for system, least in GOALS.items():
                found = ratios(passes, kind, way, system)
                if found is not None and found.median < least:
                    lines.append(f"{kind} rows, {way}, {system}: x{found.median:.2f} of Kafka's rate, not x{least:g}")
    return lines


def table(passes: Sequence[Pass]) -> str:
    """All figures, as a table in Markdown."""
    lines = [HEADING, "|---|---|---|--:|--:|--:|--:|--:|"]
    for kind, way, system in dict.fromkeys((one.kind, one.way, one.system) for one in passes):
        own = [one for one in passes if (one.kind, one.way, one.system) == (kind, way, system)]
        if any(one.void for one in own):
            reason = next(one.void for one in own if one.void)
            lines.append(f"| {kind} | {way} | {system} | **VOID**: {reason} | | | | |")
            continue
        rate = Spread.of([one.rate for one in own])
        ratio = ratios(passes, kind, way, system)
        beside = "" if system == PEER or ratio is None else f"×{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})"
        whole = f"{median(one.rows / one.whole_seconds for one in own):,.0f}" if way == "source" else ""
        spark, broker = median(one.spark_cpu_us for one in own), median(one.broker_cpu_us for one in own)
        lines.append(
            f"| {kind} | {way} | {system} | {rate.median:,.0f} ({rate.low:,.0f}–{rate.high:,.0f}) | {beside} | {whole} "
            f"| {spark:.1f} | {broker:.1f} |"
        )
    return "\n".join(lines)


def to_json(passes: Sequence[Pass], environment: Mapping[str, object], conditions: Mapping[str, object]) -> object:
    """A result, with every run."""
    runs = [asdict(one) | {"rows_per_second": round(one.rate)} for one in passes]
    return {"format": FORMAT, "environment": environment, "conditions": conditions, "runs": runs}
