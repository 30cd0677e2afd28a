"""What alarms and an operator's orders do to the links and sessions of one connection.

While an alarm is on, sessions that publish close their window; a drain of the broker stops deliveries too. Orders
(:mod:`core.server.orders`) are about one link or session. A paused publisher loses its link credit; messages that it
sent before it learns of that are still accepted [2.6.7]. A paused consumer gets no messages for its link credit, and a
drain of it is answered at once; so is that of a consumer with as many unsettled messages as it may hold. Links to the
broker's own nodes cannot be paused, because an operator uses them to undo an order.
"""

from amqp10.errors import ConnectionFault, ErrorCondition, LinkFault, SessionFault
from amqp10.frontend.far_clients import NODE_KEY, client_of
from amqp10.frontend.incoming import PublisherLink
from amqp10.frontend.outgoing import ConsumerLink
from amqp10.frontend.reasons import BlockWatches, reason_of_alarms
from amqp10.frontend.session_watches import SessionWatches
from amqp10.frontend.snapshots import link_named, session_named
from amqp10.protocol.connection import Connection
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.session import Link, Session
from amqp10.wire.performatives import Attach, Open
from core.access.checked_engine import CheckedEngine
from core.access.rights import IMPERSONATOR, Rights, all_rights
from core.clock import Now
from core.config.cluster import ClusterSettings
from core.errors import EngineError, Invalid, NotFound
from core.interface import FlowReason
from core.server.drain import DRAINED
from core.server.frontends import PeerInfo
from core.server.orders import BoundLink, CloseLink, CloseSession, Order, PauseLink, ResumeLink


class AlarmEffects:
    """Applies alarms to one connection. ``on`` holds the alarms that the engine reported last."""

    __slots__ = ("_blocks", "_cluster", "_connection", "_sessions", "no_node", "node", "on", "refilled")

    def __init__(
        self, connection: Connection, sessions: SessionWatches, blocks: BlockWatches, cluster: ClusterSettings
    ) -> None:
        self.node: str | None = None
        """The other node of the cluster at the far end; None for a client."""
        self.no_node: ConnectionFault | None = None
        """What ends a connection that calls itself one of another node, and must not."""
        self._cluster = cluster
        self.on: frozenset[str] = frozenset()
        self.refilled: dict[ReceiverLink, None] = {}
        """The links whose link credit may have changed since the front end cleared this."""
        connection.refilled = self.refilled
        self._connection = connection
        self._sessions = sessions
        self._blocks = blocks

    def rights_of(self, remote: Open, info: PeerInfo, rights: Rights) -> Rights:
        """Note whether another node has opened the connection. Returns its rights, which are all: it has checked those
        of its clients, and the user-id of their messages. A client keeps its own."""
        named = (remote.properties or {}).get(NODE_KEY)
        if named is None and info.node_names is None:
            return rights
        if (why := self._why_not(named, info)) is not None:
            self.no_node = ConnectionFault(ErrorCondition.UNAUTHORIZED_ACCESS, why)
            return rights
        self.node = str(named)
        return all_rights(f"node {named}", (IMPERSONATOR,))

    def _why_not(self, named: object, info: PeerInfo) -> str | None:
        """Why the connection is not believed to be one of the node that it names; None if it is."""
        if info.node_names is not None:
            if named is None:
                return "other nodes connect here, and no clients"
            shown = " or ".join(info.node_names) or "no node"
            return None if named in info.node_names else f"the certificate is that of {shown}, and not of node {named}"
        if isinstance(named, str) and self._cluster.trust_loopback and info.loopback:
            return None
        return "this connection may not call itself one of another node"

    def changed(self, alarms: frozenset[str], now: Now) -> None:
        """The alarms changed. An alarm stops publishing: sessions that publish close their window, and no others. A
        drain stops deliveries too."""
        self.on = alarms
        for session in self._connection.sessions:
            self._hold_consumers(session, wanted=FlowReason.DRAIN_MODE in alarms)
            if not alarms:
                if self.node is not None:
                    self._tell_node(session)
                session.open_incoming_window()
                self._sessions.observe(session, None, direction="in", now=now)
                continue
            publishers = [link.reference for link in session.links if isinstance(link.reference, PublisherLink)]
            if publishers:
                self.close_window(session, now)
            for publisher in publishers:
                self._blocks.look_at(publisher)

    def tell(self, now: Now) -> bool:
        """Tell peers what has come or gone that blocks their links; see :meth:`BlockWatches.tell`."""
        publishers = [user for link in self.refilled if isinstance(user := link.reference, PublisherLink)]
        return self._blocks.tell(self.on, publishers, now)

    def check_welcome(self, engine: CheckedEngine, attach: Attach) -> None:
        """Raises LinkFault while the broker is being drained: then only the management node can be attached to. Raises
        LimitReached for one link too many."""
        if FlowReason.DRAIN_MODE in self.on:
            raise LinkFault(ErrorCondition.DETACH_FORCED, DRAINED)
        engine.check_links(client_of(attach, self.node))

    def publisher_attached(self, publisher: PublisherLink, session: Session, now: Now) -> None:
        """A publisher attaches: while an alarm is on, it cannot send."""
        if self.on:
            self.close_window(session, now)
            self._blocks.look_at(publisher)

    def close_window(self, session: Session, now: Now) -> None:
        """Close the window of a session that publishes while an alarm is on. To another node, each link says so: the
        session is shared by many clients."""
        if self.node is not None:
            self._tell_node(session)
            return
        session.close_incoming_window()
        self._sessions.observe(session, reason_of_alarms(self.on), direction="in", now=now)

    def _tell_node(self, session: Session) -> None:
        for link in session.links:
            if isinstance(link.reference, PublisherLink):
                link.reference.alarmed(reason_of_alarms(self.on) if self.on else None)

    def _hold_consumers(self, session: Session, *, wanted: bool) -> None:
        for link in session.links:
            user = link.reference
            if isinstance(user, ConsumerLink) and (FlowReason.DRAIN_MODE in user.holds) is not wanted:
                if wanted:
                    user.hold(FlowReason.DRAIN_MODE)
                else:
                    user.let_go(FlowReason.DRAIN_MODE)
                self._blocks.look_at(user)


