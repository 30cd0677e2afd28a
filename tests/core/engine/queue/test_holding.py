"""A holder is given messages by requests; others get copies of them; and each message is settled once."""

from collections.abc import Iterable

import pytest

from core.engine.options.policies import PolicyDeclaration
from core.engine.queue.holding import BATCHES_AT_ONCE
from core.errors import Invalid, Locked, NotFound, PreconditionFailed
from core.held import HOLD_RANGES_MAX, Held, HeldRange, Hold
from core.interface import Action, ConsumeOptions, Consumer, Delivered, Disposal
from core.message import Attributes, Return
from core.slices import run_at_once
from tests.kit.dead_letters import PlainConverter, body
from tests.kit.engine import Peer, bodies, entries_for, later, make_broker, queue, replies
from tests.kit.kept_broker import KeptBroker

DURABLE = Attributes(durable=True)
BOTH_TYPES = pytest.mark.parametrize("kind", ["classic", "quorum"])
MANY = 10**9


class Held10:
    """A broker with one queue, ``q``, and its clients."""

    def __init__(self, kind: str = "classic", **arguments: object) -> None:
        self.one = KeptBroker(PlainConverter())
        self.one.broker.declare_queue(queue("q", x_queue_type=kind, x_sequence=True, **arguments), "x")

    @property
    def peer(self) -> Peer:
        return self.one.peer

    def publish(self, count: int, start: int = 0, *, attributes: Attributes = DURABLE, size: int = 0) -> None:
        self.peer.publish("q", [entry.ljust(size, b".") for entry in bodies(count, start)], attributes)
        self.one.run()
        self.peer.mailbox.take()

    def consumer(self, options: ConsumeOptions) -> Consumer:
        return self.one.broker.consume("q", self.peer.mailbox, self.peer.owner, options, "reference")

    def holder(self, name: str = "h") -> Consumer:
        return self.consumer(ConsumeOptions(holder=name))

    def hold(self, messages: int = MANY, size: int = MANY, through: int | None = None, *, name: str = "h") -> Held:
        held = run_at_once(self.one.broker.hold("q", self.peer.owner, Hold(name, messages, size, through)))
        self.one.run()
        return held

    def settle(self, first: int, last: int, disposal: Disposal | Return = Disposal.ACCEPTED, *, name: str = "h") -> int:
        which = HeldRange(name, first, last)
        settled = run_at_once(self.one.broker.settle_held("q", self.peer.owner, which, disposal))
        self.one.run()
        return settled

    def copies(self, first: int, last: int, *, grant: int = 1000, name: str = "h") -> list[tuple[int, bytes]]:
        reader = self.consumer(ConsumeOptions(getter=True, copies=HeldRange(name, first, last)))
        self.one.broker.grant(reader, grant, True)
        self.one.run()
        actions = self.peer.mailbox.take()
        found = numbered(actions, reader)
        assert replies(actions, reader) == [(self.ready, grant - len(found))]
        self.one.broker.cancel(reader)
        return found

    @property
    def ready(self) -> int:
        ready = self.one.shown("q")["messages_ready"]
        assert isinstance(ready, int)
        return ready

    @property
    def unacknowledged(self) -> object:
        return self.one.shown("q")["messages_unacknowledged"]


def numbered(actions: Iterable[Action], reader: Consumer) -> list[tuple[int, bytes]]:
    """The numbers and bodies of what was delivered to one consumer."""
    return [
        (number, body(entry))
        for action in actions
        if isinstance(action, Delivered) and action.consumer is reader
        for number, entry in zip(action.sequences or (), action.entries, strict=True)
    ]


def pairs(numbers: Iterable[int]) -> list[tuple[int, bytes]]:
    return [(number, b"%d" % number) for number in numbers]


@BOTH_TYPES
def test_a_batch_is_held_copied_and_settled(kind: str):
    one = Held10(kind)
    one.publish(10)
    one.holder()
    assert one.hold(messages=6) == Held([(0, 5)], 6, 6)
    assert (one.ready, one.unacknowledged) == (4, 6)
    assert one.copies(2, 4) == pairs([2, 3, 4])
    assert one.copies(2, 4) == pairs([2, 3, 4]), "a range is read any number of times"
    assert one.copies(4, 99) == pairs([4, 5]), "what is not held is not copied"
    assert one.settle(0, 3) == 4
    assert one.copies(0, 9) == pairs([4, 5])
    assert one.hold() == Held([(6, 9)], 4, 4)
    assert one.settle(0, 9) == 6
    assert (one.ready, one.unacknowledged) == (0, 0)
    shown = one.one.shown("q")
    assert (shown["delivered"], shown["accepted"]) == (10, 10)


