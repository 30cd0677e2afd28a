"""The machine: a snapshot and the commands after it give the same as all commands, counters match the messages, and a
command that comes twice has one effect."""

from array import array
from math import inf
from random import Random

import hypothesis.strategies as st
from hypothesis import given, settings

from core.engine.quorum.block import BLOCK_MESSAGES_MAX, GONE
from core.engine.quorum.commands import (
    CountersRecord,
    Delete,
    Discard,
    History,
    Messages,
    QueueKey,
    ReturnedRecord,
    Settle,
    as_ranges,
)
from core.engine.quorum.machine import QuorumMachine
from core.message import Attributes, Route

KEY = QueueKey(7, 1)
KINDS = [
    (Attributes(durable=True), None),
    (Attributes(durable=True, ttl_ms=5), None),
    (Attributes(durable=True), Route("e", ("k",))),
    (Attributes(durable=True), Route("e", ("k",), 5)),
    (Attributes(durable=True), Route("e", ("k",), 6)),
]


def messages(first, sizes, *, kind=0, expiry=inf):
    attributes, route = KINDS[kind]
    return Messages(
        attributes, route, array("Q", [first]), array("I", [len(sizes)]), array("d", [expiry]), array("I", sizes), 50
    )


def state(machine):
    """The state of a machine, independent of how messages are spread over blocks."""
    found = {}
    for block in machine.blocks:
        for index, mark in enumerate(block.states):
            if mark != GONE:
                piece = block.piece_at(index)
                (sequence,) = piece.sequences
                found[sequence] = (
                    mark,
                    piece.sizes[0],
                    piece.file,
                    piece.offset,
                    piece.expiry,
                    piece.attributes,
                    piece.route,
                    machine.histories.get(sequence),
                    machine.discards.get(sequence),
                )
    return machine.next_sequence, found


def check(machine):
    """Check the invariants of the machine's documentation, and its counters."""
    _, found = state(machine)
    assert machine.live == len(found)
    assert machine.live_bytes == sum(size for _, size, *_ in found.values())
    assert list(found) == sorted(found)
    assert all(block.live for block in machine.blocks)
    assert set(machine.histories) <= set(found)
    assert set(machine.discards) == {sequence for sequence, (mark, *_) in found.items() if mark}
    assert all(sequence < machine.next_sequence for sequence in found)


