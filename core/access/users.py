"""The users that may connect, with the keys of their passwords, and a cache of recently verified passwords.

A peer must not learn which names exist, neither from the time of a reply nor from the values that SCRAM shows. So an
unknown name has keys too, derived from the name and a secret of this process: always the same salt, the iteration count
of some user, and keys that match no password. It costs the same work as a wrong password.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import NamedTuple

from core.access.passwords import hash_password
from core.config.access import ITERATIONS_MIN, ScramKeys, UserSettings

GUEST = "guest"
"""User name and password if no users are configured; the examples of AMQP clients use them. Because they are not secret
and local clients connect often, the keys have the fewest iterations that SCRAM allows."""

SECRET_BYTES = 32
SALT_BYTES = 16


class _Remembered(NamedTuple):
    digest: bytes
    until: float


class Users:
    """The configured users; if there are none, guest for loopback peers."""

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
        """Replace all users. Open connections stay; the cache of passwords is emptied."""
        self._keys = {user.name: user.scram for user in users}
        self._counts = self._iteration_counts()
        self._right.clear()

    @property
    def names(self) -> list[str]:
        """The names of all users."""
        return list(self._keys) or [GUEST]

    def guest_is_welcome(self, *, loopback: bool) -> bool:
        """Return whether a peer may log in as guest: no users are configured, and the peer is on this machine."""
        return loopback and not self._keys

    def keys(self, name: str, *, loopback: bool) -> ScramKeys:
        """Return the keys of a user; for an unknown name, keys that match no password."""
        keys = self._keys.get(name)
        if keys is None and name == GUEST and self.guest_is_welcome(loopback=loopback):
            if self._guest_keys is None:
                self._guest_keys = hash_password(GUEST, salt=self._guest_salt, iterations=ITERATIONS_MIN)
            keys = self._guest_keys
        return self._decoy(name) if keys is None else keys

    def configured(self, name: str) -> bool:
        """Return whether a user of this name is configured; guest as the default user does not count."""
        return name in self._keys

    def set_keys(self, name: str, keys: ScramKeys) -> None:
        """Replace a user's keys by new keys of the same password."""
        assert name in self._keys
        self._keys[name] = keys
        self._counts = self._iteration_counts()

    def remember(self, name: str, password: str, *, loopback: bool) -> None:
        """Remember for ``cache_seconds`` that this password is right."""
        until = self._monotonic() + self._cache_seconds
        self._right[name] = _Remembered(self._right_digest(name, password, loopback), until)

    def remembers(self, name: str, password: str, *, loopback: bool) -> bool:
        """Return whether this password was recently right, for the user's current keys."""
        remembered = self._right.get(name)
        if remembered is None or self._monotonic() >= remembered.until:
            return False
        return hmac.compare_digest(remembered.digest, self._right_digest(name, password, loopback))

    def _right_digest(self, name: str, password: str, loopback: bool) -> bytes:
        return self._digest(b"right", name, password, self.keys(name, loopback=loopback).stored_key)

    def _iteration_counts(self) -> list[int]:
        return sorted({keys.iterations for keys in self._keys.values()}) or [ITERATIONS_MIN]

    def _decoy(self, name: str) -> ScramKeys:
        counts = self._counts
        return ScramKeys(
            iterations=counts[int.from_bytes(self._digest(b"iterations", name)[:4]) % len(counts)],
            salt=self._digest(b"salt", name)[:SALT_BYTES],
            stored_key=self._digest(b"stored", name),
            server_key=self._digest(b"server", name),
        )

    def _digest(self, purpose: bytes, *parts: str | bytes) -> bytes:
        """Return a keyed digest. The length of each part is included, so that different parts never give the same
        input."""
        digest = hmac.new(self._secret, purpose, hashlib.sha256)
        for part in parts:
            data = part.encode() if isinstance(part, str) else part
            digest.update(len(data).to_bytes(4) + data)
        return digest.digest()
