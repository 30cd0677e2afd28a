"""What links see when queues and exchanges are made and deleted, as RabbitMQ's client suite and Qpid's tests
show it."""

from amqp10.wire.messaging import ACCEPTED, RELEASED, Source, Target
from amqp10.wire.performatives import Attach, Close, Detach, Disposition, End
from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration
from tests.kit.cases import case
from tests.kit.queue_types import for_each_type, from_first
from tests.kit.wire import InProcessBroker, WirePeer, numbered


def session(broker: InProcessBroker) -> WirePeer:
    """A client with a session."""
    peer = broker.connect()
    peer.begin()
    return peer


def exists(broker: InProcessBroker, name: str) -> bool:
    """True when the queue exists."""
    return any(row["name"] == name for row in broker.engine.snapshot("queues"))


def fan_out(broker: InProcessBroker, *names: str) -> str:
    """Bind an exchange to these queues, and declare those that do not exist; returns the exchange's address."""
    broker.engine.declare_exchange(ExchangeDeclaration(name="fan", type=ExchangeType.FANOUT, arguments={}))
    for name in names:
        if not exists(broker, name):
            broker.queue(name)
        binding = Binding(source="fan", destination=name, destination_is_queue=True, binding_key="", arguments={})
        broker.engine.bind(binding, broker)
    return "/exchanges/fan"


@for_each_type
@case("amqp_client_SUITE", "server_closes_link_classic")
@case("amqp_client_SUITE", "server_closes_link_quorum")
@case("amqp_client_SUITE", "server_closes_link_stream")
@case("extensions.qpid.queue.QueueDeletionTest", "senderDetachedOnQueueDelete")
@case("extensions.qpid.queue.QueueDeletionTest", "receiverDetachedOnQueueDelete")
def test_deleting_a_queue_detaches_both_its_links(kind: str):
    """server_closes_link_classic (amqp_client_SUITE)
    server_closes_link_quorum (amqp_client_SUITE)
    server_closes_link_stream (amqp_client_SUITE)
    senderDetachedOnQueueDelete (extensions.qpid.queue.QueueDeletionTest)
    receiverDetachedOnQueueDelete (extensions.qpid.queue.QueueDeletionTest)"""
    broker = InProcessBroker(durable=True)
    address = broker.queue(x_queue_type=kind)
    peer = session(broker)
    peer.attach_sender(address)
    peer.attach_receiver(address, source=from_first(address))
    broker.fill([b"unsettled", b"ready"])
    peer.grant(1)
    assert peer.bodies() == [b"unsettled"]
    broker.engine.delete_queue("q", broker)
    broker.run()
    detached = {each.handle: each.error.condition for each in peer.take(Detach)}
    assert detached == {0: "amqp:resource-deleted", 1: "amqp:resource-deleted"}
    assert peer.session().outgoing.count == 0


@case("amqp_client_SUITE", "server_closes_link_exchange_unsettled")
@case("amqp_client_SUITE", "server_closes_link_exchange_settled")
def test_publishing_to_an_exchange_that_was_deleted():
    """server_closes_link_exchange_unsettled (amqp_client_SUITE)
    server_closes_link_exchange_settled (amqp_client_SUITE)"""
    broker = InProcessBroker()
    for settled in (False, True):
        address = fan_out(broker)
        peer = session(broker)
        peer.attach_sender(address)
        peer.frames.clear()
        broker.engine.delete_exchange("fan")
        broker.run()
        assert peer.nothing_came()
        peer.transfer(settled=settled)
        answers = [(each.first, each.state) for each in peer.take(Disposition)]
        assert answers == ([] if settled else [(0, RELEASED)])
        assert peer.detached_with("amqp:not-found")
        assert not peer.take(End)


