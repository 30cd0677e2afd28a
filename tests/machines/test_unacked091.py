"""The outstanding deliveries of a 0.9.1 channel against a model that keeps every delivery by itself."""

from functools import partial

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from core.amqp091.unacked import Piece, Unacked, UnknownDeliveryTag

CONSUMERS = ("a", "b", "c")
consumers = st.sampled_from(CONSUMERS)


class UnackedMachine(RuleBasedStateMachine):
    """Deliveries to three consumers come, are acknowledged in any order, and lose their queue."""

    def __init__(self) -> None:
        super().__init__()
        self.unacked: Unacked[str] = Unacked()
        self.next_tag = 1
        self.next_number = dict.fromkeys(CONSUMERS, 0)
        self.model: dict[int, tuple[str | None, int]] = {}

    @rule(consumer=consumers, n=st.integers(1, 6), gap=st.sampled_from([0, 0, 2]))
    def append(self, consumer: str, n: int, gap: int) -> None:
        """``gap`` delivery numbers never reach this channel."""
        first = self.next_number[consumer] + gap
        assert self.unacked.append(consumer, first, n) == self.next_tag
        for number in range(first, first + n):
            self.model[self.next_tag] = (consumer, number)
            self.next_tag += 1
        self.next_number[consumer] = first + n

    @rule(n=st.integers(1, 3))
    def skip(self, n: int) -> None:
        assert self.unacked.skip(n) == self.next_tag
        self.next_tag += n

    @rule(back=st.integers(-1, 40), length=st.sampled_from([1, 1, 2, 5, 20]))
    def take_range(self, back: int, length: int) -> None:
        """Single tags are ranges of one."""
        first = max(0, self.next_tag - 1 - back)
        tags = range(first, first + length)
        take = partial(self.unacked.take, first) if length == 1 else partial(self.unacked.take_range, first, tags[-1])
        known = next((i for i, tag in enumerate(tags) if tag not in self.model), length)
        if known == length:
            self._taken(take(), list(tags))
            return
        with pytest.raises(UnknownDeliveryTag) as unknown:
            take()
        assert unknown.value.tag == first + known
        self._taken(unknown.value.taken, list(tags[:known]))

    @rule()
    def take_oldest(self) -> None:
        if self.model:
            oldest = min(self.model)
            self._taken(self.unacked.take(oldest), [oldest])

    @rule(back=st.integers(-1, 40))
    def take_up_to(self, back: int) -> None:
        tag = max(1, self.next_tag - 1 - back)
        if tag in self.model:
            self._taken(self.unacked.take_up_to(tag), [known for known in sorted(self.model) if known <= tag])
            return
        with pytest.raises(UnknownDeliveryTag) as unknown:
            self.unacked.take_up_to(tag)
        assert (unknown.value.tag, unknown.value.taken) == (tag, [])

    @rule(zero=st.booleans())
    def take_all(self, zero: bool) -> None:
        self._taken(self.unacked.take_up_to(0) if zero else self.unacked.take_all(), sorted(self.model))

    @rule(consumer=consumers)
    def forget(self, consumer: str) -> None:
        self.unacked.forget(consumer)
        self.model = {
            tag: (None if owner == consumer else owner, number) for tag, (owner, number) in self.model.items()
        }

    def _taken(self, pieces: list[Piece[str]], tags: list[int]) -> None:
        """These tags were taken: in their order, without those that are nobody's."""
        assert all(piece.first <= piece.last for piece in pieces)
        one_by_one = [(piece.consumer, n) for piece in pieces for n in range(piece.first, piece.last + 1)]
        expected = [self.model.pop(tag) for tag in tags]
        assert one_by_one == [(owner, number) for owner, number in expected if owner is not None]

    @invariant()
    def counts(self) -> None:
        owners = [owner for owner, _ in self.model.values()]
        assert self.unacked.total == len(owners) - owners.count(None)
        for consumer in CONSUMERS:
            assert self.unacked.count(consumer) == owners.count(consumer)


TestUnacked = UnackedMachine.TestCase
TestUnacked.settings = settings(stateful_step_count=40)
