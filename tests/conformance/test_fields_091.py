"""Each field and argument that a client of AMQP 0.9.1 may set: the broker does what it says, refuses it, or ignores it.

The marks are rows of ``docs/protocol/fields.md``; ``tests/conformance/fields.py`` writes it.
"""

import pytest

from core.amqp091.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
    TxSelect,
    TxSelectOk,
)
from core.amqp091.table import Amqp091Timestamp
from tests.kit.fates import does, ignores, refuses
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import PROTOCOL_HEADER, Wire091Peer, connect

EXACT = BasicQos(prefetch_count=10)


class Client:
    """A client with channel 1, and a queue ``q`` of three messages."""

    def __init__(self, *, durable: bool = False) -> None:
        self.broker = InProcessBroker(durable=durable)
        self.peer = connect(self.broker)
        self.peer.declare("q")
        self.peer.publish(1, numbered(3), routing_key="q")

    def refused(self, method: Method) -> int:
        """Check that the channel is closed; returns the code. The channel is opened again."""
        return self.peer.refusal(1, method)[0]

    def stream(self) -> None:
        """Declare a stream ``s`` with three messages, and set a prefetch. The broker must have storage."""
        self.peer.declare("s", durable=True, arguments={"x-queue-type": "stream"})
        self.peer.publish(1, numbered(3), routing_key="s")
        self.peer.call(1, EXACT, BasicQosOk)


# --- connection ------------------------------------------------------------------------------------------------------


def started() -> Wire091Peer:
    """A peer whose next method is connection.start-ok."""
    peer = Wire091Peer(InProcessBroker())
    peer.send_bytes(PROTOCOL_HEADER)
    assert peer.expect(ConnectionStart).locales == b"en_US"
    return peer


@ignores("any method", "ticket", "a field of AMQP 0.8, reserved [0-9-1 1.4]")
@does("any method", "no_wait", "no answer is sent")
def test_no_wait():
    c = Client()
    for method in (
        QueueDeclare(queue="p", no_wait=True, ticket=7),
        QueueBind(queue="p", exchange="amq.topic", routing_key="k", no_wait=True),
        QueuePurge(queue="p", no_wait=True),
        BasicConsume(queue="p", consumer_tag="c", no_wait=True),
        BasicCancel(consumer_tag="c", no_wait=True),
        QueueDelete(queue="p", no_wait=True),
        ExchangeDeclare(exchange="e", no_wait=True),
        ExchangeBind(destination="e", source="amq.topic", no_wait=True),
        ExchangeUnbind(destination="e", source="amq.topic", no_wait=True),
        ExchangeDelete(exchange="e", no_wait=True),
        ConfirmSelect(no_wait=True),
    ):
        c.peer.send(1, method)
        assert not c.peer.take(), method


@does(
    "connection.start-ok",
    "client_properties",
    "capabilities `authentication_failure_close`, `consumer_cancel_notify`, `connection.blocked`; others: information",
)
@does("connection.start-ok", "mechanism, response", "the login; another mechanism: 503")
@ignores("connection.start-ok", "locale", "texts are in en_US, the only one that connection.start offers")
@does("connection.secure-ok", "response", "no mechanism that is offered needs it; out of turn: 503")
def test_start_ok():
    peer = started()
    peer.send(0, ConnectionStartOk(mechanism="PLAIN", locale="de_DE"))
    peer.expect(ConnectionTune)
    for method in (ConnectionStartOk(mechanism="EXTERNAL"), ConnectionSecureOk(response=b"x")):
        peer = started()
        peer.send(0, method)
        assert peer.expect(ConnectionClose).reply_code == 503


@does(
    "connection.tune-ok",
    "channel_max, frame_max",
    "the limits of both sides; above the broker's offer: 530; 0 means the offer",
)
@does(
    "connection.tune-ok",
    "heartbeat",
    "how often each side sends at least; a client silent for two heartbeats is disconnected",
)
@does("connection.open", "virtual_host", "`/`; another one: 530")
@ignores("connection.open", "capabilities, insist", "fields of AMQP 0.8, reserved [0-9-1 1.4.2.7]")
def test_tune_ok_and_open():
    peer = started()
    peer.send(0, ConnectionStartOk(mechanism="PLAIN"), ConnectionTuneOk(channel_max=5, frame_max=4096, heartbeat=1))
    peer.take()
    peer.send(0, ConnectionOpen(virtual_host="/", capabilities="x", insist=True))
    peer.expect(ConnectionOpenOk)
    peer.broker.advance(1)
    assert peer.heartbeats
    peer.send(6, ChannelOpen())
    assert peer.expect(ConnectionClose).reply_code == 530
    for tune, host in ((ConnectionTuneOk(frame_max=2**31), "/"), (ConnectionTuneOk(), "other")):
        peer = started()
        peer.send(0, ConnectionStartOk(mechanism="PLAIN"), tune, ConnectionOpen(virtual_host=host))
        assert peer.pick(ConnectionClose).reply_code == 530


