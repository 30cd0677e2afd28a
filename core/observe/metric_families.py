"""The metrics as one table: names, types, labels, units, meanings, and where each value comes from. A metric is added
by one entry. A scrape and ``docs/operating/metrics.md`` are made from this table; alert rules and dashboards are
checked against it.

A name that RabbitMQ has is spelled as there and means the same, so that dashboards and alerts keep working; where the
meaning differs in a detail, the help says how. Everything else is ours and begins with ``headgate_``.

Names follow Prometheus: a counter's name ends in ``_total``, and units are base units and part of the name.

Series are bounded: addresses by ``metrics.addresses_max``, all other labels by closed lists.
"""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Generic, TypeVar

from core.access.tokens import Tokens
from core.counters.message_sizes import SIZES
from core.counters.traffic import Traffic
from core.interface import Snapshot
from core.observe.buckets import LAG_SECONDS
from core.observe.scrape import Distribution, Labels, Scrape, Series, Value
from core.store.lane import BATCH_RECORDS, SYNC_SECONDS, Lane

Source = TypeVar("Source")
Key = TypeVar("Key", bound=Labels)
Values = Callable[[Source], Value | Series | None]
"""Reads the value of a family without labels, or the values of its series."""


class MetricType(Enum):
    """The kinds of metrics, by how a value may change."""

    COUNTER = "counter"
    """Only grows, until the broker restarts."""
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"
    """Always 1: the information is in the labels."""


@dataclass(frozen=True, slots=True)
class Family(Generic[Source]):
    """All series of one name."""

    name: str
    """The name in a scrape; a histogram's series add ``_bucket``, ``_sum`` and ``_count``."""
    type: MetricType
    help: str
    labels: tuple[str, ...]
    values: Values[Source]
    """Returns the value or values from their source; None where there is none yet, and the family is left out."""

    @property
    def unit(self) -> str:
        """The base unit, taken from the name."""
        stem = self.name.removesuffix("_total")
        return next((unit for unit in ("seconds", "bytes") if stem.endswith(unit)), "count")


def _counter(name: str, values: Values[Source], meaning: str, *labels: str) -> Family[Source]:
    return Family(name, MetricType.COUNTER, meaning, labels, values)


def _gauge(name: str, values: Values[Source], meaning: str, *labels: str) -> Family[Source]:
    return Family(name, MetricType.GAUGE, meaning, labels, values)


def _histogram(name: str, values: Values[Source], meaning: str, *labels: str) -> Family[Source]:
    return Family(name, MetricType.HISTOGRAM, meaning, labels, values)


def _info(name: str, values: Values[Source], meaning: str, *labels: str) -> Family[Source]:
    return Family(name, MetricType.INFO, meaning, labels, values)


def _messages(name: str, meaning: str) -> Family[Scrape]:
    """The figure of each protocol's traffic that has the family's name, without prefix and suffix."""
    figure = name.removeprefix("rabbitmq_global_").removesuffix("_total")
    return _counter(name, _by_protocol(attrgetter(figure)), meaning, "protocol")


def _by_queue(name: str, figures: Sequence[str], meaning: str) -> Family[Scrape]:
    """The sum of these figures of each queue's row."""
    of = _counter if name.endswith("_total") else _gauge
    return of(name, lambda scrape: scrape.by_queue(figures, other=of is _gauge), meaning, "vhost", "queue")


def _of_link(name: str, meaning: str) -> Family[Sequence[Snapshot]]:
    """The field of a link's row that has the family's name, without prefix; links that do not have it are left out."""
    field = name.removeprefix("headgate_link_")
    return _gauge(name, lambda rows: _field_of_links(rows, field), meaning, "link", "direction", "address")


def _field_of_links(rows: Sequence[Snapshot], field: str) -> Series:
    for row in rows:
        value = row.get(field)
        if isinstance(value, int):
            yield (str(row["identity"]), str(row["direction"]), str(row["address"] or "")), value


def _row(kind: str, figure: str) -> Values[Scrape]:
    """A figure of the only row of a kind: ``totals`` of the engine, ``server`` or ``descriptors``."""
    return lambda scrape: scrape.row(kind, figure)


def _queues(*figures: str) -> Values[Scrape]:
    """The sum of these figures over all rows of queues."""
    return lambda scrape: scrape.queues(*figures)


