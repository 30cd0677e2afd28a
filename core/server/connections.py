"""The connections of a server: admission under the limits, finding a connection by its name, and refusals.

A connection counts as *pending* from accept until its front end says that it is established. Pending ones are
limited in all and per remote address, so that half-open connections cannot lock out the others.

A refused peer gets, in one piece, the handshake of its own protocol and a close with the reason, and then time to read
it. Each one holds a descriptor meanwhile, so there are never more than REFUSALS_MAX. When that many are under way and
another connection waits, the time of each is cut short: a peer that behaves needs no more than a round trip, and one
that does not must not keep others waiting for long.
"""

import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import trio

from core.server.drain import Drain
from core.server.frontends import PREFACE_BYTES, FrontEndFactory, PeerInfo, choose

REFUSALS_MAX = 32
"""Refusals under way at the same time."""

PREFACE_SECONDS_MAX = 0.4
"""A refused peer that does not send its protocol header by then is answered in the first protocol."""

HURRIED_PREFACE_SECONDS_MAX = 0.1
"""The same when other connections wait. Not less: a busy client needs tens of milliseconds, and an answer in the wrong
protocol tells it nothing."""

READING_SECONDS_MAX = 0.5
"""From the answer to the close: with the time for the preface, a refused connection is closed within a second."""

HURRIED_READING_SECONDS_MAX = 0.03
"""The same when other connections wait: with it, a full backlog of 1024 well-behaved peers is answered within a
second."""

DRAIN_BYTES = 65_536
"""How much is read at once of what a refused peer sends; it is thrown away."""

PeerT = TypeVar("PeerT")
"""What serves a connection: a :class:`core.server.peer.Peer`, which uses this module."""


class Changes:
    """The connections that have changed since one reader looked at them: they have read or written, or have gone."""

    def __init__(self, changed: dict[str, None], readers: "list[Changes]") -> None:
        """``changed`` is what no reader has seen, and ``readers`` are all readers."""
        self._changed = changed
        self._readers = readers
        self._unseen: dict[str, None] = {}
        readers.append(self)

    def take(self) -> Sequence[str]:
        """The identities of the connections that have changed since the last call."""
        for reader in self._readers:
            reader._unseen |= self._changed
        self._changed.clear()
        taken, self._unseen = list(self._unseen), {}
        return taken


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
        self.changed: dict[str, None] = {}
        """Peers note here that they have changed, for :class:`Changes`."""
        self._readers: list[Changes] = []

    def changes(self) -> Changes:
        """Return a new reader of changes, which must take them at least each second, since it keeps also connections
        that have gone."""
        return Changes(self.changed, self._readers)

    def __len__(self) -> int:
        return len(self._peers)

    def __iter__(self) -> Iterator[PeerT]:
        """Iterate over a copy: peers may come and go meanwhile."""
        return iter(list(self._peers.values()))

    @property
    def identities(self) -> list[str]:
        """The names of all connections, the oldest first."""
        return list(self._peers)

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

    def refusal_reason(self, remote_host: str, *, proxy: bool = False) -> str | None:
        """Why one more connection from this address cannot be served; None when it can. The limits of an address do not
        apply to a ``proxy``, but to the address that it tells: see :meth:`moved`."""
        drained = None if proxy else self.drain.refusal_reason(remote_host)
        if drained is not None:
            return drained
        if len(self._peers) >= self.connections_max:
            return f"the limit of {self.connections_max} connections is reached"
        if self._pending_total >= self._pending_max:
            return f"the limit of {self._pending_max} connections before authentication is reached"
        if not proxy and self._pending[remote_host] >= self._pending_per_host_max:
            return self._per_host_reason
        return None

    @property
    def _per_host_reason(self) -> str:
        return (
            f"the limit of {self._pending_per_host_max} connections before authentication from one address is reached"
        )

    def moved(self, before: PeerInfo, after: PeerInfo) -> str | None:
        """A proxy has told the address of a pending connection. Returns why it cannot be served; None when it can."""
        self.no_longer_pending(before)
        self._pending[after.remote_host] += 1
        self._pending_total += 1
        drained = self.drain.refusal_reason(after.remote_host)
        if drained is None and self._pending[after.remote_host] > self._pending_per_host_max:
            return self._per_host_reason
        return drained

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
        if self._readers:
            self.changed[info.identity] = None
        else:
            self.changed.pop(info.identity, None)
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


class Refusals:
    """The refusals under way, over all listeners."""

    def __init__(self) -> None:
        self._under_way: dict[socket.socket, _Step | None] = {}
        """What each waits for; None when its task has not started."""
        self._listeners = trio.lowlevel.ParkingLot()
        """Where listeners wait for room."""

    def __len__(self) -> int:
        return len(self._under_way)

    @property
    def full(self) -> bool:
        """Whether no further connection can be refused now."""
        return len(self) >= REFUSALS_MAX

    async def room(self) -> None:
        """Wait until one more connection can be refused. That is soon, since the time of those under way is cut
        short."""
        for step in self._under_way.values():
            if step is not None:
                step.hurry()
        while self.full:
            await self._listeners.park()

    def enter(self, accepted: socket.socket) -> None:
        """Take a place for a connection; a call of :meth:`refuse` follows."""
        self._under_way[accepted] = None

    async def refuse(self, accepted: socket.socket, *, factories: Sequence[FrontEndFactory], reason: str) -> None:
        """Answer in the peer's protocol, and close when the peer has closed or its time is over."""
        preface = b""
        try:
            with self._step(accepted, PREFACE_SECONDS_MAX, hurried_seconds=HURRIED_PREFACE_SECONDS_MAX):
                await trio.lowlevel.wait_readable(accepted)
                preface = accepted.recv(DRAIN_BYTES)[:PREFACE_BYTES]
            accepted.send(choose(factories, preface).refusal(reason))  # a fresh socket takes that much at once
            accepted.shutdown(socket.SHUT_WR)
            with self._step(accepted, READING_SECONDS_MAX, hurried_seconds=HURRIED_READING_SECONDS_MAX):
                await _drain(accepted)
        except OSError:
            pass  # the peer closed first
        finally:
            accepted.close()
            del self._under_way[accepted]
            self._listeners.unpark_all()

    def _step(self, accepted: socket.socket, seconds: float, *, hurried_seconds: float) -> trio.CancelScope:
        now = trio.current_time()
        step = self._under_way[accepted] = _Step(trio.CancelScope(deadline=now + seconds), now + hurried_seconds)
        if self._listeners:
            step.hurry()
        return step.scope


@dataclass(frozen=True, slots=True)
class _Step:
    """One wait of a refusal, and its deadline if other connections wait."""

    scope: trio.CancelScope
    hurried_until: float

    def hurry(self) -> None:
        self.scope.deadline = min(self.scope.deadline, self.hurried_until)


async def _drain(accepted: socket.socket) -> None:
    """Read until the peer has closed. Closing a socket with unread data resets the connection, and the answer is
    lost."""
    while True:
        await trio.lowlevel.wait_readable(accepted)
        if not accepted.recv(DRAIN_BYTES):
            return
