"""The connection to another node, for one virtual host: its links, and what becomes of them when it is lost.

:class:`NodeConnection` outlives sockets. Each socket has a :class:`NodeFrontEnd`, which the server drives like the
front end of a client's connection, except that this end began it. When it is lost, every link is over, and the queues
tell their publishers and consumers; then the server is asked to connect again, until it succeeds.
"""

from collections.abc import Callable, Iterator

from amqp10.client_core.opening import open_if_let_in
from amqp10.errors import ErrorCondition
from amqp10.forwarding.far_links import FarReceiverLink, FarSenderLink, error_of
from amqp10.forwarding.far_requests import FarRequests
from amqp10.forwarding.link_host import FarEnd, LinkHost
from amqp10.frontend.virtual_host import HOST_PREFIX
from amqp10.protocol.connection import Connection, Event
from amqp10.protocol.events import (
    ConnectionClosed,
    ConnectionOpened,
    CreditReceived,
    DeliveriesSettled,
    LinkDetached,
    ReceiverAttached,
    SenderAttached,
    SenderFlowReceived,
    SessionBegun,
    SessionEnded,
)
from amqp10.protocol.handshake import ClientHandshake
from amqp10.protocol.receiver_link import DeliveriesReceived, IncomingOutcome
from amqp10.protocol.sasl import Anonymous, Credentials, External
from amqp10.protocol.session import Session
from amqp10.protocol.settings import ConnectionSettings
from amqp10.wire.framing import Piece
from core.clock import Now
from core.declaring import Recording
from core.engine.forwarding.inlet import Inlet
from core.engine.forwarding.nodes import FarChange
from core.engine.forwarding.outlet import Outlet
from core.errors import EngineError, HomeLost, Invalid, NotFound
from core.interface import ConsumeOptions, Converter
from core.order_position import OrderPosition
from core.server.dialling import Dialled
from core.server.frontends import FrontEnd, PeerInfo
from core.server.orders import Order
from core.server.tls import Tunnel

EVENT_PAUSE_S = (0.1, 5.0)
"""Seconds between two tries to connect: the first pause, which doubles up to the last."""
LOST_PAUSE_S = 0.02
"""Seconds between the loss of a connection over which the node was reached and the next try, which shows whether its
process has ended. When a process is killed, its sockets are closed one after another, within milliseconds."""
UNKNOWN_PAUSE_MAX_S = 0.8
"""While the pauses are no longer than this, links wait for a node that does not know the virtual host: it may have been
added a moment ago. They come to 1.5 s; nodes look for new definitions four times a second."""

Dial = Callable[[Dialled, float], None]
"""Connects after a pause, in seconds."""


class NodeConnection:
    """One node and virtual host, over any number of sockets, one after the other."""

    def __init__(
        self,
        *,
        node: str,
        host: str,
        port: int,
        settings: ConnectionSettings,
        converter: Converter,
        dial: Dial,
        order: OrderPosition,
        certified: bool = False,
    ) -> None:
        """``order``: how far this node is, which each attach says. ``certified``: this node has a certificate, with
        which it logs in."""
        self._credentials: Credentials = External() if certified else Anonymous()
        self.node = node
        self.links = LinkHost(node, converter, order, self._touch)
        self.down: str | None = None
        """Why the node cannot be reached; None while it is connected, or the first try is under way."""
        self._settings = settings
        self._dialled = Dialled(node, host, port, self.make, self.failed)
        self._dial = dial
        self._front_end: NodeFrontEnd | None = None
        self._dialling = self._inside = False
        """Whether a connection is being made, and whether there is one over which sessions have begun."""
        self._let_go = False
        self._pause = EVENT_PAUSE_S[0]
        self._requests: FarRequests | None = None

    # --- for the node -----------------------------------------------------------------------------------------

    def ask(self, what: FarChange, queue: str, recording: Recording[int]) -> None:
        """Ask for a change of a queue; see :class:`core.engine.forwarding.nodes.HomeNode`."""
        if self.down is not None:
            recording.fail(f"queue '{queue}': its home node {self.node} is down: {self.down}")
            return
        requests = self._requests
        if requests is None or requests not in self.links or requests.outdated:
            if requests is not None:
                requests.leave()
            self._requests = requests = FarRequests(self.links)
            self.enter(requests)
        requests.ask(what, queue, recording)

    def enter(self, link: FarEnd) -> None:
        """Attach a link, now or when there is a connection."""
        self.links.enter(link)
        if self._front_end is not None:
            self._front_end.attach_some()
        else:
            self.stay_connected()

    def stay_connected(self) -> None:
        """Connect also without links."""
        if self._front_end is None and not self._dialling:
            self._connect(0.0)

    def let_go(self) -> None:
        """Do not connect again when the connection is lost, or cannot be made."""
        self._let_go = True

    # --- for the front end --------------------------------------------------------------------------------------

    def let_in(self) -> None:
        """The other node believes that this one is what it says."""
        self.down, self._inside = None, True
        self._pause = EVENT_PAUSE_S[0]

    # --- for the server ---------------------------------------------------------------------------------------

    def make(self, info: PeerInfo, touch: Callable[[], None], tunnel: Tunnel | None) -> FrontEnd:
        """The front end for a socket that was just connected, over TLS if there is a ``tunnel``."""
        self._dialling = False
        frame_size_max = self._settings.max_frame_size
        handshake = ClientHandshake([self._credentials], hostname=self._dialled.host, frame_size_max=frame_size_max)
        self._front_end = NodeFrontEnd(self, info, Connection(self._settings, handshake), touch, tunnel)
        return self._front_end

    def failed(self, why: str, *, unknown: bool = False) -> None:
        """There is no connection: it could not be made, or it is lost. ``unknown``: the node does not know the virtual
        host."""
        was_open, self._inside = self._inside, False
        self._front_end, self._dialling = None, False
        if unknown and self._pause <= UNKNOWN_PAUSE_MAX_S and not self._let_go:
            self._try_again()
            return
        self.down = why
        self.links.lose(self._error(why, was_open=was_open))
        if self._let_go:
            return
        if was_open:
            self._connect(LOST_PAUSE_S)
            return
        self._try_again()

    def _try_again(self) -> None:
        self._connect(self._pause)
        self._pause = min(2 * self._pause, EVENT_PAUSE_S[1])

    def _connect(self, pause: float) -> None:
        self._dialling = True
        self._dial(self._dialled, pause)

    def _touch(self) -> None:
        if self._front_end is not None:
            self._front_end.touch()

    def _error(self, why: str, *, was_open: bool) -> EngineError:
        if was_open:
            return HomeLost(f"the connection to node {self.node}, which leads the queue, is lost: {why}")
        return NotFound(f"the home node {self.node} of the queue is down: {why}")


