"""What the state of a connection is named by, and the snapshot of a channel, as plain values."""

from core.amqp091.connection import Amqp091Connection
from core.amqp091.frontend.channel import Channel
from core.clock import Now
from core.flow_facts import FlowConnection
from core.interface import Snapshot, StallSubject
from core.server.frontends import PeerInfo


def client_name(connection: Amqp091Connection) -> str | None:
    """The name that the client has announced; None without one."""
    name = connection.client_properties.get("connection_name") or connection.client_properties.get("product")
    return name if isinstance(name, str) else None


def stall_subject(info: PeerInfo, connection: Amqp091Connection) -> StallSubject:
    """The connection's reader, as the ledger of stalls names it."""
    return StallSubject(
        identity=info.identity,
        connection=info.identity,
        peer=f"{info.remote_host}:{info.remote_port}",
        container_id=client_name(connection) or "",
        user=connection.identity,
        direction="in",
        address="",
    )


def flow_connection(info: PeerInfo, connection: Amqp091Connection) -> FlowConnection:
    """The connection, as flow events name it."""
    return FlowConnection(
        identity=info.identity,
        peer=f"{info.remote_host}:{info.remote_port}",
        protocol="amqp-0-9-1",
        container_id=client_name(connection) or "",
        user=connection.identity,
    )


def channel_snapshot(info: PeerInfo, channel: Channel, now: Now) -> Snapshot:
    """One channel."""
    flow, publishing, consuming = channel.stage_credit, channel.publishing, channel.consuming
    reading = flow.reading(now.monotonic)
    return {
        "identity": f"{info.identity}/{channel.number}",
        "connection": info.identity,
        "channel": channel.number,
        "stage_credit_state": reading.state.value,
        "stage_credit_held_up_by": list(reading.held_up_by),
        "stage_credit_blocks": flow.blocks,
        "stage_credit_blocked_seconds": flow.blocked_seconds(now.monotonic),
        "publishes_to": [party.name for party in flow.peers if party is not channel.reader],
        "waiting_publishes": channel.waiting_publishes,
        "published": publishing.published,
        "unconfirmed": publishing.unconfirmed,
        "confirming": publishing.confirming,
        "transactional": channel.transaction.selected,
        "consumers": len(consuming.by_tag),
        "unacked": consuming.unacked,
        "prefetch_count": consuming.prefetch_count,
        "channel_prefetch_count": consuming.channel_prefetch_count,
    }
