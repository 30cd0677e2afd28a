"""Attacks on the event loop with AMQP 0.9.1: large numbers of everything that a client may send or make."""

import json
import time

from core.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicRecover,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ExchangeBind,
    ExchangeDeclare,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    TxCommit,
    TxRollback,
    TxSelect,
)
from core.amqp091.properties import BasicProperties
from tests.hostile import stall_attacks_bindings
from tests.kit.amqp091_peer import method_frame, publish
from tests.kit.plain_clients import Client091
from tests.kit.stall_field import Attack, Field, NoEffect, ack_all, bind, declare, exchange, fill, settle_up

SETTLE_S = 1.0
"""How long the bystander goes on after an attack whose effects come later."""
CLOSE_CHANNEL = ChannelClose(reply_code=200, reply_text="", class_id=0, method_id=0)


def to(target: str, key: str, body: bytes = b"x", properties: BasicProperties | None = None, channel: int = 1) -> bytes:
    """The frames of one publish."""
    return publish(channel, body, method=BasicPublish(exchange=target, routing_key=key), properties=properties)


def _filled(field: Field, count: int, **arguments: object) -> Client091:
    """A connection that has put this many messages into queue q."""
    client = field.client091()
    declare(client, "q", **arguments)
    fill(client, "q", count)
    return client


# --- routing -------------------------------------------------------------------------------------------------------


def headers_exchange(field: Field) -> None:
    """250 bindings of 50 headers each, and publishes that match all headers but the last."""
    client = field.client091()
    exchange(client, "h", "headers")
    declare(client, "q")
    wanted = {f"header-{index:02}": f"value-{index}" for index in range(50)}
    for number in range(field.n(250)):
        client.tell(bind("q", "h", str(number), {**wanted, "header-49": f"{number}", "x-match": "all"}))
    settle_up(client, queue="q")
    publishes = [
        to("h", "", properties=BasicProperties(headers={**wanted, "header-49": f"other {number}"}))
        for number in range(field.n(1500))
    ]
    client.send(b"".join(publishes))
    settle_up(client, queue="q")


def headers_any(field: Field) -> None:
    """1,000 bindings with x-match any, all with 49 headers that every message has with another value."""
    client = field.client091()
    exchange(client, "h", "headers")
    declare(client, "q")
    wanted = {f"header-{index:02}": f"value-{index}" for index in range(50)}
    for number in range(field.n(1000)):
        client.tell(bind("q", "h", str(number), {**wanted, "header-49": f"{number}", "x-match": "any"}))
    settle_up(client, queue="q")
    for number in range(field.n(1000)):
        headers = {**dict.fromkeys(wanted, "other"), "header-49": str(number % 7)}
        client.send(to("h", "", properties=BasicProperties(headers=headers)))
    settle_up(client, queue="q")


def headers_presence(field: Field) -> None:
    """2,000 bindings that ask for the presence of 20 headers. Each message has all of them. All bindings lead to one
    queue."""
    client = field.client091()
    exchange(client, "h", "headers")
    declare(client, "q", max_length=10)
    names = [f"header-{index:02}" for index in range(20)]
    for number in range(field.n(2000)):
        client.tell(bind("q", "h", str(number), {**dict.fromkeys(names), "x-number": number}))
    settle_up(client, queue="q")
    properties = BasicProperties(headers=dict.fromkeys(names, "x"))
    for number in range(field.n(500)):
        client.send(to("h", str(number), properties=properties))
    settle_up(client, queue="q")


def topic_patterns(field: Field) -> None:
    """1,000 bindings of many '#' and '*', and publishes with 120 words each, no two alike."""
    client = field.client091()
    exchange(client, "t", "topic")
    declare(client, "q", max_length=10)
    for number in range(field.n(1000)):
        words = ["#" if index % 2 else ("*" if (number >> index % 10) & 1 else "a") for index in range(60)]
        client.tell(bind("q", "t", ".".join([*words, str(number)])[:255]))
    settle_up(client, queue="q")
    for number in range(field.n(300)):
        key = ".".join(["a"] * 120)[: 250 - len(str(number))] + str(number)
        client.send(to("t", key))
    settle_up(client, queue="q")


def fan_out(field: Field) -> None:
    """10,000 queues (the default of engine.queues_max) bound to one exchange, 300 publishes."""
    client = field.client091()
    exchange(client, "f", "fanout")
    for number in range(field.n(10_000)):
        client.tell(QueueDeclare(queue=f"q{number}", no_wait=True), bind(f"q{number}", "f"))
    settle_up(client, queue="q0")
    client.send(to("f", "") * field.n(300))
    settle_up(client, queue="q0")


