"""Attacks on the event loop with AMQP 0.9.1: purges and deletions of queues whose messages a consumer holds or has
given back."""

import time

from core.amqp091.methods import (
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicPublish,
    ConfirmSelect,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
)
from core.amqp091.properties import BasicProperties
from core.amqp091.table import FieldTable
from tests.kit.amqp091_peer import publish
from tests.kit.plain_clients import Client091
from tests.kit.stall_field import Attack, Field, settle_up

PERSISTENT = BasicProperties(delivery_mode=2)
TO_Q = BasicPublish(routing_key="q")
DURABLE: FieldTable = {}
QUORUM: FieldTable = {"x-queue-type": "quorum"}


def _taken(field: Field, count: int, arguments: FieldTable, *, alike: bool = True) -> tuple[Client091, Client091]:
    """Fill queue q, and let a client hold all of it; one more message is ready. Returns the publisher and the
    client."""
    client = field.client091()
    client.call(QueueDeclare(queue="q", durable=True, arguments=arguments))
    client.call(ConfirmSelect())
    for start in range(0, count, 2000):
        numbers = range(start, min(start + 2000, count))
        kinds = [PERSISTENT if alike else BasicProperties(delivery_mode=2, message_id=str(n)) for n in numbers]
        client.send(b"".join(publish(1, b"x", method=TO_Q, properties=properties) for properties in kinds))
        settle_up(client, queue="q")
    taker = field.client091()
    taker.tell(BasicConsume(queue="q", consumer_tag="taker"))
    taker.wait(BasicDeliver, count)
    taker.call(BasicCancel(consumer_tag="taker"))
    client.send(publish(1, b"x", method=TO_Q, properties=PERSISTENT))
    settle_up(client, queue="q")
    return client, taker


def _ready(client: Client091) -> int:
    answer = client.call(QueueDeclare(queue="q", passive=True))
    assert isinstance(answer, QueueDeclareOk)
    return answer.message_count


def purge_while_held(field: Field) -> None:
    """A durable queue is purged while a consumer holds 300,000 of its messages."""
    client, _ = _taken(field, field.n(300_000), DURABLE)
    client.call(QueuePurge(queue="q"))


def delete_while_held(field: Field) -> None:
    """A durable queue is deleted while a consumer holds 300,000 of its messages, no two neighbours alike."""
    client, _ = _taken(field, field.n(300_000), DURABLE, alike=False)
    client.call(QueueDelete(queue="q"))


def purge_returned(field: Field) -> None:
    """A durable queue is purged of 300,000 messages, no two neighbours alike, that a consumer held and gave back."""
    count = field.n(300_000)
    client, taker = _taken(field, count, DURABLE, alike=False)
    taker.close()
    while _ready(client) <= count:  # they come back in slices
        time.sleep(0.05)
    client.call(QueuePurge(queue="q"))


def purge_quorum_while_held(field: Field) -> None:
    """A quorum queue is purged while a consumer holds 100,000 of its messages."""
    client, _ = _taken(field, field.n(100_000), QUORUM)
    client.call(QueuePurge(queue="q"))


def purge_quorum_returned(field: Field) -> None:
    """A quorum queue is purged of 100,000 messages, no two neighbours alike, that a consumer held and gave back."""
    count = field.n(100_000)
    client, taker = _taken(field, count, QUORUM, alike=False)
    taker.close()
    while _ready(client) <= count:
        time.sleep(0.05)
    client.call(QueuePurge(queue="q"))


ATTACKS = (
    Attack("purge while 300,000 are held", purge_while_held),
    Attack("delete while 300,000 are held", delete_while_held),
    Attack("purge of 300,000 returned", purge_returned),
    Attack("purge, quorum, 100,000 held", purge_quorum_while_held),
    Attack("purge, quorum, 100,000 returned", purge_quorum_returned),
)
