"""The three counts of link credit against models that take one message at a time, in numbers that never wrap."""

from collections import deque

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.flow.link_credit import QueueGrant, ReceiverCredit, SenderCredit

CIRCLE = 2**32
HALF = 2**31
initial_counts = st.sampled_from([0, 10, HALF - 5, HALF, CIRCLE - 20, CIRCLE - 1])
link_credits = st.sampled_from([0, 1, 10, 300, HALF - 1, HALF, CIRCLE - 1]) | st.integers(0, 60)
few = st.integers(0, 40)


class SenderCreditMachine(RuleBasedStateMachine):
    """Our sending end, and a receiver that has not seen what is on its way."""

    @initialize(initial=initial_counts)
    def attach(self, initial: int) -> None:
        self.credit = SenderCredit(initial)
        self.initial = initial
        self.sent = 0
        """How many messages were sent or drained so far: the delivery-count without its start and without wraps."""
        self.seen = 0
        """How many of them the receiver has seen."""
        self.may_send = 0
        self.drained_in_all = 0
        self.drain = False

    @rule(n=few)
    def send(self, n: int) -> None:
        n = min(n, self.may_send)
        for _ in range(n):
            self.sent += 1
            self.may_send -= 1
        self.credit.sent(n)

    @rule()
    def send_all_but_one(self) -> None:
        """Send a run of up to four thousand million messages, to go around the circle of serial numbers."""
        n = max(0, self.may_send - 1)
        self.credit.sent(n)
        self.sent += n
        self.may_send -= n
        self.seen = max(self.seen, self.sent - 50)

    @rule(n=few)
    def some_arrive(self, n: int) -> None:
        self.seen = min(self.sent, self.seen + n)

    @rule(link_credit=link_credits, drain=st.booleans())
    def flow(self, link_credit: int, drain: bool) -> None:
        seen = (self.initial + self.seen) % CIRCLE
        self.credit.flow_received(delivery_count=seen, link_credit=link_credit, drain=drain)
        limit = self.seen + link_credit
        self.may_send = max(0, limit - self.sent)
        self.drain = drain

    @precondition(lambda self: self.sent < HALF)
    @rule(link_credit=link_credits)
    def flow_before_our_attach_arrived(self, link_credit: int) -> None:
        self.credit.flow_received(delivery_count=None, link_credit=link_credit, drain=False)
        self.may_send = max(0, link_credit - self.sent)
        self.drain = False

    @rule(drain=st.booleans())
    def flow_without_link_credit(self, drain: bool) -> None:
        self.credit.flow_received(delivery_count=0, link_credit=None, drain=drain)
        self.drain = drain

    @rule()
    def drained(self) -> None:
        """The receiver hears of a drain at once, because its count must not lag by half the circle."""
        assert self.credit.drained() == self.may_send
        self.sent += self.may_send
        self.drained_in_all += self.may_send
        self.may_send = 0
        self.seen = self.sent

    @invariant()
    def agrees(self) -> None:
        assert self.credit.delivery_count == (self.initial + self.sent) % CIRCLE
        assert self.credit.link_credit == self.may_send >= 0
        assert self.credit.drain is self.drain
        balance = self.credit.balance
        assert balance.left == self.credit.room == self.may_send
        assert (balance.consumed, balance.drained) == (self.sent - self.drained_in_all, self.drained_in_all)


