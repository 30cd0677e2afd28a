"""Publishing and getting single messages by RabbitMQ's management API, as ``rabbitmqadmin`` does."""

import base64

import httpx
import pytest

from amqp10.conversion.converter import MessageConverter
from core.amqp091.plain_messages import PlainMessages
from core.errors import Invalid
from core.interface import ExchangeType, QueueTarget
from core.message import Attributes
from tests.kit.admin import Facts, client_of
from tests.kit.audited import Audited
from tests.kit.engine import Peer, binding, exchange, make_broker, queue

WRITE = {"x-headgate-request": "1"}
PROPERTIES = {
    "content_type": "text/plain",
    "headers": {"text": "one", "number": 5, "list": [True, None], "map": {"deep": 1.5}},
    "delivery_mode": 2,
    "priority": 3,
    "correlation_id": "c",
    "expiration": "60000",
    "message_id": "m",
    "timestamp": 1_700_000_000,
    "app_id": "a",
}


def place() -> Facts:
    """A broker with a queue, and a topic exchange that leads to it."""
    facts = Facts(broker=make_broker("q"))
    facts.control.message_forms = PlainMessages(MessageConverter())
    facts.broker.declare_exchange(exchange("news", ExchangeType.TOPIC))
    facts.broker.bind(binding("news", "q", "a.#"), "me")
    return facts


async def ask(facts: Facts, path: str, **body: object) -> httpx.Response:
    async with client_of(facts.application(), **WRITE) as client:
        return await client.post(f"/api/{path}", json=body)


async def publish(facts: Facts, name: str = "amq.default", **body: object) -> httpx.Response:
    return await ask(facts, f"exchanges/%2F/{name}/publish", **{"routing_key": "q", "payload": "hello", **body})


async def get(facts: Facts, **body: object) -> list[dict[str, object]]:
    response = await ask(facts, "queues/%2F/q/get", **body)
    assert response.status_code == 200, response.text
    return response.json()


def ready(facts: Facts) -> int:
    (row,) = facts.broker.snapshot("queues", "q")
    assert row["messages_unacknowledged"] == 0
    return row["messages_ready"]


async def test_a_message_comes_back_with_its_properties_and_stays():
    facts = place()
    answer = await publish(facts, "news", routing_key="a.b", properties=PROPERTIES, vhost="/", exchange="news")
    assert (answer.status_code, answer.json()) == (200, {"routed": True})
    row = {
        "payload_bytes": 5,
        "redelivered": False,
        "exchange": "news",
        "routing_key": "a.b",
        "message_count": 0,
        "properties": PROPERTIES,
        "payload": "hello",
        "payload_encoding": "string",
    }
    assert await get(facts, queue="q", vhost="/", count="1") == [row]
    assert await get(facts, ackmode="reject_requeue_true") == [{**row, "redelivered": True}]
    assert ready(facts) == 1
    (peeked,) = facts.broker.peek_queue("q", 1)
    assert (peeked["durable"], peeked["priority"], peeked["expires_at"] is None) == (True, 3, False)


async def test_messages_are_taken_or_rejected_in_their_order():
    facts = place()
    facts.broker.declare_queue(queue("dead"), "me")
    facts.broker.declare_queue(queue("q2", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}), "me")
    for number in range(5):
        await publish(facts, payload=str(number))
    rows = await get(facts, count=2, ackmode="ack_requeue_false")
    assert [(row["payload"], row["message_count"]) for row in rows] == [("0", 4), ("1", 3)]
    assert [row["payload"] for row in await get(facts, count=100)] == ["2", "3", "4"]
    assert ready(facts) == 3
    await publish(facts, routing_key="q2", payload="bad")
    answer = await ask(facts, "queues/%2F/q2/get", ackmode="reject_requeue_false")
    assert [row["payload"] for row in answer.json()] == ["bad"]
    facts.work()
    answer = await ask(facts, "queues/%2F/dead/get")
    assert [row["payload"] for row in answer.json()] == ["bad"]


async def test_an_empty_queue_gives_no_message():
    facts = place()
    assert await get(facts) == []
    assert facts.broker.snapshot("consumers") == []