def exchange_cycles(field: Field) -> None:
    """100 fanout exchanges, each bound to each other: 9,900 edges for every publish, with keys that never repeat."""
    client = field.client091()
    count = field.n(100)
    for number in range(count):
        client.tell(ExchangeDeclare(exchange=f"e{number}", type="fanout", no_wait=True))
    declare(client, "q")
    for source in range(count):
        for target in range(count):
            if source != target:
                client.tell(ExchangeBind(destination=f"e{target}", source=f"e{source}", no_wait=True))
    settle_up(client, queue="q")
    client.send(b"".join(to("e0", str(number)) for number in range(field.n(300))))
    settle_up(client, queue="q")


def alternate_exchanges(field: Field) -> None:
    """900 exchanges, each the alternate of the one before."""
    client = field.client091()
    count = field.n(900)
    for number in range(count):
        table = {"alternate-exchange": f"e{number + 1}"}
        client.tell(ExchangeDeclare(exchange=f"e{number}", type="direct", no_wait=True, arguments=table))
    declare(client, "q")
    client.send(b"".join(to("e0", str(number)) for number in range(field.n(1000))))
    settle_up(client, queue="q")


def copies(field: Field) -> None:
    """Messages with 3,000 keys in CC. Each key leads to a queue, and no two lists are the same."""
    client = field.client091()
    count = field.n(3000)
    for number in range(count):
        client.tell(QueueDeclare(queue=f"q{number}", no_wait=True))
    settle_up(client, queue="q0")
    for number in range(field.n(100)):
        keys = [f"q{index}" for index in range(count)] + [str(number)]
        client.send(to("", "q0", properties=BasicProperties(headers={"CC": keys})))
    settle_up(client, queue="q0")


# --- definitions ---------------------------------------------------------------------------------------------------


def exclusive_queues(field: Field) -> None:
    """5,000 exclusive queues with a binding each, deleted when the connection that owns them closes."""
    client = field.client091()
    count = field.n(5000)
    for number in range(count):
        client.tell(
            QueueDeclare(queue=f"q{number}", exclusive=True, no_wait=True), bind(f"q{number}", "amq.topic", "#")
        )
    settle_up(client, queue="q0")
    client.close()
    other = field.client091()
    for _ in range(count):
        other.call(QueueDeclare(queue="another"))
        if b'"queues":2,' in field.http("GET", "/api/overview"):
            return
        time.sleep(0.05)
    raise NoEffect("the exclusive queues have not gone")


def declare_again(field: Field) -> None:
    """20,000 declarations of a queue that exists, in one piece."""
    client = field.client091()
    declare(client, "q")
    count = field.n(20_000)
    before = client.plain.came[QueueDeclareOk]
    client.send(method_frame(1, QueueDeclare(queue="q")) * count)
    client.wait(QueueDeclareOk, before + count)


def durable_queues(field: Field) -> None:
    """500 durable queues, declared and deleted without waiting for answers."""
    client = field.client091()
    for number in range(field.n(500)):
        client.tell(QueueDeclare(queue=f"d{number}", durable=True, no_wait=True))
    for number in range(field.n(500)):
        client.tell(QueueDelete(queue=f"d{number}", no_wait=True))
    client.call(QueueDeclare(queue="last"))


def first_messages(field: Field) -> None:
    """10,000 durable queues get their first message in one piece. Each begins a file, and all files are synced."""
    client = field.client091()
    count = field.n(10_000)
    for number in range(count):
        client.tell(QueueDeclare(queue=f"d{number}", durable=True, no_wait=True))
    last = f"d{count - 1}"
    client.call(QueueDeclare(queue=last, durable=True))
    client.send(b"".join(to("", f"d{number}", properties=BasicProperties(delivery_mode=2)) for number in range(count)))
    settle_up(client, queue=last)
    if _ready(client, last) != 1:
        raise NoEffect("the last queue has not got its message")
    while not all(lane["records_synced"] == lane["records_staged"] for lane in _lanes(field)):
        time.sleep(0.05)


# --- channels and consumers ------------------------------------------------------------------------------------------


def channels(field: Field) -> None:
    """138 channels with a full stage of publishes each, on one connection that then closes."""
    client = field.client091()
    count = field.n(137) + 1
    declare(client, "q")
    for number in range(2, count + 1):
        client.tell(ChannelOpen(), channel=number)
    client.wait(ChannelOpenOk, count)
    for _ in range(20):
        for number in range(1, count + 1):
            keys = (to("amq.topic", f"{number}.{index}", channel=number) for index in range(40))
            client.send(b"".join(keys) + to("", "q", channel=number) * 40)
    for number in range(1, count + 1):
        client.tell(CLOSE_CHANNEL, channel=number)
    client.wait(ChannelCloseOk, count)


