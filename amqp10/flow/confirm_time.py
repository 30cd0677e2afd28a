"""How long the confirm of a message takes, and what of it is a queue.

The time from the arrival of a message to its confirm has two parts: what the confirm takes by itself, for example a
sync, and the wait behind other messages. Shorter windows make the second shorter, and not the first: then they only
leave the target idle. :class:`ConfirmTime` tells the parts apart. It knows the least time that was seen, and sees that
it has become longer when smaller windows cost more than they gain: fewer messages are confirmed, and those take nearly
as long as before.

Times are in seconds, as in :mod:`amqp10.flow.fair_rate`.
"""

from math import inf

WAIT_MIN = 0.002
"""Seconds that messages may wait in the queue although it could be empty: a few turns of an event loop. Less starves
the queue between two flows, more is felt."""
WAIT_SHARE, WAIT_FROM = 4.0, 0.0005
"""The same as a multiple of what a confirm takes at least, beyond half a millisecond. That is a sync of the disk, which
takes a time of its own, and longer with more messages. With messages that wait for as long as five syncs without
others, the disk does four fifths of what it can."""
SHORT_SHARE, SHORT_FROM, SHORT_WAIT = 12.0, 0.001, 0.03
"""The same for a wait of up to 30 ms: with messages that wait for as long as thirteen syncs, the disk does twelve
thirteenths of what it can. With 32 links that send 4 KiB to a quorum queue, adaptive has 0.93 to 0.96 of the rate of
fixed link credit, and 0.86 without this. A confirm of a millisecond may be that of a slow queue, where more wait gains
nothing."""
BELIEVED_SECONDS = 10.0
FALL = 0.7
"""How long a time that has become longer counts, and as what share of itself it counts then: a disk may have become
quicker, which a busy queue does not show. If it has become too short, it is made longer again."""
LONGER = 1.25
"""A time of a confirm is another one if it is so many times as long."""
FEWER = 0.6
"""Confirms a second, as a share of those before the windows became smaller, at which is seen what that was good for.
Two steps of making smaller, of 0.7 each, are enough."""
FULL = 0.9
"""This share of the confirms a second is no fewer: what varies from period to period."""


class ConfirmTime:
    """The least time of a target's confirms, without a queue, by the periods of its fair rate."""

    __slots__ = ("_believed_until", "_confirms", "_rate", "_seen", "_wait", "allowance", "least", "now", "target")

    def __init__(self) -> None:
        self.least = 0.0
        self.allowance = WAIT_MIN
        """Seconds that messages may wait beyond the time of a confirm."""
        self.target = WAIT_MIN
        """Seconds from the arrival of a message to its confirm that the rate aims at."""
        self.now = 0.0
        """The least time in the last period: what exceeds ``least`` is a queue that does not get empty."""
        self._seen = inf
        """The least time that was ever seen."""
        self._believed_until = inf
        self._wait = self._confirms = self._rate = 0.0
        """Of the last period with a queue before the confirms became fewer: time, confirms a second, and the rate."""

    @property
    def is_short(self) -> bool:
        """Whether the queue was nearly empty in the last period."""
        return self.now <= self.least + self.allowance / 2

    @property
    def is_long(self) -> bool:
        """Whether there was a queue."""
        return self.now > self.target

    def period(self, now: float, seconds: float, confirms: float, rate: float) -> float | None:
        """A period is over in which confirms took ``seconds`` at least, and there were ``confirms`` a second; the rate
        was ``rate``. Returns None, or the rate to return to if it has become smaller because of a queue that is
        none."""
        self.now = seconds
        if self._seen == inf:
            self.least = seconds
        self._seen = min(self._seen, seconds)
        if now > self._believed_until:
            self.least = max(self._seen, FALL * self.least)
            self._believed_until = now + BELIEVED_SECONDS
        self._aim(min(self.least, seconds))
        if not self.is_long:
            self._confirms = 0.0
        elif confirms >= FULL * self._confirms or seconds * FULL > self._wait:
            self._wait, self._confirms, self._rate = seconds, confirms, rate
        elif self._fewer_by_rate(confirms, rate) and seconds * self._confirms >= confirms * self._wait:
            without_queue, self._confirms = self._without_queue(seconds, confirms), 0.0
            if without_queue > LONGER * self.least:
                self._aim(without_queue)
                self._believed_until = now + BELIEVED_SECONDS
                return self._rate
        return None

    def _aim(self, least: float) -> None:
        """A confirm takes so long without a queue."""
        self.least = least
        short = min(SHORT_SHARE * (least - SHORT_FROM), SHORT_WAIT)
        self.allowance = max(WAIT_MIN, WAIT_SHARE * (least - WAIT_FROM), short)
        self.target = least + self.allowance

    def _fewer_by_rate(self, confirms: float, rate: float) -> bool:
        """Whether confirms became fewer, and no more so than the windows became smaller: else the target is slower."""
        share = confirms / self._confirms
        return share < FEWER and (self._rate == inf or share >= FULL * rate / self._rate)

    def _without_queue(self, seconds: float, confirms: float) -> float:
        """The time of a confirm without others, from two numbers of messages under way and the time of each: so long,
        and longer with each message."""
        before, after = self._confirms * self._wait, confirms * seconds
        with_each = max(0.0, (self._wait - seconds) / (before - after))
        return seconds - with_each * after
