"""Transactions on a 0.9.1 channel: publishes and acknowledgements take effect together, or not at all."""

import pytest

from core.amqp091.framing import method_frame
from core.amqp091.methods import (
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    ExchangeDelete,
    QueueDeclare,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from core.amqp091.properties import BasicProperties
from tests.kit.engine import NOW
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.settings import make_settings
from tests.kit.storage import KeptDefinitions, open_storage, sync, write
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import Wire091Peer, connect


@pytest.fixture
def peer() -> Wire091Peer:
    """A client with queue q; channel 1 is transactional."""
    peer = connect(InProcessBroker(), 1, 2)
    peer.declare()
    peer.call(1, TxSelect(), TxSelectOk)
    return peer


def test_nothing_is_published_before_the_commit(peer: Wire091Peer):
    peer.publish(1, numbered(5), routing_key="q")
    assert peer.broker.ready() == 0
    peer.call(1, TxCommit(), TxCommitOk)
    assert peer.broker.ready() == 5
    assert peer.take() == [], "no confirms"


def test_a_rollback_throws_away_what_was_published(peer: Wire091Peer):
    peer.publish(1, numbered(5), routing_key="q")
    peer.call(1, TxRollback(), TxRollbackOk)
    peer.publish(1, [b"kept"], routing_key="q")
    peer.call(1, TxCommit(), TxCommitOk)
    peer.consume(channel=2)
    assert peer.bodies() == [b"kept"]


def test_an_empty_transaction_and_one_after_the_other(peer: Wire091Peer):
    for _ in range(3):
        peer.call(1, TxCommit(), TxCommitOk)
    peer.call(1, TxRollback(), TxRollbackOk)
    peer.call(1, TxSelect(), TxSelectOk)


def test_acknowledgements_belong_to_the_transaction(peer: Wire091Peer):
    peer.publish(2, numbered(6), routing_key="q")
    peer.consume()
    assert peer.bodies() == numbered(6)
    peer.ack(2, multiple=True)
    peer.ack(3)
    peer.send(1, BasicReject(delivery_tag=4, requeue=False), BasicNack(delivery_tag=5, requeue=False))
    assert peer.broker.unacknowledged() == 6
    peer.call(1, TxCommit(), TxCommitOk)
    assert peer.broker.unacknowledged() == 1


def test_a_rollback_forgets_acknowledgements_and_takes_nothing_back(peer: Wire091Peer):
    peer.publish(2, numbered(2), routing_key="q")
    peer.consume()
    assert peer.bodies() == numbered(2)
    peer.ack(2, multiple=True)
    peer.call(1, TxRollback(), TxRollbackOk)
    assert peer.broker.unacknowledged() == 2
    assert peer.take() == [], "what was delivered is not delivered again"
    peer.ack(1)
    peer.call(1, TxCommit(), TxCommitOk)
    assert peer.broker.unacknowledged() == 1


def test_room_for_more_comes_with_the_commit(peer: Wire091Peer):
    peer.publish(2, numbered(3), routing_key="q")
    peer.call(1, BasicQos(prefetch_count=1), BasicQosOk)
    peer.consume()
    assert peer.bodies() == [b"0"]
    peer.ack(1)
    assert peer.bodies() == []
    peer.send(1, TxCommit())
    assert peer.bodies() == [b"1"]
    assert peer.pick(TxCommitOk)


def test_thousands_of_single_acknowledgements_in_one_transaction(peer: Wire091Peer):
    peer.publish(2, numbered(3000), routing_key="q")
    peer.consume()
    assert len(peer.bodies()) == 3000
    for tag in range(3000, 0, -1):
        peer.ack(tag)
    peer.call(1, TxCommit(), TxCommitOk)
    assert peer.broker.unacknowledged() == 0


def test_an_acknowledgement_of_something_unknown_fails_the_commit(peer: Wire091Peer):
    peer.ack(7)
    code, text = peer.refusal(1, TxCommit())
    assert (code, "unknown delivery tag 7" in text) == (406, True)


def test_the_commit_is_answered_when_everything_is_safe():
    disk = MemoryDisk()
    storage = open_storage(disk, KeptDefinitions())
    broker = InProcessBroker(storage=storage)
    peer = connect(broker)
    peer.send(1, QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": "quorum"}), TxSelect())
    peer.take()
    peer.publish(1, numbered(2), routing_key="q", properties=BasicProperties(delivery_mode=2))
    peer.send(1, TxCommit(), TxSelect())
    assert write(storage.store.quorum, disk)
    broker.run()
    assert peer.take() == []
    assert sync(storage.store.quorum, disk, broker.now.monotonic)
    broker.run()
    assert [type(method) for _, method, _ in peer.take()] == [TxCommitOk, TxSelectOk], "what followed has waited"


def test_mandatory_messages_come_back_before_the_commit_is_answered(peer: Wire091Peer):
    peer.publish(1, numbered(2), routing_key="nowhere", mandatory=True)
    assert peer.take() == []
    peer.send(1, TxCommit())
    assert [type(method) for _, method, _ in peer.take()] == [BasicReturn, BasicReturn, TxCommitOk]


def test_a_queue_that_rejects_fails_the_commit(peer: Wire091Peer):
    peer.declare("full", channel=2, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    peer.publish(1, numbered(2), routing_key="full")
    code, text = peer.refusal(1, TxCommit())
    assert (code, "rejected" in text) == (406, True)


def test_an_exchange_that_is_not_there(peer: Wire091Peer):
    peer.publish(1, numbered(1), exchange="missing", routing_key="q")
    assert peer.reopened(1)[0] == 404
    peer.call(1, TxSelect(), TxSelectOk)
    peer.exchange("x", channel=2)
    peer.publish(1, numbered(1), exchange="x", routing_key="q")
    peer.send(2, ExchangeDelete(exchange="x", no_wait=True))
    assert peer.refusal(1, TxCommit())[0] == 404


@pytest.mark.parametrize("method", [TxCommit(), TxRollback()], ids=str)
def test_outside_of_transaction_mode(method: TxCommit | TxRollback):
    peer = connect(InProcessBroker())
    assert peer.refusal(1, method)[0] == 406


def test_confirms_and_transactions_exclude_each_other(peer: Wire091Peer):
    assert peer.refusal(1, ConfirmSelect())[0] == 406
    peer.select_confirms(1)
    assert peer.refusal(1, TxSelect())[0] == 406


def test_a_transaction_is_bounded_in_bytes():
    settings = make_settings(amqp091={"transaction_bytes_max": 10_000})
    peer = connect(InProcessBroker(), settings=settings)
    peer.declare()
    peer.call(1, TxSelect(), TxSelectOk)
    for _ in range(2):
        peer.publish(1, [bytes(1000)] * 9, routing_key="q")
        peer.call(1, TxCommit(), TxCommitOk)
    peer.publish(1, [bytes(1000)] * 10, routing_key="q")
    assert peer.reopened(1)[0] == 406
    assert peer.broker.ready() == 18


def test_a_transaction_is_bounded_in_acknowledgements():
    settings = make_settings(amqp091={"transaction_acks_max": 3})
    peer = connect(InProcessBroker(), settings=settings)
    peer.declare()
    peer.publish(1, numbered(4), routing_key="q")
    peer.call(1, TxSelect(), TxSelectOk)
    peer.consume()
    peer.take()
    for tag in (4, 3, 2):
        peer.ack(tag)
    peer.ack(1)
    assert peer.reopened(1)[0] == 406
    assert peer.broker.ready() == 4


def test_closing_the_channel_ends_the_transaction_without_a_commit(peer: Wire091Peer):
    peer.publish(1, numbered(5), routing_key="q")
    peer.call(1, ChannelClose(reply_code=200), ChannelCloseOk)
    assert peer.broker.ready() == 0


def test_a_commit_takes_several_turns_and_ends_although_its_connection_is_lost():
    broker = InProcessBroker()
    peer = connect(broker, 1, settings=make_settings(engine={"work_per_turn": {"peer": 100}}))
    peer.declare()
    peer.call(1, TxSelect(), TxSelectOk)
    for number in range(60):
        properties = BasicProperties(message_id=f"{number}")
        peer.publish(1, [b"%d" % number], routing_key="q", properties=properties)
    channel = peer.front_end.channels[1]
    peer.front_end.receive_data(method_frame(1, TxCommit()), NOW)
    assert channel.waiting, "that was one turn"
    while peer.front_end.connection_lost(NOW):
        pass
    other = connect(broker)
    other.consume()
    assert other.bodies() == [b"%d" % number for number in range(60)], "what was begun is done to its end"