class NodeFrontEnd:
    """One socket to another node, as a :class:`core.server.frontends.FrontEnd`."""

    def __init__(
        self,
        owner: NodeConnection,
        info: PeerInfo,
        connection: Connection,
        touch: Callable[[], None],
        tunnel: Tunnel | None,
    ) -> None:
        self._tunnel = tunnel
        self.connection = connection
        self.touch = touch
        self._owner = owner
        self._info = info
        self._sessions: list[Session] = []
        self._beginning = False
        self._over: str | None = None
        self._unknown = False
        """Whether the other node does not know the virtual host."""
        self._lost = False

    # --- links ------------------------------------------------------------------------------------------------

    def attach_some(self) -> None:
        """Attach the links that wait, on sessions with room for them."""
        if not self.established or self._over is not None:
            return
        for session in self._sessions:
            room = self._room(session)
            while room > 0 and (link := self._owner.links.next_to_attach()) is not None:
                link.attach(session)
                room -= 1
        if (self._owner.links.links_wait or not self._sessions) and not self._beginning:
            self._beginning = True
            self.connection.new_session().begin()
        self.touch()

    @staticmethod
    def _room(session: Session) -> int:
        remote = session.remote
        most = min(session.limits.handle_max, session.limits.handle_max if remote is None else remote.handle_max)
        return most - len(session.links)  # one is left for the second link of a pair

    # --- the server's side --------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: Now) -> bool:
        self.connection.receive_data(data, now.monotonic)
        self._answer_events()
        return not (self.established and self.connection.at_rest)

    def receive_eof(self, now: Now) -> None:
        self.connection.receive_eof()
        self._answer_events()

    def take_actions(self, now: Now) -> None:
        if not self.connection.frames_left and self.connection.input_left:
            self.connection.go_on()
        self._answer_events()

    def pieces_to_send(self, now: Now) -> list[Piece]:
        pieces = self.connection.pieces_to_send(now.monotonic)
        if self.connection.events:
            self._answer_events()
        return pieces

    def output_backlog(self, waiting_bytes: int) -> None:
        self.connection.output_backlog(waiting_bytes)

    def deadline(self) -> float | None:
        return self.connection.deadline()

    def tick(self, now: Now) -> None:
        self.connection.tick(now.monotonic)
        self._answer_events()

    def shut_down(self, reason: str, now: Now) -> None:
        self.connection.close(monotonic=now.monotonic)
        self._over = reason

    def last_words(self) -> bytes:
        return self.connection.close_for_a_bug()

    def connection_lost(self, now: Now) -> bool:
        if not self._lost:
            self._lost = True
            self.connection.forget_sessions()
            broken = "" if self._tunnel is None else self._tunnel.failure
            why = self._over or self.connection.handshake.refused or broken or "the socket is closed"
            self._owner.failed(why, unknown=self._unknown)
        return False

    @property
    def finished(self) -> bool:
        return self.connection.finished

    @property
    def established(self) -> bool:
        return self.connection.remote is not None

    @property
    def reading(self) -> bool:
        return self.connection.reading

    def snapshot(self, kind: str, now: Now) -> list[dict[str, object]]:
        if kind != "connections":
            return []
        container = "" if self.connection.remote is None else self.connection.remote.container_id
        return [{"container_id": container, "user": "", "node": self._owner.node}]

    def parts(self, kind: str, now: Now, identity: str | None = None) -> Iterator[list[dict[str, object]]]:
        yield self.snapshot(kind, now)

    def check(self, order: Order) -> None:
        raise Invalid("this connection is one between nodes: its links are those of clients, which can be operated")

    def obey(self, order: Order, now: Now) -> None:
        """No order passes the check."""

    # --- events -----------------------------------------------------------------------------------------------

    def _answer_events(self) -> None:
        connection = self.connection
        while (event := connection.next_event()) is not None:
            self._answer(event)
        open_if_let_in(connection)
        if not connection.frames_left and connection.input_left:
            self.touch()

    def _answer(self, event: Event) -> None:
        match event:
            case DeliveriesReceived() | SenderFlowReceived() | IncomingOutcome():
                if isinstance(link := event.link.reference, FarReceiverLink | FarRequests):
                    link.event_received(event)
            case CreditReceived() | DeliveriesSettled():
                if isinstance(link := event.link.reference, FarSenderLink | FarRequests):
                    link.event_received(event)
            case SenderAttached(link, attach):
                if isinstance(link.reference, FarSenderLink | FarRequests) and attach.target is not None:
                    link.reference.attach_answered()
            case ReceiverAttached(link, attach):
                if isinstance(link.reference, FarReceiverLink | FarRequests) and attach.source is not None:
                    link.reference.attach_answered()
            case LinkDetached(link, error):
                self._detached(link.reference, error_of(error))
                link.reference = None
            case ConnectionOpened():
                self.attach_some()
            case SessionBegun(session):
                self._owner.let_in()  # not before: a node that is not believed is told so behind the open
                self._beginning = False
                self._sessions.append(session)
                self.attach_some()
            case SessionEnded(session, error):
                if session in self._sessions:
                    self._sessions.remove(session)
                for link in session.links:
                    self._detached(link.reference, error_of(error))
            case ConnectionClosed(error):
                self._over = "the connection was closed" if error is None else error.description or error.condition
                self._unknown = error is not None and error.condition == ErrorCondition.NOT_FOUND

    def _detached(self, link: object, error: EngineError) -> None:
        if isinstance(link, FarSenderLink | FarReceiverLink | FarRequests):
            self._owner.links.forget(link)
            link.lost(error)


