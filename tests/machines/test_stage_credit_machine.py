"""Stage credit with everything that can happen to channels, queues and lanes: none of it is lost and none is made.

When everything has come to rest, no party is blocked, and every party that still exists may send as much as at first.
"""

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from core.credit_flow.flow import CreditFlow, StageCreditSpec
from core.engine.queue.store_stage import STORE
from core.interface import Disposal, ExchangeTarget, Publisher, QueueTarget, Target
from core.message import Attributes, Return, Run
from core.slices import run_at_once
from tests.kit.engine import NOW, binding, queue
from tests.kit.kept_broker import KeptBroker
from tests.kit.settings import make_settings
from tests.kit.storage import lanes, sync, write

SPEC = StageCreditSpec(8, 4)
STORE_SPEC = StageCreditSpec(6, 3)
SETTINGS = make_settings(
    stage_credit={
        "initial": SPEC.initial,
        "more_after": SPEC.more_after,
        "store_initial": STORE_SPEC.initial,
        "store_more_after": STORE_SPEC.more_after,
    }
)
QUEUES = {
    "classic": {},
    "lazy": {"x_queue_mode": "lazy"},
    "short": {"x_max_length": 3, "x_overflow": "reject-publish"},
    "priorities": {"x_max_priority": 2},
    "quorum": {"x_queue_type": "quorum"},
    "full": {"x_queue_type": "quorum", "x_max_length": 3, "x_overflow": "reject-publish"},
    "stream": {"x_queue_type": "stream"},
    "safe": {"x_queue_type": "stream", "x_sync": "always"},
}
NAMES = st.sampled_from(list(QUEUES))


@dataclass(eq=False)
class Channel:
    """A publisher with stage credit, its reader, and what it would publish next."""

    publisher: Publisher
    stage: CreditFlow
    reader: CreditFlow
    number: int = 0


class StageCreditMachine(RuleBasedStateMachine):
    """Channels publish to queues of all types. Lanes move one batch at a time."""

    @initialize()
    def start(self) -> None:
        self.one = KeptBroker(settings=SETTINGS)
        self.channels: list[Channel] = []
        for name in QUEUES:
            self.declare(name)

    @rule(name=NAMES)
    def declare(self, name: str) -> None:
        self.one.broker.declare_queue(queue(name, **QUEUES[name]), "x")
        self.one.broker.bind(binding("amq.fanout", name), "x")

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.one.broker.delete_queue(name, "x")

    @rule()
    def open(self) -> None:
        peer = self.one.peer
        stage = CreditFlow("channel", SPEC)
        publisher = self.one.broker.publisher(peer.mailbox, peer.owner, None, "channel", stage)
        self.channels.append(Channel(publisher, stage, CreditFlow("reader", SPEC)))

    @precondition(lambda self: self.channels)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        channel = data.draw(st.sampled_from(self.channels))
        self.channels.remove(channel)
        self.one.broker.retire(channel.publisher)

    @precondition(lambda self: self.channels)
    @rule(
        data=st.data(),
        name=NAMES | st.none(),
        count=st.integers(1, 20),
        large=st.booleans(),
        durable=st.booleans(),
        priority=st.integers(0, 9),
    )
    def publish(
        self, data: st.DataObject, name: str | None, count: int, large: bool, durable: bool, priority: int
    ) -> None:
        channel = data.draw(st.sampled_from(self.channels))
        target: Target = ExchangeTarget("amq.fanout", "") if name is None else QueueTarget(name)
        if isinstance(target, QueueTarget) and not self.one.broker.snapshot("queues", target.queue):
            return
        channel.reader.send(channel.stage, count, NOW.monotonic)
        run = Run(
            channel.number, [b"x" * (5000 if large else 5)] * count, Attributes(durable=durable, priority=priority)
        )
        channel.number += count
        self.one.broker.publish(channel.publisher, target, run, NOW)
        channel.stage.ack(channel.reader, count)

    @rule(name=NAMES, budget=st.none() | st.integers(0, 5))
    def slow_down(self, name: str, budget: int | None) -> None:
        if self.one.broker.snapshot("queues", name):
            self.one.broker.set_stage_budget(name, budget)

    @rule(name=st.sampled_from(["classic", "lazy", "short", "priorities", "quorum", "full"]), disposal=st.booleans())
    def consume(self, name: str, disposal: bool) -> None:
        if not self.one.broker.snapshot("queues", name):
            return
        consumer = self.one.peer.consume(name, 5)
        self.one.broker.turn(NOW)
        self.one.broker.settle(consumer, 0, 9, Disposal.ACCEPTED if disposal else Return(delivery_failed=True))
        self.one.broker.cancel(consumer)

    @rule(name=st.sampled_from(["classic", "quorum"]), purged=st.booleans())
    def purge_or_move(self, name: str, purged: bool) -> None:
        if not self.one.broker.snapshot("queues", name):
            return
        if purged:
            run_at_once(self.one.broker.purge_queue(name, "x"))
        elif self.one.broker.snapshot("queues", "lazy") and not self._moving(name):
            self.one.broker.move_messages(name, QueueTarget("lazy"), None)

    def _moving(self, name: str) -> bool:
        move = self.one.shown(name)["last_move"]
        return isinstance(move, dict) and not move["done"]

    @rule(ratio=st.sampled_from([0, 1, 4]))
    def memory(self, ratio: int) -> None:
        self.one.broker.memory_sampled(ratio, 2, NOW)

    @rule()
    def turn(self) -> None:
        self.one.broker.turn(NOW)

    @rule(lane=st.integers(0, 2), written=st.booleans())
    def move_lane(self, lane: int, written: bool) -> None:
        moved = lanes(self.one.storage)[lane]
        if written:
            write(moved, self.one.disk)
        else:
            sync(moved, self.one.disk, NOW.monotonic)

    @rule()
    def kill(self) -> None:
        """Kill the broker; all its clients are gone, too."""
        self.channels.clear()
        self.one.kill()

    def _stages(self) -> list[CreditFlow]:
        return [queue.stage_credit for queue in self.one.broker._queues.values()]

    @invariant()
    def nothing_is_owed_below_zero(self) -> None:
        for channel in self.channels:
            for stage in self._stages():
                assert owed(channel.stage, stage) >= 0
                assert channel.stage.blocked == any(channel.stage.account(peer).room <= 0 for peer in self._stages())

    def teardown(self) -> None:
        if not hasattr(self, "one"):
            return
        for name in self.one.broker._queues:
            self.one.broker.set_stage_budget(name, None)
        self.one.run()
        for stage in self._stages():
            senders = [peer for peer in stage.peers if peer.name != STORE]
            assert set(senders) <= {channel.stage for channel in self.channels}
            assert not stage.blocked
            for peer in stage.peers:
                assert owed(*((stage, peer) if peer.name == STORE else (peer, stage))) == 0
        for channel in self.channels:
            assert not channel.stage.blocked
            assert not channel.reader.blocked
            assert set(channel.stage.peers) <= {channel.reader, *self._stages()}
            assert owed(channel.reader, channel.stage) == 0


def owed(sender: CreditFlow, receiver: CreditFlow) -> int:
    """How many messages were sent and not acknowledged."""
    back = receiver.account(sender)
    return (
        receiver.spec.initial
        - sender.account(receiver).room
        - back.deferred
        - (receiver.spec.more_after - back.until_grant)
    )


TestStageCredit = StageCreditMachine.TestCase
TestStageCredit.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
