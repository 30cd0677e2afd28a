"""Listening sockets and admission: each new connection is served, or refused with a reason. None is left unanswered.

Three answers to a new connection: it is served; at a limit of ours it is *refused*: it gets the protocol's
whole handshake with a close that names the reason, and is closed within a second (core.server.connections); when
even descriptors for that are used up it is *shed*: closed at once.
"""

import errno
import socket
from collections.abc import Sequence

import trio

from core.config.address import is_within, parse_address
from core.server.context import ServerContext
from core.server.descriptors import Spare, too_few_left
from core.server.frontends import PeerInfo
from core.server.node_sockets import address_of, is_same_user
from core.server.peer import Peer

ACCEPTS_PER_WAKE_UP = 64
"""Connections accepted in one wake-up, before the connected peers get their turn."""

OUT_OF_MEMORY_PAUSE_SECONDS = 0.05
"""Pause when the kernel has no memory for a socket. There is nothing that could be closed instead."""

OUT_OF_DESCRIPTORS = "out of file descriptors"
"""The reason under which a connection that was shed is counted."""

ANOTHER_USER = "a process of another user"
"""The reason under which a connection to a Unix socket is counted that was closed at once."""

_TABLE_IS_FULL = frozenset({errno.EMFILE, errno.ENFILE})
_OUT_OF_MEMORY = frozenset({errno.ENOBUFS, errno.ENOMEM})
_CLOSED = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK})


class CannotListen(OSError):
    """An address on which the broker cannot listen."""

    @property
    def may_pass(self) -> bool:
        """Whether a later attempt may succeed by itself: another process has the port, or the network is not up yet."""
        return self.errno in _MAY_PASS


_MAY_PASS = frozenset({errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, socket.EAI_AGAIN})


async def open_listeners(addresses: Sequence[str], backlog: int, *, shared: bool = False) -> list[socket.socket]:
    """Return listening, non-blocking sockets, one for each address that the names resolve to. ``shared``: with other
    processes of this user, over which the system spreads connections [socket(7), SO_REUSEPORT]. Raises CannotListen."""
    sockets: list[socket.socket] = []
    try:
        for text in addresses:
            host, port = parse_address(text)
            found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, _, _, _, address in dict.fromkeys(found):
                sockets.append(_listen(family, address, backlog, shared=shared))
    except OSError as error:
        for opened in sockets:
            opened.close()
        raise CannotListen(error.errno, f"cannot listen on {text}: {error.strerror}") from error
    return sockets


def _listen(family: int, address: tuple[object, ...], backlog: int, *, shared: bool) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(backlog)
    except BaseException:
        listening.close()
        raise
    return listening


class Listener:
    """The accept loop of one listening socket."""

    def __init__(
        self,
        listening: socket.socket,
        *,
        shared: ServerContext,
        spare: Spare,
        encrypted: bool = False,
        for_nodes: bool = False,
        nodes_here: Sequence[str] = (),
    ) -> None:
        """``nodes_here``: the names of the nodes that connect to a Unix socket."""
        self.for_nodes = for_nodes
        """Whether other nodes connect there, and no clients."""
        self.encrypted = encrypted
        """Whether its connections use TLS."""
        self._nodes_here = tuple(nodes_here)
        self.host, self.port = address_of(listening.getsockname())
        self._socket = listening
        self._shared = shared
        self._spare = spare
        self._refusals = shared.connections.refusals

    def close(self) -> None:
        """Stop accepting."""
        if self._socket.fileno() != -1:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    async def run(self) -> None:
        """Accept connections until closed."""
        try:
            while self._socket.fileno() != -1:
                await trio.lowlevel.wait_readable(self._socket)
                if self._socket.fileno() == -1:
                    return  # the socket was closed after this task was woken and before it ran
                if self._refusals.full:
                    await self._refusals.room()
                elif not self._accept_waiting():
                    await trio.sleep(OUT_OF_MEMORY_PAUSE_SECONDS)
        except trio.ClosedResourceError:
            pass

    def _accept_waiting(self) -> bool:
        """Accept the waiting connections. False when the kernel has no resources for any, and a pause is due."""
        for _ in range(ACCEPTS_PER_WAKE_UP):
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return True
            except OSError as error:
                if error.errno in _TABLE_IS_FULL and self._shed():
                    continue
                if error.errno in _TABLE_IS_FULL | _OUT_OF_MEMORY:
                    return False
                if error.errno in _CLOSED:
                    raise
                continue  # this one connection broke off while it waited
            if too_few_left(accepted.fileno()):
                accepted.close()
                self._shared.count_refusal(OUT_OF_DESCRIPTORS, address[0])
                continue
            accepted.setblocking(False)
            host, port = address_of(address)
            self._admit(accepted, host=host, port=port)
            if self._refusals.full:
                return True  # further connections wait in the backlog until they can be refused too
        return True

    def _admit(self, accepted: socket.socket, *, host: str, port: int) -> None:
        shared = self._shared
        if accepted.family == socket.AF_UNIX and not is_same_user(accepted):
            accepted.close()
            shared.count_refusal(ANOTHER_USER, host)
            return
        proxied = bool(shared.proxies) and not self.for_nodes and is_within(host, shared.proxies)
        reason = shared.connections.refusal_reason(host, proxy=proxied)
        if reason is not None:
            self._shared.count_refusal(reason, host)
            if self.encrypted or proxied:
                accepted.close()  # an answer would need a handshake, whose CPU time the limit is there to save
                return
            self._refusals.enter(accepted)
            shared.nursery.start_soon(self._refuse, accepted, reason)
            return
        try:
            if accepted.family != socket.AF_UNIX:
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            local_host, local_port = address_of(accepted.getsockname())
        except OSError:  # the connection is closed already
            accepted.close()
            return
        shared.counters.accepted += 1
        info = PeerInfo(
            identity=f"c{shared.counters.accepted}",
            remote_host=host,
            remote_port=port,
            local_host=local_host,
            local_port=local_port,
            encrypted=self.encrypted,
            node_names=self._nodes_here if self.for_nodes else None,
        )
        Peer(accepted, info, shared, proxied=proxied).serve()

    def _shed(self) -> bool:
        """Close one waiting connection by means of the spare descriptor. False when that fails too."""
        with self._spare:
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return True
            except OSError:
                return False
            accepted.close()
        self._shared.count_refusal(OUT_OF_DESCRIPTORS, address[0])
        return True

    async def _refuse(self, accepted: socket.socket, reason: str) -> None:
        try:
            await self._refusals.refuse(accepted, factories=self._shared.factories, reason=reason)
        except Exception as error:  # a bug of ours; it costs this connection only
            self._shared.counters.faults += 1
            self._shared.log.error("refusal-failed", exc_info=error)
