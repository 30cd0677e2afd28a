"""Sends the messages of ``headgate publish``, and counts their outcomes.

Messages go in batches: the bodies of the command line are one, and so are the lines of standard input that one read
brings. The outcomes of a batch are awaited before the next one is read.
"""

import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, repeat

from amqp10.addresses import AddressError, target_names
from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import SendingLink
from amqp10.cli.exits import CommandError, Exit, complain
from amqp10.cli.printing import tell
from amqp10.cli.remote import with_connection
from amqp10.client_core.errors import ConnectionLost, LinkRefused
from amqp10.client_core.message import Message
from amqp10.client_core.outcomes import Fate, FateRange, Outcomes, Uncertain
from amqp10.wire.messaging import Accepted, Rejected, Released
from amqp10.wire.sections import Header

STDIN = 0
READ_BYTES = 65_536
LINE_BYTES_MAX = 16 * 1024 * 1024
"""The largest message that the broker takes by default."""
COMPLAIN_AFTER_S = 1.0
"""After so long without progress the user is told what the broker waits for."""
RUN_MESSAGES = 4096
"""Messages that are encoded before they are sent."""

Batch = Iterable[bytes]
"""Encoded messages whose outcomes are waited for together."""


@dataclass(slots=True)
class Tally:
    """How many messages had which outcome, and why the first message that was not accepted was not."""

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


def publish(
    address: str, body: tuple[str, ...], *, count: int, size: int | None, transient: bool, json: bool, url: str
) -> None:
    """Send, and print what became of the messages. Raises CommandError, also when a message was not accepted."""
    _check(address, body, count=count, size=size)
    bodies = [b"x" * size] if size is not None else [text.encode() for text in body]
    header = Header(durable=not transient)
    batches = _bodies(bodies, count, header) if bodies else _lines(count, header)
    tally = with_connection(
        url, lambda connection: _publish(connection, address, batches), link=f"the link to {address}"
    )
    tell(str(tally), {"sent": tally.fates.total(), **tally.fates, "problem": tally.problem}, as_json=json)
    if tally.problem is not None:
        raise CommandError(Exit.REFUSED, tally.problem)


def _check(address: str, body: tuple[str, ...], *, count: int, size: int | None) -> None:
    try:
        target_names(address)
    except AddressError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    if count < 1:
        raise CommandError(Exit.USAGE, f"--count {count}: must be 1 or more")
    if size is not None and (size < 0 or body):
        raise CommandError(Exit.USAGE, f"--size {size}: must be 0 or more, and goes without BODY")


def _bodies(bodies: list[bytes], count: int, header: Header) -> Iterator[Batch]:
    """These bodies so many times, as one batch."""
    yield chain.from_iterable(repeat([Message(body, header=header).encode() for body in bodies], count))


def _lines(count: int, header: Header) -> Iterator[Batch]:
    """The lines of standard input, each so many times; the lines that one read brings are a batch.

    This reads past Python's own buffer, which would hold back the lines that are there until it is full.
    """
    rest = b""
    while data := os.read(STDIN, READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise CommandError(Exit.USAGE, f"a line of more than {LINE_BYTES_MAX} bytes")
        yield chain.from_iterable(repeat(Message(line, header=header).encode(), count) for line in lines)
    if rest:
        yield repeat(Message(rest, header=header).encode(), count)


def _publish(connection: BlockingConnection, address: str, batches: Iterator[Batch]) -> Tally:
    link = SendingLink.open(connection, address)
    stall = _Stall(link)
    tally = Tally()
    for batch in batches:
        messages = iter(batch)
        sent: deque[Outcomes] = deque()
        while run := list(islice(messages, RUN_MESSAGES)):
            sent.append(link.send(run, within_s=COMPLAIN_AFTER_S, when_late=stall.complain))
            while sent and sent[0].done:
                tally.add(sent.popleft().so_far())
        for outcomes in sent:
            tally.add(_fates(link, outcomes, stall))
    link.close()
    return tally


def _fates(link: SendingLink, outcomes: Outcomes, stall: "_Stall") -> list[FateRange]:
    """The outcomes of one call of send, after waiting for them. Those that a lost link leaves open are uncertain."""
    try:
        link.confirm(outcomes, within_s=COMPLAIN_AFTER_S, when_late=stall.complain)
    except (ConnectionLost, LinkRefused) as lost:
        uncertain = Uncertain(str(lost))
        return [*outcomes.so_far(), *(FateRange(*ends, uncertain) for ends in outcomes.missing_ranges())]
    return outcomes.so_far()


class _Stall:
    """Prints why a sender makes no progress, once each time it stops."""

    def __init__(self, link: SendingLink) -> None:
        self._link = link
        self._told_at: tuple[int, int] | None = None

    def complain(self) -> None:
        """Print the reason, unless it was printed for this stop."""
        if self._told_at == self._link.progress:
            return
        self._told_at = self._link.progress
        reason = self._link.waiting_reason
        complain(f"waiting; the broker says why: {reason}" if reason else "waiting; the broker has not said why")


def _why(fate: Fate) -> str:
    match fate:
        case Released():
            return "the broker could not route a message: bind a queue to the exchange, with this routing key"
        case Rejected(error=error) if error is not None:
            return f"the broker rejected a message: {error.description or error.condition}"
        case _:
            return f"a message was not accepted: {fate}"
