"""The SASL mechanisms: PLAIN [RFC 4616], AMQPLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 [RFC 5802, RFC 7677], EXTERNAL
[RFC 4422 A], ANONYMOUS [RFC 4505].

AMQPLAIN is in no standard; AMQP brokers used it before PLAIN, and clients still offer it. The response is the contents
of a table without its length prefix: the fields ``LOGIN`` and ``PASSWORD``, both long strings. A field of another type
ends the attempt, so that no general table decoder is needed here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.access.exchange import Reply, SaslExchange, SaslMechanism
from core.access.login import SENT_AS_IT_IS, Access, LoginPeer, PasswordCheck
from core.access.records import NAME_BYTES_MAX
from core.access.users import GUEST
from core.config.access import SCRAM_MECHANISMS, HashName

if TYPE_CHECKING:
    from core.access.token_login import TokenCheck

PASSWORD_BYTES_MAX = 1024
"""Longer passwords are rejected without hashing them."""

FIELDS_MAX = 8
"""The most fields in a response of AMQPLAIN. Two are needed; a client may add a few more."""

_LONG_STRING = ord("S")

ANONYMOUS_IDENTITY = "anonymous"

PASSWORD_NEEDS_TLS = (
    "without TLS a password is taken from this machine only; connect with amqps://, or set access.plain_without_tls"
)
_NONE: Mapping[str, str] = {}
_PASSWORDS: Mapping[str, str] = dict.fromkeys(SENT_AS_IT_IS, PASSWORD_NEEDS_TLS)
"""What :func:`withheld` returns, shared by all connections."""

NONCE_BYTES = 18
"""144 bits; a multiple of three, so that base64 needs no padding."""


@dataclass(slots=True)
class PasswordExchange:
    """One attempt with name and password in clear text; the password may be a token. ``credentials`` returns both from
    a response, or None."""

    mechanism: str
    access: Access
    peer: LoginPeer
    credentials: Callable[[bytes], tuple[bytes, bytes] | None]
    fresh: bool = True
    check: "PasswordCheck | TokenCheck | None" = None

    def respond(self, response: bytes) -> Reply:
        """Answer an empty first response with a challenge; any other response has the credentials."""
        if self.check is not None:
            return self.check.reply
        fresh, self.fresh = self.fresh, False
        if fresh and not response:
            return "challenge", b""
        found = self.credentials(response)
        if found is None or len(found[0]) > NAME_BYTES_MAX:
            return self.access.failed(self.mechanism, "", self.peer)
        try:
            name, password = found[0].decode(), found[1].decode()
        except UnicodeDecodeError:
            return self.access.failed(self.mechanism, "", self.peer)
        check = _check(self.access, self.peer, self.mechanism, name, password)
        if len(found[1]) > PASSWORD_BYTES_MAX and isinstance(check, PasswordCheck):
            return self.access.failed(self.mechanism, "", self.peer)
        self.check = check
        return check.start()


def _check(access: Access, peer: LoginPeer, mechanism: str, name: str, password: str) -> "PasswordCheck | TokenCheck":
    """The check of what a client gives as its password."""
    if not access.is_token(name, password):
        return PasswordCheck(access, peer, mechanism, name, password)
    from core.access.token_login import TokenCheck  # here and not above: most brokers have no provider of OAuth 2

    return TokenCheck(access, peer, mechanism, password)


@dataclass(frozen=True, slots=True)
class PlainMechanism:
    """The mechanism PLAIN for one peer."""

    access: Access
    peer: LoginPeer
    name: str = "PLAIN"

    def start(self) -> SaslExchange:
        """Begin a new attempt."""
        return PasswordExchange(self.name, self.access, self.peer, _plain_credentials)


def _plain_credentials(response: bytes) -> tuple[bytes, bytes] | None:
    """Parse a PLAIN response. Returns None if the authorization identity is set and differs from the name."""
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0] not in (b"", parts[1]):
        return None
    return parts[1], parts[2]


@dataclass(frozen=True, slots=True)
class Amqplain:
    """The mechanism AMQPLAIN for one peer."""

    access: Access
    peer: LoginPeer
    name: str = "AMQPLAIN"

    def start(self) -> SaslExchange:
        """Begin a new attempt."""
        return PasswordExchange(self.name, self.access, self.peer, _amqplain_credentials)


def _amqplain_credentials(response: bytes) -> tuple[bytes, bytes] | None:
    fields = long_strings(response)
    if fields is None or "LOGIN" not in fields or "PASSWORD" not in fields:
        return None
    return fields["LOGIN"], fields["PASSWORD"]


def long_strings(fields: bytes) -> dict[str, bytes] | None:
    """Return the fields of a table of long strings without duplicate names; None for any other table [0-9-1
    4.2.5.5]."""
    found: dict[str, bytes] = {}
    position = 0
    while position < len(fields):
        type_at = position + 1 + fields[position]
        value_at = type_at + 5
        if value_at > len(fields) or fields[type_at] != _LONG_STRING or len(found) == FIELDS_MAX:
            return None
        stop = value_at + int.from_bytes(fields[type_at + 1 : value_at])
        name = fields[position + 1 : type_at].decode("ascii", errors="replace")
        if stop > len(fields) or name in found:
            return None
        found[name] = fields[value_at:stop]
        position = stop
    return found


@dataclass(frozen=True, slots=True)
class ExternalMechanism:
    """The mechanism EXTERNAL for one peer, whose certificate has proven its name in the TLS handshake. It is offered
    only to such a peer."""

    access: Access
    peer: LoginPeer
    name: str = "EXTERNAL"

    def start(self) -> SaslExchange:
        """Begin a new attempt."""
        return _ExternalExchange(self)


@dataclass(frozen=True, slots=True)
class _ExternalExchange:
    mechanism: ExternalMechanism

    def respond(self, response: bytes) -> Reply:
        """Accept an authorization identity that is empty or the name in the certificate. The user must exist: a
        certificate proves a name, but gives no rights."""
        access, peer = self.mechanism.access, self.mechanism.peer
        name = peer.certificate_name
        if name is None or response not in (b"", name.encode()) or not access.users.configured(name):
            return access.failed(self.mechanism.name, name or "", peer)
        return access.succeeded(self.mechanism.name, name, peer)


@dataclass(frozen=True, slots=True)
class NodeExternal:
    """The mechanism EXTERNAL for another node, whose certificate has proven its names."""

    access: Access
    peer: LoginPeer
    name: str = "EXTERNAL"

    def start(self) -> SaslExchange:
        """Begin a new attempt."""
        return _NodeExchange(self)


@dataclass(frozen=True, slots=True)
class _NodeExchange:
    mechanism: NodeExternal

    def respond(self, response: bytes) -> Reply:
        """Accept an authorization identity that is empty or one of the names in the certificate."""
        access, peer = self.mechanism.access, self.mechanism.peer
        names = peer.node_names or ()
        name = response.decode(errors="replace") if response else next(iter(names), "")
        if name not in names:
            return access.failed(self.mechanism.name, name[:NAME_BYTES_MAX], peer)
        return access.admitted(self.mechanism.name, f"node {name}", peer)


@dataclass(frozen=True, slots=True)
class Scram:
    """The mechanism SCRAM with one hash for one peer: both sides prove that they know the password, without sending
    it."""

    access: Access
    peer: LoginPeer
    hash_name: HashName

    @property
    def name(self) -> str:
        """See :class:`core.access.exchange.SaslMechanism`."""
        return SCRAM_MECHANISMS[self.hash_name]

    def start(self) -> SaslExchange:
        """Begin a new attempt. The first one imports the code, which takes 2 MiB of memory with its dependencies."""
        from core.access.scram_exchange import ScramExchange

        nonce = self.access.random_bytes(NONCE_BYTES).hex()
        return ScramExchange(self.access, self.peer, self.hash_name, nonce=nonce)


@dataclass(frozen=True, slots=True)
class AnonymousMechanism:
    """The mechanism ANONYMOUS for one peer. A loopback peer is logged in as guest while no users are configured; any
    other peer only if the configuration allows it."""

    access: Access
    peer: LoginPeer
    name: str = "ANONYMOUS"

    def start(self) -> SaslExchange:
        """Begin a new attempt."""
        return _AnonymousExchange(self)

    @property
    def identity(self) -> str | None:
        """The identity of a peer that gives no name; None if it must give one."""
        if self.access.users.guest_is_welcome(loopback=self.peer.loopback):
            return GUEST
        return ANONYMOUS_IDENTITY if self.access.anonymous else None


@dataclass(frozen=True, slots=True)
class _AnonymousExchange:
    mechanism: AnonymousMechanism

    def respond(self, response: bytes) -> Reply:
        """Accept any response: it is trace information. The identity is checked again, because users may have been
        added since the mechanism was offered."""
        own, identity = self.mechanism, self.mechanism.identity
        if identity is None:
            return own.access.refused_anonymous(own.name, own.peer)
        return own.access.admitted(own.name, identity, own.peer)


def offered(access: Access, peer: LoginPeer) -> tuple[SaslMechanism, ...]:
    """Return the mechanisms for one AMQP 1.0 peer, the best first.

    Clients choose SCRAM where it is offered. So beside PLAIN it is not offered while a user has a hash of RabbitMQ:
    that user's first login, which gives it keys, must be one with PLAIN. Nor is it offered while the keys of some users
    are of SHA-256 and those of others of SHA-512, because keys fit one mechanism, nor while tokens are accepted, which
    are shown with PLAIN.

    Another node has nothing but its certificate.
    """
    if peer.node_names is not None:
        return (NodeExternal(access, peer),)
    plain = (PlainMechanism(access, peer),) if access.takes_password_of(peer) else ()
    hashes, tokens = access.users.hashes, access.tokens
    wants_plain = (
        access.users.has_rabbit_hashes or len(hashes) > 1 or (tokens is not None and tokens.settings.configured)
    )
    scram = () if plain and wants_plain else tuple(Scram(access, peer, one) for one in hashes)
    return (*offered_external(access, peer), *scram, *plain, *offered_anonymous(access, peer))


def offered_on_091(access: Access, peer: LoginPeer) -> tuple[SaslMechanism, ...]:
    """Return the mechanisms for one AMQP 0.9.1 peer, the best first. There may be none."""
    amqplain = (Amqplain(access, peer),) if access.amqplain else ()
    passwords = (PlainMechanism(access, peer), *amqplain) if access.takes_password_of(peer) else ()
    return (*offered_external(access, peer), *passwords, *offered_anonymous(access, peer))


def withheld(access: Access, peer: LoginPeer) -> Mapping[str, str]:
    """Return the mechanisms that are not offered to this peer because it would send its password without TLS, with the
    reason and the remedy."""
    return _NONE if access.takes_password_of(peer) else _PASSWORDS


def offered_external(access: Access, peer: LoginPeer) -> tuple[SaslMechanism, ...]:
    """Return EXTERNAL if the peer's certificate has a name, else nothing."""
    return () if peer.certificate_name is None else (ExternalMechanism(access, peer),)


def offered_anonymous(access: Access, peer: LoginPeer) -> tuple[SaslMechanism, ...]:
    """Return ANONYMOUS if the peer may use it now, else nothing."""
    mechanism = AnonymousMechanism(access, peer)
    return () if mechanism.identity is None else (mechanism,)
