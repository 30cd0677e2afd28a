"""How quickly a consumer settles, and so how many messages it gets in its turn among several consumers.

A turn of one message for each of many consumers costs a wake-up and a system call for each message. In a turn of many
messages they wait behind each other, while other consumers are idle. So a consumer gets one message in its turn until
it has shown that a message hardly waits there: it has settled :data:`QUICK_MESSAGES` in a row, each within
:data:`QUICK_SECONDS` after it got it. From then on its turn grows with each message that it settles in this time, and
has at least as many as it would settle in this time at the pace of the last run; at most :data:`TURN_MAX`. So a
consumer that settles at once has the longest turn after two or three runs more, where growth alone took nine. If it
holds messages for longer its turn ends, and it gets one message in each turn until they are settled; then what it has
shown counts for a quarter. A turn may last over several turns of the queue.

The time is measured for one run of deliveries at a time, from the turn of the queue that handed them out to the first
one that finds them settled; it stands for the deliveries since the run that was timed before, too. So a queue that is
seldom busy always hands out one message to each in turn.
"""

QUICK_SECONDS = 0.05
"""The longest time from delivery to settlement that counts as quick: as long as the event loop may be busy. A turn is
at most twice as long as what the consumer has settled in this time, or as long as what it settles in this time at its
pace, so its last message waits for about 0.1 s. With 0.02, a hundred consumers that share two cores with the broker do
not settle quickly enough to get longer turns."""
QUICK_MESSAGES = 4
"""So many messages in a row must be settled quickly before a consumer gets more than one in its turn. Until then each
of its messages has a wake-up and a system call: with 100 consumers and 32, two thirds of the deliveries of the first
two seconds were of one message. With 8 they get the first 10,000 messages, of which 100 come at a time, in 988
deliveries, and with 4 in 571."""
TURN_MAX = 256
"""The most messages in one turn of a consumer: a front end's largest queue grant. A sender in bulk brings about 170 at
once. With 128 they go to 2.2 consumers, and cost 1.3 to 1.45 times as much as if there was a single consumer."""
LATE_DIVIDES = 4
"""A run that is settled late divides what the consumer has shown by this: three such runs in a row take a consumer with
the longest turn back to one message."""


class Pace:
    """The pace of one consumer. Times are monotonic seconds."""

    __slots__ = ("_count", "_given_at", "_judged", "_last", "_quick", "left", "next_turn")

    def __init__(self, last: int = -1) -> None:
        """``last`` is the last delivery number that the consumer got before; -1 for none."""
        self.left = 0
        """How many messages are left of its turn; 0 between two turns."""
        self.next_turn = 1
        """How many messages its next turn has; at least 1."""
        self._quick = 0
        """How many messages were settled quickly in a row."""
        self._last = -1
        """The last delivery number of the run that is being timed; -1 for none."""
        self._judged = last
        """The last delivery number of the run that was timed before."""
        self._given_at = 0.0
        """When the run that is being timed was delivered."""
        self._count = 0
        """How many messages it has."""

    def turn(self, now: float) -> int:
        """How many messages the consumer may get now; at least 1."""
        if self._last >= 0 and now - self._given_at > QUICK_SECONDS:
            self.left = 0
            return 1
        return self.left or self.next_turn

    def gave(self, last: int, now: float, count: int = 1) -> None:
        """The consumer got ``count`` deliveries, up to number ``last``."""
        if self._last < 0:
            self._last, self._given_at, self._count = last, now, count

    def completes(self, last: int) -> bool:
        """Whether a settlement up to delivery number ``last`` ends the run that is being timed. Then :meth:`judge` is
        to be called in the queue's next turn."""
        return 0 <= self._last <= last

    def judge(self, now: float) -> None:
        """The run that was timed has been settled since the queue's last turn."""
        if self._last >= 0:
            took = now - self._given_at
            if took <= QUICK_SECONDS:
                self._quick = min(self._quick + self._last - self._judged, QUICK_MESSAGES + TURN_MAX)
                if self._quick >= QUICK_MESSAGES:
                    in_time = TURN_MAX if took <= 0 else min(TURN_MAX, int(self._count * QUICK_SECONDS / took))
                    self._quick = max(self._quick, QUICK_MESSAGES - 1 + in_time)
            else:
                self._quick //= LATE_DIVIDES
            self.next_turn = max(1, min(self._quick - QUICK_MESSAGES + 1, TURN_MAX))
            self._judged, self._last = self._last, -1