@pytest.mark.parametrize(
    ("name", "body", "status", "words"),
    [
        ("amq.default", {"routing_key": "nowhere"}, 200, '"routed":false'),
        ("news", {"routing_key": "b"}, 200, '"routed":false'),
        ("nothing", {}, 404, "no exchange"),
        ("news", {"payload": 5}, 400, "payload must be"),
        ("news", {"payload": None}, 400, "payload"),
        ("news", {"payload": "?", "payload_encoding": "base64"}, 400, "in base64"),
        ("news", {"payload_encoding": "hex"}, 400, "payload_encoding must be"),
        ("news", {"properties": {"colour": "red"}}, 400, "there is no property 'colour'"),
        ("news", {"properties": {"delivery_mode": "two"}}, 400, "cannot be encoded"),
        ("news", {"properties": {"priority": 256}}, 400, "cannot be encoded"),
        ("news", {"properties": {"expiration": "soon"}}, 400, "expiration must be"),
        ("news", {"properties": {"headers": {"CC": ["x"]}}}, 400, "CC and BCC"),
        ("news", {"properties": {"user_id": "eve"}}, 400, "user_id must be"),
        ("news", {"payload": "x" * 70_000}, 413, "body"),
    ],
)
async def test_what_is_not_published(name: str, body: dict[str, object], status: int, words: str):
    facts = place()
    answer = await publish(facts, name, **body)
    assert answer.status_code == status, answer.text
    assert words in answer.text
    assert ready(facts) == 0


@pytest.mark.parametrize("body", [{"count": 0}, {"count": 101}, {"ackmode": "ack"}, {"encoding": "hex"}])
async def test_what_is_not_got(body: dict[str, object]):
    assert (await ask(place(), "queues/%2F/q/get", **body)).status_code == 400
    assert (await ask(place(), "queues/%2F/missing/get")).status_code == 404


async def test_bytes_are_in_base64():
    facts = place()
    await publish(facts, payload=base64.b64encode(b"\xff\0").decode(), payload_encoding="base64")
    await publish(facts, payload="text")
    first, second = await get(facts, count=2)
    assert (first["payload"], first["payload_encoding"], first["payload_bytes"]) == ("/wA=", "base64", 2)
    assert (second["payload"], second["payload_encoding"]) == ("text", "string")
    assert [row["payload_encoding"] for row in await get(facts, count=2, encoding="base64")] == ["base64"] * 2
    assert [row["payload"] for row in await get(facts, count=2, truncate=1)] == ["/w==", "t"]


async def test_a_large_body_is_cut_where_the_message_stays_and_is_not_lost_where_it_goes():
    facts = place()
    peer = Peer(facts.broker)
    entry, attributes = PlainMessages(MessageConverter()).made({}, b"x" * 100_000)
    peer.publish(QueueTarget("q"), [entry], attributes=attributes)
    facts.work()
    (row,) = await get(facts)
    assert (row["payload_bytes"], len(str(row["payload"]))) == (100_000, 65_536)
    refused = await ask(facts, "queues/%2F/q/get", ackmode="ack_requeue_false")
    assert (refused.status_code, ready(facts)) == (409, 1)
    (row,) = await get(facts, ackmode="ack_requeue_false", truncate=10)
    assert (row["payload"], ready(facts)) == ("x" * 10, 0)


async def test_the_audit_log_has_no_content():
    facts, audited = place(), Audited()
    facts.control.logins.audit = audited.log
    await publish(facts, payload="never recorded", properties={"app_id": "nor this"})
    await get(facts, ackmode="ack_requeue_false")
    records = audited.taken()
    assert [one["action"] for one in records] == [
        "rabbitmq POST /exchanges/{vhost}/{name}/publish",
        "rabbitmq POST /queues/{vhost}/{name}/get",
    ]
    assert "never recorded" not in str(records)
    assert "nor this" not in str(records)


def test_what_a_message_of_amqp_10_shows():
    forms = PlainMessages(MessageConverter())
    properties, body = forms.shown(b"\x00Su\xa0\x05hello", Attributes())
    assert body == b"hello"
    assert set(properties) <= {"headers", "delivery_mode", "priority", "type"}
    with pytest.raises(Invalid, match="cannot be encoded"):
        forms.made({"app_id": "x" * 256}, b"")
