"""Publishing ids of a quorum queue follow from the command log alone, whatever else is in it and wherever it begins."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.engine.quorum.commands import CountersRecord, QueueKey, TakenIds, decode, encode
from core.message import Attributes, Run, RunPart
from core.taken_numbers import KnownId, PublishingId
from tests.kit.engine import NOW
from tests.kit.quorum_log import QuorumNode

DURABLE = Attributes(durable=True)
QUEUE = 5
RANGES_MAX = 20


class Named:
    """A queue's backing, and its node."""

    def __init__(self, node=None, ranges_max=RANGES_MAX):
        self.node = node or QuorumNode(file_bytes=4096)
        self.backing = self.node.queues.backing(QUEUE)
        self.next = self.node.queues.next_sequence(QUEUE)
        self.taken = self.backing.taken_names(ranges_max)

    def publish(self, *numbers, publisher="p", size=1):
        part = RunPart(Run(0, [b"x" * size] * len(numbers), DURABLE), 0, len(numbers))
        part.names = [PublishingId(publisher, number) for number in numbers]
        self.backing.publish_run(part, self.next, NOW)
        self.next += len(numbers)

    def consume(self):
        while (batch := self.backing.fetch(100)) is not None:
            self.backing.settle(batch)

    def known(self, numbers, publisher="p"):
        return [number for number in numbers if self.taken.known(PublishingId(publisher, number)) is KnownId.TAKEN]

    def restart(self, *, clean=False):
        return Named(self.node.restart(clean=clean))


@pytest.mark.parametrize("clean", [False, True])
def test_ids_outlive_a_start_and_the_messages(clean):
    named = Named()
    named.publish(0, 1, 2, 9)
    named.node.commit()
    named.consume()
    named.node.commit()
    assert named.restart(clean=clean).known(range(12)) == [0, 1, 2, 9]
    assert named.restart(clean=clean).restart(clean=clean).known(range(12)) == [0, 1, 2, 9]


def test_a_repeat_is_known_before_its_command_is_committed_and_lost_with_it():
    named = Named()
    named.publish(0)
    assert named.known([0]) == [0]
    cut = Named(named.node.after_power_cut(Random(1)))
    assert cut.known([0]) == ([0] if cut.backing.depth else [])


def test_ids_outlive_the_files_of_the_log():
    named = Named()
    named.publish(0, 7)
    for number in range(20, 60):
        named.publish(number, publisher="q", size=1000)
        named.node.commit()
        named.consume()
        named.node.commit()
    assert min(named.node.log.files()) > 1, "the first file was removed"
    again = named.restart()
    assert again.known(range(10)) == [0, 7]
    assert again.known(range(60), "q") == list(range(20, 60))


def test_the_state_of_a_queue_that_is_set_aside_has_its_ids():
    named = Named()
    named.publish(3)
    named.node.commit()
    commands = [decode(payload)[1] for payload in named.node.queues.commands_of(QUEUE)]
    assert commands[-1] == CountersRecord(1, TakenIds(RANGES_MAX, [["p", 0, 3, 4]]))


def test_counters_without_ids_are_encoded_as_before():
    assert decode(encode(QueueKey(1), CountersRecord(7)))[1] == CountersRecord(7)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.lists(st.integers(0, 30), min_size=1, max_size=4, unique=True)),
        max_size=25,
    ),
    st.integers(2, 5),
)
def test_what_the_log_says_is_what_the_leader_remembers(published, ranges_max):
    named = Named(ranges_max=ranges_max)
    for publisher, numbers in published:
        named.publish(*numbers, publisher=publisher)
    named.node.commit()
    machine = named.node.queues._machine(QueueKey(QUEUE))
    told = [] if machine.taken is None else machine.taken.packed()
    assert told == named.taken.packed()
    again = Named(named.node.restart(), ranges_max=ranges_max)
    assert again.taken.packed() == told
