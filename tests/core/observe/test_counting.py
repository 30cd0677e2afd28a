"""What is counted where the work is done: traffic of both protocols, totals of the engine, batches of lanes."""

import pytest

from amqp10.wire.messaging import ACCEPTED, RELEASED
from core.amqp091.methods import BasicAck, BasicGet, BasicNack, ChannelClose, ChannelCloseOk, QueueDelete, QueueDeleteOk
from core.counters.traffic import Traffic
from core.engine.broker import Broker
from core.observe.buckets import cumulative
from core.store.lane import BATCH_RECORDS, SYNC_SECONDS, Lane
from core.store.record import RecordKind
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.wire import InProcessBroker, WirePeer, numbered
from tests.kit.wire091 import Wire091Peer, connect


def counted(traffic: Traffic) -> dict[str, float]:
    """The counters that are not 0."""
    return {name.removeprefix("messages_"): count for name, count in traffic.counts().items() if count}


def totals(engine: Broker) -> dict[str, object]:
    return engine.snapshot("totals")[0]


@pytest.fixture
def broker() -> InProcessBroker:
    return InProcessBroker()


@pytest.fixture
def peer(broker: InProcessBroker) -> WirePeer:
    """A client with a session."""
    peer = broker.connect()
    peer.begin()
    return peer


@pytest.fixture
def channel(broker: InProcessBroker) -> Wire091Peer:
    """A client with channel 1, and queue q."""
    channel = connect(broker, 1)
    channel.declare()
    return channel


# --- AMQP 1.0


def test_messages_that_are_published_and_confirmed(broker: InProcessBroker, peer: WirePeer):
    peer.attach_sender(broker.queue())
    peer.publish(numbered(5))
    traffic = peer.front_end.traffic
    assert counted(traffic) == {"received": 5, "received_confirm": 5, "confirmed": 5, "publishers": 1}
    assert totals(broker.engine)["routed_amqp10"] == 5


def test_messages_that_come_settled_are_not_confirmed(broker: InProcessBroker, peer: WirePeer):
    peer.attach_sender(broker.queue())
    peer.publish(numbered(3), settled=True)
    peer.publish(numbered(2))
    assert counted(peer.front_end.traffic) == {"received": 5, "received_confirm": 2, "confirmed": 2, "publishers": 1}


def test_messages_that_no_queue_wants(broker: InProcessBroker, peer: WirePeer):
    peer.attach_sender("/exchanges/amq.fanout")
    peer.publish(numbered(2))
    peer.publish(numbered(3), settled=True)
    found = counted(peer.front_end.traffic)
    assert (found["unroutable_returned"], found["unroutable_dropped"]) == (2, 3)
    assert totals(broker.engine)["routed_amqp10"] == 0


def test_messages_that_are_consumed(broker: InProcessBroker, peer: WirePeer):
    peer.attach_receiver(broker.queue())
    broker.fill(numbered(4))
    peer.grant(4)
    peer.dispose(0, 2, state=ACCEPTED)
    peer.dispose(3, state=RELEASED)
    found = counted(peer.front_end.traffic)
    assert found == {"delivered": 4, "delivered_consume_manual_ack": 4, "acknowledged": 3, "consumers": 1}
    peer.grant(1)
    assert counted(peer.front_end.traffic)["redelivered"] == 1


def test_messages_that_are_sent_settled(broker: InProcessBroker, peer: WirePeer):
    peer.attach_receiver(broker.queue(), snd_settle_mode=1)
    broker.fill(numbered(2))
    peer.grant(2)
    assert counted(peer.front_end.traffic)["delivered_consume_auto_ack"] == 2


@pytest.mark.parametrize("how", ["disconnect", "queue deleted"])
def test_closed_connections_are_not_counted_and_their_work_is(broker: InProcessBroker, peer: WirePeer, how: str):
    address = broker.queue()
    peer.attach_sender(address)
    peer.attach_receiver(address, handle=1)
    peer.publish(numbered(1))
    assert (peer.front_end.traffic.publishers, peer.front_end.traffic.consumers) == (1, 1)
    if how == "disconnect":
        peer.disconnect()
    else:
        broker.engine.delete_queue("q", broker)
        broker.run()
        peer.publish(numbered(1))
    traffic = peer.front_end.traffic
    assert (traffic.publishers, traffic.consumers) == (0, 0)
    assert traffic.messages_confirmed == 1


# --- AMQP 0.9.1


def test_publishes_with_and_without_confirms(broker: InProcessBroker, channel: Wire091Peer):
    channel.publish(1, numbered(2), routing_key="q")
    channel.select_confirms()
    channel.publish(1, numbered(3), routing_key="q")
    traffic = channel.front_end.traffic
    assert (traffic.messages_received, traffic.messages_received_confirm, traffic.messages_confirmed) == (5, 3, 3)
    assert (traffic.publishers, traffic.channels, traffic.channels_opened) == (1, 1, 1)
    assert totals(broker.engine)["routed_amqp091"] == 5


