"""A queue against a model: publish, grant, settle, return, cancel and purge, over several consumers.

The model knows the place and history of each message, and checks the output of every turn. No message is lost or
doubled, no grant is exceeded, order and priority hold, no message that could be delivered is left, and every grant is
answered once with the right numbers. The model does not repeat how the queue chooses among consumers.
"""

from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from core.interface import Consumer, Delivered, Disposal, GrantReply
from core.message import Attributes, Return, each_of
from core.slices import run_at_once
from tests.kit.engine import NOW, Peer, assert_sums_are_right, bodies, make_broker

RETURNS = st.builds(
    Return,
    delivery_failed=st.booleans(),
    undeliverable_here=st.sampled_from([False, False, True]),
    unsent=st.booleans(),
    annotations=st.sampled_from([None, None, {"x-a": 1}, {"x-a": 2, "x-b": 2}]),
)


@dataclass
class Message:
    """What the model knows of a message. Its place in the queue is its number."""

    durable: bool
    delivery_count: int = 0
    first_acquirer: bool = True
    annotations: dict[object, object] | None = None
    barred: list[Consumer] = field(default_factory=list)


@dataclass
class ModelAttachment:
    """A consumer, and the messages that it holds, by delivery number."""

    consumer: Consumer
    priority: int
    grant: int = 0
    drain: bool = False
    replies_due: int = 0
    next_number: int = 0
    held: dict[int, int] = field(default_factory=dict)


