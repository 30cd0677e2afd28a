"""A session: the senders and receivers that share one window and one order of frames [2.5].

Links on one session can delay each other: while too many deliveries of one receiver wait to be taken, the session's
window is closed for all links. Open a separate session for traffic that must not be delayed.

A session survives a reconnect: it begins again on the new connection and attaches its links again, all at once and
without waiting for answers.
"""

from collections.abc import Callable, Mapping

import anyio

from amqp10.client.endpoint_status import EndpointStatus
from amqp10.client.link_session import LinkSession
from amqp10.client.receiver import Receiver, ReceiverOptions
from amqp10.client.sender import Sender
from amqp10.client.settings import ClientSettings
from amqp10.client_core.errors import ClientError, LinkClosed, SessionClosed, told
from amqp10.client_core.events import LinkUser
from amqp10.client_core.opening import session_limits
from amqp10.errors import ConnectionFault
from amqp10.protocol.connection import Connection
from amqp10.wire.messaging import Error


class ClientSession:
    """A session with its links, made by ``begin_session``."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        wake: Callable[[], None],
        new_link_name: Callable[[], str],
        forget: Callable[["ClientSession"], None],
    ) -> None:
        """``wake`` wakes the connection's background task; ``forget`` drops a session that must not begin again."""
        self.status = EndpointStatus()
        self.shared = LinkSession(settings, wake=wake, forget=self._forget)
        """What the links of this session share."""
        self._settings = settings
        self._wake = wake
        self._new_link_name = new_link_name
        self._forget_session = forget
        self._links: list[Sender | Receiver] = []

    # --- the user's side -------------------------------------------------------------------------------------------

    async def open_sender(
        self,
        address: str | None,
        *,
        settled: bool = False,
        name: str | None = None,
        properties: Mapping[str, object] | None = None,
    ) -> Sender:
        """Attach a sender to an address, or to the anonymous terminus (None). ``settled`` messages get no outcome.

        Raises LinkClosed when the broker refuses.
        """
        sender = Sender(
            self.shared,
            name=name or self._new_link_name(),
            address=address,
            settled=settled,
            unsettled_max=self._settings.unsettled_max,
            properties=dict(properties) if properties else None,
        )
        await self._attach(sender)
        return sender

    async def open_receiver(
        self, address: str | None, *, options: ReceiverOptions | None = None, name: str | None = None
    ) -> Receiver:
        """Attach a receiver from an address, or from a queue that the broker declares for it (None).

        Raises LinkClosed when the broker refuses.
        """
        receiver = Receiver(
            self.shared,
            name=name or self._new_link_name(),
            address=address,
            options=options or ReceiverOptions(),
        )
        await self._attach(receiver)
        return receiver

    def close(self) -> None:
        """End the session and every link on it. Messages without an outcome become uncertain."""
        self.shared.settle()
        self._forget_session(self)
        if self.shared.engine is not None:
            self.shared.engine.end()
        self.ended(SessionClosed("the session was closed"))
        self._wake()

    # --- the connection's side -------------------------------------------------------------------------------------

    def begin(self, connection: Connection) -> None:
        """Begin on a connection, for the first time or again, and attach every link."""
        try:
            session = connection.new_session(session_limits(self._settings.incoming_window))
        except ConnectionFault as fault:
            self.ended(SessionClosed(fault.description, fault.condition))
            return
        session.reference = self
        self.shared.engine = session
        session.begin()
        for link in self._links:
            link.attach(session)

    def begun(self) -> None:
        """The broker answered our begin."""
        self.status.came_up()

    def lost(self, reason: ClientError) -> None:
        """The connection is lost for now."""
        self.shared.over()
        for link in self._links:
            link.lost(reason)
        self.status.went_away(reason)

    def ended_by_peer(self, error: Error | None) -> None:
        """The broker ended the session, or we did because of a mistake of the broker."""
        self._forget_session(self)
        self.ended(SessionClosed(*told("the broker ended the session", error)))

    def ended(self, reason: ClientError) -> None:
        """The session is over, with or without its connection."""
        self.shared.over()
        for link in self._links:
            link.ended(reason)
        self._links.clear()
        self.status.ended(reason)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _forget(self, user: LinkUser) -> None:
        self._links = [link for link in self._links if link is not user]

    async def _attach(self, link: Sender | Receiver) -> None:
        """Attach, and wait until the broker has attached too; a caller that is cancelled gives up the link."""
        self.status.check()
        self._links.append(link)
        if self.shared.engine is not None:
            link.attach(self.shared.engine)
        self._wake()
        try:
            await link.status.usable()
        except anyio.get_cancelled_exc_class():
            self._forget(link)
            link.ended(LinkClosed("the link was given up before the broker had answered"))
            raise
