"""A queue with ``x-deduplicate`` knows a repeat after ``kill -9``, from clients of both protocols."""

import signal
from functools import partial
from pathlib import Path

import pika
import pytest
import trio
from pika.spec import BasicProperties

from amqp10.client import ClientConnection, Message, ReceiverOptions, connect
from amqp10.wire.messaging import Accepted
from amqp10.wire.sections import Header
from amqp10.wire.types import ULong
from tests.crash.cycle import CLIENT, broker

KINDS = ("classic", "quorum")
COUNT = 300
DURABLE = Header(durable=True)


def message(publisher: str, number: int) -> Message:
    """Its publisher says its publishing id in one of the places where it may stand."""
    body = f"{publisher} {number}".encode()
    names: dict[str, object] = {"x-opt-publisher": publisher, "x-opt-publishing-id": ULong(number)}
    if number % 2:
        return Message(body=body, header=DURABLE, application_properties=names)
    return Message(body=body, header=DURABLE, annotations=names)


async def declare(connection: ClientConnection) -> None:
    for kind in KINDS:
        arguments = {"x-queue-type": kind, "x-deduplicate": True}
        answer = await connection.request("PUT", f"/queues/{kind}", {"durable": True, "arguments": arguments})
        assert answer.status in (200, 201), answer


async def publish_10(connection: ClientConnection, queue: str, numbers: range) -> None:
    sender = await connection.open_sender(f"/queues/{queue}")
    fates = await sender.send_many([message("ten", number) for number in numbers])
    assert [known.fate for known in fates] == [Accepted()]
    await sender.close()


def publish_091(port: int, queue: str, numbers: range) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in numbers:
            headers = {"x-opt-publisher": "nine", "x-opt-publishing-id": number}
            properties = BasicProperties(delivery_mode=2, headers=headers)
            channel.basic_publish("", queue, f"nine {number}".encode(), properties)


async def publish(connection: ClientConnection, url: str, numbers: range) -> None:
    port = int(url.rpartition(":")[2])
    for kind in KINDS:
        await publish_10(connection, kind, numbers)
        few = numbers[: len(numbers) // 10]
        await trio.to_thread.run_sync(partial(publish_091, port, kind, few))


async def taken(connection: ClientConnection, queue: str, count: int) -> list[str]:
    receiver = await connection.open_receiver(f"/queues/{queue}", options=ReceiverOptions(automatic=False))
    receiver.grant(count)
    found = []
    for _ in range(count):
        delivery = await receiver.receive()
        found.append(str(delivery.message.body, "utf-8"))
        delivery.accept()
    await receiver.close()
    return found


async def row(connection: ClientConnection, queue: str) -> dict[str, int]:
    answer = await connection.request("GET", f"/headgate/queues/{queue}")
    assert isinstance(answer.body, dict)
    return answer.body


@pytest.mark.slow
async def test_repeats_after_kills_and_stops_are_never_delivered(tmp_path: Path) -> None:
    first, second = range(COUNT), range(COUNT // 2, 2 * COUNT)
    expected = [f"ten {number}" for number in range(2 * COUNT)]
    expected += [f"nine {number}" for number in {*first[: len(first) // 10], *second[: len(second) // 10]}]
    got: dict[str, list[str]] = {kind: [] for kind in KINDS}
    folder = tmp_path / "data"
    with trio.fail_after(120):
        async with broker(folder) as (url, process), connect(url, CLIENT) as connection:
            await declare(connection)
            await publish(connection, url, first)
            for kind in KINDS:
                got[kind] += await taken(connection, kind, COUNT // 3)
            process.send_signal(signal.SIGKILL)
            await trio.to_thread.run_sync(process.wait)
        for end in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            async with broker(folder) as (url, process), connect(url, CLIENT) as connection:
                await publish(connection, url, first)
                await publish(connection, url, second)
                process.send_signal(end)
                await trio.to_thread.run_sync(process.wait)
        async with broker(folder) as (url, _), connect(url, CLIENT) as connection:
            await publish(connection, url, first)
            for kind in KINDS:
                left = (await row(connection, kind))["messages_ready"]
                got[kind] += await taken(connection, kind, left)
                assert (await row(connection, kind))["repeated"] == len(first) + len(first) // 10
    for kind in KINDS:
        missing, twice = set(expected) - set(got[kind]), len(got[kind]) - len(set(got[kind]))
        # a settlement that the kill undid is no repeat of the publisher: the broker marks the message as delivered
        assert (missing, set(got[kind]) - set(expected)) == (set(), set()), kind
        assert twice <= COUNT // 3, kind
