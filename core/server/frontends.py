"""What the server asks of a protocol, and which protocol answers a connection's first bytes.

A front end is sans-IO: bytes and the time go in, bytes come out, and everything it does to the engine happens inside
these calls. The server owns the socket, the clock and the order of calls, and it is the only one that awaits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.access.client_certificate import ClientCertificate
from core.access.login import Access, LoginPeer
from core.clock import Now
from core.server.orders import Order
from core.server.tls import TlsFacts

PREFACE_BYTES = 8
"""Both AMQP 1.0 [2.2] and 0.9.1 [0-9-1 4.2.2] open with a protocol header of eight bytes."""

_HINTS = (
    (b"\x16\x03", "TLS: this port speaks plain AMQP; connect without TLS"),
    (b"GET ", "HTTP: this port speaks AMQP, not HTTP"),
    (b"POST ", "HTTP: this port speaks AMQP, not HTTP"),
    (b"PUT ", "HTTP: this port speaks AMQP, not HTTP"),
    (b"HEAD ", "HTTP: this port speaks AMQP, not HTTP"),
    (b"PRI * HT", "HTTP/2: this port speaks AMQP, not HTTP"),
    (b"OPTIONS ", "HTTP: this port speaks AMQP, not HTTP"),
    (b"CONNECT ", "HTTP: this port speaks AMQP, not HTTP"),
    (b"\x10", "MQTT: this port speaks AMQP, not MQTT"),
    (b"SSH-", "SSH: this port speaks AMQP"),
    (b"AMQP", "AMQP of a version that is not served here"),
)


def is_loopback(host: str) -> bool:
    """Whether this is an address of the machine for itself."""
    return host == "::1" or host.startswith(("127.", "::ffff:127."))


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """Where an accepted connection comes from and on which address it arrived: for authentication, logs and
    snapshots."""

    identity: str
    """The broker's own name for the connection, unique while the broker runs."""
    remote_host: str
    remote_port: int
    local_host: str
    local_port: int
    encrypted: bool = False
    """Whether the connection uses TLS."""
    tls: TlsFacts | None = None
    """What the TLS handshake has settled; None before it is complete, and without TLS."""
    client_certificate: ClientCertificate | None = None
    """The certificate that the client has shown, verified; None if it has shown none."""

    node_names: tuple[str, ...] | None = None
    """The names in the certificate of another node, verified, for a connection on an address for nodes; None for any
    other connection."""

    @property
    def certificate_name(self) -> str | None:
        """The name of the user that the client's certificate proves; None if there is none."""
        return None if self.client_certificate is None else self.client_certificate.login_name

    def shown(self) -> dict[str, object]:
        """What a row of a connection shows of it."""
        return {
            "identity": self.identity,
            "remote_host": self.remote_host,
            "remote_port": self.remote_port,
            "local_host": self.local_host,
            "local_port": self.local_port,
            "tls": None if self.tls is None else self.tls.version,
            "cipher": None if self.tls is None else self.tls.cipher,
            "client_certificate": None if self.client_certificate is None else self.client_certificate.subject,
        }

    @property
    def loopback(self) -> bool:
        """True when the peer is on this machine."""
        return is_loopback(self.remote_host)


def login_peer(access: Access, info: PeerInfo, notify: Callable[[], None], *, protocol: str) -> LoginPeer:
    """Return the peer of a connection as the logins see it. ``notify`` lets a login go on that has waited; ``protocol``
    is the name in the audit log."""
    return LoginPeer(
        host=info.remote_host,
        loopback=info.loopback,
        wake=notify,
        certificate_name=info.certificate_name,
        node_names=info.node_names,
        encrypted=info.encrypted,
        audit=access.audited(protocol, info.remote_host, info.remote_port, info.identity),
    )


