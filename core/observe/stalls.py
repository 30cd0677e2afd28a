"""The ledger of stalls: what stands still now, since when, why and because of what, and all blocked seconds so far.

Front ends report when a link or a reader is blocked and when it is not any more. Stalls that depend only on the client
(its window, its link credit, its socket) they find when the ledger asks them to look. Nothing here is called per
message.

Most stalls are over in milliseconds: that is flow control at work. They count in the seconds, and listeners are not
told. Listeners are told of a stall that has lasted :data:`AFTER_S`, once at its beginning and once at its end. Which of
these get a line in the log is decided in :mod:`core.observe.stall_log`. A task calls :meth:`Stalls.look` and
:meth:`Stalls.tell` a few times a second; both pause between slices.

Invariants: a subject has one stall at most; blocked seconds never go down, for any reader at any time; a listener hears
of the end of exactly those stalls of whose beginning it has heard.

What each link and reader has waited for in the last minute is kept besides, the short stalls included
(:mod:`core.observe.last_minute`); the same task calls :meth:`Stalls.remember`.

Bounds: one stall for each link or reader; totals for ``addresses_max`` addresses, all others together; of the stalls
that have ended since the last call of :meth:`Stalls.remember`, one sum for each link or reader and reason.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import NamedTuple, Protocol

from core.clock import Now
from core.flow_facts import StallSubject
from core.interface import FlowReason, Snapshot
from core.observe.last_minute import LastMinute
from core.waiting.blocked_time import BlockedTimes

AFTER_S = 0.05
"""Listeners are told of a stall that has lasted this long: ``amqp10.flow_reason.after`` has the same default."""
ADDRESSES_MAX = 1000
"""Addresses with totals of their own: a few hundred bytes for each, and as many series in the metrics."""
OTHER = "_other"
"""The label of all addresses beyond these."""
SLICE = 256
"""Links looked at, or stalls told, between two pauses: 2 µs for each look and 20 µs for the listeners of each stall."""


NO_SECONDS = (0.0, None)


class BlockedLabels(NamedTuple):
    """The labels by which blocked seconds are counted."""

    address: str
    direction: str
    reason: FlowReason


class Stall:
    """One subject that stands still for one reason. Listeners may read it and must not change it."""

    __slots__ = ("culprit", "labels", "reason", "remembered", "since", "told", "who")

    def __init__(self, who: StallSubject, labels: BlockedLabels, culprit: str, since: Now) -> None:
        self.who = who
        self.labels = labels
        self.reason = labels.reason
        self.culprit = culprit
        """What has to change. The ledger may learn it more exactly while the stall lasts."""
        self.since = since
        self.remembered = since.monotonic
        """Until when its seconds are counted in the last minute."""
        self.told = False

    def seconds(self, now: Now) -> float:
        """How long it has lasted, in seconds."""
        return max(0.0, now.monotonic - self.since.monotonic)

    def row(self, now: Now) -> Snapshot:
        """The stall as a row of plain values."""
        return {
            "identity": self.who.identity,
            "connection": self.who.connection,
            "peer": self.who.peer,
            "container_id": self.who.container_id,
            "user": self.who.user,
            "vhost": self.who.virtual_host,
            "address": self.who.address,
            "direction": self.who.direction,
            "reason": self.reason.value,
            "culprit": self.culprit,
            "since": self.since.wall,
            "seconds": round(self.seconds(now), 3),
        }


class StallListener(Protocol):
    """A listener for stalls that last."""

    def stall_started(self, stall: Stall) -> None:
        """A stall has lasted :data:`AFTER_S`."""

    def stall_ended(self, stall: Stall, now: Now) -> None:
        """A stall whose beginning this listener was told of is over."""

    def look_failed(self, error: Exception) -> None:
        """A connection's look has raised, which is a bug of ours. It is not called again; the others are."""


