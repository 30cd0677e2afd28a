"""How much may be published in a second: to a queue or an exchange, on a virtual host, by a user.

The engine and the users only keep the numbers and tell who publishes under them when they change. A front end limits
its publishers as its protocol can: AMQP 1.0 by link credit, AMQP 0.9.1 not at all.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

PUBLISH_RATE, PUBLISH_RATE_BYTES = "publish-rate", "publish-rate-bytes"
"""The names of the limits: keys of a policy, limits of users and of virtual hosts."""
PUBLISHER_WEIGHT = "publisher-weight"
"""The name of the limit of a user that says how many times the share of others its links have of a busy target."""
WEIGHT_MAX = 100
"""The highest weight. Where links take turns, a link sends as many messages in its turn."""
RATE_MAX = 10**9
"""The highest rate that can be set; it limits nothing."""


class PublishRates(NamedTuple):
    """Messages and bytes a second; None for no limit."""

    messages: int | None = None
    bytes: int | None = None

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> Self:
        """Return the rates that settings have under the names of the limits."""
        found = (settings.get(PUBLISH_RATE), settings.get(PUBLISH_RATE_BYTES))
        return cls(*(rate if isinstance(rate, int) else None for rate in found))


NO_RATES = PublishRates()


class PublishLimit:
    """The rates of one queue, exchange, virtual host or user, and the weight of a user. They change in place."""

    __slots__ = ("__weakref__", "_watching", "name", "rates", "weight")

    def __init__(self, name: str, rates: PublishRates = NO_RATES) -> None:
        """``name`` says what is limited, for example ``queue orders``."""
        self.name = name
        self.rates = rates
        self.weight = 1
        self._watching: dict[Callable[[], None], int] = {}
        """What tells the connections that publish under it, with the number of their links."""

    def set(self, rates: PublishRates, weight: int = 1) -> None:
        """Put other rates and another weight in force. Connections that publish under them have to check their links
        again."""
        if (rates, weight) != (self.rates, self.weight):
            self.rates, self.weight = rates, weight
            for changed in self._watching:
                changed()

    def watch(self, changed: Callable[[], None]) -> None:
        """A link of the connection that ``changed`` tells publishes under the limit. ``changed`` only puts an action
        into a mailbox."""
        self._watching[changed] = self._watching.get(changed, 0) + 1

    def unwatch(self, changed: Callable[[], None]) -> None:
        """One of those links is gone."""
        left = self._watching.pop(changed) - 1
        if left:
            self._watching[changed] = left

    @property
    def watching(self) -> int:
        """How many connections publish under it."""
        return len(self._watching)
