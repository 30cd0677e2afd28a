"""Rate limits by link credit: a publisher that may send so many messages or bytes a second is granted no more.

No message is refused or dropped. A :class:`TokenBucket` belongs to one rate, and fills with the tokens of that rate:
one for each message, or one for each byte. A link takes tokens when it is granted link credit; what it gives back
unused goes back into the bucket. Sizes are not known in advance. So a link pays for bytes by the size of its last
messages, and the difference when the messages come. A bucket may be in debt by that, and then grants nothing until the
debt is paid.

- A bucket holds the tokens of a quarter second, less what its links hold unused. So this bounds a burst.
- A link may hold half of that, and only one message until it has sent one: many idle links hold little.
- Links that wait for tokens get them in turn. A flow grants at least the tokens of five milliseconds, if as many are
  wanted, because a flow costs as much as three small messages.

:class:`LinkRate` is one link's part in all the rates that limit it: it gets what all of them allow. Both know no frame,
no session and no clock. Times are in seconds, of any clock that does not go back.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from math import inf

BUCKET_SECONDS = 0.25
"""A bucket holds the tokens of so many seconds. In 30 s it adds 0.8 % to what the rate allows; at a round trip of half
of it, a single link still gets the whole rate."""
FLOOR_SHARE = 8
"""An eighth of the bucket fills always, however much its links hold unused: links that have become idle stop no other
one."""
STEP_SECONDS = 0.005
"""A flow grants at least the tokens of so many seconds. It is a fiftieth of the bucket, so that timers may be late."""
ROUNDING = 1e-6
"""Tokens that may be missing because sums of fractions are rounded."""


class TokenBucket:
    """One rate, which several links share: tokens a second, each for one message or one byte."""

    __slots__ = ("_at", "_tokens", "held", "name", "of_bytes", "rate", "size", "step", "waiting")

    def __init__(self, rate: float, now: float, *, name: str = "", of_bytes: bool = False) -> None:
        """The bucket is full at ``now``. ``name`` says what is limited."""
        self.name = name
        self.of_bytes = of_bytes
        self.rate = rate
        self.size = max(1.0, rate * BUCKET_SECONDS)
        self.step = max(1.0, rate * STEP_SECONDS)
        self.held = 0.0
        """Tokens that links have taken for link credit, and not used yet."""
        self.waiting: OrderedDict[LinkRate, None] = OrderedDict()
        """The links that wait for tokens; the first is the next that gets some."""
        self._tokens = self.size
        self._at = now

    def room(self, held: float) -> float:
        """Return the most tokens that the bucket may contain while its links hold ``held`` tokens unused."""
        return max(self.size - held, self.size / FLOOR_SHARE, 1.0)

    def tokens(self, now: float) -> float:
        """Fill the bucket up to ``now``; return what is in it, less than 0 when it is in debt."""
        if now > self._at:
            filled = self._tokens + (now - self._at) * self.rate
            self._tokens = max(self._tokens, min(filled, self.room(self.held)))
            self._at = now
        return self._tokens

    def take(self, tokens: float) -> None:
        """Take tokens, as a rule no more than there are; fewer than 0 give some back."""
        self._tokens = min(self._tokens - tokens, self.size)

    @property
    def first(self) -> "LinkRate | None":
        """The link that gets the next tokens, if one waits."""
        return next(iter(self.waiting), None)

    def leave(self, link: "LinkRate") -> None:
        """A link waits no more. The next one is called if that was the first."""
        was_first = self.first is link
        del self.waiting[link]
        if was_first and (first := self.first) is not None:
            first.call()


class LinkRate:
    """The tokens of one link, in each of the buckets that limit it."""

    __slots__ = (
        "_granted",
        "_held",
        "_message_bytes",
        "_sent",
        "_wait",
        "_wants",
        "buckets",
        "call",
        "due",
        "held_back_by",
    )

    def __init__(self, buckets: Sequence[TokenBucket], call: Callable[[], None], wait: Callable[[float], None]) -> None:
        """``call`` is called when it is this link's turn to :meth:`take` what there is, and ``wait`` with the time at
        which it may try again."""
        assert buckets
        self.call = call
        self._wait = wait
        self.held_back_by: TokenBucket | None = None
        """The bucket in which the link waits for tokens."""
        self.due = inf
        """When to try again to take tokens; infinity if it is not its turn, or if it does not wait."""
        self.buckets = tuple(buckets)
        """The buckets that limit it."""
        self._held = [0.0] * len(self.buckets)
        """Tokens that were taken from each bucket and not used."""
        self._granted = 0
        """Messages for which they were taken."""
        self._message_bytes = 1.0
        self._sent = False
        self._wants = False
        """Whether it has got fewer tokens than it wanted since the last :meth:`looked`."""

    def take(self, wanted: int, left: int, now: float) -> int:
        """Take tokens for at most ``wanted`` messages; return for how many. A link that gets fewer waits for its turn,
        unless it holds enough already.

        ``left`` is the link credit that it has. It gets tokens back for what it gave back without sending.
        """
        if self._granted > left:
            self._settle(self._granted - left)
        wanted = min(wanted, self._may_hold_more())
        if wanted < 1:
            return 0
        granted, short = wanted, None
        for bucket in self.buckets:
            allowed = self._allowed(bucket, granted, now)
            if allowed < granted:
                granted, short = allowed, bucket
            if not granted:
                break
        if granted:
            self.stop_waiting()
            self._granted += granted
            for index, bucket in enumerate(self.buckets):
                tokens = granted * self._cost(bucket)
                bucket.take(tokens)
                bucket.held += tokens
                self._held[index] += tokens
        if short is not None:
            self._wants = True
            self._wait_in(short, wanted - granted, now)
        return granted

    @property
    def flow(self) -> int:
        """The messages that a flow grants if many links wait."""
        return max(1, min(int(bucket.step / self._cost(bucket)) for bucket in self.buckets))

    def arrived(self, messages: int, size: int) -> None:
        """Messages of ``size`` bytes together have come: they cost what they are, not what was taken for them."""
        self._sent = True
        mean = max(1.0, size / messages)
        self._message_bytes = max(mean, 0.9 * self._message_bytes + 0.1 * mean)
        self._settle(messages, size)

    def looked(self) -> None:
        """The rule for link credit has been applied. A link that does not want any now waits for no tokens."""
        if not self._wants:
            self.stop_waiting()
        self._wants = False

    def stop_waiting(self) -> None:
        """Leave the line, until the next :meth:`take`."""
        bucket, self.held_back_by = self.held_back_by, None
        self.due = inf
        if bucket is not None:
            bucket.leave(self)

    def close(self) -> None:
        """The link is gone, or limited by other rates from now on."""
        self._settle(self._granted)
        self.stop_waiting()
        self.call, self._wait = _nothing, _ignored  # they refer to the link: this breaks the cycle

    def _cost(self, bucket: TokenBucket) -> float:
        """The tokens for a message."""
        return self._message_bytes if bucket.of_bytes else 1.0

    def _may_hold_more(self) -> int:
        """Messages that the link may be granted beside its link credit, if there are tokens."""
        if not self._sent:
            return 1 - self._granted
        more = inf
        for bucket, held in zip(self.buckets, self._held, strict=True):
            more = min(more, (bucket.room(bucket.held - held) / 2 - held) / self._cost(bucket))
        return max(int(more + ROUNDING), 1 - self._granted)

    def _allowed(self, bucket: TokenBucket, wanted: int, now: float) -> int:
        """How many messages the bucket allows now, if it is this link's turn."""
        waiting = len(bucket.waiting)
        if waiting and bucket.first is not self:
            return 0
        tokens, cost = bucket.tokens(now), self._cost(bucket)
        if tokens + ROUNDING < self._needed(bucket, wanted):
            return 0
        share = max(bucket.step, tokens / max(1, waiting))
        return min(wanted, max(1, int(share / cost + ROUNDING)))

    def _needed(self, bucket: TokenBucket, wanted: int) -> float:
        """The tokens with which it is granted something."""
        cost = self._cost(bucket)
        return min(max(cost, bucket.step), wanted * cost, bucket.room(bucket.held))

    def _settle(self, messages: int, size: int | None = None) -> None:
        """Let go of the tokens of so many messages. Those that came cost their size; it is None for those that never
        will."""
        share = min(1.0, messages / self._granted) if self._granted else 0.0
        self._granted = max(0, self._granted - messages)
        for index, bucket in enumerate(self.buckets):
            taken = self._held[index] * share
            self._held[index] -= taken
            bucket.held -= taken
            cost = 0 if size is None else size if bucket.of_bytes else messages
            bucket.take(cost - taken)

    def _wait_in(self, bucket: TokenBucket, wanted: int, now: float) -> None:
        """Stand in line for tokens. The first in line may try again when there are enough."""
        if self.held_back_by is not bucket:
            self.stop_waiting()
            self.held_back_by = bucket
            bucket.waiting[self] = None
        if bucket.first is self:
            missing = self._needed(bucket, wanted) - bucket.tokens(now)
            due = now + max(0.0, missing) / bucket.rate
            if due != self.due:
                self.due = due
                self._wait(due)


def _nothing() -> None:
    """Called in place of a link that is gone."""


def _ignored(due: float) -> None:
    """Called in place of its connection."""
