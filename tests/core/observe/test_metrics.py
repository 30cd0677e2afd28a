"""The collector: complete, bounded, in small steps, and totals that never go down."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import cast

import pytest
from prometheus_client import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from core.access.tokens import Tokens
from core.alarms.registry import AlarmRegistry
from core.clock import Now
from core.config.oauth2 import OAuth2Settings
from core.config.traces import TraceSettings
from core.counters.traffic import Traffic
from core.engine.queue.sums import QUEUE_FIGURES
from core.flow_facts import StallSubject
from core.interface import FlowReason, Snapshot
from core.observe.buckets import LAG_SECONDS
from core.observe.link_sums import SLICE_ROWS, ConnectionLinks
from core.observe.metric_families import FAMILIES, MetricType
from core.observe.metrics import BrokerMetrics
from core.observe.scrape import MetricSources
from core.observe.stalls import OTHER, Stalls
from core.server.connections import Connections
from core.server.drain import DRAINED
from core.server.listener import OUT_OF_DESCRIPTORS
from core.store.lane import Lane
from core.traces import Traces
from core.waiting.blocked_time import BlockedTime
from tests.kit.call_trace import traced_calls

LIMITS = {"queues": 10_000, "exchanges": 1_000, "bindings": 100_000, "policies": 100, "unauthenticated": 4_096}
STEP_ROWS_MAX = 2 * SLICE_ROWS
"""A slice, and the rows that its last connection adds."""


def queue(name: str, ready: int = 0, unacked: int = 0) -> Snapshot:
    return {
        "name": name,
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
        "consumers": 1,
        "published": 10,
        "delivered": 9,
        "accepted": 8,
    }


def link(direction: str = "in", credit: int = 10, address: str = "/queues/q", unconfirmed: int = 0) -> Snapshot:
    shown: Snapshot = {"identity": "c1/0/0", "direction": direction, "address": address, "link_credit": credit}
    return shown | ({"unconfirmed": unconfirmed} if direction == "in" else {})


@dataclass
class Broker:
    """A stand-in for the engine: its rows."""

    queues: list[Snapshot] = field(default_factory=list)
    totals: Snapshot = field(
        default_factory=lambda: {
            "queues": 3,
            "exchanges": 7,
            "bindings": 2,
            "policies": 1,
            "queues_declared": 5,
            "queues_created": 4,
            "queues_deleted": 1,
            "messages_repeated": 5,
            "routed_amqp10": 11,
            "routed_amqp091": 12,
            "queue_blocked_seconds": 2.0,
            "store_blocked_seconds": 0.5,
        }
    )
    alarms: AlarmRegistry = field(default_factory=AlarmRegistry)
    rows_taken: int = 0

    def queue_figures(self, most: int | None = None) -> Iterator[Snapshot]:
        for row in self.queues[:most]:
            self.rows_taken += 1
            yield row

    @property
    def queue_sums(self) -> "Broker":
        return self

    def __len__(self) -> int:
        return len(self.queues)

    def refresh(self) -> Iterator[None]:
        return iter(())

    def sums(self) -> dict[str, int]:
        return {figure: sum(cast("int", row[figure]) for row in self.queues) for figure in QUEUE_FIGURES}

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        return self.alarms.snapshot() if kind == "alarms" else [self.totals]


@dataclass
class Server:
    """A stand-in for the server: its rows and those of its connections."""

    links: list[Sequence[Snapshot]] = field(default_factory=list)
    """The rows of each connection."""
    totals: Snapshot = field(
        default_factory=lambda: {
            "accepted": 9,
            "refused": {},
            "wrong_headers": 2,
            "handshake_time_outs": 1,
            "tls_handshakes": 6,
            "tls_failures": 3,
            "faults": 0,
            "unauthenticated": 4,
            "bytes_in": 100,
            "bytes_out": 200,
        }
    )
    rows_taken: int = 0
    most: int = 0
    """The most connections that there were."""
    named: list[str] | None = None
    """The connections that have changed at the next scrape; None for all."""

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        if kind == "descriptors":
            return [{"total_limit": 1024, "total_used": 30, "sockets_limit": 960, "sockets_used": 5}]
        if kind == "certificates":
            return [{"identity": "default", "not_after": 2_000_000_000.5}]
        return [self.totals]

    def changed(self) -> list[str]:
        """All connections, those that have gone included; or those that a test has named."""
        if self.named is not None:
            named, self.named = self.named, None
            return named
        self.most = max(self.most, len(self.links))
        return [str(number) for number in range(self.most)]

    def links_of(self, connection: str) -> Iterator[Sequence[Snapshot]]:
        rows = self.links[int(connection)] if int(connection) < len(self.links) else []
        self.rows_taken += max(1, len(rows))
        yield rows


@dataclass
class Lag:
    lag_counts: list[int] = field(default_factory=lambda: [0] * (len(LAG_SECONDS) + 1))
    lag_seconds: float = 0.0
    alarms: dict[str, float] = field(default_factory=lambda: {"memory": 1.5})

    def alarm_seconds(self) -> dict[str, float]:
        return self.alarms


class Scraped:
    """A broker to scrape. Tests change its parts."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.server = Server()
        self.traffic = {"amqp10": Traffic(), "amqp091": Traffic()}
        self.lanes = [Lane("classic", generation=1, sync_interval_s=1.0)]
        self.lag = Lag()
        self.full_sockets = BlockedTime()
        self.idle: dict[str, float] = {}
        self.now = 100.0
        self.stalls = Stalls(clock=lambda: Now(self.now, self.now))
        self.tokens: Tokens | None = None
        self.traces: Traces | None = None

    def metrics(self, *, addresses_max: int = 10) -> BrokerMetrics:
        sources = MetricSources(
            broker=self.broker,
            server=self.server,
            links=ConnectionLinks(changed=self.server.changed, rows=self.server.links_of),
            traffic=self.traffic,
            lanes=self.lanes,
            lag=self.lag,
            stalls=self.stalls,
            full_sockets=self.full_sockets,
            idle_consumers=lambda: self.idle,
            monotonic=lambda: self.now,
            addresses_max=addresses_max,
            version="1.2",
            node="headgate@host",
            limits=LIMITS,
            tokens=lambda: self.tokens,
            traces=self.traces,
        )
        return BrokerMetrics(sources, started=sources.monotonic())


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