class LogOf:
    """A random log of one queue, as its owner could have written it. What it knows of the messages is the model."""

    def __init__(self, rng):
        self.rng = rng
        self.commands = []
        self.next = 0
        self.live = {}
        self.discarded = set()

    def add(self, command):
        self.commands.append((command, 1 + len(self.commands) // 10, 1000 * len(self.commands)))

    def some(self, whence):
        """A few of these messages, in ranges: neighbours, every second or third, or scattered."""
        candidates = sorted(whence)
        if not candidates:
            return []
        start = self.rng.randrange(len(candidates))
        return candidates[start : start + self.rng.randint(1, 30) : self.rng.choice((1, 1, 2, 3))]

    def step(self):
        self.rng.choice(
            [self.enqueue, self.enqueue, self.settle, self.settle, self.come_back, self.discard, self.carry, self.count]
        )()

    def enqueue(self):
        self.next += self.rng.choice((0, 0, 0, 3))  # another priority level took these
        sizes = [self.rng.randrange(100) for _ in range(self.rng.choice((1, 1, 5, 40)))]
        command = messages(
            self.next, sizes, kind=self.rng.choice((0, 0, 1, 2, 3, 4)), expiry=self.rng.choice((inf, inf, 5.0, 6.0))
        )
        for number, size in enumerate(sizes):
            self.live[self.next + number] = (size, command)
        self.next += len(sizes)
        self.add(command)

    def settle(self):
        if settled := self.some(self.live):
            for sequence in settled:
                del self.live[sequence]
                self.discarded.discard(sequence)
            self.add(Settle(as_ranges(settled)))

    def come_back(self):
        if returned := self.some(self.live):
            self.add(ReturnedRecord(as_ranges(returned), History(self.rng.randrange(5), self.rng.choice((b"", b"a")))))

    def discard(self):
        if discarded := self.some(set(self.live) - self.discarded):
            self.discarded.update(discarded)
            self.add(Discard(as_ranges(discarded), self.rng.choice(("rejected", "expired"))))

    def carry(self):
        """Repeat the live messages of one block as the cleaner does, from a machine that has replayed the same log."""
        machine = replayed(self.commands)
        if not machine.blocks:
            return
        block = self.rng.choice(machine.blocks)
        pieces = sorted((p for s in (0, 1) for p in block.pieces(s)), key=lambda piece: piece.sequences[0])
        sequences = [sequence for piece in pieces for sequence in piece.sequences]
        self.add(
            Messages(
                block.attributes,
                block.route,
                array("Q", [piece.sequences[0] for piece in pieces]),
                array("I", [len(piece.sizes) for piece in pieces]),
                array("d", [piece.expiry for piece in pieces]),
                array("I", [size for piece in pieces for size in piece.sizes]),
                60,
                carried=True,
                histories={s: machine.histories[s] for s in sequences if s in machine.histories},
                discards={s: machine.discards[s] for s in sequences if s in machine.discards},
                times=None if block.times is None else array("q", [piece.route.enqueued_ms for piece in pieces]),
            )
        )

    def count(self):
        self.add(CountersRecord(self.next))


def random_log(seed, steps):
    log = LogOf(Random(seed))
    for _ in range(steps):
        log.step()
    return log


def replayed(commands, machine=None):
    machine = machine or QuorumMachine(KEY)
    for command, file, offset in commands:
        machine.apply(command, file, offset)
    return machine


SEEDS = st.integers(0, 2**32)


@settings(max_examples=1000, deadline=None)
@given(SEEDS, st.integers(1, 40), st.data())
def test_replay_is_snapshot_plus_replay(seed, steps, data):
    commands = random_log(seed, steps).commands
    cut = data.draw(st.integers(0, len(commands)))
    machines = QuorumMachine.restored(list(replayed(commands[:cut]).snapshot()))
    resumed = replayed(commands[cut:], machines[KEY])
    whole = replayed(commands)
    check(whole)
    check(resumed)
    assert state(resumed) == state(whole)
    assert resumed.counted_in == whole.counted_in


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.integers(1, 40))
def test_what_lives_is_what_was_published_and_not_settled(seed, steps):
    log = random_log(seed, steps)
    next_sequence, found = state(replayed(log.commands))
    assert next_sequence == log.next
    assert found.keys() == log.live.keys()
    for sequence, (size, command) in log.live.items():
        mark, found_size, _, _, expiry, attributes, route, *_ = found[sequence]
        assert (found_size, expiry, attributes, route) == (
            size,
            command.expiries[0],
            command.attributes,
            command.route,
        )
        assert bool(mark) is (sequence in log.discarded)


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.integers(1, 40), st.data())
def test_commands_that_come_twice_change_nothing(seed, steps, data):
    commands = random_log(seed, steps).commands
    twice = [command for command in commands for _ in range(data.draw(st.integers(1, 2)))]
    assert state(replayed(twice)) == state(replayed(commands))


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.integers(1, 40), st.data())
def test_a_lost_command_costs_what_it_said_and_no_more(seed, steps, data):
    log = random_log(seed, steps)
    lost = data.draw(st.integers(0, len(log.commands) - 1)) if log.commands else 0
    command = log.commands[lost][0] if log.commands else None
    machine = replayed(log.commands[:lost] + log.commands[lost + 1 :])
    check(machine)
    _, found = state(machine)
    missing = log.live.keys() - found.keys()
    if isinstance(command, Messages):
        assert missing <= {
            first + number for first, n in zip(command.firsts, command.counts, strict=True) for number in range(n)
        }
    else:
        assert not missing
    if isinstance(command, Settle):
        assert found.keys() - log.live.keys() <= {sequence for each in command.ranges for sequence in each}
    else:
        assert found.keys() <= log.live.keys()


def test_known_messages_are_not_taken_again():
    machine = replayed([(messages(0, [5, 6]), 1, 0), (Settle([range(1)]), 1, 100), (messages(0, [5, 6]), 1, 200)])
    assert list(state(machine)[1]) == [1]


def test_a_deleted_queue_has_nothing():
    machine = replayed([(messages(0, [5, 6]), 1, 0), (Delete(), 1, 100)])
    check(machine)
    assert (machine.live, list(machine.snapshot())[1:]) == (0, [])


def test_bodies_lie_one_behind_the_other():
    machine = replayed([(messages(3, [5, 6, 7]), 2, 1000)])
    assert [(piece.offset, list(piece.sizes)) for piece in machine.ready(0)] == [(1050, [5, 6, 7])]
    assert [piece.offset for piece in machine.pieces_of([5, 3, 9])] == [1061, 1050]
    (rest,) = machine.ready(4)
    assert (rest.sequences, rest.offset) == (range(4, 6), 1055)


def test_carried_messages_take_the_place_of_all_between_them():
    commands = [(messages(number, [9]), 1, 100 * number) for number in range(10)]
    carried = messages(2, [9, 9])
    carried.carried = True
    carried.firsts = array("Q", [2, 5])
    carried.counts = array("I", [1, 1])
    carried.expiries = array("d", [inf, inf])
    machine = replayed([*commands, (carried, 2, 0)])
    check(machine)
    assert {sequence: where[2] for sequence, where in state(machine)[1].items()} == {
        0: 1, 1: 1, 2: 2, 5: 2, 6: 1, 7: 1, 8: 1, 9: 1
    }  # fmt: skip


def test_blocks_are_bounded_and_dropped_when_nothing_lives_in_them():
    count = 3 * BLOCK_MESSAGES_MAX
    machine = replayed([(messages(number, [1]), 1, 100 * number) for number in range(count)])
    assert [len(block) for block in machine.blocks] == [BLOCK_MESSAGES_MAX] * 3
    machine.settle([range(BLOCK_MESSAGES_MAX // 2, count - 5)])
    assert [block.live for block in machine.blocks] == [BLOCK_MESSAGES_MAX // 2, 5]
    check(machine)
