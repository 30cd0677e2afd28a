"""The metrics as data: names, types, labels, units and meanings. The collector takes its families from this table and
``docs/operating/metrics.md`` its rows; alert rules and dashboards are checked against it.

A name that RabbitMQ has is spelled as there and means the same, so that dashboards and alerts keep working; where the
meaning differs in a detail, the help says how. Everything else is ours and begins with ``headgate_``.

Names follow Prometheus: a counter's name ends in ``_total``, and units are base units and part of the name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

OTHER = "_other"
"""The label of all addresses beyond ``metrics.addresses_max``. Gauges of these addresses are added up here. Their
counters are in the totals only, since a sum over changing addresses goes down."""


class MetricType(Enum):
    """The kinds of metrics, by how a value may change."""

    COUNTER = "counter"
    """Only grows, until the broker restarts."""
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"
    """Always 1: the information is in the labels."""


@dataclass(frozen=True, slots=True)
class Family:
    """All series of one name."""

    name: str
    """The name in a scrape; a histogram's series add ``_bucket``, ``_sum`` and ``_count``."""
    type: MetricType
    help: str
    labels: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """The base unit, taken from the name."""
        stem = self.name.removesuffix("_total")
        return next((unit for unit in ("seconds", "bytes") if stem.endswith(unit)), "count")


def _counter(name: str, meaning: str, *labels: str) -> Family:
    return Family(name, MetricType.COUNTER, meaning, labels)


def _gauge(name: str, meaning: str, *labels: str) -> Family:
    return Family(name, MetricType.GAUGE, meaning, labels)


def _histogram(name: str, meaning: str, *labels: str) -> Family:
    return Family(name, MetricType.HISTOGRAM, meaning, labels)


IDENTITY: Sequence[Family] = (
    Family(
        "rabbitmq_build_info",
        MetricType.INFO,
        "What runs here. rabbitmq_version is Headgate's own version",
        ("rabbitmq_version", "product_name", "product_version"),
    ),
    Family(
        "rabbitmq_identity_info",
        MetricType.INFO,
        "Which broker this is; dashboards join by it",
        ("rabbitmq_node", "rabbitmq_cluster"),
    ),
    Family("headgate_build_info", MetricType.INFO, "What runs here", ("version", "python_version")),
    _gauge("headgate_uptime_seconds", "Time since the start"),
)

CONNECTIONS: Sequence[Family] = (
    _gauge("rabbitmq_connections", "Connections that are open, those before authentication included"),
    _counter("rabbitmq_connections_opened_total", "Connections that were served"),
    _counter("rabbitmq_connections_closed_total", "Connections that were served and are gone"),
    _counter("rabbitmq_connection_incoming_bytes_total", "Bytes read from clients"),
    _counter("rabbitmq_connection_outgoing_bytes_total", "Bytes written to clients"),
    _gauge("rabbitmq_channels", "AMQP 0.9.1 channels that are open"),
    _counter("rabbitmq_channels_opened_total", "AMQP 0.9.1 channels that were opened"),
    _counter("rabbitmq_channels_closed_total", "AMQP 0.9.1 channels that were closed"),
    _gauge("rabbitmq_consumers", "Consumers of all queues"),
    _gauge("headgate_connections_unauthenticated", "Connections whose handshake is not over"),
    _counter(
        "headgate_connections_refused_total",
        "Connections that were told no: fds, limit, drain, unauthenticated, unauthenticated_host, handshake_timeout,"
        " wrong_header, auth, decode_error (frames before the open that the broker could not decode) or other",
        "reason",
    ),
    _counter("rabbitmq_auth_attempts_total", "Logins that were tried, with a mechanism that is offered", "protocol"),
    _counter("rabbitmq_auth_attempts_succeeded_total", "Of these, logins that succeeded", "protocol"),
    _counter("rabbitmq_auth_attempts_failed_total", "Of these, logins that failed", "protocol"),
    _counter("headgate_auth_failures_total", "Logins that failed, of all protocols", "mechanism"),
    _counter(
        "headgate_logins_put_off_total", "Logins put off because too many had failed or were waiting", "mechanism"
    ),
    _counter(
        "headgate_decode_errors_total",
        "What clients sent and the broker could not decode: before authentication (pre_auth), before the open"
        " (pre_open), after it (open), or inside a message (message)",
        "stage",
        "condition",
    ),
    _counter("headgate_faults_total", "Connections that ended by a bug of the broker: must be 0"),
)

