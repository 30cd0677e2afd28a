"""Why a link waits: reported to its peer and to the ledger of stalls.

A publishing link is *blocked* while it cannot send: its link credit is 0, or its session's window is closed. A
consuming link is blocked by us while another consumer is the single active one, or while it is held. The peer gets the
first applicable reason of the closed list in the properties of a link flow: once when the block has lasted a while, and
once when it ends. A short block is not reported, because it is normal flow control.

The ledger gets every such block, even if peers get no reasons, and also consuming links that wait for their own client.
Those are found by checking them from time to time; a link that has sent something since the last check does not count.

This is a state machine over the times that its caller gives; it sends nothing itself.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Protocol

from amqp10.protocol.session import Link
from amqp10.wire.types import Symbol, Timestamp
from core.clock import Now
from core.config.amqp10 import FlowReasonSettings
from core.flow_facts import StallSubject
from core.interface import FlowReason
from core.observe.stalls import Stalls

REASON_KEY = "headgate:reason"
CULPRIT_KEY = "headgate:culprit"
SINCE_KEY = "headgate:since"
ALL_AFTER = 0.5
"""Seconds after which a turn checks all links that wait, with a change or without."""
OPERATOR = "operator"
"""The culprit when a person caused the block."""


_RANKS = {reason: rank for rank, reason in enumerate(FlowReason)}
"""Where several reasons hold, the one with the lowest rank is reported."""


def first_reason(reasons: Iterable[FlowReason]) -> FlowReason | None:
    """The reason that is reported, of all that hold."""
    return min(reasons, key=_RANKS.__getitem__, default=None)


def reason_of_alarms(alarms: frozenset[str]) -> FlowReason:
    """The reason of a set of alarms, which must not be empty."""
    return min(map(FlowReason, alarms), key=_RANKS.__getitem__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTimes:
    """When a block is reported to the peer, in seconds."""

    after_s: float
    interval_s: float


class BlockableLink(Protocol):
    """A link that may be blocked."""

    @property
    def link(self) -> Link:
        """Its link on the wire."""

    def blocked_by(self, alarms: frozenset[str]) -> FlowReason | None:
        """Why we block it now; None when we do not."""

    def culprit(self, reason: FlowReason) -> str:
        """What has to change before it can go on, for this reason."""

    def tell(self, properties: Mapping[str, object]) -> None:
        """Send a link flow with these properties."""


class BlockWatch:
    """One link: whether and since when it is blocked, and the last reason that its peer got."""

    __slots__ = ("_next_report", "_since", "_told", "reason")

    def __init__(self) -> None:
        self.reason: FlowReason | None = None
        """Why the link is blocked now; None when it is not."""
        self._since = Now(0.0, 0.0)
        self._told: FlowReason | None = None
        self._next_report = 0.0

    def observe(self, reason: FlowReason | None, now: Now) -> None:
        """Note that the link is blocked for this reason, or not blocked (None)."""
        if self.reason is None and reason is not None:
            self._since = now
        self.reason = reason

    @property
    def settled(self) -> bool:
        """The link is not blocked, and its peer has got the end of every block that was reported."""
        return self.reason is None and self._told is None

    def deadline(self, report_times: ReportTimes) -> float | None:
        """The monotonic time at which ``due`` may have properties to send; None when there are none to come."""
        if self.reason is self._told:
            return None
        if self.reason is None or self._told is not None:
            return self._next_report
        return max(self._since.monotonic + report_times.after_s, self._next_report)

    def due(
        self, report_times: ReportTimes, now: Now, culprit: Callable[[FlowReason], str]
    ) -> Mapping[str, object] | None:
        """The properties to send now, or None. The caller must send them. ``culprit`` names the culprit of a reason."""
        deadline = self.deadline(report_times)
        if deadline is None or now.monotonic < deadline:
            return None
        self._told = self.reason
        self._next_report = now.monotonic + report_times.interval_s
        if self.reason is None:
            return {REASON_KEY: None}
        return {
            REASON_KEY: Symbol(self.reason.value),
            CULPRIT_KEY: culprit(self.reason),
            SINCE_KEY: Timestamp(round(self._since.wall * 1000)),
        }


class Glimpse(NamedTuple):
    """The state of a consuming link that waited for its client at the last check."""

    reason: FlowReason
    delivery_count: int
    since: Now


class BlockWatches:
    """The links of one connection that are blocked, or whose peers have not got the end of a block."""

    __slots__ = (
        "_alarms", "_all_at", "_glimpses", "_next", "_report_times", "_reported", "_stalls", "_subject_of", "_subjects",
        "_touched", "watches",
    )  # fmt: skip

    def __init__(
        self, settings: FlowReasonSettings, stalls: Stalls, subject_of: Callable[[Link], StallSubject]
    ) -> None:
        """Where ``settings`` do not want peers told, only the ledger gets reasons."""
        times = ReportTimes(after_s=settings.after, interval_s=1 / settings.per_second_max)
        self._report_times = times if settings.enabled else None
        self._stalls = stalls
        self._subject_of = subject_of
        self.watches: dict[BlockableLink, BlockWatch] = {}
        """The links that are blocked, or whose peers have not got the end of a block. Callers may read it, to save a
        call when it is empty."""
        self._touched: dict[BlockableLink, None] = {}
        """Links with a change that ``tell`` has not checked."""
        self._alarms: frozenset[str] = frozenset()
        self._next = inf
        """When a reason may be due; at or before the earliest of the watches' times."""
        self._all_at = -inf
        """When all watched links were last checked."""
        self._glimpses: dict[BlockableLink, Glimpse] = {}
        self._subjects: dict[BlockableLink, StallSubject] = {}
        """Of each link that was ever blocked; kept because a busy publisher is blocked a thousand times a second."""
        self._reported: dict[BlockableLink, StallSubject] = {}
        """The links that are blocked in the ledger, with the subjects under which they are."""

    def look_at(self, link: BlockableLink) -> None:
        """A change on this link: the next ``tell`` checks whether it is blocked."""
        if link not in self.watches:
            self.watches[link] = BlockWatch()
        self._touched[link] = None

    def forget(self, link: BlockableLink, now: Now) -> None:
        """Drop a link that is over."""
        self.watches.pop(link, None)
        self._touched.pop(link, None)
        self._glimpses.pop(link, None)
        self._report(link, None, now)
        self._subjects.pop(link, None)

    def deadline(self) -> float | None:
        """The monotonic time at which a reason may be due."""
        if self._report_times is None or not self.watches:
            return None
        return None if self._next == inf else self._next

    def tell(self, alarms: frozenset[str], refilled: Iterable[BlockableLink], now: Now) -> bool:
        """Check which links are blocked, and send the reasons that are due. True when one was sent.

        ``refilled`` are the publishing links whose link credit may have changed. Links without a change are not looked
        at: a turn would cost more with each link that waits. All are when the alarms have changed, when a reason may be
        due, and after :data:`ALL_AFTER`, since a reason can become another one without a change of the link.
        """
        said, watches, times = False, self.watches, self._report_times
        for link in self._links_to_check(alarms, refilled, now):
            if (watch := watches.get(link)) is None:
                continue
            reason = link.blocked_by(alarms)
            if reason is not watch.reason:
                watch.observe(reason, now)
                self._report(link, reason, now)
            if times is not None and (deadline := watch.deadline(times)) is not None:
                if (properties := watch.due(times, now, link.culprit)) is not None:
                    link.tell(properties)
                    said = True
                elif deadline < self._next:
                    self._next = deadline
            if watch.settled:
                del watches[link]
        return said

    def _links_to_check(
        self, alarms: frozenset[str], refilled: Iterable[BlockableLink], now: Now
    ) -> Collection[BlockableLink]:
        touched, self._touched = self._touched, {}
        if alarms == self._alarms and now.monotonic < min(self._next, self._all_at + ALL_AFTER):
            touched.update(dict.fromkeys(refilled))
            return touched
        self._alarms, self._next, self._all_at = alarms, inf, now.monotonic
        return list(self.watches)

    def looked(self, link: BlockableLink, reason: FlowReason | None, *, delivery_count: int, now: Now) -> None:
        """Note the check of a consuming link: why it waits for its client, if it does, and its delivery-count."""
        watch = self.watches.get(link)
        if watch is not None and watch.reason is not None:
            self._glimpses.pop(link, None)  # blocked by us, which ``tell`` reports
            return
        glimpse = self._glimpses.pop(link, None)
        if reason is None:
            self._report(link, None, now)
            return
        if glimpse is None or glimpse.reason is not reason or glimpse.delivery_count != delivery_count:
            self._glimpses[link] = Glimpse(reason, delivery_count, now)
            self._report(link, None, now)
            return
        self._glimpses[link] = glimpse
        self._report(link, reason, glimpse.since)

    def _report(self, link: BlockableLink, reason: FlowReason | None, now: Now) -> None:
        if reason is None:
            subject = self._reported.pop(link, None)
            if subject is not None:
                self._stalls.unblocked(subject, now)
            return
        subject = self._reported.get(link)
        if subject is None:
            subject = self._subjects.get(link)
            if subject is None:
                subject = self._subjects[link] = self._subject_of(link.link)
            self._reported[link] = subject
        self._stalls.blocked(subject, reason, link.culprit(reason), now)
