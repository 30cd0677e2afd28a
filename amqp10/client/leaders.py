"""The further connections of a connection: to nodes of a cluster that lead queues of its links.

Which links go there, and how they come back, is in ``session.py``.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

from amqp10.client.endpoint_status import EndpointStatus
from amqp10.client_core.errors import ClientError
from amqp10.protocol.failover_servers import FailoverServer

LOG = logging.getLogger("amqp10.client")
CONNECT_S = 1.0
"""How long a link waits for the connection to its leader before it is used where it is: longer than a login takes, and
short beside what a program waits for a broker. A load balancer may let clients reach none of the nodes by itself."""
IDLE_MS = 1_500
"""The idle-time-out of such a connection, whose node is gone after twice as long without a frame. Another node leads
2 s after the leader's machine stands still or is cut off (docs/cluster.md), so links find that one when they come back.
The heartbeats are small frames, one in 0.75 s in each direction."""
AVOID_S = 30.0
"""How long a node is left alone that could not be reached."""

S = TypeVar("S")
"""A session of the client: it uses this module."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeaderNode(Generic[S]):
    """A connection to a node that leads queues, as links use it."""

    host: str
    port: int
    status: EndpointStatus
    """That of the connection."""
    run: Callable[[], Awaitable[None]]
    """Connects, and returns when the connection is over. Raises ClientError if there was none."""
    close: Callable[[], Coroutine[Any, Any, None]]
    new_session: Callable[[Any], S]
    """A session there for links of another one, whose :class:`~amqp10.client.session.FollowedLinks` it is given."""
    has_links: Callable[[], bool]


class LeaderNodes(Generic[S]):
    """The further connections of a connection, to nodes that lead queues. They are kept until it is closed, so that
    other links find them; one without links makes room for another."""

    def __init__(
        self, tasks: TaskGroup, most: int, connection_at: Callable[[FailoverServer], LeaderNode[S] | None]
    ) -> None:
        """There are ``most`` at most. ``connection_at`` makes one, which is not connected yet; None for a node that
        must not be used."""
        self.closing = False
        """The connection is being closed: links end and do not come back."""
        self._tasks, self._most, self._connection_at = tasks, most, connection_at
        self._nodes: dict[tuple[str, int], LeaderNode[S]] = {}
        self._avoided: dict[tuple[str, int], float] = {}

    def at(self, server: FailoverServer) -> LeaderNode[S] | None:
        """The connection to a node, which is perhaps still being made; None if there is to be none."""
        place = server.network_host, server.port
        node, avoided = self._nodes.get(place), anyio.current_time() < self._avoided.get(place, 0.0)
        if node is not None and not node.status.over:
            return node if node.status.up or not avoided else None
        if self.closing or avoided or not self._make_room():
            return None
        if (node := self._connection_at(server)) is not None:
            self._nodes[place] = node
            self._tasks.start_soon(self._run, place, node)
        return node

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have a task of the connection do something."""
        self._tasks.start_soon(work)

    async def usable(self, node: LeaderNode[S]) -> bool:
        """Wait a limited time until the connection to a node is there. Returns whether it is."""
        with anyio.move_on_after(CONNECT_S):
            try:
                await node.status.usable()
            except ClientError:
                return False
            return True
        self._avoid(node.host, node.port)
        return False

    async def close(self) -> None:
        """Close all of them, and wait a limited time for their answers."""
        self.closing = True
        async with anyio.create_task_group() as closing:
            for node in list(self._nodes.values()):
                closing.start_soon(node.close)

    def _make_room(self) -> bool:
        if len(self._nodes) < self._most:
            return True
        for place, node in self._nodes.items():
            if node.status.up and not node.has_links():
                del self._nodes[place]
                self._tasks.start_soon(node.close)
                return True
        return False

    async def _run(self, place: tuple[str, int], node: LeaderNode[S]) -> None:
        try:
            await node.run()
        except ClientError as error:
            self._avoid(*place)
            LOG.info("the node at %s, which leads a queue, is not used directly: %s", node.host, error)
        finally:
            if self._nodes.get(place) is node:
                del self._nodes[place]

    def _avoid(self, host: str, port: int) -> None:
        now = anyio.current_time()
        self._avoided = {place: until for place, until in self._avoided.items() if until > now}
        self._avoided[host, port] = now + AVOID_S