MESSAGES: Sequence[Family] = (
    _counter("rabbitmq_global_messages_received_total", "Messages that publishers sent", "protocol"),
    _counter(
        "rabbitmq_global_messages_received_confirm_total",
        "Of these, messages that the publisher wants answered: unsettled, or on a channel in confirm mode",
        "protocol",
    ),
    _counter(
        "rabbitmq_global_messages_routed_total",
        "Messages that at least one queue was found for; each counts once, however many queues it went to",
        "protocol",
    ),
    _counter(
        "rabbitmq_global_messages_confirmed_total",
        "Messages that at least one queue has taken on and the publisher wanted answered",
        "protocol",
    ),
    _counter(
        "rabbitmq_global_messages_unroutable_dropped_total",
        "Messages that no queue wanted and whose publisher is not told",
        "protocol",
    ),
    _counter(
        "rabbitmq_global_messages_unroutable_returned_total",
        "Messages that no queue wanted and whose publisher was told: mandatory, or unsettled",
        "protocol",
    ),
    _counter("rabbitmq_global_messages_delivered_total", "Messages handed to consumers, each time", "protocol"),
    _counter(
        "rabbitmq_global_messages_delivered_consume_auto_ack_total",
        "Of these, messages that need no acknowledgement",
        "protocol",
    ),
    _counter(
        "rabbitmq_global_messages_delivered_consume_manual_ack_total",
        "Of these, messages that the consumer must settle",
        "protocol",
    ),
    _counter(
        "rabbitmq_global_messages_delivered_get_auto_ack_total",
        "Of these, messages got with basic.get that need no acknowledgement",
        "protocol",
    ),
    _counter(
        "rabbitmq_global_messages_delivered_get_manual_ack_total",
        "Of these, messages got with basic.get that must be acknowledged",
        "protocol",
    ),
    _counter("rabbitmq_global_messages_get_empty_total", "basic.get that found nothing", "protocol"),
    _counter(
        "rabbitmq_global_messages_redelivered_total", "Of those delivered, messages handed out once more", "protocol"
    ),
    _counter(
        "rabbitmq_global_messages_acknowledged_total", "Deliveries that the consumer settled as accepted", "protocol"
    ),
    _gauge(
        "rabbitmq_global_publishers", "Publishers: links that publish, and channels that have published", "protocol"
    ),
    _gauge("rabbitmq_global_consumers", "Consumers", "protocol"),
)

QUEUES: Sequence[Family] = (
    _gauge("rabbitmq_queues", "Queues that there are"),
    _counter("rabbitmq_queues_declared_total", "Declarations of queues, also of those that existed"),
    _counter("rabbitmq_queues_created_total", "Queues that were made; not those found at the start"),
    _counter("rabbitmq_queues_deleted_total", "Queues that were removed, by whomever"),
    _gauge("rabbitmq_queue_messages", "Ready and unacknowledged messages of all queues"),
    _gauge("rabbitmq_queue_messages_ready", "Messages that wait for a consumer, of all queues"),
    _gauge("rabbitmq_queue_messages_unacked", "Messages that consumers hold, of all queues"),
    _gauge("rabbitmq_queue_consumers", "Consumers of all queues"),
    _gauge("rabbitmq_detailed_queue_messages", "Ready and unacknowledged messages", "vhost", "queue"),
    _gauge("rabbitmq_detailed_queue_messages_ready", "Messages that wait for a consumer", "vhost", "queue"),
    _gauge("rabbitmq_detailed_queue_messages_unacked", "Messages that consumers hold", "vhost", "queue"),
    _gauge("rabbitmq_detailed_queue_consumers", "Consumers", "vhost", "queue"),
    _counter("rabbitmq_detailed_queue_messages_published_total", "Messages taken on", "vhost", "queue"),
    _counter("rabbitmq_detailed_queue_messages_delivered_total", "Messages handed out, each time", "vhost", "queue"),
    _counter("rabbitmq_detailed_queue_messages_acked_total", "Deliveries settled as accepted", "vhost", "queue"),
)

