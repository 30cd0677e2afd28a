"""The recorder of flow events: it turns reports of front ends and of the ledger of stalls into records.

There are two kinds of readers. The broker's own stream gets the events of all connections, if the setting is on: they
wait in one ring. And a client may *follow* its own connection: then that connection is recorded for it, whatever the
setting. Without either, front ends get no recorder, and only the present stalls are remembered.

A stall is recorded only when its link is. Front ends do not report links to and from the stream itself, so these are in
no record, and the stream does not feed on itself.

Bounds: the rings; an account for each link, each closed window, and each stage that a front end reports.
"""

from collections.abc import Callable, Iterator

from core.clock import Now
from core.flow_facts import FlowConnection, FlowLink, LinkFlowState, StageCreditState, StallSubject
from core.observe.flow_events.accounts import LinkAccount, OpenAccounts, StageAccount, WindowAccount
from core.observe.flow_events.feed import Feed
from core.observe.flow_events.ring import RecordRing
from core.observe.flow_events.schema import TEXT_MAX, EventKind, FlowEventRecord, Value
from core.observe.stalls import Stall

SLICE = 64
"""Connections visited between two pauses: 1 ms, with a record for each."""


class FlowEvents:
    """The recorder. Front ends call :meth:`connection`; as a :class:`core.observe.stalls.StallListener` it hears of
    stalls; the stream's writer reports alarms and paging."""

    def __init__(
        self,
        *,
        clock: Callable[[], Now],
        node: str,
        interval_s: float,
        feed_records_max: int,
        ring: RecordRing | None = None,
    ) -> None:
        """``ring`` is the ring for the broker's own stream; None while the setting is off."""
        self.clock = clock
        self.node = node
        self.interval_s = interval_s
        self.feed_records_max = feed_records_max
        self.ring = ring
        self.busy: dict[OpenAccounts, None] = {}
        """The accounts of each connection that has an open one."""
        self._connections: dict[str, ConnectionEvents] = {}
        self._stalls: dict[str, dict[StallSubject, Stall]] = {}
        """The current stalls that listeners were told of, by connection."""
        self.alarms: frozenset[str] = frozenset()
        """The alarms that are on, as last reported by the stream's writer."""
        self._paging = False

    # --- for front ends --------------------------------------------------------------------------------------------

    def connection(self, who: FlowConnection, *, followed: bool = False) -> "ConnectionEvents | None":
        """Begin to record a connection that has opened, or (``followed``) whose client follows it. None when that is
        not wanted."""
        if self.ring is None and not followed:
            return None
        events = self._connections[who.identity] = ConnectionEvents(self, who)
        return events

    # --- for the ledger of stalls ------------------------------------------------------------------------------------

    def stall_started(self, stall: Stall) -> None:
        """See :class:`core.observe.stalls.StallListener`."""
        self._stalls.setdefault(stall.who.connection, {})[stall.who] = stall
        events = self._connections.get(stall.who.connection)
        if events is not None:
            events.blocked(stall)

    def stall_ended(self, stall: Stall, now: Now) -> None:
        """See :class:`core.observe.stalls.StallListener`."""
        stalls = self._stalls.get(stall.who.connection, {})
        stalls.pop(stall.who, None)
        if not stalls:
            self._stalls.pop(stall.who.connection, None)
        events = self._connections.get(stall.who.connection)
        if events is not None:
            events.unblocked(stall, now)

    def look_failed(self, error: Exception) -> None:
        """Ignored: another listener logs it."""

    # --- for the writer of the stream ------------------------------------------------------------------------------

    def alarms_changed(self, alarms: frozenset[str]) -> None:
        """Note that these alarms are on now."""
        before, self.alarms = self.alarms, alarms
        for alarm in sorted(before ^ alarms):
            self._record(EventKind.ALARM, alarm=alarm, on=alarm in alarms)

    def paging_changed(self, paging: bool) -> None:
        """Note whether queues have to move messages to disk; the same value again is ignored."""
        if paging is not self._paging:
            self._paging = paging
            self._record(EventKind.PAGING, on=paging)

    def tell_due(self) -> Iterator[None]:
        """Make the records of all due accounts; yields where other tasks may run."""
        for number, accounts in enumerate(list(self.busy), start=1):
            accounts.tell_due()
            if number % SLICE == 0:
                yield

    def _record(self, kind: EventKind, **fields: Value) -> None:
        if self.ring is not None:
            self.ring.put(FlowEventRecord(kind, self.clock().wall, fields))

    # --- for the connections ----------------------------------------------------------------------------------------

    def stalls_of(self, connection: str) -> list[Stall]:
        """The stalls of a connection that listeners were told of."""
        return list(self._stalls.get(connection, {}).values())

    def forget(self, events: "ConnectionEvents") -> None:
        """Forget a connection that is not recorded any more."""
        if self._connections.get(events.identity) is events:
            del self._connections[events.identity]