@ignores(
    "connection.update-secret",
    "new_secret, reason",
    "answered; a password does not expire",
)
@ignores("connection.close", "reply_code, reply_text, class_id, method_id", "information")
def test_an_open_connection():
    c = Client()
    c.peer.call(0, ConnectionUpdateSecret(new_secret=b"new", reason="why"), ConnectionUpdateSecretOk)
    c.peer.call(0, ConnectionClose(reply_code=200, reply_text="x", class_id=1, method_id=2), ConnectionCloseOk)


# --- channel ---------------------------------------------------------------------------------------------------------


@ignores("channel.open", "out_of_band", "a field of AMQP 0.8, reserved [0-9-1 1.5.2.1]")
@ignores("channel.close", "reply_code, reply_text, class_id, method_id", "information")
@ignores("access.request", "realm, exclusive, passive, active, write, read", "of AMQP 0.8; answered, as RabbitMQ does")
@does("channel.flow", "active (true)", "answered; nothing was stopped")
@refuses("channel.flow", "active (false)", "540: a consumer is stopped with its prefetch or basic.cancel")
def test_channels():
    c = Client()
    c.peer.call(2, ChannelOpen(out_of_band="x"), ChannelOpenOk)
    c.peer.call(2, AccessRequest(realm="x", exclusive=True), AccessRequestOk)
    assert c.peer.call(2, ChannelFlow(active=True), ChannelFlowOk).active is True
    c.peer.call(2, ChannelClose(reply_code=200, reply_text="x", class_id=1, method_id=2), ChannelCloseOk)
    assert c.peer.closed_with(1, ChannelFlow(active=False)) == 540


# --- exchange --------------------------------------------------------------------------------------------------------


@does(
    "exchange.declare",
    "exchange, type, durable, auto_delete, internal",
    "another type: 406; a declaration that differs: 406",
)
@does("exchange.declare", "passive", "checks that it exists: otherwise 404")
@does("exchange.declare", "arguments (alternate-exchange)", "a value that is not a string: 406")
@refuses("exchange.declare", "arguments (any other that begins with x-)", "406")
@ignores(
    "exchange.declare",
    "arguments (x-delayed-type)",
    "has a meaning only for type x-delayed-message, which is refused",
)
@ignores("exchange.declare", "arguments (any other)", "the client's own; stored and shown")
def test_exchanges():
    c = Client()
    kept = {"alternate-exchange": "amq.fanout", "x-delayed-type": "direct", "mine": 1}
    c.peer.exchange("e", auto_delete=True, arguments=kept)
    c.peer.exchange("e", passive=True)
    c.peer.exchange("i", internal=True)
    c.peer.publish(1, [b"m"], exchange="i", routing_key="")
    assert c.peer.reopened(1)[0] == 403
    assert c.refused(ExchangeDeclare(exchange="none", passive=True)) == 404
    assert c.refused(ExchangeDeclare(exchange="e", durable=True, arguments=kept)) == 406
    assert c.refused(ExchangeDeclare(exchange="x", type="x-delayed-message")) == 406
    for arguments in ({"x-later": 1}, {"alternate-exchange": 1}):
        assert c.refused(ExchangeDeclare(exchange="x", arguments=arguments)) == 406


