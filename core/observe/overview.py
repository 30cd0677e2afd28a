"""The broker in a dozen numbers: message rates, connections, and what stands still.

Once a second the counters behind the rates are remembered, some integers each time. The rest is read on request, and
the walk over all queues is done in slices. A task of the process calls :meth:`Overview.sample` each second. Of the last
hour there is a point for each ten seconds: 360 points of six numbers, which take 100 KiB at most.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from core.clock import Now
from core.interface import Snapshot
from core.observe.buckets import LAG_SECONDS
from core.observe.stalls import AFTER_S, Stall
from core.rows import count_in
from core.slices import Walk

RATE_SECONDS = 5
"""A rate is the mean over this many samples, one a second: over fewer it flickers."""
LAG_SECONDS_KEPT = 60
POINT_SAMPLES = 10
"""Samples between two points of the history: a chart of an hour is 1400 pixels wide at most, and has 360 points."""
POINTS = 360
"""Points of the history: an hour, in which an operator who is called finds what was before."""
RATES = {
    "in": "messages_received",
    "out": "messages_delivered",
    "confirmed": "messages_confirmed",
    "settled": "messages_acknowledged",
}
"""The name of each rate, and the count of :class:`core.counters.traffic.Traffic` from which it comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewSources:
    """The sources of the overview. The callables must be cheap, except ``queues``."""

    counts: Callable[[], Iterable[Mapping[str, float]]]
    """The counts of each protocol since the start."""
    connections: Callable[[], int]
    links: Callable[[], int]
    alarms: Callable[[], Sequence[Snapshot]]
    stalls: Callable[[], Iterable[Stall]]
    queues: Callable[[], Iterator[Snapshot]]
    """Yields the queues one by one."""
    lag_counts: Callable[[], Sequence[int]]
    clock: Callable[[], Now]


class Overview:
    """The overview, with the samples of the last seconds."""

    def __init__(self, sources: OverviewSources) -> None:
        self._sources = sources
        self._totals: deque[tuple[float, dict[str, float]]] = deque(maxlen=RATE_SECONDS + 1)
        self._lags: deque[list[int]] = deque(maxlen=LAG_SECONDS_KEPT + 1)
        self._points: deque[tuple[float, ...]] = deque(maxlen=POINTS)
        """Of each point: the time, the rates since the point before, and the links that wait."""
        self._since_point = 0
        self._point_before: tuple[float, dict[str, float]] | None = None

    def sample(self) -> None:
        """Remember the present values of the counters."""
        now, sums = self._sources.clock(), self._sums()
        self._totals.append((now.monotonic, sums))
        self._lags.append(list(self._sources.lag_counts()))
        if self._point_before is None:
            self._point_before = now.monotonic, sums
            return
        self._since_point += 1
        if self._since_point == POINT_SAMPLES:
            self._add_point(now, sums, *self._point_before)
            self._since_point, self._point_before = 0, (now.monotonic, sums)

    def _add_point(self, now: Now, sums: Mapping[str, float], began: float, before: Mapping[str, float]) -> None:
        passed = max(now.monotonic - began, 1e-3)
        rates = (round((sums[rate] - before[rate]) / passed, 1) for rate in RATES)
        self._points.append((now.wall, *rates, float(sum(self._blocked(now).values()))))

    def history(self) -> Snapshot:
        """Return the points of the last hour, the oldest first: the times, and by name the rates and the number of
        links that wait. Of a broker that has just started there are fewer."""
        columns: list[list[float]] = [[] for _ in range(len(RATES) + 2)]
        for point in self._points:
            for column, value in zip(columns, point, strict=True):
                column.append(value)
        times, *series = columns
        named = dict(zip((*RATES, "waiting"), series, strict=True))
        return {"interval": float(POINT_SAMPLES), "times": times, "series": named}

    def read(self) -> Walk[Snapshot]:
        """Return the overview."""
        queues = ready = unacked = consumers = 0
        for row in self._sources.queues():
            queues += 1
            ready += count_in(row, "messages_ready")
            unacked += count_in(row, "messages_unacknowledged")
            consumers += count_in(row, "consumers")
            yield
        now = self._sources.clock()
        sums = self._sums()
        return {
            "time": now.wall,
            "rates": self.rates(),
            "connections": self._sources.connections(),
            "channels": int(sums["channels"]),
            "links": self._sources.links(),
            "links_blocked": self._blocked(now),
            "alarms": [row["name"] for row in self._sources.alarms() if row["on"]],
            "queues": queues,
            "ready": ready,
            "unacked": unacked,
            "consumers": consumers,
            "loop_lag_p99": self.lag_at(0.99),
        }

    def rates(self) -> dict[str, float]:
        """Messages a second over the last seconds, by :data:`RATES`; 0.0 before there are two samples."""
        if len(self._totals) < 2:
            return dict.fromkeys(RATES, 0.0)
        (began, before), (ended, after) = self._totals[0], self._totals[-1]
        passed = ended - began
        return {rate: round((after[rate] - before[rate]) / passed, 1) if passed > 0 else 0.0 for rate in RATES}

    def totals(self) -> dict[str, int]:
        """Messages since the start, by :data:`RATES`."""
        sums = self._sums()
        return {rate: int(sums[rate]) for rate in RATES}

    def lag_at(self, share: float) -> float | None:
        """The lateness that this share of the loop's wake-ups did not exceed: an upper bound in seconds; None above all
        bounds."""
        if len(self._lags) < 2:
            return 0.0
        grown = [after - before for before, after in zip(self._lags[0], self._lags[-1], strict=True)]
        wanted, seen = share * sum(grown), 0
        for bound, count in zip(LAG_SECONDS, grown, strict=False):
            seen += count
            if seen >= wanted:
                return bound if seen else 0.0
        return None

    def _sums(self) -> dict[str, float]:
        sums = dict.fromkeys([*RATES, "channels"], 0.0)
        for counts in self._sources.counts():
            for rate, name in RATES.items():
                sums[rate] += counts[name]
            sums["channels"] += counts["channels"]
        return sums

    def _blocked(self, now: Now) -> dict[str, int]:
        by_reason: dict[str, int] = {}
        for stall in self._sources.stalls():
            if stall.seconds(now) >= AFTER_S:
                by_reason[stall.reason.value] = by_reason.get(stall.reason.value, 0) + 1
        return by_reason
