"""``headgate publish``: messages from the command line, with confirms."""

import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Annotated

import trio
from cyclopts import Parameter

from amqp10.addresses import AddressError, parse_target
from amqp10.cli.exits import CommandError, Exit, complain
from amqp10.cli.printing import AsJson, tell
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker
from amqp10.client import ClientConnection, Fate, FateRange, Message, Sender
from amqp10.wire.messaging import Accepted, Rejected, Released
from amqp10.wire.sections import Header

STDIN = 0
READ_BYTES = 65_536
LINE_BYTES_MAX = 16 * 1024 * 1024
"""The largest message that the broker takes by default."""
COMPLAIN_AFTER_S = 1.0
"""So long without progress, and the user is told what the broker waits for."""

Batch = Iterable[bytes]
"""Encoded messages whose outcomes are waited for together."""


@dataclass(slots=True)
class Tally:
    """What became of messages, by name of the outcome, and why the first that was not accepted was not."""

    fates: Counter[str] = field(default_factory=Counter)
    problem: str | None = None

    def add(self, ranges: Iterable[FateRange]) -> None:
        """Count messages."""
        for piece in ranges:
            self.fates[type(piece.fate).__name__.lower()] += piece.messages
            if self.problem is None and not isinstance(piece.fate, Accepted):
                self.problem = _why(piece.fate)

    def __str__(self) -> str:
        named = ", ".join(f"{n} {name}" for name, n in self.fates.items())
        return f"{self.fates.total()} sent: {named}" if named else "nothing sent"


def publish_command(
    address: str,
    /,
    *body: str,
    count: Annotated[int, Parameter(help="Send everything so many times.")] = 1,
    size: Annotated[int | None, Parameter(help="Instead of a BODY: one of so many bytes.")] = None,
    transient: Annotated[bool, Parameter(help="The messages do not outlive the broker.", negative=())] = False,
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Send messages and wait until the broker has accepted all of them.

    Each BODY is one message. Without BODY and --size, every line of standard input is. Messages are durable: once
    accepted they survive what their queue's type promises.

    For example:

        headgate publish /queues/orders hello world
        headgate publish /exchanges/amq.topic/orders.new hello
        headgate publish /queues/orders --size 4096 --count 100000
        journalctl -f | headgate publish /queues/log
    """
    _check(address, body, count=count, size=size)
    bodies = [b"x" * size] if size is not None else [text.encode() for text in body]
    header = Header(durable=not transient)
    batches = _bodies(bodies, count, header) if bodies else _lines(count, header)
    tally = with_broker(url, lambda connection: _publish(connection, address, batches))
    tell(str(tally), {"sent": tally.fates.total(), **tally.fates, "problem": tally.problem}, as_json=json)
    if tally.problem is not None:
        raise CommandError(Exit.REFUSED, tally.problem)


def _check(address: str, body: tuple[str, ...], *, count: int, size: int | None) -> None:
    try:
        parse_target(address)
    except AddressError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    if count < 1:
        raise CommandError(Exit.USAGE, f"--count {count}: must be 1 or more")
    if size is not None and (size < 0 or body):
        raise CommandError(Exit.USAGE, f"--size {size}: must be 0 or more, and goes without BODY")


async def _bodies(bodies: list[bytes], count: int, header: Header) -> AsyncIterator[Batch]:
    """These bodies so many times, as one batch."""
    yield chain.from_iterable(repeat([Message(body, header=header).encode() for body in bodies], count))


async def _lines(count: int, header: Header) -> AsyncIterator[Batch]:
    """The lines of standard input, those that are there at once as a batch; each line so many times.

    Read past Python's own buffer, whose lock an interrupted reader thread would keep.
    """
    rest = b""
    while data := await trio.to_thread.run_sync(os.read, STDIN, READ_BYTES, abandon_on_cancel=True):
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise CommandError(Exit.USAGE, f"a line of more than {LINE_BYTES_MAX} bytes")
        yield chain.from_iterable(repeat(Message(line, header=header).encode(), count) for line in lines)
    if rest:
        yield repeat(Message(rest, header=header).encode(), count)


async def _publish(connection: ClientConnection, address: str, batches: AsyncIterator[Batch]) -> Tally:
    sender = await connection.open_sender(address)
    tally = Tally()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_complain_when_stuck, sender)
        async for batch in batches:
            tally.add(await sender.send_many(batch))
        nursery.cancel_scope.cancel()
    await sender.close()
    return tally


async def _complain_when_stuck(sender: Sender) -> None:
    """Say why nothing moves, once each time it stops."""
    told = False
    while True:
        before = (sender.posted, sender.unsettled)
        await trio.sleep(COMPLAIN_AFTER_S)
        stuck = before == (sender.posted, sender.unsettled) and (sender.posting or sender.unsettled > 0)
        if stuck and not told:
            reason = sender.waiting_reason
            complain(f"waiting; the broker says why: {reason}" if reason else "waiting; the broker has not said why")
        told = stuck


def _why(fate: Fate) -> str:
    match fate:
        case Released():
            return "the broker could not route a message: bind a queue to the exchange, with this routing key"
        case Rejected(error=error) if error is not None:
            return f"the broker rejected a message: {error.description or error.condition}"
        case _:
            return f"a message was not accepted: {fate}"