@does("exchange.delete", "exchange", "one that does not exist: answered")
@does("exchange.delete", "if_unused", "in use: 406")
@does("exchange.bind", "destination, source, routing_key, arguments", "one that does not exist: 404")
@does("exchange.unbind", "destination, source, routing_key, arguments", "a binding that does not exist: answered")
def test_exchanges_bound_and_deleted():
    c = Client()
    c.peer.exchange("e", type="fanout")
    edge = {"destination": "e", "source": "amq.topic", "routing_key": "k"}
    c.peer.call(1, ExchangeBind(**edge), ExchangeBindOk)  # type: ignore[arg-type]
    c.peer.bind("e")
    c.peer.publish(1, [b"m"], exchange="amq.topic", routing_key="k")
    assert c.broker.ready() == 4
    assert c.refused(ExchangeDelete(exchange="e", if_unused=True)) == 406
    c.peer.call(1, ExchangeUnbind(**edge), ExchangeUnbindOk)  # type: ignore[arg-type]
    c.peer.call(1, ExchangeUnbind(**edge), ExchangeUnbindOk)  # type: ignore[arg-type]
    c.peer.call(1, ExchangeDelete(exchange="e"), ExchangeDeleteOk)
    c.peer.call(1, ExchangeDelete(exchange="e"), ExchangeDeleteOk)
    assert c.refused(ExchangeBind(destination="none", source="amq.topic")) == 404


# --- queue -----------------------------------------------------------------------------------------------------------


@does(
    "queue.declare",
    "queue, durable, exclusive, auto_delete",
    "a declaration that differs: 406; an exclusive queue of another connection: 405",
)
@does("queue.declare", "passive", "checks that it exists: otherwise 404")
@does("queue.declare", "arguments", "[the table](../queues.md#arguments-and-policies); an invalid value: 406")
@refuses("queue.declare", "arguments (any other that begins with x-, or not for this type of queue)", "406")
@ignores(
    "queue.declare",
    "arguments (x-queue-leader-locator, x-queue-master-locator, x-quorum-initial-group-size,"
    " x-quorum-target-group-size, x-initial-cluster-size, x-initial-group-size)",
    "a broker alone keeps one copy of each queue; [a cluster](../cluster.md) has more of quorum queues and streams",
)
@ignores("queue.declare", "arguments (x-queue-version)", "there is only one version of the index")
@ignores(
    "queue.declare",
    "arguments (x-max-in-memory-length, x-max-in-memory-bytes)",
    "the broker divides memory among queues",
)
@ignores("queue.declare", "arguments (x-stream-filter-size-bytes)", "filter values are compared exactly")
@ignores("queue.declare", "arguments (any other)", "the client's own; stored and shown")
def test_queues():
    c = Client(durable=True)
    c.peer.call(1, QueueDeclare(queue="q", passive=True), QueueDeclareOk)
    assert c.refused(QueueDeclare(queue="none", passive=True)) == 404
    assert c.refused(QueueDeclare(queue="q", durable=True)) == 406
    assert c.refused(QueueDeclare(queue="q", exclusive=True)) == 405
    for arguments in ({"x-later": 1}, {"x-max-length": -1}, {"x-max-age": "1D"}, {"x-delivery-limit": 1}):
        assert c.refused(QueueDeclare(queue="new", arguments=arguments)) == 406
    one_node = dict.fromkeys(("x-quorum-initial-group-size", "x-quorum-target-group-size"), 3)
    memory = dict.fromkeys(("x-max-in-memory-length", "x-max-in-memory-bytes"), 1)
    c.peer.declare(
        "quorum",
        durable=True,
        arguments={"x-queue-type": "quorum", "x-queue-leader-locator": "balanced", "mine": 1, **one_node, **memory},
    )
    stream = {"x-queue-type": "stream", "x-stream-filter-size-bytes": 16}
    one_node = dict.fromkeys(("x-initial-cluster-size", "x-initial-group-size"), 3)
    c.peer.declare("stream", durable=True, arguments={**stream, **one_node})
    c.peer.declare("classic", arguments={"x-queue-version": 2, "x-queue-master-locator": "min-masters"})


@does(
    "queue.declare",
    "arguments (x-deliver-limit)",
    "the same as `x-delivery-limit`; RabbitMQ's client for Python uses this name",
)
@pytest.mark.parametrize("name", ["x-delivery-limit", "x-deliver-limit"])
def test_the_delivery_limit(name: str):
    c = Client(durable=True)
    c.peer.declare("q1", durable=True, arguments={"x-queue-type": "quorum", name: 1})
    c.peer.publish(1, [b"m"], routing_key="q1")
    for tag in (1, 2):
        c.peer.send(1, BasicGet(queue="q1"))
        assert c.peer.got() is not None
        c.peer.send(1, BasicReject(delivery_tag=tag, requeue=True))
    c.peer.send(1, BasicGet(queue="q1"))
    assert c.peer.got() is None


