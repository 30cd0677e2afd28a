"""Flow events of one connection: reported to the recorder, and sent to its own client at the address ``/flow/self``.

A receiver attached to that address gets packets of flow events of its own connection (docs/flow-events.md). Each is a
message with one data section, and it is settled when it is sent. The receiver needs link credit like any other. Without
link credit the events wait in the feed, which is bounded: it drops the oldest ones and reports how many. So a client
that gives no link credit uses no more memory than one feed. A connection has at most one such receiver.

Links report each run to the recorder that they hold; the recorder is None while the events are not wanted. Session
windows are checked before each output. The receiver's own link, and links to and from the stream of flow events, are
not reported.

This module decides nothing about flow control, and must not know the format of a packet.
"""

from collections.abc import Callable
from functools import partial

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.flow.link_credit import SenderCredit
from amqp10.frontend.incoming import PublisherLink
from amqp10.frontend.outgoing import ConsumerLink
from amqp10.frontend.session_watches import session_of
from amqp10.frontend.snapshots import address_of, link_identity, session_identity, window_state
from amqp10.frontend.stream_filters import check_unfiltered
from amqp10.frontend.termini import check_distribution_mode
from amqp10.protocol.connection import Connection
from amqp10.protocol.events import CreditReceived
from amqp10.protocol.sender_link import SETTLED, SenderLink
from amqp10.protocol.session import Link, Session
from amqp10.wire.messaging import Source, Target
from amqp10.wire.performatives import Attach
from amqp10.wire.sections import DATA, Properties, encode_properties, encode_section
from core.clock import Now
from core.flow_facts import FLOW_STREAM, PACKET_CONTENT_TYPE, FlowConnection, FlowLink, LinkFlowState
from core.interface import QueueTarget
from core.observe.flow_events.accounts import LinkAccount
from core.observe.flow_events.feed import Feed
from core.observe.flow_events.recorder import ConnectionEvents, FlowEvents
from core.server.frontends import PeerInfo

FLOW_SELF = "/flow/self"
PROTOCOL = "amqp-1.0"
BROKER, CLIENT = "broker", "client"
"""The side to which an incoming-window belongs."""


def packet_message(packet: bytes, wall: float) -> bytes:
    """A message that carries a packet: properties and one data section [3.2.4, 3.2.6]. ``wall`` is in seconds."""
    properties = Properties(content_type=PACKET_CONTENT_TYPE, creation_time=round(wall * 1000))
    return encode_properties(properties) + encode_section(DATA, packet)


def earlier(one: float | None, other: float | None) -> float | None:
    """The earlier of two deadlines; None is a deadline that never comes."""
    if one is None or (other is not None and other < one):
        return other
    return one


def refuse_sender() -> LinkFault:
    """The error for a client that attaches a sender to ``/flow/self``."""
    return LinkFault(
        ErrorCondition.NOT_ALLOWED, f"{FLOW_SELF} is a source of messages only; attach a receiver to get flow events"
    )


class SelfReceiver:
    """The client's receiver of the events of its own connection: our sending end of the link."""

    __slots__ = ("_next_number", "feed", "link")

    def __init__(self, link: SenderLink, feed: Feed) -> None:
        self.link = link
        self.feed = feed
        self._next_number = 0

    def deadline(self) -> float | None:
        """The monotonic time at which the next packet is due; None while nothing can be sent."""
        return self.feed.due if self._may_send else None

    def send(self, now: Now) -> None:
        """Send the next packet if it is due."""
        due = self.deadline()
        if due is not None and due <= now.monotonic:
            self._send_next(now)

    def credit_received(self, event: CreditReceived, now: Now) -> None:
        """The client gave link credit. With drain it wants all packets that there are, and the rest of its link
        credit used up."""
        link = self.link
        link.take_back()
        if link.credit.drain:
            while self._may_send and self._send_next(now):
                pass
        if link.credit.drain or event.flow.echo:
            link.answer_flow(available=0, drained=link.credit.drain)

    @property
    def _may_send(self) -> bool:
        link = self.link
        return link.end.attached and link.credit.link_credit > link.waiting and (link.idle or link.credit.drain)

    def _send_next(self, now: Now) -> bool:
        packet = self.feed.take()
        if packet is None:
            return False
        try:
            self.link.send_run(self._next_number, [packet_message(packet, now.wall)], b"")
        except LinkFault as fault:  # the packet is larger than the client takes
            assert isinstance(self.link.channel, Session)
            self.link.channel.fail_link(self.link, fault)
            return False
        self._next_number += 1
        return True


