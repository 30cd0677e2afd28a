"""The broker's metrics. They are read from plain counters and rows during a scrape, and at no other time.

The collector is an iterator of families. The walk over all queues and links takes long, so it is done in slices between
the families that need no walk. A caller that lets other tasks run between two steps of the iterator blocks the event
loop for some milliseconds at a time. So a scrape is no snapshot of one moment; each total in it is from one moment.

Totals that only grow come from counters that outlive what they count. Some totals have to be added up over present
things (the balance of link credit). For these the part of ended things is read before the walk: a thing that ends
meanwhile is missing in this scrape, and the total then stays as it was. It never goes down.

This module must not know protocols, sockets or the loop.
"""

import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice

from prometheus_client.metrics_core import Metric

from core.interface import Observable, Snapshot
from core.observe.buckets import LAG_SECONDS, LINK_CREDIT, cumulative
from core.observe.flow_metrics import FlowMetrics
from core.observe.gathering import Gathered, QueueFigures
from core.observe.metric_families import MESSAGES, ON_DEMAND, OTHER
from core.observe.metric_sources import MetricSources
from core.observe.samples import histograms, labelled, single
from core.store.lane import BATCH_RECORDS, SYNC_SECONDS

SLICE_ROWS = 500
"""Rows taken in between two families: 2 to 5 ms, most of it for making the rows. About 70 families need no walk, so
35,000 rows are taken in before a step takes more."""
VIRTUAL_HOST = "/"
"""The only virtual host."""
GLOBAL_PREFIX = "rabbitmq_global_"
LINK_PREFIX = "headgate_link_"
ALARM_GAUGES = {
    "rabbitmq_alarms_memory_used_watermark": "memory",
    "rabbitmq_alarms_free_disk_space_watermark": "disk",
    "rabbitmq_alarms_file_descriptor_limit": "descriptors",
}
MEASURED = {
    "rabbitmq_process_resident_memory_bytes": ("memory", "used"),
    "rabbitmq_resident_memory_limit_bytes": ("memory", "limit"),
    "rabbitmq_disk_space_available_bytes": ("disk", "free"),
    "rabbitmq_disk_space_available_limit_bytes": ("disk", "limit"),
}
"""Where each figure is in the rows of alarms. A figure that was never measured is left out."""
REFUSALS = (
    ("being drained", "drain"),
    ("descriptors", "fds"),
    ("from one address", "unauthenticated_host"),
    ("before authentication", "unauthenticated"),
    ("connections", "limit"),
)
"""Parts of the text of a refusal, and the label under which it is counted; the first match counts."""

BEFORE_OPEN = ("pre_auth", "pre_open")
"""Stages of a connection that is not established yet."""