def _alarm(alarm: str, figure: str) -> Values[Scrape]:
    """A figure of an alarm's row."""
    return lambda scrape: scrape.alarm(alarm, figure)


def _lanes(figure: Callable[[Lane], float]) -> Values[Scrape]:
    """The sum over the lanes of the store."""
    return lambda scrape: sum(map(figure, scrape.sources.lanes))


def _by_lane(value: Callable[[Lane], Value]) -> Values[Scrape]:
    """A value of each lane of the store."""
    return lambda scrape: [(lane.name, value(lane)) for lane in scrape.sources.lanes]


def _traffic(figure: Callable[[Traffic], float]) -> Values[Scrape]:
    """The sum over the traffic of all protocols."""
    return lambda scrape: sum(map(figure, scrape.sources.traffic.values()))


def _by_protocol(figure: Callable[[Traffic], Value]) -> Values[Scrape]:
    """A figure of each protocol's traffic."""
    return lambda scrape: scrape.protocols(figure)


def _by_key(figures: Callable[[Traffic], Mapping[Key, float]]) -> Values[Scrape]:
    """Figures by a key, summed over the traffic of all protocols."""
    return lambda scrape: scrape.summed(figures)


def _tokens(figures: Callable[[Tokens], Mapping[str, float]]) -> Values[Scrape]:
    """Figures by a key of what checks tokens; nothing while none are accepted."""
    return lambda scrape: scrape.tokens(figures)


def _balance(figure: str) -> Values[Scrape]:
    """A figure of the balance of link credit, by direction."""
    return lambda scrape: scrape.link_credit(figure)


AGGREGATED = "aggregated"
"""The endpoint of RabbitMQ's that ``/metrics`` stands for: its dashboards choose the series of this one."""

IDENTITY: Sequence[Family[Scrape]] = (
    _info("rabbitmq_build_info",
        lambda scrape: [((scrape.sources.version, "Headgate", scrape.sources.version, AGGREGATED), 1)],
        "What runs here. rabbitmq_version is Headgate's own version",
        "rabbitmq_version", "product_name", "product_version", "rabbitmq_endpoint"),
    _info("rabbitmq_identity_info", lambda scrape: [((scrape.sources.node, scrape.sources.node, AGGREGATED), 1)],
        "Which broker this is; dashboards join by it, and choose the endpoint aggregated",
        "rabbitmq_node", "rabbitmq_cluster", "rabbitmq_endpoint"),
    _info("headgate_build_info", lambda scrape: [((scrape.sources.version, platform.python_version()), 1)],
        "What runs here", "version", "python_version"),
    _gauge("headgate_uptime_seconds", lambda scrape: scrape.sources.monotonic() - scrape.started,
        "Time since the start"),
    _gauge("rabbitmq_erlang_uptime_seconds", lambda scrape: scrape.sources.monotonic() - scrape.started,
        "The same, under the name that RabbitMQ's dashboards have"),
)  # fmt: skip

