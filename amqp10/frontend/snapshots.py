"""The state of a connection, its sessions and links, as plain values for whoever looks."""

from amqp10.connection import Connection
from amqp10.sender_link import SenderLink
from amqp10.session import Link, Session
from core.interface import Snapshot, StallSubject
from core.server.frontends import PeerInfo


def connection_snapshot(info: PeerInfo, connection: Connection, alarms: frozenset[str]) -> Snapshot:
    """One connection: who, where, how much."""
    remote = connection.remote
    return {
        "identity": info.identity,
        "protocol": "amqp-1.0",
        "peer": f"{info.remote_host}:{info.remote_port}",
        "container_id": remote.container_id if remote else None,
        "user": connection.handshake.identity,
        "state": connection.state.value,
        "sessions": len(connection.sessions),
        "links": sum(len(session.links) for session in connection.sessions),
        "frames_received": connection.frames_received,
        "frames_sent": connection.frames_sent,
        "backlog_bytes": connection.backlog_bytes,
        "alarms": sorted(alarms),
    }


def session_identity(info: PeerInfo, session: Session) -> str:
    """The broker's own name of a session: connection and channel."""
    return f"{info.identity}/{session.outgoing_channel}"


def link_identity(info: PeerInfo, session: Session, link: Link) -> str:
    """The broker's own name of a link: connection, channel and handle."""
    return f"{session_identity(info, session)}/{link.end.handle}"


def address_of(link: Link) -> str | None:
    """Where the link publishes to or consumes from, as it was attached."""
    local = link.end.local
    terminus = None if local is None else local.source if isinstance(link, SenderLink) else local.target
    address = getattr(terminus, "address", None)
    return None if address is None else str(address)


def stall_subject(info: PeerInfo, connection: Connection, link: Link) -> StallSubject:
    """What the ledger of stalls is told of a link."""
    session = link.channel
    assert isinstance(session, Session)
    return StallSubject(
        identity=link_identity(info, session, link),
        connection=info.identity,
        peer=f"{info.remote_host}:{info.remote_port}",
        container_id=connection.remote.container_id if connection.remote else "",
        user=connection.handshake.identity,
        direction=_direction(link),
        address=address_of(link) or "",
    )


def _direction(link: Link) -> str:
    """As seen from the broker."""
    return "out" if isinstance(link, SenderLink) else "in"


def session_snapshots(info: PeerInfo, connection: Connection) -> list[Snapshot]:
    """Every session with both its windows."""
    return [
        {
            "identity": session_identity(info, session),
            "connection": info.identity,
            "channel": session.outgoing_channel,
            "links": len(session.links),
            "incoming_window": session.window.announced,
            "incoming_window_closed": session.window.closed,
            "next_incoming_id": session.window.next_incoming_id,
            "remote_incoming_window": session.window.remote_incoming_window,
            "remote_outgoing_window": session.window.remote_outgoing_window,
            "next_outgoing_id": session.window.next_outgoing_id,
            "unsettled_in": session.incoming.count,
            "unsettled_out": session.outgoing.count,
        }
        for session in connection.sessions
    ]


def link_snapshots(info: PeerInfo, connection: Connection) -> list[Snapshot]:
    """Every link with its link credit; direction as seen from the broker."""
    return [_link_snapshot(info, session, link) for session in connection.sessions for link in session.links]


def _link_snapshot(info: PeerInfo, session: Session, link: Link) -> Snapshot:
    shown: Snapshot = {
        "identity": link_identity(info, session, link),
        "session": session_identity(info, session),
        "connection": info.identity,
        "name": link.end.name,
        "handle": link.end.handle,
        "direction": _direction(link),
        "address": address_of(link),
        "state": link.end.state.value,
        "link_credit": link.credit.link_credit,
        "delivery_count": link.credit.delivery_count,
        "drain": link.credit.drain,
    }
    if isinstance(link, SenderLink):
        shown["waiting"] = link.waiting
        shown["queue_grant"] = link.grant.outstanding if link.grant is not None else None
    else:
        shown["unconfirmed"] = link.credit.unconfirmed
        shown["max_link_credit"] = link.credit.maximum
    return shown
