"""Link credit for publishers that follows distance and queue: one rate for each target, a window for each link.

A fixed link credit is too small for a distant publisher, which waits most of the time for the next flow, and too large
for many near ones, whose messages then wait in the queue for their confirms. The broker is where the messages queue up,
so it need not guess as a network does: it sees how long messages wait, how many it confirms in a second, and who sends
them.

:class:`FairRate` belongs to one target. It has one number, the messages a second that each link may send: the level at
which the queue is busy and yet nearly empty. :class:`PublisherWindow` belongs to one link. Its window is that rate
times the time between a flow and the confirms of the messages that it allowed: the round trip, and the time that a
confirm may take. So links at any distance get the same rate, and the sum of all windows is what the queue can take,
whatever the number of links.

- A link measures its round trip without asking: a flow raises its limit, and the first message beyond the old limit
  comes a round trip later, or more. The least of the last rounds counts.
- A link that uses less than its share gets a window of twice its use, so the others get the rest.
- A target with less than one message for each link and round grants them in turn, one message each.
- A limit that was granted never goes down. A window shrinks by not being topped up, because a sender may have used the
  old limit already.

Both know no frame, no session and no clock. Times are in seconds, of any clock that does not go back; sizes are in
messages.
"""

from collections import deque
from collections.abc import Callable

WINDOW_MAX = 65_536
"""Messages of one link: enough for 600,000 messages a second over a round trip of 100 ms."""
WINDOW_START = 170
"""Messages before the first confirm, as with fixed link credit."""
START_UNCONFIRMED_MAX = 1024
"""Messages that all new links of a target may have sent before their first confirm, but for one of each: a queue that
confirms 1,000 messages a second works them off in a second. Each new link gets a sixth of what is left, so the first
one gets 170."""
START_SHARE = 6
WAIT_MIN = 0.002
"""Seconds that messages may wait in the queue although it could be empty: a few turns of an event loop. Less starves
the queue between two flows, more is felt."""
WAIT_SHARE = 1.25
"""The same as a multiple of the least time that a confirm takes. Where confirms wait for a disk, messages arrive during
one sync and are confirmed by the next, so they wait up to two syncs in a queue that is not busy."""
PERIOD_MIN = 0.001
PERIOD_ROUNDS = 1.25
"""A new rate shows in the queue after one round trip and one confirm; the rest is a margin for jitter."""
PROBE_MIN = 1.05
PROBE_GROWTH = 1.5
"""Growth of the rate in a period in which the queue was nearly empty, and the growth of that growth from one such
period to the next, up to doubling. A queue that became faster is found in nine periods, and a steady one is overshot by
a twentieth."""
RATE_MAX = 1e7
"""Messages a second above which a rate limits no link."""
CONFIRM_SECONDS = 10.0
"""How long the least time of a confirm counts."""
CAPACITY_SECONDS = 3.0
"""How long the highest rate of confirms counts, as what the queue can do."""
ROUNDS = 32
"""The rounds whose shortest counts as the round trip."""
TOP_UP_SHARE = 8
"""A flow is sent when an eighth of the window is free: often enough that messages arrive spread over the round."""