@does("queue.bind", "queue, exchange, routing_key", "a queue or exchange that does not exist: 404")
@does("queue.bind", "arguments", "compared by a headers exchange; part of the binding's identity for all exchanges")
@refuses("queue.bind", "arguments (x-match: an unknown one)", "406")
@does("queue.unbind", "queue, exchange, routing_key, arguments", "a binding that does not exist: answered")
@does("queue.purge", "queue", "removes the ready messages")
@refuses("queue.purge", "queue (a stream)", "406")
@does("queue.delete", "queue", "one that does not exist: answered, 0 messages")
@does("queue.delete", "if_unused, if_empty", "406 if it is in use, or not empty")
def test_queues_bound_purged_and_deleted():
    c = Client()
    binding = {"queue": "q", "exchange": "amq.headers", "arguments": {"x-match": "any", "a": 1}}
    c.peer.call(1, QueueBind(**binding), QueueBindOk)  # type: ignore[arg-type]
    assert c.refused(QueueBind(**{**binding, "arguments": {"x-match": "some"}})) == 406  # type: ignore[arg-type]
    assert c.refused(QueueBind(queue="q", exchange="none")) == 404
    of_stream = Client(durable=True)
    of_stream.stream()
    assert of_stream.refused(QueuePurge(queue="s")) == 406
    for _ in range(2):
        c.peer.call(1, QueueUnbind(**binding), QueueUnbindOk)  # type: ignore[arg-type]
    assert c.refused(QueueDelete(queue="q", if_empty=True)) == 406
    assert c.peer.call(1, QueuePurge(queue="q"), QueuePurgeOk).message_count == 3
    c.peer.consume("q", consumer_tag="c")
    assert c.refused(QueueDelete(queue="q", if_unused=True)) == 406
    c.peer.call(1, QueueDelete(queue="q", if_unused=True, if_empty=True), QueueDeleteOk)
    assert c.peer.call(1, QueueDelete(queue="q"), QueueDeleteOk).message_count == 0


# --- basic -----------------------------------------------------------------------------------------------------------


@does("basic.qos", "prefetch_count", "applies to each later consumer of the channel; 0: no limit")
@does("basic.qos", "global", "applies to the whole channel, as in RabbitMQ")
@refuses("basic.qos", "prefetch_size", "540")
@pytest.mark.parametrize("whole", [False, True])
def test_the_prefetch(whole: bool):
    c = Client()
    c.peer.call(1, BasicQos(prefetch_count=1, global_=whole), BasicQosOk)
    c.peer.consume("q", consumer_tag="one")
    c.peer.consume("q", consumer_tag="two")
    assert len(c.peer.bodies()) == (1 if whole else 2)
    assert c.peer.closed_with(1, BasicQos(prefetch_size=1)) == 540


@does("basic.consume", "queue, consumer_tag, no_ack", "a tag that is in use on the channel: 530")
@does("basic.consume", "exclusive", "if there is another consumer: 403")
@refuses("basic.consume", "no_local", "540: the broker would have to withhold messages")
def test_consuming():
    c = Client()
    c.peer.consume("q", consumer_tag="one", no_ack=True)
    assert len(c.peer.bodies()) == 3
    c.peer.call(2, ChannelOpen(), ChannelOpenOk)
    assert c.peer.refusal(2, BasicConsume(queue="q", consumer_tag="two", exclusive=True))[0] == 403
    assert c.peer.closed_with(2, BasicConsume(queue="q", consumer_tag="two", no_local=True)) == 540
    again = Client()
    again.peer.consume("q", consumer_tag="one")
    again.peer.take()
    assert again.peer.closed_with(1, BasicConsume(queue="q", consumer_tag="one")) == 530


