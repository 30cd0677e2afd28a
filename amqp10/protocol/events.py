"""The events that a connection reports to its owner through ``Connection.next_event``, but for those of messages.

Messages come only as runs (:class:`~amqp10.protocol.receiver_link.DeliveriesReceived`), and every other event is rare.
What is reported to a sender of messages is :class:`~amqp10.protocol.sender_link.DeliveriesSent`. When an event is
reported, the protocol state includes it already. The front end acts on an event by calling methods of the object that
the event names.

Events are named tuples, which Python makes in a sixth of the time of a frozen dataclass: importing the protocol is most
of what a command of ``headgate`` takes.
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from amqp10.protocol.receiver_link import DeliveriesReceived, IncomingOutcome, IncomingSettled, ReceiverLink
from amqp10.protocol.sender_link import DeliveriesSent, SenderLink
from amqp10.wire.messaging import DeliveryState, Error
from amqp10.wire.performatives import Attach, Begin, Flow, Open

SessionT = TypeVar("SessionT")
"""A :class:`~amqp10.protocol.session.Session`, which uses this module."""


class ConnectionOpened(NamedTuple):
    """The peer's open has come; ours has not been sent unless we opened first [2.4.1]."""

    open: Open


class ConnectionClosed(NamedTuple):
    """The connection is over, for this reason if there is one. All its sessions and links are over too."""

    error: Error | None
    by_peer: bool


class SessionBegun(NamedTuple, Generic[SessionT]):
    """The peer began a session, or answered our begin [2.5.1]."""

    session: SessionT
    begin: Begin


class SessionEnded(NamedTuple, Generic[SessionT]):
    """The session and its links are over, ended by either side [2.5.5]."""

    session: SessionT
    error: Error | None


class SenderAttached(NamedTuple):
    """The peer attached a receiver: we are the sender. Answer with ``link.accept`` or ``link.refuse`` [2.6.3]."""

    link: SenderLink
    attach: Attach


class ReceiverAttached(NamedTuple):
    """The peer attached a sender: we are the receiver. Answer with ``link.accept`` or ``link.refuse`` [2.6.3]."""

    link: ReceiverLink
    attach: Attach


class LinkDetached(NamedTuple):
    """The link is over on both sides or on the peer's. Its unsettled deliveries must be given back [2.6.4]."""

    link: SenderLink | ReceiverLink
    error: Error | None
    closed: bool
    """False for a mere detach, after which the peer may attach again."""


class CreditReceived(NamedTuple):
    """The peer's flow set the link credit of our sending link; the new state is in ``link.credit`` [2.6.7]."""

    link: SenderLink
    flow: Flow


class SenderFlowReceived(NamedTuple):
    """A flow of the sending peer on our receiving link: its available count, and the link credit that it drained."""

    link: ReceiverLink
    flow: Flow
    drained: int
    """By how much the peer advanced the delivery-count to use up the link credit."""


class DeliveriesSettled(NamedTuple):
    """The receiving peer disposed of deliveries that we sent, between the numbers ``first`` and ``last`` of this link.

    Each delivery is reported once with a terminal state; ``state`` is None when the peer settled without one, which
    means the source's default outcome [3.4].
    """

    link: SenderLink
    first: int
    last: int
    state: DeliveryState | None
    ranges: Sequence[tuple[int, int]]
    """The exact deliveries, in order, both ends inclusive. Numbers between the ranges were settled before; a reader
    that skips settled numbers anyway needs only ``first`` and ``last``."""


LinkEvent = (
    SenderAttached
    | ReceiverAttached
    | LinkDetached
    | DeliveriesReceived
    | CreditReceived
    | SenderFlowReceived
    | DeliveriesSettled
    | DeliveriesSent
    | IncomingSettled
    | IncomingOutcome
)
