"""The SASL mechanisms: PLAIN [RFC 4616], SCRAM-SHA-256 [RFC 5802, RFC 7677], ANONYMOUS [RFC 4505]."""

from collections.abc import Callable
from dataclasses import dataclass

from core.access.exchange import FAILURE, Reply, SaslExchange, SaslMechanism, success
from core.access.login import Access, LoginPeer, PasswordCheck
from core.access.users import GUEST

NAME_BYTES_MAX = 255
PASSWORD_BYTES_MAX = 1024
"""More is no password; hashing it would be work for nothing."""

ANONYMOUS_IDENTITY = "anonymous"

NONCE_BYTES = 18
"""A multiple of three, so that base64 needs no padding; 144 bits."""


@dataclass(slots=True)
class PasswordExchange:
    """One attempt with name and password in the clear. ``credentials`` finds both in a response, or None."""

    mechanism: str
    access: Access
    peer: LoginPeer
    credentials: Callable[[bytes], tuple[bytes, bytes] | None]
    fresh: bool = True
    check: PasswordCheck | None = None

    def respond(self, response: bytes) -> Reply:
        """An empty first response asks for a challenge; any other is the attempt."""
        if self.check is not None:
            return self.check.reply
        fresh, self.fresh = self.fresh, False
        if fresh and not response:
            return "challenge", b""
        found = self.credentials(response)
        if found is None or len(found[0]) > NAME_BYTES_MAX or len(found[1]) > PASSWORD_BYTES_MAX:
            return self.access.failed(self.mechanism, "", self.peer)
        try:
            name, password = found[0].decode(), found[1].decode()
        except UnicodeDecodeError:
            return self.access.failed(self.mechanism, "", self.peer)
        self.check = PasswordCheck(self.access, self.peer, self.mechanism, name, password)
        return self.check.start()


@dataclass(frozen=True, slots=True)
class Plain:
    """Name and password in the clear."""

    access: Access
    peer: LoginPeer
    name: str = "PLAIN"

    def start(self) -> SaslExchange:
        """A fresh attempt."""
        return PasswordExchange(self.name, self.access, self.peer, _plain_credentials)


def _plain_credentials(response: bytes) -> tuple[bytes, bytes] | None:
    """Nobody may act on behalf of somebody else."""
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0] not in (b"", parts[1]):
        return None
    return parts[1], parts[2]


@dataclass(frozen=True, slots=True)
class ScramSha256:
    """Proof of knowing the password, both ways, without sending it."""

    access: Access
    peer: LoginPeer
    name: str = "SCRAM-SHA-256"

    def start(self) -> SaslExchange:
        """A fresh attempt. Its code is loaded with the first one: with what it needs it takes 2 MiB."""
        from core.access.scram_exchange import ScramExchange

        return ScramExchange(self.access, self.peer, nonce=self.access.random_bytes(NONCE_BYTES).hex())


@dataclass(frozen=True, slots=True)
class Anonymous:
    """Lets in without a name: as guest while guest is the only user, on this machine; else where it is allowed."""

    access: Access
    peer: LoginPeer
    name: str = "ANONYMOUS"

    def start(self) -> SaslExchange:
        """A fresh attempt."""
        return _AnonymousExchange(self)

    @property
    def identity(self) -> str | None:
        """Who a peer is that gives no name; None when it must give one."""
        if self.access.users.guest_is_welcome(loopback=self.peer.loopback):
            return GUEST
        return ANONYMOUS_IDENTITY if self.access.anonymous else None


@dataclass(frozen=True, slots=True)
class _AnonymousExchange:
    mechanism: Anonymous

    def respond(self, response: bytes) -> Reply:
        """The response is trace information; anything will do. Users may have come since the offer."""
        identity = self.mechanism.identity
        return FAILURE if identity is None else success(identity)


def offered(access: Access, peer: LoginPeer) -> tuple[SaslMechanism, ...]:
    """The mechanisms for one peer of AMQP 1.0, the best first."""
    return (ScramSha256(access, peer), Plain(access, peer), *offered_anonymous(access, peer))


def offered_anonymous(access: Access, peer: LoginPeer) -> tuple[SaslMechanism, ...]:
    """ANONYMOUS, where a peer may use it now."""
    mechanism = Anonymous(access, peer)
    return () if mechanism.identity is None else (mechanism,)
