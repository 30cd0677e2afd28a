"""Accounts: the events on a link or stage within one interval are added up into one record.

An account is *open* from the first call until its interval is over. Then the next call, or the regular check for due
accounts, makes its record. So an idle link costs nothing, a busy one makes a record per interval, and there is no
timer. Sums are exact: every event is in one record, and in no other.
"""

from collections.abc import Callable
from typing import Protocol

from core.clock import Now
from core.flow_facts import FlowLink, LinkStanding, Settled, StageStanding
from core.observe.flow_events.schema import TEXT_MAX, Kind, Value

SERIAL_MASK = 0xFFFF_FFFF
"""A delivery-count is a serial number of 32 bits and wraps [2.6.7]."""


class Ledger(Protocol):
    """Where the records of one connection go."""

    def now(self) -> Now:
        """Return the time."""

    def record(self, kind: Kind, at: float, **fields: Value) -> None:
        """Record a fact about this connection; ``at`` is wall-clock time, in seconds."""

    def opened(self, account: "Account") -> None:
        """Note that an account is open: it makes a record once its interval is over."""

    def settled(self, account: "Account") -> None:
        """Note that an account has made its record."""


class Account(Protocol):
    """Something whose events are added up."""

    @property
    def due(self) -> float:
        """The monotonic time at which its interval is over."""

    def tell(self) -> None:
        """Make the record now, also before the interval is over."""


class LinkAccount:
    """The account of one link. The only implementation of :class:`core.flow_facts.LinkRecorder`.

    What was granted follows from the link's own counters: only grants change the sum of delivery-count and link credit.
    """

    __slots__ = (
        "_began",
        "_clock",
        "_delivery_count",
        "_forget",
        "_interval_s",
        "_ledger",
        "_link_credit",
        "_open",
        "_settled",
        "_standing",
        "_transfers",
        "attached_at",
        "due",
        "link",
    )

    def __init__(
        self,
        link: FlowLink,
        standing: Callable[[], LinkStanding] | None,
        *,
        ledger: Ledger,
        interval_s: float,
        forget: Callable[["LinkAccount"], None],
    ) -> None:
        """``forget`` is called when the link has ended. The present link credit counts as granted."""
        self.link = link
        self.attached_at = ledger.now().wall
        self.due = 0.0
        self._standing = standing
        self._ledger = ledger
        self._clock = ledger.now
        self._interval_s = interval_s
        self._forget = forget
        self._open = False
        self._began = 0.0
        self._transfers = 0
        self._settled: dict[Settled, int] = {}
        self._delivery_count = 0 if standing is None else standing().delivery_count
        self._link_credit = 0
        self.changed()

    def transferred(self, n: int) -> None:
        """See :class:`core.flow_facts.LinkRecorder`, also for the methods below."""
        if not self._open or self._clock().monotonic >= self.due:
            self.changed()
        self._transfers += n

    def settled(self, n: int, outcome: Settled) -> None:
        if not self._open or self._clock().monotonic >= self.due:
            self.changed()
        self._settled[outcome] = self._settled.get(outcome, 0) + n

    def changed(self) -> None:
        now = self._clock()
        if self._open:
            if now.monotonic < self.due:
                return
            self.tell()
        self._open = True
        self._began = now.wall
        self.due = now.monotonic + self._interval_s
        self._ledger.opened(self)

    def detached(self) -> None:
        if self._open:
            self.tell()
        self._forget(self)

    def tell(self) -> None:
        """See :class:`Account`."""
        self._open = False
        self._ledger.settled(self)
        fields = self._counts()
        if fields:
            link = self.link
            if self._standing is not None:
                fields["link_credit"] = self._link_credit
            self._ledger.record(Kind.ACTIVITY, self._began, link=link.identity, direction=link.direction, **fields)

    def _counts(self) -> dict[str, int]:
        counts = {"transfers": self._transfers} if self._transfers else {}
        counts.update((outcome.value, n) for outcome, n in self._settled.items())
        self._transfers = 0
        self._settled.clear()
        granted = self._granted()
        if granted:
            counts["granted"] = granted
        return counts

    def _granted(self) -> int:
        """The link credit granted since the last record."""
        if self._standing is None:
            return 0
        delivery_count, link_credit = self._standing()
        advanced = (delivery_count - self._delivery_count) & SERIAL_MASK
        granted = advanced + link_credit - self._link_credit
        self._delivery_count, self._link_credit = delivery_count, link_credit
        return granted


class StageAccount:
    """The account of one stage of stage credit. The only implementation of :class:`core.flow_facts.StageRecorder`."""

    __slots__ = ("_began", "_interval_s", "_kind", "_ledger", "_name", "_open", "_standing", "_told", "due")

    def __init__(
        self, kind: str, name: str, standing: Callable[[], StageStanding], *, ledger: Ledger, interval_s: float
    ) -> None:
        self.due = 0.0
        self._kind = kind
        self._name = name
        self._standing = standing
        self._ledger = ledger
        self._interval_s = interval_s
        self._open = False
        self._began = 0.0
        now = standing()
        self._told = StageStanding(now.blocks - now.blocked, blocked=False, held_up_by="")

    def changed(self) -> None:
        """See :class:`core.flow_facts.StageRecorder`."""
        now = self._ledger.now()
        if self._open:
            if now.monotonic < self.due:
                return
            self.tell()
        self._open = True
        self._began = now.wall
        self.due = now.monotonic + self._interval_s
        self._ledger.opened(self)

    def tell(self) -> None:
        """See :class:`Account`."""
        self._open = False
        self._ledger.settled(self)
        told, standing = self._told, self._standing()
        self._told = standing
        if standing.blocks == told.blocks and standing.blocked is told.blocked:
            return
        fields: dict[str, Value] = {"stage": self._kind, "name": self._name[:TEXT_MAX], "blocked": standing.blocked}
        if standing.blocks != told.blocks:
            fields["blocks"] = standing.blocks - told.blocks
        if standing.held_up_by:
            fields["held_up_by"] = standing.held_up_by[:TEXT_MAX]
        self._ledger.record(Kind.STAGE, self._began, **fields)


class WindowAccount:
    """One incoming-window that is closed. It is recorded when it was closed for a whole interval; then its end is
    too."""

    __slots__ = ("_began", "_ledger", "_session", "_side", "_told", "due")

    def __init__(self, session: str, side: str, *, ledger: Ledger, interval_s: float) -> None:
        now = ledger.now()
        self.due = now.monotonic + interval_s
        self._session = session
        self._side = side
        self._ledger = ledger
        self._began = now.wall
        self._told = False
        ledger.opened(self)

    def tell(self) -> None:
        """See :class:`Account`."""
        self._ledger.settled(self)
        self._told = True
        self._ledger.record(Kind.WINDOW_CLOSED, self._began, session=self._session, side=self._side)

    def end(self, *, opened: bool) -> None:
        """Note that the window is open again, or gone."""
        now = self._ledger.now()
        if not self._told:
            if now.monotonic < self.due:
                self._ledger.settled(self)
                return
            self.tell()
        if opened:
            self._ledger.record(Kind.WINDOW_OPENED, now.wall, session=self._session, side=self._side)
