"""A session: the senders and receivers that share one window and one order of frames [2.5].

Links on one session can delay each other: while too many deliveries of one receiver wait to be taken, the session's
window is closed for all links. Open a separate session for traffic that must not be delayed.

A session survives a reconnect: it begins again on the new connection and attaches its links again, all at once and
without waiting for answers.

Links go to the nodes that lead their queues, so that no other node has to forward. A node of a cluster answers an
attach with the address of the node that leads the queue, if another one does. Then the link, which has neither given
link credit nor sent anything, is attached there instead, over a further connection with the same login. When that is
not possible, it is used where it is, and the node forwards.

A link whose leader is lost comes back to its session: it is attached there again, and is told the new leader. It has
lost what a link loses with its connection: messages without an outcome are uncertain, and deliveries that were not
settled come again.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial

import anyio

from amqp10.client.endpoint_status import EndpointStatus
from amqp10.client.leaders import LeaderNode, LeaderNodes
from amqp10.client.link_session import LinkSession
from amqp10.client.receiver import Receiver, ReceiverOptions
from amqp10.client.sender import Sender
from amqp10.client.settings import ClientSettings
from amqp10.client_core.errors import ClientError, LinkClosed, SessionClosed, told
from amqp10.client_core.events import LinkUser
from amqp10.client_core.opening import session_limits
from amqp10.errors import ConnectionFault
from amqp10.protocol.connection import Connection
from amqp10.protocol.leader import leader_is_lost, leader_of
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session import Session
from amqp10.wire.messaging import Error
from amqp10.wire.performatives import Attach

LOG = logging.getLogger("amqp10.client")
REFUSED_S = 0.3
"""The delay before a leader that has refused a link is tried once more. A node looks for changes of definitions four
times a second, and may not have read that of a new queue."""

ClientLink = Sender | Receiver


class ClientSession:
    """A session with its links, made by ``begin_session``."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        wake: Callable[[], None],
        new_link_name: Callable[[], str],
        forget: Callable[["ClientSession"], None],
        nodes: "LeaderNodes[ClientSession] | None" = None,
        links_of: "FollowedLinks | None" = None,
    ) -> None:
        """``wake`` wakes the connection's background task; ``forget`` drops a session that must not begin again.
        ``nodes``: where its links go to their leaders; None: they stay. ``links_of``: it is itself at such a node, with
        links of another session."""
        self.status = EndpointStatus()
        self.shared = LinkSession(
            settings, wake=wake, forget=self._forget, moves=self._moves, comes_back=self._comes_back
        )
        """What the links of this session share."""
        self._settings = settings
        self._wake = wake
        self._new_link_name = new_link_name
        self._forget_session = forget
        self._following = None if nodes is None else FollowedLinks(self, nodes)
        self._links_of = links_of
        self._links: list[ClientLink] = []

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
        self.end_for(SessionClosed("the session was closed"))

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
        self.status.ended(reason)
        links, self._links = self._links, []
        for link in links:
            if self._links_of is None or not self._links_of.take_back(link, reason):
                link.ended(reason)
        if self._following is not None:
            self._following.end(reason)

    def end_for(self, reason: ClientError) -> None:
        """End the session and every link on it, for a reason of this side."""
        self.shared.settle()
        self._forget_session(self)
        if self.shared.engine is not None:
            self.shared.engine.end()
        self.ended(reason)
        self._wake()

    # --- links that follow their leaders ---------------------------------------------------------------------------

    @property
    def has_links(self) -> bool:
        """Whether it has links."""
        return bool(self._links)

    def adopt(self, link: ClientLink) -> None:
        """A link that was in another session is in this one from now on, and not attached."""
        link.join(self.shared)
        self._links.append(link)

    def attach_if_away(self, link: ClientLink) -> None:
        """Attach a link, if it is still in this session and there is a connection; else it is attached with that."""
        if link in self._links and self.shared.engine is not None and link.engine_link is None:
            link.attach(self.shared.engine)
            self._wake()

    def _moves(self, link: ClientLink, attach: Attach) -> bool:
        return self._following is not None and self._following.moves(link, attach)

    def _comes_back(self, link: ClientLink, error: Error | None) -> bool:
        following = self._following or self._links_of
        return following is not None and following.comes_back(link, error, self)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _forget(self, user: LinkUser) -> None:
        self._links = [link for link in self._links if link is not user]

    async def _attach(self, link: ClientLink) -> None:
        """Attach, and wait until the broker has attached too; a caller that is cancelled gives up the link."""
        self.status.check()
        self._links.append(link)
        if self.shared.engine is not None:
            link.attach(self.shared.engine)
        self._wake()
        try:
            await link.status.usable()
        except anyio.get_cancelled_exc_class():
            link.give_up(LinkClosed("the link was given up before the broker had answered"))
            raise