class Fixed(Collector):
    """A registry of the families that were collected."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


def values(metrics: BrokerMetrics) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by series name and label values (in the order of the labels' names), as Prometheus reads them from the
    text."""
    text = generate_latest(Fixed(list(filter(None, metrics.collect())))).decode()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def value(metrics: BrokerMetrics, name: str, *labels: str) -> float:
    return values(metrics)[name][labels]


def test_every_family_of_the_table_is_collected_once(scraped: Scraped):
    scraped.broker.alarms.measured("memory", {"used": 1, "limit": 2})
    scraped.broker.alarms.measured("disk", {"free": 1, "limit": 2})
    scraped.tokens = Tokens(OAuth2Settings(), wall=lambda: 0.0, monotonic=lambda: 0.0)
    scraped.traces = Traces(TraceSettings(), clock=lambda: Now(0.0, 0.0), random_bytes=bytes)
    suffix = {MetricType.COUNTER: "_total", MetricType.INFO: "_info"}
    expected = sorted(family.name.removesuffix(suffix.get(family.type, "_")) for family in FAMILIES)
    assert sorted(metric.name for metric in filter(None, scraped.metrics().collect())) == expected


def test_what_was_never_measured_is_left_out(scraped: Scraped):
    scraped.broker.alarms.measured("disk", {"free": None, "limit": 2})
    found = values(scraped.metrics())
    assert "rabbitmq_disk_space_available_bytes" not in found
    assert found["rabbitmq_disk_space_available_limit_bytes"] == {(): 2.0}


