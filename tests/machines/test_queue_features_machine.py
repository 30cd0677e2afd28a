"""A queue with limits, times to live, priorities and dead letters, compared with a record of each message's end.

Every published message must be in exactly one place: accepted by a consumer, dead-lettered, dropped for a reason that
is counted, rejected at publish, moved away, or still in the queue. The record is kept by body. The model does not
repeat how the queue decides.
"""

from collections import Counter

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from core.clock import Now
from core.errors import PreconditionFailed
from core.interface import Confirmed, Consumer, Delivered, Disposal, Outcome, QueueTarget, TakenBack
from core.message import Attributes, Return
from core.slices import run_at_once
from tests.kit.dead_letters import PlainConverter, body
from tests.kit.engine import NOW, Peer, assert_sums_are_right, bodies, later, make_broker, queue

ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "x_max_length": st.integers(0, 8),
        "x_max_length_bytes": st.integers(0, 12),
        "x_overflow": st.sampled_from(["drop-head", "reject-publish", "reject-publish-dlx", "block"]),
        "x_message_ttl": st.sampled_from([0, 50, 1000]),
        "x_max_priority": st.integers(1, 5),
        "x_consumer_timeout": st.just(2000),
        "x_single_active_consumer": st.just(True),
    },
)


class FeaturesMachine(RuleBasedStateMachine):
    """One queue under test, one publisher, up to three consumers, and a clock that the machine moves."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = make_broker("away", converter=PlainConverter())
        self.peer = Peer(self.broker)
        self.now: Now = NOW
        self.published = 0
        self.confirmed: dict[int, Outcome] = {}
        self.held: dict[Consumer, dict[int, int]] = {}
        self.accepted: set[int] = set()
        self.purged = 0

    @initialize(arguments=ARGUMENTS, dead_letters=st.sampled_from(["none", "queue", "nowhere"]))
    def declare(self, arguments: dict[str, object], dead_letters: str) -> None:
        self.broker.declare_queue(queue("dead"), "x")
        if dead_letters != "none":
            arguments = {**arguments, "x_dead_letter_exchange": "" if dead_letters == "queue" else "no such exchange"}
            arguments["x_dead_letter_routing_key"] = "dead"
        self.arguments = arguments
        self.broker.declare_queue(queue("q", **arguments), "x")

    # --- operations

    @rule(
        count=st.integers(1, 7),
        priority=st.integers(0, 6),
        ttl_ms=st.sampled_from([None, None, 0, 20, 500]),
        fixed=st.booleans(),
    )
    def publish(self, count: int, priority: int, ttl_ms: int | None, fixed: bool) -> None:
        attributes = Attributes(priority=priority, ttl_ms=ttl_ms)
        self.peer.publish("q", bodies(count, self.published), attributes, anonymous=not fixed)
        self.published += count

    @rule(budget=st.sampled_from([None, None, 1, 4]))
    def slow_the_dead_letters_down(self, budget: int | None) -> None:
        self.broker.set_stage_budget("dead", budget)

    @precondition(lambda self: len(self.held) < 3)
    @rule(n=st.integers(0, 6))
    def attach(self, n: int) -> None:
        self.held[self.peer.consume("q", n)] = {}

    @precondition(lambda self: self.held)
    @rule(data=st.data(), n=st.integers(0, 9), drain=st.booleans())
    def grant(self, data: st.DataObject, n: int, drain: bool) -> None:
        self.broker.grant(data.draw(st.sampled_from(list(self.held))), n, drain)

    @precondition(lambda self: any(self.held.values()))
    @rule(
        data=st.data(),
        disposal=st.sampled_from(
            [*Disposal, Return(), Return(delivery_failed=True), Return(undeliverable_here=True), Return(unsent=True)]
        ),
    )
    def settle(self, data: st.DataObject, disposal: Disposal | Return) -> None:
        consumer = data.draw(st.sampled_from([consumer for consumer, held in self.held.items() if held]))
        numbers = sorted(self.held[consumer])
        first = data.draw(st.sampled_from(numbers))
        last = first + data.draw(st.integers(0, 5))
        self.broker.settle(consumer, first, last, disposal)
        for number in [number for number in numbers if first <= number <= last]:
            message = self.held[consumer].pop(number)
            if disposal is Disposal.ACCEPTED:
                assert message not in self.accepted
                self.accepted.add(message)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(list(self.held)))
        del self.held[consumer]
        self.broker.cancel(consumer)

    @rule()
    def purge(self) -> None:
        self.purged += run_at_once(self.broker.purge_queue("q", "x"))

    @rule(n=st.integers(1, 5))
    def look(self, n: int) -> None:
        before = self.shown()
        self.broker._queues["q"].peek(n)
        assert self.broker.queue_info("q", "x").ready == before["messages_ready"]

    @rule(n=st.integers(1, 5))
    def move(self, n: int) -> None:
        try:
            self.broker._queues["q"].move(QueueTarget("away"), n)
        except PreconditionFailed:
            return
        self.broker._pump.touch(self.broker._queues["q"])

    @rule(seconds=st.sampled_from([0.0, 0.0, 0.03, 0.6, 3.0]))
    def turn(self, seconds: float) -> None:
        self.now = later(self.now.monotonic - NOW.monotonic + seconds)
        self.broker.turn(self.now)
        self.listen()
        self.check_the_book()

    # --- their results

    def listen(self) -> None:
        for action in self.peer.mailbox.take():
            if isinstance(action, Confirmed):
                for number in range(action.first, action.last + 1):
                    assert number not in self.confirmed, "one answer each"
                    self.confirmed[number] = action.outcome
                    assert (action.outcome is Outcome.REJECTED) == (action.error is not None)
            elif isinstance(action, Delivered):
                held = self.held[action.consumer]
                for number, entry in enumerate(action.entries, action.first):
                    held[number] = int(entry)
            elif isinstance(action, TakenBack):
                for number in range(action.first, action.last + 1):
                    del self.held[action.consumer][number]
        everywhere = Counter(message for held in self.held.values() for message in held.values())
        assert not everywhere or max(everywhere.values()) == 1, "nobody holds what another holds"
        assert not self.accepted & everywhere.keys()

    def check_the_book(self) -> None:
        shown = self.shown()
        refused = sum(outcome is Outcome.REJECTED for outcome in self.confirmed.values())
        copies = self.arguments.get("x_overflow") == "reject-publish-dlx"
        dropped, dead_lettered = shown["dropped"], shown["dead_lettered"]
        here = shown["messages_waiting"] + shown["messages_ready"] + shown["messages_unacknowledged"]
        gone = len(self.accepted) + self.purged + sum(dropped.values()) + sum(dead_lettered.values())
        under_way = shown["dead_letters_waiting"] + shown["messages_moving"] + shown["moved"]
        assert shown["messages_unacknowledged"] == sum(map(len, self.held.values()))
        assert shown["refused"] == refused
        assert here + gone + under_way == self.published - (0 if copies else refused)
        assert len(self.confirmed) == self.published - shown["messages_waiting"]
        self.check_limits(shown)
        assert_sums_are_right(self.broker)

    def check_limits(self, shown: dict) -> None:
        if self.arguments.get("x_overflow", "drop-head") == "drop-head" and "x_max_length" in self.arguments:
            assert shown["messages_ready"] <= self.arguments["x_max_length"]

    def shown(self) -> dict:
        return self.broker.snapshot("queues", "q")[0]

    def teardown(self) -> None:
        """Let everything under way arrive; then every body is in exactly one place."""
        if not hasattr(self, "arguments"):
            return
        for name in ("dead", "q"):
            self.broker.set_stage_budget(name, None)
        for _ in range(30):
            self.broker.turn(self.now)
            self.listen()
        self.check_the_book()
        shown = self.shown()
        assert shown["dead_letters_waiting"] == 0
        assert sorted(self.confirmed) == list(range(self.published))
        dead = [int(body(one.entry)) for one in self.broker._queues["dead"].peek(100)]
        away = [int(body(one.entry)) for one in self.broker._queues["away"].peek(100)]
        ready = [int(body(one.entry)) for one in self.broker._queues["q"].peek(100)]
        held = [message for messages in self.held.values() for message in messages.values()]
        if all(self.broker.queue_info(name, "x").ready < 100 for name in ("dead", "away", "q")):
            everything = Counter([*dead, *away, *ready, *held, *self.accepted])
            assert not everything or max(everything.values()) == 1
            assert len(dead) == sum(shown["dead_lettered"].values())


TestQueueFeatures = FeaturesMachine.TestCase
TestQueueFeatures.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
