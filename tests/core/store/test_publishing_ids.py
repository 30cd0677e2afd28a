"""Publishing ids in a queue index outlive kills, removed files and orderly stops, and never a message that was lost."""

from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import given

from core.store.places import SEGMENT_MESSAGES
from core.taken_numbers import KnownId, PublishingId
from tests.kit.classic_store import TRANSIENT, StoreHarness, messages, run_part

RANGES_MAX = 100


def publish(index, first, *numbers, publisher="p", **how):
    part = run_part(*(b"%s %d" % (publisher.encode(), number) for number in numbers), **how)
    part.names = [PublishingId(publisher, number) for number in numbers]
    index.publish(first, part)
    for name in part.names:
        if index.taken is not None:
            index.taken.add(name.publisher, name.number, name.number + 1)


def known(index, numbers, publisher="p"):
    taken = index.remember(RANGES_MAX)
    return [number for number in numbers if taken.known(PublishingId(publisher, number)) is KnownId.TAKEN]


@pytest.mark.parametrize("stop", ["kill", "restart"])
@pytest.mark.parametrize("size", [10, 5000])
def test_ids_are_there_after_a_start(stop, size):
    harness = StoreHarness()
    publish(harness.index, 0, 0, 1, 2)
    part = run_part(b"x" * size)
    part.names = [PublishingId("p", 7)]
    harness.index.publish(3, part)
    harness.drain()
    index = getattr(harness, stop)().queue_index("1")
    assert known(index, range(10)) == [0, 1, 2, 7]
    assert len(messages(index)) == 4


@pytest.mark.parametrize("stop", ["kill", "restart"])
def test_ids_outlive_the_files_of_their_messages(stop):
    harness = StoreHarness()
    harness.index.remember(RANGES_MAX)
    for segment in range(4):
        publish(harness.index, segment * SEGMENT_MESSAGES, segment)
        harness.drain()
    for segment in range(4):
        harness.index.settle(range(segment * SEGMENT_MESSAGES, segment * SEGMENT_MESSAGES + 1))
        harness.drain()
    assert list(harness.index.segments) == [3]
    index = getattr(harness, stop)().queue_index("1")
    assert messages(index) == {}
    assert known(index, range(10)) == [0, 1, 2, 3]
    publish(index, 9 * SEGMENT_MESSAGES + index.next_sequence_floor, 9)
    harness.drain()
    assert known(harness.kill().queue_index("1"), range(10)) == [0, 1, 2, 3, 9]


def test_a_file_that_a_kill_left_behind_hands_its_ids_on():
    harness = StoreHarness()
    publish(harness.index, 0, 0)
    harness.drain()
    harness.index.settle(range(1))
    harness.drain()
    publish(harness.index, SEGMENT_MESSAGES, 1)
    harness.write()  # the second file is there, the first one not removed yet
    harness.kill()
    harness.drain()
    harness.drain()
    assert list(harness.index.segments) == [1]
    assert known(harness.kill().queue_index("1"), range(5)) == [0, 1]


def test_a_message_that_is_not_durable_takes_its_id_with_it():
    harness = StoreHarness()
    publish(harness.index, 0, 0)
    publish(harness.index, 1, 1, attributes=TRANSIENT)
    harness.drain()
    assert known(harness.kill().queue_index("1"), range(5)) == [0]


def test_what_is_forgotten_is_not_carried_on():
    harness = StoreHarness()
    harness.index.remember(2)
    for segment, publisher in enumerate("abcd"):
        publish(harness.index, segment * SEGMENT_MESSAGES, 0, publisher=publisher)
        harness.drain()
        harness.index.settle(range(segment * SEGMENT_MESSAGES, segment * SEGMENT_MESSAGES + 1))
    harness.drain()
    index = harness.kill().queue_index("1")
    assert [known(index, [0], publisher) for publisher in "abcd"] == [[], [], [0], [0]]


class World:
    """A queue that is used as the engine does it, and what publishers were promised."""

    def __init__(self):
        self.harness = StoreHarness()
        self.harness.index.remember(RANGES_MAX)
        self.next = 0
        self.sequence = {}
        self.consumed = set()
        self.written = set()
        self.synced = set()

    def publish(self, number):
        index = self.harness.index
        if index.remember(RANGES_MAX).known(PublishingId("p", number)) is KnownId.TAKEN:
            return
        publish(index, self.next, number)
        self.sequence[self.next] = number
        self.next += 1 + SEGMENT_MESSAGES // 3

    def consume(self):
        ready = sorted(messages(self.harness.index))
        if ready:
            self.harness.index.settle(range(ready[0], ready[0] + 1))
            self.consumed.add(self.sequence[ready[0]])

    def start(self):
        self.next = max(self.next, self.harness.index.next_sequence_floor)
        return {self.sequence[at] for at in messages(self.harness.index)}


@given(
    st.lists(st.integers(0, 9) | st.sampled_from(["consume", "write", "drain", "kill", "cut", "restart"]), max_size=40),
    st.randoms(use_true_random=False),
)
def test_an_id_is_known_exactly_while_its_message_is_there_or_was_consumed(steps, random):
    world = World()
    harness = world.harness
    for step in [*steps, "kill"]:
        if isinstance(step, int):
            world.publish(step)
        elif step == "consume":
            world.consume()
        elif step in ("write", "drain", "restart"):
            getattr(harness, step)()
        elif step == "kill":
            harness.kill()
        else:
            harness.power_cut(Random(random.randrange(2**32)))
        if step in ("kill", "cut", "restart"):
            ready = world.start()
            remembered = set(known(harness.index, range(10)))
            assert ready <= remembered, "a message that is there has an id that is known"
            assert remembered <= ready | world.consumed, "an id that is known belongs to a message that was not lost"
            promised = world.consumed & world.synced
            assert promised <= remembered, "what was consumed after it was synced stays known"
        if step in ("drain", "restart"):
            world.synced = set(known(harness.index, range(10)))
