"""The script of this project's Trio client."""

from contextlib import suppress
from importlib.metadata import version as version_of

import trio

from amqp10.client import (
    ClientConnection,
    ClientError,
    ClientSettings,
    Message,
    ReceiverOptions,
    RequestRefused,
    connect,
)
from amqp10.wire.messaging import Error
from amqp10.wire.sections import AMQP_SEQUENCE, Header, Properties
from amqp10.wire.types import Described, Symbol

QUEUE, STREAM, LETTERS = "/queues/recorded-trio", "/queues/recorded-trio-stream", "/queues/recorded-trio-letters"
SETTINGS = ClientSettings(container_id="recorded-trio", reconnect=None, max_frame_size=4096)
BY_HAND = ReceiverOptions(automatic=False)


def version() -> str:
    """The client and its version."""
    return f"amqp10.client {version_of('headgate')}"


def converse(url: str) -> None:
    """Run the script: one connection after the other."""
    trio.run(run, url)


async def run(url: str) -> None:
    """Log in without a name, and with one."""
    with suppress(ClientError):  # a broker that refuses ANONYMOUS
        async with connect(url.replace("guest:guest@", ""), SETTINGS) as connection:
            await connection.begin_session()
    async with connect(url, SETTINGS) as connection:
        await declare(connection)
        await publish(connection)
        await consume(connection)
        await dead_letters(connection)
        await streams(connection)
        await sessions(connection)
        await refusals(connection)
        for address in (QUEUE, STREAM, LETTERS):
            await connection.request("DELETE", address)