class ReceiverCreditMachine(RuleBasedStateMachine):
    """Our receiving end with the rule of a publisher's link, scaled down.

    There are two limits: the one of the newest flow, and the highest of any flow, because the sender may have used that
    one.
    """

    MAXIMUM, TOP_UP_AT, UNCONFIRMED_LIMIT = 17, 8, 17

    @initialize(initial=initial_counts)
    def attach(self, initial: int) -> None:
        self.credit = ReceiverCredit(
            maximum=self.MAXIMUM, top_up_at=self.TOP_UP_AT, unconfirmed_limit=self.UNCONFIRMED_LIMIT
        )
        self.credit.delivery_count = initial
        self.initial = initial
        self.count = self.limit = self.highest_limit = 0
        self.waiting: list[int] = []
        self.available = 0
        self.used_up = self.exceeded = 0
        self.by_rule = True
        self.ceiling, self.bounded = CIRCLE - 1, False

    def _granted(self, link_credit: int) -> None:
        self.limit = self.count + link_credit
        self.highest_limit = max(self.highest_limit, self.limit)

    @property
    def _allowed(self) -> int:
        return max(0, self.limit - self.count)

    @rule(n=few)
    def receive(self, n: int) -> None:
        if self.count + n > self.highest_limit:
            self.exceeded += n
            with pytest.raises(LinkFault) as raised:
                self.credit.received(n)
            assert raised.value.condition == ErrorCondition.TRANSFER_LIMIT_EXCEEDED
            return
        for _ in range(n):
            self.waiting.append(self.count)
            self.count += 1
        self.credit.received(n)

    @rule(n=few)
    def confirm(self, n: int) -> None:
        n = min(n, len(self.waiting))
        del self.waiting[:n]
        self.credit.confirmed(n)

    @rule(withheld=st.booleans())
    def refill(self, withheld: bool) -> None:
        self.credit.withheld = withheld
        if self._allowed > self.ceiling:
            assert self.credit.refill()
            self._granted(self.ceiling)
            return
        maximum = min(self.MAXIMUM, self.ceiling)
        top_up_at = min(self.TOP_UP_AT, maximum // 2)
        since = 0 if len(self.waiting) < self.UNCONFIRMED_LIMIT else top_up_at - self._allowed
        wanted = self._allowed <= top_up_at and self._allowed < maximum
        due = wanted and len(self.waiting) - since < self.UNCONFIRMED_LIMIT and not withheld
        assert self.credit.refill() is due
        if due:
            self._granted(maximum - since)

    @rule(ceiling=st.just(CIRCLE - 1) | st.integers(0, 20))
    def an_operator_bounds_it(self, ceiling: int) -> None:
        self.ceiling = self.credit.ceiling = ceiling
        self.bounded = True

    @rule(link_credit=link_credits, drain=st.booleans())
    def grant_by_hand(self, link_credit: int, drain: bool) -> None:
        self.credit.grant(link_credit, drain=drain)
        self._granted(link_credit)
        self.by_rule = False

    @rule(n=few | st.just(HALF - 1), available=st.none() | few)
    def sender_uses_up_link_credit(self, n: int, available: int | None) -> None:
        """The sender also uses up link credit that has been lowered since, when the flow that lowers it is still on its
        way."""
        n = min(n, self.highest_limit - self.count)
        self.count += n
        self.used_up += n
        self._sender_flow(self.count, available, used_up=n)

    @rule(behind=few, available=st.none() | few)
    def flow_that_our_grant_crossed(self, behind: int, available: int | None) -> None:
        self._sender_flow(self.count - behind, available, used_up=0)

    @precondition(lambda self: self.highest_limit - self.count < HALF - 100)
    @rule(beyond=st.integers(1, 50))
    def flow_that_uses_up_what_was_not_granted(self, beyond: int) -> None:
        self._sender_flow(self.highest_limit + beyond, None, used_up=0)

    @rule(available=few)
    def flow_without_delivery_count(self, available: int) -> None:
        assert self.credit.flow_received(delivery_count=None, available=available) == 0
        self.available = available

    def _sender_flow(self, count: int, available: int | None, *, used_up: int) -> None:
        told = (self.initial + count) % CIRCLE
        assert self.credit.flow_received(delivery_count=told, available=available) == used_up
        self.available = self.available if available is None else available

    @invariant()
    def agrees(self) -> None:
        assert self.credit.delivery_count == (self.initial + self.count) % CIRCLE
        assert self.credit.link_credit == self._allowed
        assert self.credit.room == self.highest_limit - self.count
        assert self.credit.unconfirmed == len(self.waiting)
        assert self.credit.available == self.available
        balance = self.credit.balance
        assert balance.left == self.credit.room
        assert balance.granted == self.highest_limit
        assert (balance.consumed, balance.drained) == (self.count - self.used_up, self.used_up)
        assert (balance.withdrawn, balance.exceeded) == (0, self.exceeded)
        if self.by_rule:
            assert self.bounded or self.credit.room == self._allowed
            assert self._allowed <= self.credit.room <= self.MAXIMUM
            assert len(self.waiting) + self.credit.room < self.UNCONFIRMED_LIMIT + self.MAXIMUM


class QueueGrantMachine(RuleBasedStateMachine):
    """A client, the front end's counts, and an engine that answers late. The limit is what the client has allowed."""

    BATCH = 16

    @initialize()
    def attach(self) -> None:
        self.ledger = QueueGrant(self.BATCH)
        self.link_credit = 0
        self.held = 0
        """The queue grant, as the engine knows it."""
        self.asked_to_drain = False
        self.mailbox: deque[tuple[str, int]] = deque()
        """What the engine said and the front end has not taken yet: deliveries and replies, with their numbers."""
        self.waiting = 0
        self.unanswered = 0
        """Grants to which the engine has not replied yet."""
        self.unheard = False
        """True while the client's newest flow has not reached the engine."""

    @property
    def untaken(self) -> int:
        return sum(n for said, n in self.mailbox if said == "delivered")

    @property
    def reply_due(self) -> bool:
        """Whether the front end still waits for a reply."""
        return self.unanswered > 0 or any(said == "replied" for said, _ in self.mailbox)

    def _grant(self, n: int | None) -> None:
        if n is None:
            return
        assert not self.reply_due, "two grants at once"
        self.held = n
        self.unanswered += 1
        self.unheard = False

    @rule(link_credit=link_credits, drain=st.booleans())
    def client_sets_its_link_credit(self, link_credit: int, drain: bool) -> None:
        self.link_credit = link_credit
        self.asked_to_drain = drain
        self.unheard = True
        self._grant(self.ledger.request(link_credit, self.untaken))
        if self.unheard:
            assert self.ledger.stashed
            assert self.reply_due

    @rule(n=few)
    def engine_delivers(self, n: int) -> None:
        n = min(n, self.held)
        self.held -= n
        self.mailbox.append(("delivered", n))

    @precondition(lambda self: self.unanswered)
    @rule()
    def engine_replies(self) -> None:
        drained = self.held if self.asked_to_drain else 0
        self.held -= drained
        self.unanswered -= 1
        self.mailbox.append(("replied", drained))

    @precondition(lambda self: self.mailbox)
    @rule()
    def front_end_takes_an_action(self) -> None:
        said, n = self.mailbox.popleft()
        if said == "delivered":
            self.waiting += n
            self.ledger.delivered(n)
            return
        newest = self.unheard
        self._grant(self.ledger.replied(n, self.link_credit, self.untaken))
        assert not self.unheard
        assert self.unanswered == int(newest)

    @rule(n=few)
    def socket_takes_messages(self, n: int) -> None:
        n = min(n, self.waiting, self.link_credit)
        for _ in range(n):
            self.waiting -= 1
            self.link_credit -= 1
        self.ledger.begun(n)

    @rule()
    def unsent_messages_go_back(self) -> None:
        """Messages that wait beyond the client's link credit go back."""
        excess = max(0, self.waiting - self.link_credit)
        self.waiting -= excess
        self.ledger.begun(excess)

    @rule()
    def next_batch(self) -> None:
        due = not (self.reply_due or self.held or self.untaken or self.waiting) and self.link_credit > 0
        batch = self.ledger.next_batch(self.link_credit)
        assert (batch is not None) is due
        if batch is not None:
            assert batch == min(self.link_credit, self.BATCH)
        self._grant(batch)

    @invariant()
    def agrees(self) -> None:
        drained = sum(n for said, n in self.mailbox if said == "replied")
        assert self.ledger.outstanding == self.held + self.untaken + drained
        assert self.held >= 0
        assert self.ledger.waiting == self.waiting >= 0
        assert self.ledger.requested is self.reply_due
        in_hand = self.held + self.untaken + self.waiting
        assert in_hand <= self.BATCH, "more of a queue in one link's hands than a batch"
        if not self.unheard and self.held:
            assert in_hand <= self.link_credit, "the engine holds more than the client allows"


TestSenderCredit = SenderCreditMachine.TestCase
TestReceiverCredit = ReceiverCreditMachine.TestCase
TestQueueGrant = QueueGrantMachine.TestCase
TestSenderCredit.settings = TestReceiverCredit.settings = TestQueueGrant.settings = settings(stateful_step_count=30)