class FollowedLinks:
    """The links of one session, wherever they are attached: how they go to their leaders and come back."""

    def __init__(self, session: ClientSession, nodes: LeaderNodes[ClientSession]) -> None:
        self._session, self._nodes = session, nodes
        self._further: dict[LeaderNode[ClientSession], ClientSession] = {}
        """The sessions at other nodes for links of this one, by their connections."""

    # --- links that are attached -----------------------------------------------------------------------------------

    def moves(self, link: ClientLink, attach: Attach) -> bool:
        """The broker has attached a link of the session. Returns whether it is not to be used yet, because it may move
        to its leader."""
        if link.journey.stays:
            return False
        try:
            leader = leader_of(attach.properties)
        except ValueError as error:
            LOG.warning("what the broker says of the leader of %s is ignored: %s", link.address, error)
            return False
        node = None if leader is None else self._nodes.at(leader)
        before, engine = link.engine_link, self._session.shared.engine
        if node is None or before is None or engine is None:
            return False
        self._nodes.begin(partial(self._move, link, node, attach, before, engine))
        return True

    async def _move(
        self,
        link: ClientLink,
        node: LeaderNode[ClientSession],
        attach: Attach,
        before: SenderLink | ReceiverLink,
        engine: Session,
    ) -> None:
        usable = await self._nodes.usable(node)
        if link.engine_link is not before:
            if before.reference is None and before.end.attached and engine is self._session.shared.engine:
                engine.detach(before)  # its user gave it up while the link was on its way
                self._session.shared.wake()
            return
        further = self._session_at(node) if usable else None
        if further is None:
            link.usable(attach)
            return
        link.leave()
        engine.detach(before)
        self._session.shared.wake()
        self._session.shared.forget(link)
        further.adopt(link)
        further.attach_if_away(link)

    def _session_at(self, node: LeaderNode[ClientSession]) -> ClientSession | None:
        self._further = {node: one for node, one in self._further.items() if not one.status.over}
        if (further := self._further.get(node)) is None:
            try:
                further = self._further[node] = node.new_session(self)
            except ClientError:
                return None
        return further

    # --- links that have ended -------------------------------------------------------------------------------------

    def comes_back(self, link: ClientLink, error: Error | None, session: ClientSession) -> bool:
        """The broker has ended a link that was attached in ``session``. Returns whether it is to be attached again."""
        is_lost, is_here, was_used = leader_is_lost(error), session is self._session, link.status.up
        if self._nodes.closing or (not is_lost and (is_here or was_used)):
            return False
        reason = LinkClosed(*told(f"the leader of {link.address} is lost", error))
        if is_lost and is_here:
            return self._attach_again(link, reason)
        link.went_away(reason)
        if not is_lost and not link.journey.refused:
            link.journey.refused = True
            self._nodes.begin(partial(self._attach_later, session, link, REFUSED_S))
            return True
        session.shared.forget(link)
        link.journey.stays = not is_lost
        return self.take_back(link, reason)

    def take_back(self, link: ClientLink, reason: ClientError) -> bool:
        """A link is attached nowhere any more: attach it in its own session again. Returns whether that is to be."""
        if self._nodes.closing or self._session.status.over:  # then its links are over too
            return False
        self._session.adopt(link)
        if self._attach_again(link, reason):
            return True
        self._session.shared.forget(link)
        return False

    def end(self, reason: ClientError) -> None:
        """The session is over, and so are those at other nodes."""
        further, self._further = list(self._further.values()), {}
        for session in further:
            session.end_for(reason)

    def _attach_again(self, link: ClientLink, reason: ClientError) -> bool:
        delay = link.journey.again(anyio.current_time())
        if delay is None:
            return False
        link.went_away(reason)
        self._nodes.begin(partial(self._attach_later, self._session, link, delay))
        return True

    async def _attach_later(self, session: ClientSession, link: ClientLink, delay_s: float) -> None:
        await anyio.sleep(delay_s)
        session.attach_if_away(link)
