"""Flow events of AMQP 0.9.1: channels as links, the reader's stalls, and stages of stage credit."""

from core.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicReject,
    ConfirmSelect,
    ConfirmSelectOk,
)
from core.flow_facts import FLOW_STREAM
from core.observe.flow_events.ring import RecordRing
from core.observe.flow_events.schema import EventKind, FlowEventRecord, encode_record
from tests.kit.stall_scenarios import publish_while_read, with_queue
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import connect


def broker_with(**options: object) -> InProcessBroker:
    return InProcessBroker(flow_ring=RecordRing(10_000), **options)


def told(broker: InProcessBroker, *kinds: EventKind) -> list[FlowEventRecord]:
    assert list(broker.flow.tell_due()) == []
    ring = broker.flow.ring
    records = [ring.take() for _ in range(len(ring))]
    for record in records:
        encode_record(record)
    return [record for record in records if not kinds or record.kind in kinds]


def total(records: list[FlowEventRecord], direction: str, name: str) -> int:
    return sum(
        int(record.fields.get(name, 0))
        for record in records
        if record.kind == EventKind.ACTIVITY and record.fields["direction"] == direction
    )


def test_a_channel_is_a_link_for_each_direction():
    broker = broker_with()
    peer = connect(broker)
    peer.declare()
    opened = told(broker)
    assert [record.kind for record in opened] == [EventKind.CONNECTION_OPENED]
    assert (opened[0].fields["protocol"], opened[0].fields["user"]) == ("amqp-0-9-1", "guest")
    peer.call(1, ConfirmSelect(), ConfirmSelectOk)
    peer.publish(1, numbered(30), routing_key="q")
    peer.publish(1, numbered(5), routing_key="nowhere")
    peer.call(1, BasicConsume(queue="q", consumer_tag="c"), BasicConsumeOk)
    broker.advance(1.0)
    peer.send(1, BasicAck(delivery_tag=20, multiple=True), BasicReject(delivery_tag=21, requeue=False))
    peer.disconnect()
    records = told(broker)
    attached = [
        (record.fields["link"], record.fields["direction"])
        for record in records
        if record.kind == EventKind.LINK_ATTACHED
    ]
    assert attached == [("test-0/1", "in"), ("test-0/1", "out")]
    assert total(records, "in", "transfers") == 35
    assert (total(records, "in", "accepted"), total(records, "in", "released")) == (30, 5)
    assert total(records, "out", "transfers") == 30
    assert (total(records, "out", "accepted"), total(records, "out", "rejected")) == (20, 1)
    assert not any("granted" in record.fields or "link_credit" in record.fields for record in records)
    ends = [record.kind for record in records if record.kind != EventKind.ACTIVITY][-3:]
    assert ends == [EventKind.LINK_DETACHED, EventKind.LINK_DETACHED, EventKind.CONNECTION_CLOSED]
    assert broker.flow.busy == {}


def test_the_stages_of_a_slow_queue_are_told_and_their_end():
    broker = broker_with()
    peer = with_queue(broker)
    broker.stall()
    publish_while_read(peer)
    broker.go_round(1.0)
    records = told(broker, EventKind.STAGE, EventKind.BLOCKED)
    stages = {record.fields["stage"]: record.fields for record in records if record.kind == EventKind.STAGE}
    assert (stages["reader"]["name"], stages["reader"]["blocked"]) == ("test-0", True)
    assert stages["reader"]["held_up_by"] == "test-0/1"
    assert (stages["channel"]["name"], stages["channel"]["held_up_by"]) == ("test-0/1", "q")
    (stall,) = [record.fields for record in records if record.kind == EventKind.BLOCKED]
    assert (stall["connection"], stall["reason"], stall["culprit"]) == ("test-0", "stage-credit", "queue q")
    assert "link" not in stall
    broker.recover()
    broker.go_round(1.0)
    records = told(broker, EventKind.STAGE, EventKind.UNBLOCKED)
    ends = [
        record.fields["stage"] for record in records if record.kind == EventKind.STAGE and not record.fields["blocked"]
    ]
    assert {"reader", "channel"} <= set(ends)
    assert [record.fields["reason"] for record in records if record.kind == EventKind.UNBLOCKED] == ["stage-credit"]


def test_an_alarm_blocks_the_reader():
    broker = broker_with()
    peer = with_queue(broker)
    broker.raise_alarm("disk")
    peer.publish(1, numbered(1), routing_key="q")
    broker.go_round(1.0)
    (stall,) = told(broker, EventKind.BLOCKED)
    assert (stall.fields["reason"], stall.fields["culprit"]) == ("disk", "alarm disk")


def test_the_stream_does_not_feed_on_its_readers():
    broker = broker_with(durable=True)
    broker.queue(FLOW_STREAM, x_queue_type="stream")
    peer = connect(broker)
    peer.send(1, BasicQos(prefetch_count=100))
    told(broker)
    consume = BasicConsume(queue=FLOW_STREAM, consumer_tag="c", arguments={"x-stream-offset": "first"})
    peer.call(1, consume, BasicConsumeOk)
    broker.fill(numbered(10), FLOW_STREAM)
    assert len(peer.deliveries()) == 10
    peer.send(1, BasicAck(delivery_tag=10, multiple=True))
    broker.advance(1.0)
    assert told(broker) == []


def test_with_flow_events_off_there_is_no_recorder():
    broker = InProcessBroker()
    peer = connect(broker)
    peer.declare()
    peer.publish(1, numbered(30), routing_key="q")
    peer.call(1, BasicConsume(queue="q", consumer_tag="c"), BasicConsumeOk)
    front_end = peer.front_end
    assert (front_end._shared.flow, front_end._stages) == (None, None)
    (channel,) = front_end.channels.values()
    assert (channel.publishing._flow, channel.consuming._flow) == (None, None)
