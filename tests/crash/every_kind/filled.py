"""What clients of both protocols do on the data folder of every kind, in two lives of its broker.

The first life ends by SIGKILL, so that the second begins with its own numbers after those of the first. Then the
definitions forget three queues. The second life does everything else. It ends as the caller wants.
"""

import datetime
import decimal
import signal
import subprocess
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pika
import trio
from pika.adapters.blocking_connection import BlockingChannel

from amqp10.client import ClientConnection, Message, Receiver, ReceiverOptions, connect
from amqp10.wire.messaging import Accepted
from amqp10.wire.sections import AMQP_SEQUENCE, AMQP_VALUE, Header, Properties
from amqp10.wire.types import Byte, Char, Float, Int, Short, Symbol, Timestamp, UByte, UInt, ULong, UShort
from core.engine.routing.topology import numbered_identities
from core.store.definitions import open_definitions
from tests.crash.cycle import CLIENT, broker
from tests.crash.every_kind.declared import (
    AUTO_DELETED,
    BY_AMQP10,
    EVERY_ARGUMENT,
    EVERYWHERE,
    GONE,
    LOST,
    PASSING,
    declare,
    set_policies,
)

CONFIGURATION = """
[store]
msg_store_file_size_limit = "64KiB"
command_log_file_size_limit = "64KiB"
space_reserve = "64KiB"
"""
"""Small files, so that few messages fill several of them, and a small reserve, because it is in the archive."""
TTL_S = 30
"""The time-to-live of the messages that expire. The broker must have ended before; then the next start is the one that
finds them expired."""
LARGE = 5000
"""More bytes than a queue's index takes (``store.queue_index_embed_msgs_below``)."""
TURNOVER = 30
"""Large messages of one round of sending and accepting. Two rounds are most of a log of several small files, so its
oldest file is emptied and removed."""
QUIET_S = 1.5
"""The pause before the end: everything is synced, and marks name it, after half a second (docs/storage-format.md)."""

DEAD_LETTERS = 11
"""How many dead letters there are as soon as messages have expired: 5 expired, 3 were rejected, one was delivered too
often, and the queue of two was too full for 2."""
KEPT = 4
"""How many messages wait for a queue to be dead-lettered to."""

DURABLE = Header(durable=True)
DURABLE_BYTES = bytes.fromhex("005370c0020141")
"""The same, encoded."""
EXPIRING = Header(durable=True, ttl=TTL_S * 1000)
USERS = {"kept": "keys derived from a password"}
"""Users in the definitions. No command of this version keeps one there, but the format has a place for them."""


async def fill(folder: Path, ended: signal.Signals) -> None:
    """Fill a new data folder. The second life of its broker ends by this signal."""
    configuration = folder.with_name("broker.toml")
    configuration.write_text(CONFIGURATION)
    options = ("--config", str(configuration))
    async with broker(folder, *options) as (url, process), connect(url, CLIENT) as connection:
        await _by_amqp091(url, declare)
        await set_policies(connection)
        await _first_life(connection)
        await _by_amqp091(url, _publish_plain)
        await end(process, signal.SIGKILL)
    _forget_queues(folder)
    async with broker(folder, *options) as (url, process), connect(url, CLIENT) as connection:
        await _by_amqp091(url, _publish_not_durable)
        await _quorum_history(connection)
        await _turn_over(connection)
        await _quorum_history(connection)
        await _second_life(connection)
        await _by_amqp091(url, _publish_everything)
        await _dead_letters(connection)
        await _delete(connection)
        await _leave_unsettled(connection)
        await trio.sleep(QUIET_S)
        await end(process, ended)


async def end(process: subprocess.Popen[str], ended: signal.Signals) -> None:
    """End a broker by this signal."""
    process.send_signal(ended)
    code = await trio.to_thread.run_sync(partial(process.wait, 30))
    assert code == (-ended if ended is signal.SIGKILL else 0), code


async def _by_amqp091(url: str, work: Callable[[BlockingChannel], None]) -> None:
    """Do something with a channel of AMQP 0.9.1 that has confirms."""

    def with_channel() -> None:
        parameters = pika.ConnectionParameters("127.0.0.1", int(url.rpartition(":")[2]))
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            work(channel)

    await trio.to_thread.run_sync(with_channel)


