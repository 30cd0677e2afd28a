"""The SASL mechanisms: PLAIN [RFC 4616], SCRAM-SHA-256 [RFC 5802, RFC 7677], ANONYMOUS [RFC 4505]."""

from collections.abc import Callable
from dataclasses import dataclass

from core.access.exchange import FAILURE, Reply, SaslExchange, SaslMechanism, success
from core.access.users import GUEST, Users

NAME_BYTES_MAX = 255
PASSWORD_BYTES_MAX = 1024
"""More is no password; hashing it would be work for nothing."""

ANONYMOUS_IDENTITY = "anonymous"

NONCE_BYTES = 18
"""A multiple of three, so that base64 needs no padding; 144 bits."""


@dataclass(slots=True)
class PasswordExchange:
    """One attempt with name and password in the clear. ``credentials`` finds both in a response, or None."""

    users: Users
    loopback: bool
    credentials: Callable[[bytes], tuple[bytes, bytes] | None]
    fresh: bool = True

    def respond(self, response: bytes) -> Reply:
        """An empty first response asks for a challenge; any other is the attempt."""
        fresh, self.fresh = self.fresh, False
        if fresh and not response:
            return "challenge", b""
        found = self.credentials(response)
        if found is None or len(found[0]) > NAME_BYTES_MAX or len(found[1]) > PASSWORD_BYTES_MAX:
            return FAILURE
        try:
            name, password = found[0].decode(), found[1].decode()
        except UnicodeDecodeError:
            return FAILURE
        right = self.users.password_is_right(name, password, loopback=self.loopback)
        return success(name) if right else FAILURE


@dataclass(frozen=True, slots=True)
class Plain:
    """Name and password in the clear."""

    users: Users
    loopback: bool
    name: str = "PLAIN"

    def start(self) -> SaslExchange:
        """A fresh attempt."""
        return PasswordExchange(self.users, self.loopback, _plain_credentials)


def _plain_credentials(response: bytes) -> tuple[bytes, bytes] | None:
    """Nobody may act on behalf of somebody else."""
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0] not in (b"", parts[1]):
        return None
    return parts[1], parts[2]


@dataclass(frozen=True, slots=True)
class ScramSha256:
    """Proof of knowing the password, both ways, without sending it."""

    users: Users
    loopback: bool
    random_bytes: Callable[[int], bytes]
    name: str = "SCRAM-SHA-256"

    def start(self) -> SaslExchange:
        """A fresh attempt. Its code is loaded with the first one: with what it needs it takes 2 MiB."""
        from core.access.scram_exchange import ScramExchange

        return ScramExchange(self.users, loopback=self.loopback, nonce=self.random_bytes(NONCE_BYTES).hex())


@dataclass(frozen=True, slots=True)
class Anonymous:
    """Lets in without a name: as guest while guest is the only user, on this machine; else where it is allowed."""

    users: Users
    loopback: bool
    allowed: bool
    """Whether peers may be anonymous from anywhere and beside users."""
    name: str = "ANONYMOUS"

    def start(self) -> SaslExchange:
        """A fresh attempt."""
        return _AnonymousExchange(self)

    @property
    def identity(self) -> str | None:
        """Who a peer is that gives no name; None when it must give one."""
        if self.users.guest_is_welcome(loopback=self.loopback):
            return GUEST
        return ANONYMOUS_IDENTITY if self.allowed else None


@dataclass(frozen=True, slots=True)
class _AnonymousExchange:
    mechanism: Anonymous

    def respond(self, response: bytes) -> Reply:
        """The response is trace information; anything will do. Users may have come since the offer."""
        identity = self.mechanism.identity
        return FAILURE if identity is None else success(identity)


def offered(
    users: Users, *, loopback: bool, anonymous: bool, random_bytes: Callable[[int], bytes]
) -> tuple[SaslMechanism, ...]:
    """The mechanisms for one peer, the best first."""
    return (
        ScramSha256(users, loopback, random_bytes),
        Plain(users, loopback),
        *offered_anonymous(users, loopback=loopback, anonymous=anonymous),
    )


def offered_anonymous(users: Users, *, loopback: bool, anonymous: bool) -> tuple[SaslMechanism, ...]:
    """ANONYMOUS, where a peer may use it now."""
    mechanism = Anonymous(users, loopback, anonymous)
    return () if mechanism.identity is None else (mechanism,)
