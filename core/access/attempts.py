"""Failed logins of late, and who has to wait because of them.

Guessing a password takes many attempts, so failures are counted by user and address, by address, and by user. Each
count is a bucket that leaks: it takes so many failures, and loses as many evenly over a window. While one is full, a
login that it concerns is put off before its password is looked at. Only failures count, so clients that log in a
thousand times in order are not held up.

The count by user and address is strict, and a login that succeeds empties it: one client with an old password does not
keep out the others beside it. The other two are lax, for with them a stranger could keep others out: users elsewhere,
or those behind the same proxy. So they do not hold where that user has logged in before.

An IPv6 network of 64 bits is one address, because one machine may use them all.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from core.config.access import AccessSettings

USER_AND_ADDRESS, ADDRESS, USER = "user-and-address", "address", "user"
"""The limits, as the log and metrics call them."""
IPV6_NETWORK_BITS = 64
"""What a machine gets as its own [RFC 4291 2.5.4]."""

K = TypeVar("K")
V = TypeVar("V")

_Key = tuple[str, str, str]
"""The limit, the user and the network; "" where the limit does not ask for it."""


class _Bucket(NamedTuple):
    failures: float
    at: float


class Attempts:
    """The failures of all peers."""

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
        """The limit that puts off this user's login from there; None when it may be tried."""
        network = network_of(host)
        proven = (user, network) in self._proven
        for key in _keys(user, network)[: 1 if proven else None]:
            if self._failures(key) > self._most[key[0]] - 1:
                return key[0]
        return None

    def failed(self, user: str, host: str) -> None:
        """Count a failure. ``user`` is "" where the peer named none."""
        now = self._monotonic()
        for key in _keys(user, network_of(host)):
            failures = min(self._failures(key) + 1, self._most[key[0]])
            _remember(self._buckets, key, _Bucket(failures, now), self._remembered_max)

    def succeeded(self, user: str, host: str) -> None:
        """Forget this user's failures from there, and that it may log in there whatever happens elsewhere."""
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
    """The address, or the network, that counts as one peer."""
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
    """The strictest first."""
    if not user:
        return [(ADDRESS, "", network)]
    return [(USER_AND_ADDRESS, user, network), (ADDRESS, "", network), (USER, user, "")]


def _remember(table: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """As the newest; the oldest goes when there are too many."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > most:
        table.popitem(last=False)
