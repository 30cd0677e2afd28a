"""Who may connect, with the keys of their passwords, and which passwords were right a moment ago.

The peer must not learn which names exist, neither from the time an answer takes nor from what SCRAM shows it. So an
unknown name has keys too, made from the name and a secret of this process: always the same salt, the iteration count
of some user, and keys that no password fits. It costs the same work as a wrong password.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import NamedTuple

from core.access.passwords import hash_password
from core.config.access import ITERATIONS_MIN, ScramKeys, UserSettings

GUEST = "guest"
"""User and password when no users are configured. Every AMQP client's examples have them written in; so its keys have
the fewest iterations that SCRAM allows: there is no secret in them, and clients on this machine connect often."""

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
        """From now on there are these. Connections that are open stay; no password is remembered."""
        self._keys = {user.name: user.scram for user in users}
        self._counts = self._iteration_counts()
        self._right.clear()

    @property
    def names(self) -> list[str]:
        """Of all users."""
        return list(self._keys) or [GUEST]

    def guest_is_welcome(self, *, loopback: bool) -> bool:
        """Whether a peer may be the default user: the configuration has no user, and the peer is on this machine."""
        return loopback and not self._keys

    def keys(self, name: str, *, loopback: bool) -> ScramKeys:
        """The keys of a user; for an unknown one, keys that no password fits."""
        keys = self._keys.get(name)
        if keys is None and name == GUEST and self.guest_is_welcome(loopback=loopback):
            if self._guest_keys is None:
                self._guest_keys = hash_password(GUEST, salt=self._guest_salt, iterations=ITERATIONS_MIN)
            keys = self._guest_keys
        return self._decoy(name) if keys is None else keys

    def configured(self, name: str) -> bool:
        """Whether there is such a user, other than the default one."""
        return name in self._keys

    def set_keys(self, name: str, keys: ScramKeys) -> None:
        """Replace a user's keys by others of the same password."""
        assert name in self._keys
        self._keys[name] = keys
        self._counts = self._iteration_counts()

    def remember(self, name: str, password: str, *, loopback: bool) -> None:
        """This password is right."""
        until = self._monotonic() + self._cache_seconds
        self._right[name] = _Remembered(self._right_digest(name, password, loopback), until)

    def remembers(self, name: str, password: str, *, loopback: bool) -> bool:
        """Whether this password was right a moment ago, for the keys that the user has now."""
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
        """Keyed, and with each part's length, so that no two inputs run together."""
        digest = hmac.new(self._secret, purpose, hashlib.sha256)
        for part in parts:
            data = part.encode() if isinstance(part, str) else part
            digest.update(len(data).to_bytes(4) + data)
        return digest.digest()
