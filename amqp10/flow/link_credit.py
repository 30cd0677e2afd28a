"""Link credit on both ends of a link, and the queue grant behind a sending end [2.6.7].

One link credit is one message. The receiver decides link-credit and drain; the sender decides delivery-count and
available. A flow *sets* the link credit and never adds to it. Messages may have been sent before the flow arrived, so
the sender corrects the value that it receives:

    link-credit(snd) := delivery-count(rcv) + link-credit(rcv) - delivery-count(snd)

:class:`CreditBalance` counts what became of all link credit that was granted to one end. Three ledgers are exact for
runs of any length:

- :class:`SenderCredit`: our sending end. Invariant: ``link_credit >= 0``, and delivery-count only advances.
- :class:`ReceiverCredit`: our receiving end, with the rule by which a publisher gets more link credit.
- :class:`QueueGrant`: how much of a consumer's link credit the engine holds, in batches, so that the memory behind one
  link is bounded whatever link credit its client gives.

None of them knows a frame, a session or the engine.
"""

from collections.abc import Callable

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.flow.fair_rate import WINDOW_MAX, PublisherWindow
from amqp10.flow.publish_rate import LinkRate
from amqp10.flow.wanted_link_credit import WantedLinkCredit
from amqp10.wire import serial

RATE = "rate"
"""What limits a link that waits for the tokens of a rate."""


class CreditBalance:
    """What became of the link credit of one end, in messages, since the link was attached.

    Invariant: ``left`` is exactly the number of messages that may still be sent on the link.
    """

    __slots__ = ("consumed", "drained", "exceeded", "granted", "withdrawn")

    def __init__(self) -> None:
        self.granted = 0
        self.consumed = 0
        """Sent."""
        self.drained = 0
        """Used up by a sender that had nothing to send."""
        self.withdrawn = 0
        """Taken back by the receiver before it was used."""
        self.exceeded = 0
        """Messages that came without link credit; no other count includes them."""

    @property
    def left(self) -> int:
        """Neither used nor taken back."""
        return self.granted - self.consumed - self.drained - self.withdrawn


class SenderCredit:
    """Flow state of a link on which we send. Counts are messages."""

    __slots__ = ("balance", "delivery_count", "drain", "initial_delivery_count", "link_credit")

    def __init__(self, initial_delivery_count: int = 0) -> None:
        self.initial_delivery_count = initial_delivery_count
        self.delivery_count = initial_delivery_count
        self.link_credit = 0
        self.drain = False
        self.balance = CreditBalance()

    @property
    def room(self) -> int:
        """Messages that may be sent."""
        return self.link_credit

    def flow_received(self, *, delivery_count: int | None, link_credit: int | None, drain: bool) -> None:
        """Take the receiver's numbers.

        A flow without delivery-count was sent before our attach arrived; the initial delivery-count stands for it then.
        A flow without link-credit leaves the link credit as it is [2.7.4].
        """
        self.drain = drain
        if link_credit is None:
            return
        seen = self.initial_delivery_count if delivery_count is None else delivery_count
        # A receiver that claims more messages than were sent would otherwise get a link credit that no uint can hold.
        link_credit = min(serial.MASK, max(0, link_credit + serial.diff(seen, self.delivery_count)))
        if link_credit >= self.link_credit:
            self.balance.granted += link_credit - self.link_credit
        else:
            self.balance.withdrawn += self.link_credit - link_credit
        self.link_credit = link_credit

    def sent(self, n: int) -> None:
        """Count ``n`` messages whose first frame goes out."""
        assert 0 <= n <= self.link_credit
        self.delivery_count = (self.delivery_count + n) & serial.MASK
        self.link_credit -= n
        self.balance.consumed += n

    def drained(self) -> int:
        """Use up the link credit that is left, because no message is available. Returns the advance of
        delivery-count."""
        unused = self.link_credit
        self.delivery_count = serial.advance(self.delivery_count, unused)
        self.link_credit = 0
        self.balance.drained += unused
        return unused