CONNECTIONS: Sequence[Family[Scrape]] = (
    _gauge("rabbitmq_connections", _row("descriptors", "sockets_used"),
        "Connections that are open, those before authentication included"),
    _counter("rabbitmq_connections_opened_total", _row("server", "accepted"), "Connections that were served"),
    _counter("rabbitmq_connections_closed_total",
        lambda scrape: scrape.row("server", "accepted") - scrape.row("descriptors", "sockets_used"),
        "Connections that were served and are gone"),
    _counter("rabbitmq_connection_incoming_bytes_total", _row("server", "bytes_in"), "Bytes read from clients"),
    _counter("rabbitmq_connection_outgoing_bytes_total", _row("server", "bytes_out"), "Bytes written to clients"),
    _gauge("rabbitmq_channels", _traffic(lambda of: of.channels), "AMQP 0.9.1 channels that are open"),
    _counter("rabbitmq_channels_opened_total", _traffic(lambda of: of.channels_opened),
        "AMQP 0.9.1 channels that were opened"),
    _counter("rabbitmq_channels_closed_total", _traffic(lambda of: of.channels_opened - of.channels),
        "AMQP 0.9.1 channels that were closed"),
    _gauge("rabbitmq_consumers", _queues("consumers"), "Consumers of all queues"),
    _gauge("headgate_connections_unauthenticated", _row("server", "unauthenticated"),
        "Connections whose handshake is not over"),
    _counter("headgate_connections_refused_total", Scrape.refused,
        "Connections that were told no: fds, limit, drain, unauthenticated, unauthenticated_host, handshake_timeout,"
        " wrong_header, auth, decode_error (frames before the open that the broker could not decode) or other",
        "reason"),
    _counter("headgate_tls_handshakes_total", _row("server", "tls_handshakes"), "TLS handshakes that were completed"),
    _counter("headgate_tls_failures_total", _row("server", "tls_failures"),
        "Connections that ended because their TLS, or the header of a proxy, was wrong"),
    _gauge("headgate_certificate_expiry_timestamp_seconds", Scrape.certificates,
        "When a certificate of the broker expires, in seconds since 1970: default, or the name of its entry in tls.sni",
        "certificate"),
    _counter("rabbitmq_auth_attempts_total", _by_protocol(lambda of: of.logins.attempts),
        "Logins that were tried, with a mechanism that is offered", "protocol"),
    _counter("rabbitmq_auth_attempts_succeeded_total", _by_protocol(lambda of: of.logins.succeeded),
        "Of these, logins that succeeded", "protocol"),
    _counter("rabbitmq_auth_attempts_failed_total", _by_protocol(lambda of: of.logins.failed.total()),
        "Of these, logins that failed", "protocol"),
    _counter("headgate_auth_failures_total", _by_key(lambda of: of.logins.failed),
        "Logins that failed, of all protocols", "mechanism"),
    _counter("headgate_logins_put_off_total", _by_key(lambda of: of.logins.put_off),
        "Logins put off because too many had failed or were waiting", "mechanism"),
    _counter("headgate_tokens_total", _tokens(lambda of: of.outcomes),
        "Tokens of OAuth 2 that were checked, for logins and renewals: accepted, or why they were refused", "outcome"),
    _counter("headgate_token_key_fetches_total", _tokens(lambda of: of.keys.fetches),
        "Fetches of the keys that check tokens: done, failed", "result"),
    _counter("headgate_audit_records_total", lambda scrape: scrape.audit(lambda audit: audit.recorded),
        "Records of the audit log"),
    _counter("headgate_audit_records_lost_total", lambda scrape: scrape.audit(lambda audit: audit.lost),
        "Records of the audit log that were lost because audit.waiting_max waited for the disk"),
    _counter("headgate_audit_records_left_out_total", lambda scrape: scrape.audit(lambda audit: audit.left_out),
        "Refused and failed acts beyond audit.refused_per_second_max, of which the audit log has the number only"),
    _counter("headgate_decode_errors_total", _by_key(lambda of: of.flow.decode_errors),
        "What clients sent and the broker could not decode: before authentication (pre_auth), before the open"
        " (pre_open), after it (open), or inside a message (message)", "stage", "condition"),
    _counter("headgate_faults_total", _row("server", "faults"),
        "Connections that ended by a bug of the broker: must be 0"),
)  # fmt: skip

MESSAGES: Sequence[Family[Scrape]] = (
    _messages("rabbitmq_global_messages_received_total", "Messages that publishers sent"),
    _messages("rabbitmq_global_messages_received_confirm_total",
        "Of these, messages that the publisher wants answered: unsettled, or on a channel in confirm mode"),
    _counter("rabbitmq_global_messages_routed_total", Scrape.routed,
        "Messages that at least one queue was found for; each counts once, however many queues it went to", "protocol"),
    _messages("rabbitmq_global_messages_confirmed_total",
        "Messages that at least one queue has taken on and the publisher wanted answered"),
    _messages("rabbitmq_global_messages_unroutable_dropped_total",
        "Messages that no queue wanted and whose publisher is not told"),
    _messages("rabbitmq_global_messages_unroutable_returned_total",
        "Messages that no queue wanted and whose publisher was told: mandatory, or unsettled"),
    _counter("rabbitmq_channel_messages_unroutable_dropped_total", _traffic(lambda of: of.messages_unroutable_dropped),
        "The same, of all protocols, under the name that RabbitMQ's alerts have"),
    _counter("rabbitmq_channel_messages_unroutable_returned_total",
        _traffic(lambda of: of.messages_unroutable_returned), "The same"),
    _messages("rabbitmq_global_messages_delivered_total", "Messages handed to consumers, each time"),
    _messages("rabbitmq_global_messages_delivered_consume_auto_ack_total",
        "Of these, messages that need no acknowledgement"),
    _messages("rabbitmq_global_messages_delivered_consume_manual_ack_total",
        "Of these, messages that the consumer must settle"),
    _messages("rabbitmq_global_messages_delivered_get_auto_ack_total",
        "Of these, messages got with basic.get that need no acknowledgement"),
    _messages("rabbitmq_global_messages_delivered_get_manual_ack_total",
        "Of these, messages got with basic.get that must be acknowledged"),
    _messages("rabbitmq_global_messages_get_empty_total", "basic.get that found nothing"),
    _messages("rabbitmq_global_messages_redelivered_total", "Of those delivered, messages handed out once more"),
    _messages("rabbitmq_global_messages_acknowledged_total", "Deliveries that the consumer settled as accepted"),
    _histogram("rabbitmq_message_size_bytes",
        _by_protocol(lambda of: Distribution(SIZES, of.sizes.counts, of.sizes.total)),
        "Size of messages that publishers sent, as they are encoded", "protocol"),
    _gauge("rabbitmq_global_publishers", _by_protocol(lambda of: of.publishers),
        "Publishers: links that publish, and channels that have published", "protocol"),
    _gauge("rabbitmq_global_consumers", _by_protocol(lambda of: of.consumers), "Consumers", "protocol"),
)  # fmt: skip

