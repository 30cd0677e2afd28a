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
  comes a round trip later, or more. The least counts. A queue that stays in sockets would raise the least of recent
  rounds, and with it the window and the queue, without end. So a longer round trip is believed only if a round says so
  that began when the link had no link credit left, and so nothing under way.
- A link that uses less than its share gets a window of twice its use, so the others get the rest.
- A target with less than one message for each link and round grants them in turn, one message each.
- A link of weight ``n`` gets ``n`` times the rate of a link of weight 1, and ``n`` messages in its turn.
- A limit that was granted never goes down. A window shrinks by not being topped up, because a sender may have used the
  old limit already.

Both know no frame, no session and no clock. Times are in seconds, of any clock that does not go back; sizes are in
messages. A window is told counts, not messages: :meth:`PublisherWindow.look` is called once for all that came or was
confirmed in one turn of the event loop.
"""

from collections import deque
from collections.abc import Callable
from math import inf

from amqp10.flow.byte_budget import BudgetOf, ByteBudget
from amqp10.flow.confirm_time import ConfirmTime
from amqp10.flow.window_limit import WindowLimit
from amqp10.flow.windowed import Windowed

WINDOW_MAX = 65_536
"""Messages of one link: enough for 600,000 messages a second over a round trip of 100 ms."""
WINDOW_START = 170
"""Messages before the first confirm, as with fixed link credit."""
START_UNCONFIRMED_MAX = 1024
"""Messages that all new links of a target may have sent before their first confirm, but for one of each: a queue that
confirms 1,000 messages a second works them off in a second. Each new link gets a sixth of what is left, so the first
one gets 170."""
START_SHARE = 6
PERIOD_MIN = 0.001
PERIOD_ROUNDS = 1.25
"""A new rate shows in the queue after one round trip and one confirm; the rest is a margin for jitter."""
PROBE_MIN = 1.05
PROBE_GROWTH = 1.5
"""Growth of the rate in a period in which the queue was nearly empty, and the growth of that growth from one such
period to the next, up to doubling. A queue that became faster is found in nine periods, and a steady one is overshot by
a twentieth."""
ROOM_GROWTH, ROOM_MAX = 1.25, 4.0
"""Where links take turns: growth of the messages under way in a period in which the queue was nearly empty, and how
many times as many as are confirmed meanwhile there may be."""
RATE_MAX = 1e7
"""Messages a second above which a rate limits no link."""
CAPACITY_SECONDS = 3.0
"""How long the highest rate of confirms counts, as what the queue can do."""
ROUND_TRIP_SECONDS = 10.0
"""How long the round trip stays believed although all rounds take longer. Then the link gets no link credit until it
has none left, once, and the round that begins so shows whether the way has become longer."""
ROUND_TRIP_MAX = 1.0
"""Seconds. A longer round is a publisher that has nothing to send."""
STAMPS_MAX = 64
"""Turns of the event loop with unconfirmed messages of one link that are told apart."""
TOP_UP_SHARE = 8
"""A flow is sent when an eighth of the window is free: often enough that messages arrive spread over the round."""
TOP_UP_MIN = 64
"""But at least so many messages, if they are not more than half of the window: a flow costs as much as three small
messages."""


class Turn:
    """A link may send some messages, because its turn has come. ``link`` is None when they are here, or are not awaited
    any more; so what is over holds no link, and ends no later turn of it."""

    __slots__ = ("ends_at", "link", "messages")

    def __init__(self, ends_at: float, link: "PublisherWindow", messages: int) -> None:
        self.ends_at = ends_at
        self.link: PublisherWindow | None = link
        self.messages = messages


class FairRate:
    """The messages a second that each publisher's link may send to one target."""

    __slots__ = (
        "__weakref__",
        "_active",
        "_active_before",
        "_alarm_at",
        "_called",
        "_capacity",
        "_confirmed",
        "_least",
        "_limited",
        "_period_end",
        "_period_start",
        "_probe",
        "_room",
        "_round_trips",
        "_starting",
        "_waiting",
        "awaited",
        "confirms",
        "period",
        "rate",
        "unconfirmed",
    )

    def __init__(self) -> None:
        self.rate = inf
        """Messages a second for each link. Infinite while the queue was never busy."""
        self.confirms = ConfirmTime()
        self._capacity = Windowed(max, CAPACITY_SECONDS)
        self._probe = PROBE_MIN
        self._starting = 0
        self._waiting: deque[PublisherWindow] = deque()
        self.unconfirmed = 0
        """Messages of all links. While there is one, a turn will come."""
        self._room = 1.0
        """Messages that may be under way while links take turns."""
        self._called: deque[Turn] = deque()
        """Turns of links, and when their messages have to be here; links without any cannot say so."""
        self._alarm_at = 0.0
        """When a link has asked for a turn."""
        self.awaited = 0
        """Messages of called links that are not here, and may come still."""
        self.period = 0  # how many periods are over; with each, the rate may be another one
        self._period_start = self._period_end = self._round_trips = 0.0
        self._confirmed = self._limited = self._active = self._active_before = 0
        """In this period: messages, those of links that waited for flows, and the weight of all links with messages."""
        self._least = inf

    def start(self) -> int:
        """Return the window of a new link."""
        share = min(WINDOW_START, (START_UNCONFIRMED_MAX - self._starting) // START_SHARE)
        if self.rate < RATE_MAX:
            share = min(share, int(self.rate * self.confirms.target))
        self._starting += max(1, share)
        return max(1, share)

    def closed(self, now: float) -> None:
        """A link is gone, which may have asked for a turn."""
        self._alarm_at = now
        self.turn(now)

    def started(self, window: int) -> None:
        """A link that :meth:`start` gave this window has its first confirm, or is gone."""
        self._starting -= window

    def wait(self, link: "PublisherWindow") -> None:
        """A link waits for its turn to send one message."""
        self._waiting.append(link)

    def confirmed(self, link: "PublisherWindow", messages: int, age: float) -> None:
        """``messages`` of a link were confirmed, ``age`` seconds after the oldest of them came."""
        self.unconfirmed -= messages
        self._confirmed += messages
        self._round_trips += messages * link.round_trip
        if link.limited:
            self._limited += messages
        if link.period != self.period:
            link.period = self.period
            self._active += link.weight
        if age < self._least:
            self._least = age

    def due(self, now: float) -> bool:
        """Whether :meth:`turn` has something to do."""
        return now >= self._period_end or bool(self._waiting)

    def turn(self, now: float) -> None:
        """Adjust the rate if a period is over, and call the links whose turn to send a message has come.

        To be called after confirms. If nothing is unconfirmed, no confirm would come to call a link: those that were
        called may have nothing to send, and cannot say so. Then a link that waits asks for a turn when their messages
        should be here. If it cannot, all links are called.
        """
        if self._waiting:
            self._call(now)
        if now >= self._period_end and self._confirmed:
            self._adjust(now)

    def _call(self, now: float) -> None:
        """Call as many links as there is room for their messages."""
        called = self._called
        while called and (called[0].ends_at <= now or called[0].link is None):
            if (link := called.popleft().link) is not None:
                link.no_longer_called()
        self._call_some(int(self._room) - self.unconfirmed - self.awaited, now)
        waiting = self._waiting
        while waiting and waiting[0].closed:
            waiting.popleft()
        if waiting and not self.unconfirmed and now >= self._alarm_at:
            self._alarm_at = max(now + PERIOD_MIN, called[-1].ends_at if called else now)
            if not waiting[0].wake_at(self._alarm_at):
                self._call_some(sum(link.weight for link in waiting), now)

    def _call_some(self, messages: int, now: float) -> None:
        while self._waiting and messages > 0:
            messages -= self._waiting.popleft().called(now)

    def begin_turn(self, link: "PublisherWindow", messages: int, now: float) -> Turn:
        """A link may send so many messages, and they are awaited."""
        turn = Turn(now + 2 * link.round_trip + self.confirms.target, link, messages)
        self._called.append(turn)
        self.awaited += messages
        return turn

    def came(self, turn: Turn, messages: int) -> bool:
        """So many messages came in a turn. Returns whether it is over."""
        here = min(messages, turn.messages)
        turn.messages -= here
        self.awaited -= here
        if not turn.messages:
            turn.link = None
        return turn.link is None

    def end_turn(self, turn: Turn) -> None:
        """Its messages are here, or are not awaited any more."""
        turn.link = None
        self.awaited -= turn.messages

    def _adjust(self, now: float) -> None:
        """End a period: see how the queue was in it, and set the rate for the next."""
        round_trip = self._round_trips / self._confirmed
        confirms = self._confirmed / max(now - self._period_start, PERIOD_MIN)
        capacity = self._capacity.add(now, confirms)
        returned = self.confirms.period(now, self._least, confirms, self.rate)
        if returned is None:
            self._follow(round_trip, confirms, capacity)
        else:
            self.rate = returned
        base = round_trip + self.confirms.target
        if self._waiting or self.rate * base < 1:
            self.rate = max(self.rate, 0.999 / base)
            self._make_room(confirms * base)
            if not self._waiting and self.confirms.now < self.confirms.target / 2:
                self.rate = 2 / base
        self._begin_period(now, round_trip)

    def _follow(self, round_trip: float, confirms: float, capacity: float) -> None:
        """Set the rate for the next period.

        With windows of rate * (round trip + target), messages wait for ``target`` if the rate is right. So the factor
        to the right rate follows from how long they wait.
        """
        times = self.confirms
        if times.is_long:
            factor = (round_trip + times.target) / max(PERIOD_MIN, round_trip + times.now)
            share = confirms / max(self._active, self._active_before)
            self.rate = share if self.rate > RATE_MAX else max(0.7 * share, self.rate * max(0.5, factor))
            self._probe = PROBE_MIN
        elif not times.is_short:
            self._probe = PROBE_MIN
        elif 2 * self._limited > self._confirmed:
            self._raise(confirms, capacity)

    def _make_room(self, confirmed: float) -> None:
        """Set how many messages may be under way while links take turns. ``confirmed`` is what the target confirms in
        the time from a call to a confirm, if messages wait for as long as the rate aims at."""
        least = max(1.0, confirmed)
        if self.confirms.is_long:
            self._room = least
        elif self.confirms.is_short:
            self._room = min(max(least, ROOM_GROWTH * self._room), ROOM_MAX * least)

    def _raise(self, confirms: float, capacity: float) -> None:
        """The links wait for flows while the queue is nearly empty."""
        if confirms < 0.9 * capacity:
            self.rate *= min(2.0, capacity / confirms)
            return
        self.rate *= self._probe
        self._probe = min(2.0, 1 + (self._probe - 1) * PROBE_GROWTH)
        if self.rate > RATE_MAX:
            self.rate = inf

    def _begin_period(self, now: float, round_trip: float) -> None:
        """A rate shows after a round trip and a confirm, however long that takes now."""
        self.period += 1
        # Before a long queue, a period has confirms of some of the links only.
        self._active_before = max(self._active, self._active_before // 2)
        self._period_start = now
        seconds = round_trip + max(self.confirms.target, min(self.confirms.now, 2 * self.confirms.target))
        self._period_end = now + max(PERIOD_MIN, PERIOD_ROUNDS * seconds)
        self._confirmed = self._limited = self._active = 0
        self._round_trips = 0.0
        self._least = inf


class PublisherWindow:
    """The messages of one publisher's link that may be under way: link credit that it has not used, and unconfirmed."""

    __slots__ = (
        "_alarm",
        "_call",
        "_came_before",
        "_clean",
        "_confirmed",
        "_due",
        "_fair",
        "_least_clean",
        "_limit_before",
        "_looked_in",
        "_most",
        "_raised_at",
        "_received",
        "_round",
        "_stamps",
        "_started_with",
        "_sure_at",
        "_turn",
        "_waits",
        "budget",
        "bytes_received",
        "closed",
        "held_by_bytes",
        "held_bytes",
        "limit",
        "limited",
        "message_bytes",
        "period",
        "round_trip",
        "size",
        "use",
        "weight",
    )

    def __init__(
        self,
        fair: FairRate,
        now: float,
        call: Callable[[], None] | None = None,
        budget: ByteBudget | None = None,
        alarm: Callable[[float], None] | None = None,
        most: int = WINDOW_MAX,
    ) -> None:
        """``now`` is when the first flow leaves: the window that it grants is ``size``, at most ``most``. ``call`` is
        called when the limit was raised outside of :meth:`look`, because the link's turn has come. ``budget`` bounds
        the bytes. ``alarm`` is called with a time at which :meth:`FairRate.turn` has to be called."""
        self._fair = fair
        self._call = call
        self._alarm = alarm
        self.budget = budget
        self.bytes_received = 0
        """Bytes that came since ``message_bytes`` was computed; the owner of the window counts them."""
        self.message_bytes = 0.0
        """The size of a message: rises at once to the mean of what came between two flows, and falls by tenths."""
        self.held_bytes = 0
        """What this window takes of its budget."""
        self.held_by_bytes = False  # whether the budget keeps the window smaller than it would be
        self._received = self._confirmed = 0
        self._started_with = fair.start()
        self.size = self.limit = min(self._started_with, most)
        """``limit`` is how many messages the publisher may have sent since the attach. It never goes down, except by
        :meth:`take_back`."""
        self.round_trip = 0.0
        """In seconds; 0 before the first message."""
        self.limited = True
        """Whether the last round was not much longer than it must be: the publisher waited for the flow."""
        self.period = 0
        """The last period of the target in which a message of this link was confirmed."""
        self.use = 0.0
        """Messages a second that were confirmed in the last round; 0 before the second."""
        self._limit_before: int | None = 0
        self._raised_at = now
        self._clean = True
        """The link had no link credit left when the round began."""
        self._least_clean = inf
        self._sure_at = -inf
        """When a round last took about as long as the round trip."""
        self._round = now, 0
        """When the last round ended, and what had been confirmed."""
        self._stamps: list[tuple[int, float]] = []
        """Of unconfirmed messages that came together: the number of the last one, and when."""
        self._waits = False
        self._turn: Turn | None = None
        self.weight = 1
        """How many times the rate of a link of weight 1 it may have."""
        self._most = WINDOW_MAX
        """The largest window that it may have, when it began to wait for its turn."""
        self._due, self._looked_in = 0, -1
        """With so many confirmed, or in another period of the rate with the limit reached, a flow may be due."""
        self._came_before = 0
        """What had been received when ``message_bytes`` was computed."""
        self.closed = False

    @property
    def byte_budget(self) -> BudgetOf | None:
        """Whose budget of bytes keeps the window smaller than it would be; None if none does."""
        if self.budget is None or not self.held_by_bytes:
            return None
        return self.budget.tightest(self.held_bytes)

    @property
    def share(self) -> float:
        """Messages a second that this link may send; infinite while its target was never busy."""
        return self.weight * self._fair.rate

    @property
    def awaited(self) -> int:
        """Messages that it may send because its turn has come, and has not sent."""
        return 0 if self._turn is None else self._turn.messages

    def limited_by(self, most: int, now: float) -> WindowLimit:
        """What keeps the window from being larger, or unused; ``most`` is the largest that it may be."""
        if self.size >= most:
            return WindowLimit.BOUND
        if self.held_by_bytes:
            return WindowLimit.BYTES
        if self._waits or self.size + 1 > self.share * (self.round_trip + self._fair.confirms.target):
            return WindowLimit.QUEUE
        if self.limit <= self._received and self.size <= self._received - self._confirmed:
            return WindowLimit.QUEUE
        since = self._round[0] if self._limit_before is None else self._raised_at
        limited = self.limited and now - since < 2 * self._round_max
        return WindowLimit.DISTANCE if limited else WindowLimit.PUBLISHER

    @property
    def _round_max(self) -> float:
        """Seconds that a round takes at most if the publisher waits for flows."""
        return 1.5 * (self.round_trip + self._fair.confirms.now) + PERIOD_MIN

    def look(self, received: int, confirmed: int, now: float, most: int = WINDOW_MAX) -> None:
        """Take the counts of messages since the attach, and raise the limit if it is due. The window may have ``most``
        messages, with 0 there is no top-up."""
        fair, came, fresh = self._fair, received - self._received, confirmed - self._confirmed
        if came:
            self._received = received
            if self._turn is not None and fair.came(self._turn, came):
                self._turn = None
            fair.unconfirmed += came
            stamps = self._stamps
            if len(stamps) < STAMPS_MAX:
                stamps.append((received, now))
            else:
                stamps[-1] = received, stamps[-1][1]
        if fresh:
            self._confirmed = confirmed
            stamps = self._stamps
            age = now - stamps[0][1]
            while stamps and stamps[0][0] <= confirmed:
                del stamps[0]
            if self._started_with:
                self._end_start()
            fair.confirmed(self, fresh, age)
        if came and self._limit_before is not None and received > self._limit_before:
            self._end_round(now)
        if fresh and fair.due(now):
            fair.turn(now)
        if most and (confirmed >= self._due or (received >= self.limit and self._looked_in != fair.period)):
            self._top_up(now, most)

    def skip(self, messages: int) -> None:
        """The publisher gave back link credit without sending messages."""
        self.no_longer_called()
        self._received += messages
        self._confirmed += messages
        self._came_before += messages
        round_at, confirmed = self._round
        self._round = round_at, confirmed + messages
        for at, (last, came_at) in enumerate(self._stamps):
            self._stamps[at] = last + messages, came_at

    def take_back(self, link_credit: int, received: int) -> None:
        """An operator has taken back link credit, so that only this much is left. What the publisher has sent before it
        knows still comes, beyond the limit."""
        self.no_longer_called()
        self.limit = received + link_credit
        self._limit_before = None
        self._due = 0

    def interrupt(self, flow: int) -> None:
        """A rate limit keeps the publisher from using the limit: the present round says nothing about the way, and use
        says nothing about what it wants. A flow of the rate limit grants ``flow`` messages, so the window is so large:
        else those that were small when they met the rate limit would stay so, and get less than the others."""
        self._limit_before = None
        self.size = max(self.size, flow)

    def close(self, now: float) -> None:
        """The link is gone, and with it its place in the turns."""
        self.closed = True
        self._call = self._alarm = None  # they refer to the link: this breaks the cycle
        self._end_start()
        self.no_longer_called()
        if self.budget is not None:
            self.budget.change(-self.held_bytes)
        self._fair.unconfirmed -= self._received - self._confirmed
        self._fair.closed(now)

    def called(self, now: float) -> int:
        """Its turn has come. Returns how many messages it may send: its weight, within its bounds; 0 if closed."""
        self._waits = False
        if self.closed:
            return 0
        self.size = max(1, min(self.weight, self._most))
        if self.budget is not None:
            self._keep_to(self.budget, max(self.limit, self._received) - self._confirmed)
        if self.limit <= self._received and self._turn is None:
            self._turn = self._fair.begin_turn(self, self.size, now)
            self._raise(self._received + self.size, now)
            if self._call is not None:
                self._call()
        return self.size

    def wake_at(self, time: float) -> bool:
        """Ask for a turn of the target at a time. Returns whether that is possible."""
        if self._alarm is None:
            return False
        self._alarm(time)
        return True

    def no_longer_called(self) -> None:
        """The messages for which its turn had come are here, or are not awaited any more."""
        if self._turn is not None:
            self._fair.end_turn(self._turn)
            self._turn = None

    def _end_start(self) -> None:
        if self._started_with:
            self._fair.started(self._started_with)
            self._started_with = 0

    def _top_up(self, now: float, most: int) -> None:
        if self._waits:
            return
        left, unconfirmed = max(0, self.limit - self._received), self._received - self._confirmed
        if left and now - self._sure_at > ROUND_TRIP_SECONDS and self.use:
            return
        wanted = self._wanted()
        if self._fair.rate * (self.round_trip + self._fair.confirms.target) < 1:
            if not unconfirmed and not left:
                self._waits, self._most = True, most
                self._fair.wait(self)
                self._fair.turn(now)
                return
            wanted = 1.0
        self.size = max(1, min(most, WINDOW_MAX, int(wanted)))
        if self.budget is not None:
            self._keep_to(self.budget, unconfirmed + left)
        step = max(1, min(self.size // 2, max(self.size // TOP_UP_SHARE, TOP_UP_MIN)))
        room = self.size - unconfirmed - left
        if room >= step:
            self._raise(self._received + left + room, now)
        self._due = self.limit - self.size + step
        self._looked_in = self._fair.period

    def _keep_to(self, budget: ByteBudget, under_way: int) -> None:
        """Make the window so small that the budget has room for it. Link credit that was granted keeps its room, up to
        the share of one window: messages may have become larger since, and the link may use none of it."""
        came, self._came_before = self._received - self._came_before, self._received
        if came:
            mean, self.bytes_received = self.bytes_received / came, 0
            self.message_bytes = max(mean, 0.9 * self.message_bytes + 0.1 * mean)
        size = self.message_bytes or 1.0
        most = max(1, int(budget.room(self.held_bytes) / size))
        self.held_by_bytes = most < self.size
        self.size = min(self.size, most)
        held = int(max(self.size, min(under_way, budget.share / size)) * size)
        budget.change(held - self.held_bytes)
        self.held_bytes = held

    def _wanted(self) -> float:
        """The window for the present rate, if the link uses it."""
        base = self.round_trip + self._fair.confirms.target
        wanted = self.weight * self._fair.rate * base
        if not self.use:
            return min(wanted, self.size)
        return min(wanted, max(2 * self.use * base, self.size if self.limited else 0.9 * self.size, 4))

    def _raise(self, limit: int, now: float) -> None:
        if self._limit_before is None:
            self._limit_before = max(self.limit, self._received)
            self._raised_at = now
            self._clean = self.limit <= self._received
        self.limit = limit

    def _end_round(self, now: float) -> None:
        seconds, first = now - self._raised_at, self._limit_before == 0
        self._limit_before = None
        self._looked_in = -1  # its use is another one
        if first:  # from the attach, so it may have waited for the application
            self.round_trip, self._sure_at = min(seconds, ROUND_TRIP_MAX), now
        else:
            self.round_trip = min(seconds, self.round_trip)
        self.limited = seconds < self._round_max
        if self.limited:
            self._sure_at, self._least_clean = now, inf
        elif self._clean:
            self._least_clean = min(self._least_clean, seconds)
        if now - self._sure_at > ROUND_TRIP_SECONDS and self._least_clean < inf:
            self.round_trip = min(self._least_clean, 2 * self.round_trip + PERIOD_MIN, ROUND_TRIP_MAX)
            self._least_clean = inf
        ended_at, confirmed = self._round
        if not first and now > ended_at:
            self.use = (self._confirmed - confirmed) / (now - ended_at)
        self._round = now, self._confirmed
