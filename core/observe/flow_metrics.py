"""Metrics of flow control: what stands still and for how long, the balance of link credit, and counts of flow frames.

Seconds come from the ledger of stalls and from sums that are kept where things stop and go on. Each link counts the
link credit that was granted, consumed, drained and withdrawn; :class:`core.observe.gathering.Gathered` adds up the
present links, and a protocol's totals have the links that have ended.

Series are bounded: by the number of addresses for which the ledger keeps totals, and by closed lists of all other
labels.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from prometheus_client.metrics_core import Metric

from core.counters.traffic import Traffic
from core.observe.buckets import cumulative
from core.observe.gathering import BALANCE, Gathered
from core.observe.metric_sources import MetricSources
from core.observe.samples import histograms, labelled, single

Key = TypeVar("Key")


class FlowMetrics:
    """The part of :class:`core.observe.metrics.BrokerMetrics` that shows flow control."""

    def __init__(self, sources: MetricSources) -> None:
        self._sources = sources
        self._highest: dict[tuple[str, ...], int] = {}
        """The highest values of totals that are added up over links that come and go: see :meth:`_not_below`."""

    def at_once(self) -> Iterator[Metric]:
        """Yield the metrics that need no walk over rows."""
        yield from self._stalls()
        yield from self._windows_and_sockets()
        yield from self._frames()
        yield from self._settling()
        idle = self._sources.idle_consumers()
        yield labelled("headgate_consumer_idle_ratio", [((queue,), idle[queue]) for queue in idle])
        alarms = self._sources.lag.alarm_seconds()
        yield labelled("headgate_alarm_seconds_total", [((alarm,), alarms[alarm]) for alarm in alarms])
        errors = _sum(traffic.flow.decode_errors for traffic in self._protocols)
        yield labelled("headgate_decode_errors_total", errors.items())

    def gone(self) -> dict[str, dict[str, int]]:
        """The link credit of links that have ended, by direction. It must be read before the walk: a link that ends
        during the walk is then missing in this scrape, rather than counted twice."""
        totals = {direction: dict.fromkeys(BALANCE, 0) for direction in ("in", "out")}
        for traffic in self._protocols:
            for direction, of in traffic.flow.link_credit.items():
                for figure in BALANCE:
                    totals[direction][figure] += getattr(of, figure)
        return totals

    def gathered(self, gathered: Gathered, gone: Mapping[str, Mapping[str, int]]) -> Iterator[Metric]:
        """Yield the metrics that are added up in the walk."""
        totals = {
            (direction, figure): self._not_below((direction, figure), links.balance[figure] + gone[direction][figure])
            for direction, links in gathered.links.items()
            for figure in BALANCE
        }
        for figure in ("granted", "consumed", "drained", "withdrawn"):
            values = [((direction,), totals[direction, figure]) for direction in gathered.links]
            yield labelled(f"headgate_link_credit_{figure}_total", values)
        ages = [
            ((address, direction), seconds)
            for direction, oldest in gathered.oldest.items()
            for address, seconds in oldest.items()
        ]
        yield labelled("headgate_unsettled_oldest_age_seconds", ages)
        unbalanced = [((f"link-credit-{direction}",), totals[direction, "unbalanced"]) for direction in gathered.links]
        yield labelled("headgate_credit_invariant_violations_total", unbalanced)

    @property
    def _protocols(self) -> Iterable[Traffic]:
        return self._sources.traffic.values()

    def _not_below(self, key: tuple[str, ...], total: int) -> int:
        """Keep a total from going down, also when a link ended during the walk."""
        self._highest[key] = max(total, self._highest.get(key, 0))
        return self._highest[key]

    def _stalls(self) -> Iterator[Metric]:
        yield labelled("headgate_link_blocked_seconds_total", self._sources.stalls.seconds.items())
        yield labelled("headgate_links_blocked", self._sources.stalls.lasting_counts.items())

    def _windows_and_sockets(self) -> Iterator[Metric]:
        now = self._sources.monotonic()
        windows = _sum(traffic.flow.closed_windows.seconds(now) for traffic in self._protocols)
        yield labelled("headgate_session_window_closed_seconds_total", windows.items())
        full = self._sources.full_sockets
        yield single("headgate_connection_write_blocked_seconds_total", full.seconds(now))
        paused = [
            ((protocol, reason), seconds)
            for protocol, traffic in self._sources.traffic.items()
            for reason, seconds in traffic.flow.paused_readers.seconds(now).items()
        ]
        yield labelled("headgate_connection_read_paused_seconds_total", paused)

    def _frames(self) -> Iterator[Metric]:
        frames = _sum(traffic.flow.flow_frames for traffic in self._protocols)
        yield labelled("headgate_flow_frames_total", frames.items())
        over = sum(traffic.flow.transfers_over_credit for traffic in self._protocols)
        yield single("headgate_transfers_over_credit_total", over)

    def _settling(self) -> Iterator[Metric]:
        durations = [
            ((protocol, str(durable).lower()), cumulative(of.bounds, of.counts), of.seconds)
            for protocol, traffic in self._sources.traffic.items()
            for durable, of in traffic.flow.settle_seconds.items()
        ]
        yield histograms("headgate_settle_latency_seconds", durations)


def _sum(parts: Iterable[Mapping[Key, float]]) -> dict[Key, float]:
    total: dict[Key, float] = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0) + value
    return total
