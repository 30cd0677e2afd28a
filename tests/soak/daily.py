"""What a broker sees on an ordinary day: steady flows, and things that look like trouble and are none."""

import contextlib
import ssl
from collections.abc import Awaitable, Callable
from functools import partial

import pika
import trio

from amqp10.client import Message, ReceiverOptions, connect
from amqp10.client_core.errors import ClientError
from amqp10.wire.sections import Header
from tests.soak.churn import Rounds, expect
from tests.soak.flowing10 import settings
from tests.soak.plan import LARGE, QUORUM, STREAM, Flow, dead_to
from tests.soak.run import MINUTE, Place

HOUR = 60 * MINUTE
JOB_S = 3.0
"""The work of one job. A batch of :data:`JOBS` takes one worker twenty minutes, as a nightly import does."""
JOBS = 400
MAILS_PER_ROUND = 200
IMPORTED = 3000
IMPORT_QUEUE_MAX = 500
IMPORT_TAKEN_PER_S = 100
IMPORT_BATCH = 20
BY_HAND = ReceiverOptions(automatic=False)
AWAY_S = 45.0
"""How long a program is away while its next version is installed."""

Activity = Callable[[Place, int], Awaitable[None]]


def flows() -> list[Flow]:
    """The steady flows: 280 messages a second."""
    returned = Flow("returned", "", "amqp10")
    return [
        Flow("orders", "amqp10", "amqp10", per_second=60),
        Flow("payments", "amqp091", "amqp091", QUORUM, per_second=20, burst=5),
        Flow("prices", "amqp091", "amqp10", durable=False, presettled=True, settles="settled", burst=20),
        Flow("pictures", "amqp10", "amqp091", sizes=LARGE, per_second=1, burst=1),
        Flow("clicks", "amqp10", "amqp091", STREAM, per_second=40, burst=20),
        Flow("notices", "amqp10", "amqp10", exchange="topics", per_second=40),
        Flow("retried", "amqp091", "amqp10", settles="release", per_second=10, burst=1),
        returned,
        Flow("refused", "amqp10", "amqp091", dead_to("returned"), settles="reject", dead=returned, per_second=10),
    ]


async def daily(place: Place, rounds: Rounds) -> None:
    """Do everything of an ordinary day for ever, each thing with its own pause."""
    async with connect(place.url, settings()) as asked:
        for name in ("jobs", "jobs-091", "mails", "deployed"):
            await expect(asked, "PUT", f"/queues/{name}", {"durable": True, "arguments": {}})
        bounded = {"x-max-length": IMPORT_QUEUE_MAX, "x-overflow": "reject-publish"}
        await expect(asked, "PUT", "/queues/imported", {"durable": True, "arguments": bounded})
    activities: tuple[tuple[str, Activity, float], ...] = (
        ("batches of jobs", jobs, 10 * MINUTE),
        ("batches of jobs, AMQP 0.9.1", jobs_091, 10 * MINUTE),
        ("mails", mails, 1.0),
        ("deployments", deployment, 5 * MINUTE),
        ("imports", bulk_import, 15 * MINUTE),
        ("mistyped passwords", mistyped_password, 10 * MINUTE),
        ("probes of the port", probe, 10.0),
        ("TLS to the plain port", tls_to_plain_port, 30 * MINUTE),
    )
    async with trio.open_nursery() as nursery:
        for name, activity, pause_s in activities:
            nursery.start_soon(rounds.repeat, name, partial(activity, place), pause_s)


async def jobs(place: Place, number: int) -> None:
    """Hand a batch of jobs to one worker, which takes them one by one with link credit 1 and is slow."""
    async with connect(place.url, settings(container_id=f"worker-{number}")) as one:
        sender = await one.open_sender("/queues/jobs")
        await sender.send_many([Message(f"job {n}", header=Header(durable=True)) for n in range(JOBS)])
        receiver = await one.open_receiver("/queues/jobs", options=BY_HAND)
        for _ in range(JOBS):
            receiver.grant(1)
            delivery = await receiver.receive()
            await trio.sleep(JOB_S)
            delivery.accept()


