"""What the server asks of a protocol, and which protocol answers a connection's first bytes.

A front end is sans-IO: bytes and the time go in, bytes come out, and everything it does to the engine happens inside
these calls. The server owns the socket, the clock and the order of calls, and it is the only one that awaits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.clock import Now

PREFACE_BYTES = 8
"""Both AMQP 1.0 [2.2] and 0.9.1 [0-9-1 4.2.2] open with a protocol header of eight bytes."""


def is_loopback(host: str) -> bool:
    """An address of this machine for itself."""
    return host == "::1" or host.startswith(("127.", "::ffff:127."))


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """Where an accepted connection comes from and where it arrived: for authentication, logs and snapshots."""

    identity: str
    """The broker's own name for the connection, unique while the broker runs."""
    remote_host: str
    remote_port: int
    local_host: str
    local_port: int
    encrypted: bool = False

    @property
    def loopback(self) -> bool:
        """True when the peer is on this machine."""
        return is_loopback(self.remote_host)


class FrontEnd(Protocol):
    """One connection's protocol. Raises nothing for a peer's fault: what escapes is our bug, and the server logs it
    with its stack, closes this connection and goes on."""

    def receive_data(self, data: bytes, now: Now) -> None:
        """Take what the socket brought. Verbs on the engine happen here; output waits for ``data_to_send``."""

    def receive_eof(self, now: Now) -> None:
        """The peer closed its side of the socket."""

    def take_actions(self, now: Now) -> None:
        """Turn the actions in the mailbox into protocol state and output."""

    def data_to_send(self, now: Now) -> bytes:
        """All output so far, joined; b"" when there is none."""

    def output_backlog(self, waiting_bytes: int) -> None:
        """How many bytes the socket has not taken yet. Told whenever it changes."""

    def deadline(self) -> float | None:
        """The monotonic time at which ``tick`` must be called, if any."""

    def tick(self, now: Now) -> None:
        """A deadline has come: heartbeats, time-outs, delayed answers."""

    def shut_down(self, reason: str, now: Now) -> None:
        """The operator ends this connection: say so to the peer and stop taking from it."""

    def last_words(self) -> bytes:
        """What the peer may be told when a bug of ours ends the connection, b"" for nothing.

        Called at most once, after another call has raised: it must lean on as little state as it can.
        """

    def connection_lost(self, now: Now) -> bool:
        """The socket is gone, whyever. Give back to the engine what this connection held, as much as belongs into one
        turn. Called again, turn by turn, as long as it returns True; nothing else is called in between."""

    @property
    def finished(self) -> bool:
        """Nothing more will be read: close the socket once the output is sent."""

    @property
    def established(self) -> bool:
        """The handshake is over: authenticated and open. Until then the handshake time-out runs."""

    @property
    def reading(self) -> bool:
        """False while the protocol wants the socket left alone (0.9.1 in flow)."""

    def snapshot(self, kind: str, now: Now) -> list[dict[str, object]]:
        """This connection's own state: "connections" (one), "sessions", "links", "channels"; [] for kinds it does not
        know."""

    def parts(self, kind: str, now: Now) -> Iterator[list[dict[str, object]]]:
        """The same in parts of some hundred rows, each made when it is asked for: others have their turn in between."""


@dataclass(frozen=True, slots=True)
class FrontEndFactory:
    """A protocol that can answer on this port.

    ``accepts`` looks at the first eight bytes. ``make`` builds the front end; ``notify`` is what its mailbox calls when
    it turns from empty to non-empty. ``refusal`` gives the bytes that tell a peer why it cannot be served (it is used
    when descriptors run out: the whole answer, handshake included).
    """

    name: str
    accepts: Callable[[bytes], bool]
    make: Callable[[PeerInfo, Callable[[], None]], FrontEnd]
    refusal: Callable[[str], bytes]


def choose(factories: Sequence[FrontEndFactory], preface: bytes) -> FrontEndFactory:
    """The factory for these first eight bytes; the first one when none accepts them (it knows how to refuse)."""
    for factory in factories:
        if factory.accepts(preface):
            return factory
    return factories[0]