def channel_storm(field: Field) -> None:
    """2,047 channels opened and left to the end of the connection, three times."""
    for _ in range(3):
        client = field.client091()
        count = field.n(2046)
        client.send(b"".join(method_frame(number + 2, ChannelOpen()) for number in range(count)))
        client.wait(ChannelOpenOk, count)
        client.close()


def unread_consumers(field: Field) -> None:
    """20 consumers that never read, on a queue of 150 MB."""
    client = field.client091()
    declare(client, "q")
    fill(client, "q", field.n(1500), body=bytes(100_000))
    unread = [field.client091(reads=False, receive_buffer=4096) for _ in range(20)]
    for other in unread:
        other.tell(BasicConsume(queue="q"))
    time.sleep(SETTLE_S)
    for other in unread:
        other.close()
    settle_up(client, queue="q")
    client.call(QueuePurge(queue="q"))


def many_consumers(field: Field) -> None:
    """5,000 consumers of one queue on one channel, which is closed."""
    client = field.client091()
    declare(client, "q")
    count = field.n(5000)
    client.send(b"".join(method_frame(1, BasicConsume(queue="q")) for _ in range(count)))
    client.wait(BasicConsumeOk, count)
    client.call(CLOSE_CHANNEL)


def single_active_consumers(field: Field) -> None:
    """2,000 consumers of ascending priority on a queue with a single active consumer; then all of them leave."""
    client = _filled(field, field.n(5000), single_active_consumer=True)
    count = field.n(2000)
    for number in range(count):
        client.tell(BasicConsume(queue="q", arguments={"x-priority": number}))
    client.wait(BasicConsumeOk, count)
    client.close()
    settle_up(field.client091(), queue="q")