class FarNode:
    """Another node, as a :class:`core.engine.forwarding.nodes.HomeNode`: a connection for each virtual host."""

    def __init__(
        self,
        *,
        name: str,
        address: tuple[str, int],
        settings: Callable[[str], ConnectionSettings],
        converter: Converter,
        dial: Dial,
        order: OrderPosition,
        certified: bool = False,
    ) -> None:
        """``settings`` returns what a connection announces, for the hostname of its open. ``order`` and ``certified``
        as :class:`NodeConnection` has them."""
        self._certified, self._order = certified, order
        self.name = name
        self._address = address
        self._settings = settings
        self._converter = converter
        self._dial = dial
        self._connections: dict[str, NodeConnection] = {}

    def down(self, virtual_host: str) -> str | None:
        """See :class:`core.engine.forwarding.nodes.HomeNode`, also for the methods below."""
        connection = self._connections.get(virtual_host)
        return None if connection is None else connection.down

    def stay_connected(self, virtual_host: str) -> None:
        self._connection(virtual_host).stay_connected()

    def let_go(self) -> None:
        for connection in self._connections.values():
            connection.let_go()

    def new_sender(self, virtual_host: str, queue: str, user: Outlet) -> FarSenderLink:
        connection = self._connection(virtual_host)
        link = FarSenderLink(connection.links, queue, user)
        connection.enter(link)
        return link

    def new_receiver(self, virtual_host: str, queue: str, options: ConsumeOptions, user: Inlet) -> FarReceiverLink:
        connection = self._connection(virtual_host)
        link = FarReceiverLink(connection.links, queue, options, user)
        connection.enter(link)
        return link

    def change(self, virtual_host: str, queue: str, what: FarChange, recording: Recording[int]) -> None:
        self._connection(virtual_host).ask(what, queue, recording)

    def _connection(self, virtual_host: str) -> NodeConnection:
        connection = self._connections.get(virtual_host)
        if connection is None:
            host, port = self._address
            connection = self._connections[virtual_host] = NodeConnection(
                node=self.name,
                host=host,
                port=port,
                settings=self._settings(f"{HOST_PREFIX}{virtual_host}"),
                converter=self._converter,
                dial=self._dial,
                order=self._order,
                certified=self._certified,
            )
        return connection