def _forget_queues(folder: Path) -> None:
    """Change the definitions as if they had never had the queues that get lost, and add the users."""
    with closing(open_definitions(folder, new_identity=numbered_identities())) as database:
        database.remove(queues=list(LOST.values()))
        database.forget_deleted(database.deleted)
        for name, keys in USERS.items():
            database.set_user(name, keys)


async def _send(connection: ClientConnection, address: str, messages: Sequence[Message | bytes]) -> None:
    sender = await connection.open_sender(address.replace(" ", "%20"))
    fates = await sender.send_many(messages)
    assert [known.fate for known in fates] == [Accepted()], (address, fates)
    await sender.close()


async def _receiver(connection: ClientConnection, queue: str) -> Receiver:
    address = f"/queues/{queue}".replace(" ", "%20")
    return await connection.open_receiver(address, options=ReceiverOptions(automatic=False))


async def _take(receiver: Receiver, count: int) -> int:
    """Take this many messages. Returns the number of the first."""
    receiver.grant(count)
    numbers = [(await receiver.receive()).number for _ in range(count)]
    return numbers[0]


def _text(queue: str, numbers: Sequence[int], *, header: Header | None = DURABLE, large: int = 0) -> list[Message]:
    """Messages that name their queue. Every number that ``large`` divides makes a large one."""
    return [
        Message(body=f"{queue} {number}".ljust(LARGE if large and not number % large else 0).encode(), header=header)
        for number in numbers
    ]


def _every_section() -> list[Message]:
    """Messages of AMQP 1.0 with every section, every property, every type of value and every kind of body."""
    properties = Properties(
        message_id=ULong(7),
        user_id=b"guest",
        to="/queues/somewhere",
        subject="subject",
        reply_to="/queues/back",
        correlation_id=uuid.UUID(int=5),
        content_type="text/plain",
        content_encoding="identity",
        absolute_expiry_time=4_000_000_000_000,
        creation_time=1_000_000_000_000,
        group_id="group",
        group_sequence=3,
        reply_to_group_id="other group",
    )
    values: dict[str, object] = {
        "null": None,
        "boolean": True,
        "ubyte": UByte(1),
        "ushort": UShort(2),
        "uint": UInt(3),
        "ulong": ULong(4),
        "byte": Byte(-1),
        "short": Short(-2),
        "int": Int(-3),
        "long": -4,
        "float": Float(0.5),
        "double": 0.25,
        "char": Char("ä"),
        "timestamp": Timestamp(5),
        "uuid": uuid.UUID(int=6),
        "binary": b"\x00\xff",
        "string": "ö",
        "symbol": Symbol("symbol"),
    }
    annotations = {"x-opt-own": "kept", "x-opt-list": [1, {"a": b"b"}]}
    every = Message(
        body=b"every section",
        header=Header(durable=True, priority=7),
        delivery_annotations={"x-opt-dropped": 1},
        annotations=annotations,
        properties=properties,
        application_properties=values,
        footer={"x-footer": 1},
    )
    data = bytes.fromhex("005375a001")  # a data section with one byte
    return [
        every,
        Message(body={"map": [None, True]}, header=DURABLE),
        Message(body=[1, "two", b"three"], section=AMQP_SEQUENCE, header=DURABLE),
        Message(body=b"binary", section=AMQP_VALUE, header=DURABLE),
        Message(body=None, header=DURABLE),
        DURABLE_BYTES + data + b"1" + data + b"2",
    ]


# --- the first life ----------------------------------------------------------------------------------------------


async def _first_life(connection: ClientConnection) -> None:
    """Messages that the second life finds: they count as delivered before. Those of quorum queues are carried to the
    end of the log by it."""
    for name in ("classic", "classic not durable", "quorum", "quorum expiring", "stream", *LOST.values()):
        await _send(connection, f"/queues/{name}", _text(name, range(4), large=2))
    await _send(connection, "/queues/quorum expiring", _text("not durable", range(1), header=None))
    await _send(connection, "/queues/quorum expired", _text("quorum expired", range(1), header=EXPIRING))
    await _send(connection, f"/exchanges/{EVERYWHERE}", _text("everywhere at first", range(2)))
    for name in ("classic", "classic rejected"):
        receiver = await _receiver(connection, name)
        if name == "classic":
            receiver.accept(await _take(receiver, 1))
        else:
            await _send(connection, f"/queues/{name}", _text(name, range(1)))
            receiver.reject(await _take(receiver, 1))
        await receiver.close()


