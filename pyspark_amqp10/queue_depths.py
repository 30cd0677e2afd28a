"""How much is left in the queues of a query: the lag in its offsets.

Headgate answers one request, which also has the bytes and the age of the oldest message. For other brokers it is the
``available`` in a link's flow [2.6.7]; its bytes are estimated from the messages that were fetched last.
"""

from typing import Final, NamedTuple

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import ReceivingLink
from pyspark_amqp10.offsets import Json
from pyspark_amqp10.publisher_waits import PublisherWaits
from pyspark_amqp10.requests import QueueFacts

SECONDS_DIGITS: Final = 3
"""Decimal places of a lag in seconds: milliseconds, the resolution of messages' times."""


class Depth(NamedTuple):
    """The messages of a queue that no consumer holds. None where the broker does not say."""

    rows: int | None
    bytes: int | None
    seconds: float | None
    """Age of the oldest message in seconds; 0 when there is none."""


UNKNOWN: Final = Depth(None, None, None)


class QueueDepths:
    """Asks one connection about queues."""

    def __init__(self, connection: BlockingConnection, *, probe: bool = False) -> None:
        """``probe``: use flows also where the broker answers a request."""
        self._facts = QueueFacts(connection, ask=not probe)
        self.waits = PublisherWaits(connection)
        """How long publishers have waited."""

    def next_sequence(self, address: str) -> int | None:
        """The number that the next message of a queue will get; None when the broker does not say."""
        number = (self._facts.of(address) or {}).get("next_sequence")
        return number if isinstance(number, int) else None

    def of(self, link: ReceivingLink, mean_bytes: float) -> Depth:
        """What is left in the queue of a link. ``mean_bytes`` is the size of a message, for brokers that report no
        bytes.

        Raises the connection's errors.
        """
        shown = self._facts.of(link.address) or {}
        rows, size, seconds = (
            shown.get(name) for name in ("messages_ready", "ready_bytes", "oldest_ready_seconds")
        )  # fmt: skip
        if not isinstance(rows, int):
            rows = link.ready()
        if not rows:
            return Depth(0, 0, 0.0) if rows == 0 else UNKNOWN
        return Depth(
            rows,
            size if isinstance(size, int) else round(rows * mean_bytes),
            float(seconds) if isinstance(seconds, int | float) else None,
        )


def lag_of(depths: list[Depth]) -> Json:
    """The lag of a query, in the same form as for streams: sums, and the longest time. None where one value is not
    known."""
    rows, sizes, seconds = ([one[field] for one in depths] for field in range(3))
    return {
        "rows": None if None in rows else sum(one or 0 for one in rows),
        "bytes": None if None in sizes else sum(one or 0 for one in sizes),
        "seconds": None
        if None in seconds
        else round(max((one or 0.0 for one in seconds), default=0.0), SECONDS_DIGITS),
    }
