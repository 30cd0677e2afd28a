"""Which host has a key, for services that keep state: rendezvous hashing [Thaler, Ravishankar 1998].

Each host gets a pseudo-random number for a key, and the host with the highest one has the key. So when a host comes,
only the keys move that it then has; when a host goes, only its keys move. No table has to be kept or agreed upon: every
process that knows the same hosts gets the same answer. A look-up costs one hash for each host, which is fast enough for
some hundreds.
"""

from collections.abc import Iterable
from hashlib import blake2b

DRAW_BYTES = 8
"""64 bits: with a thousand hosts two numbers are equal once in 10^13 keys, and then the name decides."""


class HostRing:
    """The hosts of a type, and which of them has a key."""

    __slots__ = ("hosts",)

    def __init__(self, hosts: Iterable[str]) -> None:
        self.hosts = tuple(sorted(set(hosts)))

    def host_of(self, key: str) -> str:
        """The host that has this key. Raises ValueError when there are no hosts."""
        if not self.hosts:
            raise ValueError("a ring without hosts has nowhere for a key")
        encoded = key.encode()
        return max(self.hosts, key=lambda host: (_draw(host, encoded), host))


def _draw(host: str, key: bytes) -> bytes:
    return blake2b(key, key=blake2b(host.encode(), digest_size=32).digest(), digest_size=DRAW_BYTES).digest()