class Stalls:
    """The ledger to which front ends report stalls. A ``culprit`` is what has to change: "queue q", "alarm disk",
    "client"."""

    def __init__(
        self,
        *,
        clock: Callable[[], Now],
        listeners: Sequence[StallListener] = (),
        addresses_max: int = ADDRESSES_MAX,
    ) -> None:
        self._clock = clock
        self._listeners = listeners
        self._addresses_max = addresses_max
        self._addresses: set[str] = set()
        self._current: dict[StallSubject, Stall] = {}
        self._by_identity: dict[str, Stall] = {}
        self._incoming = Counter[str]()
        """How many of the current stalls are of publishers, by the address that each named."""
        self._untold: dict[StallSubject, Stall] = {}
        """The current stalls that listeners were not told of, in the order in which they were reported."""
        self._times: BlockedTimes[BlockedLabels] = BlockedTimes()
        self._minute = LastMinute(clock().monotonic)
        self._ended: dict[tuple[str, FlowReason], tuple[float, Stall]] = {}
        """Seconds of stalls that have ended and are not in the last minute yet, with the last of these stalls."""
        self._looks: dict[Callable[[Now], Iterator[int]], None] = {}

    # --- for front ends --------------------------------------------------------------------------------------------

    def blocked(self, who: StallSubject, reason: FlowReason, culprit: str, now: Now) -> None:
        """Report a stall since ``now``, or another reason for it; the same reason again may name another culprit."""
        stall = self._current.get(who)
        if stall is not None:
            if stall.reason is reason:
                stall.culprit = culprit
                return
            self.unblocked(who, now)
        labels = BlockedLabels(self._address(who.address), who.direction, reason)
        self._current[who] = self._untold[who] = self._by_identity[who.identity] = Stall(who, labels, culprit, now)
        if who.direction == "in":
            self._incoming[who.address] += 1
        self._times.begin(labels, now.monotonic)

    def unblocked(self, who: StallSubject, now: Now) -> None:
        """Report that the subject moves again, or is gone. Ignored when it was not blocked."""
        stall = self._current.pop(who, None)
        if stall is None:
            return
        self._untold.pop(who, None)
        self._by_identity.pop(who.identity, None)
        if who.direction == "in":
            self._incoming[who.address] -= 1
            if not self._incoming[who.address]:
                del self._incoming[who.address]
        self._times.end(stall.labels, now.monotonic)
        key = (who.identity, stall.reason)
        self._ended[key] = self._ended.get(key, NO_SECONDS)[0] + now.monotonic - stall.remembered, stall
        if stall.told:
            for listener in self._listeners:
                listener.stall_ended(stall, now)

    def look_at(self, look: Callable[[Now], Iterator[int]], *, wanted: bool) -> None:
        """Call ``look`` several times a second from now on, or stop. It yields after so many links looked at."""
        if wanted:
            self._looks[look] = None
        else:
            self._looks.pop(look, None)

    # --- for the task that drives it -------------------------------------------------------------------------------

    def look(self) -> Iterator[None]:
        """Call every registered look; yields where other tasks may run."""
        looked_at = 0
        for look in list(self._looks):
            if look not in self._looks:
                continue  # removed during a pause
            try:
                for links in look(self._clock()):
                    looked_at += 1 + links
                    if looked_at >= SLICE:
                        looked_at = 0
                        yield
            except Exception as error:  # a bug of ours in this look; the other looks still run
                self._looks.pop(look, None)
                for listener in self._listeners:
                    listener.look_failed(error)

    def tell(self) -> Iterator[None]:
        """Tell the listeners of the stalls that have lasted long enough; yields where other tasks may run."""
        now = self._clock()
        due = [stall for stall in self._untold.values() if stall.seconds(now) >= AFTER_S]
        for number, stall in enumerate(due, start=1):
            if self._untold.get(stall.who) is stall:
                del self._untold[stall.who]
                stall.told = True
                for listener in self._listeners:
                    listener.stall_started(stall)
            if number % SLICE == 0:
                yield

    def remember(self) -> Iterator[None]:
        """Count in the last minute what has been waited since the last call; yields where other tasks may run. Only one
        call at a time."""
        minute, now = self._minute, self._clock().monotonic
        ended, self._ended = self._ended, {}
        for number, (seconds, stall) in enumerate(ended.values(), start=1):
            minute.add(stall.who, stall.reason, stall.culprit, max(0.0, seconds))
            if number % SLICE == 0:
                yield
        if not minute.due(now):
            return
        for number, (identity, stall) in enumerate(list(self._by_identity.items()), start=1):
            if self._by_identity.get(identity) is stall and now > stall.remembered:
                minute.add(stall.who, stall.reason, stall.culprit, now - stall.remembered)
                stall.remembered = now
            if number % SLICE == 0:
                yield
        yield from minute.begin_part(now)

    # --- for readers -----------------------------------------------------------------------------------------------

    @property
    def current(self) -> Mapping[StallSubject, Stall]:
        """All current stalls, the short ones too."""
        return MappingProxyType(self._current)

    @property
    def seconds(self) -> Mapping[BlockedLabels, float]:
        """All blocked seconds so far, those of current stalls included."""
        return self._times.seconds(self._clock().monotonic)

    @property
    def lasting_counts(self) -> Mapping[BlockedLabels, int]:
        """How many stalls are :attr:`lasting`, for all labels that were ever used. Of the stalls, only those that began
        last are looked at."""
        now, counts = self._clock(), self._times.counts()
        for stall in takewhile(lambda stall: stall.seconds(now) < AFTER_S, reversed(self._untold.values())):
            counts[stall.labels] -= 1
        return counts

    @property
    def lasting(self) -> list[Stall]:
        """Current stalls that have lasted :data:`AFTER_S`: those that are listed, logged and counted as blocked."""
        now = self._clock()
        return [stall for stall in self._current.values() if stall.seconds(now) >= AFTER_S]

    def rows(self) -> Iterator[Snapshot]:
        """A row for each of :attr:`lasting`, made when it is asked for; its stall may be over by then."""
        now = self._clock()
        return (stall.row(now) for stall in self.lasting)

    def snapshot(self, identity: str | None = None) -> list[Snapshot]:
        """The same rows at once, or only the row of this link or reader."""
        if identity is None:
            return list(self.rows())
        now, stall = self._clock(), self._by_identity.get(identity)
        return [] if stall is None or stall.seconds(now) < AFTER_S else [stall.row(now)]

    def last_minute(self, identity: str | None = None) -> Iterator[Snapshot]:
        """A row for each link and reader that has waited in the last minute, or only that of one: who it is,
        ``over_seconds``, ``seconds`` and ``share`` of waiting, and ``by_reason``, a list of ``reason``, ``culprit``,
        ``seconds`` and ``share``, the longest first. What has ended in the last fifth of a second may be missing."""
        for one in {**self._minute.identities, **self._by_identity} if identity is None else (identity,):
            row = self._waited(one)
            if row is not None:
                yield row

    def _waited(self, identity: str) -> Snapshot | None:
        now, waited, stall = self._clock(), self._minute.of(identity), self._by_identity.get(identity)
        if stall is not None and now.monotonic > stall.remembered:
            before = waited.get(stall.reason, ("", 0.0))[1]
            waited[stall.reason] = stall.culprit, before + now.monotonic - stall.remembered
        who = self._minute.who(identity) if stall is None else stall.who
        over = self._minute.over(now.monotonic)
        if who is None or not waited or not over:
            return None
        return {
            "identity": identity,
            "connection": who.connection,
            "peer": who.peer,
            "container_id": who.container_id,
            "user": who.user,
            "vhost": who.virtual_host,
            "address": who.address,
            "direction": who.direction,
            **waiting_shares(over, [(reason.value, culprit, min(s, over)) for reason, (culprit, s) in waited.items()]),
        }

    def waiting_publishers(self, address: str) -> int:
        """How many of :attr:`lasting` are of publishers to this address. Of the stalls, only those that began last are
        looked at."""
        now, count = self._clock(), self._incoming[address]
        if count:
            for stall in takewhile(lambda stall: stall.seconds(now) < AFTER_S, reversed(self._untold.values())):
                count -= stall.who.direction == "in" and stall.who.address == address
        return count

    def _address(self, address: str) -> str:
        if address not in self._addresses:
            if len(self._addresses) >= self._addresses_max:
                return OTHER
            self._addresses.add(address)
        return address


def waiting_shares(over: float, waited: Iterable[tuple[str, str, float]]) -> Snapshot:
    """The seconds of waiting by reason and culprit, and their shares of ``over`` seconds."""
    longest = sorted(waited, key=lambda one: -one[2])
    seconds = min(over, sum(one[2] for one in longest))
    return {
        "over_seconds": round(over, 1),
        "seconds": round(seconds, 3),
        "share": _share(seconds, over),
        "by_reason": [
            {"reason": reason, "culprit": culprit, "seconds": round(s, 3), "share": _share(s, over)}
            for reason, culprit, s in longest
        ],
    }


def _share(seconds: float, over: float) -> float:
    return round(seconds / over, 3) if over else 0.0