async def jobs_091(place: Place, number: int) -> None:
    """The same over AMQP 0.9.1, with a prefetch count of 5."""
    del number
    await trio.to_thread.run_sync(_jobs_091, place, abandon_on_cancel=True)


def _jobs_091(place: Place) -> None:
    parameters = pika.ConnectionParameters(place.host, place.port, heartbeat=60)
    with pika.BlockingConnection(parameters) as one:
        channel = one.channel()
        channel.basic_qos(prefetch_count=5)
        for n in range(JOBS):
            channel.basic_publish("", "jobs-091", b"job %d" % n, pika.BasicProperties(delivery_mode=2))
        for n, (method, _, _) in enumerate(channel.consume("jobs-091"), start=1):
            one.sleep(JOB_S)
            channel.basic_ack(method.delivery_tag)
            if n == JOBS:
                break
        channel.cancel()


async def mails(place: Place, number: int) -> None:
    """Write a mail each two seconds, and send them all once in seven minutes by a program that comes and goes."""
    del number
    async with connect(place.url, settings(container_id="mailer")) as one:
        sender = await one.open_sender("/queues/mails")
        for n in range(MAILS_PER_ROUND):
            await sender.send(Message(f"mail {n}", header=Header(durable=True)))
            await trio.sleep(2.0)
        receiver = await one.open_receiver("/queues/mails")
        for _ in range(MAILS_PER_ROUND):
            (await receiver.receive()).accept()


async def deployment(place: Place, number: int) -> None:
    """Publish ten messages a second while the consumer is away, and let it catch up."""
    del number
    messages = int(AWAY_S * 10)
    async with connect(place.url, settings(container_id="deployed")) as one:
        sender = await one.open_sender("/queues/deployed")
        for n in range(messages):
            await sender.send(Message(f"message {n}"))
            await trio.sleep(0.1)
        receiver = await one.open_receiver("/queues/deployed")
        for _ in range(messages):
            (await receiver.receive()).accept()


async def bulk_import(place: Place, number: int) -> None:
    """Publish at full speed to a queue with a limit, whose consumer is slower: the publisher waits for half a minute,
    which is what the limit is for."""
    del number
    async with connect(place.url, settings(container_id="import")) as one, trio.open_nursery() as nursery:
        sender = await one.open_sender("/queues/imported")
        messages = [Message(f"row {n}", header=Header(durable=True)) for n in range(IMPORTED)]
        nursery.start_soon(sender.send_many, messages)
        receiver = await one.open_receiver("/queues/imported", options=BY_HAND)
        for _ in range(IMPORTED // IMPORT_BATCH):
            receiver.grant(IMPORT_BATCH)
            for _ in range(IMPORT_BATCH):
                (await receiver.receive()).accept()
            await trio.sleep(IMPORT_BATCH / IMPORT_TAKEN_PER_S)


async def mistyped_password(place: Place, number: int) -> None:
    """Log in with a wrong password once."""
    del number
    url = f"amqp://guest:gest@{place.host}:{place.port}"
    with contextlib.suppress(ClientError):
        async with connect(url, settings(container_id="somebody")):
            raise AssertionError("the broker took a wrong password")


async def probe(place: Place, number: int) -> None:
    """Connect and close without a byte, as load balancers look whether the port is open."""
    del number
    await (await trio.open_tcp_stream(place.host, place.port)).aclose()


async def tls_to_plain_port(place: Place, number: int) -> None:
    """Begin TLS on the port without it, as clients do whose address has the wrong scheme."""
    del number
    context = ssl.create_default_context()
    stream = await trio.open_tcp_stream(place.host, place.port)
    with contextlib.suppress(trio.BrokenResourceError, ssl.SSLError):
        await trio.SSLStream(stream, context, server_hostname="localhost").do_handshake()
    await stream.aclose()
