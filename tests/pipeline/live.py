"""Three workloads whose bottleneck is known, recorded live: brokers slowed at a stage, and publishers on sockets.

The stages are slowed as in ``tests/cli/test_why.py``: by what they may take on in a turn, and the message store by
writes that take longer than the disk needs and stage credit for one body, so that each waits for the write of the one
before it. The records of the brokers' ``$flow`` become rows of ``flow_events``, those of each broker under the name of
its slow stage.
"""

import socket
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from amqp10.blocking.connection import BlockingConnection
from amqp10.client import Message
from core.amqp091.framing import method_frame
from core.amqp091.methods import BasicPublish, ChannelOpen, QueueDeclare
from core.amqp091.properties import BasicProperties
from pipeline.jobs.sources import FLOW_STREAM
from pipeline.tables.bottlenecks import CHANNEL as CHANNEL_STAGE
from pipeline.tables.bottlenecks import QUEUE, STORE
from pipeline.tables.packets import Row, rows_of
from pyspark_amqp10.login import Login
from pyspark_amqp10.stream_ends import open_stream
from tests.kit.amqp091_peer import opening, publish
from tests.kit.amqp091_socket import CHANNEL, GUEST, PERSISTENT
from tests.kit.broker_process import BrokerAddress, broker_process

SECONDS = 3
"""In how many seconds the reader must be blocked before the publisher leaves. A second that is cut short decides
nothing."""
DEADLINE_S = 120.0
LOOK_SECONDS = 0.1
"""The time between two reads of the stream; the broker packs its records as often."""
PACKETS_MAX = 1_000
"""How many packets are read at once: more than the broker makes meanwhile."""

WRITE_DELAY_S = 0.07
"""How much longer than the disk needs each write takes. The queue is in flow for this time, and the reader meanwhile,
so the machine would have to take three times as long for the few bodies between two writes until the queue is not in
flow for a quarter of the reader's time. It is no part of the time between two records of the broker, 0.1 s: then each
record could see the same moment of a write."""


class Slowed(NamedTuple):
    """A broker's settings, a load for its slow stage, and the bottleneck that the pipeline must find."""

    settings: str
    bodies: list[bytes]
    delivery_mode: int
    bottleneck: str
    culprit: str


SMALL, LARGE = [b"twelve bytes"] * 2000, [bytes(32768)] * 100
"""Bodies that the queue's index stores, and bodies for the message store."""
SLOWED: Mapping[str, Slowed] = MappingProxyType(
    {
        "channel": Slowed(
            "[engine.stage_messages_per_turn]\nchannel = 1\n", SMALL, 1, CHANNEL_STAGE, f"/{CHANNEL}"
        ),
        "queue": Slowed(
            "[engine.stage_messages_per_turn]\nqueue = 1\n", SMALL, PERSISTENT, QUEUE, "q"
        ),
        "store": Slowed(
            f"[store]\nwrite_delay = {WRITE_DELAY_S}\n"
            "[stage_credit]\ninitial = 4\nmore_after = 2\nstore_initial = 1\nstore_more_after = 1\n",
            LARGE, PERSISTENT, STORE, STORE,
        ),
    }
)  # fmt: skip


def record_all(folder: Path) -> list[Row]:
    """Record all workloads at the same time."""
    with ThreadPoolExecutor(len(SLOWED)) as threads:
        told = threads.map(lambda name: recorded(name, folder / name), SLOWED)
        return [row for rows in told for row in rows]


def recorded(name: str, folder: Path) -> list[Row]:
    """The records of a broker slowed like this, until its publisher has left."""
    folder.mkdir(parents=True)
    password, settings = folder / "password", folder / "broker.toml"
    password.write_text("guest\n")
    settings.write_text(f"{SLOWED[name].settings}[flow_events]\nenabled = true\n")
    with broker_process("--config", str(settings)) as broker:
        login = Login.parse(f"amqp://{broker.host}:{broker.port}", user="guest", password_file=str(password))
        with login.connect() as connection:
            return [row | {"node": f"live {name}"} for row in held_up(SLOWED[name], broker, connection)]


def held_up(load: Slowed, broker: BrokerAddress, connection: BlockingConnection) -> list[Row]:
    """Publish until the reader was blocked in enough seconds, and read until the record of the publisher's end
    comes."""
    stream = open_stream(connection, FLOW_STREAM, "first")
    rows: list[Row] = []
    deadline = time.monotonic() + DEADLINE_S

    def look() -> list[Row]:
        assert time.monotonic() < deadline, "the broker did not tell in time what was waited for"
        time.sleep(LOOK_SECONDS)
        for run in stream.fetch(PACKETS_MAX, within_s=DEADLINE_S):
            for entry in run.entries:
                body = Message.decode(entry).body
                assert isinstance(body, bytes)
                rows.extend(rows_of(body))
        return rows

    with socket.create_connection((broker.host, broker.port)) as client:
        declare = method_frame(CHANNEL, ChannelOpen()) + method_frame(CHANNEL, QueueDeclare(queue="q", durable=True))
        client.sendall(opening(response=GUEST) + declare)
        frames = left = framed(load)
        while blocked_seconds(look()) < SECONDS:
            with suppress(BlockingIOError):
                left = left[client.send(left, socket.MSG_DONTWAIT) :] or frames
    while not any(row["kind"] == "connection-closed" for row in look()):
        pass
    return rows


def framed(load: Slowed) -> bytes:
    method, properties = BasicPublish(routing_key="q"), BasicProperties(delivery_mode=load.delivery_mode)
    return b"".join(publish(CHANNEL, body, method=method, properties=properties) for body in load.bodies)


def blocked_seconds(rows: Iterable[Row]) -> int:
    """The number of seconds in which the reader became blocked."""
    readers = (row for row in rows if row["kind"] == "stage" and row["stage"] == "reader" and row.get("blocks"))
    return len({int(str(row["at"])) // 1_000_000 for row in readers})
