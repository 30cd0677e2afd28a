"""Where queues live, and what a remote queue asks of the node that leads it.

Calls go both ways without actions: a remote queue calls its links in its turns (``links.py``), and the connection calls
:class:`~.outlet.Outlet` and :class:`~.inlet.Inlet` when something has come, which only note it, or put actions into
mailboxes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from core.declaring import Recording
from core.engine.forwarding.inlet import Inlet
from core.engine.forwarding.links import FarReceiver, FarSender
from core.engine.forwarding.outlet import Outlet
from core.interface import ConsumeOptions, QueueInfo


class FarChange(Enum):
    """What a node asks the home of a queue to do to it."""

    PURGE = "purge"
    DELETE = "delete"


class HomeNode(Protocol):
    """Another node of the cluster, as the engine sees it."""

    @property
    def name(self) -> str: ...

    def down(self, virtual_host: str) -> str | None:
        """Why the node cannot be reached for a virtual host; None while it is connected, or is about to be."""

    def stay_connected(self, virtual_host: str) -> None:
        """Be connected for a virtual host also without links: so the end of the node is known at once."""

    def let_go(self) -> None:
        """Do not connect again: the node is at another address, or is none of the cluster any more."""

    def new_sender(self, virtual_host: str, queue: str, user: Outlet) -> FarSender:
        """Attach a link that publishes to a queue, as soon as there is a connection."""

    def new_receiver(self, virtual_host: str, queue: str, options: ConsumeOptions, user: Inlet) -> FarReceiver:
        """Attach a link that consumes from a queue, as soon as there is a connection."""

    def change(self, virtual_host: str, queue: str, what: FarChange, recording: Recording[int]) -> None:
        """Have the node change a queue. The recording gets how many messages have gone, or why it was not done."""


class AwayNode:
    """In place of a :class:`HomeNode` to which this node has no way yet: nothing can be attached there."""

    def __init__(self, name: str) -> None:
        self.name = name

    def down(self, virtual_host: str) -> str | None:
        """See :class:`HomeNode`, also for the methods below."""
        return "this node has not been able to reach it since it started"

    def stay_connected(self, virtual_host: str) -> None:
        """There is nothing to connect to."""

    def let_go(self) -> None:
        """There is nothing to connect to."""

    def new_sender(self, virtual_host: str, queue: str, user: Outlet) -> FarSender:
        raise AssertionError("nothing is attached at a node that is down")

    def new_receiver(self, virtual_host: str, queue: str, options: ConsumeOptions, user: Inlet) -> FarReceiver:
        raise AssertionError("nothing is attached at a node that is down")

    def change(self, virtual_host: str, queue: str, what: FarChange, recording: Recording[int]) -> None:
        recording.fail(f"queue '{queue}': its home node {self.name} is down: {self.down(virtual_host)}")


def nowhere_else(virtual_host: str, queue: str) -> str | None:
    """The rule of a broker alone: no queue lives on another node."""
    return None


def unknown(node: str, encrypted: bool) -> Sequence[str]:
    """The addresses of a node whose clients' addresses are not known."""
    return ()


@dataclass(slots=True)
class Homes:
    """On which node each queue lives."""

    node: str = ""
    """The name of this node."""
    home_of: Callable[[str, str], str | None] = nowhere_else
    """Return the node on which a queue of a virtual host lives; None for a queue that may live anywhere."""
    passing: Callable[[str], bool] | None = None
    """Whether a queue of this name belongs to a link, which only its own node knows. Among nodes that share the
    declarations of all others, exclusive ones too; None where nodes do not."""
    nodes: Mapping[str, HomeNode] = field(default_factory=dict)
    """The other nodes by name; filled before the broker serves."""
    clients_of: Callable[[str, bool], Sequence[str]] = unknown
    """Where clients connect to another node, HOST:PORT, with TLS or without; nothing for one that is away."""
    nodes_of: Callable[[QueueInfo], tuple[str | None, Sequence[str]]] | None = None
    """Return the node that leads a queue now, as far as is known, and all nodes that keep it. None where leaders do not
    change: on a broker alone, and where the configuration says where queues live."""

    def elsewhere(self, virtual_host: str, queue: str) -> HomeNode | None:
        """Return the other node on which a queue lives; None if it lives here, or nowhere yet."""
        home = self.home_of(virtual_host, queue)
        return None if home is None or home == self.node else self.nodes.get(home)

    def may_have(self, virtual_host: str, queue: str) -> bool:
        """Return whether another node may have a queue that is not declared here."""
        return (self.passing is None or self.passing(queue)) and self.elsewhere(virtual_host, queue) is not None

    def of_new(self, virtual_host: str, queue: str, *, exclusive: bool, said: str) -> HomeNode | None:
        """Return the other node on which a queue lives that is being made here as well; None if it lives here.
        ``said``: the node that its identity names; "" if it names none."""
        if said:
            return None if said == self.node else self.nodes.get(said) or AwayNode(said)
        return None if exclusive and self.passing is None else self.elsewhere(virtual_host, queue)

    def delete(self, virtual_host: str, queue: str) -> Recording[int] | None:
        """Have the other node on which a queue lives delete it; None if it does not live on another."""
        home = self.elsewhere(virtual_host, queue)
        if home is None:
            return None
        recording: Recording[int] = Recording()
        home.change(virtual_host, queue, FarChange.DELETE, recording)
        return recording