async def declare(connection: ClientConnection) -> None:
    """Queues of each type, policies, and requests of Headgate's own."""
    requests: list[tuple[str, str, object]] = [
        ("PUT", QUEUE, {"arguments": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": LETTERS[8:]}}),
        ("PUT", LETTERS, {"durable": False}),
        ("PUT", STREAM, {"arguments": {"x-queue-type": "stream"}}),
        ("PUT", f"{QUEUE}-quorum", {"arguments": {"x-queue-type": "quorum"}}),
        ("GET", f"{QUEUE}-quorum", None),
        ("DELETE", f"{QUEUE}-quorum", None),
        ("GET", QUEUE, None),
        ("PUT", "/headgate/policies/recorded", {"pattern": "^recorded-none", "definition": {"max-length": 5},
                                                "priority": 1, "apply_to": "queues"}),
        ("GET", "/headgate/policies/explain/recorded-trio", None),
        ("DELETE", "/headgate/policies/recorded", None),
        ("GET", "/headgate/queues/nowhere", None),
        ("GET", "/headgate/nonsense", None),
    ]  # fmt: skip
    for method, path, body in requests:
        with suppress(RequestRefused):
            await connection.request(method, path, body)


async def publish(connection: ClientConnection) -> None:
    """Messages in runs, settled and unsettled, of many sizes and sections."""
    sender = await connection.open_sender(QUEUE, name="sender")
    for size in (0, 1, 500, 4_000, 20_000):
        await sender.send(Message(bytes(size), header=Header(durable=size > 100)))
    await sender.send_many(Message(f"run {number}") for number in range(300))
    await sender.send(
        Message(
            [1, "two", {"three": 3.0}],
            section=AMQP_SEQUENCE,
            properties=Properties(message_id="id", subject="subject", group_id="group", correlation_id=7),
            application_properties={"text": "täxt", "number": -5},
            annotations={"x-opt-any": [1, 2]},
            delivery_annotations={"x-opt-hop": "gone"},
            footer={"x-opt-foot": True},
            header=Header(durable=True, priority=7, ttl=3_600_000),
        )
    )
    await sender.close()
    settled = await connection.open_sender(QUEUE, settled=True, name="settled")
    await settled.send_many(Message(f"settled {number}") for number in range(20))
    await settled.close()
    anonymous = await connection.open_sender(None, name="anonymous terminus")
    for to in (QUEUE, "/queues/nowhere", None):
        await anonymous.send(Message("to", properties=Properties(to=to)))
    await anonymous.close()


async def consume(connection: ClientConnection) -> None:
    """Link credit by hand, with echo and drain, and each outcome."""
    receiver = await connection.open_receiver(QUEUE, options=BY_HAND, name="by hand")
    receiver.grant(1)
    (await receiver.receive()).accept()
    receiver.grant(4, echo=True)
    taken = [await receiver.receive() for _ in range(4)]
    taken[0].accept()
    taken[1].release()
    taken[2].modify(delivery_failed=True)
    taken[3].modify(delivery_failed=False, undeliverable_here=True)
    receiver.grant(200)
    for delivery in await received(receiver.receive, 200):
        delivery.accept()
    receiver.grant(1000)
    await receiver.drain()
    for delivery in receiver.receive_nowait(1000):
        delivery.accept()
    await receiver.close()
    urgent = await connection.open_receiver(
        QUEUE, options=ReceiverOptions(automatic=False, settled=True, priority=5), name="settled by the broker"
    )
    urgent.grant(10)
    await urgent.drain()
    await urgent.close()


async def received(receive, n):
    """The next ``n`` messages."""
    return [await receive() for _ in range(n)]


async def dead_letters(connection: ClientConnection) -> None:
    """A message that is rejected, with its annotation."""
    sender = await connection.open_sender(QUEUE, name="for dead letters")
    await sender.send(Message("rejected"))
    receiver = await connection.open_receiver(QUEUE, options=BY_HAND, name="rejecting")
    receiver.grant(1)
    (await receiver.receive()).reject(Error(condition="app:bad", description="too bad"))
    letters = await connection.open_receiver(LETTERS, options=BY_HAND, name="letters")
    letters.grant(1)
    (await letters.receive()).accept()
    for link in (sender, receiver, letters):
        await link.close()


async def streams(connection: ClientConnection) -> None:
    """A stream from its first message, from an offset and with a filter."""
    sender = await connection.open_sender(STREAM, name="to the stream")
    for number in range(6):
        value = "even" if number % 2 == 0 else "odd"
        await sender.send(Message(f"streamed {number}", annotations={"x-stream-filter-value": value}))
    await sender.close()
    specs: list[dict[str, object]] = [
        {"rabbitmq:stream-offset-spec": "first"},
        {"rabbitmq:stream-offset-spec": 4},
        {"rabbitmq:stream-offset-spec": "first", "rabbitmq:stream-filter": ["odd"]},
    ]
    for number, spec in enumerate(specs):
        filters = {name: Described(Symbol(name), value) for name, value in spec.items()}
        options = ReceiverOptions(automatic=False, filter=filters)
        receiver = await connection.open_receiver(STREAM, options=options, name=f"stream {number}")
        receiver.grant(2)
        for delivery in await received(receiver.receive, 2):
            delivery.accept()
        await receiver.close()


async def sessions(connection: ClientConnection) -> None:
    """Two sessions, one of which ends with unsettled messages."""
    first, second = await connection.begin_session(), await connection.begin_session()
    sender = await first.open_sender(QUEUE, name="of the first session")
    await sender.send_many(Message(f"unsettled {number}") for number in range(5))
    receiver = await second.open_receiver(QUEUE, options=BY_HAND, name="of the second session")
    receiver.grant(3)
    await received(receiver.receive, 3)
    second.close()
    again = await first.open_receiver(QUEUE, options=BY_HAND, name="what came back")
    again.grant(10)
    await again.drain()
    for delivery in again.receive_nowait(10):
        delivery.accept()
    await again.close()
    first.close()


async def refusals(connection: ClientConnection) -> None:
    """Links that are refused."""
    for number, address in enumerate(("/queues/nowhere", "orders", "/exchanges/nowhere/key", "/flow/self")):
        with suppress(ClientError):
            await connection.open_sender(address, name=f"refused sender {number}")
    for number, filters in enumerate(({"apache.org:selector-filter:string": "a = 1"}, {"no-such-filter": 1})):
        described = {name: Described(Symbol(name), value) for name, value in filters.items()}
        with suppress(ClientError):
            await connection.open_receiver(
                QUEUE, options=ReceiverOptions(automatic=False, filter=described), name=f"filtered {number}"
            )