LINKS: Sequence[Family] = (
    _gauge("headgate_links", "AMQP 1.0 links: in from publishers, out to consumers", "direction"),
    _histogram("headgate_link_credit", "Links by the link credit that they have now", "direction"),
    _gauge(
        "headgate_unsettled_deliveries",
        "In: messages of publishers' links that are not confirmed yet, by target as the publisher named it. Out:"
        " messages that consumers hold, by queue",
        "address",
        "direction",
    ),
)

FLOW: Sequence[Family] = (
    _counter(
        "headgate_link_blocked_seconds_total",
        "Time that links, and readers of AMQP 0.9.1, stood still, by [reason](../flow-reasons.md). Readers, and links"
        ' without an address, have the address ""',
        "address",
        "direction",
        "reason",
    ),
    _gauge(
        "headgate_links_blocked",
        "Links and readers that stand still now and have for 50 ms: those of `headgate stalls list`",
        "address",
        "direction",
        "reason",
    ),
    _counter(
        "headgate_session_window_closed_seconds_total",
        "Time that session windows of AMQP 1.0 were closed. In: the broker's, while an alarm is on. Out: the client's,"
        " while something waits for it; looked at 2.5 times a second",
        "direction",
        "reason",
    ),
    _counter(
        "headgate_connection_write_blocked_seconds_total",
        "Time that sockets took nothing more, since their clients did not read",
    ),
    _counter(
        "headgate_connection_read_paused_seconds_total",
        "Time that sockets of publishers were not read: AMQP 0.9.1, which has no other brake",
        "protocol",
        "reason",
    ),
    _counter(
        "headgate_link_credit_granted_total",
        "Messages that link credit was given for. What was granted is consumed, drained, withdrawn or still there",
        "direction",
    ),
    _counter("headgate_link_credit_consumed_total", "Of these, messages that were sent", "direction"),
    _counter(
        "headgate_link_credit_drained_total",
        "Of these, messages that the sender had none for, and said so",
        "direction",
    ),
    _counter(
        "headgate_link_credit_withdrawn_total",
        "Of these, messages that the receiver takes no more, or whose link is gone",
        "direction",
    ),
    _counter(
        "headgate_credit_invariant_violations_total",
        "Links whose granted link credit is not exactly what was consumed, drained, withdrawn and is still there: must"
        " be 0, for link-credit-in and link-credit-out",
        "kind",
    ),
    _counter(
        "headgate_flow_frames_total",
        "Flow frames of AMQP 1.0, sent and received, by the direction of their link and what they are for: drain, echo"
        " (an answer is wanted), window (of no link; in: the broker's own) or grant, which is all others",
        "direction",
        "kind",
    ),
    _counter("headgate_transfers_over_credit_total", "Messages that came without link credit; each has ended its link"),
    _gauge(
        "headgate_unsettled_oldest_age_seconds",
        "How long the oldest message of AMQP 1.0 links has waited to be settled, 0 where none waits. In: for the"
        " broker's answer, by target as the publisher named it. Out: for the consumer's, by queue; looked at 2.5 times"
        " a second",
        "address",
        "direction",
    ),
    _gauge(
        "headgate_consumer_idle_ratio",
        "Share of about the last minute in which a queue had messages and consumers and none of these could be handed"
        " one: link credit, prefetch count, window or socket was used up. Streams and queues where it is 0 are left"
        " out",
        "address",
    ),
    _histogram(
        "headgate_settle_latency_seconds",
        "From the arrival of a message whose publisher wants an answer to that answer",
        "protocol",
        "durable",
    ),
    _counter(
        "headgate_stage_credit_blocked_seconds_total",
        "Time that stages were without stage credit, added up over all of a kind: reader, channel, queue, store",
        "stage",
    ),
    _gauge(
        "headgate_alarm_active", "1 while an alarm (level alarm: publishers wait) or notice is on", "alarm", "level"
    ),
    _counter("headgate_alarm_seconds_total", "Time that an alarm or notice has been on", "alarm"),
    _gauge("rabbitmq_alarms_memory_used_watermark", "1 while the memory alarm is on"),
    _gauge("rabbitmq_alarms_free_disk_space_watermark", "1 while the disk alarm is on"),
    _gauge("rabbitmq_alarms_file_descriptor_limit", "1 while descriptors are running out"),
)

