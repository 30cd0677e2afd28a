"""The options of a connection, and the bounds of everything that the client keeps.

Durations are in seconds and end in ``_s``, except the one that is sent in the open, whose unit the specification sets.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
from anyio.abc import ByteStream

from amqp10.client_core.message import Message
from amqp10.client_core.opening import MECHANISMS, MechanismName
from amqp10.client_core.reasons import LinkWait


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The delay before connecting again: twice as long each time, and partly random.

    The second half of each delay is random, so that many clients of the same broker do not reconnect all at once.
    """

    first_s: float = 0.1
    longest_s: float = 10.0
    attempts_max: int | None = None
    """The connection is given up after so many failures in a row, of each address where there are several. None:
    never."""

    def delay_s(self, attempt: int, fraction: float) -> float:
        """The delay in seconds before attempt 0, 1, 2 …; ``fraction`` is random, from 0 to 1."""
        whole = min(self.longest_s, self.first_s * 2.0 ** min(attempt, 32))
        return whole * (1 + fraction) / 2

    def allows(self, attempt: int) -> bool:
        """Whether an attempt with this number is allowed."""
        return self.attempts_max is None or attempt < self.attempts_max


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How a connection is made and what it may keep in memory."""

    container_id: str | None = None
    """The client's name, as the broker shows it. None: a random one."""
    mechanisms: tuple[MechanismName, ...] = MECHANISMS
    """SASL mechanisms for a user with a password, the preferred first. Without a user it is ANONYMOUS."""
    reconnect: Backoff | None = field(default_factory=Backoff)
    """None: a connection that is lost stays lost. The first attempt is never repeated. With several addresses, the next
    one is tried at once, and the delay comes after all of them have failed."""
    use_failover_servers: bool = True
    """Whether a connection that is lost is opened again also at the addresses that the broker has announced, as nodes
    of a cluster do (``failover-server-list``), with the login, TLS files and virtual host of the URL."""
    leader_connections_max: int = 6
    """The most further connections to nodes of a cluster that lead queues. A link goes there, so that no node has to
    forward, if it can; and it goes on when the leader changes. With 0 it stays at the node of the connection, which
    forwards. A cluster has seven nodes."""
    connect_time_out_s: float = 10.0
    """The time from the look-up of the host name to the broker's open. A broker may take 3 s to refuse a password."""
    write_time_out_s: float = 60.0
    """The connection ends when the broker accepts no bytes for so long."""
    close_time_out_s: float = 5.0
    """How long to wait for the broker's answer to a close or a detach."""
    request_time_out_s: float = 30.0
    """How long to wait for the answer to a management request."""
    idle_time_out_ms: int = 30_000
    """Announced to the broker; a broker that sends nothing for twice as long is considered gone [2.4.5]."""
    max_frame_size: int = 131_072
    """Bytes of the largest frame that we take."""
    incoming_window: int = 2048
    """Transfers that the broker may send on a session before it needs our next flow; topped up at half."""
    buffered_messages_max: int = 20_000
    buffered_bytes_max: int = 64 * 1024 * 1024
    """When more messages or bytes than these wait in the receivers of a session for the user, the session's window is
    closed, until half of them are taken. Transfers in flight come on top: at most one window."""
    unsettled_max: int = 10_000
    """Messages of one sender without an outcome; the next one waits, whatever link credit there is."""
    when_waiting: Callable[[str | None, LinkWait | None], object] | None = None
    """Called with the address of a link when the broker begins to make it wait, with the reason; again when the reason
    changes; and with None when the wait is over. It must return at once, because the connection waits for it. What it
    raises is logged."""
    before_send: Callable[[Message], Message] | None = None
    """Called with each message before it is encoded, and returns the one to be sent, for example
    :func:`amqp10.client.trace_context.with_trace_context`. Messages that are given encoded are sent as they are."""
    open_stream: Callable[[str, int], Awaitable[ByteStream]] = anyio.connect_tcp
    """How to reach a host and port. Raises OSError when nothing can be reached."""
    random_fraction: Callable[[], float] = random.random
    """Returns a random number from 0 to 1, for the back-off."""
