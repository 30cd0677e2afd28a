"""The login link of the console: a secret that the start of the broker shows on its terminal, good for one login.

It is for the person who has just started a broker whose console needs a login. The secret is the fragment of a URL,
which browsers do not send, so no proxy and no log of a server gets it; the page posts it. Only a digest is kept.
"""

import hmac
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Self

from core.config.address import is_loopback

SECRET_BYTES = 32
"""Bytes of a secret: 256 bits, which cannot be guessed."""
VALID_S = 300.0
"""Seconds after the start during which the link is good: time to look for a browser, and no more."""
FRAGMENT = "login="
ANY_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Listening addresses that stand for all of the machine, with the loopback address that they include."""


class LoginLink:
    """Whether a secret may log in: once, and for :data:`VALID_S` seconds."""

    def __init__(self, digest: bytes, *, ends: float, monotonic: Callable[[], float]) -> None:
        self._digest: bytes | None = digest
        self._ends = ends
        self._monotonic = monotonic

    @classmethod
    def make(cls, *, random_bytes: Callable[[int], bytes], monotonic: Callable[[], float]) -> tuple[str, Self]:
        """Return a new secret, which is not kept, and its link."""
        secret = random_bytes(SECRET_BYTES).hex()
        return secret, cls(_digest(secret), ends=monotonic() + VALID_S, monotonic=monotonic)

    def take(self, secret: str) -> bool:
        """Whether the secret is right and logs in now; it is used up then. A wrong one uses nothing up."""
        if self._digest is None or self._monotonic() >= self._ends:
            return False
        if not hmac.compare_digest(_digest(secret), self._digest):
            return False
        self._digest = None
        return True


def link_url(scheme: str, addresses: Iterable[tuple[str, int]], secret: str) -> str | None:
    """The URL for a browser on this machine; None if no address is reached from it by a loopback address."""
    for host, port in addresses:
        near = ANY_HOSTS.get(host, host)
        if is_loopback(near):
            return f"{scheme}://{f'[{near}]' if ':' in near else near}:{port}/console/#{FRAGMENT}{secret}"
    return None


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
