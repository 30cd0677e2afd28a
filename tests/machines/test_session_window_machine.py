"""The session window against a model that counts one transfer at a time, in numbers that never wrap.

The model plays both peers, so it knows what the wire does not say: how many transfers each side has sent, and how many
of ours have arrived. From that it makes flows, right ones and wrong ones.
"""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from amqp10.errors import ErrorCondition, SessionFault
from amqp10.flow.session_window import SessionWindow

MAXIMUM, TOP_UP_AT, MARGIN = 40, 20, 40
CIRCLE = 2**32
first_ids = st.sampled_from([0, 1, 2**31 - 9, 2**31, CIRCLE - 30, CIRCLE - 1])
windows = st.sampled_from([0, 1, 2, 30, 2**31 - 1, 2**31, CIRCLE - 1]) | st.integers(0, 100)
few = st.integers(0, 50)


class SessionWindowMachine(RuleBasedStateMachine):
    """Transfers, flows and alarms in any order, until the peer breaks a rule."""

    @initialize(ours=first_ids, theirs=first_ids, incoming=windows, outgoing=windows, closed=st.booleans())
    def begin(self, ours: int, theirs: int, incoming: int, outgoing: int, closed: bool) -> None:
        self.session = SessionWindow(maximum=MAXIMUM, top_up_at=TOP_UP_AT, initial_outgoing_id=ours, closed=closed)
        self.session.begin_received(next_outgoing_id=theirs, incoming_window=incoming, outgoing_window=outgoing)
        self.first_ours, self.first_theirs = ours, theirs
        self.sent = 0
        self.arrived = 0
        self.received = 0
        self.may_send = incoming
        self.they_may_send = outgoing
        self.window = 0 if closed else MAXIMUM
        self.tolerated = 0
        self.before = 0
        self.covered = 0
        self.closed = closed
        self.violated = False

    def _next_theirs(self) -> int:
        return (self.first_theirs + self.received) % CIRCLE

    def _flow(self, *, arrived: int | None, window: int, theirs: int, outgoing: int) -> None:
        self.session.flow_received(
            next_incoming_id=None if arrived is None else (self.first_ours + arrived) % CIRCLE,
            incoming_window=window,
            next_outgoing_id=theirs,
            outgoing_window=outgoing,
        )

    @precondition(lambda self: not self.violated)
    @rule(n=few)
    def receive(self, n: int) -> None:
        for _ in range(n):
            self.received += 1
            self.window -= 1
            self.they_may_send = max(0, self.they_may_send - 1)
        self.violated = self.window + self.tolerated < 0
        if self.violated:
            with pytest.raises(SessionFault) as raised:
                self.session.received(n)
            assert raised.value.condition == ErrorCondition.WINDOW_VIOLATION
        else:
            self.session.received(n)

    @rule(n=few)
    def send(self, n: int) -> None:
        n = min(n, self.may_send)
        for _ in range(n):
            self.sent += 1
            self.may_send -= 1
        self.session.sent(n)

    @rule(n=few)
    def some_arrive(self, n: int) -> None:
        self.arrived = min(self.sent, self.arrived + n)

    @rule(window=windows, outgoing=windows)
    def flow(self, window: int, outgoing: int) -> None:
        self._flow(arrived=self.arrived, window=window, theirs=self._next_theirs(), outgoing=outgoing)
        self.may_send = max(0, self.arrived + window - self.sent)
        self.they_may_send = outgoing

    @rule(window=windows)
    def flow_before_our_begin_arrived(self, window: int) -> None:
        self._flow(arrived=None, window=window, theirs=self._next_theirs(), outgoing=0)
        self.may_send = max(0, window - self.sent)
        self.they_may_send = 0

    @rule(too_many=st.sampled_from([1, 2, 1000, 2**31 - 1000]), window=windows)
    def flow_that_claims_too_much(self, too_many: int, window: int) -> None:
        with pytest.raises(SessionFault):
            self._flow(arrived=self.sent + too_many, window=window, theirs=self._next_theirs(), outgoing=1)

    @rule(difference=st.sampled_from([-(2**31), -1, 1, 5, 2**31 - 1]), window=windows)
    def flow_with_another_id(self, difference: int, window: int) -> None:
        """The ids in the peer's flow jump. The number of transfers that may come stays the same."""
        self.first_theirs += difference
        self._flow(arrived=self.arrived, window=window, theirs=self._next_theirs(), outgoing=1)
        self.may_send = max(0, self.arrived + window - self.sent)
        self.they_may_send = 1

    @rule()
    def top_up(self) -> None:
        due = not self.closed and self.window <= TOP_UP_AT
        if due:
            self.window = MAXIMUM + self.covered
        assert self.session.top_up() is due

    @rule(change=st.integers(-60, 60))
    def link_credit_follows_windows(self, change: int) -> None:
        change = max(change, -self.covered)
        self.covered += change
        self.session.cover(change)
        if not self.closed:
            self.window = max(self.window, MAXIMUM + self.covered)

    @rule()
    def alarm(self) -> None:
        assert self.session.close(MARGIN) is not self.closed
        if not self.closed:
            self.before = self.window
            self.closed, self.window, self.tolerated = True, 0, max(MARGIN, self.before)

    @rule()
    def alarm_is_over(self) -> None:
        assert self.session.open() is self.closed
        if self.closed:
            self.closed, self.tolerated = False, 0
            self.window = max(MAXIMUM + self.covered, self.before + self.window)

    @invariant()
    def agrees(self) -> None:
        session = self.session
        assert session.next_incoming_id == self._next_theirs()
        assert session.next_outgoing_id == (self.first_ours + self.sent) % CIRCLE
        assert session.remote_incoming_window == self.may_send >= 0
        assert session.remote_outgoing_window == self.they_may_send >= 0
        assert session.announced == (0 if self.closed else max(0, self.window))
        assert session.announced >= 0


TestSessionWindow = SessionWindowMachine.TestCase
TestSessionWindow.settings = settings(stateful_step_count=30)
