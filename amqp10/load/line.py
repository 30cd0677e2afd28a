"""A connection in the loop of a load process: the socket, the protocol's endpoint, and pending output.

Every write is non-blocking, and an endpoint is asked for more output only when all earlier output is written.
"""

from __future__ import annotations

import ssl
import time
from collections import deque
from collections.abc import Sequence
from socket import socket
from typing import Final, Protocol

from hdrh.histogram import HdrHistogram

from amqp10.load.amqp091.endpoint import ChannelsEndpoint, channels
from amqp10.load.amqp091.handshake import Amqp091Conversation
from amqp10.load.handshake import READ_BYTES, Amqp10Conversation
from amqp10.load.ledger import Ledger
from amqp10.load.plan import Application, PlannedTraffic, sessions_of
from amqp10.load.sessions import Sessions
from amqp10.load.wire import WireError

KEEP_ALIVE_NS: Final = 5 * 10**9
"""An empty frame is sent after this long without output; brokers require one within 10 s or more."""


class AnyPublisher(Protocol):
    """What the loop needs of a publisher, in either protocol."""

    publisher: int
    sent: int
    refused: int
    last_progress_ns: int

    @property
    def latency(self) -> HdrHistogram | None: ...
    @property
    def confirmed(self) -> int: ...
    @property
    def finished(self) -> bool: ...
    @property
    def unconfirmed(self) -> int: ...


class AnyConsumer(Protocol):
    """What the loop needs of a consumer."""

    last_arrival_ns: int

    @property
    def ledger(self) -> Ledger: ...
    @property
    def latency(self) -> HdrHistogram: ...
    @property
    def corrupted(self) -> int: ...


class AnyEndpoint(Protocol):
    """One connection, sans-IO."""

    keep_alive: bytes

    @property
    def publishers(self) -> Sequence[AnyPublisher]: ...
    @property
    def consumers(self) -> Sequence[AnyConsumer]: ...
    @property
    def attached(self) -> bool: ...
    def start(self, now_ns: int) -> None: ...
    def receive_data(self, data: bytes, now_ns: int) -> None: ...
    def output(self, now_ns: int) -> list[bytes | memoryview]: ...
    def ready_to_publish(self, now_ns: int) -> bool: ...
    def wake_ns(self) -> int | None: ...
    def held_up(self, now_ns: int, *, socket: bool) -> list[str]: ...


class AnyConversation(Protocol):
    """The conversation that opened the connection, and closes it."""

    rest: bytes
    socket: socket

    def close(self) -> None: ...


NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""What a socket raises that has nothing to read, or no room."""


class Line:
    """A socket with its endpoint."""

    def __init__(self, conversation: AnyConversation, endpoint: AnyEndpoint) -> None:
        self._conversation = conversation
        self._pending: deque[bytes | memoryview] = deque()
        self._last_write_ns = time.monotonic_ns()
        self.scheduled_ns: int | None = None
        """When the loop will write here again, if nothing arrives before; the loop's own note."""
        self.socket = conversation.socket
        self.socket.setblocking(False)
        self.endpoint = endpoint
        self.endpoint.receive_data(conversation.rest, self._last_write_ns)
        conversation.rest = b""

    def read(self) -> None:
        try:
            data = self.socket.recv(READ_BYTES)
        except NOT_NOW:
            return
        if not data:
            raise WireError("the broker closed the socket without a word")
        self.endpoint.receive_data(data, time.monotonic_ns())

    def write(self, now_ns: int) -> None:
        """Write the pending output, or else the endpoint's next output, as far as the socket takes it."""
        if not self._pending:
            self._pending.extend(self.endpoint.output(now_ns))
            if not self._pending and now_ns - self._last_write_ns >= KEEP_ALIVE_NS:
                self._pending.append(self.endpoint.keep_alive)
            if self._pending:
                self._last_write_ns = now_ns
        self.flush()

    def flush(self) -> None:
        """Write the pending output, as far as the socket takes it."""
        while self._pending:
            piece = self._pending[0]
            try:
                written = self.socket.send(piece)
            except NOT_NOW:
                return
            if written < len(piece):
                self._pending[0] = memoryview(piece)[written:]
            else:
                self._pending.popleft()

    @property
    def blocked(self) -> bool:
        return bool(self._pending)

    def held_up(self, now_ns: int) -> list[str]:
        """What holds up each publisher of the connection that has a message to send."""
        return self.endpoint.held_up(now_ns, socket=self.blocked)

    def wake_ns(self) -> int:
        """When to write again although nothing has arrived: a message is due, or the line was silent for long."""
        silent_ns = self._last_write_ns + KEEP_ALIVE_NS
        due_ns = self.endpoint.wake_ns()
        return silent_ns if due_ns is None else min(due_ns, silent_ns)

    def close(self) -> None:
        self._conversation.close()


def opened_10(
    url: str, traffic: PlannedTraffic, applications: Sequence[Application], *, name: str, max_frame_size: int
) -> tuple[Line, dict[str, str]]:
    """Open an AMQP 1.0 connection with its applications' sessions; also returns the broker's properties."""
    conversation = Amqp10Conversation(url, max_frame_size=max_frame_size, container_id=name)
    groups = sessions_of(applications)
    more = [conversation.begin(channel) for channel in range(1, len(groups))]
    broker = {key: value for key, value in conversation.properties.items() if isinstance(value, str)}
    return Line(conversation, Sessions(groups, traffic, [conversation.session, *more])), broker


def opened_091(
    url: str, traffic: PlannedTraffic, applications: Sequence[Application], *, name: str, max_frame_size: int
) -> tuple[Line, dict[str, str]]:
    """Open an AMQP 0.9.1 connection with channels for each application; also returns the broker's properties."""
    conversation = Amqp091Conversation(url, name=name, frame_max=max_frame_size)
    for number, one in enumerate(applications):
        publishing, consuming = channels(number)
        if one.publishes:
            conversation.open_channel(publishing, confirms=not traffic.settled)
        if one.consume_from:
            conversation.open_channel(consuming, prefetch_count=one.link_credit)
    return Line(conversation, ChannelsEndpoint(applications, traffic, conversation.frame_max)), conversation.properties