@BOTH_TYPES
@pytest.mark.parametrize("ending", [KeptBroker.kill, KeptBroker.restart])
def test_what_was_settled_is_gone_after_a_restart_and_the_rest_is_ready(kind: str, ending):
    one = Held10(kind)
    one.publish(10, size=5000)
    one.holder()
    one.hold(messages=6)
    one.settle(0, 3)
    ending(one.one)
    one.holder()
    assert one.hold() == Held([(4, 9)], 6, 30_000)


@BOTH_TYPES
def test_messages_return_to_their_places_when_the_holder_leaves(kind: str):
    one = Held10(kind)
    one.publish(10)
    holder = one.holder()
    one.hold(messages=6)
    one.one.broker.cancel(holder)
    one.one.run()
    assert (one.ready, one.unacknowledged) == (10, 0)
    with pytest.raises(NotFound, match="no consumer holds messages under the name 'h'"):
        one.hold()
    assert one.copies(0, 9) == []
    one.holder()
    assert one.hold() == Held([(0, 9)], 10, 10)


def test_a_request_ends_at_the_number_that_it_names():
    one = Held10()
    one.publish(10)
    one.holder()
    assert one.hold(through=3) == Held([(0, 3)], 4, 4)
    assert one.hold(through=3) == Held([], 0, 0)
    assert one.hold(messages=2, through=8) == Held([(4, 5)], 2, 2)


def test_a_request_ends_at_its_bytes_but_for_its_first_message():
    one = Held10()
    one.publish(10, size=100)
    one.holder()
    assert one.hold(size=350) == Held([(0, 2)], 3, 300)
    assert one.hold(size=1) == Held([(3, 3)], 1, 100)
    assert one.hold(size=200) == Held([(4, 5)], 2, 200)
    assert one.hold(size=10**6) == Held([(6, 9)], 4, 400)


@pytest.mark.parametrize(
    ("disposal", "count"), [(Return(), 0), (Return(delivery_failed=True), 1)], ids=["released", "failed"]
)
def test_single_messages_go_back_and_come_again(disposal: Return, count: int):
    one = Held10()
    one.publish(5)
    one.holder()
    one.hold()
    assert one.settle(2, 3, disposal) == 2
    assert one.copies(0, 9) == pairs([0, 1, 4])
    assert one.hold() == Held([(2, 3)], 2, 2)
    reader = one.consumer(ConsumeOptions(getter=True, copies=HeldRange("h", 2, 2)))
    one.one.broker.grant(reader, 1, True)
    one.one.run()
    (action,) = [action for action in one.peer.mailbox.take() if isinstance(action, Delivered)]
    assert (action.delivery_count, action.first_acquirer) == (count, False)


