"""A sender's state, against an engine in place of a broker: every message has the fate that it had there.

The broker sets link credit and takes it back, closes and opens its window, settles what it likes, and goes away. The
model is the set of messages that it received, each with the outcome that the broker gave it.
"""

from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from amqp10.client_core.errors import MessageTooLarge
from amqp10.client_core.events import LinkEvent, take_event
from amqp10.client_core.outcomes import Fate, FateRange, Outcomes, Sent, Uncertain, Unsent
from amqp10.client_core.sending import SenderCore
from amqp10.protocol.connection import Connection
from amqp10.protocol.settings import ConnectionSettings, SessionLimits
from amqp10.wire.messaging import ACCEPTED, RELEASED, Error, Outcome, Rejected
from amqp10.wire.performatives import Attach
from tests.kit.peers import Side, client_handshake, server_handshake

UNSETTLED_MAX = 12
WINDOW = 5
"""Transfers that the broker takes before its next flow: fewer than the link credit, so messages wait."""
GONE = "the connection is gone"


class User:
    """The owner of a sender; it notes what was taken back as never sent, as the Trio client does, or forgets it, as
    the connector does."""

    def __init__(self, core: SenderCore, *, forgets: bool) -> None:
        self.core = core
        self.forgets = forgets
        self.outcomes = Outcomes(core.posted)
        self.attached = False

    def attach_answered(self, attach: Attach) -> None:
        self.attached = attach.target is not None

    def event_received(self, event: LinkEvent) -> None:
        for first, last in self.core.event_received(event):
            if self.forgets:
                self.core.forget_newest(last - first + 1, self.outcomes)
            else:
                self.core.outcomes.note(first, last, Unsent("taken back"))

    def detached(self, error: Error | None) -> None:
        self.attached = False


class Broker:
    """A connection to an engine with a sender's link on it; bytes travel when :meth:`pump` is called."""

    def __init__(self, user: User, *, max_message_size: int = 0) -> None:
        limits = SessionLimits(max_incoming_window=WINDOW, window_top_up=WINDOW - 1, incoming_window_margin=100)
        self.side = Side(
            Connection(ConnectionSettings(container_id="broker", session=limits), server_handshake()),
            max_message_size=max_message_size,
        )
        self.engine = Connection(ConnectionSettings(container_id="client"), client_handshake())
        self.pump()
        self.engine.open()
        session = self.engine.new_session()
        session.begin()
        session.reference = self
        user.core.attach(session, user)
        self.pump()
        assert user.attached
        self.unsettled: dict[int, bytes] = {}
        """Bodies of deliveries without an outcome, by extended delivery-id."""
        self.seen = 0

    def begun(self) -> None:
        """See SessionUser."""

    def ended_by_peer(self, error: Error | None) -> None:
        """See SessionUser."""
        pytest.fail(f"the session ended: {error}")

    def pump(self) -> None:
        """Carry bytes in both directions until there are none."""
        moved = True
        while moved:
            while (event := self.engine.next_event()) is not None:
                take_event(event)
            to_broker = self.engine.data_to_send(0.0)
            self.side.take(to_broker)
            to_client = self.side.output()
            self.engine.receive_data(to_client, 0.0)
            moved = bool(to_broker or to_client)

    def received(self) -> Iterator[bytes]:
        """The bodies that came since the last call."""
        came = self.side.inboxes["s"][self.seen :]
        self.seen += len(came)
        for delivery in came:
            if not delivery.settled:
                self.unsettled[delivery.delivery_id] = delivery.body
            yield delivery.body


