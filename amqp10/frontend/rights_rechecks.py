"""A change of a user's rights or limits takes hold on open links: those not allowed any more are detached."""

from collections.abc import Callable, Iterator

from amqp10.errors import LinkFault
from amqp10.frontend.conditions import link_fault
from amqp10.frontend.incoming import PublisherLink
from amqp10.frontend.outgoing import ConsumerLink
from amqp10.frontend.publisher_windows import ConnectionWindows
from amqp10.protocol.connection import Connection
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from core.access.checked_engine import CheckedEngine
from core.errors import EngineError
from core.work import Work

LINK_WORK, DETACH_WORK = 5, 50
"""The work to check a link, and to detach one whose right is gone, in units of :mod:`core.work`."""


def rights_rechecks(
    connection: Connection,
    engine: CheckedEngine,
    windows: ConnectionWindows,
    work: Work,
    detach: Callable[[SenderLink | ReceiverLink, LinkFault], None],
) -> Iterator[None]:
    """Check the links one by one, a link at each step, and ``detach`` those that are not allowed.

    A turn of the connection takes as many steps as its work allows, so that ten thousand links delay no other
    connection.
    """
    for session in list(connection.sessions):
        for link in list(session.links):
            work.spent += LINK_WORK
            try:
                _check(link.reference, engine, windows)
            except EngineError as error:
                work.spent += DETACH_WORK
                detach(link, link_fault(error))
            yield


def _check(user: object, engine: CheckedEngine, windows: ConnectionWindows) -> None:
    """Put the limits of a publisher in force. Raises Forbidden for a publisher or consumer whose right is gone."""
    if isinstance(user, PublisherLink):
        if user.publisher.fixed_target is not None:
            engine.check_target(user.publisher.fixed_target)
        windows.limit(user, user.link.credit)
        user.link.channel.refill_later(user.link)
    elif isinstance(user, ConsumerLink) and user.consumer is not None:
        engine.check_source(user.consumer.queue_name)
