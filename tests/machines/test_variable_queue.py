"""A classic queue on a real store against a model: no message is lost, doubled or out of order, whatever is paged.

The model knows the ready messages in order, and those that a consumer holds or gave back. After each step all
invariants of the queue are checked, and its counts are compared with the model's. After each restart the queue is
compared with what must be on disk: after a stop in order, all durable messages that are not settled; after a kill,
those of the last write.
"""

from dataclasses import dataclass, replace

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from core.engine.ready.batch import Batch
from core.engine.ready.remains import Remains
from core.message import Attributes, Expiries, Route, Routes, RunAttributes, each_of, part_of
from core.store.places import SEGMENT_MESSAGES
from tests.kit.engine import later
from tests.kit.variable_queues import EMBED_BELOW, FINE, Bench

ROUTES = [None, None, Route("orders", ("new",))]
PRIORITIES = [4, 4, 9]
EXPIRIES = [None, None, 5.0]


def facts(values: list) -> st.SearchStrategy:
    """One of the values for all messages, or a list with one for each."""
    return st.sampled_from(values) | st.lists(st.sampled_from(values), min_size=7, max_size=7)


@dataclass(frozen=True)
class Message:
    """What the model knows of a message."""

    sequence: int
    body: bytes
    attributes: Attributes
    expires_at: float | None
    route: Route | None
    redelivered: bool = False


