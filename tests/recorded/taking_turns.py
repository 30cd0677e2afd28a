"""A loopback proxy between one client and a broker that makes them take turns, and notes what each of them says.

A client's bytes are passed on in pieces of at most ``PIECE_BYTES_MAX``, which the broker reads at once. The next piece
is passed on when the broker has said everything that it has to say to this one. So the broker never finds two pieces
together in its socket, and a replay that sends the same pieces gets the same answers.
"""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.recorded.conversation import RecordedConnection, Step

PIECE_BYTES_MAX = 8192
"""A fraction of a socket's buffer, so that one write puts the whole piece there."""
CLIENT_QUIET_SECONDS = 0.03
"""A client that has said nothing for so long has said what it wanted to say."""
BROKER_QUIET_SECONDS = 0.12
"""The broker has worked on a piece when the pacer says so; a sync of the disk may take longer, and then so long."""

SCRAM, NOT_KNOWN = b"SCRAM-SHA-256", b"X-NOT-OFFERED"
"""A login with SCRAM cannot be replayed, so the client reads another name of the same length, and takes PLAIN. The
recording has what the broker said."""


class TurnTakingProxy:
    """Accepts one connection after the other, and keeps what was said on each."""

    def __init__(self, host: str, port: int, pace: Callable[[], None]) -> None:
        self._broker = host, port
        self._pace = pace
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.connections: list[RecordedConnection] = []
        self.failures: list[BaseException] = []

    def run(self) -> None:
        """Accept connections until :meth:`stop`."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                with client, socket.create_connection(self._broker) as broker:
                    for one in (client, broker):
                        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    turns = _Turns(client, broker, self._pace)
                    self.connections.append(turns.run())
            except Exception as error:
                self.failures.append(error)

    def stop(self) -> None:
        """Accept no more connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def taking_turns(host: str, port: int, pace: Callable[[], None]) -> Iterator[TurnTakingProxy]:
    """A proxy in a thread, until the block ends and the last connection is over."""
    proxy = TurnTakingProxy(host, port, pace)
    thread = threading.Thread(target=proxy.run)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join(10.0)
    assert not proxy.failures, proxy.failures
    assert not thread.is_alive(), "a connection of the client is still open"


class _Turns:
    """One connection."""

    def __init__(self, client: socket.socket, broker: socket.socket, pace: Callable[[], None]) -> None:
        self._client = client
        self._broker = broker
        self._pace = pace
        self._pending = b""
        self._steps: list[Step] = []
        self._over = {client: False, broker: False}

    def run(self) -> RecordedConnection:
        """Pass on pieces and answers until one side closes."""
        while not self._over[self._broker]:
            if not self._pending and not self._listen_to_client():
                break
            piece, self._pending = self._pending[:PIECE_BYTES_MAX], self._pending[PIECE_BYTES_MAX:]
            self._broker.sendall(piece)
            self._pace()
            self._pass_on(piece, self._received(self._broker, BROKER_QUIET_SECONDS))
        assert not self._pending, "the broker closed before it had all the bytes of the client"
        return RecordedConnection(self._steps, broker_closes=self._over[self._broker])

    def _listen_to_client(self) -> bool:
        """Wait for the next bytes of the client, and pass on what the broker says meanwhile. False: it closed."""
        while not self._over[self._client]:
            ready, _, _ = select.select([self._client, self._broker], [], [])
            if self._broker in ready:
                step = self._steps.pop()
                self._pass_on(step.client, step.broker, self._received(self._broker, BROKER_QUIET_SECONDS))
                if self._over[self._broker]:
                    return False
            if self._client in ready:
                self._pending += self._received(self._client, CLIENT_QUIET_SECONDS)
                if self._pending:
                    return True
        return False

    def _pass_on(self, piece: bytes, *answers: bytes) -> None:
        self._steps.append(Step(piece, b"".join(answers)))
        with suppress(OSError):  # the client may have closed
            self._client.sendall(answers[-1].replace(SCRAM, NOT_KNOWN))

    def _received(self, side: socket.socket, quiet_seconds: float) -> bytes:
        """Everything that one side says until it has been quiet for so long."""
        data = b""
        while not self._over[side] and select.select([side], [], [], quiet_seconds)[0]:
            try:
                came = side.recv(262_144)
            except ConnectionResetError:
                came = b""
            self._over[side] = not came
            data += came
        return data