class FairRate:
    """The messages a second that each publisher's link may send to one target."""

    __slots__ = (
        "_active",
        "_capacity",
        "_confirmed",
        "_least",
        "_limited",
        "_owed",
        "_period",
        "_period_end",
        "_period_start",
        "_probe",
        "_round_trips",
        "_shortest",
        "_starting",
        "_turns",
        "_waiting",
        "confirm",
        "rate",
        "wait_now",
    )

    def __init__(self) -> None:
        self.rate = float("inf")
        """Messages a second for each link. Infinite while the queue was never busy."""
        self.confirm = 0.0
        """The least time of a confirm in the last seconds."""
        self.wait_now = 0.0
        """The least time of a confirm in the last period: what exceeds ``confirm`` is a queue that does not get
        empty."""
        self._shortest = Windowed(min, CONFIRM_SECONDS)
        self._capacity = Windowed(max, CAPACITY_SECONDS)
        self._probe = PROBE_MIN
        self._starting = 0
        self._waiting: deque[PublisherWindow] = deque()
        self._turns = 1.0
        """Links whose turn comes for each message that is confirmed."""
        self._owed = 0.0
        """Links whose turn has come; a fraction is kept for the next confirms."""
        self._period = 0
        self._period_start = self._period_end = self._round_trips = 0.0
        self._confirmed = self._limited = self._active = 0
        self._least = float("inf")

    @property
    def allowance(self) -> float:
        """Seconds that messages may wait beyond the time of a confirm."""
        return max(WAIT_MIN, WAIT_SHARE * self.confirm)

    @property
    def target(self) -> float:
        """Seconds from the arrival of a message to its confirm that the rate aims at."""
        return self.confirm + self.allowance

    def start(self) -> int:
        """Return the window of a new link."""
        share = min(WINDOW_START, (START_UNCONFIRMED_MAX - self._starting) // START_SHARE)
        if self.rate < RATE_MAX:
            share = min(share, int(self.rate * self.target))
        self._starting += max(1, share)
        return max(1, share)

    def started(self, window: int) -> None:
        """A link that :meth:`start` gave this window has its first confirm, or is gone."""
        self._starting -= window

    def wait(self, link: "PublisherWindow") -> None:
        """A link waits for its turn to send one message."""
        self._waiting.append(link)

    def confirmed(self, link: "PublisherWindow", messages: int, age: float) -> None:
        """``messages`` of a link were confirmed, ``age`` seconds after the oldest of them came."""
        self._confirmed += messages
        self._round_trips += messages * link.round_trip
        if link.limited:
            self._limited += messages
        if self._waiting:
            self._owed += messages * self._turns
        if link.period != self._period:
            link.period = self._period
            self._active += 1
        self._least = min(self._least, age)

    def turn(self, now: float, *, unconfirmed: int) -> "list[PublisherWindow]":
        """Adjust the rate if a period is over. Returns the links whose turn to send a message has come.

        To be called after confirms. ``unconfirmed`` is of all links of the target: with none, no confirm would come to
        call a link.
        """
        called = self._call(unconfirmed)
        if self._confirmed and now >= self._period_end:
            self._adjust(now)
        return called

    def _call(self, unconfirmed: int) -> "list[PublisherWindow]":
        called: list[PublisherWindow] = []
        count = max(int(self._owed), int(unconfirmed == 0))
        while self._waiting and len(called) < count:
            link = self._waiting.popleft()
            if not link.closed:
                called.append(link)
        self._owed = max(0.0, self._owed - len(called)) if self._waiting else 0.0
        return called

    def _adjust(self, now: float) -> None:
        """End a period: see how the queue was in it, and set the rate for the next."""
        round_trip = self._round_trips / self._confirmed
        confirms = self._confirmed / max(now - self._period_start, PERIOD_MIN)
        self.wait_now = self._least
        self.confirm = self._shortest.add(now, self._least)
        capacity = self._capacity.add(now, confirms)
        # With windows of rate * (round trip + target), messages wait for ``target`` if the rate is right. So this is
        # the factor to the right rate.
        factor = (round_trip + self.target) / (round_trip + self.wait_now)
        if self.wait_now > self.target:
            share = confirms / self._active
            self.rate = share if self.rate > RATE_MAX else max(0.7 * share, self.rate * max(0.5, factor))
            self._probe = PROBE_MIN
        elif self.wait_now > self.confirm + self.allowance / 2:
            self._probe = PROBE_MIN
        elif 2 * self._limited > self._confirmed:
            self._raise(confirms, capacity)
        base = round_trip + self.target
        if self._waiting or self.rate * base < 1:
            self.rate = max(self.rate, 0.999 / base)
            self._turns = 0.0 if self.wait_now > 8 * self.target else min(2.0, max(0.5, factor))
            if not self._waiting and self.wait_now < self.target / 2:
                self.rate = 2 / base
        self._begin_period(now, base)

    def _raise(self, confirms: float, capacity: float) -> None:
        """The links wait for flows while the queue is nearly empty."""
        if confirms < 0.9 * capacity:
            self.rate *= min(2.0, capacity / confirms)
            return
        self.rate *= self._probe
        self._probe = min(2.0, 1 + (self._probe - 1) * PROBE_GROWTH)
        if self.rate > RATE_MAX:
            self.rate = float("inf")

    def _begin_period(self, now: float, base: float) -> None:
        self._period += 1
        self._period_start = now
        self._period_end = now + max(PERIOD_MIN, PERIOD_ROUNDS * base)
        self._confirmed = self._limited = self._active = 0
        self._round_trips = 0.0
        self._least = float("inf")


class PublisherWindow:
    """The messages of one publisher's link that may be under way: link credit that it has not used, and unconfirmed."""

    __slots__ = (
        "_confirmed",
        "_fair",
        "_limit",
        "_limit_before",
        "_mark",
        "_raised_at",
        "_received",
        "_round_trips",
        "_started_with",
        "_use",
        "_waits",
        "closed",
        "limited",
        "period",
        "round_trip",
        "size",
    )

    def __init__(self, fair: FairRate, now: float) -> None:
        """``now`` is when the first flow leaves: the window that it grants is ``size``."""
        self._fair = fair
        self._received = self._confirmed = 0
        self.size = self._limit = self._started_with = fair.start()
        self.round_trip = 0.0
        """The shortest of the last rounds, in seconds; 0 before the first."""
        self.limited = True
        """Whether the last round was not much longer than it must be: the publisher waited for the flow."""
        self.period = 0
        """The last period of the target in which a message of this link was confirmed."""
        self._use = 0.0
        """Messages a second that were confirmed in the last round; 0 before the second."""
        self._round_trips: deque[float] = deque(maxlen=ROUNDS)
        self._limit_before: int | None = 0
        self._raised_at = now
        self._mark = now, 0
        self._waits = False
        self.closed = False

    @property
    def unconfirmed(self) -> int:
        """Messages without an outcome."""
        return self._received - self._confirmed

    @property
    def link_credit(self) -> int:
        """Messages that may still come."""
        return self._limit - self._received

    def received(self, messages: int, now: float) -> None:
        """Messages came. Those beyond the limit before the last flow end a round."""
        self._received += messages
        if self._limit_before is not None and self._received > self._limit_before:
            self._end_round(now)

    def confirmed(self, messages: int, age: float) -> None:
        """Messages got their outcome, ``age`` seconds after the oldest of them came."""
        if self._started_with:
            self._fair.started(self._started_with)
            self._started_with = 0
        self._confirmed += messages
        self._fair.confirmed(self, messages, age)

    def close(self) -> None:
        """The link is gone, and with it its place in the turns."""
        self.closed = True
        if self._started_with:
            self._fair.started(self._started_with)
            self._started_with = 0

    def called(self, now: float) -> int:
        """The link's turn has come: return the link credit to grant."""
        self._waits = False
        self.size = 1
        return self._grant(1, now)

    def top_up(self, now: float) -> int:
        """Return the link credit to grant now, beyond what was granted; 0 for no flow."""
        if self._waits:
            return 0
        wanted = self._wanted()
        if wanted < 1:
            if not self.link_credit and not self.unconfirmed:
                self._waits = True
                self._fair.wait(self)
            return 0
        self.size = min(WINDOW_MAX, int(wanted))
        room = self.size - self.unconfirmed - self.link_credit
        if room < max(1, self.size // TOP_UP_SHARE) and (self.link_credit or room < 1):
            return 0
        return self._grant(room, now)

    def _wanted(self) -> float:
        """The window for the present rate, if the link uses it."""
        base = self.round_trip + self._fair.target
        wanted = self._fair.rate * base
        if not self._use:
            return min(wanted, self.size)
        return min(wanted, max(2 * self._use * base, self.size if self.limited else 0.9 * self.size, 4))

    def _grant(self, messages: int, now: float) -> int:
        if self._limit_before is None:
            self._limit_before = self._limit
            self._raised_at = now
        self._limit += messages
        return messages

    def _end_round(self, now: float) -> None:
        first = self._limit_before == 0
        seconds = now - self._raised_at
        self._round_trips.append(seconds)
        self.round_trip = min(self._round_trips)
        self.limited = seconds < 1.5 * (self.round_trip + self._fair.wait_now) + PERIOD_MIN
        marked_at, confirmed = self._mark
        if not first and now > marked_at:
            self._use = (self._confirmed - confirmed) / (now - marked_at)
        self._mark = now, self._confirmed
        self._limit_before = None


class Windowed:
    """The least or the most of what was added within about ``seconds``: of the present and of the last half of them."""

    __slots__ = ("_best", "_half", "_halves", "_last", "_now")

    def __init__(self, best: Callable[[float, float], float], seconds: float) -> None:
        self._best = best
        self._half = seconds / 2
        self._halves = -2.0
        """The present half, counted from time 0."""
        self._last = self._now = 0.0

    def add(self, now: float, value: float) -> float:
        """Add a value; return the best of those that count."""
        passed = now // self._half - self._halves
        if passed:
            self._last = self._now if passed == 1 else value
            self._now = value
            self._halves += passed
        self._now = self._best(self._now, value)
        return self._best(self._last, self._now)
