"""Sends encoded rows to addresses, and waits for their outcomes: one link for each address, all on one connection.

Numbers of messages count on a link, numbers of rows in a partition. The mapping between both is kept until outcomes
have come, so that an error can name the row. Bounds: messages without an outcome by ``unconfirmed_max`` for each link,
links by ``links_max``, mapped rows by ``ROWS_KNOWN_MAX``.
"""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from amqp10.wire.messaging import DeliveryState, Error, Modified, Rejected, Released
from pyspark_amqp10.errors import BadMessage, ConnectorError, MessageRefused, told
from pyspark_amqp10.links import OutcomeRange, SendingLink
from pyspark_amqp10.wire import BlockingConnection

ROWS_KNOWN_MAX = 131_072
"""The most rows of a link whose message numbers are kept, about 1 MB. When it is reached, all outcomes are awaited,
which costs one round trip."""


@dataclass(slots=True)
class AddressLink:
    """The link to one address, and the rows sent on it."""

    link: SendingLink
    sent: list[tuple[int, Sequence[int]]] = field(default_factory=list)
    """The number of the first message of each call, and the rows of that call."""
    rows: int = 0
    """The number of these rows."""

    def row(self, number: int) -> int:
        """The row whose message has this number on the link."""
        return next(rows[number - first] for first, rows in reversed(self.sent) if number >= first)


class RowSender:
    """Sends rows and waits for their outcomes. For one task, which alone uses the connection."""

    def __init__(
        self,
        connection: BlockingConnection,
        *,
        unconfirmed_max: int,
        links_max: int,
        within_s: float,
        link_name: str | None = None,
    ) -> None:
        """``within_s`` is how long the broker may take for link credit, and for the next outcome."""
        self.accepted = 0
        """Rows that the broker has accepted, on closed links; after :meth:`finish`, on all links."""
        self._connection = connection
        self._unconfirmed_max = unconfirmed_max
        self._links_max = links_max
        self._within_s = within_s
        self._link_name = link_name
        self._links: OrderedDict[str, AddressLink] = OrderedDict()

    def send(self, address: str, entries: Sequence[bytes], rows: Sequence[int]) -> None:
        """Send encoded messages; ``rows`` has the row number of each.

        Raises BadMessage for one that is too large for the broker, MessageRefused for an outcome other than accepted,
        LinkRefused, TimedOut, and the connection's errors.
        """
        to = self._link_to(address)
        self._check_sizes(to.link, entries, rows)
        if to.rows + len(rows) > ROWS_KNOWN_MAX:
            self._settle(to, 0)
            to.sent.clear()
            to.rows = 0
        to.sent.append((to.link.sent, rows))
        to.rows += len(rows)
        to.link.send(entries, within_s=self._within_s)
        self._settle(to, self._unconfirmed_max)

    def finish(self) -> int:
        """Wait for the outcomes of all rows; returns how many rows the broker has accepted. Raises as :meth:`send`
        does."""
        while self._links:
            self._close(self._links.popitem(last=False)[1])
        return self.accepted

    def _link_to(self, address: str) -> AddressLink:
        to = self._links.get(address)
        if to is None:
            if len(self._links) >= self._links_max:
                self._close(self._links.popitem(last=False)[1])
            name = None if self._link_name is None else f"{self._link_name}-{address}"
            link = SendingLink.open(self._connection, address, name=name, unsettled_max=self._unconfirmed_max)
            to = self._links[address] = AddressLink(link)
        else:
            self._links.move_to_end(address)
        return to

    def _close(self, to: AddressLink) -> None:
        self._settle(to, 0)
        self.accepted += to.link.accepted
        with suppress(ConnectorError):  # all outcomes have come
            to.link.close()

    def _settle(self, to: AddressLink, unsettled: int) -> None:
        others = to.link.settled_down_to(unsettled, within_s=self._within_s)
        if others:
            raise _refused(to, others)

    @staticmethod
    def _check_sizes(link: SendingLink, entries: Sequence[bytes], rows: Sequence[int]) -> None:
        limit = link.answer.max_message_size if link.answer is not None else None
        longest = max(map(len, entries), default=0)
        if limit and longest > limit:
            row, size = next((row, len(entry)) for row, entry in zip(rows, entries, strict=True) if len(entry) > limit)
            raise BadMessage(
                f"row {row}: its message has {size} bytes, and {link.address} takes at most {limit}; "
                "make its body smaller, or raise the broker's limit"
            )


def _refused(to: AddressLink, others: Sequence[OutcomeRange]) -> MessageRefused:
    """The error for outcomes other than accepted: it names the first row, and how many others there are."""
    first = min(others)
    count = sum(one.last - one.first + 1 for one in others)
    more = f"; {count - 1} more rows were not accepted" if count > 1 else ""
    text, condition = told(f"row {to.row(first.first)}: {to.link.address} {_what_it_did(first.outcome)}", _error(first))
    return MessageRefused(text + more, condition)


def _what_it_did(outcome: DeliveryState | None) -> str:
    match outcome:
        case Rejected():
            return "rejected the message"
        case Released():
            return "released the message: it could not take it now, or knows no queue for it"
        case Modified(undeliverable_here=True):
            return "modified the message: it cannot be delivered here"
        case Modified():
            return "modified the message: it was not taken, and may be sent again"
        case _:
            return "settled the message without an outcome"


def _error(refusal: OutcomeRange) -> Error | None:
    return refusal.outcome.error if isinstance(refusal.outcome, Rejected) else None
