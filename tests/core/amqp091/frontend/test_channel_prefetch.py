"""The prefetch-count of a whole channel, when a consumer of it ends."""

from core.amqp091.methods import BasicQos, BasicQosOk
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import connect


def test_a_deleted_queue_leaves_the_channel_s_room_to_the_other_consumers():
    peer = connect(InProcessBroker())
    peer.declare("gone")
    peer.declare("other")
    peer.call(1, BasicQos(prefetch_count=2, global_=True), BasicQosOk)
    peer.consume("gone")
    peer.publish(1, numbered(2), routing_key="gone")
    assert peer.bodies() == numbered(2)
    peer.consume("other")
    peer.publish(1, numbered(2, first=2), routing_key="other")
    assert peer.bodies() == []
    peer.broker.engine.begin_deleting_here("gone", peer)
    peer.broker.run()
    assert peer.bodies() == numbered(2, first=2)