@for_each_type
@case("amqp_client_SUITE", "link_target_classic_queue_deleted")
@case("amqp_client_SUITE", "link_target_quorum_queue_deleted")
def test_an_unconfirmed_message_is_released_when_its_queue_goes(kind: str):
    """link_target_classic_queue_deleted (amqp_client_SUITE): the answer comes before the detach.
    link_target_quorum_queue_deleted (amqp_client_SUITE)"""
    broker = InProcessBroker(durable=True)
    peer = session(broker)
    peer.attach_sender(broker.queue(x_queue_type=kind))
    broker.stall()
    peer.publish(numbered(3))
    peer.frames.clear()
    broker.engine.delete_queue("q", broker)
    broker.run()
    assert peer.expect(Disposition) == Disposition(role=True, first=0, last=2, settled=True, state=RELEASED)
    assert peer.expect(Detach).error.condition == "amqp:resource-deleted"


@case("amqp_client_SUITE", "target_queues_deleted_accepted")
@case("amqp_client_SUITE", "last_queue_confirms")
def test_the_last_of_several_queues_decides():
    """target_queues_deleted_accepted (amqp_client_SUITE): one of three queues took the message, and the others are
    deleted.
    last_queue_confirms (amqp_client_SUITE): the message is accepted only when the slow queue, a stalled quorum queue,
    has it too."""
    broker = InProcessBroker(durable=True)
    peer = session(broker)
    broker.queue("b", x_queue_type="quorum")
    peer.attach_sender(fan_out(broker, "a", "b", "c"))
    broker.stall("b")
    broker.stall("c")
    peer.transfer()
    peer.frames.clear()
    broker.recover("b")
    assert peer.nothing_came()
    broker.engine.delete_queue("c", broker)
    broker.run()
    assert peer.expect(Disposition).state == ACCEPTED


@case("amqp_client_SUITE", "target_queue_deleted")
def test_a_deleted_target_and_a_slow_one():
    """target_queue_deleted (amqp_client_SUITE): the message is accepted when the slow queue, a stalled quorum queue,
    takes it."""
    broker = InProcessBroker(durable=True)
    peer = session(broker)
    broker.queue("slow", x_queue_type="quorum")
    peer.attach_sender(fan_out(broker, "gone", "slow"))
    broker.stall("gone")
    broker.stall("slow")
    peer.transfer()
    peer.frames.clear()
    broker.engine.delete_queue("gone", broker)
    broker.run()
    assert peer.nothing_came()
    broker.recover("slow")
    assert peer.expect(Disposition).state == ACCEPTED


@case("amqp_client_SUITE", "attach_to_exclusive_queue")
def test_a_queue_that_is_exclusive_to_another_connection():
    """attach_to_exclusive_queue (amqp_client_SUITE)"""
    broker = InProcessBroker()
    broker.engine.declare_queue(QueueDeclaration(name="mine", exclusive=True, arguments={}), object())
    peer = session(broker)
    assert peer.attach_receiver("/queues/mine").source is None
    assert peer.detached_with("amqp:resource-locked")
    peer.attach_sender("/queues/mine")
    assert peer.detached_with("amqp:resource-locked")


@case("amqp_client_SUITE", "dynamic_target_short_link_name")
@case("amqp_client_SUITE", "dynamic_target_long_link_name")
def test_the_name_of_a_dynamic_node():
    """dynamic_target_short_link_name (amqp_client_SUITE)
    dynamic_target_long_link_name (amqp_client_SUITE)"""
    broker = InProcessBroker()
    peer = session(broker)
    for handle, name in ((0, "short"), (1, "n" * 2000)):
        target = peer.attach_sender(None, handle=handle, name=name, target=Target(dynamic=True)).target
        assert target.dynamic
        assert target.address.startswith(f"/queues/amq.dyn-test-{name[:50]}")
        assert len(target.address) < 300
        peer.transfer(handle=handle)
        assert peer.pick(Disposition).state == ACCEPTED