QUEUES: Sequence[Family[Scrape]] = (
    _gauge("rabbitmq_queues", _row("totals", "queues"), "Queues that there are"),
    _counter("rabbitmq_queues_declared_total", _row("totals", "queues_declared"),
        "Declarations of queues, also of those that existed"),
    _counter("rabbitmq_queues_created_total", _row("totals", "queues_created"),
        "Queues that were made; not those found at the start"),
    _counter("rabbitmq_queues_deleted_total", _row("totals", "queues_deleted"),
        "Queues that were removed, by whomever"),
    _counter("headgate_messages_repeated_total", _row("totals", "messages_repeated"),
        "Messages that a queue with x-deduplicate had taken on before, and dropped"),
    _gauge("rabbitmq_queue_messages", _queues("messages_ready", "messages_unacknowledged"),
        "Ready and unacknowledged messages of all queues"),
    _gauge("rabbitmq_queue_messages_ready", _queues("messages_ready"),
        "Messages that wait for a consumer, of all queues"),
    _gauge("rabbitmq_queue_messages_unacked", _queues("messages_unacknowledged"),
        "Messages that consumers hold, of all queues"),
    _gauge("rabbitmq_queue_consumers", _queues("consumers"), "Consumers of all queues"),
    _by_queue("rabbitmq_detailed_queue_messages", ("messages_ready", "messages_unacknowledged"),
        "Ready and unacknowledged messages"),
    _by_queue("rabbitmq_detailed_queue_messages_ready", ("messages_ready",), "Messages that wait for a consumer"),
    _by_queue("rabbitmq_detailed_queue_messages_unacked", ("messages_unacknowledged",), "Messages that consumers hold"),
    _by_queue("rabbitmq_detailed_queue_consumers", ("consumers",), "Consumers"),
    _by_queue("rabbitmq_detailed_queue_messages_published_total", ("published",), "Messages taken on"),
    _by_queue("rabbitmq_detailed_queue_messages_delivered_total", ("delivered",), "Messages handed out, each time"),
    _by_queue("rabbitmq_detailed_queue_messages_acked_total", ("accepted",), "Deliveries settled as accepted"),
)  # fmt: skip

LINKS: Sequence[Family[Scrape]] = (
    _gauge("headgate_links", lambda scrape: [(direction, links["count"]) for direction, links in scrape.links.items()],
        "AMQP 1.0 links: in from publishers, out to consumers", "direction"),
    _histogram("headgate_link_credit", Scrape.link_credit_now,
        "Links by the link credit that they have now", "direction"),
    _gauge("headgate_unsettled_deliveries", Scrape.unsettled,
        "In: messages of publishers' links that are not confirmed yet, by target as the publisher named it. Out:"
        " messages that consumers hold, by queue", "address", "direction"),
)  # fmt: skip

