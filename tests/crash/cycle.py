"""One life of a broker: it starts on a data folder, is audited, works, and is killed at a random moment.

The audit of a life demands what the lives before it promised. Publishers send numbers in bursts of random size and
never wait for more than the outcome of the last burst but one; consumers take some, settle some, and release others.
"""

import random
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio
import trio.lowlevel

from amqp10.client import (
    ClientConnection,
    ClientSettings,
    Message,
    Receipt,
    ReceiverOptions,
    Uncertain,
    Unsent,
    connect,
)
from amqp10.client_core.errors import ClientError, ConnectionLost
from amqp10.wire.messaging import Accepted
from amqp10.wire.sections import Header
from amqp10.wire.types import Described, Symbol
from tests.crash.ledger import BARRIERS, Found, Ledger, Verdict
from tests.kit.prepared_broker import PreparedBroker

READY = re.compile(r"amqp://guest:guest@[^:]+:(?P<port>\d+)")
KINDS = ("classic", "quorum", "stream")
BURST_MAX = 40
CONFIRMED_MIN = 200
"""The number of confirms, of all queues together, before a life may end."""
LIFE_EXTRA_S = 0.06
"""The longest time from then until the kill, while everything goes on."""
READ_CREDIT = 1000
"""The link credit of one drain. A queue that uses none of it has no more messages."""
Work = Callable[[ClientConnection, "Subject", random.Random], Awaitable[None]]
CLIENT = ClientSettings(reconnect=None, idle_time_out_ms=60_000)


@dataclass(slots=True)
class Subject:
    """One queue under test."""

    kind: str
    name: str
    ledger: Ledger = field(default_factory=Ledger)
    next_number: int = 0
    next_barrier: int = BARRIERS
    """The queue's barriers come on connections of their own, so they have an order of their own."""

    @property
    def settles(self) -> bool:
        """True when consumers settle messages; False for a stream."""
        return self.kind != "stream"


@asynccontextmanager
async def broker(folder: Path, *arguments: str) -> AsyncIterator[tuple[str, PreparedBroker]]:
    """A broker on this data folder. It is killed at the end of the block if it still lives."""
    process = _spawned(folder, arguments)
    try:
        line = await trio.to_thread.run_sync(process.stdout.readline)
        match = READY.search(line)
        assert match is not None, f"the broker did not start; see {log_of(folder)}: {line!r}"
        yield f"amqp://guest:guest@127.0.0.1:{match['port']}", process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _spawned(folder: Path, arguments: tuple[str, ...]) -> PreparedBroker:
    admin = () if "--admin" in arguments else ("--admin", "off")
    command = ["serve", "--listen", "127.0.0.1:0", *admin, "--data", str(folder), *arguments]
    with log_of(folder).open("a") as log:
        return PreparedBroker(*command, stderr=log.fileno())


def log_of(folder: Path) -> Path:
    """The log of the brokers on a data folder."""
    return folder.with_name("broker.log")


async def declare(connection: ClientConnection, subject: Subject) -> None:
    """Declare the queue, if it does not exist."""
    kind, _, _ = subject.kind.partition(" ")
    body = {"durable": True, "arguments": {"x-queue-type": kind}}
    answer = await connection.request("PUT", f"/queues/{subject.name}", body)
    assert answer.status in (200, 201), answer


async def read_all(connection: ClientConnection, subject: Subject, *, settle: bool) -> list[Found]:
    """Everything that the queue delivers, in order."""
    offsets = {"rabbitmq:stream-offset-spec": Described(Symbol("rabbitmq:stream-offset-spec"), "first")}
    options = ReceiverOptions(automatic=False, filter=None if subject.settles else offsets)
    receiver = await connection.open_receiver(f"/queues/{subject.name}", options=options)
    found: list[Found] = []
    first = last = None
    while True:
        receiver.grant(READ_CREDIT)
        await receiver.drain()
        batch = receiver.receive_nowait(READ_CREDIT)
        if not batch:
            break
        for delivery in batch:
            message = delivery.message
            header = message.header or Header()
            found.append(Found(number_of(message), redelivered=not header.first_acquirer))
        first = batch[0].number if first is None else first
        last = batch[-1].number
    if settle and first is not None:
        receiver.accept(first, last)
        subject.ledger.going |= {one.number for one in found}
        await barrier(connection, subject)
    await receiver.close()
    return found


async def barrier(connection: ClientConnection, subject: Subject) -> None:
    """Publish a message and wait for its confirm. Every settlement that was sent before is written then."""
    going = set(subject.ledger.going)
    sender = await connection.open_sender(f"/queues/{subject.name}")
    number = subject.next_barrier
    subject.next_barrier += 1
    subject.ledger.uncertain.add(number)
    fate = await sender.send(encoded(number))
    if isinstance(fate, Uncertain | Unsent):
        raise ConnectionLost(fate.reason)
    assert isinstance(fate, Accepted), fate
    subject.ledger.uncertain.discard(number)
    subject.ledger.confirmed.add(number)
    subject.ledger.gone |= going
    subject.ledger.going -= going
    await sender.close()


def number_of(message: Message) -> int:
    """The number in a message."""
    assert isinstance(message.body, bytes)
    return int(message.body)


def encoded(number: int) -> Message:
    """A durable message with this number."""
    return Message(body=str(number).encode(), header=Header(durable=True))


