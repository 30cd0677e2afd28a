"""Recent failed logins, and the delays that they cause.

Guessing a password takes many attempts, so failures are counted by user and address, by address, and by user. Each
count is a leaky bucket: it holds a limited number of failures, and loses as many evenly over a window. While a bucket
is full, logins that it covers are put off before their password is checked. Only failures count, so a client may log in
successfully thousands of times.

The limit by user and address is strict, and a successful login empties its bucket, so that one client with an old
password does not lock out others with the same address. The other two limits are lax, because an attacker could use
them to lock out others: the user at other addresses, or other users behind the same proxy. They do not apply to a user
at an address from which that user has logged in before.

An IPv6 network of 64 bits counts as one address, because one machine may use all of its addresses.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from core.config.access import AccessSettings

USER_AND_ADDRESS, ADDRESS, USER = "user-and-address", "address", "user"
"""The limits, by their names in the log and metrics."""
IPV6_NETWORK_BITS = 64
"""The network prefix that a machine usually gets [RFC 4291 2.5.4]."""

K = TypeVar("K")
V = TypeVar("V")

_Key = tuple[str, str, str]
"""The limit, the user and the network; "" for a part that the limit does not use."""


class _Bucket(NamedTuple):
    failures: float
    at: float


class Attempts:
    """The failed logins of all peers."""

    def __init__(self, settings: AccessSettings, *, monotonic: Callable[[], float]) -> None:
        self._most = {
            USER_AND_ADDRESS: settings.failed_logins_per_user_and_address,
            ADDRESS: settings.failed_logins_per_address,
            USER: settings.failed_logins_per_user,
        }
        self._window = settings.failed_logins_window
        self._remembered_max = settings.failed_logins_remembered_max
        self._monotonic = monotonic
        self._buckets: OrderedDict[_Key, _Bucket] = OrderedDict()
        self._proven: OrderedDict[tuple[str, str], None] = OrderedDict()

    def limit_reached(self, user: str, host: str) -> str | None:
        """Return the limit that puts off this user's login from this host; None if it may be tried."""
        network = network_of(host)
        proven = (user, network) in self._proven
        for key in _keys(user, network)[: 1 if proven else None]:
            if self._failures(key) > self._most[key[0]] - 1:
                return key[0]
        return None

    def failed(self, user: str, host: str) -> None:
        """Count a failure. ``user`` is "" if the peer named none."""
        now = self._monotonic()
        for key in _keys(user, network_of(host)):
            failures = min(self._failures(key) + 1, self._most[key[0]])
            _remember(self._buckets, key, _Bucket(failures, now), self._remembered_max)

    def succeeded(self, user: str, host: str) -> None:
        """Forget this user's failures from this host, and remember that the lax limits do not apply to the user
        there."""
        network = network_of(host)
        self._buckets.pop((USER_AND_ADDRESS, user, network), None)
        _remember(self._proven, (user, network), None, self._remembered_max)

    def _failures(self, key: _Key) -> float:
        bucket = self._buckets.get(key)
        if bucket is None:
            return 0.0
        leaked = (self._monotonic() - bucket.at) * self._most[key[0]] / self._window
        return max(0.0, bucket.failures - leaked)


def network_of(host: str) -> str:
    """Return the address or network that counts as one peer."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return str(ipaddress.IPv6Network((int(address), IPV6_NETWORK_BITS), strict=False))
        return str(address.ipv4_mapped)
    return host


def _keys(user: str, network: str) -> list[_Key]:
    """Return the keys of all limits, the strictest first."""
    if not user:
        return [(ADDRESS, "", network)]
    return [(USER_AND_ADDRESS, user, network), (ADDRESS, "", network), (USER, user, "")]


def _remember(table: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Add the entry as the newest, and drop the oldest if there are more than ``most``."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > most:
        table.popitem(last=False)
