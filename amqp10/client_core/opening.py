"""How a client opens its end of a connection, and in which words it tells why a connection is over."""

import os
from collections.abc import Mapping, Sequence
from typing import Literal

from amqp10.client_core.errors import ClientError, ConnectionLost, NotLetIn, told
from amqp10.client_core.scram import HASHES, ScramCredentials, ScramName
from amqp10.client_core.url import Url
from amqp10.protocol.connection import Connection
from amqp10.protocol.events import ConnectionClosed
from amqp10.protocol.handshake import ClientHandshake
from amqp10.protocol.lifecycle import ConnectionState
from amqp10.protocol.sasl import Anonymous, Credentials, External, Plain
from amqp10.protocol.settings import ConnectionSettings, SessionLimits
from amqp10.wire.types import plain

MechanismName = ScramName | Literal["PLAIN"]
MECHANISMS: tuple[MechanismName, ...] = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
"""The preferred first."""
NONCE_BYTES = 18
"""144 bits, the same as the broker's own nonce."""
NAME_BYTES = 6
"""48 random bits, to tell clients without a given name apart."""


def random_name(kind: str) -> str:
    """A container id for a client without a given name."""
    return f"{kind}-{os.urandom(NAME_BYTES).hex()}"


def new_engine(
    url: Url, password: str, settings: ConnectionSettings, mechanisms: Sequence[MechanismName] = MECHANISMS
) -> Connection:
    """The protocol engine of a new connection. A URL without a user logs in with its certificate, or as ANONYMOUS if it
    has none."""
    has_certificate = url.tls is not None and url.tls.certificate is not None
    credentials: list[Credentials] = [External() if has_certificate else Anonymous()]
    if url.user is not None:
        known: dict[str, Credentials] = {
            "PLAIN": Plain(url.user, password),
            **{one: ScramCredentials(url.user, password, _nonce, one) for one in HASHES},
        }
        credentials = [known[mechanism] for mechanism in mechanisms]
    handshake = ClientHandshake(credentials, hostname=url.host, frame_size_max=settings.max_frame_size)
    return Connection(settings, handshake)


def _nonce() -> str:
    return os.urandom(NONCE_BYTES).hex()


def session_limits(incoming_window: int) -> SessionLimits:
    """The limits of a session with this window, in transfers: topped up at half, and as many tolerated after it was
    closed."""
    return SessionLimits(
        max_incoming_window=incoming_window,
        window_top_up=incoming_window // 2,
        incoming_window_margin=incoming_window,
    )


def open_if_let_in(engine: Connection) -> bool:
    """Send the open as soon as the handshake is complete. True when that is now."""
    now = engine.handshake.complete and engine.state is ConnectionState.START
    if now:
        engine.open()
    return now


def why_over(engine: Connection, place: str, closed: ConnectionClosed | None = None) -> ClientError:
    """Why a connection to ``place`` is over; ``closed`` is the engine's event about it, where there was one."""
    if engine.handshake.refused is not None:
        return NotLetIn(f"{place}: {engine.handshake.refused}")
    if closed is None:
        return ConnectionLost(f"the connection to {place} broke")
    what = "the broker closed the connection" if closed.by_peer else "the connection was closed"
    return ConnectionLost(*told(what, closed.error))


def broker_properties(engine: Connection) -> Mapping[str, object]:
    """The broker's description of itself: product, version and so on, plain values."""
    remote = engine.remote
    return {} if remote is None else {key: plain(value) for key, value in (remote.properties or {}).items()}
