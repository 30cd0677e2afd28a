"""Flow control at the addresses of a query: how long their publishers have waited, and the query's own link credit.

Headgate tells which links have waited most in the last minute. It is asked once a second at most, because it looks at
all of its links for that. Other brokers do not tell it.
"""

from collections.abc import Callable, Collection
from time import monotonic
from typing import Final

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.requests import BlockingManagement
from pyspark_amqp10.errors import RequestRefused, TimedOut
from pyspark_amqp10.offsets import Json
from pyspark_amqp10.requests import SHOWN_QUEUES, facts_before_name

LINKS_MAX: Final = 20
"""Links in an answer, those that have waited most. Publishers that have waited less are not seen."""
ASKED_AGAIN_S: Final = 1.0
"""Seconds between two requests."""
SHARE_DIGITS: Final = 3


UNKNOWN_WAITS: Final[Json] = {"blocked": None, "reason": None}


class PublisherWaits:
    """Asks one connection which publishers have waited."""

    def __init__(self, connection: BlockingConnection, clock: Callable[[], float] = monotonic) -> None:
        self._management = BlockingManagement(connection)
        self._asks = facts_before_name(connection.broker) == SHOWN_QUEUES
        self._clock = clock
        self._asked_at = float("-inf")
        self._links: list[tuple[str, float, str | None]] = []

    def of(self, addresses: Collection[str]) -> Json:
        """Return ``blocked``, the share of the last minute for which the publisher of these addresses has waited that
        has waited most, from 0 to 1; and ``reason``, the one that held it up longest, None without a wait. Both are
        None where the broker does not tell. Raises ConnectionLost.

        A broker that refuses, because the user may not see links, or that does not answer in time, is not asked again.
        """
        if self._asks and self._clock() >= self._asked_at + ASKED_AGAIN_S:
            self._ask()
        if not self._asks:
            return UNKNOWN_WAITS
        waits = [(share, reason) for address, share, reason in self._links if address in addresses]
        share, reason = max(waits, key=lambda wait: wait[0], default=(0.0, None))
        return {"blocked": round(share, SHARE_DIGITS), "reason": reason}

    def _ask(self) -> None:
        try:
            answer = self._management.request("GET", f"/headgate/why?limit={LINKS_MAX}").body
        except (RequestRefused, TimedOut):
            self._asks = False
            return
        self._asked_at = self._clock()
        items = answer.get("items") if isinstance(answer, dict) else None
        publishers = [one for one in items or [] if isinstance(one, dict) and one.get("direction") == "in"]
        self._links = [(str(one.get("address")), *_longest(one.get("last_minute"))) for one in publishers]


def _longest(minute: object) -> tuple[float, str | None]:
    """The share for which a link has waited, and the reason for most of it."""
    if not isinstance(minute, dict) or not isinstance(share := minute.get("share"), int | float):
        return 0.0, None
    reasons = minute.get("by_reason")
    first = reasons[0] if isinstance(reasons, list) and reasons else None
    return float(share), str(first.get("reason")) if isinstance(first, dict) else None