def test_connections_that_are_gone_stay_counted(scraped: Scraped):
    metrics = scraped.metrics()
    assert value(metrics, "rabbitmq_connections") == 5
    assert value(metrics, "rabbitmq_connections_opened_total") == 9
    assert value(metrics, "rabbitmq_connections_closed_total") == 4


def test_counts_of_protocols(scraped: Scraped):
    scraped.traffic["amqp091"].messages_received = 7
    scraped.traffic["amqp10"].consumers = 2
    metrics = scraped.metrics()
    assert values(metrics)["rabbitmq_global_messages_received_total"] == {("amqp10",): 0, ("amqp091",): 7}
    assert values(metrics)["rabbitmq_global_messages_routed_total"] == {("amqp10",): 11, ("amqp091",): 12}
    assert value(metrics, "rabbitmq_global_consumers", "amqp10") == 2


@pytest.mark.parametrize(
    ("limits", "reason"),
    [((0, 9, 9), "limit"), ((9, 0, 9), "unauthenticated"), ((9, 9, 0), "unauthenticated_host")],
)
def test_what_the_server_says_when_it_refuses_has_a_reason(scraped: Scraped, limits: tuple[int, int, int], reason: str):
    connections = Connections(connections_max=limits[0], pending_max=limits[1], pending_per_host_max=limits[2])
    text = connections.refusal_reason("127.0.0.1")
    scraped.server.totals["refused"] = {text: 3}
    found = values(scraped.metrics())["headgate_connections_refused_total"]
    assert {reason for (reason,), count in found.items() if count} == {reason, "handshake_timeout", "wrong_header"}
    assert found[(reason,)] == 3


def test_refused_because_the_broker_is_being_drained(scraped: Scraped):
    scraped.server.totals["refused"] = {DRAINED: 2}
    assert value(scraped.metrics(), "headgate_connections_refused_total", "drain") == 2


def test_running_out_of_descriptors_and_unknown_words(scraped: Scraped):
    scraped.server.totals["refused"] = {OUT_OF_DESCRIPTORS: 2, "the moon is full": 1}
    found = values(scraped.metrics())["headgate_connections_refused_total"]
    assert (found[("fds",)], found[("other",)], found[("limit",)]) == (2, 1, 0)


def test_totals_of_queues_and_the_oldest_by_name(scraped: Scraped):
    scraped.broker.queues = [queue("a", ready=1, unacked=2), queue("b", ready=10), queue("c", ready=100)]
    found = values(scraped.metrics(addresses_max=1))
    assert found["rabbitmq_queue_messages_ready"] == {(): 111}
    assert found["rabbitmq_queue_messages"] == {(): 113}
    assert found["rabbitmq_detailed_queue_messages_ready"] == {("a", "/"): 1, (OTHER, OTHER): 110}
    assert found["rabbitmq_detailed_queue_messages_published_total"] == {("a", "/"): 10}


def test_no_address_has_a_series_when_none_may(scraped: Scraped):
    scraped.broker.queues = [queue("a", ready=1)]
    assert values(scraped.metrics(addresses_max=0))["rabbitmq_detailed_queue_messages"] == {(OTHER, OTHER): 1}


def test_a_name_with_quotes_and_line_ends_survives_the_text(scraped: Scraped):
    scraped.broker.queues = [queue('a"\\\n<b>')]
    assert ('a"\\\n<b>', "/") in values(scraped.metrics())["rabbitmq_detailed_queue_messages"]


def test_links_by_their_credit(scraped: Scraped):
    scraped.server.links = [[link(credit=0), link(credit=170)], [link("out", credit=5_000)], []]
    found = values(scraped.metrics())
    assert found["headgate_links"] == {("in",): 2, ("out",): 1}
    assert found["headgate_link_credit_bucket"][("in", "0.0")] == 1
    assert found["headgate_link_credit_bucket"][("in", "170.0")] == 2
    assert found["headgate_link_credit_sum"][("in",)] == 170
    assert found["headgate_link_credit_count"] == {("in",): 2, ("out",): 1}


