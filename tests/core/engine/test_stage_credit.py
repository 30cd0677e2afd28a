"""Stage credit between a channel, queues of every type and the message store: when each is acknowledged."""

import pytest

from core.credit_flow.flow import CreditFlow, FlowState
from core.engine.queue.store_stage import STORE
from core.interface import ExchangeTarget, Publisher, QueueTarget, Target
from core.message import Attributes, Run
from tests.kit.engine import NOW, Peer, binding, bodies, later, make_broker, queue
from tests.kit.kept_broker import KeptBroker
from tests.kit.settings import GENERAL, TO_STORE
from tests.kit.storage import write

DURABLE = Attributes(durable=True)
LARGE = b"x" * 5000


class Channel:
    """A publisher with stage credit, and a reader before it, as a 0.9.1 connection has them."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.reader = CreditFlow("reader", GENERAL)
        self.stage = CreditFlow("channel", GENERAL)
        self.publisher: Publisher = peer.broker.publisher(peer.mailbox, peer.owner, None, "channel", self.stage)
        self.number = 0

    def publish(
        self, target: Target | str, count: int = 1, *, entry: bytes = b"m", attributes: Attributes = DURABLE
    ) -> None:
        """Publish as the reader and the channel do."""
        where = QueueTarget(target) if isinstance(target, str) else target
        self.reader.send(self.stage, count, NOW.monotonic)
        run = Run(self.number, [entry] * count, attributes)
        self.number += count
        self.peer.broker.publish(self.publisher, where, run, NOW)
        self.stage.ack(self.reader, count)

    def publish_while_it_may(self, target: Target | str, most: int = 10_000, **how: object) -> int:
        """Publish as a reader does, which stops reading while it is blocked. Returns the number of messages."""
        published = 0
        while published < most and not self.reader.blocked:
            self.publish(target, 1, **how)
            published += 1
        return published


def stage_of(peer: Peer, name: str) -> CreditFlow:
    return peer.broker._queues[name].stage_credit


def owed(channel: Channel, name: str) -> int:
    """How many messages were sent to a queue and not acknowledged."""
    queue_stage = stage_of(channel.peer, name)
    account = channel.stage.account(queue_stage)
    progress = GENERAL.more_after - queue_stage.account(channel.stage).until_grant
    return GENERAL.initial - account.room - progress - queue_stage.account(channel.stage).deferred


def kept(kind: str, **arguments: object) -> tuple[KeptBroker, Channel]:
    one = KeptBroker()
    one.broker.declare_queue(queue("q", x_queue_type=kind, **arguments), "x")
    one.run()
    return one, Channel(one.peer)


# --- between channel and queue


def test_a_run_counts_as_sent_until_the_queue_takes_it_on():
    channel = Channel(Peer(make_broker("q")))
    channel.publish("q", 7)
    assert owed(channel, "q") == 7
    channel.peer.turn()
    assert owed(channel, "q") == 0


def test_what_the_budget_lets_in_is_acknowledged():
    channel = Channel(Peer(make_broker("q")))
    channel.peer.broker.set_stage_budget("q", 30)
    channel.publish("q", 100)
    for left in (70, 40, 10, 0):
        channel.peer.turn()
        assert owed(channel, "q") == left


def test_messages_passed_straight_to_a_consumer_are_acknowledged():
    channel = Channel(Peer(make_broker("q")))
    channel.peer.consume("q", 3)
    channel.publish("q", 5)
    channel.peer.turn()
    assert owed(channel, "q") == 0


@pytest.mark.parametrize("room", [0, 3])
def test_what_is_rejected_is_acknowledged(room: int):
    broker = make_broker()
    broker.declare_queue(queue("q", x_max_length=room, x_overflow="reject-publish"), "x")
    channel = Channel(Peer(broker))
    channel.publish("q", 5)
    channel.peer.turn()
    assert broker.snapshot("queues", "q")[0]["refused"] == 5 - room
    assert owed(channel, "q") == 0


def test_each_queue_that_a_message_goes_to_counts():
    broker = make_broker("a", "b")
    peer = Peer(broker)
    for name in "ab":
        broker.bind(binding("amq.fanout", name), "peer")
    channel = Channel(peer)
    broker.set_stage_budget("b", 0)
    channel.publish(ExchangeTarget("amq.fanout", ""), 3)
    assert (owed(channel, "a"), owed(channel, "b")) == (3, 3)
    peer.turn()
    assert (owed(channel, "a"), owed(channel, "b")) == (0, 3)


def test_an_unroutable_message_is_sent_to_no_queue():
    channel = Channel(Peer(make_broker("q")))
    channel.publish(ExchangeTarget("amq.fanout", ""), 3)
    assert list(channel.stage.peers) == [channel.reader]


@pytest.mark.parametrize(
    ("kind", "attributes", "arguments"),
    [
        ("classic", DURABLE, {}),
        ("classic", Attributes(), {}),
        ("classic", DURABLE, {"x_sync": "always"}),
    ],
)
def test_a_classic_queue_waits_for_no_disk(kind: str, attributes: Attributes, arguments: dict[str, object]):
    one, channel = kept(kind, **arguments)
    channel.publish("q", 5, attributes=attributes)
    one.broker.turn(NOW)
    assert owed(channel, "q") == 0


def test_a_quorum_queue_waits_for_the_sync():
    one, channel = kept("quorum")
    channel.publish("q", 5)
    one.write()
    assert owed(channel, "q") == 5
    one.run()
    assert owed(channel, "q") == 0


@pytest.mark.parametrize(("arguments", "owed_when_written"), [({}, 0), ({"x_sync": "always"}, 5)])
def test_a_stream_waits_until_readers_could_have_it(arguments: dict[str, object], owed_when_written: int):
    one, channel = kept("stream", **arguments)
    channel.publish("q", 5)
    one.broker.turn(NOW)
    assert owed(channel, "q") == 5
    one.write()
    assert owed(channel, "q") == owed_when_written
    one.run()
    assert owed(channel, "q") == 0


def test_a_quorum_queue_acknowledges_at_once_what_it_rejects():
    one, channel = kept("quorum", x_max_length=3, x_overflow="reject-publish")
    channel.publish("q", 3)
    one.run()
    channel.publish("q", 4)
    one.broker.turn(NOW)
    assert owed(channel, "q") == 0


# --- memory


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_before_a_queue_that_stands_still_400_messages_wait(kind: str):
    one, channel = kept(kind)
    one.broker.set_stage_budget("q", 0)
    for _ in range(20):
        while not channel.stage.blocked:
            channel.publish("q")
        one.run()
    assert one.shown("q")["messages_waiting"] == GENERAL.initial
    one.broker.set_stage_budget("q", None)
    one.run()
    assert one.shown("q")["messages_waiting"] == 0
    assert not channel.stage.blocked


def test_with_a_reader_that_stops_reading_what_its_channel_had_granted_comes_on_top():
    one, channel = kept("classic")
    one.broker.set_stage_budget("q", 0)
    for _ in range(20):
        channel.publish_while_it_may("q")
        one.run()
    # 400 messages block the channel. Of the two grants that it owes the reader by then, it has made one and holds the
    # other back.
    assert one.shown("q")["messages_waiting"] == GENERAL.initial + GENERAL.more_after
    one.broker.set_stage_budget("q", None)
    one.run()
    assert not channel.reader.blocked


# --- ends


def test_a_deleted_queue_blocks_no_channel():
    channel = Channel(Peer(make_broker("q", "other")))
    channel.peer.broker.set_stage_budget("q", 0)
    channel.publish("q", 500)
    assert channel.stage.blocked
    channel.peer.broker.delete_queue("q", "x")
    assert not channel.stage.blocked
    assert list(channel.stage.peers) == [channel.reader]
    channel.publish("other", 3)
    channel.peer.turn()
    assert owed(channel, "other") == 0


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_a_queue_forgets_a_publisher_that_has_left(kind: str):
    one, channel = kept(kind)
    channel.publish("q", 300)
    one.broker.retire(channel.publisher)
    assert channel.stage.ended
    one.run()
    assert list(stage_of(one.peer, "q").peers) == []
    assert one.shown("q")["published"] == 300


def test_messages_written_by_a_deleted_queue_count_for_no_publisher():
    one, channel = kept("quorum")
    channel.publish("q", 300)
    one.broker.turn(NOW)
    one.broker.delete_queue("q", "x")
    one.run()
    assert list(channel.stage.peers) == [channel.reader]


def test_publishers_without_stage_credit_are_not_limited():
    peer = Peer(make_broker("q"))
    peer.publish("q", bodies(1000))
    peer.turn()
    assert list(stage_of(peer, "q").peers) == []


# --- between queue and store


def stages(one: KeptBroker, name: str) -> dict[str, object]:
    [row] = one.broker.snapshot("stages", name)
    return row


@pytest.mark.parametrize("attributes", [DURABLE, Attributes()])
def test_only_bodies_that_go_to_the_message_store_count(attributes: Attributes):
    one, channel = kept("classic", **({} if attributes.durable else {"x_queue_mode": "lazy"}))
    channel.publish("q", 10, attributes=attributes)
    one.broker.turn(NOW)
    assert STORE not in [peer.name for peer in stage_of(one.peer, "q").peers]
    channel.publish("q", 10, entry=LARGE, attributes=attributes)
    one.broker.turn(NOW)
    [store] = [peer for peer in stage_of(one.peer, "q").peers if peer.name == STORE]
    assert stage_of(one.peer, "q").room(store) == TO_STORE.initial - 10
    write(one.storage.store.classic, one.disk)
    one.broker.turn(NOW)
    assert store.account(stage_of(one.peer, "q")).until_grant == TO_STORE.more_after - 10


def test_the_store_holds_up_a_queue_and_the_queue_its_publishers():
    one, channel = kept("classic")
    blocked_after = 0
    while not channel.reader.blocked:
        channel.publish("q", 100, entry=LARGE)
        one.broker.turn(NOW)
        blocked_after += 100
    assert blocked_after <= TO_STORE.initial + 3 * GENERAL.initial
    [row] = one.broker.snapshot("queues", "q")
    assert (row["stage_credit_state"], row["stage_credit_held_up_by"]) == ("flow", [STORE])
    assert [peer.name for peer in channel.stage.blocked_by] == ["q"]
    one.run()
    assert not channel.stage.blocked
    assert not channel.reader.blocked
    assert stages(one, "q") == {
        "name": "q", "kind": "queue", "state": "flow", "held_up_by": [STORE], "blocks": 1, "blocked_seconds": 0.0,
    }  # fmt: skip
    one.run(later(2))
    assert stages(one, "q")["state"] == FlowState.RUNNING
    assert stages(one, STORE) == {
        "name": STORE, "kind": "store", "state": "running", "held_up_by": [], "blocks": 0, "blocked_seconds": 0.0,
    }  # fmt: skip


def test_how_long_a_queue_was_held_up_is_told():
    one, channel = kept("classic")
    while not channel.reader.blocked:
        channel.publish("q", 100, entry=LARGE)
        one.broker.turn(NOW)
    while write(one.storage.store.classic, one.disk):
        pass
    one.run(later(3))
    one.run(later(50))
    assert stages(one, "q")["blocked_seconds"] == 3.0
    assert one.broker.snapshot("totals")[0]["queue_blocked_seconds"] == 3.0
    one.broker.delete_queue("q", "x")
    one.run(later(60))
    assert one.broker.snapshot("totals")[0]["queue_blocked_seconds"] == 3.0


def test_publishers_without_stage_credit_count_for_the_store_all_the_same():
    one, _ = kept("classic")
    one.peer.publish("q", [LARGE] * 5000, DURABLE)
    one.broker.turn(NOW)
    assert stages(one, "q")["held_up_by"] == [STORE]
    one.run(later(2))
    assert stages(one, "q")["held_up_by"] == []


def test_the_store_forgets_a_queue_that_is_deleted():
    one, channel = kept("classic")
    channel.publish("q", 100, entry=LARGE)
    one.broker.turn(NOW)
    [store] = [peer for peer in stage_of(one.peer, "q").peers if peer.name == STORE]
    one.broker.delete_queue("q", "x")
    assert list(store.peers) == []
    one.run()
    assert list(store.peers) == []


def test_without_storage_the_stages_are_the_queues():
    assert [row["name"] for row in make_broker("a", "b").snapshot("stages")] == ["a", "b"]
