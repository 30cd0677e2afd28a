"""Who may connect, and whether a password is right. A name that nobody has costs the same work as a wrong
password.

The peer must not learn which names exist, neither from the time an answer takes nor from the salt that SCRAM
shows it. So an unknown name has keys too, made from the name and a secret of this process: always the same
salt, and keys that no password fits.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import NamedTuple

from core.access.passwords import hash_password
from core.config.access import ITERATIONS_MIN, ScramKeys, UserSettings

GUEST = "guest"
"""User and password when no users are configured. Every AMQP client's examples have them written in."""

SECRET_BYTES = 32
SALT_BYTES = 16


class _Remembered(NamedTuple):
    digest: bytes
    until: float


class Users:
    """The configured users; without any, guest, for loopback peers."""

    def __init__(
        self,
        users: Iterable[UserSettings],
        *,
        cache_seconds: float,
        monotonic: Callable[[], float],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """``monotonic`` is only for the cache; ``random_bytes`` must be fit for secrets."""
        self._guest_salt = random_bytes(SALT_BYTES)
        self._guest_keys: ScramKeys | None = None
        self._secret = random_bytes(SECRET_BYTES)
        self._cache_seconds = cache_seconds
        self._monotonic = monotonic
        self._right: dict[str, _Remembered] = {}
        self.replace(users)

    def replace(self, users: Iterable[UserSettings]) -> None:
        """From now on there are these. Whoever is logged in stays so."""
        self._keys = {user.name: user.scram for user in users}
        self._iterations = max((keys.iterations for keys in self._keys.values()), default=ITERATIONS_MIN)
        self._right.clear()

    @property
    def names(self) -> list[str]:
        """Of all users."""
        return list(self._keys) or [GUEST]

    def guest_is_welcome(self, *, loopback: bool) -> bool:
        """Whether a peer may be the default user: nobody has configured another, and it is on this machine."""
        return loopback and not self._keys

    def keys(self, name: str, *, loopback: bool) -> ScramKeys:
        """The keys of a user; for an unknown one, keys that no password fits."""
        keys = self._keys.get(name)
        if keys is None and name == GUEST and self.guest_is_welcome(loopback=loopback):
            if self._guest_keys is None:
                self._guest_keys = hash_password(GUEST, salt=self._guest_salt)
            keys = self._guest_keys
        return self._decoy(name) if keys is None else keys

    def password_is_right(self, name: str, password: str, *, loopback: bool) -> bool:
        """Compute the password's keys and compare; one that was right a moment ago is only compared."""
        keys = self.keys(name, loopback=loopback)
        digest = self._digest(b"right", name, password, keys.stored_key)
        remembered = self._right.get(name)
        now = self._monotonic()
        if remembered and now < remembered.until and hmac.compare_digest(remembered.digest, digest):
            return True
        try:
            given = hash_password(password, salt=keys.salt, iterations=keys.iterations)
        except ValueError:
            return False
        if not hmac.compare_digest(given.stored_key, keys.stored_key):
            return False
        self._right[name] = _Remembered(digest, now + self._cache_seconds)
        return True

    def _decoy(self, name: str) -> ScramKeys:
        return ScramKeys(
            iterations=self._iterations,
            salt=self._digest(b"salt", name)[:SALT_BYTES],
            stored_key=self._digest(b"stored", name),
            server_key=self._digest(b"server", name),
        )

    def _digest(self, purpose: bytes, *parts: str | bytes) -> bytes:
        """Keyed, and with each part's length, so that no two inputs run together."""
        digest = hmac.new(self._secret, purpose, hashlib.sha256)
        for part in parts:
            data = part.encode() if isinstance(part, str) else part
            digest.update(len(data).to_bytes(4) + data)
        return digest.digest()