class ConnectionEvents:
    """The recorder of one connection."""

    def __init__(self, events: FlowEvents, who: FlowConnection) -> None:
        self.identity = who.identity
        self.now = events.clock
        self._events = events
        self._who = who
        self._feed: Feed | None = None
        self._links: dict[tuple[str, str], LinkAccount] = {}
        """By identity and direction: a 0.9.1 channel has two."""
        self._windows: dict[tuple[str, str], WindowAccount] = {}
        self._accounts = OpenAccounts(who.identity, clock=events.clock, put=self._put, busy=events.busy)
        self._opened_at = events.clock().wall
        self._put(self._opening())

    # --- for the front end -----------------------------------------------------------------------------------------

    def link_attached(self, link: FlowLink, state: Callable[[], LinkFlowState] | None) -> LinkAccount:
        """Note a new link. One without ``state`` has no link credit (0.9.1)."""
        interval_s, forget = self._events.interval_s, self._link_detached
        account = LinkAccount(link, state, owner=self._accounts, interval_s=interval_s, forget=forget)
        self._links[link.identity, link.direction] = account
        self._put(self._attaching(account))
        return account

    def stage(self, kind: str, name: str, state: Callable[[], StageCreditState]) -> StageAccount:
        """Note a stage that this connection's messages pass: a "reader", "channel" or "queue"."""
        return StageAccount(kind, name, state, owner=self._accounts, interval_s=self._events.interval_s)

    def window_closed(self, session: str, side: str) -> None:
        """Note that an incoming-window is used up or closed: that of the "broker" or of the "client"."""
        if (session, side) not in self._windows:
            window = WindowAccount(session, side, owner=self._accounts, interval_s=self._events.interval_s)
            self._windows[session, side] = window

    def window_opened(self, session: str, side: str) -> None:
        """Note that it is open again. Ignored when it was not closed."""
        window = self._windows.pop((session, side), None)
        if window is not None:
            window.end(opened=True)

    def session_ended(self, session: str) -> None:
        """Note that a session has ended, and its windows with it."""
        for key in [key for key in self._windows if key[0] == session]:
            self._windows.pop(key).end(opened=False)

    def follow(self, notify: Callable[[], None]) -> Feed:
        """Give the connection's client its own events from now on, beginning with the present state.

        ``notify`` is called when there is an event that should not wait. Only one feed at a time is possible.
        """
        assert self._feed is None
        events = self._events
        self._feed = Feed(
            records_max=events.feed_records_max,
            node=events.node,
            interval_s=events.interval_s,
            clock=events.clock,
            notify=notify,
            next_due=lambda: self._accounts.next_due,
            tell_due=self._accounts.tell_due,
            closed=self._unfollowed,
        )
        self._feed.put(self._opening())
        for account in self._links.values():
            self._feed.put(self._attaching(account))
        for stall in events.stalls_of(self.identity):
            if self._records(stall.who):
                self._feed.put(FlowEventRecord(EventKind.BLOCKED, self.now().wall, self._stall_fields(stall)))
        return self._feed

    def closed(self) -> None:
        """Note that the connection has closed, or that its events are not wanted any more. No method is called after
        this."""
        self._accounts.tell_all()
        self._accounts.record(EventKind.CONNECTION_CLOSED, self.now().wall)
        self._feed = None
        self._events.forget(self)
        del self._accounts  # breaks the reference cycle with them

    # --- for the ledger of stalls ------------------------------------------------------------------------------------

    def blocked(self, stall: Stall) -> None:
        """Record that a link of the connection, or its reader, is blocked; it has been for long enough to be
        reported."""
        if self._records(stall.who):
            self._put(FlowEventRecord(EventKind.BLOCKED, self.now().wall, self._stall_fields(stall)))

    def unblocked(self, stall: Stall, now: Now) -> None:
        """Record that it is not blocked any more."""
        if self._records(stall.who):
            fields = self._stall_fields(stall) | {"seconds": round(stall.seconds(now), 3)}
            self._put(FlowEventRecord(EventKind.UNBLOCKED, now.wall, fields))

    # --- inside ----------------------------------------------------------------------------------------------------

    def _put(self, record: FlowEventRecord) -> None:
        if self._events.ring is not None:
            self._events.ring.put(record)
        if self._feed is not None:
            self._feed.put(record)

    def _unfollowed(self) -> None:
        self._feed = None

    def _link_detached(self, account: LinkAccount) -> None:
        link = account.link
        if self._links.pop((link.identity, link.direction), None) is not None:
            now = self.now().wall
            self._accounts.record(EventKind.LINK_DETACHED, now, link=link.identity, direction=link.direction)

    def _records(self, who: StallSubject) -> bool:
        return who.identity == self.identity or (who.identity, who.direction) in self._links

    def _opening(self) -> FlowEventRecord:
        who = self._who
        fields: dict[str, Value] = {
            "connection": who.identity,
            "peer": who.peer,
            "protocol": who.protocol,
            "container_id": who.container_id[:TEXT_MAX],
            "user": who.user[:TEXT_MAX],
        }
        return FlowEventRecord(EventKind.CONNECTION_OPENED, self._opened_at, fields)

    def _attaching(self, account: LinkAccount) -> FlowEventRecord:
        link = account.link
        fields: dict[str, Value] = {"connection": self.identity, "link": link.identity, "direction": link.direction}
        if link.name:
            fields["name"] = link.name[:TEXT_MAX]
        if link.address:
            fields["address"] = link.address[:TEXT_MAX]
        return FlowEventRecord(EventKind.LINK_ATTACHED, account.attached_at, fields)

    def _stall_fields(self, stall: Stall) -> dict[str, Value]:
        who = stall.who
        fields: dict[str, Value] = {
            "connection": who.connection,
            "direction": who.direction,
            "reason": stall.reason.value,
            "culprit": stall.culprit[:TEXT_MAX],
            "since": stall.since.wall,
        }
        if who.identity != who.connection:
            fields["link"] = who.identity
        if who.address:
            fields["address"] = who.address[:TEXT_MAX]
        return fields
