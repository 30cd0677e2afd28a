"""The sums of one scrape over queues and links, taken row by row so that other tasks may run in between.

A limited number of addresses gets figures by name, in the order in which they are met; the others are added up. That
order is the order of their creation, so an address keeps its series as long as it exists.

A row without a number where one is expected counts as 0.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from core.observe.buckets import LINK_CREDIT
from core.observe.metric_families import OTHER

Row = Mapping[str, object]
BALANCE = ("granted", "consumed", "drained", "withdrawn", "unbalanced")
"""The balance of link credit: granted, what it was used for, and how many links have a sum that does not match."""


@dataclass(slots=True)
class QueueFigures:
    """The figures of one queue, or the sums over many."""

    ready: int = 0
    unacked: int = 0
    consumers: int = 0
    published: int = 0
    delivered: int = 0
    accepted: int = 0

    def add(self, row: Row) -> None:
        """Add the figures of one more queue."""
        self.ready += _int(row, "messages_ready")
        self.unacked += _int(row, "messages_unacknowledged")
        self.consumers += _int(row, "consumers")
        self.published += _int(row, "published")
        self.delivered += _int(row, "delivered")
        self.accepted += _int(row, "accepted")


@dataclass(slots=True)
class LinkSums:
    """The sums over the links of one direction."""

    count: int = 0
    link_credit: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * (len(LINK_CREDIT) + 1))
    """Counts of links by link credit, by the bounds in :mod:`core.observe.buckets`."""
    balance: dict[str, int] = field(default_factory=lambda: dict.fromkeys(BALANCE, 0))


class Gathered:
    """The sums of one scrape."""

    def __init__(self, *, addresses_max: int) -> None:
        self.all_queues = QueueFigures()
        self.queues: dict[str, QueueFigures] = {}
        """By name; queues beyond the limit, if there are any, under ``_other``."""
        self.links = {"in": LinkSums(), "out": LinkSums()}
        self.unconfirmed: dict[str, int] = {}
        """Unconfirmed messages of publishers' links, by address in the same way."""
        self.oldest: dict[str, dict[str, float]] = {"in": {}, "out": {}}
        """Seconds that the oldest unsettled message of each address has waited; for several links, the largest
        value."""
        self._addresses_max = addresses_max

    def queue(self, row: Row) -> None:
        """Add one queue."""
        self.all_queues.add(row)
        name = self._name(str(row["name"]), self.queues)
        if name not in self.queues:
            self.queues[name] = QueueFigures()
        self.queues[name].add(row)

    def link(self, row: Row) -> None:
        """Add one link."""
        direction = "in" if row["direction"] == "in" else "out"
        links = self.links[direction]
        credit = _int(row, "link_credit")
        links.count += 1
        links.link_credit += credit
        links.counts[bisect_left(LINK_CREDIT, credit)] += 1
        for figure in BALANCE:
            links.balance[figure] += _int(row, figure)
        if "address" in row:
            self._waits(direction, str(row["address"] or ""), row)

    def _waits(self, direction: str, address: str, row: Row) -> None:
        """Add the messages of a link that wait to be settled."""
        oldest = self.oldest[direction]
        name = self._name(address, oldest)
        oldest[name] = max(_float(row, "oldest_unsettled_seconds"), oldest.get(name, 0.0))
        if direction == "in":
            self.unconfirmed[name] = self.unconfirmed.get(name, 0) + _int(row, "unconfirmed")

    def _name(self, name: str, known: Mapping[str, object]) -> str:
        """The name under which an address is counted."""
        if name in known:
            return name
        return name if len(known) - (OTHER in known) < self._addresses_max else OTHER


def _int(row: Row, key: str) -> int:
    value = row.get(key)
    return value if isinstance(value, int) else 0


def _float(row: Row, key: str) -> float:
    value = row.get(key)
    return float(value) if isinstance(value, int | float) else 0.0
