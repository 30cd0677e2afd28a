"""What clients of both protocols and the admin API see in a data folder, as JSON.

A value that JSON does not have is shown as Python writes it, a symbol as ``:name``, and a long body by its beginning,
length and digest. A time after the folder was made depends on the run, and is shown as ``later``.
"""

import datetime
import json
from collections.abc import Collection, Mapping
from dataclasses import fields
from hashlib import blake2b
from pathlib import Path

import httpx
import pika
import trio
from pika.adapters.blocking_connection import BlockingChannel

from amqp10.client import ClientConnection, Delivery, Message, ReceiverOptions
from amqp10.wire.sections import Header, Properties
from amqp10.wire.types import Array, Described, Symbol, Timestamp
from tests.crash.cycle import READ_CREDIT, log_of
from tests.crash.every_kind.declared import AUTO_DELETED

Seen = dict[str, object]
Row = Mapping[str, object]
SeenMessage = dict[str, dict[str, object]]
SHOWN_MAX = 60
"""The longest body that is shown as a whole."""
BEGINNING = 30
FROM_FIRST = {"rabbitmq:stream-offset-spec": Described(Symbol("rabbitmq:stream-offset-spec"), "first")}
COUNTS = ("type", "durable", "auto_delete", "policy", "messages", "messages_ready", "messages_unacknowledged")


class Looker:
    """Looks at a broker. ``made``: when its data folder was made, in seconds since the epoch."""

    def __init__(self, folder: Path, url: str, made: float) -> None:
        self._port = int(url.rpartition(":")[2])
        self._log = log_of(folder)
        self._made = made

    async def definitions(self) -> list[Row]:
        """All definitions as the API exports them, each with its kind."""
        written = await self._asked("/api/definitions")
        assert isinstance(written, dict)
        return [{"kind": kind, **row} for kind, rows in written.items() if isinstance(rows, list) for row in rows]

    async def queues(self) -> dict[str, Row]:
        """The rows of the queues, with what does not depend on the run."""
        rows = await self._asked("/api/queues")
        assert isinstance(rows, list)
        return {str(row["name"]): {name: row[name] for name in COUNTS} for row in rows}

    async def until_ready(self, counts: Mapping[str, int]) -> None:
        """Wait until each of these queues has as many ready messages, because dead letters move after a start."""
        while await self._ready(counts) != counts:  # noqa: ASYNC110 - no event reports it
            await trio.sleep(0.01)

    async def _ready(self, names: Collection[str]) -> Mapping[str, object]:
        return {name: row["messages_ready"] for name, row in (await self.queues()).items() if name in names}

    async def _asked(self, path: str) -> object:
        lines = map(json.loads, self._log.read_text().splitlines())
        *_, place = (line["addresses"] for line in lines if line["event"] == "admin-listening")
        async with httpx.AsyncClient(base_url=f"http://{place}") as client:
            return (await client.get(path)).raise_for_status().json()

    # --- messages

    async def messages(self, connection: ClientConnection) -> dict[str, list[SeenMessage]]:
        """By queue, the messages that AMQP 1.0 delivers. They go back to their queue. A queue that would be deleted
        without its consumer is left out."""
        return {
            name: await self._received(connection, name, stream=row["type"] == "stream")
            for name, row in (await self.queues()).items()
            if name != AUTO_DELETED
        }

    async def _received(self, connection: ClientConnection, queue: str, *, stream: bool) -> list[SeenMessage]:
        options = ReceiverOptions(automatic=False, filter=FROM_FIRST if stream else None)
        receiver = await connection.open_receiver(f"/queues/{queue}".replace(" ", "%20"), options=options)
        found: list[Delivery] = []
        unused = 0
        while not unused:
            receiver.grant(READ_CREDIT)
            unused = await receiver.drain()
            found += receiver.receive_nowait(READ_CREDIT)
        if found:
            receiver.release(found[0].number, found[-1].number)
        await receiver.close()
        return [self._message(delivery.message) for delivery in found]

    async def messages_of_amqp091(self) -> dict[str, list[SeenMessage]]:
        """By queue, the messages that AMQP 0.9.1 gets. They go back to their queue when the connection ends."""
        names = [name for name, row in (await self.queues()).items() if row["type"] != "stream"]

        def look() -> dict[str, list[SeenMessage]]:
            with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self._port)) as connection:
                channel = connection.channel()
                return {name: self._got(channel, name) for name in names}

        return await trio.to_thread.run_sync(look)

    def _got(self, channel: BlockingChannel, queue: str) -> list[SeenMessage]:
        found: list[SeenMessage] = []
        while True:
            method, properties, body = channel.basic_get(queue)
            if method is None:
                return found
            route = {"exchange": method.exchange, "routing_key": method.routing_key} if method.exchange else {}
            given = {name: value for name, value in vars(properties).items() if value is not None}
            found.append(self._message({"body": body, **route, "redelivered": method.redelivered, **given}))

    def _message(self, message: object) -> SeenMessage:
        seen = self.shown(message)
        assert isinstance(seen, dict)
        return seen

    # --- values

    def shown(self, value: object) -> object:
        """The value as JSON has it. Fields that have their default are left out."""
        match value:
            case Message() | Header() | Properties():
                named = {field.name: (getattr(value, field.name), field.default) for field in fields(value)}
                return {name: self.shown(it) for name, (it, usual) in named.items() if it not in (usual, None, {})}
            case str() | bytes() if len(value) > SHOWN_MAX:
                data = value.encode() if isinstance(value, str) else value
                digest = blake2b(data, digest_size=8).hexdigest()
                return f"{value[:BEGINNING].strip()!r} … {len(data)} bytes, {digest}"
            case Symbol():
                return f":{value.value}"
            case Timestamp():
                return "later" if value.value > self._made * 1000 else repr(value)
            case datetime.datetime():
                return "later" if value.timestamp() > self._made else value.isoformat()
            case Array() | list() | tuple():
                return [self.shown(item) for item in (value.items if isinstance(value, Array) else value)]
            case Mapping():
                return {str(self.shown(key)): self.shown(item) for key, item in value.items()}
            case bool() | int() | str() | None:
                return value
        return repr(value)