FLOW: Sequence[Family[Scrape]] = (
    _counter("headgate_link_blocked_seconds_total", lambda scrape: scrape.sources.stalls.seconds.items(),
        "Time that links, and readers of AMQP 0.9.1, stood still, by [reason](../flow-reasons.md). Readers, and links"
        ' without an address, have the address ""', "address", "direction", "reason"),
    _gauge("headgate_links_blocked", lambda scrape: scrape.sources.stalls.lasting_counts.items(),
        "Links and readers that stand still now and have for 50 ms: those of `headgate stalls list`",
        "address", "direction", "reason"),
    _counter("headgate_session_window_closed_seconds_total",
        lambda scrape: scrape.summed(lambda of: of.flow.closed_windows.seconds(scrape.began)),
        "Time that session windows of AMQP 1.0 were closed. In: the broker's, while an alarm is on. Out: the client's,"
        " while something waits for it; looked at 2.5 times a second", "direction", "reason"),
    _counter("headgate_connection_write_blocked_seconds_total",
        lambda scrape: scrape.sources.full_sockets.seconds(scrape.began),
        "Time that sockets took nothing more, since their clients did not read"),
    _counter("headgate_connection_read_paused_seconds_total", Scrape.read_paused,
        "Time that sockets of publishers were not read: AMQP 0.9.1, which has no other brake", "protocol", "reason"),
    _counter("headgate_link_credit_granted_total", _balance("granted"),
        "Messages that link credit was given for. What was granted is consumed, drained, withdrawn or still there",
        "direction"),
    _counter("headgate_link_credit_consumed_total", _balance("consumed"),
        "Of these, messages that were sent", "direction"),
    _counter("headgate_link_credit_drained_total", _balance("drained"),
        "Of these, messages that the sender had none for, and said so", "direction"),
    _counter("headgate_link_credit_withdrawn_total", _balance("withdrawn"),
        "Of these, messages that the receiver takes no more, or whose link is gone", "direction"),
    _counter("headgate_credit_invariant_violations_total",
        lambda scrape: [(f"link-credit-{of}", links) for of, links in scrape.link_credit("unbalanced")],
        "Links whose granted link credit is not exactly what was consumed, drained, withdrawn and is still there: must"
        " be 0, for link-credit-in and link-credit-out", "kind"),
    _counter("headgate_flow_frames_total", _by_key(lambda of: of.flow.flow_frames),
        "Flow frames of AMQP 1.0, sent and received, by the direction of their link and what they are for: drain, echo"
        " (an answer is wanted), window (of no link; in: the broker's own) or grant, which is all others",
        "direction", "kind"),
    _counter("headgate_transfers_over_credit_total", _traffic(lambda of: of.flow.transfers_over_credit),
        "Messages that came without link credit; each has ended its link"),
    _gauge("headgate_unsettled_oldest_age_seconds", Scrape.oldest,
        "How long the oldest message of AMQP 1.0 links has waited to be settled, 0 where none waits. In: for the"
        " broker's answer, by target as the publisher named it. Out: for the consumer's, by queue; looked at 2.5 times"
        " a second", "address", "direction"),
    _gauge("headgate_consumer_idle_ratio", lambda scrape: scrape.sources.idle_consumers().items(),
        "Share of about the last minute in which a queue had messages and consumers and none of these could be handed"
        " one: link credit, prefetch count, window or socket was used up. Streams and queues where it is 0 are left"
        " out", "address"),
    _histogram("headgate_settle_latency_seconds", Scrape.settle_seconds,
        "From the arrival of a message whose publisher wants an answer to that answer", "protocol", "durable"),
    _counter("headgate_stage_credit_blocked_seconds_total", Scrape.stages,
        "Time that stages were without stage credit, added up over all of a kind: reader, channel, queue, store",
        "stage"),
    _gauge("headgate_alarm_active", Scrape.alarms_on,
        "1 while an alarm (level alarm: publishers wait) or notice is on", "alarm", "level"),
    _counter("headgate_alarm_seconds_total", lambda scrape: scrape.sources.lag.alarm_seconds().items(),
        "Time that an alarm or notice has been on", "alarm"),
    _gauge("rabbitmq_alarms_memory_used_watermark", _alarm("memory", "on"), "1 while the memory alarm is on"),
    _gauge("rabbitmq_alarms_free_disk_space_watermark", _alarm("disk", "on"), "1 while the disk alarm is on"),
    _gauge("rabbitmq_alarms_file_descriptor_limit", _alarm("descriptors", "on"), "1 while descriptors are running out"),
)  # fmt: skip

