"""Why a link waits, told to its peer: the beginning of a feature that no other broker has.

A publishing link is *blocked* while it can send nothing: its link credit is 0, or its session's window is closed. A
consuming link is blocked by us while another consumer is the single active one. The first reason of the closed list
that holds is told, in the properties of a link flow, once when the block has lasted a while, and once when it ends. A
short block is nobody's business: it is how flow control works.

This is a state machine over the time that it is handed; it sends nothing itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from amqp10.types import Symbol, Timestamp
from core.clock import Now

REASON_KEY = "headgate:reason"
SINCE_KEY = "headgate:since"


class Reason(StrEnum):
    """The reasons for which the broker makes a link wait, in the order of precedence."""

    MEMORY = "memory"
    DISK = "disk"
    PAUSED = "paused"
    POLICY = "policy"
    QUEUE_FULL = "queue-full"
    STORE_SLOW = "store-slow"
    UNCONFIRMED_LIMIT = "unconfirmed-limit"
    INACTIVE = "inactive"


def reason_of_alarms(alarms: frozenset[str]) -> Reason:
    """The reason that a set of alarms gives; it is not empty."""
    return min((Reason(alarm) for alarm in alarms), key=list(Reason).index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """When a block is told. Seconds."""

    after_s: float
    interval_s: float


class Waiting(Protocol):
    """A link that may be blocked by us."""

    def blocked_by(self, alarms: frozenset[str]) -> Reason | None:
        """Why it is blocked now; None when it is not."""

    def tell(self, properties: Mapping[str, object]) -> None:
        """Send a link flow with these properties."""


class BlockWatch:
    """One link: blocked or not, since when, and what its peer has been told."""

    __slots__ = ("_next_telling", "_since", "_told", "reason")

    def __init__(self) -> None:
        self.reason: Reason | None = None
        """Why the link is blocked now; None when it is not."""
        self._since = Now(0.0, 0.0)
        self._told: Reason | None = None
        self._next_telling = 0.0

    def observe(self, reason: Reason | None, now: Now) -> None:
        """The link is blocked for this reason, or not (None)."""
        if self.reason is None and reason is not None:
            self._since = now
        self.reason = reason

    @property
    def settled(self) -> bool:
        """The link is not blocked, and its peer has not been told otherwise."""
        return self.reason is None and self._told is None

    def deadline(self, telling: Telling) -> float | None:
        """The monotonic time at which ``due`` may have something to tell; None when there is nothing to come."""
        if self.reason is self._told:
            return None
        if self.reason is None or self._told is not None:
            return self._next_telling
        return max(self._since.monotonic + telling.after_s, self._next_telling)

    def due(self, telling: Telling, now: Now) -> Mapping[str, object] | None:
        """The properties to send now, or None. What is returned counts as told."""
        deadline = self.deadline(telling)
        if deadline is None or now.monotonic < deadline:
            return None
        self._told = self.reason
        self._next_telling = now.monotonic + telling.interval_s
        if self.reason is None:
            return {REASON_KEY: None}
        return {
            REASON_KEY: Symbol(self.reason.value),
            SINCE_KEY: Timestamp(round(self._since.wall * 1000)),
        }


class BlockWatches:
    """The links of one connection that are blocked, or have been told so."""

    __slots__ = ("_telling", "_watches")

    def __init__(self, telling: Telling | None) -> None:
        """Without ``telling`` nothing is watched."""
        self._telling = telling
        self._watches: dict[Waiting, BlockWatch] = {}

    def look_at(self, link: Waiting) -> None:
        """Something changed on this link: see with the next ``tell`` whether it is blocked."""
        if self._telling is not None and link not in self._watches:
            self._watches[link] = BlockWatch()

    def forget(self, link: Waiting) -> None:
        """The link is over."""
        self._watches.pop(link, None)

    def deadline(self) -> float | None:
        """The monotonic time at which there may be something to tell."""
        if self._telling is None or not self._watches:
            return None
        deadlines = (watch.deadline(self._telling) for watch in self._watches.values())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def tell(self, alarms: frozenset[str], now: Now) -> bool:
        """See which links are blocked, and tell those to whom it is due. True when something was said."""
        if self._telling is None or not self._watches:
            return False
        said = False
        for link, watch in list(self._watches.items()):
            watch.observe(link.blocked_by(alarms), now)
            properties = watch.due(self._telling, now)
            if properties is not None:
                link.tell(properties)
                said = True
            if watch.settled:
                del self._watches[link]
        return said
