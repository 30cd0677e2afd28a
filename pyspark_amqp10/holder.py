"""The driver's link to a queue that several tasks read: it gets no messages, and requests have the broker hold them for
it. See "Held messages" in docs/queues.md."""

from secrets import token_hex
from typing import Final, NamedTuple, Self, cast

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import ReceivingLink
from amqp10.blocking.requests import BlockingManagement
from amqp10.wire.types import Described, Symbol, ULong
from pyspark_amqp10.errors import BadOption, RequestRefused
from pyspark_amqp10.offsets import Numbers
from pyspark_amqp10.options import SourceOptions
from pyspark_amqp10.requests import QUEUES, SHOWN_QUEUES, facts_before_name, queue_path

HOLDER_PROPERTY: Final = "headgate:holder"
"""Property of an attach: the name under which requests give messages to the link, and others read copies of them."""
HELD_FILTER: Final = "headgate:held"
"""Filter of copies: a list of the name of a holder, and the first and the last sequence number."""
HOLD_MESSAGES_MAX: Final = 100_000
HOLD_BYTES_MAX: Final = 256 * 2**20
"""The most messages and bytes of one request that Headgate accepts."""


class Given(NamedTuple):
    """What one request gave to a holder."""

    numbers: Numbers
    messages: int
    size: int
    """Bytes of the messages as the broker stores them."""


class Holder:
    """One link, for one queue. Made by :meth:`open`."""

    def __init__(self, link: ReceivingLink, name: str, path: str, management: BlockingManagement) -> None:
        self.link = link
        self.name = name
        """No other link has it, so messages of an earlier link are not taken for messages of this one."""
        self._path = path
        self._management = management

    @classmethod
    def open(
        cls, connection: BlockingConnection, management: BlockingManagement, options: SourceOptions, address: str
    ) -> Self:
        """Attach. Raises BadOption for a broker or an address whose messages are not held, LinkRefused with the
        broker's reason, and the connection's errors."""
        path = queue_path(address, QUEUES)
        if facts_before_name(connection.broker) != SHOWN_QUEUES:
            raise BadOption(
                f"option readers is {options.readers}, and {connection.url.place} is not Headgate: set it to 1"
            )
        if path is None:
            raise BadOption(f"option readers is {options.readers}, so {address} has to be a queue, /queues/NAME")
        name = f"spark-{token_hex(8)}"
        link = ReceivingLink.open(
            connection, address, name=options.link_name_of(address), properties={HOLDER_PROPERTY: name}
        )
        return cls(link, name, f"{path}/held", management)

    def hold(self, messages: int, size: int = HOLD_BYTES_MAX, through: int | None = None) -> Given:
        """Have ready messages held, in the order of delivery: at most so many messages and bytes, but one whatever its
        size, and no number above ``through``.

        Raises RequestRefused, TimedOut and the connection's errors.
        """
        body: dict[str, object] = {"holder": self.name, "messages": messages, "bytes": size}
        if through is not None:
            body["through"] = ULong(through)
        answer = self._management.request("PUT", self._path, body).body
        try:
            fields = cast("dict[str, object]", answer)
            ranges = cast("list[list[int]]", fields["ranges"])
            numbers = Numbers.of_ranges((first, last) for first, last in ranges)
            return Given(numbers, int(cast("int", fields["message_count"])), int(cast("int", fields["bytes"])))
        except (TypeError, KeyError, ValueError):
            raise RequestRefused(f"{self.link.address}: the broker's answer says nothing of what is held") from None

    def settle(self, first: int, last: int, outcome: str = "accepted") -> None:
        """Settle what is held with numbers in this range, both inclusive. Raises as :meth:`hold`."""
        body = {"holder": self.name, "outcome": outcome, "first": ULong(first), "last": ULong(last)}
        self._management.request("POST", self._path, body)


def copies(
    connection: BlockingConnection, address: str, name: str | None, holder: str, wanted: Numbers
) -> ReceivingLink:
    """Attach to copies of what a holder holds, from the first to the last of these numbers."""
    first, last = wanted.ranges[0][0], wanted.ranges[-1][1]
    held = Described(Symbol(HELD_FILTER), [holder, ULong(first), ULong(last)])
    return ReceivingLink.open(
        connection, address, name=name, filters={HELD_FILTER: held}, distribution_mode="copy", settled=True
    )
