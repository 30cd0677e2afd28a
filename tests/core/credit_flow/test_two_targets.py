"""The effect of {400, 200} on two targets of one connection, one of them slow, computed for comparison with
measurements.

A chain of reader, channels and two queues is run in turns. The classic queue takes everything on at once. The quorum
queue takes on a fixed number of messages a turn, as a disk lets it. The client has two publishers that write at the
same speed, in runs, so its socket holds both queues' messages in equal shares. While the reader does not read, neither
publisher can write.
"""

from collections import Counter
from functools import cache

import pytest

from core.credit_flow.flow import CreditFlow, StageCreditSpec
from tests.kit.cases import case
from tests.kit.settings import GENERAL, TO_STORE

TURNS = 2_000
READ_MAX = 3_000
"""Messages that the reader takes from the socket in one turn, when nothing blocks it: far more than the slow queue."""

CLASSIC, QUORUM = "classic", "quorum"


class Chain:
    """A connection whose publishes go to two queues through one channel or through two."""

    def __init__(self, *, channels: int, quorum_per_turn: int, run: int, spec: StageCreditSpec = GENERAL) -> None:
        self.reader = CreditFlow("reader", spec)
        self.channels = [CreditFlow(f"channel {number}", spec) for number in range(channels)]
        self.way = {CLASSIC: self.channels[0], QUORUM: self.channels[-1]}
        self.queues = {name: CreditFlow(name, spec) for name in (CLASSIC, QUORUM)}
        self.quorum_per_turn = quorum_per_turn
        self.run = run
        self.read = 0
        self.waiting = 0
        """Messages that wait in the quorum queue's stage."""
        self.waiting_max = 0
        self.taken_on: Counter[str] = Counter()

    def turn(self, now: float) -> None:
        for _ in range(READ_MAX):
            if self.reader.blocked:
                break
            self._pass_on(self._next_target(), now)
        self.waiting_max = max(self.waiting_max, self.waiting)
        done = min(self.waiting, self.quorum_per_turn)
        self.waiting -= done
        self._take_on(QUORUM, done)

    def _next_target(self) -> str:
        """The target of the next message in the socket."""
        target = (CLASSIC, QUORUM)[self.read // self.run % 2]
        self.read += 1
        return target

    def _pass_on(self, target: str, now: float) -> None:
        channel = self.way[target]
        self.reader.send(channel, 1, now)
        channel.ack(self.reader, 1)
        channel.send(self.queues[target], 1, now)
        if target == CLASSIC:
            self._take_on(CLASSIC, 1)
        else:
            self.waiting += 1

    def _take_on(self, target: str, n: int) -> None:
        self.queues[target].ack(self.way[target], n)
        self.taken_on[target] += n


@cache
def run_chain(*, turns: int = TURNS, **options: int) -> Chain:
    """Run the chain with the parameters that all tests share."""
    chain = Chain(**options)
    for turn in range(turns):
        chain.turn(turn / 1000)
    return chain


each_way = pytest.mark.parametrize(
    ("channels", "quorum_per_turn", "run"),
    [(1, 15, 1), (2, 15, 1), (2, 15, 100), (1, 15, 100), (2, 150, 10), (2, 199, 1)],
)


@each_way
@case("engine", "3.8")
def test_row_3_08_both_targets_get_the_same_on_one_connection(channels: int, quorum_per_turn: int, run: int):
    """row 3.8: the classic queue is ahead by at most the messages that wait for the other queue, and one run in the
    socket."""
    chain = run_chain(channels=channels, quorum_per_turn=quorum_per_turn, run=run)
    ahead = chain.taken_on[CLASSIC] - chain.taken_on[QUORUM]
    assert 0 <= ahead <= 2 * GENERAL.initial + run
    assert chain.taken_on[CLASSIC] / chain.taken_on[QUORUM] <= 1 + (2 * GENERAL.initial + run) / chain.taken_on[QUORUM]
    assert chain.taken_on[CLASSIC] / chain.taken_on[QUORUM] < 1.04


@each_way
def test_row_3_08_the_slow_target_is_never_without_work(channels: int, quorum_per_turn: int, run: int):
    """The quorum queue takes on as many messages as if it were alone: the numbers {400, 200} do not slow it."""
    chain = run_chain(channels=channels, quorum_per_turn=quorum_per_turn, run=run)
    assert chain.taken_on[QUORUM] == TURNS * quorum_per_turn


@each_way
def test_row_0_30_what_waits_for_the_slow_target_is_bounded(channels: int, quorum_per_turn: int, run: int):
    chain = run_chain(channels=channels, quorum_per_turn=quorum_per_turn, run=run)
    assert GENERAL.initial <= chain.waiting_max <= 2 * GENERAL.initial


@each_way
def test_row_3_08_how_often_the_reader_is_blocked(channels: int, quorum_per_turn: int, run: int):
    """The reader is blocked once for every 200 to 600 messages of the slow target. A grant of 200 unblocks the channel
    when it owes less. Before that the channel makes up for what the reader sent meanwhile, 400 messages at most."""
    chain = run_chain(channels=channels, quorum_per_turn=quorum_per_turn, run=run)
    taken_on, spec = chain.taken_on[QUORUM], GENERAL
    assert taken_on // (spec.initial + spec.more_after) <= chain.reader.blocks <= taken_on // spec.more_after + 2


def test_a_target_that_is_not_slow_holds_up_no_sender():
    chain = run_chain(turns=50, channels=2, quorum_per_turn=READ_MAX, run=1)
    assert chain.taken_on[CLASSIC] == chain.taken_on[QUORUM]
    assert chain.waiting_max <= 2 * GENERAL.initial


@pytest.mark.parametrize("slow", [1, 2, 3])
def test_row_0_31_a_block_on_any_edge_stops_the_reader(slow: int):
    """The stage of this number takes on no messages. Before the reader stops, it reads as many messages as the edges
    allow."""
    stages = [CreditFlow(name, GENERAL) for name in ("reader", "channel", "queue")]
    stages.append(CreditFlow("store", TO_STORE))
    read = 0
    while not stages[0].blocked:
        read += 1
        assert read <= 10_000
        stages[0].send(stages[1], 1, 0.0)
        for upstream, stage, downstream in zip(stages, stages[1:slow], stages[2:], strict=False):
            stage.ack(upstream, 1)
            stage.send(downstream, 1, 0.0)
    assert read == sum(stage.spec.initial for stage in stages[1 : slow + 1])
    assert [stage.blocked for stage in stages] == [number < slow for number in range(4)]


def test_row_0_30_the_reader_goes_on_when_the_store_does():
    """A worked example: nothing is read while the store writes nothing, and 200 more messages for every 800 that it
    writes."""
    reader, channel, queue = (CreditFlow(name, GENERAL) for name in ("reader", "channel", "queue"))
    store = CreditFlow("store", TO_STORE)
    read = 0
    while not reader.blocked:
        reader.send(channel, 1, 0.0)
        for upstream, stage, downstream in ((reader, channel, queue), (channel, queue, store)):
            stage.ack(upstream, 1)
            stage.send(downstream, 1, 0.0)
        read += 1
    assert read == 4800
    assert queue.blocked_by == (store,)
    assert queue.account(store).room == -800  # it still forwarded what came
    store.ack(queue, 800)
    assert queue.blocked
    assert reader.blocked
    store.ack(queue, 800)
    assert not queue.blocked
    assert not channel.blocked
    assert reader.room(channel) == 400