class QueueMachine(RuleBasedStateMachine):
    """One queue with a slow stage, one publisher, several consumers."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = make_broker("q")
        self.peer = Peer(self.broker)
        self.budget: int | None = None
        self.messages: list[Message] = []
        self.waiting: list[int] = []
        self.ready: set[int] = set()
        self.gone: set[int] = set()
        self.attachments: list[ModelAttachment] = []

    # --- operations on the queue

    @rule(count=st.integers(1, 9), durable=st.booleans())
    def publish(self, count: int, durable: bool) -> None:
        first = len(self.messages)
        self.peer.publish("q", bodies(count, first), Attributes(durable=durable))
        self.messages += [Message(durable) for _ in range(count)]
        self.waiting += range(first, first + count)

    @rule(budget=st.one_of(st.none(), st.integers(0, 5)))
    def set_budget(self, budget: int | None) -> None:
        self.broker.set_stage_budget("q", budget)
        self.budget = budget

    @precondition(lambda self: len(self.attachments) < 4)
    @rule(priority=st.sampled_from([0, 0, 1]))
    def attach(self, priority: int) -> None:
        self.attachments.append(ModelAttachment(self.peer.consume("q", priority=priority), priority))

    @precondition(lambda self: self.attachments)
    @rule(data=st.data(), n=st.integers(0, 12), drain=st.booleans())
    def grant(self, data: st.DataObject, n: int, drain: bool) -> None:
        attachment = data.draw(st.sampled_from(self.attachments))
        self.broker.grant(attachment.consumer, n, drain)
        attachment.grant, attachment.drain = n, drain
        attachment.replies_due += 1

    @precondition(lambda self: self.attachments)
    @rule(
        data=st.data(),
        first=st.integers(-3, 40),
        length=st.sampled_from([1, 1, 2, 5, 2**40]),
        disposal=st.one_of(st.sampled_from(Disposal), RETURNS),
    )
    def settle(self, data: st.DataObject, first: int, length: int, disposal: Disposal | Return) -> None:
        attachment = data.draw(st.sampled_from(self.attachments))
        self.broker.settle(attachment.consumer, first, first + length - 1, disposal)
        for number in [number for number in attachment.held if first <= number < first + length]:
            place = attachment.held.pop(number)
            if isinstance(disposal, Return):
                self._take_back(attachment, place, disposal)
            else:
                self.gone.add(place)

    @precondition(lambda self: self.attachments)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        attachment = data.draw(st.sampled_from(self.attachments))
        self.attachments.remove(attachment)
        self.broker.cancel(attachment.consumer)
        for place in attachment.held.values():
            self._take_back(attachment, place, Return())

    @rule()
    def purge(self) -> None:
        assert run_at_once(self.broker.purge_queue("q", "x")) == len(self.ready)
        self.gone |= self.ready
        self.ready.clear()

    def _take_back(self, attachment: ModelAttachment, place: int, how: Return) -> None:
        message = self.messages[place]
        if not how.unsent:
            message.first_acquirer = False
            message.delivery_count += how.delivery_failed
        if how.annotations:
            message.annotations = {**(message.annotations or {}), **how.annotations}
        if how.undeliverable_here:
            message.barred.append(attachment.consumer)
        self.ready.add(place)

    # --- the result of a turn

    @rule()
    def turn(self) -> None:
        taken_on = len(self.waiting) if self.budget is None else min(self.budget, len(self.waiting))
        self.ready.update(self.waiting[:taken_on])
        del self.waiting[:taken_on]
        assert self.broker.turn(NOW) == bool(self.waiting and self.budget)
        delivered: dict[int, list[int]] = {}
        replies = []
        for action in self.peer.mailbox.take():
            if isinstance(action, Delivered):
                assert not replies, "deliveries come before the replies"
                attachment = self._attachment(action.consumer)
                delivered.setdefault(self.attachments.index(attachment), []).extend(self._deliver(attachment, action))
            elif isinstance(action, GrantReply):
                replies.append(action)
        self._check_order(delivered)
        self._check_nothing_is_left_behind(delivered)
        self._check_replies(replies)
        info = self.broker.queue_info("q", "x")
        held = sum(len(attachment.held) for attachment in self.attachments)
        assert (info.ready, info.unacknowledged) == (len(self.ready), held)
        assert len(self.waiting) + len(self.ready) + held + len(self.gone) == len(self.messages)
        assert_sums_are_right(self.broker)

    def _attachment(self, consumer: Consumer) -> ModelAttachment:
        return next(attachment for attachment in self.attachments if attachment.consumer is consumer)

    def _deliver(self, attachment: ModelAttachment, action: Delivered) -> list[int]:
        places = [int(entry) for entry in action.entries]
        assert places
        assert action.first == attachment.next_number
        assert len(places) <= attachment.grant
        attachment.next_number += len(places)
        attachment.grant -= len(places)
        attributes = each_of(action.attributes, len(places))
        for number, (place, its) in enumerate(zip(places, attributes, strict=True), action.first):
            message = self.messages[place]
            self.ready.remove(place)
            attachment.held[number] = place
            assert attachment.consumer not in message.barred
            assert its.durable == message.durable
            assert action.delivery_count == message.delivery_count
            assert action.first_acquirer == message.first_acquirer
            assert action.annotations == message.annotations
        return places

    def _check_order(self, delivered: dict[int, list[int]]) -> None:
        for index, places in delivered.items():
            assert places == sorted(places)
            consumer = self.attachments[index].consumer
            passed_over = [place for place in self.ready if place < places[-1]]
            assert all(consumer in self.messages[place].barred for place in passed_over)

    def _check_nothing_is_left_behind(self, delivered: dict[int, list[int]]) -> None:
        for attachment in self.attachments:
            if not attachment.grant:
                continue
            assert all(attachment.consumer in self.messages[place].barred for place in self.ready)
            for index, places in delivered.items():
                if self.attachments[index].priority < attachment.priority:
                    assert all(attachment.consumer in self.messages[place].barred for place in places)

    def _check_replies(self, replies: list[GrantReply]) -> None:
        for attachment in self.attachments:
            mine = [(reply.available, reply.drained) for reply in replies if reply.consumer is attachment.consumer]
            assert len(mine) == attachment.replies_due
            if mine:
                drained = attachment.grant if attachment.drain else 0
                assert mine == [(len(self.ready), 0)] * (len(mine) - 1) + [(len(self.ready), drained)]
                attachment.grant -= drained
            attachment.replies_due, attachment.drain = 0, False
        assert len(replies) == sum(reply.consumer in [h.consumer for h in self.attachments] for reply in replies)

    def teardown(self) -> None:
        """Deliver everything that is left to the last consumer, once and in order."""
        for attachment in list(self.attachments):
            self.broker.cancel(attachment.consumer)
        self.broker.set_stage_budget("q", None)
        last = self.peer.consume("q", len(self.messages))
        self.broker.turn(NOW)
        actions = [action for action in self.peer.mailbox.take() if isinstance(action, Delivered)]
        assert all(action.consumer is last for action in actions)
        places = [int(entry) for action in actions for entry in action.entries]
        assert places == [place for place in range(len(self.messages)) if place not in self.gone]


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