def test_rejected_messages_are_dead_lettered():
    one = Held10(x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    one.one.broker.declare_queue(queue("dead"), "x")
    one.publish(3)
    one.holder()
    one.hold()
    assert one.settle(1, 1, Disposal.REJECTED) == 1
    assert [body(entry) for entry in one.one.taken("dead")] == [b"1"]


def test_a_holder_gets_nothing_by_a_grant():
    one = Held10()
    holder = one.holder()
    assert holder.unsettled_max == 0, "so its front end asks for no grant"
    one.one.broker.policies.set(PolicyDeclaration(name="p", pattern="q", definition={"max-unsettled": 5}))
    assert holder.unsettled_max == 0


def test_a_policy_bounds_what_is_held():
    one = Held10()
    one.one.broker.policies.set(PolicyDeclaration(name="p", pattern="q", definition={"max-unsettled": 5}))
    one.publish(10)
    one.holder()
    assert one.hold() == Held([(0, 4)], 5, 5)
    assert one.hold() == Held([], 0, 0)
    one.settle(0, 1)
    assert one.hold() == Held([(5, 6)], 2, 2)


def test_messages_of_all_priorities_are_held_in_the_order_of_delivery():
    one = Held10(x_max_priority=9)
    one.publish(2, attributes=Attributes(durable=True, priority=1))
    one.publish(2, 2, attributes=Attributes(durable=True, priority=5))
    one.holder()
    assert one.hold(messages=3) == Held([(2, 3), (0, 0)], 3, 3)
    assert one.copies(0, 2) == [(2, b"2"), (0, b"0")]
    assert one.hold(through=0) == Held([], 0, 0)
    assert one.hold(through=1) == Held([(1, 1)], 1, 1)


def test_a_request_with_too_many_ranges_ends_early():
    one = Held10()
    one.publish(1000)
    other = one.peer.consume("q", 1000)
    one.one.run()
    for number in range(0, 1000, 2):
        one.one.broker.settle(other, number, number, Return())
    one.one.run()
    one.holder()
    held = one.hold()
    assert len(held.ranges) >= HOLD_RANGES_MAX
    assert held.messages + one.hold().messages == 500


def test_a_reader_goes_on_where_its_grant_ended():
    one = Held10()
    one.publish(10)
    one.holder()
    one.hold()
    reader = one.consumer(ConsumeOptions(getter=True, copies=HeldRange("h", 1, 8)))
    found = []
    for _ in range(4):
        one.one.broker.grant(reader, 3, True)
        one.one.run()
        found.append([number for number, _ in numbered(one.peer.mailbox.take(), reader)])
    assert found == [[1, 2, 3], [4, 5, 6], [7, 8], []]


def test_a_reader_does_not_look_at_all_batches_in_one_turn():
    one = Held10()
    count = 3 * BATCHES_AT_ONCE
    for number in range(count):
        one.publish(1, number, attributes=Attributes(durable=True, redelivered=number % 2 == 0))
    one.holder()
    one.hold(messages=count)
    one.hold(messages=count)
    one.hold(messages=count)
    assert one.copies(count - 2, count) == pairs([count - 2, count - 1])


def test_what_is_held_is_paged_out_and_copied_from_the_disk():
    one = Held10()
    one.publish(20)
    one.holder()
    one.hold(messages=12)
    for round_number in range(1, 6):
        one.one.broker.memory_sampled(100, 1, later(10 * round_number))
        one.one.run(later(10 * round_number))
    assert one.one.shown("q")["ram_acks"] == 0
    assert one.copies(3, 7) == pairs(range(3, 8))
    assert one.settle(0, 11) == 12
    assert one.hold() == Held([(12, 19)], 8, 16)


def test_expired_messages_are_not_held():
    one = Held10()
    one.publish(2, attributes=Attributes(durable=True, ttl_ms=1000))
    one.publish(2, 2)
    one.holder()
    one.one.run(later(5))
    assert one.hold() == Held([(2, 3)], 2, 2)


def test_other_consumers_get_what_is_not_held():
    one = Held10()
    one.publish(6)
    one.holder()
    one.hold(messages=3)
    assert one.one.taken("q") == [b"3", b"4", b"5"]
    assert one.copies(0, 9) == pairs([0, 1, 2])


def test_only_the_active_consumer_holds():
    one = Held10(x_single_active_consumer=True)
    one.publish(3)
    first = one.peer.consume("q")
    one.holder()
    with pytest.raises(PreconditionFailed, match="another consumer is the single active one"):
        one.hold()
    one.one.broker.cancel(first)
    assert one.hold() == Held([(0, 2)], 3, 3)


def test_a_holder_that_leaves_amid_a_request_keeps_nothing():
    one = Held10()
    one.publish(3000)
    holder = one.holder()
    walk = one.one.broker.hold("q", one.peer.owner, Hold("h", MANY, MANY))
    next(walk)
    one.one.broker.cancel(holder)
    with pytest.raises(NotFound):
        run_at_once(walk)
    one.one.run()
    assert (one.ready, one.unacknowledged) == (3000, 0)


def test_a_name_is_held_by_one_consumer():
    one = Held10()
    holder = one.holder()
    with pytest.raises(Locked, match="another consumer holds messages under the name 'h'"):
        one.holder()
    one.holder("other")
    one.one.broker.cancel(holder)
    one.holder()


def test_a_queue_that_is_deleted_has_no_holder():
    one = Held10()
    one.publish(3)
    one.holder()
    one.hold()
    one.one.broker.delete_queue("q", one.peer.owner)
    one.one.run()
    with pytest.raises(NotFound):
        one.hold()


@pytest.mark.parametrize("options", [ConsumeOptions(holder="h"), ConsumeOptions(copies=HeldRange("h", 0, 1))])
def test_a_queue_without_numbers_refuses_it(options: ConsumeOptions):
    broker = make_broker("q")
    peer = Peer(broker)
    with pytest.raises(PreconditionFailed, match="needs x-sequence"):
        broker.consume("q", peer.mailbox, peer.owner, options, "reference")
    assert entries_for(peer.turn(), peer.consume("q", 1)) == []


def test_a_stream_refuses_it():
    one = KeptBroker()
    one.broker.declare_queue(queue("s", x_queue_type="stream"), "x")
    for options in (ConsumeOptions(holder="h"), ConsumeOptions(getter=True, copies=HeldRange("h", 0, 1))):
        with pytest.raises(PreconditionFailed, match="is a stream"):
            one.broker.consume("s", one.peer.mailbox, one.peer.owner, options, "reference")
    with pytest.raises(Invalid, match="no consumer can hold its messages"):
        run_at_once(one.broker.hold("s", one.peer.owner, Hold("h", 1, 1)))