class BrokerMetrics:
    """A collector for prometheus-client, of everything except single links."""

    def __init__(
        self, sources: MetricSources, *, addresses_max: int, version: str, node: str, limits: Mapping[str, int]
    ) -> None:
        """``limits`` are the configured limits, by the things that they limit: queues, exchanges, bindings, policies,
        unauthenticated."""
        self._sources = sources
        self._flow = FlowMetrics(sources)
        self._addresses_max = addresses_max
        self._version = version
        self._node = node
        self._limits = limits
        self._started = sources.monotonic()

    def collect(self) -> Iterator[Metric]:
        """Yield all families, one by one, each with the values at that moment."""
        began = self._sources.monotonic()
        gathered = Gathered(addresses_max=self._addresses_max)
        gone = self._flow.gone()
        walk = self._walk(gathered)
        series = 2  # the two families at the end
        for metric in self._at_once():
            series += len(metric.samples)
            yield metric
            next(walk, None)
        for _ in walk:
            pass
        for metric in chain(self._gathered(gathered), self._flow.gathered(gathered, gone)):
            series += len(metric.samples)
            yield metric
        yield single("headgate_series", series)
        yield single("headgate_scrape_duration_seconds", self._sources.monotonic() - began)

    def _walk(self, gathered: Gathered) -> Iterator[None]:
        """Take in all rows, a slice in each step."""
        rows = 0
        for queue in self._sources.broker.queue_figures():
            gathered.queue(queue)
            rows += 1
            if rows % SLICE_ROWS == 0:
                yield
        for connection in self._sources.connections("link_figures"):
            for row in connection:
                gathered.link(row)
            rows += max(1, len(connection))
            if rows >= SLICE_ROWS:
                rows = 0
                yield

    # --- families that need no walk ------------------------------------------------------------------------------

    def _at_once(self) -> Iterator[Metric]:
        yield from self._identity()
        descriptors = self._row(self._sources.server, "descriptors")  # counting them lists a directory, so once
        yield from self._connections(descriptors)
        yield from self._logins()
        yield from self._messages()
        yield from self._queue_totals()
        yield from self._alarms()
        yield from self._process(descriptors)
        yield from self._store()
        yield from self._flow.at_once()

    def _identity(self) -> Iterator[Metric]:
        yield labelled("rabbitmq_build_info", [((self._version, "Headgate", self._version), 1)])
        yield labelled("rabbitmq_identity_info", [((self._node, self._node), 1)])
        yield labelled("headgate_build_info", [((self._version, platform.python_version()), 1)])
        yield single("headgate_uptime_seconds", self._sources.monotonic() - self._started)

    def _connections(self, descriptors: Snapshot) -> Iterator[Metric]:
        server = self._row(self._sources.server, "server")
        sockets = _number(descriptors, "sockets_used")
        yield single("rabbitmq_connections", sockets)
        yield single("rabbitmq_connections_opened_total", _number(server, "accepted"))
        yield single("rabbitmq_connections_closed_total", _number(server, "accepted") - sockets)
        yield single("rabbitmq_connection_incoming_bytes_total", _number(server, "bytes_in"))
        yield single("rabbitmq_connection_outgoing_bytes_total", _number(server, "bytes_out"))
        yield single("headgate_connections_unauthenticated", _number(server, "unauthenticated"))
        yield single("headgate_faults_total", _number(server, "faults"))
        refused = _refused(server) | self._refused_in_handshake()
        yield labelled("headgate_connections_refused_total", [((reason,), refused[reason]) for reason in refused])
        channels = sum(traffic.counts()["channels"] for traffic in self._sources.traffic.values())
        opened = sum(traffic.counts()["channels_opened"] for traffic in self._sources.traffic.values())
        yield single("rabbitmq_channels", channels)
        yield single("rabbitmq_channels_opened_total", opened)
        yield single("rabbitmq_channels_closed_total", opened - channels)

    def _refused_in_handshake(self) -> dict[str, float]:
        """Refusals that protocols counted during the handshake, by reason."""
        protocols = self._sources.traffic.values()
        errors = [(stage, n) for of in protocols for (stage, _), n in of.flow.decode_errors.items()]
        return {
            "auth": sum(sum(of.logins.failed.values()) for of in protocols),
            "decode_error": sum(n for stage, n in errors if stage in BEFORE_OPEN),
        }

    def _logins(self) -> Iterator[Metric]:
        logins = {protocol: traffic.logins for protocol, traffic in self._sources.traffic.items()}
        by_protocol = [
            ("attempts", {protocol: of.attempts for protocol, of in logins.items()}),
            ("attempts_succeeded", {protocol: of.succeeded for protocol, of in logins.items()}),
            ("attempts_failed", {protocol: sum(of.failed.values()) for protocol, of in logins.items()}),
        ]
        for what, counts in by_protocol:
            yield labelled(f"rabbitmq_auth_{what}_total", [((protocol,), counts[protocol]) for protocol in counts])
        failed, put_off = Counter[str](), Counter[str]()
        for of in logins.values():
            failed.update(of.failed)
            put_off.update(of.put_off)
        yield labelled("headgate_auth_failures_total", [((mechanism,), failed[mechanism]) for mechanism in failed])
        yield labelled("headgate_logins_put_off_total", [((mechanism,), put_off[mechanism]) for mechanism in put_off])

    def _messages(self) -> Iterator[Metric]:
        totals = self._row(self._sources.broker, "totals")
        counts = {
            protocol: {**traffic.counts(), "messages_routed": _number(totals, f"routed_{protocol}")}
            for protocol, traffic in self._sources.traffic.items()
        }
        for family in MESSAGES:
            name = family.name.removeprefix(GLOBAL_PREFIX).removesuffix("_total")
            yield labelled(family.name, [((protocol,), counts[protocol][name]) for protocol in counts])

    def _queue_totals(self) -> Iterator[Metric]:
        totals = self._row(self._sources.broker, "totals")
        yield single("rabbitmq_queues", _number(totals, "queues"))
        for what in ("declared", "created", "deleted"):
            yield single(f"rabbitmq_queues_{what}_total", _number(totals, f"queues_{what}"))

    def _alarms(self) -> Iterator[Metric]:
        rows = {str(row["name"]): row for row in self._sources.broker.snapshot("alarms")}
        active = [((name, str(row["level"])), float(bool(row["on"]))) for name, row in rows.items()]
        yield labelled("headgate_alarm_active", active)
        for name, alarm in ALARM_GAUGES.items():
            yield single(name, float(bool(rows[alarm]["on"])))
        for name, (alarm, figure) in MEASURED.items():
            if rows[alarm].get(figure) is not None:
                yield single(name, _number(rows[alarm], figure))

    def _process(self, row: Snapshot) -> Iterator[Metric]:
        yield single("rabbitmq_process_open_fds", _number(row, "total_used"))
        yield single("rabbitmq_process_max_fds", _number(row, "total_limit"))
        yield single("rabbitmq_process_open_tcp_sockets", _number(row, "sockets_used"))
        yield single("rabbitmq_process_max_tcp_sockets", _number(row, "sockets_limit"))
        lag = self._sources.lag
        yield histograms(
            "headgate_event_loop_lag_seconds", [((), cumulative(LAG_SECONDS, lag.lag_counts), lag.lag_seconds)]
        )
        used = self._row(self._sources.broker, "totals") | {
            "unauthenticated": _number(self._row(self._sources.server, "server"), "unauthenticated"),
            "connections": _number(row, "sockets_used"),
            "descriptors": _number(row, "total_used"),
        }
        limits = {
            **self._limits,
            "connections": _number(row, "sockets_limit"),
            "descriptors": _number(row, "total_limit"),
        }
        yield labelled("headgate_limit_used", [((limit,), _number(used, limit)) for limit in limits])
        yield labelled("headgate_limit_max", [((limit,), limits[limit]) for limit in limits])

    def _store(self) -> Iterator[Metric]:
        lanes = self._sources.lanes
        yield single("rabbitmq_io_write_ops_total", sum(lane.batches for lane in lanes))
        yield single("rabbitmq_io_write_bytes_total", sum(lane.written_bytes for lane in lanes))
        yield single("rabbitmq_io_write_time_seconds_total", sum(lane.write_seconds for lane in lanes))
        yield single("rabbitmq_io_sync_ops_total", sum(lane.syncs for lane in lanes))
        yield single("rabbitmq_io_sync_time_seconds_total", sum(lane.sync_seconds for lane in lanes))
        yield labelled("headgate_store_staged_bytes", [((lane.name,), lane.staged_bytes) for lane in lanes])
        syncs = [((lane.name,), cumulative(SYNC_SECONDS, lane.sync_counts), lane.sync_seconds) for lane in lanes]
        yield histograms("headgate_store_fsync_seconds", syncs)
        batches = [((lane.name,), cumulative(BATCH_RECORDS, lane.batch_counts), lane.written) for lane in lanes]
        yield histograms("headgate_store_batch_messages", batches)

    # --- families that need the walk -----------------------------------------------------------------------------

    def _gathered(self, gathered: Gathered) -> Iterator[Metric]:
        yield from self._queues(gathered)
        yield from self._links(gathered)
        yield self._stages()

    def _queues(self, gathered: Gathered) -> Iterator[Metric]:
        total = gathered.all_queues
        yield single("rabbitmq_queue_messages", total.ready + total.unacked)
        yield single("rabbitmq_queue_messages_ready", total.ready)
        yield single("rabbitmq_queue_messages_unacked", total.unacked)
        yield single("rabbitmq_queue_consumers", total.consumers)
        yield single("rabbitmq_consumers", total.consumers)
        by_name = gathered.queues
        lasting = {name: figures for name, figures in by_name.items() if name != OTHER}
        for what, queues, figure in (
            ("messages", by_name, lambda queue: queue.ready + queue.unacked),
            ("messages_ready", by_name, lambda queue: queue.ready),
            ("messages_unacked", by_name, lambda queue: queue.unacked),
            ("consumers", by_name, lambda queue: queue.consumers),
            ("messages_published_total", lasting, lambda queue: queue.published),
            ("messages_delivered_total", lasting, lambda queue: queue.delivered),
            ("messages_acked_total", lasting, lambda queue: queue.accepted),
        ):
            yield _by_queue(f"rabbitmq_detailed_queue_{what}", queues, figure)

    def _links(self, gathered: Gathered) -> Iterator[Metric]:
        links = gathered.links
        yield labelled("headgate_links", [((direction,), links[direction].count) for direction in links])
        yield histograms(
            "headgate_link_credit",
            [((direction,), cumulative(LINK_CREDIT, of.counts), of.link_credit) for direction, of in links.items()],
        )
        incoming = [((address, "in"), float(count)) for address, count in gathered.unconfirmed.items()]
        outgoing = [((name, "out"), float(queue.unacked)) for name, queue in gathered.queues.items()]
        yield labelled("headgate_unsettled_deliveries", incoming + outgoing)

    def _stages(self) -> Metric:
        now, totals = self._sources.monotonic(), self._row(self._sources.broker, "totals")
        protocols = [traffic.flow.stage_credit for traffic in self._sources.traffic.values()]
        seconds = {kind: sum(times.of(kind).seconds(now) for times in protocols) for kind in ("reader", "channel")}
        seconds |= {kind: _number(totals, f"{kind}_blocked_seconds") for kind in ("queue", "store")}
        return labelled("headgate_stage_credit_blocked_seconds_total", [((kind,), seconds[kind]) for kind in seconds])

    @staticmethod
    def _row(source: Observable, kind: str) -> Snapshot:
        return next(iter(source.snapshot(kind)))


