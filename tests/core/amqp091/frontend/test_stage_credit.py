"""Stage credit through a whole 0.9.1 connection: where the reader stops, what waits, and which clients are not
slowed."""

from collections.abc import Callable

import pytest

from core.amqp091.methods import BasicQos, BasicQosOk, ConnectionBlocked, QueueDelete
from core.amqp091.properties import BasicProperties
from core.config.settings import Settings
from core.credit_flow.diagnosis import SlowStage, diagnose
from tests.kit.cases import case
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.settings import make_settings
from tests.kit.storage import KeptDefinitions, open_storage, sync, write
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect, published

STOPPED = make_settings(engine={"stage_messages_per_turn": {"channel": 0}})
BEFORE_A_QUEUE = 400 + 2 * 200
PERSISTENT = BasicProperties(delivery_mode=2)


def with_queues(*names: str, settings: Settings | None = None) -> Wire091Peer:
    """A connection with two channels, and these queues."""
    broker = InProcessBroker()
    for name in names:
        broker.queue(name)
    return connect(broker, 1, 2, settings=settings)


def publish_while_read(peer: Wire091Peer, queue: str, *, channel: int = 1, most: int = 5000, run: int = 1) -> int:
    """Publish until the broker stops reading; returns how many messages it has read."""
    sent = 0
    while sent < most and peer.front_end.reading:
        peer.publish(channel, [b"m"] * run, routing_key=queue)
        sent += run
    return sent


def waiting(peer: Wire091Peer) -> int:
    return sum(int(str(row["waiting_publishes"])) for row in peer.snapshots("channels"))


def state(peer: Wire091Peer) -> object:
    return peer.snapshots("connections")[0]["state"]


# --- where exactly the reader stops


def test_row_1_10_before_a_channel_that_takes_nothing_the_400th_publish_is_the_last():
    peer = with_queues("q", settings=STOPPED)
    assert publish_while_read(peer, "q") == 400
    assert waiting(peer) == 400
    peer.publish(1, numbered(1000), routing_key="q")
    assert waiting(peer) == 400, "the rest stays in the socket"
    assert state(peer) == "flow"


@pytest.mark.parametrize("run", [7, 400, 5000])
def test_row_1_10_a_run_is_cut_there(run: int):
    peer = with_queues("q", settings=STOPPED)
    peer.publish(1, numbered(run), routing_key="q")
    while peer.front_end.reading:
        peer.publish(1, numbered(run), routing_key="q")
    assert waiting(peer) == 400


def test_before_a_queue_that_takes_nothing_800_are_the_last():
    """The 400th message blocks the channel, which has acknowledged it to the reader just before. The reader then has
    two grants, and only later ones are deferred. So it may send 400 more."""
    peer = with_queues("q")
    peer.broker.stall()
    assert publish_while_read(peer, "q") == BEFORE_A_QUEUE
    assert state(peer) == "flow"
    peer.broker.recover()
    assert peer.broker.ready() == BEFORE_A_QUEUE
    assert peer.front_end.reading


@pytest.mark.parametrize(("initial", "more_after"), [(200, 50), (200, 100), (50, 10)])
def test_row_0_29_the_numbers_of_older_versions_and_any_others(initial: int, more_after: int):
    settings = make_settings(
        engine={"stage_messages_per_turn": {"channel": 0}}, stage_credit={"initial": initial, "more_after": more_after}
    )
    assert publish_while_read(with_queues("q", settings=settings), "q") == initial


def test_row_4_28_what_was_not_read_comes_in_order_when_the_queue_goes_on():
    peer = with_queues("q")
    peer.broker.stall()
    peer.publish(1, numbered(5000), routing_key="q")
    assert not peer.front_end.reading
    peer.broker.recover()
    assert peer.broker.ready() == 5000
    peer.consume(no_ack=True)
    assert peer.bodies() == numbered(5000)


def test_every_channel_has_its_own_and_one_is_enough_to_stop_the_reader():
    peer = with_queues("slow", "quick")
    peer.broker.stall("slow")
    assert publish_while_read(peer, "quick", channel=2, most=3000) == 3000
    assert publish_while_read(peer, "slow", channel=1) == BEFORE_A_QUEUE
    peer.publish(2, numbered(10), routing_key="quick")
    assert peer.broker.ready("quick") == 3000, "what the other channel sends waits, too"
    peer.broker.recover("slow")
    assert peer.broker.ready("quick") == 3010


def test_row_1_01_nothing_between_the_socket_and_the_queue_grows_beyond_its_stage_credit():
    peer = with_queues("q")
    peer.broker.stall()
    for _ in range(20):
        peer.publish(1, [bytes(1000)] * 500, routing_key="q")
    (row,) = peer.broker.engine.snapshot("queues", "q")
    assert row["messages_ready"] == 0
    assert peer.broker.engine._queues["q"].inbox.waiting == BEFORE_A_QUEUE
    assert len(peer.unread) + len(peer.front_end.connection._buffer) > 9000 * 1000