@does("basic.consume", "arguments (x-priority, x-consumer-timeout, of a queue)", "an invalid value: 406")
@does(
    "basic.consume",
    "arguments (x-stream-offset, x-stream-filter, x-stream-match-unfiltered, of a stream)",
    "an invalid value: 406",
)
@does(
    "basic.consume",
    "arguments (x-cancel-on-ha-failover)",
    "true: basic.cancel when the leader of the queue is lost, else the consumer stays; no boolean: 406",
)
@refuses(
    "basic.consume", "arguments (any other that begins with x-, or not for this type of queue)", "406, as in RabbitMQ"
)
@ignores("basic.consume", "arguments (any other)", "the client's own")
def test_arguments_of_consumers():
    c = Client(durable=True)
    c.stream()
    for queue, arguments in (
        ("q", {"x-priority": "high"}),
        ("q", {"x-consumer-timeout": 0}),
        ("q", {"x-stream-offset": "first"}),
        ("q", {"x-stream-filter": "red"}),
        ("q", {"x-later": 1}),
        ("q", {"x-cancel-on-ha-failover": "yes"}),
        ("s", {"x-priority": 1}),
        ("s", {"x-stream-offset": "somewhere"}),
        ("s", {"x-stream-filter": [1]}),
        ("s", {"x-stream-filter": ["x"] * 257}),
        ("s", {"x-stream-match-unfiltered": "yes"}),
    ):
        assert c.refused(BasicConsume(queue=queue, arguments=arguments)) == 406, arguments  # type: ignore[arg-type]
        c.peer.call(1, EXACT, BasicQosOk)
    fine = {"x-priority": 1, "x-consumer-timeout": 60_000, "x-cancel-on-ha-failover": True, "mine": 1}
    c.peer.consume("q", consumer_tag="a", arguments=fine)
    start = {"x-stream-offset": Amqp091Timestamp(0), "x-stream-filter": "red", "x-stream-match-unfiltered": True}
    start["x-cancel-on-ha-failover"] = True
    c.peer.consume("s", consumer_tag="b", arguments=start)
    assert len(c.peer.bodies()) == 6


@does("basic.cancel", "consumer_tag", "an unknown tag: answered")
@does("basic.get", "queue, no_ack", "from a stream: 540")
@does("basic.ack", "delivery_tag, multiple", "an unknown tag: 406")
@does(
    "basic.reject", "delivery_tag, requeue", "returned to its place as a failed delivery; or dead-lettered, or dropped"
)
@does("basic.nack", "delivery_tag, multiple, requeue", "the same as basic.reject, but not counted as a failed delivery")
@does("basic.recover", "requeue (true)", "all unacknowledged deliveries of the channel are delivered again")
@refuses("basic.recover", "requeue (false)", "540")
@does("basic.recover-async", "requeue (true)", "the same as basic.recover, without an answer")
@refuses("basic.recover-async", "requeue (false)", "540")
def test_getting_and_settling():
    c = Client()
    assert c.peer.call(1, BasicCancel(consumer_tag="none"), BasicCancelOk).consumer_tag == "none"
    for tag in (1, 2, 3):
        c.peer.send(1, BasicGet(queue="q"))
        assert c.peer.got() is not None, tag
    c.peer.send(1, BasicNack(delivery_tag=2, multiple=True, requeue=True), BasicReject(delivery_tag=3, requeue=False))
    c.broker.run()
    assert (c.broker.ready(), c.broker.unacknowledged()) == (2, 0)
    c.peer.send(1, BasicGet(queue="q"))
    assert c.peer.got() is not None
    c.peer.send(1, BasicRecoverAsync(requeue=True))
    c.peer.call(1, BasicRecover(requeue=True), BasicRecoverOk)
    c.peer.send(1, BasicGet(queue="q", no_ack=True))
    assert c.peer.got() is not None
    assert c.refused(BasicAck(delivery_tag=99)) == 406
    of_stream = Client(durable=True)
    of_stream.stream()
    of_stream.peer.take()
    assert of_stream.peer.closed_with(1, BasicGet(queue="s")) == 540
    assert c.peer.closed_with(1, BasicRecover(requeue=False)) == 540
    assert Client().peer.closed_with(1, BasicRecoverAsync(requeue=False)) == 540


@does("basic.publish", "exchange, routing_key", "an exchange that does not exist: 404")
@does("basic.publish", "mandatory", "returned with basic.return if it is routed to no queue")
@refuses("basic.publish", "immediate", "540, as in RabbitMQ")
def test_publishing():
    c = Client()
    c.peer.call(1, ConfirmSelect(), ConfirmSelectOk)
    c.peer.publish(1, [b"m"], routing_key="none", mandatory=True)
    assert [body for _, body in c.peer.returned()] == [b"m"]
    c.peer.publish(1, [b"m"], routing_key="q", exchange="none")
    assert c.peer.reopened(1)[0] == 404
    c.peer.take()
    assert c.peer.closed_with(1, BasicPublish(routing_key="q", immediate=True)) == 540


@does("confirm.select", "no_wait", "as for other methods; a channel with transactions: 406")
def test_confirms():
    c = Client()
    c.peer.call(1, TxSelect(), TxSelectOk)
    assert c.refused(ConfirmSelect()) == 406
