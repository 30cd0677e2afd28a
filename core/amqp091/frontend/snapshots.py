"""Snapshots of a connection and its channels, as plain values."""

from typing import TYPE_CHECKING

from core.amqp091.connection import Connection
from core.amqp091.frontend.channel import Channel
from core.clock import Now
from core.flow_facts import FlowConnection
from core.interface import Snapshot, StallSubject
from core.server.frontends import PeerInfo

if TYPE_CHECKING:
    from core.amqp091.frontend.front_end import Amqp091FrontEnd


def client_name(connection: Connection) -> str | None:
    """The name that the client has announced; None without one."""
    name = connection.client_properties.get("connection_name") or connection.client_properties.get("product")
    return name if isinstance(name, str) else None


def stall_subject(info: PeerInfo, connection: Connection) -> StallSubject:
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


def flow_connection(info: PeerInfo, connection: Connection) -> FlowConnection:
    """The connection, as flow events name it."""
    return FlowConnection(
        identity=info.identity,
        peer=f"{info.remote_host}:{info.remote_port}",
        protocol="amqp-0-9-1",
        container_id=client_name(connection) or "",
        user=connection.identity,
    )


def connection_snapshot(front_end: "Amqp091FrontEnd", now: Now) -> Snapshot:
    """One connection: peer, settings, counts, and what holds it up."""
    info, connection, reader = front_end.info, front_end.connection, front_end.reader
    reading = reader.reading(now.monotonic)
    return {
        "identity": info.identity,
        "protocol": "amqp-0-9-1",
        "peer": f"{info.remote_host}:{info.remote_port}",
        "container_id": client_name(connection),
        "user": connection.identity,
        "state": front_end.throttle.state(now.monotonic).value if connection.opened else "opening",
        "channels": len(front_end.channels),
        "alarms": sorted(front_end.throttle.alarms),
        "stage_credit_state": reading.state.value,
        "stage_credit_held_up_by": list(reading.held_up_by),
        "stage_credit_blocks": reader.blocks,
        "stage_credit_unblocks": reader.unblocks,
        "stage_credit_blocked_seconds": reader.blocked_seconds(now.monotonic),
    }


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


def stage_snapshots(front_end: "Amqp091FrontEnd", now: Now) -> list[Snapshot]:
    """How long each stage of the connection was without stage credit."""
    name = front_end.info.identity
    stages = [("reader", name, front_end.reader)]
    stages += [("channel", f"{name}/{number}", channel.stage_credit) for number, channel in front_end.channels.items()]
    return [
        {"identity": identity, "kind": kind, "blocked_seconds": flow.blocked_seconds(now.monotonic)}
        for kind, identity, flow in stages
    ]