def test_unsettled_deliveries_of_both_directions(scraped: Scraped):
    scraped.server.links = [[link(address=f"/queues/{n}", unconfirmed=1) for n in range(20)]]
    scraped.broker.queues = [queue("q", unacked=7)]
    found = values(scraped.metrics(addresses_max=4))["headgate_unsettled_deliveries"]
    assert found[("q", "out")] == 7
    assert found[("/queues/3", "in")] == 1
    assert found[(OTHER, "in")] == 16
    assert len(found) == 6


def test_a_link_without_an_address_and_one_that_is_not_attached_yet(scraped: Scraped):
    scraped.server.links = [[link() | {"address": None, "link_credit": None}]]
    found = values(scraped.metrics())
    assert found["headgate_unsettled_deliveries"] == {("", "in"): 0}


def test_time_without_stage_credit_is_that_of_all_protocols_and_of_the_engine(scraped: Scraped):
    times = [traffic.flow.stage_credit for traffic in scraped.traffic.values()]
    times[0].begin("reader", 99.5)
    times[1].begin("reader", 99.0)
    times[1].begin("channel", 99.75)
    assert values(scraped.metrics())["headgate_stage_credit_blocked_seconds_total"] == {
        ("reader",): 1.5, ("channel",): 0.25, ("queue",): 2.0, ("store",): 0.5,
    }  # fmt: skip


def test_alarms_and_notices(scraped: Scraped):
    scraped.broker.alarms.set("disk", "by hand")
    scraped.broker.alarms.notice("event-loop-lag", True)
    found = values(scraped.metrics())
    assert found["rabbitmq_alarms_free_disk_space_watermark"] == {(): 1}
    assert found["rabbitmq_alarms_memory_used_watermark"] == {(): 0}
    assert found["headgate_alarm_active"] == {
        ("audit", "notice"): 0,
        ("certificate", "notice"): 0,
        ("descriptors", "notice"): 0,
        ("disk", "alarm"): 1,
        ("etcd", "notice"): 0,
        ("event-loop-lag", "notice"): 1,
        ("memory", "alarm"): 0,
    }


def test_time_that_alarms_were_on_and_sockets_full(scraped: Scraped):
    metrics = scraped.metrics()
    scraped.full_sockets.begin(99.25)
    assert values(metrics)["headgate_alarm_seconds_total"] == {("memory",): 1.5}
    assert value(metrics, "headgate_connection_write_blocked_seconds_total") == 0.75


def test_histograms_of_the_store_and_of_the_loop(scraped: Scraped):
    lane = scraped.lanes[0]
    lane.sync_counts[0], lane.sync_counts[-1], lane.sync_seconds = 3, 1, 9.0
    lane.batch_counts[1], lane.written = 2, 4
    scraped.lag.lag_counts[0], scraped.lag.lag_seconds = 5, 0.001
    found = values(scraped.metrics())
    assert found["headgate_store_fsync_seconds_bucket"][("classic", "0.0005")] == 3
    assert found["headgate_store_fsync_seconds_bucket"][("classic", "5.0")] == 3
    assert found["headgate_store_fsync_seconds_bucket"][("classic", "+Inf")] == 4
    assert found["headgate_store_fsync_seconds_sum"] == {("classic",): 9.0}
    assert found["headgate_store_batch_messages_bucket"][("classic", "2.0")] == 2
    assert found["headgate_event_loop_lag_seconds_count"] == {(): 5}


def test_limits_and_what_is_used_of_them(scraped: Scraped):
    found = values(scraped.metrics())
    assert found["headgate_limit_used"].keys() == found["headgate_limit_max"].keys()
    assert found["headgate_limit_used"][("connections",)] == 5
    assert found["headgate_limit_max"][("connections",)] == 960
    assert found["headgate_limit_used"][("queues",)] == 3
    assert found["headgate_limit_max"][("queues",)] == 10_000


