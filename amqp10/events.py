"""What a connection reports upward, pulled with ``Connection.next_event``.

Messages come only as runs (:class:`DeliveriesReceived`); everything else is rare. An event is a fact: the protocol
state has already taken it in. What the front end decides because of it, it says by calling methods of the object
that the event names.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amqp10.messaging import DeliveryState, Error
from amqp10.performatives import Attach, Begin, Flow, Open

if TYPE_CHECKING:
    from amqp10.receiver_link import ReceiverLink
    from amqp10.sender_link import SenderLink
    from amqp10.session import Session


@dataclass(frozen=True, slots=True)
class ConnectionOpened:
    """The peer's open has come; ours has not been sent unless we opened first [2.4.1]."""

    open: Open


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """The connection is over, for this reason if there is one. Every session and link is gone with it."""

    error: Error | None
    by_peer: bool


@dataclass(frozen=True, slots=True)
class SessionBegun:
    """The peer began a session, or answered our begin [2.5.1]."""

    session: "Session"
    begin: Begin


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The session is over and its links with it, whoever ended it [2.5.5]."""

    session: "Session"
    error: Error | None


@dataclass(frozen=True, slots=True)
class SenderAttached:
    """The peer attached a receiver: we are the sender. Answer with ``link.accept`` or ``link.refuse`` [2.6.3]."""

    link: "SenderLink"
    attach: Attach


@dataclass(frozen=True, slots=True)
class ReceiverAttached:
    """The peer attached a sender: we are the receiver. Answer with ``link.accept`` or ``link.refuse`` [2.6.3]."""

    link: "ReceiverLink"
    attach: Attach


@dataclass(frozen=True, slots=True)
class LinkDetached:
    """The link is over on both sides or on the peer's; what it held unsettled is to be given back [2.6.4]."""

    link: "SenderLink | ReceiverLink"
    error: Error | None
    closed: bool
    """False for a mere detach, after which the peer may attach again."""


@dataclass(frozen=True, slots=True)
class DeliveriesReceived:
    """A run: whole messages of one link with consecutive delivery-ids, alike in settled flag and header bytes."""

    link: "ReceiverLink"
    first: int
    """Extended delivery-id of the first; the others count up."""
    entries: list[bytes]
    """Encoded messages without their header section. When ``checked`` is False they are whole, header included."""
    header: bytes
    """The header section as it came, b"" when there was none; meaningless unless ``checked``."""
    settled: bool
    checked: bool
    """True when the fast path has proven each entry to be one opaque body section and nothing else."""
    delivery_tag: Callable[[int], bytes]
    """The tag of the entry with this index. Asked for rarely, so it is not kept for every message."""


@dataclass(frozen=True, slots=True)
class CreditReceived:
    """The peer's flow set the link credit of our sending link; the state is in ``link.credit`` [2.6.7]."""

    link: "SenderLink"
    flow: Flow


@dataclass(frozen=True, slots=True)
class SenderFlowReceived:
    """The sending peer told its state on our receiving link: available, and drained when ``drained`` > 0."""

    link: "ReceiverLink"
    flow: Flow
    drained: int
    """By how much the peer advanced the delivery-count to use up the link credit."""


@dataclass(frozen=True, slots=True)
class DeliveriesSettled:
    """The receiving peer disposed of deliveries of ours, between the numbers ``first`` and ``last`` of this link.

    Each delivery is reported once with a terminal state; ``state`` is None when the peer settled without one, which
    means the source's default outcome [3.4].
    """

    link: "SenderLink"
    first: int
    last: int
    state: DeliveryState | None
    ranges: Sequence[tuple[int, int]]
    """Exactly which, in order, both ends inclusive. Numbers between them were settled before: whoever passes over such
    numbers need not look at this."""


@dataclass(frozen=True, slots=True)
class DeliveriesSent:
    """Deliveries of a link went out to the socket buffer (numbers, both inclusive); whole messages only."""

    link: "SenderLink"
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class IncomingSettled:
    """The sending peer disposed of deliveries it sent us (extended ids, both inclusive) [2.6.12]."""

    link: "ReceiverLink"
    first: int
    last: int
    state: DeliveryState | None


Event = (
    ConnectionOpened
    | ConnectionClosed
    | SessionBegun
    | SessionEnded
    | SenderAttached
    | ReceiverAttached
    | LinkDetached
    | DeliveriesReceived
    | CreditReceived
    | SenderFlowReceived
    | DeliveriesSettled
    | DeliveriesSent
    | IncomingSettled
)
