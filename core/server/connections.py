"""The connections of a server: admission under the limits, and finding a connection by its name.

A connection counts as *pending* from accept until its front end says that it is established. Pending ones are
limited in all and per remote address, so that half-open connections cannot lock out the others.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import trio

from core.server.drain import Drain
from core.server.frontends import PeerInfo
from core.server.refusals import Refusals

PeerT = TypeVar("PeerT")
"""What serves a connection: a :class:`core.server.peer.Peer`, which uses this module."""


class Connections(Generic[PeerT]):
    """All connections of one server: those that are served, and in ``refusals`` those that are not."""

    def __init__(
        self,
        *,
        connections_max: int,
        pending_max: int,
        pending_per_host_max: int,
        changed: Callable[[int], None] = lambda count: None,
    ) -> None:
        """``changed`` is called with the number of connections whenever one opens or closes."""
        self._changed = changed
        self.connections_max = connections_max
        self.refusals = Refusals()
        self.drain = Drain()
        self._pending_max = pending_max
        self._pending_per_host_max = pending_per_host_max
        self._peers: dict[str, PeerT] = {}
        self._pending: Counter[str] = Counter()
        self._pending_total = 0
        self._none_left = trio.Event()

    def __len__(self) -> int:
        return len(self._peers)

    def __iter__(self) -> Iterator[PeerT]:
        """Iterate over a copy: peers may come and go meanwhile."""
        return iter(list(self._peers.values()))

    @property
    def pending(self) -> int:
        """How many connections are not established yet."""
        return self._pending_total

    def limit(self, *, connections_max: int, pending_max: int, pending_per_host_max: int) -> None:
        """Set other limits from now on. Connections that are already there stay."""
        self.connections_max = connections_max
        self._pending_max = pending_max
        self._pending_per_host_max = pending_per_host_max

    def find(self, identity: str) -> PeerT | None:
        """Return the connection with this name, or None."""
        return self._peers.get(identity)

    def refusal_reason(self, remote_host: str) -> str | None:
        """Why one more connection from this address cannot be served; None when it can."""
        drained = self.drain.refusal_reason(remote_host)
        if drained is not None:
            return drained
        if len(self._peers) >= self.connections_max:
            return f"the limit of {self.connections_max} connections is reached"
        if self._pending_total >= self._pending_max:
            return f"the limit of {self._pending_max} connections before authentication is reached"
        if self._pending[remote_host] >= self._pending_per_host_max:
            return (
                f"the limit of {self._pending_per_host_max} connections before authentication"
                " from one address is reached"
            )
        return None

    def came(self, peer: PeerT, info: PeerInfo) -> None:
        """Add a connection that was accepted; it is pending."""
        self._peers[info.identity] = peer
        self._pending[info.remote_host] += 1
        self._pending_total += 1
        self._changed(len(self._peers))

    def no_longer_pending(self, info: PeerInfo) -> None:
        """Count one pending connection less: it is established, or it closed before. Called exactly once for each
        peer."""
        host = info.remote_host
        self._pending_total -= 1
        self._pending[host] -= 1
        if not self._pending[host]:
            del self._pending[host]

    def gone(self, info: PeerInfo, *, established: bool) -> None:
        """Remove a connection whose socket is closed."""
        del self._peers[info.identity]
        self._changed(len(self._peers))
        if not established:
            self.no_longer_pending(info)
        if not self._peers:
            self._none_left.set()

    async def none_left(self) -> None:
        """Wait until there are no connections."""
        while self._peers:
            self._none_left = trio.Event()
            await self._none_left.wait()
