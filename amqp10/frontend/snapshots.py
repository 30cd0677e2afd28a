"""The state of a connection, its sessions and links, as plain values for the control plane and the metrics."""

from collections.abc import Iterator, Mapping
from math import inf

from amqp10.flow.fair_rate import PublisherWindow
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.frontend.far_clients import client_at, client_of, node_of
from amqp10.frontend.flow_totals import balance_row
from amqp10.frontend.incoming import PublisherLink
from amqp10.frontend.outgoing import ConsumerLink
from amqp10.frontend.session_watches import SessionWatches, session_of
from amqp10.frontend.virtual_host import wanted_host
from amqp10.protocol.connection import Connection
from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session import Link, Session
from amqp10.wire import serial
from core.clock import Now
from core.flow_facts import LinkWindowState, StallSubject
from core.interface import ExchangeTarget, FlowReason, QueueTarget, Snapshot
from core.server.frontends import PeerInfo
from core.virtual_hosts import shown_name

LINKS_PER_PART = 250
"""Rows of links that are made at once: 2 ms."""


def connection_snapshot(info: PeerInfo, connection: Connection, alarms: frozenset[str]) -> Snapshot:
    """One connection: its peer, its state and its counters."""
    remote = connection.remote
    return {
        "identity": info.identity,
        "protocol": "amqp-1.0",
        "peer": f"{info.remote_host}:{info.remote_port}",
        "container_id": remote.container_id if remote else None,
        "user": connection.handshake.identity,
        "node": node_of(remote),
        "vhost": wanted_host(remote.hostname) if remote else None,
        "state": connection.state.value,
        "sessions": len(connection.sessions),
        "links": sum(len(session.links) for session in connection.sessions),
        "frames_received": connection.frames_received,
        "frames_sent": connection.frames_sent,
        "backlog_bytes": connection.backlog_bytes,
        "alarms": sorted(alarms),
    }


def host_of(connection: Connection) -> str:
    """The virtual host of a connection."""
    return wanted_host(connection.remote.hostname if connection.remote else None)


def session_identity(info: PeerInfo, session: Session) -> str:
    """The broker's own name of a session: connection and channel."""
    return f"{info.identity}/{session.outgoing_channel}"


def link_identity(info: PeerInfo, session: Session, link: Link) -> str:
    """The broker's own name of a link: connection, channel and handle."""
    return f"{session_identity(info, session)}/{link.end.handle}"


def session_named(info: PeerInfo, connection: Connection, identity: str) -> Session | None:
    """Find a mapped session by the broker's own name of it, without a walk over the others."""
    session = connection.session(_last_number(identity))
    return session if session is not None and session_identity(info, session) == identity else None


def link_named(info: PeerInfo, connection: Connection, identity: str) -> tuple[Session, Link] | None:
    """Find a link with its session by the broker's own name of it, without a walk over the others."""
    session = session_named(info, connection, identity.rpartition("/")[0])
    link = None if session is None else session.link(_last_number(identity))
    if session is None or link is None or link_identity(info, session, link) != identity:
        return None
    return session, link


def _last_number(identity: str) -> int:
    """The channel or handle at the end of an identity; -1, which is neither, if there is none."""
    number = identity.rpartition("/")[2]
    return int(number) if number.isdecimal() and len(number) <= len(str(serial.MASK)) else -1


def address_of(link: Link) -> str | None:
    """The address to which the link publishes or from which it consumes, as it was attached."""
    local = link.end.local
    terminus = None if local is None else local.source if isinstance(link, SenderLink) else local.target
    address = getattr(terminus, "address", None)
    return None if address is None else str(address)