class VariableQueueMachine(RuleBasedStateMachine):
    """One queue, one consumer, and a lane that is written when a step says so."""

    @initialize(
        durable=st.sampled_from([True, True, True, False]),
        lazy=st.booleans(),
        place_messages=st.sampled_from([2, 5, 1024]),
    )
    def begin(self, durable: bool, lazy: bool, place_messages: int) -> None:
        self.bench = Bench(durable=durable, lazy=lazy, paging=replace(FINE, place_messages=place_messages))
        self.ready: list[Message] = []
        self.messages: dict[int, Message] = {}
        self.held: list[Batch] = []
        self.returned: list[Batch] = []
        self.safe: dict[int, Message] = {}
        """What a start would find after a kill: durable messages that were not settled at the last write."""

    # --- messages come

    @rule(
        count=st.integers(1, 7),
        durable=st.booleans(),
        size=st.sampled_from([4, 4, 20, EMBED_BELOW + 10]),
        priorities=facts(PRIORITIES),
        expiries=facts(EXPIRIES),
        routes=facts(ROUTES),
    )
    def publish(
        self, count: int, durable: bool, size: int, priorities: int | list[int], expiries: Expiries, routes: Routes
    ) -> None:
        attributes: RunAttributes
        if isinstance(priorities, list):
            attributes = [Attributes(durable=durable, priority=priority) for priority in priorities[:count]]
        else:
            attributes = Attributes(durable=durable, priority=priorities)
        expiries, routes = part_of(expiries, 0, count), part_of(routes, 0, count)
        messages = self._new(count, attributes, size, expiries, routes)
        bodies = [message.body for message in messages]
        position = self.bench.publish(bodies, attributes, expires_at=expiries, routes=routes)
        assert (position is not None) == (durable and self.bench.durable)
        self.ready += messages

    @precondition(lambda self: not self.ready and not self.returned)
    @rule(count=st.integers(1, 5), durable=st.booleans())
    def pass_on(self, count: int, durable: bool) -> None:
        attributes = Attributes(durable=durable)
        bodies = [message.body for message in self._new(count, attributes, 4, None, None)]
        batch = self.bench.pass_on(bodies, attributes)
        assert batch.entries == bodies
        self.held.append(batch)

    def _new(
        self, count: int, attributes: RunAttributes, size: int, expiries: Expiries, routes: Routes
    ) -> list[Message]:
        first = self.bench.next_sequence
        each = zip(
            range(first, first + count), each_of(attributes, count), each_of(expiries, count), each_of(routes, count),
            strict=True,
        )  # fmt: skip
        messages = [
            Message(sequence, b"%d." % sequence + bytes(size), one, expiry, route)
            for sequence, one, expiry, route in each
        ]
        self.messages.update({message.sequence: message for message in messages})
        return messages

    @rule(before_boundary=st.integers(0, 4))
    def pass_over_numbers(self, before_boundary: int) -> None:
        """Skip sequence numbers, as if other priority levels had taken them, so that a few messages fill a segment."""
        boundary = (self.bench.next_sequence // SEGMENT_MESSAGES + 1) * SEGMENT_MESSAGES
        self.bench.next_sequence = max(self.bench.next_sequence, boundary - before_boundary)

    # --- messages go

    @rule(n=st.integers(1, 9))
    def fetch(self, n: int) -> None:
        batch = self.bench.queue.fetch(n)
        if batch is None:
            assert not self.ready
            return
        expected = self.ready[: len(batch)]
        del self.ready[: len(batch)]
        assert 1 <= len(batch) <= n
        self._compare(batch, expected)
        if self.ready and not self.bench.lazy:
            _q1, _q2, _delta, q3, q4 = self.bench.where()
            assert q3 or q4
        assert [message.redelivered for message in expected] == [not batch.first_acquirer] * len(batch)
        self.held.append(batch)

    def _compare(self, batch: Batch, expected: list[Message]) -> None:
        assert list(batch.sequences) == [message.sequence for message in expected]
        assert batch.entries == [message.body for message in expected]
        count = len(expected)
        assert each_of(batch.attributes, count) == [message.attributes for message in expected]
        assert each_of(batch.expires_at, count) == [message.expires_at for message in expected]
        assert each_of(batch.routes, count) == [message.route for message in expected]

    @rule()
    def head_expires(self) -> None:
        assert self.bench.queue.head_expires_at == (self.ready[0].expires_at if self.ready else None)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), step=st.integers(1, 3))
    def settle(self, data: st.DataObject, step: int) -> None:
        batch = self._take(data, self.held)
        for part in (batch.part(start, len(batch), step) for start in range(min(step, len(batch)))):
            if data.draw(st.booleans()):
                for sequence in part.sequences:
                    del self.messages[sequence]
                self.bench.queue.settle(part)
            else:
                self.held.append(part)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        batch = self._take(data, self.held)
        self.bench.queue.give_back(batch)
        self.returned.append(batch)

    @precondition(lambda self: self.returned)
    @rule(data=st.data())
    def fetch_again(self, data: st.DataObject) -> None:
        batch = self._take(data, self.returned)
        if batch.paged:
            self.bench.queue.restore(batch)
        self._compare(batch, [self.messages[sequence] for sequence in batch.sequences])
        self.held.append(batch)

    def _take(self, data: st.DataObject, batches: list[Batch]) -> Batch:
        return batches.pop(data.draw(st.integers(0, len(batches) - 1)))

    @rule()
    def purge(self) -> None:
        assert self.bench.queue.purge(Remains().let_go) == len(self.ready)
        for message in self.ready:
            del self.messages[message.sequence]
        self.ready = []

    # --- memory

    @rule(target_s=st.sampled_from([0.0, 0.01, 0.5, 2.0, float("inf")]), reduce=st.booleans())
    def press(self, target_s: float, reduce: bool) -> None:
        self.bench.press(target_s)
        if reduce:
            self.bench.reduce()
            self._page_acks()

    @rule()
    def page(self) -> None:
        self.bench.queue.reduce_memory_use(later(self.bench.seconds))
        self._page_acks()

    def _page_acks(self) -> None:
        queue = self.bench.queue
        wanted = queue.acks_to_page
        before = queue.ram_acks
        assert wanted <= before
        paged = queue.page_out([*self.held, *self.returned])
        assert paged >= wanted
        assert queue.ram_acks == before - paged

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0]))
    def report(self, seconds: float) -> None:
        self.bench.seconds += seconds
        assert self.bench.queue.report(later(self.bench.seconds).monotonic) >= 0

    @rule(lazy=st.booleans(), reduce=st.booleans())
    def set_lazy(self, lazy: bool, reduce: bool) -> None:
        self.bench.lazy = lazy
        self.bench.queue.set_lazy(lazy)
        if reduce:
            self.bench.reduce()
            if lazy:
                assert self.bench.where()[:2] == (0, 0)
                assert self.bench.where()[4] == 0

    # --- the disk

    @rule()
    def write(self) -> None:
        self.bench.write()
        self.safe = self._durable()

    def _durable(self) -> dict[int, Message]:
        return {sequence: message for sequence, message in self.messages.items() if message.attributes.durable}

    @precondition(lambda self: self.bench.durable)
    @rule()
    def stop_in_order(self) -> None:
        left = self._durable()
        head = self.ready[0].sequence if self.ready else self.bench.next_sequence
        self.bench.stop_in_order()
        self._start_with(left, redelivered_below=head)

    @precondition(lambda self: self.bench.durable)
    @rule()
    def kill(self) -> None:
        self.bench.kill()
        self._start_with(self.safe, redelivered_below=self.bench.next_sequence)

    def _start_with(self, left: dict[int, Message], *, redelivered_below: int) -> None:
        self.held, self.returned = [], []
        self.ready = [
            replace(left[sequence], redelivered=left[sequence].redelivered or sequence < redelivered_below)
            for sequence in sorted(left)
        ]
        self.messages = {message.sequence: message for message in self.ready}
        self.safe = dict(self.messages)

    # --- invariants

    @invariant()
    def counts_are_the_models(self) -> None:
        queue = self.bench.queue
        queue.check()
        assert queue.depth == len(self.ready)
        counts = queue.counts()
        assert sum(counts[state] for state in ("alpha", "beta", "gamma", "delta")) == queue.depth
        held = [*self.held, *self.returned]
        assert counts["ram_acks"] == sum(len(batch) for batch in held if not batch.paged)
        assert counts["paged_acks"] == sum(len(batch) for batch in held if batch.paged)

    def teardown(self) -> None:
        """Take everything that is left, once and in order."""
        if hasattr(self, "bench"):
            assert self.bench.drain() == [message.body for message in self.ready]
            assert (self.bench.queue.ready_bytes, self.bench.queue.ram_bytes) == (0, 0)
            for batch in (*self.held, *self.returned):
                self.bench.queue.settle(batch)
            assert self.bench.queue.counts()["ram_ack_bytes"] == 0
            assert not any(segment.live for segment in self.bench.index.segments.values())


TestVariableQueue = VariableQueueMachine.TestCase
TestVariableQueue.settings = settings(
    max_examples=max(300, settings().max_examples), stateful_step_count=40, deadline=None
)
"""By default 300 runs, always the same, in a few seconds; with the profile ``long`` as many as that says."""
