"""What one scrape adds up over queues, links and stages: taken in row by row, so that others may work in between.

Only so many addresses are remembered by name, in the order in which they are met; the others are added up. The order is
that of their creation, so an address keeps its series as long as it is there.

A row that names no number where one should be counts as 0.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from core.observe.buckets import LINK_CREDIT
from core.observe.metric_families import OTHER

Row = Mapping[str, object]
BALANCE = ("granted", "consumed", "drained", "withdrawn", "unbalanced")
"""Of link credit: what was granted and what became of it, and links of which that is not the same."""


@dataclass(slots=True)
class QueueFigures:
    """Of one queue, or of many together."""

    ready: int = 0
    unacked: int = 0
    consumers: int = 0
    published: int = 0
    delivered: int = 0
    accepted: int = 0

    def add(self, row: Row) -> None:
        """One more queue."""
        self.ready += _int(row, "messages_ready")
        self.unacked += _int(row, "messages_unacknowledged")
        self.consumers += _int(row, "consumers")
        self.published += _int(row, "published")
        self.delivered += _int(row, "delivered")
        self.accepted += _int(row, "accepted")


@dataclass(slots=True)
class LinkFigures:
    """Of the links of one direction."""

    count: int = 0
    link_credit: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * (len(LINK_CREDIT) + 1))
    """By link credit, as :mod:`core.observe.buckets` has it."""
    balance: dict[str, int] = field(default_factory=lambda: dict.fromkeys(BALANCE, 0))


class Gathered:
    """The sums of one scrape."""

    def __init__(self, *, addresses_max: int) -> None:
        self.all_queues = QueueFigures()
        self.queues: dict[str, QueueFigures] = {}
        """By name; under ``_other`` those beyond the limit, if there are any."""
        self.links = {"in": LinkFigures(), "out": LinkFigures()}
        self.unconfirmed: dict[str, int] = {}
        """Messages of publishers' links by address, likewise."""
        self.oldest: dict[str, dict[str, float]] = {"in": {}, "out": {}}
        """Seconds that the oldest message of each address has waited to be settled; gauges of many are the largest."""
        self.blocked_seconds = {"reader": 0.0, "channel": 0.0, "queue": 0.0}
        """Of stages that there are."""
        self._addresses_max = addresses_max

    def queue(self, row: Row) -> None:
        """One queue."""
        self.all_queues.add(row)
        name = self._name(str(row["name"]), self.queues)
        if name not in self.queues:
            self.queues[name] = QueueFigures()
        self.queues[name].add(row)
        self.blocked_seconds["queue"] += _float(row, "blocked_seconds")

    def link(self, row: Row) -> None:
        """One link."""
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

    def stage(self, row: Row) -> None:
        """One stage of a connection."""
        self.blocked_seconds[str(row["kind"])] += _float(row, "blocked_seconds")

    def _waits(self, direction: str, address: str, row: Row) -> None:
        """What waits on a link to be settled."""
        oldest = self.oldest[direction]
        name = self._name(address, oldest)
        oldest[name] = max(_float(row, "oldest_unsettled_seconds"), oldest.get(name, 0.0))
        if direction == "in":
            self.unconfirmed[name] = self.unconfirmed.get(name, 0) + _int(row, "unconfirmed")

    def _name(self, name: str, known: Mapping[str, object]) -> str:
        """Where it is counted."""
        if name in known:
            return name
        return name if len(known) - (OTHER in known) < self._addresses_max else OTHER


def _int(row: Row, key: str) -> int:
    value = row.get(key)
    return value if isinstance(value, int) else 0


def _float(row: Row, key: str) -> float:
    value = row.get(key)
    return float(value) if isinstance(value, int | float) else 0.0