def test_publishes_that_no_queue_wants(broker: InProcessBroker, channel: Wire091Peer):
    channel.publish(1, numbered(2), routing_key="nowhere", mandatory=True)
    channel.publish(1, numbered(3), routing_key="nowhere")
    channel.publish(1, numbered(4), routing_key="", exchange="amq.fanout")
    traffic = channel.front_end.traffic
    assert (traffic.messages_unroutable_returned, traffic.messages_unroutable_dropped) == (2, 7)
    assert totals(broker.engine)["routed_amqp091"] == 0


def test_deliveries_to_consumers(broker: InProcessBroker, channel: Wire091Peer):
    broker.fill(numbered(3))
    channel.consume()
    channel.ack(2, multiple=True)
    channel.send(1, BasicNack(delivery_tag=3, requeue=True))
    found = counted(channel.front_end.traffic)
    assert found["delivered"] == found["delivered_consume_manual_ack"] == 4
    assert (found["acknowledged"], found["redelivered"], found["consumers"]) == (2, 1, 1)


def test_deliveries_that_need_no_acknowledgement(broker: InProcessBroker, channel: Wire091Peer):
    broker.fill(numbered(3))
    channel.consume(no_ack=True)
    found = counted(channel.front_end.traffic)
    assert found["delivered_consume_auto_ack"] == 3
    assert "acknowledged" not in found


def test_basic_get(broker: InProcessBroker, channel: Wire091Peer):
    broker.fill(numbered(2))
    channel.send(1, BasicGet(queue="q", no_ack=True))
    channel.send(1, BasicGet(queue="q"))
    channel.send(1, BasicAck(delivery_tag=2))
    channel.send(1, BasicGet(queue="q"))
    found = counted(channel.front_end.traffic)
    assert (found["delivered"], found["delivered_get_auto_ack"], found["delivered_get_manual_ack"]) == (2, 1, 1)
    assert (found["get_empty"], found["acknowledged"]) == (1, 1)


def test_a_channel_that_is_closed(channel: Wire091Peer):
    channel.consume()
    channel.publish(1, numbered(1), routing_key="q")
    channel.call(1, ChannelClose(reply_code=200, reply_text="", class_id=0, method_id=0), ChannelCloseOk)
    traffic = channel.front_end.traffic
    assert (traffic.channels, traffic.channels_opened, traffic.publishers, traffic.consumers) == (0, 1, 0, 0)


def test_the_time_without_stage_credit_of_a_connection_stays_counted_when_it_is_gone(
    broker: InProcessBroker, channel: Wire091Peer
):
    broker.stall()
    for _ in range(10):
        channel.publish(1, numbered(100), routing_key="q")
    broker.advance(2.0)
    times, both = channel.front_end.traffic.flow.stage_credit, {"reader": 2.0, "channel": 2.0}
    assert (times.counts(), times.seconds(broker.now.monotonic)) == ({"reader": 1, "channel": 1}, both)
    channel.disconnect()
    broker.advance(5.0)
    assert (times.counts(), times.seconds(broker.now.monotonic)) == ({"reader": 0, "channel": 0}, both)


# --- the engine


def test_queues_that_are_declared_made_and_deleted(broker: InProcessBroker, channel: Wire091Peer):
    channel.declare()
    channel.declare("other")
    channel.call(1, QueueDelete(queue="other"), QueueDeleteOk)
    found = totals(broker.engine)
    assert (found["queues_declared"], found["queues_created"], found["queues_deleted"]) == (3, 2, 1)
    assert found["queues"] == 1


def test_the_figures_of_queues_are_those_of_their_rows(broker: InProcessBroker, channel: Wire091Peer):
    broker.fill(numbered(3))
    channel.send(1, BasicGet(queue="q"))
    (row,) = broker.engine.snapshot("queues")
    (figures,) = broker.engine.queue_figures()
    assert figures == {name: row[name] for name in figures}
    assert (figures["messages_ready"], figures["messages_unacknowledged"], figures["published"]) == (2, 1, 3)


def test_a_queue_that_goes_while_the_figures_are_read_is_still_told(broker: InProcessBroker):
    broker.queue("a")
    broker.queue("b")
    figures = broker.engine.queue_figures()
    assert next(figures)["name"] == "a"
    broker.engine.delete_queue("b", broker)
    assert [row["name"] for row in figures] == ["b"]


# --- lanes


def test_batches_of_a_lane_are_counted_by_size_and_syncs_by_duration():
    lane, disk = Lane("classic", generation=1, sync_interval_s=0.0), MemoryDisk()
    for number, seconds in enumerate((0.0005, 0.3, 60.0)):
        for at in range(2):
            lane.append(f"{number}", at * 64, RecordKind.PUBLISH, [b"x"])
        batch = lane.take_write()
        assert batch is not None
        batch.run(disk)
        lane.wrote(batch)
        sync = lane.take_sync(float(number))
        assert sync is not None
        sync.run(disk)
        lane.did_sync(sync, seconds)
    syncs = dict(cumulative(SYNC_SECONDS, lane.sync_counts))
    assert (syncs["0.0005"], syncs["0.2"], syncs["0.5"], syncs["5.0"], syncs["+Inf"]) == (1, 1, 2, 2, 3)
    batches = dict(cumulative(BATCH_RECORDS, lane.batch_counts))
    assert (batches["1.0"], batches["2.0"], batches["+Inf"]) == (0, 3, 3)