class FrontEnd(Protocol):
    """One connection's protocol. It raises nothing for a peer's fault. An exception that escapes is our bug: the server
    logs it with its stack, closes this connection and goes on."""

    def receive_data(self, data: bytes, now: Now) -> bool:
        """Take bytes from the socket. Verbs on the engine are called here; output waits for ``pieces_to_send``.

        Returns False if a flush would find nothing to do: no action and no output waits, no property below has changed,
        and no deadline has become earlier. So the settlement of a delivery costs no flush.
        """

    def receive_eof(self, now: Now) -> None:
        """The peer closed its side of the socket."""

    def take_actions(self, now: Now) -> None:
        """Turn the actions in the mailbox into protocol state and output."""

    def pieces_to_send(self, now: Now) -> list[bytes | memoryview]:
        """Return all output so far: the bytes of all pieces, one after the other; [] when there is none."""

    def output_backlog(self, waiting_bytes: int) -> None:
        """Note how many bytes the socket has not taken yet. Called whenever that number changes."""

    def deadline(self) -> float | None:
        """The monotonic time at which ``tick`` must be called, if any."""

    def tick(self, now: Now) -> None:
        """Do what is due at a deadline: heartbeats, time-outs, delayed answers."""

    def shut_down(self, reason: str, now: Now) -> None:
        """End this connection for the operator: tell the peer, and stop taking input from it."""

    def last_words(self) -> bytes:
        """Return what the peer may be told when a bug of ours ends the connection; b"" for nothing.

        Called at most once, after another call has raised: it must depend on as little state as it can.
        """

    def connection_lost(self, now: Now) -> bool:
        """Give back to the engine what this connection held, as much as one turn may do. The socket is gone, for any
        reason. Called again, turn by turn, as long as it returns True; no other method is called in between."""

    @property
    def finished(self) -> bool:
        """True when no more input will be read: the server closes the socket once the output is sent."""

    @property
    def established(self) -> bool:
        """The handshake is over: authenticated and open. Until then the handshake time-out runs."""

    @property
    def reading(self) -> bool:
        """False while the protocol wants the socket not to be read (0.9.1 without stage credit)."""

    def snapshot(self, kind: str, now: Now) -> list[dict[str, object]]:
        """Rows about this connection's own state, of the kind "connections" (one row), "sessions", "links" or
        "channels"; an empty list for unknown kinds."""

    def parts(self, kind: str, now: Now, identity: str | None = None) -> Iterator[list[dict[str, object]]]:
        """The same rows in parts of some hundred, each made when it is asked for, so that other tasks run in between.
        With an identity, the row that has it is among them, if there is one, and as few others as possible."""

    def check(self, order: Order) -> None:
        """Check an operator's order. Raises NotFound if there is no such link or session, Invalid if it makes no sense
        for it."""

    def obey(self, order: Order, now: Now) -> None:
        """Carry out an order that ``check`` let pass; output waits for ``pieces_to_send``. An order that no longer
        applies is ignored."""


@dataclass(frozen=True, slots=True)
class FrontEndFactory:
    """A protocol that can be served on this port.

    ``accepts`` looks at the first eight bytes. ``make`` builds the front end; its ``notify`` is called when the mailbox
    turns from empty to non-empty. ``refusal`` returns the bytes that tell a peer why it cannot be served: the whole
    answer, handshake included. It is used when descriptors run out.
    """

    name: str
    accepts: Callable[[bytes], bool]
    make: Callable[[PeerInfo, Callable[[], None]], FrontEnd]
    refusal: Callable[[str], bytes]
    for_nodes: bool = False
    """Whether other nodes use it, so that it is served on the addresses for nodes too."""


def choose(factories: Sequence[FrontEndFactory], preface: bytes) -> FrontEndFactory:
    """The factory for these first eight bytes; the first one when none accepts them (it knows how to refuse)."""
    for factory in factories:
        if factory.accepts(preface):
            return factory
    return factories[0]


def hint(preface: bytes) -> str:
    """Return one line for the log about a header that no front end accepts."""
    for start, text in _HINTS:
        if preface.startswith(start):
            return text
    return "not an AMQP protocol header"