# --- each edge in turn


def stop_at_channel() -> tuple[Wire091Peer, Callable[[], None]]:
    peer = with_queues("q", settings=STOPPED)
    return peer, lambda: None


def stop_at_queue() -> tuple[Wire091Peer, Callable[[], None]]:
    peer = with_queues("q")
    peer.broker.stall()
    return peer, peer.broker.recover


def stop_at_sync() -> tuple[Wire091Peer, Callable[[], None]]:
    disk = MemoryDisk()
    storage = open_storage(disk, KeptDefinitions())
    broker = InProcessBroker(storage=storage)
    broker.queue("q", x_queue_type="quorum")

    def go_on() -> None:
        lane = storage.store.quorum
        while write(lane, disk) | sync(lane, disk, broker.now.monotonic):
            broker.run()

    return connect(broker, 1, 2), go_on


@pytest.mark.parametrize("stop_at", [stop_at_channel, stop_at_queue, stop_at_sync])
def test_row_0_31_whichever_edge_is_blocked_the_reader_stops(
    stop_at: Callable[[], tuple[Wire091Peer, Callable[[], None]]],
):
    peer, go_on = stop_at()
    assert 400 <= publish_while_read(peer, "q") <= 1200
    assert not peer.front_end.reading
    go_on()
    if stop_at is not stop_at_channel:
        assert peer.front_end.reading


def test_row_0_30_a_slow_message_store_stops_the_socket_at_last():
    """Large bodies: 4000 go to the store, then 400 more from channel to queue, then 400 more from reader to channel."""
    disk = MemoryDisk()
    storage = open_storage(disk, KeptDefinitions())
    broker = InProcessBroker(storage=storage)
    broker.queue("q")
    peer = connect(broker)
    sent = 0
    while peer.front_end.reading and sent < 10_000:
        peer.publish(1, [bytes(5000)] * 50, routing_key="q", properties=PERSISTENT)
        sent += 50
    assert not peer.front_end.reading
    assert sent == 4800
    (queue,) = broker.engine.snapshot("queues", "q")
    assert queue["stage_credit_state"] == "flow"
    lane = storage.store.classic
    while write(lane, disk):
        broker.run()
    assert peer.front_end.reading
    assert broker.ready() == sent


# --- which clients are slowed


def test_row_1_04_consumers_on_other_connections_go_on_at_their_rate():
    peer = with_queues("slow", "source")
    peer.broker.stall("slow")
    peer.publish(1, numbered(2000), routing_key="source")
    publish_while_read(peer, "slow")
    other = connect(peer.broker)
    other.call(1, BasicQos(prefetch_count=10), BasicQosOk)
    other.consume("source")
    received: list[bytes] = []
    while came := other.deliveries():
        received += [body for _, _, body in came]
        other.ack(came[-1][0].delivery_tag, multiple=True)
    assert received == numbered(2000)
    assert state(other) == "running"


@case("engine", "3.31")
def test_row_3_31_on_the_same_connection_acknowledgements_wait_behind_publishes():
    """row 3.31: one connection for publishing and consuming is not enough here: the consumer gets its prefetch and no
    more."""
    peer = with_queues("slow", "source")
    peer.broker.stall("slow")
    peer.publish(1, numbered(100), routing_key="source")
    peer.call(2, BasicQos(prefetch_count=10), BasicQosOk)
    peer.consume("source", channel=2)
    publish_while_read(peer, "slow")
    assert len(peer.bodies()) == 10
    peer.ack(10, multiple=True, channel=2)
    assert peer.bodies() == []
    assert peer.broker.unacknowledged("source") == 10
    peer.broker.recover("slow")
    assert len(peer.bodies()) == 10


def test_row_1_14_only_publishes_count_and_everything_is_read_until_they_stop_it():
    peer = with_queues("q", settings=STOPPED)
    peer.broker.stall()
    for _ in range(1000):
        peer.call(2, BasicQos(prefetch_count=1), BasicQosOk)
    assert peer.front_end.reader.room(peer.front_end.channels[2].stage_credit) == 400
    publish_while_read(peer, "q", most=399)
    assert peer.front_end.reading
    publish_while_read(peer, "q", most=1)
    assert not peer.front_end.reading


