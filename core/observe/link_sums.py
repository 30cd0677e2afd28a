"""The figures of all links added up, without a walk over all of them: only connections that have changed are looked at.

The sums of each connection's links are kept. When a connection has changed, its links are read anew, and its sums are
exchanged in those of all connections. So a reading costs what has happened since the last one, and nothing for idle
connections. Connections with messages that wait to be settled are read each time, because ages grow by themselves.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from core.interface import Snapshot
from core.observe.buckets import LINK_CREDIT
from core.rows import count_in
from core.slices import Walk

SLICE_ROWS = 100
"""Rows taken in between two pauses: up to 1 ms, most of it for making the rows."""
DIRECTIONS = ("in", "out")
BALANCE = ("granted", "consumed", "drained", "withdrawn", "unbalanced")
"""The balance of link credit: granted, what it was used for, and how many links have a sum that does not match."""


class LinkSums:
    """The sums over some links, by direction."""

    __slots__ = ("addresses", "all_unconfirmed", "credits", "figures", "oldest", "unconfirmed")

    def __init__(self) -> None:
        self.figures = {direction: Counter[str]() for direction in DIRECTIONS}
        """``count``, ``link_credit`` and the :data:`BALANCE`."""
        self.credits = {direction: [0] * (len(LINK_CREDIT) + 1) for direction in DIRECTIONS}
        """How many links have how much link credit, by the bounds in :mod:`core.observe.buckets`."""
        self.addresses: dict[str, dict[str, int]] = {direction: {} for direction in DIRECTIONS}
        """How many links each address has, in the order in which the addresses were met."""
        self.unconfirmed = Counter[str]()
        """Messages of publishers that are not confirmed, by address."""
        self.all_unconfirmed = 0
        self.oldest: dict[str, dict[str, float]] = {direction: {} for direction in DIRECTIONS}
        """For each address with messages that wait to be settled, the seconds of the oldest one."""

    def take(self, rows: Iterable[Snapshot]) -> None:
        """Add these links."""
        for row in rows:
            direction = str(row["direction"])
            figures, credit = self.figures[direction], count_in(row, "link_credit")
            figures["count"] += 1
            self.credits[direction][bisect_left(LINK_CREDIT, credit)] += 1
            for figure in ("link_credit", *BALANCE):
                figures[figure] += count_in(row, figure)
            if "address" in row:
                self._take_address(direction, str(row["address"] or ""), row)

    def _take_address(self, direction: str, address: str, row: Snapshot) -> None:
        addresses, oldest = self.addresses[direction], self.oldest[direction]
        addresses[address] = addresses.get(address, 0) + 1
        if direction == "in":
            self.unconfirmed[address] += count_in(row, "unconfirmed")
            self.all_unconfirmed += count_in(row, "unconfirmed")
        age = row.get("oldest_unsettled_seconds")
        if isinstance(age, int | float):
            oldest[address] = max(float(age), oldest.get(address, 0.0))

    @property
    def waiting(self) -> bool:
        """Whether a message waits to be settled."""
        return any(self.oldest.values())

    @property
    def empty(self) -> bool:
        """Whether there are no links."""
        return not any(figures["count"] for figures in self.figures.values())

    def add(self, part: "LinkSums", sign: int = 1) -> None:
        """Add the sums of a part, or with -1 remove them. Ages are left out."""
        for direction in DIRECTIONS:
            figures, addresses = self.figures[direction], self.addresses[direction]
            for figure, value in part.figures[direction].items():
                figures[figure] += sign * value
            for place, value in enumerate(part.credits[direction]):
                self.credits[direction][place] += sign * value
            for address, count in part.addresses[direction].items():
                addresses[address] = addresses.get(address, 0) + sign * count
                if not addresses[address]:
                    del addresses[address]
        self.all_unconfirmed += sign * part.all_unconfirmed
        for address, value in part.unconfirmed.items():
            self.unconfirmed[address] += sign * value
            if address not in self.addresses["in"]:
                del self.unconfirmed[address]


class ConnectionLinks:
    """The sums over the links of all connections, kept from one reading to the next."""

    def __init__(
        self,
        *,
        changed: Callable[[], Iterable[str]],
        rows: Callable[[str], Iterator[Sequence[Snapshot]]],
    ) -> None:
        """``changed`` returns the connections that have changed or have gone since it was called last, ``rows`` the
        rows of a connection's links in parts, none for one that has gone."""
        self._changed = changed
        self._rows = rows
        self._parts: dict[str, LinkSums] = {}
        self._waiting: dict[str, None] = {}
        """The connections with messages that wait to be settled."""
        self.sums = LinkSums()
        """As of the last refresh; the ages are in ``oldest`` of the parts."""

    def refresh(self) -> Walk[None]:
        """Bring the sums up to date."""
        looked_at = 0
        for connection in {**dict.fromkeys(self._changed()), **self._waiting}:
            part = LinkSums()
            for rows in self._rows(connection):
                part.take(rows)
                looked_at += max(1, len(rows))
                if looked_at >= SLICE_ROWS:
                    looked_at = 0
                    yield
            self._exchange(connection, part)

    def oldest(self, direction: str) -> Mapping[str, float]:
        """The seconds of the oldest message that waits to be settled, by address."""
        found: dict[str, float] = {}
        for connection in self._waiting:
            for address, seconds in self._parts[connection].oldest[direction].items():
                found[address] = max(seconds, found.get(address, 0.0))
        return found

    def gone(self, connection: str) -> None:
        """Forget a connection that has gone."""
        self._exchange(connection, LinkSums())

    def _exchange(self, connection: str, part: LinkSums) -> None:
        before = self._parts.pop(connection, None)
        if not part.empty:
            self.sums.add(part)
            self._parts[connection] = part
        if before is not None:
            self.sums.add(before, -1)
        self._waiting.pop(connection, None)
        if part.waiting:
            self._waiting[connection] = None