class ConnectionFlow:
    """The recorder of one connection's flow events, and the client's receiver of them."""

    __slots__ = ("_closed_windows", "_connection", "_flow", "_info", "_wake", "_wanted", "receiver", "recorder")

    def __init__(
        self, flow: FlowEvents | None, info: PeerInfo, connection: Connection, wake: Callable[[], None]
    ) -> None:
        """Without ``flow`` no event is recorded or sent to the client. ``wake`` asks for a turn of this connection."""
        self.recorder: ConnectionEvents | None = None
        self.receiver: SelfReceiver | None = None
        self._flow = flow
        self._info = info
        self._connection = connection
        self._wake = wake
        self._wanted = False
        """The connection is recorded even if its client has no receiver."""
        self._closed_windows: dict[tuple[Session, str], None] = {}

    def opened(self) -> None:
        """The connection is open: begin to record it if the recorder wants it."""
        if self._flow is not None:
            self.recorder = self._flow.connection(self._who())
            self._wanted = self.recorder is not None

    def recorder_of(self, user: PublisherLink | ConsumerLink) -> LinkAccount | None:
        """The recorder for a link that was attached; None when the link is not reported."""
        if self.recorder is None or _is_about_flow_events(user):
            return None
        link = user.link
        facts = FlowLink(
            identity=link_identity(self._info, session_of(link), link),
            name=link.end.name,
            direction="out" if isinstance(link, SenderLink) else "in",
            address=address_of(link) or "",
        )
        return self.recorder.link_attached(facts, partial(_link_flow_state, link))

    def report(self, now: Now) -> None:
        """Call this before each output: report windows that closed or opened, and send the client packets that are
        due."""
        if self.recorder is not None:
            self._look_at_windows(self.recorder)
        if self.receiver is not None:
            self.receiver.send(now)

    def _look_at_windows(self, recorder: ConnectionEvents) -> None:
        sessions = self._connection.sessions
        closed: dict[tuple[Session, str], None] = {}
        for session in sessions:
            if session.window.closed:
                closed[session, BROKER] = None
            if not session.window.remote_incoming_window and session.mapped:
                closed[session, CLIENT] = None
        if closed == self._closed_windows:
            return
        before, self._closed_windows = self._closed_windows, closed
        for session, side in closed.keys() - before.keys():
            recorder.window_closed(session_identity(self._info, session), side)
        for session, side in before.keys() - closed.keys():
            if session in sessions:
                recorder.window_opened(session_identity(self._info, session), side)
            else:
                recorder.session_ended(session_identity(self._info, session))

    def closed(self) -> None:
        """The connection is over: end the recording."""
        if self.recorder is not None:
            self.recorder.closed()
            self.recorder = None

    # --- /flow/self ------------------------------------------------------------------------------------------------

    def receiver_attached(self, link: SenderLink, attach: Attach) -> None:
        """The client attached a receiver of its own events. Raises LinkFault."""
        if self._flow is None:
            raise LinkFault(ErrorCondition.NOT_IMPLEMENTED, "this broker records no flow events")
        assert isinstance(attach.source, Source)
        check_distribution_mode(attach.source, copies=True)
        check_unfiltered(attach.source.filter)
        if self.receiver is not None:
            raise LinkFault(
                ErrorCondition.RESOURCE_LIMIT_EXCEEDED, f"this connection has a receiver of {FLOW_SELF} already"
            )
        if self.recorder is None:
            self.recorder = self._flow.connection(self._who(), followed=True)
            for user in self._users():
                user.flow = self.recorder_of(user)
        assert self.recorder is not None
        self.receiver = link.reference = SelfReceiver(link, self.recorder.follow(self._wake))
        link.attach(
            source=Source(address=FLOW_SELF, distribution_mode="copy"),
            target=attach.target if isinstance(attach.target, Target) else None,
            snd_settle_mode=SETTLED,
            rcv_settle_mode=0,
            max_message_size=attach.max_message_size,
        )

    def receiver_released(self) -> None:
        """The link of the receiver is over."""
        receiver, self.receiver = self.receiver, None
        if receiver is None:
            return
        receiver.feed.close()
        if not self._wanted:
            for user in self._users():
                user.flow = None
            self.closed()

    def _users(self) -> list[PublisherLink | ConsumerLink]:
        users = [link.reference for session in self._connection.sessions for link in session.links]
        return [user for user in users if isinstance(user, PublisherLink | ConsumerLink)]

    def _who(self) -> FlowConnection:
        info, remote = self._info, self._connection.remote
        return FlowConnection(
            identity=info.identity,
            peer=f"{info.remote_host}:{info.remote_port}",
            protocol=PROTOCOL,
            container_id=remote.container_id if remote is not None else "",
            user=self._connection.handshake.identity,
        )


def _link_flow_state(link: Link) -> LinkFlowState:
    credit, session = link.credit, session_of(link)
    if isinstance(credit, SenderCredit):
        return LinkFlowState(credit.delivery_count, credit.link_credit, session.window.remote_incoming_window)
    return LinkFlowState(
        credit.delivery_count,
        credit.link_credit,
        session.window.announced,
        None if credit.window is None else window_state(credit.window),
        credit.limited_by() or "",
    )


def _is_about_flow_events(user: PublisherLink | ConsumerLink) -> bool:
    if isinstance(user, ConsumerLink):
        return user.consumer is not None and user.consumer.queue_name == FLOW_STREAM
    return user.publisher.fixed_target == QueueTarget(FLOW_STREAM)
