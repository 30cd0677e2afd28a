"""Which object of a client learns of which event of the protocol engine.

Each session and each link that a client begins has a user, the object in its ``reference``. :func:`take_event` gives
an event to the user of the session or link that it names. What the broker begins by itself is refused here. The end of
the connection concerns the connection's owner, who looks for it first.
"""

from typing import Protocol

from amqp10.errors import ErrorCondition, LinkFault, SessionFault
from amqp10.protocol.connection import Event
from amqp10.protocol.events import (
    ConnectionClosed,
    ConnectionOpened,
    CreditReceived,
    DeliveriesSettled,
    LinkDetached,
    ReceiverAttached,
    SenderAttached,
    SenderFlowReceived,
    SessionBegun,
    SessionEnded,
)
from amqp10.protocol.receiver_link import DeliveriesReceived, IncomingOutcome, IncomingSettled
from amqp10.protocol.sender_link import DeliveriesSent
from amqp10.protocol.session import Session
from amqp10.wire.messaging import Error
from amqp10.wire.performatives import RECEIVER, Attach

LinkEvent = DeliveriesReceived | SenderFlowReceived | CreditReceived | DeliveriesSettled | DeliveriesSent
"""Events on links that are attached."""


class SessionUser(Protocol):
    """The object that uses a session of ours."""

    def begun(self) -> None:
        """The broker answered our begin."""

    def ended_by_peer(self, error: Error | None) -> None:
        """The broker ended the session, or we did because of a mistake of the broker."""


class LinkUser(Protocol):
    """The object that uses a link of ours."""

    def attach_answered(self, attach: Attach) -> None:
        """The broker attached too. A refusal is not told: it has no terminus, and a detach follows [2.6.3]."""

    def event_received(self, event: LinkEvent) -> None:
        """An event on the attached link."""

    def detached(self, error: Error | None) -> None:
        """The broker ended the link."""


def take_event(event: Event) -> None:
    """Give an event to the user of its session or link. A link that its user has closed has no user any more."""
    match event:
        case DeliveriesReceived() | DeliveriesSettled() | DeliveriesSent() | CreditReceived() | SenderFlowReceived():
            if event.link.reference is not None:
                _link_user(event.link.reference).event_received(event)
        case SessionBegun(session):
            if session.reference is None:
                session.fail(SessionFault(ErrorCondition.NOT_ALLOWED, "this client takes no sessions"))
            else:
                _session_user(session).begun()
        case SessionEnded(session, error):
            if session.reference is not None:
                _session_user(session).ended_by_peer(error)
        case SenderAttached(link, attach) | ReceiverAttached(link, attach):
            if link.reference is not None:
                if (attach.target if attach.role == RECEIVER else attach.source) is not None:
                    _link_user(link.reference).attach_answered(attach)
                return
            session = link.channel
            assert isinstance(session, Session)
            if link.end.local is None:
                session.refuse(link, LinkFault(ErrorCondition.NOT_ALLOWED, "this client takes no links"))
            else:  # its user has given it up before the answer
                session.detach(link)
        case LinkDetached(link, error):
            if link.reference is not None:
                _link_user(link.reference).detached(error)
        case ConnectionOpened() | ConnectionClosed() | IncomingSettled() | IncomingOutcome():
            pass  # the owner of the connection has looked; a client settles its deliveries by itself


def _session_user(session: Session) -> SessionUser:
    user: SessionUser = session.reference  # type: ignore[assignment]  # a client sets no other
    return user


def _link_user(reference: object) -> LinkUser:
    user: LinkUser = reference  # type: ignore[assignment]  # a client sets no other
    return user
