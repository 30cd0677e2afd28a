"""Rate limits of publishers: which limits hold for a link, and when it may ask for link credit again.

A link is limited by the rates of its target, of its virtual host, of its user, and by that of its connection, which the
configuration sets. All links under one limit share its buckets (:mod:`amqp10.flow.publish_rate`). A connection without
a limited link has no object of this module.

A link that waits for tokens needs a turn of its connection when they are there, although nothing has come from its
peer. So its time is a deadline of the connection. A connection whose socket takes nothing could not send the flow:
its links then let the others go first.
"""

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from weakref import WeakKeyDictionary

from amqp10.flow.link_credit import ReceiverCredit
from amqp10.flow.publish_rate import LinkRate, TokenBucket
from amqp10.protocol.receiver_link import ReceiverLink
from core.publish_limit import PublishLimit

LINKS_PER_TICK = 256
"""Links that get tokens at once: 2 ms of work. The others are due still, and get them in the next tick."""
WAITS_MIN = 64
"""The heap of a connection may have this many entries before entries that are no longer valid are taken out."""

Buckets = tuple[TokenBucket | None, TokenBucket | None]
"""Of messages and of bytes; None for no limit."""


class BrokerRates:
    """The buckets of all limits under which there is a link."""

    __slots__ = ("_shared",)

    def __init__(self) -> None:
        self._shared: WeakKeyDictionary[PublishLimit, Buckets] = WeakKeyDictionary()

    def buckets(self, limit: PublishLimit, now: float) -> list[TokenBucket]:
        """The buckets of a limit as it is now: new ones where a rate has changed."""
        before = self._shared.get(limit, (None, None))
        rates = limit.rates
        shared = (
            _bucket(before[0], rates.messages, limit.name, now, of_bytes=False),
            _bucket(before[1], rates.bytes, limit.name, now, of_bytes=True),
        )
        if any(shared) or any(before):
            self._shared[limit] = shared
        return [bucket for bucket in shared if bucket is not None]


def _bucket(
    before: TokenBucket | None, rate: int | None, name: str, now: float, *, of_bytes: bool
) -> TokenBucket | None:
    if rate is None:
        return None
    if before is not None and before.rate == rate:
        return before
    return TokenBucket(rate, now, name=name, of_bytes=of_bytes)


class ConnectionRates:
    """The rate limits of one connection's links, and which of them wait."""

    __slots__ = ("_clock", "_of_broker", "_order", "_waits_max", "_wake", "waits")

    def __init__(
        self,
        of_broker: BrokerRates,
        wake: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        """``clock`` has the time of the present turn, in seconds."""
        self._of_broker = of_broker
        self._wake = wake
        self._clock = clock
        self.waits: list[tuple[float, int, ReceiverLink]] = []
        """A heap of times at which links may ask again. An entry is not valid when its link has asked meanwhile."""
        self._waits_max = WAITS_MIN
        self._order = count()

    def limit(self, link: ReceiverLink, credit: ReceiverCredit, limits: Sequence[PublishLimit]) -> bool:
        """Let the link credit of a link keep to these limits. Returns whether one of them limits it now."""
        now = self._clock()
        buckets = [bucket for limit in limits for bucket in self._of_broker.buckets(limit, now)]
        if credit.rate is not None and credit.rate.buckets == tuple(buckets):
            return True
        if buckets:
            rate = LinkRate(buckets, partial(self._called, link), partial(self._wait, link))
            credit.limit_rate(rate, self._clock)
        elif credit.rate is not None:
            credit.limit_rate(None, self._clock)
        return bool(buckets)

    @property
    def deadline(self) -> float | None:
        """When a link may ask again; None if none waits for a time."""
        waits = self.waits
        while waits and not _is_valid(waits[0]):
            heappop(waits)
        return waits[0][0] if waits else None

    def tick(self, *, can_send: bool) -> None:
        """Let links ask again whose time has come. If the socket takes nothing, they let the others go first."""
        now = self._clock()
        for _ in range(LINKS_PER_TICK):
            deadline = self.deadline
            if deadline is None or deadline > now:
                return
            link = heappop(self.waits)[2]
            link.channel.refill_later(link)
            if link.credit.rate is not None and not can_send:
                link.credit.rate.stop_waiting()

    def _wait(self, link: ReceiverLink, due: float) -> None:
        """The link may ask again at this time."""
        heappush(self.waits, (due, next(self._order), link))
        if len(self.waits) > self._waits_max:
            self.waits = [wait for wait in self.waits if _is_valid(wait)]
            heapify(self.waits)
            self._waits_max = max(WAITS_MIN, 2 * len(self.waits))

    def _called(self, link: ReceiverLink) -> None:
        """In a turn of another connection it became this link's turn."""
        link.channel.refill_later(link)
        if link.credit.rate is not None:
            link.credit.rate.due = self._clock()
            self._wait(link, link.credit.rate.due)
        self._wake()


def _is_valid(wait: tuple[float, int, ReceiverLink]) -> bool:
    due, _, link = wait
    return link.credit.rate is not None and link.credit.rate.due == due
