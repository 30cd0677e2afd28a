"""Two brokers in this process, joined as nodes of a cluster: clients connect to one, and queues live on the other."""

from collections.abc import Iterator
from contextlib import contextmanager

from amqp10.serve import far_node
from core.config.cluster import ClusterSettings, NodeSettings
from core.engine.forwarding.nodes import Homes
from core.engine.storage import Storage
from core.server.dialling import Dialled
from core.server.frontends import FrontEnd, PeerInfo
from tests.kit.wire import ELSEWHERE, InProcessBroker, WirePeer

HOME, ENTRY = "b", "a"


class NodeSocket:
    """A connection between the two: the entry's end, which is a peer of the entry, and behind it the home's end."""

    def __init__(self, entry: InProcessBroker, home: InProcessBroker, connection: Dialled) -> None:
        self.entry = entry
        self.lost = False
        self.held: list[bytes] | None = None
        """What the home has sent and the network holds, in order; None while it holds nothing."""
        self.front_end: FrontEnd = connection.make(
            PeerInfo("n1", "127.0.0.1", 5672, "127.0.0.1", 50000), lambda: entry.touch(self), None
        )
        self.home_end = WirePeer(home)
        self.home_end.carry = self.receive
        entry.peers.append(self)
        entry.touch(self)

    def flush(self) -> None:
        """Do what the server does for a touched peer."""
        if self.lost:
            return
        self.front_end.take_actions(self.entry.now)
        while data := b"".join(self.front_end.pieces_to_send(self.entry.now)):
            self.home_end.front_end.receive_data(data, self.home_end.broker.now)
            self.home_end.broker.touch(self.home_end)
        if self.front_end.finished:
            self.disconnect()

    def receive(self, data: bytes) -> None:
        """Take bytes of the home node."""
        if self.held is not None:
            self.held.append(data)
        elif not self.lost:
            self.front_end.receive_data(data, self.entry.now)
            self.entry.touch(self)

    def hold(self) -> None:
        """Have the network hold what the home sends from now on."""
        self.held = []

    def bring(self, count: int | None = None) -> None:
        """Bring the first ``count`` pieces that the network holds; without it all, and hold no more."""
        assert self.held is not None
        pieces, left = self.held[:count], self.held[count:] if count else None
        self.held = None
        for piece in pieces:
            self.receive(piece)
        self.held = left
        self.entry.run()

    def disconnect(self) -> None:
        """Lose the connection."""
        if not self.lost:
            self.lost = True
            self.front_end.connection_lost(self.entry.now)
            self.home_end.disconnect()


class Joined:
    """The entry in front of a home node."""

    def __init__(self, home: InProcessBroker, queues: str = "*", storage: Storage | None = None) -> None:
        """``queues``: which queues live on the home node, as ``cluster.nodes`` has it. ``storage``: the entry's."""
        self.home = home
        self.reachable = True
        """Whether the home node answers when it is called."""
        self.calls: list[tuple[Dialled, float]] = []
        """Connections that the entry wants, each after a pause in seconds; :meth:`call` makes them."""
        self.sockets: list[NodeSocket] = []
        cluster = ClusterSettings(
            node=ENTRY,
            trust_loopback=True,
            nodes=(NodeSettings(name=HOME, address="127.0.0.1:5672", queues=(queues,)),),
        )
        settings = home.settings.model_copy(update={"cluster": cluster})
        home.settings = home.settings.model_copy(update={"cluster": ClusterSettings(node=HOME, trust_loopback=True)})
        homes = Homes(ENTRY, cluster.home_of)
        self.entry = InProcessBroker(settings, homes=homes, storage=storage)
        order, (home_node,) = self.entry.engine.machinery.order, cluster.nodes
        node = far_node(settings, self.entry.converter, self._dial, order, home_node.name, home_node.address)
        homes.nodes = {node.name: node}
        self.entry.beside.append(home)
        home.beside.append(self.entry)

    def call(self) -> None:
        """Make the connections that the entry wants."""
        calls, self.calls = self.calls, []
        for connection, _ in calls:
            if self.reachable:
                self.sockets.append(NodeSocket(self.entry, self.home, connection))
            else:
                connection.failed("Connection refused")
        self.entry.run()

    def _dial(self, connection: Dialled, pause: float) -> None:
        self.calls.append((connection, pause))
        if not pause and self.reachable:
            self.call_at_once()

    def call_at_once(self) -> None:
        """As :meth:`call`, in the middle of a turn of the entry."""
        calls, self.calls = self.calls, []
        for connection, _ in calls:
            self.sockets.append(NodeSocket(self.entry, self.home, connection))


@contextmanager
def clients_elsewhere() -> Iterator[None]:
    """Within this, clients of an in-process broker connect to another node, which forwards to it."""
    ELSEWHERE.append(lambda home: Joined(home).entry)
    try:
        yield
    finally:
        ELSEWHERE.pop()