PROCESS: Sequence[Family] = (
    _gauge("rabbitmq_process_open_fds", "Descriptors in use"),
    _gauge("rabbitmq_process_max_fds", "Descriptors that the process may have"),
    _gauge("rabbitmq_process_open_tcp_sockets", "Connections of clients"),
    _gauge("rabbitmq_process_max_tcp_sockets", "Connections that clients may have"),
    _gauge("rabbitmq_process_resident_memory_bytes", "Memory in use, as measured last (each second)"),
    _gauge("rabbitmq_resident_memory_limit_bytes", "Memory in use at which the alarm begins"),
    _gauge("rabbitmq_disk_space_available_bytes", "Free space on the disk of the data folder, as measured last"),
    _gauge("rabbitmq_disk_space_available_limit_bytes", "Free space at which the alarm begins"),
    _histogram("headgate_event_loop_lag_seconds", "How late the event loop woke the task that samples"),
    _gauge("headgate_limit_used", "How much of a limit is used", "limit"),
    _gauge("headgate_limit_max", "The limit", "limit"),
)

STORE: Sequence[Family] = (
    _counter("rabbitmq_io_write_ops_total", "Batches written"),
    _counter("rabbitmq_io_write_bytes_total", "Bytes written"),
    _counter("rabbitmq_io_write_time_seconds_total", "Time that writes took"),
    _counter("rabbitmq_io_sync_ops_total", "Syncs of a lane; one may cover several files"),
    _counter("rabbitmq_io_sync_time_seconds_total", "Time that syncs took"),
    _gauge("headgate_store_staged_bytes", "Bytes that wait to be written", "lane"),
    _histogram("headgate_store_fsync_seconds", "How long a sync of a lane took", "lane"),
    _histogram("headgate_store_batch_messages", "Records that one write batch brought: messages, mostly", "lane"),
)

SCRAPE: Sequence[Family] = (
    _gauge("headgate_series", "Series of this scrape"),
    _gauge("headgate_scrape_duration_seconds", "Time that this scrape took, pauses for others included"),
)

ON_DEMAND: Sequence[Family] = (
    _gauge("headgate_link_link_credit", "Link credit", "link", "direction", "address"),
    _gauge("headgate_link_delivery_count", "delivery-count, modulo 2**32", "link", "direction", "address"),
    _gauge("headgate_link_unconfirmed", "In: messages that are not confirmed yet", "link", "direction", "address"),
    _gauge(
        "headgate_link_waiting", "Out: messages that wait for the socket or a window", "link", "direction", "address"
    ),
    _gauge(
        "headgate_link_queue_grant", "Out: messages that the queue may still hand out", "link", "direction", "address"
    ),
)
"""Metrics of single links: not in ``/metrics``, only in answers to requests for them."""

FAMILIES: Sequence[Family] = (
    *IDENTITY,
    *CONNECTIONS,
    *MESSAGES,
    *QUEUES,
    *LINKS,
    *FLOW,
    *PROCESS,
    *STORE,
    *SCRAPE,
)
"""All metrics in ``/metrics``, in their order there."""

BY_NAME = {family.name: family for family in (*FAMILIES, *ON_DEMAND)}
