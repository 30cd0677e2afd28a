"""The single active consumer against a model: which one is active, which are told, and that no other gets a message."""

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from core.interface import Action, ActivityChanged, Confirmed, Consumer, Delivered, Disposal, GrantReply
from core.message import Return
from tests.kit.engine import NOW, Peer, bodies, make_broker, queue


@dataclass(eq=False)
class ModelAttachment:
    """A consumer. The model's list of consumers is in order of age."""

    consumer: Consumer
    priority: int
    held: int = 0


class SingleActiveMachine(RuleBasedStateMachine):
    """Consumers of three priorities come and go. Each has a grant that is never used up."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = make_broker()
        self.broker.declare_queue(queue("q", x_single_active_consumer=True), "x")
        self.peer = Peer(self.broker)
        self.attachments: list[ModelAttachment] = []
        self.active: ModelAttachment | None = None
        self.expected: list[tuple[Consumer, bool]] = []
        self.told: list[tuple[Consumer, bool]] = []

    def _choose(self, newcomer: ModelAttachment | None = None) -> None:
        """The next active consumer: the oldest of the highest priority. The active one stays while it holds a message,
        or while no other has a higher priority."""
        best = max(self.attachments, key=lambda attachment: attachment.priority, default=None)
        old = self.active
        if old is not None and best is not None and (best.priority <= old.priority or old.held):
            return
        self.active = best
        if old is not None:
            self.expected.append((old.consumer, False))
        if best is not None and best is not newcomer:
            self.expected.append((best.consumer, True))

    @rule(priority=st.integers(0, 2))
    def attach(self, priority: int) -> None:
        attachment = ModelAttachment(self.peer.consume("q", 10**9, priority=priority), priority)
        self.attachments.append(attachment)
        self._choose(newcomer=attachment)

    @precondition(lambda self: self.attachments)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        attachment = data.draw(st.sampled_from(self.attachments))
        self.broker.cancel(attachment.consumer)
        self.attachments.remove(attachment)
        if attachment is self.active:
            self.active = None
            self._choose()

    @precondition(lambda self: self.active is not None and self.active.held)
    @rule(disposal=st.sampled_from([Disposal.ACCEPTED, Return()]), all_of_it=st.booleans())
    def settle(self, disposal: Disposal | Return, all_of_it: bool) -> None:
        assert self.active is not None
        oldest = self._delivered(self.active) - self.active.held
        last = oldest + self.active.held - 1 if all_of_it else oldest
        self.broker.settle(self.active.consumer, oldest, last, disposal)
        self.active.held -= last - oldest + 1
        if not self.active.held:
            self._choose()

    def _delivered(self, attachment: ModelAttachment) -> int:
        """How many messages a consumer has got so far."""
        shown = [one for one in self.broker.snapshot("consumers") if one["active"]]
        assert len(shown) == 1
        assert attachment.consumer.active
        delivered = shown[0]["delivered"]
        assert isinstance(delivered, int)
        return delivered

    @rule(count=st.integers(1, 3))
    def publish(self, count: int) -> None:
        self.peer.publish("q", bodies(count))

    @rule()
    def turn(self) -> None:
        self.broker.turn(NOW)
        for action in self._taken():
            assert isinstance(action, Delivered | Confirmed | GrantReply)
            if isinstance(action, Delivered):
                assert self.active is not None
                assert action.consumer is self.active.consumer
                assert not self._yields()
                self.active.held += len(action.entries)
        info = self.broker.queue_info("q", "x")
        assert info.unacknowledged == sum(attachment.held for attachment in self.attachments)
        assert info.ready == 0 or self.active is None or self._yields()

    def _yields(self) -> bool:
        best = max(attachment.priority for attachment in self.attachments)
        return self.active is not None and best > self.active.priority

    def _taken(self) -> list[Action]:
        """Take the actions in the mailbox. Actions about activity are noted and left out."""
        actions = self.peer.mailbox.take()
        news = [action for action in actions if isinstance(action, ActivityChanged)]
        self.told += [(action.consumer, action.active) for action in news]
        return [action for action in actions if action not in news]

    @invariant()
    def everybody_knows(self) -> None:
        assert self._taken() == []
        assert self.told == self.expected
        for attachment in self.attachments:
            assert attachment.consumer.active == (attachment is self.active)


TestSingleActiveMachine = SingleActiveMachine.TestCase
TestSingleActiveMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