class LinkMetrics:
    """A collector of the metrics of single links, for a request that names some. They are never in an ordinary scrape,
    since links come and go and each would leave its series behind."""

    def __init__(self, connections: Callable[[str], Iterator[Sequence[Snapshot]]]) -> None:
        """``connections`` yields the rows of a kind, connection by connection."""
        self._connections = connections

    def collect(self, address: str | None, limit: int) -> Iterator[Metric]:
        """Collect the first ``limit`` links of an address, or of all addresses."""
        rows = list(islice(self._links(address), limit))
        for family in ON_DEMAND:
            figure = family.name.removeprefix(LINK_PREFIX)
            values = [(_link_labels(row), row[figure]) for row in rows if figure in row]
            yield labelled(family.name, [(labels, value) for labels, value in values if isinstance(value, int)])

    def _links(self, address: str | None) -> Iterator[Snapshot]:
        for connection in self._connections("links"):
            yield from (row for row in connection if address is None or row["address"] == address)


def _by_queue(name: str, queues: Mapping[str, QueueFigures], figure: Callable[[QueueFigures], int]) -> Metric:
    return labelled(name, [((VIRTUAL_HOST, queue), figure(figures)) for queue, figures in queues.items()])


def _refused(server: Snapshot) -> dict[str, float]:
    """Refusals by reason; every reason is always there, so that the first refusal shows as an increase."""
    counts = dict.fromkeys([*(reason for _, reason in REFUSALS), "other"], 0.0)
    refused = server["refused"]
    assert isinstance(refused, Mapping)
    for text, count in refused.items():
        counts[next((reason for said, reason in REFUSALS if said in text), "other")] += count
    counts["handshake_timeout"] = _number(server, "handshake_time_outs")
    counts["wrong_header"] = _number(server, "wrong_headers")
    return counts


def _number(row: Snapshot, key: str) -> float:
    value = row[key]
    assert isinstance(value, int | float), key
    return value


def _link_labels(row: Snapshot) -> tuple[str, str, str]:
    return str(row["identity"]), str(row["direction"]), str(row["address"] or "")