def _publish_plain(channel: BlockingChannel) -> None:
    """A message in each queue, and one that is gone after the kill, because neither it nor its number is kept."""
    for name in ("classic", "quorum", "stream", *LOST.values()):
        channel.basic_publish("", name, f"{name} by AMQP 0.9.1".encode(), pika.BasicProperties(delivery_mode=2))
    copies = pika.BasicProperties(delivery_mode=2, headers={"CC": ["another key"]})
    channel.basic_publish(EVERYWHERE, "key", b"everywhere at first by 0.9.1", copies)
    channel.basic_publish("", "classic", b"lost in the first life")


# --- the second life ---------------------------------------------------------------------------------------------


def _publish_not_durable(channel: BlockingChannel) -> None:
    """Messages that do not outlive the broker: on the disk in a lazy queue, and in memory in another one, whose number
    is far above those of the first life and is therefore noted on the disk."""
    channel.basic_publish("", "classic not durable", b"in memory")
    channel.queue_declare(PASSING, arguments={"x-queue-mode": "lazy"})
    for large in (0, LARGE):
        channel.basic_publish("", PASSING, b"passing".ljust(large))


async def _quorum_history(connection: ClientConnection) -> None:
    """Returned messages, with and without annotations, and messages that wait for their dead-lettering."""
    await _send(connection, "/queues/quorum", _text("returned", range(6), large=3))
    receiver = await _receiver(connection, "quorum")
    held = (await _counted(connection, "quorum")) - 6
    first = await _take(receiver, held + 6)
    receiver.release(first, first + held - 1)
    first += held
    receiver.modify(first, delivery_failed=True)
    receiver.modify(first + 1, delivery_failed=True, annotations={"x-opt-seen": "here", "x-opt-uint": UInt(3)})
    receiver.modify(first + 2, delivery_failed=False, annotations={"x-opt-seen": [1, Symbol("there")]})
    receiver.release(first + 3)
    receiver.accept(first + 4)
    await receiver.close()
    kept = await _receiver(connection, "quorum kept")
    await _send(connection, "/queues/quorum kept", _text("kept", range(3), large=2))
    first = await _take(kept, 3)
    kept.reject(first, first + 1)
    kept.accept(first + 2)
    await kept.close()


async def _counted(connection: ClientConnection, queue: str) -> int:
    answer = await connection.request("GET", f"/queues/{queue}")
    assert isinstance(answer.body, dict)
    count = answer.body["message_count"]
    return count.value if isinstance(count, ULong) else int(str(count))


async def _turn_over(connection: ClientConnection) -> None:
    """Fill and empty queues, so that files of the command log, the message store and a stream are removed, and live
    messages are carried to the end of the log."""
    for queue in ("quorum turnover", "classic shared"):
        receiver = await _receiver(connection, queue)
        for _ in range(3):
            await _send(connection, f"/queues/{queue}", _text("turnover", range(TURNOVER), large=1))
            first = await _take(receiver, TURNOVER)
            receiver.accept(first, first + TURNOVER - 1)
        await receiver.close()
    for number in range(20):
        await _send(connection, "/queues/stream short", _text("segment", [number], large=1))


