"""A second connection to the same broker, which tells when the broker has read what was sent on the first."""

import socket
from types import TracebackType
from typing import Self

from amqp10.load import wire
from tests.recorded.fields import split_frames

ANSWER_SECONDS_MAX = 20.0
BEFORE_BEGIN = 5
"""Frames of the broker until its begin: SASL header, mechanisms, outcome, AMQP header, open; the begin follows."""


class Pacer:
    """One connection with one session, on which a flow with echo is answered at once [2.7.4].

    The broker has one thread for all connections. Bytes that lie in its sockets when it looks are read in any order in
    one round of its event loop. So the answer to a first echo can come before bytes that another connection sent
    earlier are read; but the round of the second echo begins when they have been read.
    """

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), ANSWER_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        init = wire.composite(wire.SASL_INIT, wire.symbol("PLAIN"), wire.binary(b"\0guest\0guest"))
        begin = wire.composite(
            wire.BEGIN, wire.NULL, wire.uint(0), wire.uint(2**31 - 1), wire.uint(2**31 - 1), wire.uint(0)
        )
        self._socket.sendall(
            wire.SASL_HEADER
            + wire.frame(init, kind=wire.SASL_FRAME)
            + wire.AMQP_HEADER
            + wire.frame(wire.composite(wire.OPEN, wire.string("pacer")))
            + wire.frame(begin)
        )
        self._take(BEFORE_BEGIN + 1)

    def pace(self) -> None:
        """Return when the broker has read, and worked on, what lay in its sockets before this call."""
        for _ in range(2):
            self._echo()

    def _echo(self) -> None:
        session = wire.uint(0), wire.uint(2**31 - 1), wire.uint(0), wire.uint(2**31 - 1)
        handle_to_drain = [wire.NULL] * 5
        flow = wire.composite(wire.FLOW, *session, *handle_to_drain, wire.boolean(True))
        self._socket.sendall(wire.frame(flow))
        self._take(1)

    def _take(self, count: int) -> None:
        while count:
            data = self._socket.recv(65536)
            assert data, "the broker closed the connection of the pacer"
            frames, self._rest = split_frames(self._rest + data, is_091=False)
            count -= len(frames)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
