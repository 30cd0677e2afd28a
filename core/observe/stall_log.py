"""Log lines about stalls: only those that matter to a reader of the log, and a limited number of them.

Flow control at work is no event. A stall is logged when it has lasted for ``log.stall_after``. Where only the consumer
decides (its link credit, its window, its socket; that it is not the active one), waiting is what the consumer asked
for, so ``log.consumer_stall_after`` is much longer. Of one link or reader at most one stall is logged in
``log.stall_pause``, and of all together ``log.stalls_per_minute_max``; a line each minute says how many were left out.

This limits only the log: the ledger (:mod:`core.observe.stalls`) counts every stall to the end, and lists, metrics and
flow events have all stalls that last 50 ms.

Bounds: a stall waits here while the ledger has it; a subject is remembered while a line about it is less than
``log.stall_pause`` old, which at most ``log.stalls_per_minute_max`` a minute are.
"""

from collections.abc import Callable, Iterator
from itertools import takewhile

from structlog.typing import FilteringBoundLogger

from core.clock import Now
from core.config.log import LogSettings
from core.flow_facts import StallSubject
from core.interface import FlowReason
from core.observe.stalls import SLICE, Stall

CONSUMER_DECIDES = frozenset(
    {FlowReason.SESSION_WINDOW, FlowReason.LINK_CREDIT, FlowReason.SOCKET, FlowReason.INACTIVE, FlowReason.NO_MESSAGE}
)
MINUTE_S = 60.0


class StallLog:
    """The :class:`core.observe.stalls.StallListener` that writes lines. The task that drives the ledger calls
    :meth:`tell`."""

    def __init__(self, log: FilteringBoundLogger, settings: LogSettings, clock: Callable[[], Now]) -> None:
        self._log = log
        self._settings = settings
        self._clock = clock
        self._waiting: dict[float, dict[StallSubject, Stall]] = {
            settings.stall_after: {},
            settings.consumer_stall_after: {},
        }
        """Stalls that have not lasted long enough yet, in the order in which they began, by how long they must last."""
        self._told: dict[StallSubject, Stall] = {}
        """Stalls whose beginning was logged, so that their end is logged too."""
        self._last: dict[str, float] = {}
        """The time of the last line about each link or reader, the oldest first."""
        self._minute = clock().monotonic
        self._lines = self._left_out = 0
        """How many were logged and left out since the minute began."""

    def stall_started(self, stall: Stall) -> None:
        """Remember a stall that may last long enough for a line."""
        decided_by_consumer = stall.who.direction == "out" and stall.reason in CONSUMER_DECIDES
        after = self._settings.consumer_stall_after if decided_by_consumer else self._settings.stall_after
        self._waiting[after][stall.who] = stall

    def stall_ended(self, stall: Stall, now: Now) -> None:
        """Log the end with the whole duration, if the beginning was logged."""
        for waiting in self._waiting.values():
            waiting.pop(stall.who, None)
        if self._told.pop(stall.who, None) is not None:
            self._log.info("stall-ended", **_facts(stall), seconds=round(stall.seconds(now), 3))

    def look_failed(self, error: Exception) -> None:
        """Log a failed look with its stack."""
        self._log.error("stall-look-failed", exc_info=error)

    def tell(self) -> Iterator[None]:
        """Write the lines that are due; yields where other tasks may run."""
        now = self._clock()
        if now.monotonic - self._minute >= MINUTE_S:
            self._begin_minute(now.monotonic)
        for after, waiting in self._waiting.items():
            due = list(takewhile(lambda stall: stall.seconds(now) >= after, waiting.values()))  # noqa: B023
            for number, stall in enumerate(due, start=1):
                if waiting.get(stall.who) is stall:
                    del waiting[stall.who]
                    self._tell(stall, now.monotonic)
                if number % SLICE == 0:
                    yield

    def _tell(self, stall: Stall, now: float) -> None:
        for identity in list(takewhile(lambda one: now - self._last[one] >= self._settings.stall_pause, self._last)):
            del self._last[identity]
        if stall.who.identity in self._last or self._lines >= self._settings.stalls_per_minute_max:
            self._left_out += 1
            return
        self._lines += 1
        self._last[stall.who.identity] = now
        self._told[stall.who] = stall
        self._log.info("stall-started", **_facts(stall))

    def _begin_minute(self, now: float) -> None:
        if self._left_out:
            self._log.info("stalls-left-out", stalls=self._left_out, told=self._lines)
        self._minute = now
        self._lines = self._left_out = 0


def _facts(stall: Stall) -> dict[str, object]:
    who = stall.who
    facts: dict[str, object] = {
        "connection": who.connection,
        "peer": who.peer,
        "container_id": who.container_id,
        "user": who.user,
        "direction": who.direction,
        "reason": stall.reason.value,
        "culprit": stall.culprit,
    }
    if who.address:
        facts["address"] = who.address
    if who.identity != who.connection:
        facts["link"] = who.identity
    return facts