async def _second_life(connection: ClientConnection) -> None:
    """The plain contents of each queue."""
    for queue in ("classic", "quorum", "stream"):
        await _send(connection, f"/queues/{queue}", _every_section())
        await _send(connection, f"/queues/{queue}", _text(f"{queue} not durable", range(2), header=None))
    await _send(
        connection,
        "/queues/stream",
        [
            Message(body=f"filtered {value}".encode(), header=DURABLE, annotations={"x-stream-filter-value": value})
            for value in ("red", "green", "red")
        ],
    )
    await _send(connection, "/queues/stream", [Message(body=b"ttl", header=Header(durable=True, ttl=4_294_967_295))])
    for queue in ("classic lazy", "classic expiring", "quorum expiring", AUTO_DELETED, BY_AMQP10):
        await _send(connection, f"/queues/{queue}", _text(queue, range(4), large=2))
        await _send(connection, f"/queues/{queue}", _text(f"{queue} not durable", range(4), header=None, large=2))
    for kind in ("classic", "quorum", "stream"):
        for queue in (EVERY_ARGUMENT[kind], f"policed {kind}", GONE[kind]):
            await _send(connection, f"/queues/{queue}", _text(queue, range(3), large=2))
    levels = [
        Message(body=f"priority {priority}".encode(), header=Header(durable=True, priority=priority))
        for priority in (0, 9, 4, 5, 1)
    ]
    for queue in ("classic levels", "quorum"):
        await _send(connection, f"/queues/{queue}", levels)
    await _send(connection, f"/exchanges/{EVERYWHERE}", _text(EVERYWHERE, range(4), large=2))
    await _send(connection, "/exchanges/of type headers/none", [_for_headers()])


def _for_headers() -> Message:
    properties = {"text": "a", "number": 2**40, "truth": True, "x-opt": "b"}
    return Message(body=b"by headers", header=DURABLE, application_properties=properties)


def _publish_everything(channel: BlockingChannel) -> None:
    """Messages of AMQP 0.9.1: every property, every type of field, routes with several keys."""
    table = {
        "boolean": True,
        "int": -1,
        "long": 2**40,
        "decimal": decimal.Decimal("1.25"),
        "text": "ä",
        "bytes": b"\x00\xff",
        "time": datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "list": [1, "two", [None]],
        "table": {"inner": {"innermost": 1}},
        "void": None,
    }
    every = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="identity",
        headers=table,
        delivery_mode=2,
        priority=3,
        correlation_id="correlation",
        reply_to="back",
        message_id="message",
        timestamp=1_500_000_000,
        type="type",
        user_id="guest",
        app_id="application",
        cluster_id="cluster",
    )
    kept = pika.BasicProperties(delivery_mode=2)
    for queue in ("classic", "quorum", "stream", "classic lazy", "classic levels"):
        channel.basic_publish("", queue, b"every property", every)
        channel.basic_publish("", queue, b"", kept)
        channel.basic_publish("", queue, b"0.9.1 large".ljust(LARGE), kept)
        channel.basic_publish("", queue, b"0.9.1 not durable")
    copies = pika.BasicProperties(delivery_mode=2, headers={"CC": ["another key"], "BCC": ["blind key"]})
    channel.basic_publish("of type direct", "key", b"with copies", copies)
    channel.basic_publish("of type topic", "a.stock.b", b"by topic", kept)
    channel.basic_publish("every argument", "no such key", b"by the alternate exchange", kept)
    channel.basic_publish(EVERYWHERE, "key", b"everywhere by 0.9.1".ljust(LARGE), copies)
    for number in range(4):
        channel.basic_publish("", "classic short", b"short %d" % number, every)


async def _dead_letters(connection: ClientConnection) -> None:
    """Dead letters: rejected, beyond the delivery limit, beyond the length, and expired at the next start."""
    await _send(connection, "/queues/quorum limited", _text("limited", range(2), large=2))
    limited = await _receiver(connection, "quorum limited")
    for _ in range(2):
        limited.modify(await _take(limited, 1), delivery_failed=True)
    await limited.close()
    for kind in ("classic", "quorum"):
        receiver = await _receiver(connection, EVERY_ARGUMENT[kind])
        receiver.reject(await _take(receiver, 1))
        await receiver.close()
    for queue in ("classic expired", "quorum expired"):
        await _send(connection, f"/queues/{queue}", _text(queue, range(2), header=EXPIRING, large=2))


async def _delete(connection: ClientConnection) -> None:
    for queue in GONE.values():
        answer = await connection.request("DELETE", f"/queues/{queue}".replace(" ", "%20"))
        assert answer.status == 200, answer


async def _leave_unsettled(connection: ClientConnection) -> None:
    """Take messages without settling them. They are delivered to this client when the broker ends."""
    for queue in ("classic expiring", "quorum expiring"):
        await _take(await _receiver(connection, queue), 2)
