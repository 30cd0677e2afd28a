"""Accounts: the events on a link or stage within one interval are added up into one record.

An account is *open* from the first call until its interval is over. Then the next call, or the regular check for due
accounts, makes its record. So an idle link costs nothing, a busy one makes a record per interval, and there is no
timer. Sums are exact: every event is in one record, and in no other.
"""

from collections.abc import Callable
from math import inf
from typing import Protocol

from core.clock import Now
from core.flow_facts import FlowLink, LinkFlowState, Settled, StageCreditState
from core.observe.flow_events.schema import TEXT_MAX, EventKind, FlowEventRecord, Value

SERIAL_MASK = 0xFFFF_FFFF
"""A delivery-count is a serial number of 32 bits and wraps [2.6.7]."""


class Account(Protocol):
    """Something whose events are added up."""

    @property
    def due(self) -> float:
        """The monotonic time at which its interval is over."""

    def tell(self) -> None:
        """Make the record now, also before the interval is over."""


class OpenAccounts:
    """The open accounts of one connection, the first due first, because all intervals are the same. Accounts give their
    records to it."""

    __slots__ = ("_accounts", "_busy", "_put", "connection", "now")

    def __init__(
        self,
        connection: str,
        *,
        clock: Callable[[], Now],
        put: Callable[[FlowEventRecord], None],
        busy: "dict[OpenAccounts, None]",
    ) -> None:
        """``put`` takes the records. ``busy`` has those of all connections that have an open account; this object adds
        and removes itself."""
        self.connection = connection
        self.now = clock
        self._put = put
        self._busy = busy
        self._accounts: dict[Account, None] = {}

    def record(self, kind: EventKind, at: float, **fields: Value) -> None:
        """Record a fact about the connection; ``at`` is wall-clock time, in seconds."""
        self._put(FlowEventRecord(kind, at, {"connection": self.connection, **fields}))

    def opened(self, account: Account) -> None:
        """Note that an account is open: it makes a record once its interval is over."""
        self._accounts[account] = None
        self._busy[self] = None

    def settled(self, account: Account) -> None:
        """Note that an account has made its record."""
        self._accounts.pop(account, None)
        if not self._accounts:
            self._busy.pop(self, None)

    @property
    def next_due(self) -> float:
        """The monotonic time at which the next account is due; infinity if none is open."""
        first = next(iter(self._accounts), None)
        return inf if first is None else first.due

    def tell_due(self) -> None:
        """Make the records of all accounts that are due."""
        now = self.now().monotonic
        for account in list(self._accounts):
            if account.due > now:
                break
            account.tell()

    def tell_all(self) -> None:
        """Make the records of all accounts now."""
        for account in list(self._accounts):
            account.tell()


class LinkAccount:
    """The account of one link, or of one direction of a 0.9.1 channel. A front end reports the link's flow to it.

    What was granted follows from the link's own counters: only grants change the sum of delivery-count and link credit.
    """

    __slots__ = (
        "_began",
        "_clock",
        "_delivery_count",
        "_forget",
        "_interval_s",
        "_link_credit",
        "_open",
        "_owner",
        "_settled",
        "_state",
        "_transfers",
        "attached_at",
        "due",
        "link",
    )

    def __init__(
        self,
        link: FlowLink,
        state: Callable[[], LinkFlowState] | None,
        *,
        owner: OpenAccounts,
        interval_s: float,
        forget: Callable[["LinkAccount"], None],
    ) -> None:
        """``forget`` is called when the link has ended. The present link credit counts as granted."""
        self.link = link
        self.attached_at = owner.now().wall
        self.due = 0.0
        self._state = state
        self._owner = owner
        self._clock = owner.now
        self._interval_s = interval_s
        self._forget = forget
        self._open = False
        self._began = 0.0
        self._transfers = 0
        self._settled: dict[Settled, int] = {}
        self._delivery_count = 0 if state is None else state().delivery_count
        self._link_credit = 0
        self.changed()

    def transferred(self, n: int) -> None:
        """Note that ``n`` messages came in, or went out to the socket."""
        if not self._open or self._clock().monotonic >= self.due:
            self.changed()
        self._transfers += n

    def settled(self, n: int, outcome: Settled) -> None:
        """Note that ``n`` messages were settled."""
        if not self._open or self._clock().monotonic >= self.due:
            self.changed()
        self._settled[outcome] = self._settled.get(outcome, 0) + n

    def changed(self) -> None:
        """Note that the link credit may have changed."""
        now = self._clock()
        if self._open:
            if now.monotonic < self.due:
                return
            self.tell()
        self._open = True
        self._began = now.wall
        self.due = now.monotonic + self._interval_s
        self._owner.opened(self)

    def detached(self) -> None:
        """Note that the link has ended. No method is called after this."""
        if self._open:
            self.tell()
        self._forget(self)

    def tell(self) -> None:
        """See :class:`Account`."""
        self._open = False
        self._owner.settled(self)
        now = None if self._state is None else self._state()
        fields: dict[str, Value] = dict(self._counts(now))
        if fields:
            link = self.link
            if now is not None:
                fields |= _flow_of(now)
            self._owner.record(EventKind.ACTIVITY, self._began, link=link.identity, direction=link.direction, **fields)

    def _counts(self, now: LinkFlowState | None) -> dict[str, int]:
        counts = {"transfers": self._transfers} if self._transfers else {}
        counts.update((outcome.value, n) for outcome, n in self._settled.items())
        self._transfers = 0
        self._settled.clear()
        granted = 0 if now is None else self._granted(now)
        if granted:
            counts["granted"] = granted
        return counts

    def _granted(self, now: LinkFlowState) -> int:
        """The link credit granted since the last record."""
        advanced = (now.delivery_count - self._delivery_count) & SERIAL_MASK
        granted = advanced + now.link_credit - self._link_credit
        self._delivery_count, self._link_credit = now.delivery_count, now.link_credit
        return granted