class Operating:
    """Finds the link or session of an order, and executes it."""

    __slots__ = ("_connection", "_info")

    def __init__(self, info: PeerInfo, connection: Connection) -> None:
        self._info = info
        self._connection = connection

    def check(self, order: Order) -> None:
        """Check that the order can be executed. Raises NotFound, Invalid."""
        match order:
            case CloseSession(identity):
                self._session(identity)
            case CloseLink(identity):
                self._link(identity)
            case BoundLink(identity, messages):
                user = self._user(identity)
                if isinstance(user, ConsumerLink) and user.link.settled and messages is not None:
                    raise Invalid(
                        f"link '{identity}' sends settled messages, so its consumer holds none that could be limited;"
                        " pause it"
                    )
            case PauseLink(identity) | ResumeLink(identity):
                self._user(identity)

    def obey(self, order: Order) -> PublisherLink | ConsumerLink | None:
        """Execute the order. Returns the link whose reason to wait may have changed, if there is one."""
        try:
            self.check(order)
        except EngineError:
            return None  # the order was valid when it was given
        match order:
            case CloseSession(identity, reason):
                self._session(identity).fail(SessionFault(ErrorCondition.DETACH_FORCED, reason))
                return None
            case CloseLink(identity, reason):
                session, link = self._link(identity)
                session.fail_link(link, LinkFault(ErrorCondition.DETACH_FORCED, reason))
                return None
        user = self._user(order.identity)
        if isinstance(order, BoundLink):
            user.bound(order.messages)
        elif isinstance(user, PublisherLink):
            user.pause(paused=isinstance(order, PauseLink))
        elif isinstance(order, PauseLink):
            user.hold(FlowReason.PAUSED)
        else:
            user.let_go(FlowReason.PAUSED)
        return user

    def _session(self, identity: str) -> Session:
        session = session_named(self._info, self._connection, identity)
        if session is None:
            raise NotFound(f"there is no session '{identity}'")
        return session

    def _link(self, identity: str) -> tuple[Session, Link]:
        found = link_named(self._info, self._connection, identity)
        if found is None or not found[1].end.attached:
            raise NotFound(f"there is no link '{identity}'")
        return found

    def _user(self, identity: str) -> PublisherLink | ConsumerLink:
        user = self._link(identity)[1].reference
        if not isinstance(user, PublisherLink | ConsumerLink):
            raise Invalid(f"link '{identity}' is for what the broker itself tells; it neither publishes nor consumes")
        return user
