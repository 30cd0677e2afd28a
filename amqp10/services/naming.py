"""The names of services, and the keys, queues and addresses that follow from them.

A service has a *type* (``REPO``) and runs on a *host* (``host2``). The key ``REPO`` reaches one host of the type, any
that has room; the key ``REPO.host2`` reaches that host. The queues have the same names. A type has no dot, so the first
dot ends it; a host may have dots, as host names do. Neither may contain a wildcard of binding keys, nor a character
that an address would have to escape: so a name looks the same everywhere.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from amqp10.services.errors import BadName

TYPE_CHARACTERS_MAX = 64
HOST_CHARACTERS_MAX = 190
"""With a type and the dot this is 255, the longest name that AMQP 0.9.1 has [0-9-1 4.2.5.3]."""

EXCHANGE = "services"
"""The topic exchange for messages to one receiver; its keys are TYPE and TYPE.HOST."""
ADDRESSES_CACHED_MAX = 1000
"""Addresses that are cached; checking the names and making the address takes a tenth of a call's time."""
GROUPS_EXCHANGE = "services.groups"
"""The direct exchange for messages to many; its keys are those of :func:`group_key`."""

_TYPE = re.compile(rf"[A-Za-z0-9_-]{{1,{TYPE_CHARACTERS_MAX}}}")
_HOST = re.compile(rf"[A-Za-z0-9_.-]{{1,{HOST_CHARACTERS_MAX}}}")


@dataclass(frozen=True, slots=True)
class ServiceName:
    """The name of a service: of every host of a type (``host`` None), or of one host. Raises BadName."""

    type: str
    host: str | None = None

    def __post_init__(self) -> None:
        if not _TYPE.fullmatch(self.type):
            raise BadName(
                f"{self.type!r} is no type of services: 1 to {TYPE_CHARACTERS_MAX} letters, digits, '_' and '-'"
            )
        if self.host is not None and not _HOST.fullmatch(self.host):
            raise BadName(f"{self.host!r} is no host: 1 to {HOST_CHARACTERS_MAX} letters, digits, '_', '-' and '.'")

    @property
    def key(self) -> str:
        """The routing key, and the name of the queue."""
        return self.type if self.host is None else f"{self.type}.{self.host}"

    @property
    def address(self) -> str:
        """The address to which its messages are sent."""
        return f"/exchanges/{EXCHANGE}/{self.key}"

    @property
    def queue_address(self) -> str:
        """The address from which it receives its messages."""
        return f"/queues/{self.key}"

    def __str__(self) -> str:
        return self.key


@lru_cache(maxsize=ADDRESSES_CACHED_MAX)
def address_of(of_type: str, host: str | None = None) -> str:
    """The address to which messages for a service are sent: :attr:`ServiceName.address`. Raises BadName."""
    return ServiceName(of_type, host).address


def group_key(of_type: str | None) -> str:
    """The key that reaches every host of a type, or of all types (None).

    The key looks like a pattern and is none: the exchange is direct, where a star has no special meaning.
    """
    return "*.*" if of_type is None else f"{of_type}.*"


def group_address(of_type: str | None) -> str:
    """The address to which messages for every host of a type, or of all types (None), are sent."""
    return f"/exchanges/{GROUPS_EXCHANGE}/{group_key(of_type).replace('*', '%2A')}"