class SenderMachine(RuleBasedStateMachine):
    """One sender over several connections."""

    @initialize(forgets=st.booleans(), settled=st.booleans())
    def begin(self, forgets: bool, settled: bool) -> None:
        self.core = SenderCore(name="s", address="/queues/q", settled=settled, unsettled_max=UNSETTLED_MAX)
        self.user = User(self.core, forgets=forgets)
        self.broker = Broker(self.user)
        self.bodies: dict[int, bytes] = {}
        """The bodies by the number that a message has, or had last."""
        self.taken: dict[bytes, Outcome | None] = {}
        """The bodies that the broker received, with the outcome that it gave."""
        self.finished: list[Outcomes] = []
        self.given = 0
        self.set_link_credit(8, drain=False, echo=False, at_once=True)

    @rule(n=st.integers(1, 8), at_once=st.booleans())
    def give(self, n: int, at_once: bool) -> None:
        """Give as many messages as there is room for, at most n."""
        n = min(n, self.core.room)
        if n:
            entries = [b"\x00\x53\x75\xa0\x04" + (self.given + index).to_bytes(4, "big") for index in range(n)]
            self.given += n
            self.bodies |= dict(enumerate(entries, self.core.posted))
            self.core.give(list(entries), self.user.outcomes)
        if at_once:
            self.exchange()

    @rule(
        n=st.integers(0, 15),
        drain=st.sampled_from((False, False, False, True)),
        echo=st.booleans(),
        at_once=st.booleans(),
    )
    def set_link_credit(self, n: int, drain: bool, echo: bool, at_once: bool) -> None:
        link = self.broker.side.receiver("s")
        link.grant(n, drain=drain, echo=echo)
        if at_once:
            self.exchange()
            assert self.core.link is not None
            if drain and not self.core.link.waiting:
                assert link.credit.link_credit == 0

    @rule(open_it=st.booleans())
    def set_window(self, open_it: bool) -> None:
        (session,) = self.broker.side.sessions.values()
        if open_it:
            session.open_incoming_window()
        else:
            session.close_incoming_window()
        self.exchange()

    @rule()
    def exchange(self) -> None:
        """Carry bytes in both directions."""
        self.broker.pump()
        self.taken |= dict.fromkeys(self.broker.received())

    @precondition(lambda self: self.broker.unsettled)
    @rule(data=st.data(), outcome=st.sampled_from((ACCEPTED, RELEASED, Rejected())))
    def settle(self, data: st.DataObject, outcome: Outcome) -> None:
        unsettled = self.broker.unsettled
        first, last = sorted(data.draw(st.tuples(*[st.sampled_from(sorted(unsettled))] * 2)))
        self.broker.side.settle("s", first, last, outcome)
        for number in [number for number in unsettled if first <= number <= last]:
            self.taken[unsettled.pop(number)] = outcome
        self.exchange()

    @precondition(lambda self: len(self.user.outcomes) > 3)
    @rule()
    def lose(self) -> None:
        """The connection breaks: what waits is unsent, what was sent is uncertain, and the link is attached again."""
        self.exchange()
        link = self.core.let_go()
        assert link is not None
        link.abandon()
        self.core.give_up(GONE, link)
        self.user.outcomes.close()
        assert self.user.outcomes.done
        self.finished.append(self.user.outcomes)
        self.user.outcomes = Outcomes(self.core.posted)
        self.broker = Broker(self.user)
        self.set_link_credit(8, drain=False, echo=False, at_once=True)

    @invariant()
    def every_message_has_its_fate(self) -> None:
        every = [*self.finished, self.user.outcomes]
        known = {
            number: one.fate for post in every for one in post.so_far() for number in range(one.first, one.last + 1)
        }
        assert self.core.posted - len(known) == self.core.outcomes.missing <= UNSETTLED_MAX
        assert 0 <= self.core.room <= UNSETTLED_MAX - self.core.outcomes.missing
        for number, fate in known.items():
            assert self._is_true(self.bodies[number], fate), (number, fate)

    def _is_true(self, body: bytes, fate: Fate) -> bool:
        match fate:
            case Unsent():
                return body not in self.taken
            case Uncertain():
                return body in self.taken and self.taken[body] is None
            case Sent():
                return self.core.settled
            case _:
                return self.taken[body] == fate

    def teardown(self) -> None:
        """With link credit and an open window everything is sent, once, in order; and then settled."""
        if not hasattr(self, "broker"):
            return
        self.broker.side.receiver("s").grant(100)
        self.set_window(True)
        self.exchange()
        assert self.core.link is not None
        assert self.core.link.waiting == 0
        if self.broker.unsettled:
            for body in self.broker.unsettled.values():
                self.taken[body] = ACCEPTED
            self.broker.side.settle("s", min(self.broker.unsettled), max(self.broker.unsettled), ACCEPTED)
            self.exchange()
        assert self.core.outcomes.missing == 0
        self.every_message_has_its_fate()
        assert list(self.taken) == sorted(self.taken)


TestSenderMachine = SenderMachine.TestCase
TestSenderMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def test_a_message_that_is_too_large_is_not_sent_and_has_no_number():
    core = SenderCore(name="s", address="/queues/q", unsettled_max=UNSETTLED_MAX)
    user = User(core, forgets=False)
    broker = Broker(user, max_message_size=20)
    broker.side.receiver("s").grant(10)
    broker.pump()
    small, large = b"\x00\x53\x75\xa0\x01a", b"\x00\x53\x75\xa0\x20" + bytes(32)
    with pytest.raises(MessageTooLarge, match="at most 20") as caught:
        core.give([small, large], user.outcomes)
    assert caught.value.condition == "amqp:link:message-size-exceeded"
    assert (core.posted, core.outcomes.missing, len(user.outcomes)) == (0, 0, 0)
    core.give([small], user.outcomes)
    broker.pump()
    assert list(broker.received()) == [small]
    broker.side.settle("s", 0, 0, ACCEPTED)
    broker.pump()
    assert user.outcomes.so_far() == [FateRange(0, 0, ACCEPTED)]