def _flow_of(now: LinkFlowState) -> dict[str, Value]:
    """The fields that say how the link stands."""
    fields: dict[str, Value] = {"link_credit": now.link_credit, "session_window": now.session_window}
    if now.window is not None:
        fields |= {
            "window": now.window.messages,
            "round_trip_ms": now.window.round_trip_ms,
            "used_per_second": now.window.used_per_second,
        }
        if now.window.share_per_second is not None:
            fields["share_per_second"] = now.window.share_per_second
    if now.limited_by:
        fields["limited_by"] = now.limited_by
    return fields


class StageAccount:
    """The account of one stage of stage credit."""

    __slots__ = ("_began", "_interval_s", "_kind", "_name", "_open", "_owner", "_state", "_told", "due")

    def __init__(
        self, kind: str, name: str, state: Callable[[], StageCreditState], *, owner: OpenAccounts, interval_s: float
    ) -> None:
        self.due = 0.0
        self._kind = kind
        self._name = name
        self._state = state
        self._owner = owner
        self._interval_s = interval_s
        self._open = False
        self._began = 0.0
        now = state()
        self._told = StageCreditState(now.blocks - now.blocked, blocked=False, held_up_by="")

    def changed(self) -> None:
        """Note that the stage has become blocked, or is not blocked any more."""
        now = self._owner.now()
        if self._open:
            if now.monotonic < self.due:
                return
            self.tell()
        self._open = True
        self._began = now.wall
        self.due = now.monotonic + self._interval_s
        self._owner.opened(self)

    def tell(self) -> None:
        """See :class:`Account`."""
        self._open = False
        self._owner.settled(self)
        told, state = self._told, self._state()
        self._told = state
        if state.blocks == told.blocks and state.blocked is told.blocked:
            return
        fields: dict[str, Value] = {"stage": self._kind, "name": self._name[:TEXT_MAX], "blocked": state.blocked}
        if state.blocks != told.blocks:
            fields["blocks"] = state.blocks - told.blocks
        if state.held_up_by:
            fields["held_up_by"] = state.held_up_by[:TEXT_MAX]
        self._owner.record(EventKind.STAGE, self._began, **fields)


class WindowAccount:
    """One incoming-window that is closed. It is recorded when it was closed for a whole interval; then its end is
    too."""

    __slots__ = ("_began", "_owner", "_session", "_side", "_told", "due")

    def __init__(self, session: str, side: str, *, owner: OpenAccounts, interval_s: float) -> None:
        now = owner.now()
        self.due = now.monotonic + interval_s
        self._session = session
        self._side = side
        self._owner = owner
        self._began = now.wall
        self._told = False
        owner.opened(self)

    def tell(self) -> None:
        """See :class:`Account`."""
        self._owner.settled(self)
        self._told = True
        self._owner.record(EventKind.WINDOW_CLOSED, self._began, session=self._session, side=self._side)

    def end(self, *, opened: bool) -> None:
        """Note that the window is open again, or gone."""
        now = self._owner.now()
        if not self._told:
            if now.monotonic < self.due:
                self._owner.settled(self)
                return
            self.tell()
        if opened:
            self._owner.record(EventKind.WINDOW_OPENED, now.wall, session=self._session, side=self._side)
