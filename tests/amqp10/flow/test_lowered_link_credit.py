"""A receiver lowers its link credit while messages are on their way: both ends keep the same count [2.6.7]."""

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from amqp10.errors import LinkFault
from amqp10.flow.link_credit import ReceiverCredit, SenderCredit


class TwoLedgers(RuleBasedStateMachine):
    """A sender and a receiver, with messages and flows on their way between them. Each direction keeps its order."""

    def __init__(self) -> None:
        super().__init__()
        self.sender, self.receiver = SenderCredit(), ReceiverCredit()
        self.to_receiver: deque[tuple[str, int]] = deque()
        self.to_sender: deque[tuple[int, int, bool]] = deque()
        self.granted = 0

    @rule(n=st.integers(0, 20), drain=st.booleans())
    def grant(self, n, drain):
        """Let the user set the link credit, higher or lower."""
        self.receiver.grant(n, drain=drain)
        self.to_sender.append((self.receiver.delivery_count, n, drain))

    @rule()
    def flow_arrives(self):
        """Let the next flow reach the sender. A flow with drain makes it use up the rest of its link credit."""
        if self.to_sender:
            delivery_count, link_credit, drain = self.to_sender.popleft()
            self.sender.flow_received(delivery_count=delivery_count, link_credit=link_credit, drain=drain)
            if drain:
                self.sender.drained()
                self.to_receiver.append(("flow", self.sender.delivery_count))

    @rule(n=st.integers(1, 10))
    def send(self, n):
        """Send as many messages as the sender may, by its own count."""
        n = min(n, self.sender.link_credit)
        if n:
            self.sender.sent(n)
            self.to_receiver.append(("messages", n))

    @rule()
    def arrive(self):
        """Let the next message reach the receiver, which must take it."""
        if self.to_receiver:
            kind, n = self.to_receiver.popleft()
            if kind == "messages":
                self.receiver.received(n)
            else:
                self.receiver.flow_received(delivery_count=n, available=None)

    @invariant()
    def ledgers_agree_when_nothing_is_on_its_way(self):
        assert self.receiver.margin >= 0
        assert self.receiver.link_credit >= 0
        if not self.to_receiver and not self.to_sender:
            assert self.sender.link_credit == self.receiver.link_credit
            assert self.sender.delivery_count == self.receiver.delivery_count


TestTwoLedgers = TwoLedgers.TestCase
TestTwoLedgers.settings = settings(max_examples=200, stateful_step_count=40)


def test_what_was_never_granted_is_still_refused():
    credit = ReceiverCredit()
    credit.grant(10)
    credit.grant(4)
    assert credit.room == 10
    credit.received(9)
    assert (credit.link_credit, credit.room) == (0, 1)
    with pytest.raises(LinkFault, match="transfer-limit-exceeded"):
        credit.received(2)


def test_a_higher_grant_takes_the_margin_in():
    credit = ReceiverCredit()
    credit.grant(10)
    credit.grant(0)
    credit.grant(12)
    assert (credit.link_credit, credit.margin) == (12, 0)
