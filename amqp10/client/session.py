"""A session: the senders and receivers that share one window and one order of frames [2.5].

Links on one session can delay each other: while too many deliveries of one receiver wait to be taken, the session's
window is closed for all links. Open a separate session for traffic that must not be delayed.

A session survives a reconnect: it begins again on the new connection and attaches its links again, all at once and
without waiting for answers.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

import trio

from amqp10.client.receiver import Receiver, ReceiverOptions
from amqp10.client.sender import Sender
from amqp10.client.settings import ClientSettings
from amqp10.client.standing import Standing
from amqp10.client_core.errors import ClientError, LinkClosed, SessionClosed, told
from amqp10.client_core.events import LinkUser
from amqp10.errors import ConnectionFault
from amqp10.protocol.connection import Connection
from amqp10.protocol.lifecycle import LinkState
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session import Session, SessionLimits
from amqp10.wire.messaging import Error


class SessionOwner(Protocol):
    """The part of a connection that its sessions use."""

    settings: ClientSettings

    def wake(self) -> None:
        """Wake the background task: there is output."""

    def new_link_name(self) -> str:
        """A name that no other link has."""

    def forget_session(self, session: "ClientSession") -> None:
        """Drop a session that must not begin again."""


class ClientSession:
    """A session with its links, made by ``begin_session``."""

    def __init__(self, connection: SessionOwner) -> None:
        self.standing = Standing()
        self._connection = connection
        self._session: Session | None = None
        self._links: list[Sender | Receiver] = []
        self._settling: list[Callable[[], None]] = []
        self._closing: dict[SenderLink | ReceiverLink, trio.Event] = {}
        self._buffered_messages = 0
        self._buffered_bytes = 0

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
            self,
            name=name or self._connection.new_link_name(),
            address=address,
            settled=settled,
            unsettled_max=self._connection.settings.unsettled_max,
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
            self,
            name=name or self._connection.new_link_name(),
            address=address,
            options=options or ReceiverOptions(),
        )
        await self._attach(receiver)
        return receiver

    def close(self) -> None:
        """End the session and every link on it. Messages without an outcome become uncertain."""
        self.settle()
        self._connection.forget_session(self)
        if self._session is not None:
            self._session.end()
        self._over(SessionClosed("the session was closed"))
        self._connection.wake()

    # --- the connection's side -------------------------------------------------------------------------------------

    def begin(self, connection: Connection) -> None:
        """Begin on a connection, for the first time or again, and attach every link."""
        settings = self._connection.settings
        try:
            session = connection.new_session(
                SessionLimits(
                    max_incoming_window=settings.incoming_window,
                    window_top_up=settings.incoming_window // 2,
                    incoming_window_margin=settings.incoming_window,
                )
            )
        except ConnectionFault as fault:
            self._over(SessionClosed(fault.description, fault.condition))
            return
        session.reference = self
        self._session = session
        session.begin()
        for link in self._links:
            link.attach(session)

    def begun(self) -> None:
        """The broker answered our begin."""
        self.standing.came_up()

    def lost(self, reason: ClientError) -> None:
        """The connection is lost for now."""
        self._session = None
        for link in self._links:
            link.lost(reason)
        self._release_closing()
        self.standing.went_away(reason)

    def ended_by_peer(self, error: Error | None) -> None:
        """The broker ended the session, or we did because of a mistake of the broker."""
        self._connection.forget_session(self)
        self._over(SessionClosed(*told("the broker ended the session", error)))

    def ended(self, reason: ClientError) -> None:
        """The connection is over."""
        self._over(reason)

    def settle(self) -> None:
        """Call this before output: receivers settle the deliveries that they have noted as accepted."""
        settling, self._settling = self._settling, []
        for settle in settling:
            settle()

    def look_at_closing(self) -> None:
        """Wake the tasks whose detach has been answered: the engine has no event for it, only a state."""
        for link in [link for link in self._closing if link.end.state is LinkState.GONE]:
            self._closing.pop(link).set()

    # --- the links' side -------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Wake the background task: there is output."""
        if self._session is not None:
            self._session.connection.flush_later(self._session)
        self._connection.wake()

    def settle_later(self, settle: Callable[[], None]) -> None:
        """Have a receiver settle the deliveries that it has noted as accepted, before the next output."""
        self._settling.append(settle)
        self._connection.wake()

    def buffered(self, messages: int, size: int) -> None:
        """Count deliveries that wait for the user; close the window above the limit, and open it below half of it."""
        self._buffered_messages += messages
        self._buffered_bytes += size
        session, settings = self._session, self._connection.settings
        if session is None:
            return
        load = max(
            self._buffered_messages / settings.buffered_messages_max,
            self._buffered_bytes / settings.buffered_bytes_max,
        )
        if load > 1.0:
            session.close_incoming_window()
        elif load <= 0.5 and session.window.closed:
            session.open_incoming_window()
            self._connection.wake()

    async def close_link(self, link: SenderLink | ReceiverLink | None) -> None:
        """Detach, and wait a limited time for the answer."""
        if link is None or self._session is None or not link.end.attached:
            return
        self._session.detach(link)
        link.reference = None
        answered = self._closing[link] = trio.Event()
        self._connection.wake()
        try:
            with trio.move_on_after(self._connection.settings.close_time_out_s):
                await answered.wait()
        finally:
            self._closing.pop(link, None)

    def forget(self, user: LinkUser) -> None:
        """Drop a sender or receiver that must not be attached again."""
        self._links = [link for link in self._links if link is not user]

    # --- inside ----------------------------------------------------------------------------------------------------

    async def _attach(self, link: Sender | Receiver) -> None:
        """Attach, and wait until the broker has attached too; a caller that is cancelled gives up the link."""
        self.standing.check()
        self._links.append(link)
        if self._session is not None:
            link.attach(self._session)
        self._connection.wake()
        try:
            await link.standing.usable()
        except trio.Cancelled:
            self.forget(link)
            link.ended(LinkClosed("the link was given up before the broker had answered"))
            raise

    def _release_closing(self) -> None:
        for answered in self._closing.values():
            answered.set()
        self._closing.clear()

    def _over(self, reason: ClientError) -> None:
        self._session = None
        for link in self._links:
            link.ended(reason)
        self._links.clear()
        self._release_closing()
        self.standing.ended(reason)