def test_a_client_is_not_told_of_stage_credit_and_not_cut_off_for_its_silence():
    broker = InProcessBroker()
    broker.queue("q")
    peer = Wire091Peer(broker)
    peer.open(1, heartbeat=5)
    broker.stall()
    publish_while_read(peer, "q")
    broker.advance(100.0)
    assert not peer.lost
    assert peer.methods(ConnectionBlocked) == []
    broker.recover()
    peer.publish(1, [b"m"], routing_key="q")
    broker.advance(4.0)
    assert not peer.lost
    broker.advance(30.0)
    assert peer.lost


def test_row_4_32_a_connection_in_flow_says_so_for_five_seconds_and_a_channel_for_one():
    peer = with_queues("q")
    peer.broker.stall()
    publish_while_read(peer, "q")
    peer.broker.recover()
    peer.publish(2, [b"m"], routing_key="q")
    for seconds, connection, channel in ((0.5, "flow", "flow"), (1.0, "flow", "running"), (4.0, "running", "running")):
        peer.broker.advance(seconds)
        peer.send(2, BasicQos())
        assert (state(peer), peer.snapshots("channels")[0]["stage_credit_state"]) == (connection, channel)


def test_row_1_17_each_stage_counts_for_itself():
    peer = with_queues("q")
    peer.broker.stall()
    publish_while_read(peer, "q")
    (connection,) = peer.snapshots("connections")
    channel = peer.snapshots("channels")[0]
    assert connection["stage_credit_held_up_by"] == ["test-0/1"]
    assert channel["stage_credit_blocks"] == connection["stage_credit_blocks"] == 1
    peer.broker.advance(3.0)
    peer.broker.recover()
    peer.publish(1, [b"m"], routing_key="q")
    (connection,) = peer.snapshots("connections")
    assert connection["stage_credit_unblocks"] == 1
    assert connection["stage_credit_blocked_seconds"] == pytest.approx(3.0)


@pytest.mark.parametrize(("stage", "expected"), [("channel", SlowStage.CHANNEL), ("queue", SlowStage.QUEUE)])
def test_row_1_13_the_slow_stage_is_found(stage: str, expected: SlowStage):
    peer, _ = stop_at_channel() if stage == "channel" else stop_at_queue()
    publish_while_read(peer, "q")
    now = peer.broker.now.monotonic
    channels = [channel.stage_credit.reading(now) for channel in peer.front_end.channels.values()]
    queues = [queue.stage_credit.reading(now) for queue in peer.broker.engine._queues.values()]
    found = diagnose(peer.front_end.reader.reading(now), channels, queues)
    assert found is not None
    assert found.stage is expected


# --- ends while something is blocked


def test_a_queue_that_is_deleted_lets_go():
    peer = with_queues("q")
    peer.broker.stall()
    peer.publish(1, numbered(5000), routing_key="q")
    other = connect(peer.broker)
    other.send(1, QueueDelete(queue="q"))
    assert peer.front_end.reading
    assert peer.unread == b""


def test_a_connection_that_goes_while_it_is_blocked_leaves_nothing():
    peer = with_queues("q")
    peer.broker.stall()
    publish_while_read(peer, "q")
    peer.disconnect()
    assert peer.broker.engine.snapshot("publishers") == []
    peer.broker.recover()
    assert peer.broker.ready() == BEFORE_A_QUEUE


def test_two_targets_the_slowest_blocks():
    peer = with_queues("slow", "quick")
    for queue in ("slow", "quick"):
        peer.bind("amq.fanout", queue=queue)
    peer.broker.stall("slow")
    sent = 0
    while peer.front_end.reading:
        peer.publish(1, [b"m"], routing_key="", exchange="amq.fanout")
        sent += 1
    assert sent == BEFORE_A_QUEUE
    assert peer.broker.ready("quick") == BEFORE_A_QUEUE


def test_a_slow_channel_serves_its_turn_and_the_others_theirs():
    settings = make_settings(engine={"stage_messages_per_turn": {"channel": 3}})
    peer = with_queues("q", settings=settings)
    peer.send_bytes(published(1, numbered(10), routing_key="q") + published(2, numbered(10, 10), routing_key="q"))
    assert peer.broker.ready() == 20
    peer.consume(no_ack=True)
    bodies = peer.bodies()
    assert [body for body in bodies if int(body) < 10] == numbered(10)
    assert [body for body in bodies if int(body) >= 10] == numbered(10, 10)
    assert bodies != numbered(20), "they took turns"


def test_row_0_21_channel_numbers_up_to_65535_each_with_a_stage_of_its_own():
    settings = make_settings(amqp091={"channel_max": 65_535})
    broker = InProcessBroker()
    broker.queue("q")
    channels = (*range(1, 300), 65_535)
    peer = connect(broker, *channels, settings=settings)
    peer.send_bytes(b"".join(published(channel, [b"m"], routing_key="q") for channel in channels))
    assert broker.ready() == 300
    assert len(peer.snapshots("channels")) == 300