def test_the_scrape_counts_its_own_series_and_time(scraped: Scraped):
    metrics = scraped.metrics()
    walked = filter(None, metrics.collect())
    series = len(next(walked).samples)
    scraped.now += 0.25
    for metric in walked:
        series += len(metric.samples)
        if metric.name == "headgate_series":
            shown = metric.samples[0].value
    assert metric.samples[0].value == 0.25
    assert shown == series


def steps(scraped: Scraped) -> Iterator[int]:
    """How many rows each step of a scrape took in."""
    before = 0
    for _ in scraped.metrics(addresses_max=200).collect():
        taken = scraped.server.rows_taken + scraped.broker.rows_taken
        yield taken - before
        before = taken


@pytest.mark.parametrize("links_each", [1, 100])
def test_a_scrape_of_ten_thousand_links_takes_small_steps(scraped: Scraped, links_each: int):
    rows = [link(credit=n % 300, address=f"/queues/{n}") for n in range(10_000)]
    scraped.server.links = [rows[at : at + links_each] for at in range(0, len(rows), links_each)]
    scraped.broker.queues = [queue(f"q{n}") for n in range(1_000)]
    taken = list(steps(scraped))
    assert sum(taken) == 10_000 + 200, "all links, and the queues that are named"
    assert max(taken) <= STEP_ROWS_MAX


def test_a_scrape_reads_the_links_of_changed_connections_only_and_shows_the_same(scraped: Scraped):
    scraped.server.links = [[link(address=f"/queues/{n % 7}", unconfirmed=n)] for n in range(50)]
    scraped.server.links.append([link() | {"oldest_unsettled_seconds": 2.5}])
    metrics = scraped.metrics(addresses_max=3)
    before = values(metrics)
    scraped.server.named = []
    scraped.server.rows_taken = 0
    assert values(metrics) == before
    assert scraped.server.rows_taken == 1, "ages grow without any change"
    scraped.server.links[3] = [link("out", credit=7, address="q")]
    scraped.server.links[5] = []
    scraped.server.named = ["3", "5"]
    after = values(metrics)
    assert scraped.server.rows_taken == 4
    assert after == values(scraped.metrics(addresses_max=3))
    assert after != before


def block_links(scraped: Scraped, number: int) -> list[StallSubject]:
    links = [
        StallSubject(
            identity=f"c{n}/0/0", connection=f"c{n}", peer="", container_id="", user="", direction="in",
            address=f"/queues/{n}",
        )
        for n in range(number)
    ]  # fmt: skip
    for link in links:
        scraped.stalls.blocked(link, FlowReason.MEMORY, "alarm memory", Now(scraped.now, scraped.now))
    scraped.now += 10.0
    return links


def test_a_scrape_of_ten_thousand_links_is_over_soon(scraped: Scraped):
    """All links are blocked."""
    scraped.server.links = [[link(address=f"/queues/{n}")] for n in range(10_000)]
    block_links(scraped, 10_000)
    metrics = scraped.metrics(addresses_max=200)
    began = process_time()
    for _ in metrics.collect():
        pass
    assert process_time() - began < 1.0  # 20 ms on an idle machine; the promise is 100 ms, and this machine is shared


def test_a_scrape_takes_as_many_steps_with_ten_thousand_stalls_as_with_none(scraped: Scraped):
    def calls() -> int:
        with traced_calls(Path(__file__).parents[3]) as traced:
            for _ in scraped.metrics().collect():
                pass
        return len(traced)

    for who in block_links(scraped, 10_000):
        scraped.stalls.unblocked(who, Now(scraped.now, scraped.now))
    none = calls()
    block_links(scraped, 10_000)
    assert len(scraped.stalls.current) == 10_000
    assert calls() <= none + 5  # whether the newest stalls have lasted is asked of one