async def publish(connection: ClientConnection, subject: Subject, rng: random.Random) -> None:
    """Publish numbers until the broker dies, and note the outcomes."""
    sender = await connection.open_sender(f"/queues/{subject.name}")
    posted: list[tuple[Receipt, int]] = []
    try:
        while True:
            count = rng.randint(1, BURST_MAX)
            base = subject.next_number
            subject.next_number += count
            subject.ledger.uncertain |= set(range(base, base + count))
            receipt = await sender.post([encoded(base + index) for index in range(count)])
            posted.append((receipt, base))
            if len(posted) > 2:
                await posted[-3][0].fates()
            for known in posted[-3:]:
                note(subject, *known)
            await trio.lowlevel.checkpoint()
    finally:
        for receipt, base in posted[-6:]:
            note(subject, receipt, base)


def note(subject: Subject, receipt: Receipt, base: int) -> None:
    """Note the outcomes that are known."""
    for first, last, fate in receipt.so_far():
        numbers = set(range(base + first - receipt.first, base + last - receipt.first + 1))
        if isinstance(fate, Accepted):
            subject.ledger.confirmed |= numbers
            subject.ledger.uncertain -= numbers
        else:
            assert isinstance(fate, Uncertain | Unsent), fate


async def consume(connection: ClientConnection, subject: Subject, rng: random.Random) -> None:
    """Take deliveries. Settle some, with a barrier from time to time, and release some."""
    receiver = await connection.open_receiver(f"/queues/{subject.name}")
    while True:
        batch = await receiver.receive_batch(rng.randint(1, 60))
        for delivery in batch:
            subject.ledger.seen.add(number_of(delivery.message))
        if not subject.settles:
            receiver.accept(batch[0].number, batch[-1].number)
            continue
        for delivery in batch:
            if rng.random() < 0.7:
                subject.ledger.going.add(number_of(delivery.message))
                delivery.accept()
            else:
                delivery.release()
        if rng.random() < 0.3:
            await barrier(connection, subject)


async def live(
    folder: Path, subjects: list[Subject], rng: random.Random, *, arguments: tuple[str, ...] = (), kill: bool = True
) -> dict[str, Verdict]:
    """One life. Returns the verdict of the audit at its beginning, by kind of queue."""
    verdicts: dict[str, Verdict] = {}
    async with broker(folder, *arguments) as (url, process):
        async with connect(url, CLIENT) as connection:
            for subject in subjects:
                await declare(connection, subject)
            async with trio.open_nursery() as nursery:
                for subject in subjects:
                    nursery.start_soon(partial(audit, connection, subject, settle=rng.random() < 0.3), verdicts)
        if kill:
            await _work_until_killed(url, process, subjects, rng)
        else:
            process.send_signal(signal.SIGTERM)
            await trio.to_thread.run_sync(process.wait)
            assert process.returncode == 0, process.returncode
    return verdicts


async def audit(connection: ClientConnection, subject: Subject, verdicts: dict[str, Verdict], *, settle: bool) -> None:
    """Compare the content of the queue with the promises, and add the verdict. Raises AssertionError."""
    audited = Ledger(
        set(subject.ledger.confirmed),
        set(subject.ledger.uncertain),
        set(subject.ledger.seen),
        set(subject.ledger.gone),
        set(subject.ledger.going),
    )
    found = await read_all(connection, subject, settle=False)
    verdict = audited.audit(found, settles=subject.settles)
    assert not verdict.broken, describe(subject, audited, found, verdict)
    verdicts[subject.kind] = verdict
    subject.ledger.begin_again(found)
    if settle and subject.settles:
        await read_all(connection, subject, settle=True)


def describe(subject: Subject, ledger: Ledger, found: list[Found], verdict: Verdict) -> str:
    """The broken promise, with the first numbers concerned."""
    present = {one.number for one in found}
    demanded = ledger.confirmed - ledger.gone - ledger.going if subject.settles else ledger.confirmed
    return (
        f"{subject.kind}: {verdict}\nlost {sorted(demanded - present)[:20]}"
        f" unexpected {sorted(present - ledger.confirmed - ledger.uncertain)[:20]}"
        f" came back {sorted(present & ledger.gone)[:20]}"
        f" unflagged {[one.number for one in found if one.number in ledger.seen and not one.redelivered][:20]}"
    )


async def _work_until_killed(url: str, process: PreparedBroker, subjects: list[Subject], rng: random.Random) -> None:
    before = sum(len(subject.ledger.confirmed) for subject in subjects)

    async def kill_later() -> None:
        while sum(len(subject.ledger.confirmed) for subject in subjects) < before + CONFIRMED_MIN:  # noqa: ASYNC110
            await trio.sleep(0.002)  # no event reports outcomes
        await trio.sleep(rng.random() * LIFE_EXTRA_S)
        process.kill()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kill_later)
            for subject in subjects:
                nursery.start_soon(work_while_it_lives, url, publish, subject, random.Random(rng.random()))
                nursery.start_soon(work_while_it_lives, url, consume, subject, random.Random(rng.random()))


async def work_while_it_lives(url: str, work: Work, subject: Subject, rng: random.Random) -> None:
    """Work on a connection of its own, until the broker has ended."""
    try:
        async with connect(url, CLIENT) as connection:
            await work(connection, subject, rng)
    except* (ClientError, OSError):
        pass
