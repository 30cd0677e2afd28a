"""Where a connection may find its broker: the addresses that the user gave, and those that a broker has announced."""

from collections.abc import Sequence
from dataclasses import replace

from amqp10.client_core.errors import BadUrl
from amqp10.client_core.url import Url
from amqp10.protocol.failover_servers import FailoverServer


def urls_of(given: str | Url | Sequence[str | Url]) -> list[Url]:
    """The URLs of one or several, each once. Raises BadUrl."""
    several = [given] if isinstance(given, str | Url) else given
    if not several:
        raise BadUrl("there must be the URL of a broker, and the sequence is empty")
    return list(dict.fromkeys(Url.parse(one) if isinstance(one, str) else one for one in several))


class BrokerAddresses:
    """The addresses, of which one is in use, and the others follow in turn.

    A broker announces only where other brokers are. Login, TLS files and virtual host are those of the URL that the
    user gave, over which the announcement came.
    """

    def __init__(self, given: Sequence[Url]) -> None:
        self._given = given
        self._announced: dict[Url, Url] = {}
        """Each with the given URL from which it has everything but host and port."""
        self._at = 0
        self._failures = 0
        """Since the last round was over."""

    @property
    def current(self) -> Url:
        """The address in use."""
        return self._all[self._at]

    @property
    def _all(self) -> list[Url]:
        return [*self._given, *self._announced]

    def heard(self, servers: Sequence[FailoverServer]) -> None:
        """The broker at the current address has announced these. They replace what was announced before. Those without
        TLS, if the URL has TLS, and the other way round, do not count."""
        current = self.current
        own = self._announced.get(current, current)
        scheme = "amqp" if own.tls is None else "amqps"
        told = {
            replace(own, host=one.network_host, port=one.port): own for one in servers if one.scheme in ("", scheme)
        }
        stays = {current: own} if current in self._announced else {}
        known = {(one.host.lower(), one.port) for one in self._given}
        self._announced = {url: own for url, own in (stays | told).items() if (url.host.lower(), url.port) not in known}
        self._at = self._all.index(current)

    def next(self) -> bool:
        """The current address has failed, or was lost: the next one is in use. Returns whether this was the last
        failure of a round, in which each address had its turn."""
        self._failures += 1
        is_over = self._failures >= len(self._all)
        if is_over:
            self._failures = 0
        self._at = (self._at + 1) % len(self._all)
        return is_over

    def lasted(self) -> None:
        """The connection at the current address was up for a while: a round begins."""
        self._failures = 0

    def forget(self) -> bool:
        """Forget the current address if a broker has announced it. Then :meth:`next` must follow. Returns whether it
        was forgotten."""
        if self._at < len(self._given):
            return False
        del self._announced[self.current]
        self._at -= 1
        return True
