"""Translates Headgate's rows into rows of RabbitMQ's management API.

A row has RabbitMQ's field for each fact that Headgate has. Fields for other facts are left out, unless RabbitMQ's own
tools read them (version 2 of rabbitmqadmin refuses a whole list without them); then they have the value that means
none. Times are milliseconds. There is one virtual host and one
node.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from urllib.parse import quote

from core.admin.api.rendering import render
from core.interface import Snapshot
from core.rows import count_in

VHOST = "/"
CONNECTION_STATES: Mapping[object, str] = {"OPENED": "running"}
"""RabbitMQ's names for states of AMQP 1.0 connections. The states of AMQP 0.9.1 connections have RabbitMQ's names
already."""
PROTOCOLS: Mapping[object, str] = {"amqp-1.0": "AMQP 1-0", "amqp-0-9-1": "AMQP 0-9-1"}
DEFAULT_EXCHANGE: Snapshot = {
    "name": "",
    "type": "direct",
    "durable": True,
    "auto_delete": False,
    "internal": False,
    "arguments": {},
}
"""The default exchange, which exists without a declaration."""


def queue_row(row: Snapshot, node: str) -> Snapshot:
    """Return RabbitMQ's row of a queue."""
    ready, unacked = count_in(row, "messages_ready"), count_in(row, "messages_unacknowledged")
    return {
        "name": row["name"],
        "vhost": VHOST,
        "type": row["type"],
        "durable": row["durable"],
        "auto_delete": row["auto_delete"],
        "exclusive": row["exclusive"],
        "arguments": row["arguments"],
        "policy": row.get("policy"),
        "node": node,
        "state": "running",
        "consumers": row["consumers"],
        "messages": ready + unacked,
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
        "message_stats": {
            "publish": count_in(row, "published"),
            "deliver_get": count_in(row, "delivered"),
            "ack": count_in(row, "accepted"),
        },
    }


def exchange_row(row: Snapshot, node: str = "") -> Snapshot:
    """Return RabbitMQ's row of an exchange."""
    fields = ("name", "type", "durable", "auto_delete", "internal", "arguments")
    return {"vhost": VHOST, **{field: row[field] for field in fields}}


def binding_row(row: Snapshot, node: str = "") -> Snapshot:
    """Return RabbitMQ's row of a binding."""
    return {
        "source": row["source"],
        "vhost": VHOST,
        "destination": row["destination"],
        "destination_type": "queue" if row["destination_is_queue"] else "exchange",
        "routing_key": row["binding_key"],
        "arguments": row["arguments"],
        "properties_key": properties_key(str(row["binding_key"]), row["arguments"]),
    }


def default_binding_row(queue: object) -> Snapshot:
    """Return the row of a queue's binding to the default exchange, which each queue has under its name."""
    return binding_row(
        {"source": "", "destination": queue, "destination_is_queue": True, "binding_key": queue, "arguments": {}}
    )


def properties_key(routing_key: str, arguments: object) -> str:
    """Return the key that distinguishes bindings between the same two ends. It is opaque: a client reads it from a row
    in order to unbind."""
    if not arguments:
        return quote(routing_key, safe="") or "~"
    digest = sha256(render(arguments)).digest()
    return quote(routing_key, safe="") + "~" + urlsafe_b64encode(digest[:12]).decode("ascii")


def connection_row(row: Snapshot, node: str) -> Snapshot:
    """Return RabbitMQ's row of a connection. Its name is Headgate's identity of the connection."""
    return {
        "name": row["identity"],
        "vhost": VHOST,
        "node": node,
        "protocol": PROTOCOLS.get(row.get("protocol"), row.get("protocol")),
        "user": row.get("user"),
        "state": CONNECTION_STATES.get(row.get("state"), row.get("state")),
        "container_id": row.get("container_id"),
        "user_provided_name": row.get("container_id"),
        "peer_host": row["remote_host"],
        "peer_port": row["remote_port"],
        "host": row["local_host"],
        "port": row["local_port"],
        "connected_at": _milliseconds(row.get("accepted_at")),
        "recv_oct": row["bytes_in"],
        "send_oct": row["bytes_out"],
        "send_pend": row["unsent_bytes"],
        "channels": row.get("channels", row.get("sessions", 0)),
        "ssl": row.get("tls") is not None,
        "ssl_protocol": row.get("tls"),
        "ssl_cipher": row.get("cipher"),
        "peer_cert_subject": row.get("client_certificate"),
        "client_properties": {},
    }


def connection_details(row: Snapshot) -> Snapshot:
    """Return the part of a connection's row that RabbitMQ shows in the rows of its channels."""
    return {"name": row["identity"], "peer_host": row["remote_host"], "peer_port": row["remote_port"]}


def channel_row(row: Snapshot, node: str) -> Snapshot:
    """Return RabbitMQ's row of an AMQP 0.9.1 channel. The row of its connection has the rest of the details."""
    return {
        "name": row["identity"],
        "vhost": VHOST,
        "node": node,
        "number": row["channel"],
        "connection_details": {"name": row["connection"]},
        "state": "flow" if row["stage_credit_state"] == "flow" else "running",
        "confirm": row["confirming"],
        "transactional": row["transactional"],
        "messages_unacknowledged": row["unacked"],
        "messages_unconfirmed": row["unconfirmed"],
        "consumer_count": row["consumers"],
        "prefetch_count": row["prefetch_count"],
        "global_prefetch_count": row["channel_prefetch_count"],
    }


def consumer_row(row: Snapshot, node: str = "") -> Snapshot:
    """Return RabbitMQ's row of a consumer, without its connection, which the engine does not know.

    ``prefetch_count`` is the bound that a policy sets: those of channels and link credit are facts of the connection.
    There and in ``consumer_timeout`` 0 means none.
    """
    return {
        "consumer_tag": row["name"],
        "queue": {"name": row["queue"], "vhost": VHOST},
        "exclusive": row["exclusive"],
        "active": row["active"],
        "activity_status": "up" if row["active"] else "waiting",
        "ack_required": not row["settled_when_sent"],
        "prefetch_count": row["unsettled_max"] or 0,
        "consumer_timeout": row["timeout_ms"] or 0,
        "channel_details": {},
        "arguments": {"x-priority": row["priority"]},
        "messages_unacknowledged": row["messages_unacknowledged"],
    }


def policy_row(row: Snapshot, node: str = "") -> Snapshot:
    """Return RabbitMQ's row of a policy."""
    return {
        "vhost": VHOST,
        "name": row["name"],
        "pattern": row["pattern"],
        "apply-to": row["apply_to"],
        "definition": row["definition"],
        "priority": row["priority"],
    }


def _milliseconds(seconds: object) -> int | None:
    return round(seconds * 1000) if isinstance(seconds, int | float) else None