class ReceiverCredit:
    """Flow state of a link on which we receive, and the rule by which the peer gets link credit. Counts are messages.

    The rule: once at most ``top_up_at`` link credit is left, and fewer than ``unconfirmed_limit`` messages wait for the
    engine's answer, the link credit is set to ``maximum``. With 170, 85 and 170 at most 255 messages of one publisher
    are under way in the broker, below the 256 of a queue grant. With ``maximum`` 0 there is no rule, and the user sets
    the link credit. ``ceiling`` limits the link credit whatever the rule says. Link credit above it is taken back;
    messages that the peer may have sent for that link credit are still accepted.

    With a ``window`` there is another rule: the link credit follows the window, which follows distance and queue. With
    ``wanted``, the peer has asked for more: the rule's three numbers depend on the size of its messages. With a
    ``rate``, what either rule grants comes as fast as the rate allows.
    """

    __slots__ = (
        "_clock",
        "available",
        "balance",
        "ceiling",
        "delivery_count",
        "drain",
        "limit",
        "link_credit",
        "margin",
        "maximum",
        "rate",
        "sized",
        "top_up_at",
        "unconfirmed",
        "unconfirmed_limit",
        "unpublished",
        "unsettled_full",
        "wanted",
        "window",
        "withheld",
    )

    def __init__(self, *, maximum: int = 0, top_up_at: int = 0, unconfirmed_limit: int = 0) -> None:
        self.maximum = maximum
        self.top_up_at = top_up_at
        self.unconfirmed_limit = unconfirmed_limit
        self.delivery_count = 0
        self.link_credit = 0
        self.margin = 0
        """Messages that may still come beyond the link credit: the user lowered it, and the sender may not know yet."""
        self.drain = False
        self.balance = CreditBalance()
        self.available = 0
        self.unconfirmed = 0
        self.withheld = False
        """True while something other than the rule (a full queue) forbids more link credit."""
        self.unsettled_full = False
        """True while the peer has to settle deliveries before it gets more link credit."""
        self.ceiling = serial.MASK
        """The most link credit that an operator allows; 0 while the link is paused."""
        self.limit: int | None = None
        """The messages that another node allows in all, beside those that do not reach it; None if none decides."""
        self.unpublished = 0
        """Received messages that do not reach the node that allows them: aborted, or answered here."""
        self.window: PublisherWindow | None = None
        self.wanted: WantedLinkCredit | None = None
        self.sized: PublisherWindow | WantedLinkCredit | None = None
        """The window, or what is wanted: it needs the bytes that come, and room for its link credit in the session's
        window."""
        self.rate: LinkRate | None = None
        self._clock: Callable[[], float] = float

    @property
    def room(self) -> int:
        """Messages that may come without breaking a rule."""
        return self.link_credit + self.margin

    @property
    def held_back_by(self) -> str:
        """What is limited by the rate for whose tokens the link waits; "" if it waits for none."""
        bucket = None if self.rate is None else self.rate.held_back_by
        return "" if bucket is None else bucket.name

    def limited_by(self, now: float | None = None) -> str | None:
        """What limits the peer at a time, without ``now`` in the present turn: :data:`RATE` or a :class:`WindowLimit`;
        None if that is not known, because the link credit is fixed."""
        if self.held_back_by:
            return RATE
        if self.window is None:
            return None
        return self.window.limited_by(self.most, self._clock() if now is None else now).value

    @property
    def most(self) -> int:
        """The most link credit that the peer gets."""
        most = min(self.maximum, self.ceiling)
        if self.wanted is not None:
            return min(most, self.wanted.most)
        return most if self.window is None else min(most, WINDOW_MAX)

    def received(self, n: int) -> None:
        """Count ``n`` whole messages. Raises LinkFault transfer-limit-exceeded when the link credit does not cover
        them."""
        if n > self.link_credit + self.margin:
            self.balance.exceeded += n
            raise LinkFault(
                ErrorCondition.TRANSFER_LIMIT_EXCEEDED,
                f"{n} message(s) received with a link-credit of {self.link_credit}; wait for a flow that grants more",
            )
        if n <= self.link_credit:
            self.delivery_count = (self.delivery_count + n) & serial.MASK
            self.link_credit -= n
        else:
            self._use(n)
        self.balance.consumed += n
        self.unconfirmed += n

    def confirmed(self, n: int) -> None:
        """The engine has answered for ``n`` messages."""
        self.unconfirmed -= n
        assert self.unconfirmed >= 0

    def refill(self) -> bool:
        """Apply the rule. True: announce the new link credit with a flow.

        Messages come in runs, but the rule is about single messages. Where too many are unconfirmed now, the state at
        the moment when the link credit came down to ``top_up_at`` counts; the messages since then use the new link
        credit.
        """
        if self.window is not None:
            return self._follow(self.window)
        if self.limit is not None:
            return self._give_back(self.allowed(self.limit))
        if self.wanted is not None and self.link_credit <= self.top_up_at:
            self._top_up_wanted(self.wanted)
        maximum, top_up_at = self.maximum, self.top_up_at
        if self.wanted is not None:
            maximum = min(maximum, self.wanted.most)
        if self.ceiling < serial.MASK:
            if self.link_credit > self.ceiling:
                self.grant(self.ceiling, drain=self.drain)
                return True
            maximum = min(maximum, self.ceiling)
            top_up_at = min(top_up_at, maximum // 2)
        if self.link_credit > top_up_at or self.withheld or self.unsettled_full or self.link_credit >= maximum:
            return False
        since = 0 if self.unconfirmed < self.unconfirmed_limit else top_up_at - self.link_credit
        if self.unconfirmed - since >= self.unconfirmed_limit:
            return False
        if self.rate is not None:
            return self._grant_within(self.rate, maximum - since)
        self.grant(maximum - since, drain=self.drain)
        return True

    def allowed(self, limit: int) -> int:
        """The link credit under a limit that another node has set."""
        return min(self.ceiling, max(0, limit + self.unpublished - self.balance.consumed))

    def _give_back(self, allowed: int) -> bool:
        """Grant anew what messages have used that did not reach the other node, once half of all is used."""
        if self.link_credit * 2 > allowed or self.link_credit == allowed:
            return False
        self.grant(allowed, drain=self.drain)
        return True

    def limit_rate(self, rate: LinkRate | None, clock: Callable[[], float]) -> None:
        """Grant as fast as a rate allows from now on; None removes the limit. ``clock`` as for :meth:`follow`."""
        if self.rate is not None:
            self.rate.close()
        self.rate = rate
        self._clock = clock

    def follow(self, window: PublisherWindow, clock: Callable[[], float]) -> None:
        """Let the link credit follow a window from now on. ``clock`` has the time of the present turn, in seconds."""
        self.window = self.sized = window
        self._clock = clock

    def want(self, wanted: WantedLinkCredit) -> None:
        """Give the peer up to ``maximum`` from now on, as far as its messages are small."""
        self.wanted = self.sized = wanted
        self._top_up_wanted(wanted)

    def _top_up_wanted(self, wanted: WantedLinkCredit) -> None:
        wanted.top_up(self.maximum, self.balance.consumed)
        self.top_up_at, self.unconfirmed_limit = wanted.most // 2, wanted.unconfirmed_limit

    def succeed(self, before: "ReceiverCredit") -> None:
        """Go on where another rule has ended. The link credit that it has given is taken back; what comes for it all
        the same is accepted. What came so far counts as seen by this rule, and as not come to another node."""
        self.delivery_count, self.available, self.balance = before.delivery_count, before.available, before.balance
        self.ceiling, self.margin = before.ceiling, before.room
        self.unconfirmed, self.unsettled_full = before.unconfirmed, before.unsettled_full
        self.unpublished = self.balance.consumed
        if self.wanted is not None:
            self.wanted.skip(self.balance.consumed)
        if self.window is not None:
            received = self.balance.consumed + self.balance.drained
            self.window.skip(received)
            self.window.take_back(self.window.size, received)

    def close(self) -> None:
        """The link is gone."""
        if self.window is not None:
            self.window.close(self._clock())
        if self.wanted is not None:
            self.wanted.close()
        if self.rate is not None:
            self.rate.close()

    def _follow(self, window: PublisherWindow) -> bool:
        """Show the window what came and was confirmed, and grant what it allows. True: announce it with a flow."""
        received = self.balance.consumed + self.balance.drained
        if self.link_credit > self.ceiling:
            self.grant(self.ceiling, drain=self.drain)
            window.take_back(self.ceiling, received)
            return True
        most = 0 if self.withheld or self.unsettled_full else self.most
        window.look(received, received - self.unconfirmed, self._clock(), most)
        if not most or window.limit - received <= self.link_credit:
            return False
        if self.rate is not None:
            granted = self._grant_within(self.rate, window.limit - received)
            if self.link_credit < window.limit - received:
                window.interrupt(self.rate.flow)
            return granted
        self.grant(window.limit - received, drain=self.drain)
        return True

    def _grant_within(self, rate: LinkRate, link_credit: int) -> bool:
        """Set the link credit as high as the rate allows now. True: announce it with a flow."""
        more = rate.take(link_credit - self.link_credit, self.room, self._clock())
        if more:
            self.grant(self.link_credit + more, drain=self.drain)
        return more > 0

    def grant(self, link_credit: int, *, drain: bool = False) -> None:
        """Set the link credit on behalf of the user. Messages that an earlier, higher one allowed are still
        accepted."""
        assert 0 <= link_credit <= serial.MASK
        self.balance.granted += max(0, link_credit - self.room)
        self.margin = max(0, self.room - link_credit)
        self.link_credit = link_credit
        self.drain = drain

    def flow_received(self, *, delivery_count: int | None, available: int | None) -> int:
        """Take the sender's numbers. Returns how much link credit it used up by advancing its delivery-count."""
        if available is not None:
            self.available = available
        if delivery_count is None:
            return 0
        advanced = serial.diff(delivery_count, self.delivery_count)
        if not 0 < advanced <= self.room:
            return 0  # behind: the flow crossed our grant; beyond: more than was granted, so there is nothing to take
        self._use(advanced)
        self.balance.drained += advanced
        if self.window is not None:
            self.window.skip(advanced)
        return advanced

    def _use(self, n: int) -> None:
        """Use up ``n`` of what was granted: first the link credit, then the margin."""
        self.delivery_count = (self.delivery_count + n) & serial.MASK
        if n <= self.link_credit:
            self.link_credit -= n
            return
        self.margin -= n - self.link_credit
        self.link_credit = 0


class QueueGrant:
    """How much of a consumer's link credit the engine holds, and what it has delivered for it. Counts are messages.

    ``outstanding`` is granted, and its delivery by the engine is not counted yet; ``waiting`` is counted and not yet
    begun on the wire. The engine gets at most ``batch`` at a time, and the next batch only when nothing is outstanding
    and nothing waits. While a request is unanswered, only the newest later one is kept. ``untaken`` messages are
    delivered by the engine, and :meth:`delivered` will count them: they are outstanding, but a new grant, which
    replaces what the engine still holds, does not bring them again. Invariant: ``outstanding + waiting <= batch``.
    """

    __slots__ = ("batch", "outstanding", "requested", "stashed", "waiting")

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.outstanding = 0
        self.waiting = 0
        self.requested = False
        """A request for a grant is unanswered."""
        self.stashed = False
        """The link credit changed while a request was unanswered."""

    def request(self, link_credit: int, untaken: int = 0) -> int | None:
        """The link credit was set. Returns the grant to give the engine now, or None while a request is unanswered."""
        if self.requested:
            self.stashed = True
            return None
        return self._grant(link_credit, untaken)

    def delivered(self, n: int) -> None:
        """The engine delivered ``n`` messages."""
        self.outstanding -= n
        self.waiting += n
        assert self.outstanding >= 0

    def lost(self) -> None:
        """The engine holds nothing of the link credit any more, and answers no request."""
        self.outstanding, self.requested, self.stashed = 0, False, False

    def begun(self, n: int) -> None:
        """``n`` waiting messages left: their first frame went out, or they go back to their queue."""
        self.waiting -= n
        assert self.waiting >= 0

    def replied(self, drained: int, link_credit: int, untaken: int = 0) -> int | None:
        """The engine answered. Returns the grant to give it now if the link credit changed meanwhile, else None."""
        assert self.requested
        self.requested = False
        self.outstanding -= drained
        assert self.outstanding >= 0
        if not self.stashed:
            return None
        return self._grant(link_credit, untaken)

    def next_batch(self, link_credit: int) -> int | None:
        """The next batch, once the previous one is used up; None while it is not, or without link credit."""
        if self.requested or self.outstanding or self.waiting or link_credit == 0:
            return None
        return self._grant(link_credit, 0)

    def _grant(self, link_credit: int, untaken: int) -> int:
        self.stashed = False
        self.requested = True
        granted = max(0, min(link_credit, self.batch) - self.waiting - untaken)
        self.outstanding = granted + untaken
        return granted
