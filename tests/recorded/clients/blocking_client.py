"""The script of this project's blocking client, which the connector for Spark uses."""

from contextlib import suppress
from importlib.metadata import version as version_of

from amqp10.blocking.connection import BlockingConnection, BlockingSettings
from amqp10.blocking.links import ReceivingLink, SendingLink
from amqp10.blocking.requests import BlockingManagement
from amqp10.client_core.errors import ClientError
from amqp10.client_core.message import Message
from amqp10.client_core.url import Url
from amqp10.wire.messaging import RELEASED, Modified, Rejected
from amqp10.wire.types import Described, Symbol

QUEUE, STREAM = "/queues/recorded-blocking", "/queues/recorded-blocking-stream"
SETTINGS = BlockingSettings(container_id="recorded-blocking")
WITHIN_S = 20.0


def version() -> str:
    """The client and its version."""
    return f"amqp10.blocking {version_of('headgate')}"


def converse(url: str) -> None:
    """Run the script."""
    with BlockingConnection.open(Url.parse(url), SETTINGS) as connection:
        management = BlockingManagement(connection)
        management.request("PUT", QUEUE, {"durable": True})
        management.request("PUT", STREAM, {"arguments": {"x-queue-type": "stream"}})
        send(connection)
        fetch(connection)
        stream(connection)
        refusals(connection, management)
        for address in (QUEUE, STREAM):
            management.request("DELETE", address)


def send(connection: BlockingConnection) -> None:
    """Runs of messages, confirmed and settled, and one of many frames."""
    sending = SendingLink.open(connection, QUEUE, name="sending")
    runs = [
        [Message(f"message {number}").encode() for number in range(250)],
        [Message(bytes(200_000)).encode()],
        [Message(bytes(size)).encode() for size in (0, 1, 300, 5_000)],
    ]
    for run in runs:
        sending.confirm(sending.send(run, within_s=WITHIN_S), within_s=WITHIN_S)
    sending.close()
    settled = SendingLink.open(connection, QUEUE, name="settled", settled=True)
    settled.send(runs[2], within_s=WITHIN_S)
    connection.flush()
    settled.close()
    unrouted = SendingLink.open(connection, "/exchanges/amq.direct/recorded-nothing", name="unrouted")
    unrouted.confirm(unrouted.send(runs[2], within_s=WITHIN_S), within_s=WITHIN_S)
    unrouted.close()


def fetch(connection: BlockingConnection) -> None:
    """Batches by link credit with drain, each outcome, and a batch of an empty queue."""
    receiving = ReceivingLink.open(connection, QUEUE, name="receiving")
    receiving.ready()
    (batch,) = receiving.fetch(4, within_s=WITHIN_S)
    for at, outcome in enumerate((RELEASED, Modified(delivery_failed=True), Rejected(), RELEASED)):
        receiving.settle(batch.first + at, batch.first + at, outcome)
    receiving.sync()
    while batches := receiving.fetch(100, within_s=WITHIN_S):
        for one in batches:
            receiving.settle(one.first, one.last)
        receiving.sync()
    receiving.ready()
    receiving.close()


def stream(connection: BlockingConnection) -> None:
    """A stream with link credit that is topped up, settled by the broker."""
    sending = SendingLink.open(connection, STREAM, name="to the stream")
    run = [Message(f"streamed {number}").encode() for number in range(30)]
    sending.confirm(sending.send(run, within_s=WITHIN_S), within_s=WITHIN_S)
    sending.close()
    spec = "rabbitmq:stream-offset-spec"
    filters = {spec: Described(Symbol(spec), "first")}
    receiving = ReceivingLink.open(connection, STREAM, name="from the stream", filters=filters, settled=True)
    receiving.stream(8, messages=30)
    taken = 0
    while taken < 30:
        taken += sum(len(one.entries) for one in receiving.arrived(within_s=WITHIN_S))
    receiving.close()


def refusals(connection: BlockingConnection, management: BlockingManagement) -> None:
    """Links and requests that are refused."""
    for number, address in enumerate(("/queues/nowhere", "nonsense")):
        with suppress(ClientError):
            SendingLink.open(connection, address, name=f"refused sender {number}")
        with suppress(ClientError):
            ReceivingLink.open(connection, address, name=f"refused receiver {number}")
    for method, path in (
        ("GET", "/queues/nowhere"),
        ("PUT", "/headgate/nonsense"),
        ("DELETE", "/exchanges/amq.direct"),
    ):
        with suppress(ClientError):
            management.request(method, path)
