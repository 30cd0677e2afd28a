"""Our rows in the words of RabbitMQ's management API.

Its field names are used where we have the fact. Of what we have not, the fields that its own tools read are there with
the value that means none; others are left out. Times are milliseconds. There is one virtual host and one node.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from urllib.parse import quote

from core.admin.api.rendering import render
from core.interface import Snapshot

VHOST = "/"
CONNECTION_STATES: Mapping[object, str] = {"OPENED": "running"}
"""Ours that it has another word for. Those of AMQP 0.9.1 are its own."""
PROTOCOLS: Mapping[object, str] = {"amqp-1.0": "AMQP 1-0", "amqp-0-9-1": "AMQP 0-9-1"}
DEFAULT_EXCHANGE: Snapshot = {
    "name": "",
    "type": "direct",
    "durable": True,
    "auto_delete": False,
    "internal": False,
    "arguments": {},
}
"""It is there without having been declared."""


def queue_row(row: Snapshot, node: str) -> Snapshot:
    """A queue."""
    ready, unacked = _int(row, "messages_ready"), _int(row, "messages_unacknowledged")
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
            "publish": _int(row, "published"),
            "deliver_get": _int(row, "delivered"),
            "ack": _int(row, "accepted"),
        },
    }


def exchange_row(row: Snapshot) -> Snapshot:
    """An exchange."""
    fields = ("name", "type", "durable", "auto_delete", "internal", "arguments")
    return {"vhost": VHOST, **{field: row[field] for field in fields}}


def binding_row(row: Snapshot) -> Snapshot:
    """A binding that was made."""
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
    """Every queue is bound to the default exchange by its name."""
    return binding_row(
        {"source": "", "destination": queue, "destination_is_queue": True, "binding_key": queue, "arguments": {}}
    )


def properties_key(routing_key: str, arguments: object) -> str:
    """The key that tells bindings of the same two ends apart. Opaque: a client that wants to unbind reads it here."""
    if not arguments:
        return quote(routing_key, safe="") or "~"
    digest = sha256(render(arguments)).digest()
    return quote(routing_key, safe="") + "~" + urlsafe_b64encode(digest[:12]).decode("ascii")


def connection_row(row: Snapshot, node: str) -> Snapshot:
    """A connection. Its name is our identity of it."""
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
        "ssl": False,
    }


def channel_row(row: Snapshot, node: str) -> Snapshot:
    """A channel of AMQP 0.9.1."""
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


def consumer_row(row: Snapshot) -> Snapshot:
    """A consumer. Which connection it belongs to, the engine does not know."""
    return {
        "consumer_tag": row["name"],
        "queue": {"name": row["queue"], "vhost": VHOST},
        "exclusive": row["exclusive"],
        "active": row["active"],
        "activity_status": "up" if row["active"] else "waiting",
        "arguments": {"x-priority": row["priority"]},
        "messages_unacknowledged": row["messages_unacknowledged"],
    }


def policy_row(row: Snapshot) -> Snapshot:
    """A policy."""
    return {
        "vhost": VHOST,
        "name": row["name"],
        "pattern": row["pattern"],
        "apply-to": row["apply_to"],
        "definition": row["definition"],
        "priority": row["priority"],
    }


def _int(row: Snapshot, key: str) -> int:
    value = row.get(key)
    return value if isinstance(value, int) else 0


def _milliseconds(seconds: object) -> int | None:
    return round(seconds * 1000) if isinstance(seconds, int | float) else None
