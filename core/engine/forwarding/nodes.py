"""Where queues live, and what a remote queue asks of the node that leads it.

Calls go both ways without actions: a remote queue calls its links in its turns (``links.py``), and the connection calls
:class:`~.outlet.Outlet` and :class:`~.inlet.Inlet` when something has come, which only note it, or put actions into
mailboxes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from core.engine.forwarding.inlet import Inlet
from core.engine.forwarding.links import FarReceiver, FarSender
from core.engine.forwarding.outlet import Outlet
from core.interface import ConsumeOptions


class HomeNode(Protocol):
    """Another node of the cluster, as the engine sees it."""

    @property
    def name(self) -> str: ...

    def down(self, virtual_host: str) -> str | None:
        """Why the node cannot be reached for a virtual host; None while it is connected, or is about to be."""

    def new_sender(self, virtual_host: str, queue: str, user: Outlet) -> FarSender:
        """Attach a link that publishes to a queue, as soon as there is a connection."""

    def new_receiver(self, virtual_host: str, queue: str, options: ConsumeOptions, user: Inlet) -> FarReceiver:
        """Attach a link that consumes from a queue, as soon as there is a connection."""


def nowhere_else(virtual_host: str, queue: str) -> str | None:
    """The rule of a broker alone: no queue lives on another node."""
    return None


@dataclass(slots=True)
class Homes:
    """On which node each queue lives."""

    node: str = ""
    """The name of this node."""
    home_of: Callable[[str, str], str | None] = nowhere_else
    """Return the node on which a queue of a virtual host lives; None for a queue that may live anywhere."""
    nodes: Mapping[str, HomeNode] = field(default_factory=dict)
    """The other nodes by name; filled before the broker serves."""

    def elsewhere(self, virtual_host: str, queue: str) -> HomeNode | None:
        """Return the other node on which a queue lives; None if it lives here, or nowhere yet."""
        home = self.home_of(virtual_host, queue)
        return None if home is None or home == self.node else self.nodes.get(home)