@case("amqp_client_SUITE", "dynamic_terminus_delete")
@case("messaging.DeleteOnCloseTest", "deleteOnCloseOnSource")
@case("messaging.DeleteOnCloseTest", "deleteOnCloseOnTarget")
def test_a_dynamic_node_goes_with_its_link():
    """dynamic_terminus_delete (amqp_client_SUITE): by detach, end and close.
    deleteOnCloseOnSource (messaging.DeleteOnCloseTest)
    deleteOnCloseOnTarget (messaging.DeleteOnCloseTest)"""
    broker = InProcessBroker()
    peer = session(broker)

    def attach_both() -> list[str]:
        source = peer.attach_receiver(None, source=Source(dynamic=True)).source
        target = peer.attach_sender(None, target=Target(dynamic=True)).target
        return [str(node.address).removeprefix("/queues/") for node in (source, target)]

    names = attach_both()
    assert all(exists(broker, name) for name in names)
    peer.detach(1)
    assert [exists(broker, name) for name in names] == [False, True]
    peer.detach(0)
    assert not exists(broker, names[1])

    names = attach_both()
    peer.send(End())
    assert not any(exists(broker, name) for name in names)

    peer.begin(channel=0)
    names = attach_both()
    peer.disconnect()
    assert not any(exists(broker, name) for name in names)


@case("extensions.bindmapjms.TemporaryDestinationTest", "deleteOnCloseWithConnectionCloseForQueue")
@case("extensions.bindmapjms.TemporaryDestinationTest", "createTemporaryQueueReceivingLink")
@case(
    "extensions.bindmapjms.TemporaryDestinationTest", "createTemporaryQueueReceivingLinkFromOtherConnectionDisallowed"
)
@case("extensions.bindmapjms.TemporaryDestinationTest", "createTemporaryQueueSendingLinkFromOtherConnectionAllowed")
def test_which_connections_may_use_a_dynamic_node():
    """deleteOnCloseWithConnectionCloseForQueue (extensions.bindmapjms.TemporaryDestinationTest)
    createTemporaryQueueReceivingLink (extensions.bindmapjms.TemporaryDestinationTest)
    createTemporaryQueueReceivingLinkFromOtherConnectionDisallowed (extensions.bindmapjms.TemporaryDestinationTest)
    createTemporaryQueueSendingLinkFromOtherConnectionAllowed (extensions.bindmapjms.TemporaryDestinationTest)"""
    broker = InProcessBroker()
    owner, other = session(broker), session(broker)
    address = owner.attach_sender(None, target=Target(dynamic=True)).target.address
    owner.attach_receiver(address)
    owner.grant(1)
    assert other.attach_receiver(address).source is None
    assert other.detached_with("amqp:resource-locked")
    other.attach_sender(address)
    other.transfer(b"for the owner")
    assert owner.bodies() == [b"for the owner"]
    owner.send(Close())
    assert not exists(broker, address.removeprefix("/queues/"))


@case("amqp_client_SUITE", "list_connections")
def test_connections_can_be_listed():
    """list_connections (amqp_client_SUITE): of one node."""
    broker = InProcessBroker()
    peers = [broker.connect(container_id=f"container-{number}") for number in range(2)]
    rows = [row for peer in peers for row in peer.front_end.snapshot("connections", peer.broker.now)]
    assert [(row["container_id"], row["user"], row["protocol"]) for row in rows] == [
        ("container-0", "guest", "amqp-1.0"),
        ("container-1", "guest", "amqp-1.0"),
    ]


@case("amqp_client_SUITE", "dynamic_source_rpc")
def test_request_and_reply_through_a_dynamic_source():
    """dynamic_source_rpc (amqp_client_SUITE)"""
    broker = InProcessBroker()
    requests = broker.queue("requests")
    client, server = session(broker), session(broker)
    reply_to = client.attach_receiver(None, source=Source(dynamic=True)).source.address
    client.grant(1)
    client.attach_sender(requests)
    server.attach_receiver(requests)
    server.grant(1)
    client.transfer(b"question")
    assert server.bodies() == [b"question"]
    server.attach_sender(reply_to)
    server.transfer(b"answer")
    assert client.bodies() == [b"answer"]


@case("amqp_client_SUITE", "handle_in_use")
def test_a_handle_that_is_in_use():
    """handle_in_use (amqp_client_SUITE)"""
    broker = InProcessBroker()
    address = broker.queue()
    peer = session(broker)
    peer.attach_sender(address, handle=99)
    peer.send(Attach(name="other", handle=99, role=False, target=Target(address=address), initial_delivery_count=0))
    assert peer.ended_with("amqp:session:handle-in-use")
