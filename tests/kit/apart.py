"""Two nodes with a queue each, and a client of one of them."""

from core.config.settings import Settings
from core.engine.storage import Storage
from core.interface import QueueDeclaration
from tests.kit.nodes import Joined
from tests.kit.wire import InProcessBroker, WirePeer


class Apart:
    """The queue ``far`` on the home node, the queue ``near`` on the entry, and a client at the entry."""

    def __init__(
        self,
        storage: Storage | None = None,
        of_entry: Storage | None = None,
        settings: Settings | None = None,
        **arguments: object,
    ) -> None:
        """``storage``: that of the home node, whose lanes the test moves; without it, the home node has its own.
        ``of_entry``: that of the entry, which has none without it. ``settings``: of both."""
        self.home = InProcessBroker(settings, durable=storage is None, storage=storage)
        self.address = self.home.queue("far", **arguments)
        self.nodes = Joined(self.home, "far*", of_entry)
        self.entry = self.nodes.entry
        self.entry.engine.declare_queue(QueueDeclaration(name="near", durable=False, arguments={}), self)
        self.peer = self.client()

    def client(self) -> WirePeer:
        """One more client at the entry, with a session."""
        peer = self.entry.connect()
        peer.begin()
        return peer

    def links_at_home(self) -> list[dict[str, object]]:
        """The rows of the links between the nodes, as the home node has them."""
        return self.nodes.sockets[-1].home_end.front_end.snapshot("links", self.home.now)

    def lose(self) -> None:
        """The connection between the nodes is lost."""
        self.nodes.sockets[-1].disconnect()
        self.entry.run()
