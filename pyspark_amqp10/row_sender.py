"""Sends encoded rows to addresses, and waits for their outcomes: one link for each address, all on one connection.

The rows of each call are kept beside the outcomes of its messages until these have come, so that an error can name the
row. Bounds: messages without an outcome by ``unconfirmed_max`` for each link, links by ``links_max``.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import SendingLink, not_accepted
from amqp10.client_core.errors import told
from amqp10.client_core.outcomes import Fate, Outcomes
from amqp10.wire.messaging import Modified, Rejected, Released
from amqp10.wire.types import UInt
from pyspark_amqp10.errors import BadMessage, ClientError, MessageRefused

MAX_LINK_CREDIT: Final = "headgate:max-link-credit"
"""A property of the attach: the most link credit that we can use. Headgate gives so much, within its own bounds."""


@dataclass(slots=True)
class AddressLink:
    """The link to one address, and the rows sent on it whose outcomes are not all known."""

    link: SendingLink
    sent: deque[tuple[Outcomes, Sequence[int]]] = field(default_factory=deque)


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
        """Rows that the broker has accepted, as far as :meth:`send` has learned of it; after :meth:`finish`, all."""
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
        to.sent.append((to.link.send(entries, within_s=self._within_s), rows))
        self._take_outcomes(to)

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
            most = self._unconfirmed_max
            wants = {MAX_LINK_CREDIT: UInt(most)}  # brokers that do not know it ignore it [2.7.3]
            link = SendingLink.open(self._connection, address, name=name, unsettled_max=most, properties=wants)
            to = self._links[address] = AddressLink(link)
        else:
            self._links.move_to_end(address)
        return to

    def _close(self, to: AddressLink) -> None:
        for outcomes, _ in to.sent:
            to.link.confirm(outcomes, within_s=self._within_s)
        self._take_outcomes(to)
        with suppress(ClientError):  # all outcomes have come
            to.link.close()

    def _take_outcomes(self, to: AddressLink) -> None:
        """Forget the calls whose outcomes are known. Raises MessageRefused when one is other than accepted."""
        refused: list[tuple[int, int, Fate]] = []
        while to.sent and to.sent[0][0].done:
            outcomes, rows = to.sent.popleft()
            refused += [(rows[one.first - outcomes.first], one.messages, one.fate) for one in not_accepted(outcomes)]
            self.accepted += len(outcomes)
        if refused:
            raise _refused(to.link.address, refused)

    @staticmethod
    def _check_sizes(link: SendingLink, entries: Sequence[bytes], rows: Sequence[int]) -> None:
        limit = link.end.answer.max_message_size if link.end.answer is not None else None
        longest = max(map(len, entries), default=0)
        if limit and longest > limit:
            row, size = next((row, len(entry)) for row, entry in zip(rows, entries, strict=True) if len(entry) > limit)
            raise BadMessage(
                f"row {row}: its message has {size} bytes, and {link.address} takes at most {limit}; "
                "make its body smaller, or raise the broker's limit"
            )


def _refused(address: str | None, refused: Sequence[tuple[int, int, Fate]]) -> MessageRefused:
    """The error for rows, numbers of rows and their outcomes other than accepted: it names the first row."""
    row, _, fate = refused[0]
    count = sum(rows for _, rows, _ in refused)
    more = f"; {count - 1} more rows were not accepted" if count > 1 else ""
    error = fate.error if isinstance(fate, Rejected) else None
    text, condition = told(f"row {row}: {address} {_what_it_did(fate)}", error)
    return MessageRefused(text + more, condition)


def _what_it_did(fate: Fate) -> str:
    match fate:
        case Rejected():
            return "rejected the message"
        case Released():
            return "released the message: it could not take it now, or knows no queue for it"
        case Modified(undeliverable_here=True):
            return "modified the message: it cannot be delivered here"
        case Modified():
            return "modified the message: it may have taken it, and it may be sent again"
        case _:
            return "settled the message without an outcome"
