"""A broker under load, a Prometheus with our files that scrapes it, and alerts that fire and clear."""

from pathlib import Path

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from core.observe.metric_families import FAMILIES, MetricType
from tests.kit.busy_broker import TOKEN, busy_broker
from tests.kit.monitoring_files import expressions_of, families_in, panels
from tests.kit.prometheus_server import PrometheusServer, prometheus_server

RABBITMQ_OVERVIEW = [
    "rabbitmq_build_info",
    "rabbitmq_channels",
    "rabbitmq_channels_closed_total",
    "rabbitmq_channels_opened_total",
    "rabbitmq_connections",
    "rabbitmq_connections_closed_total",
    "rabbitmq_connections_opened_total",
    "rabbitmq_consumers",
    "rabbitmq_disk_space_available_bytes",
    "rabbitmq_disk_space_available_limit_bytes",
    "rabbitmq_erlang_uptime_seconds",
    "rabbitmq_global_messages_acknowledged_total",
    "rabbitmq_global_messages_confirmed_total",
    "rabbitmq_global_messages_delivered_consume_auto_ack_total",
    "rabbitmq_global_messages_delivered_consume_manual_ack_total",
    "rabbitmq_global_messages_delivered_get_auto_ack_total",
    "rabbitmq_global_messages_delivered_get_manual_ack_total",
    "rabbitmq_global_messages_get_empty_total",
    "rabbitmq_global_messages_received_confirm_total",
    "rabbitmq_global_messages_received_total",
    "rabbitmq_global_messages_redelivered_total",
    "rabbitmq_global_messages_routed_total",
    "rabbitmq_global_messages_unroutable_dropped_total",
    "rabbitmq_global_messages_unroutable_returned_total",
    "rabbitmq_global_publishers",
    "rabbitmq_identity_info",
    "rabbitmq_message_size_bytes_bucket",
    "rabbitmq_process_max_fds",
    "rabbitmq_process_max_tcp_sockets",
    "rabbitmq_process_open_fds",
    "rabbitmq_process_open_tcp_sockets",
    "rabbitmq_process_resident_memory_bytes",
    "rabbitmq_queue_messages_ready",
    "rabbitmq_queue_messages_unacked",
    "rabbitmq_queues",
    "rabbitmq_queues_created_total",
    "rabbitmq_queues_declared_total",
    "rabbitmq_queues_deleted_total",
    "rabbitmq_resident_memory_limit_bytes",
]
"""The series that the panels of RabbitMQ's dashboard "RabbitMQ-Overview" read. Left out are rabbitmq_erlang_… but for
the uptime, which Headgate does not have."""

RABBITMQ_ALERTS = [
    "rabbitmq_alarms_file_descriptor_limit",
    "rabbitmq_alarms_free_disk_space_watermark",
    "rabbitmq_alarms_memory_used_watermark",
    "rabbitmq_channel_messages_unroutable_dropped_total",
    "rabbitmq_channel_messages_unroutable_returned_total",
    "rabbitmq_connections_closed_total",
    "rabbitmq_connections_opened_total",
    "rabbitmq_detailed_queue_consumers",
    "rabbitmq_detailed_queue_messages",
    "rabbitmq_disk_space_available_bytes",
    "rabbitmq_disk_space_available_limit_bytes",
    "rabbitmq_process_max_fds",
    "rabbitmq_process_max_tcp_sockets",
    "rabbitmq_process_open_fds",
    "rabbitmq_process_open_tcp_sockets",
]
"""The series that the alert rules of RabbitMQ's cluster operator read. Left out are the links between Erlang nodes, and
what Kubernetes tells."""

OF_ALERTS = (
    "max by (rabbitmq_cluster) (max_over_time({name}[5m])"
    " * on(instance) group_left(rabbitmq_cluster, rabbitmq_node) rabbitmq_identity_info)"
)
"""How these rules join a series to the name of the cluster: there must be one row of identity for each instance."""

JOINED = (
    "sum({name} * on(instance, job) group_left(rabbitmq_cluster, rabbitmq_node)"
    ' rabbitmq_identity_info{{rabbitmq_endpoint="aggregated"}})'
)
"""The query with which that dashboard asks for every series, of the endpoint that it offers first."""

NOTHING_TO_TELL = {
    "headgate_certificate_expiry_timestamp_seconds",
    "headgate_auth_failures_total",
    "headgate_logins_put_off_total",
    "headgate_connection_read_paused_seconds_total",
    "headgate_decode_errors_total",
    "headgate_session_window_closed_seconds_total",
    "headgate_tokens_total",
    "headgate_token_key_fetches_total",
    "headgate_trace_spans_total",
}
"""Families whose series begin with an event that does not happen in this test."""

EMPTY_AT_TIMES = {"Queues that grow"}
"""Panels that may be empty in this test."""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_alerts_for_blocked_publishers_fire_and_clear(prometheus_program: str, tmp_path: Path):
    with busy_broker(tmp_path, token=TOKEN) as broker:
        address, token = broker.admin_url.removeprefix("http://"), tmp_path / "token"
        with prometheus_server(prometheus_program, tmp_path, broker=address, token_file=token) as prometheus:
            firing = prometheus.until(lambda: prometheus.firing("HeadgatePublisherBlocked"))
            assert [(one["address"], one["reason"]) for one in firing] == [("/queues/orders", "queue-full")]
            everything_is_scraped(prometheus)
            dashboards_of_rabbitmq_work(prometheus)
            every_panel_has_something_to_show(prometheus)
            broker.free_orders()
            prometheus.until(lambda: not prometheus.firing("HeadgatePublisherBlocked"))

            assert prometheus.firing("HeadgateAlarm") == []
            assert run(["alarms", "set", "memory", "--url", broker.amqp_url]) is Exit.DONE
            (alarm,) = prometheus.until(lambda: prometheus.firing("HeadgateAlarm"))
            assert alarm["alarm"] == "memory"
            firing = prometheus.until(lambda: prometheus.firing("HeadgatePublisherBlocked"))
            assert {one["reason"] for one in firing} == {"memory"}
            assert run(["alarms", "clear", "memory", "--url", broker.amqp_url]) is Exit.DONE
            prometheus.until(lambda: not prometheus.firing("HeadgateAlarm"))
            prometheus.until(lambda: not prometheus.firing("HeadgatePublisherBlocked"))


def everything_is_scraped(prometheus: PrometheusServer) -> None:
    expected = {family.name + ("_count" if family.type is MetricType.HISTOGRAM else "") for family in FAMILIES}
    assert expected - prometheus.names() <= NOTHING_TO_TELL


def dashboards_of_rabbitmq_work(prometheus: PrometheusServer) -> None:
    for name in RABBITMQ_OVERVIEW:
        assert len(prometheus.ask(JOINED.format(name=name))) == 1, name
    for name in RABBITMQ_ALERTS:
        assert len(prometheus.ask(OF_ALERTS.format(name=name))) == 1, name


def every_panel_has_something_to_show(prometheus: PrometheusServer) -> None:
    empty = {
        panel["title"]
        for panel in panels()
        for expression in expressions_of(panel)
        if not prometheus.ask(expression) and not families_in(expression) <= NOTHING_TO_TELL
    }
    assert empty <= EMPTY_AT_TIMES
