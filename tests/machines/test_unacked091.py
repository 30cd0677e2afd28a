"""The outstanding deliveries of a 0.9.1 channel against a model that keeps every delivery by itself.

The channel takes them out two records at a time.
"""

from collections.abc import Iterable

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from core.amqp091.unacked import DeliveryRange, Unacked, UnknownDeliveryTag

CONSUMERS = ("a", "b", "c")
consumers = st.sampled_from(CONSUMERS)


class UnackedMachine(RuleBasedStateMachine):
    """Deliveries to three consumers come, are acknowledged in any order, and lose their queue. Another consumer takes
    the place of one whose queue was deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.unacked: Unacked[str] = Unacked(records_at_once=2)
        self.next_tag = 1
        self.names = {name: name for name in CONSUMERS}
        self.next_number = dict.fromkeys(CONSUMERS, 0)
        self.model: dict[int, tuple[str | None, int]] = {}

    @rule(consumer=consumers, n=st.integers(1, 6), gap=st.sampled_from([0, 0, 2]))
    def append(self, consumer: str, n: int, gap: int) -> None:
        """Append deliveries, after ``gap`` delivery numbers that never reach this channel."""
        first = self.next_number[consumer] + gap
        assert self.unacked.append(self.names[consumer], first, n) == self.next_tag
        for number in range(first, first + n):
            self.model[self.next_tag] = (self.names[consumer], number)
            self.next_tag += 1
        self.next_number[consumer] = first + n

    @rule(n=st.integers(1, 3))
    def skip(self, n: int) -> None:
        assert self.unacked.skip(n) == self.next_tag
        self.next_tag += n

    @rule(back=st.integers(-1, 40), length=st.sampled_from([1, 1, 2, 5, 20]))
    def take_range(self, back: int, length: int) -> None:
        """Acknowledge a range. A range of one is a single tag."""
        due = first = max(0, self.next_tag - 1 - back)
        last = first + length - 1
        end = next((tag for tag in range(first, last + 1) if tag not in self.model), last + 1)
        while due <= last:
            try:
                taken, after = self.unacked.take_range(due, last)
            except UnknownDeliveryTag as unknown:
                taken, after, last = unknown.taken, unknown.tag, unknown.tag - 1
            self._taken(taken, range(due, after))
            due = after
        assert due == end

    @rule()
    def take_oldest(self) -> None:
        if self.model:
            oldest = min(self.model)
            self._taken(self.unacked.take(oldest), [oldest])

    @rule(back=st.integers(-1, 40))
    def take_up_to(self, back: int) -> None:
        tag = max(1, self.next_tag - 1 - back)
        if tag not in self.model:
            with pytest.raises(UnknownDeliveryTag) as unknown:
                self.unacked.take_up_to(tag)
            assert (unknown.value.tag, unknown.value.taken) == (tag, [])
            return
        due = 0
        while due <= tag:
            taken, due = self.unacked.take_up_to(tag)
            self._taken(taken, [known for known in sorted(self.model) if known < due])

    @rule()
    def take_up_to_newest(self) -> None:
        assert self.unacked.newest == max(self.model, default=0)
        if self.model:
            self.take_up_to(self.next_tag - 1 - self.unacked.newest)

    @rule(consumer=consumers)
    def forget(self, consumer: str) -> None:
        gone = self.names[consumer]
        self.unacked.forget(gone)
        self.names[consumer] = gone + consumer
        self.model = {tag: (None if owner == gone else owner, number) for tag, (owner, number) in self.model.items()}

    def _taken(self, taken: list[DeliveryRange[str]], tags: Iterable[int]) -> None:
        """Check that these tags were taken, in order, without those of deliveries that no longer count."""
        assert all(numbers.first <= numbers.last for numbers in taken)
        one_by_one = [(numbers.consumer, n) for numbers in taken for n in range(numbers.first, numbers.last + 1)]
        expected = [self.model.pop(tag) for tag in tags]
        assert one_by_one == [(owner, number) for owner, number in expected if owner is not None]

    @invariant()
    def counts(self) -> None:
        owners = [owner for owner, _ in self.model.values()]
        assert self.unacked.total == len(owners) - owners.count(None)
        for consumer in self.names.values():
            assert self.unacked.count(consumer) == owners.count(consumer)
        assert set(self.unacked.consumers()) == {owner for owner in owners if owner is not None}


TestUnacked = UnackedMachine.TestCase
TestUnacked.settings = settings(stateful_step_count=40)
