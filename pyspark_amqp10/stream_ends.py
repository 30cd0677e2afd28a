"""The present first and last offsets of streams, and their offsets at a given time.

Headgate answers with one request. With other brokers the connector attaches: at ``last`` for the newest offset, at
``first`` and at a time for the first message from there on. That costs only one link credit, or a drain. RabbitMQ tells
with one request that the queue is a stream.

Such a probe settles nothing. A broker may accept a stream's attach for a queue that is no stream (RabbitMQ does), and
its messages are no copies: they have to go back, and they do when the link closes.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import ReceivingLink
from amqp10.wire.types import Described, Symbol, Timestamp, ULong
from pyspark_amqp10.errors import BadOption
from pyspark_amqp10.parts import OFFSET_ANNOTATION, number_in
from pyspark_amqp10.requests import QueueFacts

OFFSET_SPEC: Final = "rabbitmq:stream-offset-spec"
"""``first``, ``last`` (the newest chunk), ``next``, an offset, or a timestamp."""
PROBE_LINK_CREDIT: Final = 100_000
"""Enough to read through the newest chunk: RabbitMQ's largest has fewer messages."""
STREAM_TYPE: Final = "stream"
"""The type of a stream in the answers of brokers that tell a queue's type."""


class Ends(NamedTuple):
    """The offsets that a stream keeps."""

    first: int
    """The oldest offset; equal to ``end`` when there are none."""
    end: int
    """The offset behind the newest."""
    row_bytes: float
    """The mean size of a message; 0 when that is not known."""
    identity: str | None = None
    """The identity of the stream's declaration; None when the broker does not send it."""


class StreamEnds:
    """Asks one connection about streams."""

    def __init__(self, connection: BlockingConnection, *, drain_time_out_s: float, probe: bool = False) -> None:
        """``probe``: probe by attaching also where the broker answers a request."""
        self._connection = connection
        self._drain_time_out_s = drain_time_out_s
        self._facts = QueueFacts(connection, ask=not probe)
        self._without_ends: set[str] = set()
        """Streams whose ends the broker does not tell."""

    def of(self, address: str) -> Ends:
        """The present ends. Raises LinkRefused, BadOption for an address that is no stream, and the connection's
        errors."""
        asked = self._asked(address)
        if asked is not None:
            return asked
        newest, identity = self._probed(address, "last")
        end = max(_numbers(newest), default=-1) + 1
        first = min(_numbers(self._probed(address, "first", 1)[0]), default=end)
        return Ends(first, max(first, end), sum(map(len, newest)) / len(newest) if newest else 0.0, identity)

    def at(self, address: str, time_ms: int, ends: Ends) -> int:
        """The offset of the first message that is not older, as far as the broker knows; the end when there is none."""
        return min(_numbers(self._probed(address, Timestamp(time_ms), 1)[0]), default=ends.end)

    def _asked(self, address: str) -> Ends | None:
        shown = None if address in self._without_ends else self._facts.of(address)
        if shown is None:
            return None
        if shown.get("type") != STREAM_TYPE:
            raise _no_stream(address)
        first, last, size = (shown.get(name) for name in ("first_offset", "last_offset", "file_bytes"))
        if not isinstance(first, int):
            self._without_ends.add(address)
            return None
        told = shown.get("queue_identity")
        identity = told if isinstance(told, str) else None
        if not isinstance(last, int):
            return Ends(first, first, 0.0, identity)
        return Ends(first, last + 1, size / (last + 1 - first) if isinstance(size, int) else 0.0, identity)

    def _probed(
        self, address: str, where: object, link_credit: int = PROBE_LINK_CREDIT
    ) -> tuple[list[bytes], str | None]:
        """The first and the last message of each run from there on, as many as there are or the link credit allows; and
        the identity of the stream."""
        link = open_stream(self._connection, address, where, settled=False)
        try:
            runs = link.fetch(link_credit, within_s=self._drain_time_out_s)
        finally:
            link.close()
        entries = [entry for run in runs for entry in (run.entries[0], run.entries[-1])]
        if not all(OFFSET_ANNOTATION.encode() in entry for entry in entries):
            raise _no_stream(address)
        return entries, link.queue_identity


def _numbers(entries: Iterable[bytes]) -> list[int]:
    return [number for number in map(number_in, entries) if number is not None]


def open_stream(
    connection: BlockingConnection, address: str, where: object, *, name: str | None = None, settled: bool = True
) -> ReceivingLink:
    """Attach to a stream: at an offset, a time, or one of the words. Reading removes no message from it.

    Messages come settled, if it is known to be a stream. With ``settled`` False, no message can be lost where it is
    none.

    Raises BadOption when the address is no stream, and the errors of :meth:`ReceivingLink.open`.
    """
    value = ULong(where) if isinstance(where, int) else where
    filters = {OFFSET_SPEC: Described(Symbol(OFFSET_SPEC), value)}
    link = ReceivingLink.open(connection, address, name=name, filters=filters, settled=settled)
    assert link.end.answer is not None
    source = link.end.answer.source
    if OFFSET_SPEC not in (getattr(source, "filter", None) or {}):
        link.close()
        raise _no_stream(address)
    return link


def _no_stream(address: str) -> BadOption:
    return BadOption(f"{address} is no stream: set option mode to queue, or read another address")
