"""The last five minutes of links, sessions, channels and queues, with a value each second: the data of the console's
charts.

All things share one ring of times. Each thing has an array per series, written at the same places, so a sample costs
some stores and no allocation. A sample is taken in slices, and readers see it once it is complete. A thing that a
sample does not meet has gone, and its time lines are dropped.

Two figures exist only here. *Rates* come from counters that only grow. *Blocked* is 1 in a sample during which a stall
lasts. Its mean over a minute estimates the share of blocked time within about 0.06. Unlike a sum over stalls that
listeners were told of, it includes stalls that are short and many.

A sample looks only at connections that have done something since the sample before, or a stall of which has begun or
ended. The things of the others are as they were: their values go on as the last ones, and their rates are 0. So idle
connections cost nothing, however many they are. Of changed connections that have no time lines yet,
:data:`CONNECTIONS_SEARCHED` are looked through in each sample. Queues are looked at in every sample.

Bounds: ``things_max`` of each kind, those that are met first; 301 samples; eight series at most. That is 20 KiB for a
thing. This module must not know clocks, tasks or protocols; the process hands in the rows.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import isnan, nan
from types import MappingProxyType

from core.clock import Now
from core.interface import Snapshot
from core.observe.stalls import Stall

INTERVAL_S = 1.0
SAMPLES = 300
"""Five minutes: as long as an operator looks at a stall before asking ``why``."""
SLICE_ROWS = 200
"""Rows taken in between two pauses: 2 ms, most of it for making the rows."""
CONNECTIONS_SEARCHED = 500
"""Changed connections in which a sample looks for new things: 2 ms for each kind. As many things of a kind have time
lines by default."""
RATE_SAMPLES = 5
"""A rate that is shown as one number is the mean over this many seconds."""
SHARE_SAMPLES = 60
"""A share of blocked time that is shown as one number is the mean over this many seconds."""
_SLOTS = SAMPLES + 1
"""One more than is shown: the slot that is being written."""
_SERIAL_MODULUS = 2**32
"""``delivery_count`` is a serial number of 32 bits [2.8.10]."""


@dataclass(frozen=True, slots=True)
class TrackedSeries:
    """The series that are kept for a kind of things. Series are named like the fields from which they come."""

    gauges: tuple[str, ...]
    adaptive: tuple[str, ...] = ()
    """More gauges, of things whose row has a value for the first of these."""
    rates: Mapping[str, str] = field(default_factory=dict)
    """The names of series, with the counters from which they come. A counter may wrap at 2^32."""
    name: str = "identity"
    blocked_by: str | None = None
    """The field with the identity that stalls use; None for kinds that have no stalls."""


KINDS: Mapping[str, TrackedSeries] = MappingProxyType(
    {
        "links": TrackedSeries(
            ("link_credit", "unconfirmed", "waiting", "queue_grant", "unsettled"),
            ("window", "round_trip_ms", "used_per_second", "share_per_second"),
            MappingProxyType({"rate": "delivery_count"}),
            blocked_by="identity",
        ),
        "sessions": TrackedSeries(("incoming_window", "remote_incoming_window", "unsettled_in", "unsettled_out")),
        "channels": TrackedSeries(
            ("unconfirmed", "unacked"), rates=MappingProxyType({"rate": "published"}), blocked_by="connection"
        ),
        "queues": TrackedSeries(
            ("messages_ready", "messages_unacknowledged", "oldest_ready_seconds", "consumers"),
            rates=MappingProxyType({"publish_rate": "published", "deliver_rate": "delivered", "ack_rate": "accepted"}),
            name="name",
        ),
    }
)


class _Track:
    """The series of one thing. ``first`` is the number of its first sample, ``seen`` that of the last one that met it,
    ``filled`` that of the last one with a value."""

    __slots__ = ("counters", "filled", "first", "seen", "series", "tracked")

    def __init__(self, tracked: TrackedSeries, row: Snapshot, first: int) -> None:
        names = [name for name in tracked.gauges if name in row]
        if tracked.adaptive and row.get(tracked.adaptive[0]) is not None:
            names += tracked.adaptive
        names += [name for name, counter in tracked.rates.items() if counter in row]
        if tracked.blocked_by is not None:
            names.append("blocked")
        empty = array("d", [nan]) * _SLOTS
        self.series = {name: array("d", empty) for name in names}
        self.counters: dict[str, int] = {}
        self.tracked = tracked
        self.first = first
        self.seen = first
        self.filled = first

    def fill(self, until: int) -> None:
        """Give the samples that did not meet the thing, up to that one, the values of the last one that did."""
        for number in range(max(self.filled + 1, until - SAMPLES), until):
            slot, before = number % _SLOTS, self.seen % _SLOTS
            for name, values in self.series.items():
                values[slot] = 0.0 if name in self.tracked.rates else values[before]
        self.filled = max(self.filled, until - 1)


class Timelines:
    """All time lines. :meth:`sample` is called once a second."""

    def __init__(
        self,
        *,
        connections: Callable[[], Iterable[str]],
        changed: Callable[[], Iterable[str]],
        rows: Mapping[str, Callable[[Collection[str]], Iterator[Sequence[Snapshot]]]],
        stalls: Callable[[], Iterable[Stall]],
        clock: Callable[[], Now],
        things_max: int,
    ) -> None:
        """``connections`` returns the identities of all connections, with which those of their things begin;
        ``changed`` those of connections that have done something, or have gone, since it was called last. ``rows``
        yields the rows of each kind on some connections, some at a time, always in the same order; queues are on none.
        ``stalls`` yields the current stalls."""
        self._connections = connections
        self._changed = changed
        self._unseen: dict[str, None] = {}
        """Connections that have changed since a sample looked at them."""
        self._blocked: set[str] = set()
        """What had a stall in the last sample."""
        self._full = set(KINDS)
        """The kinds of which some things may have no time lines, because there were too many, or before the first
        sample: when there is room, all connections are looked through."""
        self._rows = rows
        self._stalls = stalls
        self._clock = clock
        self._things_max = things_max
        self._times = array("d", [0.0]) * _SLOTS
        self._taken = 0
        """The number of complete samples."""
        self._last = 0.0
        """Monotonic time of the last sample."""
        self._tracks: dict[str, dict[str, _Track]] = {kind: {} for kind in KINDS}
        self._of: dict[str, dict[str, dict[str, None]]] = {kind: {} for kind in KINDS}
        """Of each kind, the things with time lines by their connection; queues are of the connection ""."""

    def sample(self) -> Iterator[None]:
        """Take one sample; yields where other tasks may run. Only one sample at a time."""
        now = self._clock()
        passed = now.monotonic - self._last
        number = self._taken
        blocked = {stall.who.identity for stall in self._stalls()}
        known, searched = self._next_connections(blocked)
        for kind, rows in self._rows.items():
            connections = {one: None for one in known if one in self._of[kind]}
            if len(self._tracks[kind]) < self._things_max:
                connections |= dict.fromkeys(searched)
            elif searched:
                self._full.add(kind)
            if kind == "queues":
                connections = {"": None}
            yield from self._sample_kind(kind, connections, rows, number=number, passed=passed, blocked=blocked)
        self._times[number % _SLOTS] = now.wall
        self._last = now.monotonic
        self._taken += 1

    def _next_connections(self, blocked: set[str]) -> tuple[list[str], list[str]]:
        """The changed connections whose things have time lines, and those in which this sample looks for new things."""
        unseen = self._unseen
        unseen |= dict.fromkeys(self._changed())
        unseen |= dict.fromkeys(identity.partition("/")[0] for identity in blocked ^ self._blocked)
        self._blocked = blocked
        if room_again := [kind for kind in self._full if len(self._tracks[kind]) < self._things_max]:
            self._full.difference_update(room_again)
            unseen |= dict.fromkeys(self._connections())
        known = [one for one in unseen if any(one in of_kind for of_kind in self._of.values())]
        for one in known:
            del unseen[one]
        searched = list(islice(unseen, CONNECTIONS_SEARCHED))
        for one in searched:
            del unseen[one]
        return known, [*known, *searched]

    def _sample_kind(
        self,
        kind: str,
        connections: Mapping[str, None],
        rows: Callable[[Collection[str]], Iterator[Sequence[Snapshot]]],
        *,
        number: int,
        passed: float,
        blocked: set[str],
    ) -> Iterator[None]:
        tracked, tracks, of_kind = KINDS[kind], self._tracks[kind], self._of[kind]
        met = len(tracks) - sum(len(of_kind.get(one, ())) for one in connections)
        since_pause = 0
        for some in rows(connections):
            for row in some:
                if met >= self._things_max:
                    self._full.add(kind)
                    break
                met += 1
                identity = str(row[tracked.name])
                track = tracks.get(identity)
                if track is None:
                    track = tracks[identity] = _Track(tracked, row, number)
                    of_kind.setdefault(_connection(kind, identity), {})[identity] = None
                _write(track, tracked, row, number=number, passed=passed, blocked=blocked)
            if met >= self._things_max:
                break
            since_pause += 1 + len(some)
            if since_pause >= SLICE_ROWS:
                since_pause = 0
                yield
        for one in connections:
            for identity in [identity for identity in of_kind.get(one, ()) if tracks[identity].seen != number]:
                del tracks[identity], of_kind[one][identity]
            if one in of_kind and not of_kind[one]:
                del of_kind[one]

    # --- for readers -----------------------------------------------------------------------------------------------

    def times_and_series(self, kind: str, identity: str) -> Snapshot | None:
        """The times and series of a thing, the oldest first; None for a thing without time lines (yet)."""
        track = self._tracks.get(kind, {}).get(identity)
        if track is None or track.first >= self._taken:
            return None
        first = max(track.first, self._taken - SAMPLES)
        track.fill(self._taken)
        return {
            "kind": kind,
            "identity": identity,
            "interval": INTERVAL_S,
            "times": self._slots(self._times, first),
            "series": {name: self._slots(values, first) for name, values in track.series.items()},
        }

    def rate(self, kind: str, identity: str) -> float:
        """Messages a second over the last seconds; 0.0 when that is not known."""
        return self._mean(kind, identity, "rate", RATE_SAMPLES)

    def blocked_share(self, kind: str, identity: str) -> float:
        """The share of blocked time in the last minute, from 0.0 to 1.0; 0.0 when that is not known."""
        return self._mean(kind, identity, "blocked", SHARE_SAMPLES)

    def _slots(self, values: Sequence[float], first: int) -> list[float | None]:
        shown = (values[number % _SLOTS] for number in range(first, self._taken))
        return [None if isnan(value) else value for value in shown]

    def _mean(self, kind: str, identity: str, series: str, samples: int) -> float:
        track = self._tracks.get(kind, {}).get(identity)
        values = None if track is None else track.series.get(series)
        if track is None or values is None:
            return 0.0
        track.fill(self._taken)
        known = [value for value in self._slots(values, max(track.first, self._taken - samples)) if value is not None]
        return sum(known) / len(known) if known else 0.0


def _connection(kind: str, identity: str) -> str:
    """The connection of a thing."""
    return "" if kind == "queues" else identity.partition("/")[0]


def _write(
    track: _Track, tracked: TrackedSeries, row: Snapshot, *, number: int, passed: float, blocked: set[str]
) -> None:
    slot = number % _SLOTS
    track.fill(number)
    track.seen = track.filled = number
    series = track.series
    for name in (*tracked.gauges, *tracked.adaptive):
        if name in series:
            series[name][slot] = _number(row.get(name))
    for name, source in tracked.rates.items():
        counter = row.get(source)
        if name in series and isinstance(counter, int):
            before = track.counters.get(name)
            grown = nan if before is None else (counter - before) % _SERIAL_MODULUS
            series[name][slot] = round(grown / passed, 1) if passed > 0.0 else nan
            track.counters[name] = counter
    if tracked.blocked_by is not None:
        series["blocked"][slot] = float(str(row[tracked.blocked_by]) in blocked)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else nan
