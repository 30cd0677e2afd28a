"""Watches sessions, for the metrics: how long their windows are closed, and how old their unsettled deliveries are.

The broker closes its windows while an alarm is on; the begin and the end of that are observed exactly. A window that a
client has closed while output waits is found by checking from time to time. The window of a busy consumer closes and
opens many times between two checks, so its times are right only on average.
"""

from collections.abc import Mapping

from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session import Link, Session
from core.clock import Now
from core.interface import FlowReason
from core.waiting.blocked_time import BlockedTimes
from core.waiting.times import Times


class Ages:
    """How long consumers have held the oldest unsettled deliveries of one session, without a record for each delivery.

    Delivery-ids of a session count up. From time to time a note records the next delivery-id; an unsettled delivery was
    sent before the first note whose number is above its id. An age is exact to the distance between two notes, and for
    old deliveries to the share that :mod:`core.waiting.times` says. Times are monotonic seconds.
    """

    __slots__ = ("_below", "times")

    def __init__(self) -> None:
        self.times = Times()
        """When deliveries were first seen to have been sent."""
        self._below = 0
        """The next delivery-id at the last note."""

    def note(self, session: Session, now: float) -> None:
        """Record how far the delivery-ids have come."""
        below = session.next_delivery_id
        if below > self._below:
            self.times.mark(self._below, now)
            self._below = below

    def oldest(self, session: Session, now: float) -> dict[SenderLink, float]:
        """How long each link has held its oldest unsettled delivery, in seconds."""
        ages: dict[SenderLink, float] = {}
        for record in session.outgoing.ranges():
            if record.owner not in ages:
                age = self.times.age(record.first, now) if record.first < self._below else None
                ages[record.owner] = age or 0.0
        return ages


class SessionWatches:
    """The sessions of one connection."""

    __slots__ = ("_ages", "_closed", "_times")

    def __init__(self, times: BlockedTimes[tuple[str, str]]) -> None:
        """``times`` are those of all connections, by direction and reason."""
        self._times = times
        self._closed: dict[tuple[Session, str], FlowReason] = {}
        self._ages: dict[Session, Ages] = {}
        """The ages of sessions that have unsettled deliveries."""

    def look(self, session: Session, now: Now) -> None:
        """Check whether the client's window delays output, and note how far the delivery-ids have come."""
        if session.outgoing.count:
            if session not in self._ages:
                self._ages[session] = Ages()
            self._ages[session].note(session, now.monotonic)
        elif self._ages:
            self._ages.pop(session, None)
        held_up = session.blocked and not session.window.remote_incoming_window
        if held_up or self._closed:
            self.observe(session, FlowReason.SESSION_WINDOW if held_up else None, direction="out", now=now)

    def oldest(self, session: Session, now: Now) -> Mapping[SenderLink, float]:
        """How long consumers have held their oldest unsettled deliveries, in seconds; links without any are left
        out."""
        ages = self._ages.get(session)
        return {} if ages is None else ages.oldest(session, now.monotonic)

    def observe(self, session: Session, reason: FlowReason | None, *, direction: str, now: Now) -> None:
        """The window in this direction is closed for this reason, or open (None)."""
        before = self._closed.pop((session, direction), None)
        if reason is not None:
            self._closed[session, direction] = reason
        if reason is before:
            return
        if before is not None:
            self._times.end((direction, before), now.monotonic)
        if reason is not None:
            self._times.begin((direction, reason), now.monotonic)

    def forget(self, session: Session, now: Now) -> None:
        """Drop a session that is over."""
        self._ages.pop(session, None)
        for direction in ("in", "out"):
            self.observe(session, None, direction=direction, now=now)

    def forget_all(self, now: Now) -> None:
        """The connection is over: end the times of all closed windows."""
        for session, direction in list(self._closed):
            self.observe(session, None, direction=direction, now=now)


def session_of(link: Link) -> Session:
    """The session of a link."""
    session = link.channel
    assert isinstance(session, Session)
    return session