PROCESS: Sequence[Family[Scrape]] = (
    _gauge("rabbitmq_process_open_fds", _row("descriptors", "total_used"), "Descriptors in use"),
    _gauge("rabbitmq_process_max_fds", _row("descriptors", "total_limit"), "Descriptors that the process may have"),
    _gauge("rabbitmq_process_open_tcp_sockets", _row("descriptors", "sockets_used"), "Connections of clients"),
    _gauge("rabbitmq_process_max_tcp_sockets", _row("descriptors", "sockets_limit"),
        "Connections that clients may have"),
    _gauge("rabbitmq_process_resident_memory_bytes", _alarm("memory", "used"),
        "Memory in use, as measured last (each second)"),
    _gauge("rabbitmq_resident_memory_limit_bytes", _alarm("memory", "limit"),
        "Memory in use at which the alarm begins"),
    _gauge("rabbitmq_disk_space_available_bytes", _alarm("disk", "free"),
        "Free space on the disk of the data folder, as measured last"),
    _gauge("rabbitmq_disk_space_available_limit_bytes", _alarm("disk", "limit"),
        "Free space at which the alarm begins"),
    _histogram("headgate_event_loop_lag_seconds",
        lambda scrape: Distribution(LAG_SECONDS, scrape.sources.lag.lag_counts, scrape.sources.lag.lag_seconds),
        "How late the event loop woke the task that samples"),
    _counter("headgate_trace_spans_total",
        lambda scrape: None if scrape.sources.traces is None else scrape.sources.traces.counts().items(),
        "Spans of traced messages: sent to the collector, failed (it did not take them) or dropped (too many waited)",
        "result"),
    _gauge("headgate_limit_used", lambda scrape: [(limit, used) for limit, (used, _) in scrape.limits().items()],
        "How much of a limit is used", "limit"),
    _gauge("headgate_limit_max", lambda scrape: [(limit, most) for limit, (_, most) in scrape.limits().items()],
        "The limit", "limit"),
)  # fmt: skip

STORE: Sequence[Family[Scrape]] = (
    _counter("rabbitmq_io_write_ops_total", _lanes(lambda lane: lane.batches), "Batches written"),
    _counter("rabbitmq_io_write_bytes_total", _lanes(lambda lane: lane.written_bytes), "Bytes written"),
    _counter("rabbitmq_io_write_time_seconds_total", _lanes(lambda lane: lane.write_seconds), "Time that writes took"),
    _counter("rabbitmq_io_sync_ops_total", _lanes(lambda lane: lane.syncs),
        "Syncs of a lane; one may cover several files"),
    _counter("rabbitmq_io_sync_time_seconds_total", _lanes(lambda lane: lane.sync_seconds), "Time that syncs took"),
    _gauge("headgate_store_staged_bytes", _by_lane(lambda lane: lane.staged_bytes),
        "Bytes that wait to be written", "lane"),
    _histogram("headgate_store_fsync_seconds",
        _by_lane(lambda lane: Distribution(SYNC_SECONDS, lane.sync_counts, lane.sync_seconds)),
        "How long a sync of a lane took", "lane"),
    _histogram("headgate_store_batch_messages",
        _by_lane(lambda lane: Distribution(BATCH_RECORDS, lane.batch_counts, lane.written)),
        "Records that one write batch brought: messages, mostly", "lane"),
)  # fmt: skip

SCRAPE: Sequence[Family[Scrape]] = (
    _gauge("headgate_series", lambda scrape: scrape.series + 2, "Series of this scrape"),
    _gauge("headgate_scrape_duration_seconds", lambda scrape: scrape.sources.monotonic() - scrape.began,
        "Time that this scrape took, pauses for others included"),
)  # fmt: skip

ON_DEMAND: Sequence[Family[Sequence[Snapshot]]] = (
    _of_link("headgate_link_link_credit", "Link credit"),
    _of_link("headgate_link_delivery_count", "delivery-count, modulo 2**32"),
    _of_link("headgate_link_unconfirmed", "In: messages that are not confirmed yet"),
    _of_link("headgate_link_waiting", "Out: messages that wait for the socket or a window"),
    _of_link("headgate_link_queue_grant", "Out: messages that the queue may still hand out"),
)  # fmt: skip
"""Metrics of single links: not in ``/metrics``, only in answers to requests for them."""

FAMILIES = (*IDENTITY, *CONNECTIONS, *MESSAGES, *QUEUES, *LINKS, *FLOW, *PROCESS, *STORE, *SCRAPE)
"""All metrics in ``/metrics``, in their order there."""