def get_storm(field: Field) -> None:
    """basic.get 20,000 times in one piece, from a queue with half as many messages."""
    count = field.n(20_000)
    client = _filled(field, count // 2)
    client.send(method_frame(1, BasicGet(queue="q")) * count)
    settle_up(client, queue="q")


# --- messages ------------------------------------------------------------------------------------------------------


def purge_million(field: Field) -> None:
    """A queue of 1,000,000 messages is purged."""
    client = _filled(field, field.n(1_000_000))
    client.call(QueuePurge(queue="q"))


def delete_large(field: Field) -> None:
    """A queue of 500,000 messages is deleted."""
    client = _filled(field, field.n(500_000))
    client.call(QueueDelete(queue="q"))


def delete_durable(field: Field) -> None:
    """A durable queue of 100,000 persistent messages is purged, filled again and deleted."""
    client = field.client091()
    client.call(QueueDeclare(queue="q", durable=True))
    for end in (QueuePurge(queue="q"), QueueDelete(queue="q")):
        fill(client, "q", field.n(100_000), properties=BasicProperties(delivery_mode=2))
        client.call(end)


def _take(field: Field, count: int, **arguments: object) -> Client091:
    """A consumer that holds all messages of a queue."""
    _filled(field, count, **arguments)
    taker = field.client091()
    taker.consume("q")
    taker.wait(BasicDeliver, count)
    return taker


def _take_with_gaps(field: Field, count: int) -> Client091:
    """A consumer that holds messages with the delivery tags 2, 4, 6, …"""
    taker = _take(field, 2 * count)
    taker.send(b"".join(method_frame(1, BasicAck(delivery_tag=tag)) for tag in range(1, 2 * count, 2)))
    settle_up(taker, queue="q")
    return taker


def requeue_by_close(field: Field) -> None:
    """A consumer holds 100,000 messages, and its connection closes."""
    _take(field, field.n(100_000)).close()
    client = field.client091()
    client.consume("q")
    client.wait(BasicDeliver, field.n(100_000))


def recover(field: Field) -> None:
    """A consumer holds 100,000 messages, and sends basic.recover."""
    taker = _take(field, field.n(100_000))
    taker.call(BasicRecover(requeue=True))
    taker.wait(BasicDeliver, 2 * field.n(100_000))
    ack_all(taker)
    settle_up(taker, queue="q")


def settle_alternately(field: Field) -> None:
    """A consumer holds 50,000 messages. It acknowledges every second one from the back, then the rest."""
    count = field.n(50_000)
    taker = _take(field, count)
    taker.send(b"".join(method_frame(1, BasicAck(delivery_tag=tag)) for tag in range(count, 0, -2)))
    settle_up(taker, queue="q")
    taker.send(b"".join(method_frame(1, BasicNack(delivery_tag=tag)) for tag in range(count - 1, 0, -2)))
    settle_up(taker, queue="q")


def settle_gaps(field: Field) -> None:
    """A consumer holds 100,000 messages with a gap before each, and gives all of them back with one method."""
    count = field.n(100_000)
    taker = _take_with_gaps(field, count)
    taker.tell(BasicNack(delivery_tag=0, multiple=True))
    settle_up(taker, queue="q")
    taker.wait(BasicDeliver, 3 * count)


def leave_gaps(field: Field) -> None:
    """A consumer holds 100,000 messages with a gap before each, and its channel is closed."""
    _take_with_gaps(field, field.n(100_000)).call(CLOSE_CHANNEL)
    settle_up(field.client091(), queue="q")


def settle_unlike(field: Field) -> None:
    """A consumer holds 200,000 messages of which no two neighbours are alike, and settles all with one method. Then a
    connection that closes holds as many again."""
    client = field.client091()
    declare(client, "q")
    pair = b"".join(to("", "q", properties=BasicProperties(priority=number)) for number in range(2))
    count = field.n(200_000)
    for end in ("ack", "close"):
        for _ in range(count // 1000):
            client.send(pair * 500)
        settle_up(client, queue="q")
        taker = field.client091()
        taker.consume("q")
        taker.wait(BasicDeliver, count // 1000 * 1000)
        if end == "ack":
            ack_all(taker)
            settle_up(taker, queue="q")
        taker.close()
    while not _ready(client, "q"):
        time.sleep(0.1)


def reject_to_dead_letters(field: Field) -> None:
    """A consumer holds 100,000 messages and rejects all of them into a dead-letter exchange."""
    other = field.client091()
    declare(other, "dead")
    taker = _take(field, field.n(100_000), dead_letter_exchange="", dead_letter_routing_key="dead")
    taker.tell(BasicNack(delivery_tag=0, multiple=True, requeue=False))
    settle_up(taker, queue="q")
    other.consume("dead")
    other.wait(BasicDeliver, field.n(100_000))


def ttl_cycle(field: Field) -> None:
    """20,000 messages expire into a queue that sends them back, again and again."""
    client = field.client091()
    arguments = {"message_ttl": 50, "dead_letter_exchange": ""}
    declare(client, "a", **arguments, dead_letter_routing_key="b")
    declare(client, "b", **arguments, dead_letter_routing_key="a")
    fill(client, "a", field.n(20_000))
    time.sleep(3 * SETTLE_S)


def expire_many(field: Field) -> None:
    """500,000 messages expire at the same time."""
    client = field.client091()
    declare(client, "q")
    fill(client, "q", field.n(500_000), properties=BasicProperties(expiration=str(1000 + field.n(20_000))))
    time.sleep(SETTLE_S)
    while _ready(client, "q"):
        time.sleep(0.1)


def trim(field: Field) -> None:
    """A policy gives a queue of 200,000 messages a maximum length of 1."""
    client = _filled(field, field.n(200_000))
    body = {"pattern": "^q$", "definition": {"max-length": 1}, "priority": 0, "apply-to": "queues"}
    field.http("PUT", "/api/policies/%2F/short", body)
    while _ready(client, "q") > 1:
        time.sleep(0.1)


def priorities(field: Field) -> None:
    """A queue with 255 priorities gets 50,000 messages of all of them. Some are consumed, and the rest is purged."""
    client = field.client091()
    declare(client, "q", max_priority=255)
    frames = [to("", "q", properties=BasicProperties(priority=number % 256)) for number in range(256)]
    for _ in range(field.n(200)):
        client.send(b"".join(frames))
    settle_up(client, queue="q")
    taker = field.client091()
    taker.consume("q")
    taker.wait(BasicDeliver, field.n(200) * 128)
    client.call(QueuePurge(queue="q"))


def consumer_time_out(field: Field) -> None:
    """The deliveries of 50,000 messages are overdue at once."""
    client = _filled(field, field.n(50_000), consumer_timeout=1000)
    taker = field.client091()
    taker.consume("q")
    time.sleep(3 * SETTLE_S)
    settle_up(client, queue="q")


def transaction(field: Field) -> None:
    """A transaction of 50,000 publishes to as many different keys is committed."""
    client = field.client091()
    declare(client, "q")
    client.call(TxSelect())
    client.send(b"".join(to("amq.topic", str(number)) for number in range(field.n(50_000))))
    client.call(TxCommit())


def transaction_dropped(field: Field) -> None:
    """A transaction of 100,000 publishes to as many different keys is rolled back; another one is open when its channel
    ends."""
    client = field.client091()
    declare(client, "q")
    for end in (TxRollback(), CLOSE_CHANNEL):
        client.call(TxSelect())
        client.send(b"".join(to("amq.topic", str(number)) for number in range(field.n(100_000))))
        client.call(end)


def transaction_of_acks(field: Field) -> None:
    """A transaction acknowledges every second one of 100,000 messages, from the back, and then all the others with one
    method."""
    count = field.n(100_000)
    taker = _take(field, count)
    taker.call(TxSelect())
    taker.send(b"".join(method_frame(1, BasicAck(delivery_tag=tag)) for tag in range(count, 0, -2)))
    ack_all(taker)
    taker.call(TxCommit())
    settle_up(taker, queue="q")


def small_publishes(field: Field) -> None:
    """100,000 publishes of which no two neighbours are alike, from four connections at once."""
    others = [field.client091() for _ in range(4)]
    declare(others[0], "q", max_length=1000)
    pieces = [
        b"".join(
            to("", "q", properties=BasicProperties(message_id=f"{number}")) for number in range(start, start + 500)
        )
        for start in range(0, field.n(25_000), 500)
    ]
    for piece in pieces:
        for other in others:
            other.send(piece)
    for other in others:
        settle_up(other, queue="q")


def many_at_once(field: Field) -> None:
    """200 connections each send more than a turn's work at once, five times: publishes of which no two neighbours are
    alike."""
    others = [field.client091() for _ in range(field.n(200))]
    declare(others[0], "q", max_length=1000)
    piece = b"".join(to("", "q", properties=BasicProperties(message_id=f"{number}")) for number in range(300))
    for _ in range(5):
        for other in others:
            other.send(piece)
        for other in others:
            settle_up(other, queue="q")


def _lanes(field: Field) -> list[dict[str, object]]:
    lanes: list[dict[str, object]] = json.loads(field.http("GET", "/api/headgate/store"))["lanes"]
    return lanes


def _ready(client: Client091, queue: str) -> int:
    answer = client.call(QueueDeclare(queue=queue, passive=True))
    assert isinstance(answer, QueueDeclareOk)
    return answer.message_count


ATTACKS = [
    Attack("headers exchange", headers_exchange),
    Attack("headers, x-match any", headers_any),
    Attack("headers, presence only", headers_presence),
    Attack("topic patterns of many #", topic_patterns),
    Attack("fan-out to 10,000 queues", fan_out),
    Attack("cycles of exchanges", exchange_cycles),
    Attack("alternate exchanges", alternate_exchanges),
    Attack("CC of 3,000 keys", copies),
    *stall_attacks_bindings.ATTACKS,
    Attack("5,000 exclusive queues", exclusive_queues),
    Attack("20,000 declarations", declare_again),
    Attack("500 durable queues", durable_queues),
    Attack("first messages of 10,000 durable queues", first_messages),
    Attack("138 channels", channels),
    Attack("2,047 channels", channel_storm),
    Attack("20 consumers never read", unread_consumers),
    Attack("5,000 consumers", many_consumers),
    Attack("2,000 single active consumers", single_active_consumers),
    Attack("20,000 basic.get", get_storm),
    Attack("purge of 1,000,000", purge_million),
    Attack("delete of 500,000", delete_large),
    Attack("purge and delete, durable", delete_durable),
    Attack("requeue of 100,000 by a close", requeue_by_close),
    Attack("basic.recover of 100,000", recover),
    Attack("settling every second of 50,000", settle_alternately),
    Attack("100,000 gaps, all given back", settle_gaps),
    Attack("100,000 gaps, the channel is closed", leave_gaps),
    Attack("200,000 of which no two are alike, settled", settle_unlike),
    Attack("100,000 rejected to dead letters", reject_to_dead_letters),
    Attack("TTL cycle of 20,000", ttl_cycle),
    Attack("500,000 expire at once", expire_many),
    Attack("max-length over 200,000", trim),
    Attack("255 priorities", priorities),
    Attack("consumer time-out of 50,000", consumer_time_out),
    Attack("transaction of 50,000", transaction),
    Attack("transaction dropped", transaction_dropped),
    Attack("transaction of acknowledgements", transaction_of_acks),
    Attack("publishes of which no two are alike", small_publishes),
    Attack("200 connections at once", many_at_once),
]
