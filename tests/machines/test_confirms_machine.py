"""Confirms against a model: every message gets one answer, and the right one, whatever the queues do.

The model keeps for every message the queues that still owe an answer, and whether one of them took it, message by
message. The engine keeps one number for each run and queue.
"""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from core.interface import Confirmed, ExchangeTarget, Outcome
from tests.kit.engine import NOW, Peer, binding, bodies, make_broker, queue

NAMES = ("a", "b", "c")
EVERYWHERE = ExchangeTarget("amq.fanout", "")


class ConfirmsMachine(RuleBasedStateMachine):
    """One peer publishes to three queues, by name or to all at once. Queues stall, slow down, are deleted and declared
    again."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = make_broker()
        self.peer = Peer(self.broker)
        self.waiting: dict[str, list[int]] = {}
        self.budgets: dict[str, int | None] = {}
        self.owing: dict[int, set[str]] = {}
        self.took: set[int] = set()
        self.expected: dict[int, Outcome] = {}
        self.answered: dict[int, Outcome] = {}
        for name in NAMES:
            self._make(name)

    def _make(self, name: str) -> None:
        self.broker.declare_queue(queue(name), "x")
        self.broker.bind(binding("amq.fanout", name), "x")
        self.waiting[name] = []
        self.budgets[name] = None

    def _published(self, numbers: range, names: list[str]) -> None:
        for number in numbers:
            self.owing[number] = set(names)
            self._settle(number)
            for name in names:
                self.waiting[name].append(number)

    def _settle(self, number: int) -> None:
        if not self.owing[number]:
            self.expected[number] = Outcome.ACCEPTED if number in self.took else Outcome.RELEASED

    @rule(count=st.integers(1, 6))
    def publish_everywhere(self, count: int) -> None:
        self._published(self.peer.publish(EVERYWHERE, bodies(count), anonymous=True), list(self.waiting))

    @rule(count=st.integers(1, 6), name=st.sampled_from(NAMES))
    def publish_to_one(self, count: int, name: str) -> None:
        target = ExchangeTarget("", name)
        names = [name] if name in self.waiting else []
        self._published(self.peer.publish(target, bodies(count), anonymous=True), names)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), budget=st.one_of(st.none(), st.integers(0, 4)))
    def set_budget(self, data: st.DataObject, budget: int | None) -> None:
        name = data.draw(st.sampled_from(sorted(self.waiting)))
        self.broker.set_stage_budget(name, budget)
        self.budgets[name] = budget

    @rule()
    def turn(self) -> None:
        more = self.broker.turn(NOW)
        for name, numbers in self.waiting.items():
            budget = self.budgets[name]
            taken = numbers if budget is None else numbers[:budget]
            self.waiting[name] = numbers[len(taken) :]
            for number in taken:
                self.took.add(number)
                self.owing[number].remove(name)
                self._settle(number)
        assert more == any(self.budgets[name] != 0 and numbers for name, numbers in self.waiting.items())

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def delete_queue(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.waiting)))
        self.broker.delete_queue(name, "x")
        for number in self.waiting.pop(name):
            self.owing[number].remove(name)
            self._settle(number)

    @rule(name=st.sampled_from(NAMES))
    def make_again(self, name: str) -> None:
        if name not in self.waiting:
            self._make(name)

    @invariant()
    def every_answer_comes_once_as_soon_as_it_can(self) -> None:
        for action in self.peer.mailbox.take():
            assert isinstance(action, Confirmed)
            assert action.first <= action.last
            for number in range(action.first, action.last + 1):
                assert number not in self.answered
                self.answered[number] = action.outcome
        assert self.answered == self.expected

    def teardown(self) -> None:
        for name in sorted(self.waiting):
            self.broker.set_stage_budget(name, None)
            self.budgets[name] = None
        self.turn()
        self.every_answer_comes_once_as_soon_as_it_can()
        assert sorted(self.answered) == list(range(self.peer.next_confirm))


TestConfirmsMachine = ConfirmsMachine.TestCase
TestConfirmsMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