def stall_subject(info: PeerInfo, connection: Connection, link: Link) -> StallSubject:
    """The description of a link for the ledger of stalls."""
    session, address, remote = session_of(link), address_of(link), connection.remote
    client = client_of(link.end.remote, node_of(remote)) or client_at(info, remote, connection.handshake.identity)
    return StallSubject(
        identity=link_identity(info, session, link),
        connection=info.identity,
        peer=client.peer,
        container_id=client.container_id,
        user=client.user,
        direction=_direction(link),
        address=shown_name(host_of(connection), address or ""),
        virtual_host=host_of(connection),
    )


def _direction(link: Link) -> str:
    """The direction as seen from the broker."""
    return "out" if isinstance(link, SenderLink) else "in"


def session_snapshots(info: PeerInfo, connection: Connection) -> list[Snapshot]:
    """Every session with both its windows."""
    return [
        {
            "identity": session_identity(info, session),
            "connection": info.identity,
            "vhost": host_of(connection),
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


def _link_snapshot(
    info: PeerInfo, host: str, session: Session, link: Link, now: Now, node: str | None = None
) -> Snapshot:
    """A link with its link credit; direction as seen from the broker. ``node`` is at the other end; None for a
    client."""
    shown: Snapshot = {
        "identity": link_identity(info, session, link),
        "session": session_identity(info, session),
        "connection": info.identity,
        "vhost": host,
        "name": link.end.name,
        "handle": link.end.handle,
        "channel": session.outgoing_channel,
        "remote_channel": session.incoming_channel,
        "remote_handle": link.end.incoming_handle,
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
        shown["max_link_credit"] = link.credit.most
    shown["paused"], shown["client"] = _paused(link), None
    if isinstance(link.reference, PublisherLink | ConsumerLink):
        client = client_of(link.end.remote, node)
        shown["client"] = None if client is None else client.shown()
    if link.reference is not None:
        shown |= balance_row(link)
    match link.reference:
        case PublisherLink():
            shown |= _publisher(link.reference, now)
        case ConsumerLink():
            shown |= _consumer(link.reference)
    return shown


def _link_figures(host: str, link: Link, ages: Mapping[SenderLink, float], now: Now) -> Snapshot:
    """The values of a link that the metrics need, and no others, because there may be ten thousand links. ``address``
    is the queue of a consumer, and the address that a publisher attached to, as they are shown together."""
    user = link.reference
    figures: Snapshot = {"direction": _direction(link), "link_credit": link.credit.link_credit}
    if isinstance(user, PublisherLink):
        figures["address"] = shown_name(host, address_of(link) or "")
        figures["unconfirmed"] = user.link.credit.unconfirmed
    elif isinstance(user, ConsumerLink) and user.consumer is not None:
        figures["address"] = shown_name(host, user.consumer.queue_name)
    if user is not None:
        figures |= _age(link, ages, now) | balance_row(link)
    return figures


def _age(link: Link, of_consumers: Mapping[SenderLink, float], now: Now) -> Snapshot:
    """How long the oldest message has waited to be settled; None if there is none."""
    age = None
    if isinstance(link, SenderLink):
        age = of_consumers.get(link)
    elif isinstance(link.reference, PublisherLink) and link.reference.oldest_unconfirmed is not None:
        age = now.monotonic - link.reference.oldest_unconfirmed
    return {"oldest_unsettled_seconds": None if age is None else round(age, 3)}


def _publisher(user: PublisherLink, now: Now) -> Snapshot:
    """The target of a publisher, and what decides whether it gets more link credit."""
    publisher, credit = user.publisher, user.link.credit
    target = publisher.fixed_target
    return {
        "queue": target.queue if isinstance(target, QueueTarget) else None,
        "exchange": target.exchange if isinstance(target, ExchangeTarget) else None,
        "unconfirmed_limit": credit.unconfirmed_limit if credit.window is None else credit.window.size,
        "unsynced": publisher.unsynced,
        "unsettled": session_of(user.link).incoming.held_by(user.link),
        "unsettled_full": credit.unsettled_full,
        "withheld": credit.withheld,
        "withheld_for": None if user.held_up is None else user.held_up.value,
        "full_queue": user.full_queue,
        "bound_by_policy": publisher.link_credit_max,
        "bound_by_operator": user.bound_by_operator,
        "rate_limit": credit.held_back_by or None,
    } | _window(credit, now)


def _window(credit: ReceiverCredit, now: Now) -> Snapshot:
    """The window that the link credit follows, what it follows from, and what limits it; None where it is fixed."""
    window = credit.window
    if window is None:
        shown: Snapshot = dict.fromkeys(
            ("window", "weight", "round_trip_ms", "used_per_second", "share_per_second", "bytes_held", "byte_budget")
        )
        return shown | {"limited_by": credit.limited_by(now.monotonic)}
    state = window_state(window)
    return {
        "window": state.messages,
        "weight": window.weight,
        "round_trip_ms": state.round_trip_ms,
        "used_per_second": state.used_per_second,
        "share_per_second": state.share_per_second,
        "bytes_held": window.held_bytes,
        "byte_budget": window.byte_budget and window.byte_budget.value,
        "limited_by": credit.limited_by(now.monotonic),
    }


def window_state(window: PublisherWindow) -> LinkWindowState:
    """The window of a publisher, and what it follows from."""
    share = None if window.share == inf else round(window.share)
    return LinkWindowState(window.size, round(window.round_trip * 1000, 3), round(window.use), share)


def _consumer(user: ConsumerLink) -> Snapshot:
    """The queue of a consumer, and what decides whether it gets messages. ``available`` is the number of messages that
    a stream has for it; None for a queue, whose own row shows that."""
    consumer = user.consumer
    return {
        "queue": None if consumer is None else consumer.queue_name,
        "active": consumer is not None and consumer.active,
        "held_up_by": sorted(reason.value for reason in user.holds),
        "idle": user.link.idle,
        "available": user.available if user.of_stream else None,
        "unsettled": user.link.unsettled,
        "unsettled_max": user.unsettled_max,
        "unsettled_bytes": user.unsettled_bytes,
        "unsettled_bytes_max": user.unsettled_bytes_max,
        "bytes_bound_by": user.bytes_bound_by,
        "full_of_bytes": user.full_of_bytes,
        "bound_by_policy": None if consumer is None else consumer.link_credit_max,
        "bound_by_operator": user.bound_by_operator,
    }


def _paused(link: Link) -> bool:
    """Whether an operator has paused the link."""
    user = link.reference
    if isinstance(user, ConsumerLink):
        return FlowReason.PAUSED in user.holds
    return isinstance(user, PublisherLink) and user.paused


def parts_of(
    kind: str,
    identity: str | None,
    info: PeerInfo,
    connection: Connection,
    alarms: frozenset[str],
    watches: SessionWatches,
    now: Now,
) -> Iterator[list[Snapshot]]:
    """The rows of one kind for a connection; none for kinds that AMQP 1.0 does not have. Rows of links come session by
    session and in parts, for the sessions that existed at the beginning. With an identity there is only the row of that
    link."""
    host, node = host_of(connection), node_of(connection.remote)
    match kind:
        case "links" if identity is not None:
            if (found := link_named(info, connection, identity)) is not None:
                session, link = found
                row = _link_snapshot(info, host, session, link, now, node)
                yield [row | _age(link, watches.oldest(session, now), now)]
        case "connections":
            yield [connection_snapshot(info, connection, alarms)]
        case "sessions":
            yield session_snapshots(info, connection)
        case "links" | "link_figures":
            for session in list(connection.sessions):
                ages, links = watches.oldest(session, now), session.links
                for start in range(0, max(1, len(links)), LINKS_PER_PART):
                    some = links[start : start + LINKS_PER_PART]
                    if kind == "link_figures":
                        yield [_link_figures(host, link, ages, now) for link in some]
                    else:
                        yield [
                            _link_snapshot(info, host, session, link, now, node) | _age(link, ages, now)
                            for link in some
                        ]
