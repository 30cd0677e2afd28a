"""Two connection engines in one process, and bytes that travel between them in pieces of any size.

There is no broker and no socket. Each :class:`Side` is a :class:`~amqp10.protocol.connection.Connection` with a minimal
application behind it. It accepts what the other side begins and attaches, sends what its :class:`Outbox` holds as far
as the link credit goes, and logs what happens: one line for each delivery, also where deliveries came as a run.

:func:`cut_anywhere` makes a test of a situation. The situation is run with whole bytes and again with bytes that are
cut, and both runs must give the same.
"""

import inspect
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import cycle

import hypothesis.strategies as st
from hypothesis import given, settings

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.flow.link_credit import ReceiverCredit, SenderCredit
from amqp10.protocol.connection import Connection, Event
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
from amqp10.protocol.handshake import ClientHandshake, Handshake, ServerHandshake
from amqp10.protocol.lifecycle import ConnectionState, SessionState
from amqp10.protocol.receiver_link import DeliveriesReceived, IncomingSettled, ReceiverLink
from amqp10.protocol.sasl import Anonymous, Success
from amqp10.protocol.sender_link import DeliveriesSent, SenderLink
from amqp10.protocol.session import IncomingChannel, Link, Session
from amqp10.protocol.settings import ConnectionSettings, SessionLimits
from amqp10.wire import serial
from amqp10.wire.messaging import DeliveryState, Error, Outcome, Source, Target
from amqp10.wire.performatives import Attach

UNSETTLED, SETTLED, MIXED = 0, 1, 2
"""Values of snd-settle-mode [2.8.2]."""
FIRST, SECOND = 0, 1
"""Values of rcv-settle-mode [2.8.3]."""
LIMITS = SessionLimits()
LINES_MAX = 10_000
"""An upper bound on the lines of one situation. More lines mean that each answer causes another one."""

Line = tuple[object, ...]
"""A line: where it happened (a link by name, a session by channel, "connection"), what happened, and the
particulars."""


WITH_DELIVERY_ID = ("received", "settled by sender")
"""Events of which the first particular is the delivery-id that the sender's session gave."""


@dataclass(frozen=True)
class Cutting:
    """How bytes are cut in each direction: the sizes of the pieces, used in turn again and again."""

    to_server: tuple[int, ...] = (2**30,)
    to_client: tuple[int, ...] = (2**30,)
    eager: bool = False
    """Answer each piece at once, as the owner of a socket does, and not when all bytes of one direction have come."""


WHOLE = Cutting()
pieces = st.lists(st.integers(1, 64) | st.sampled_from((1, 7, 8, 9, 200, 2**30)), min_size=1, max_size=6).map(tuple)
cuttings = st.builds(Cutting, to_server=pieces, to_client=pieces, eager=st.booleans())


class AcceptsAnyClient:
    """A mechanism that lets every peer in."""

    name = "ANONYMOUS"

    def start(self) -> "AcceptsAnyClient":
        return self

    def respond(self, response: bytes) -> Success:
        return Success("anonymous")


def client_handshake() -> ClientHandshake:
    return ClientHandshake([Anonymous()], hostname=None, frame_size_max=512)


def server_handshake() -> ServerHandshake:
    return ServerHandshake([AcceptsAnyClient()], bare_allowed=True, refusal_delay_s=lambda: 1.0, frame_size_max=512)


class Outbox:
    """What an application wants to send on one link: as much of it as the link credit allows, and the rest later."""

    def __init__(self, link: SenderLink) -> None:
        self.link = link
        self.bodies: deque[bytes] = deque()
        self.sent: list[bytes] = []
        """Bodies by delivery number. Those that were taken back are sent again later under another number."""
        self.transmitted: list[bytes] = []
        """The bodies of the deliveries whose last frame is in the output."""
        self.outcomes: dict[int, list[DeliveryState | None]] = {}
        """The states that the receiver sent, by delivery number."""

    def put(self, bodies: Iterable[bytes]) -> None:
        """Send these bodies, now or when there is link credit."""
        self.bodies.extend(bodies)
        self.go_on()

    def credit_received(self, event: CreditReceived) -> None:
        """Take back what the link credit no longer covers, send what it covers, and answer the flow if it asks for an
        answer."""
        for first, last in self.link.take_back():
            self.bodies.extendleft(reversed(self.sent[first : last + 1]))
        self.go_on()
        drain = self.link.credit.drain
        if drain or event.flow.echo:
            self.link.answer_flow(available=len(self.bodies), drained=drain)
        else:
            self.link.cancel_drained()

    def go_on(self) -> None:
        """Send as much as the link credit allows."""
        room = self.link.credit.link_credit - self.link.waiting
        run = [self.bodies.popleft() for _ in range(min(room, len(self.bodies)))]
        if run and self.link.end.attached:
            self.link.send_run(len(self.sent), list(run), b"")
            self.sent += run


@dataclass(frozen=True)
class Delivery:
    """A message as it was received."""

    delivery_id: int
    body: bytes
    settled: bool


@dataclass
class Side:
    """One engine, and what its application knows."""

    connection: Connection
    credit_rule: dict[str, int] = field(default_factory=dict)
    """The rule of link credit for links on which the other side sends. When it is empty, tests grant link credit by
    hand."""
    max_message_size: int = 0
    initial_delivery_count: int = 0
    refused: set[str] = field(default_factory=set)
    """The names of links that are not accepted."""
    log: list[Line] = field(default_factory=list)
    links: dict[str, Link] = field(default_factory=dict)
    """The newest link of each name."""
    sessions: dict[int, Session] = field(default_factory=dict)
    """The newest session on each of our channels."""
    outboxes: dict[str, Outbox] = field(default_factory=dict)
    """The outboxes of the newest sending links. Each is also the reference of its link."""
    inboxes: dict[str, list[Delivery]] = field(default_factory=dict)
    """What came on all links of that name. What came on one link is in the list that is the link's reference."""

    def take(self, data: bytes) -> None:
        """Receive bytes, and react to the events."""
        self.connection.receive_data(data, 0.0)
        self.take_events()

    def take_events(self) -> None:
        while (event := self.connection.next_event()) is not None:
            self.log += lines_of(event)
            self._answer(event)

    def output(self) -> bytes:
        """Take the bytes that are to be sent now."""
        return b"".join(iter(lambda: self.connection.data_to_send(0.0), b""))

    def sender(self, name: str) -> SenderLink:
        """Our sending link of this name."""
        link = self.links[name]
        assert isinstance(link, SenderLink)
        return link

    def receiver(self, name: str) -> ReceiverLink:
        """Our receiving link of this name."""
        link = self.links[name]
        assert isinstance(link, ReceiverLink)
        return link

    def put(self, name: str, bodies: Iterable[bytes]) -> None:
        """Put bodies into the outbox of a link."""
        self.outboxes[name].put(bodies)

    def settle(self, name: str, first: int, last: int, outcome: Outcome) -> None:
        """Settle deliveries that came on a link with an outcome."""
        self.receiver(name).settle(first, last, outcome)

    def bodies(self, name: str) -> list[bytes]:
        """The bodies that came on the links of this name."""
        return [delivery.body for delivery in self.inboxes[name]]

    def happened(self, what: str, where: object = None) -> list[Line]:
        """The lines of one kind, only those of one link if it is named."""
        return [line for line in self.log if line[1] == what and where in (None, line[0])]

    def adopt(self, link: Link) -> None:
        """Keep a link, and give it its reference. Either side may have attached it first."""
        name = link.end.name
        self.links[name] = link
        if isinstance(link, SenderLink):
            self.outboxes[name] = link.reference = Outbox(link)
        else:
            self.inboxes.setdefault(name, [])
            link.reference = []

    def send_attach(self, link: Link, *, snd: int, rcv: int, address: str | None = None) -> None:
        """Attach a link of ours, or accept one of theirs. ``address`` is of the node at the other end."""
        if isinstance(link, SenderLink):
            link.credit = SenderCredit(self.initial_delivery_count)
            target = Target(address=address)
            link.attach(source=Source(), target=target, snd_settle_mode=snd, rcv_settle_mode=rcv)
            return
        link.attach(
            source=Source(address=address),
            target=Target(),
            snd_settle_mode=snd,
            rcv_settle_mode=rcv,
            credit=ReceiverCredit(**self.credit_rule),
            max_message_size=self.max_message_size,
        )

    def _answer(self, event: Event) -> None:
        match event:
            case ConnectionOpened() if self.connection.state is ConnectionState.OPEN_RCVD:
                self.connection.open()
            case SessionBegun(session):
                self.sessions[session.outgoing_channel] = session
                if session.state is SessionState.BEGIN_RCVD:
                    session.begin()
            case SenderAttached(link, attach) | ReceiverAttached(link, attach) if link.end.local is None:
                self._accept(link, attach)
            case DeliveriesReceived(link, first, entries, header, settled):
                run = [Delivery(first + index, header + entry, settled) for index, entry in enumerate(entries)]
                self.inboxes[link.end.name] += run
                assert isinstance(link.reference, list)
                link.reference += run
            case CreditReceived(link) if isinstance(link.reference, Outbox):
                link.reference.credit_received(event)
            case DeliveriesSent(link, first, last) if isinstance(link.reference, Outbox):
                link.reference.transmitted += link.reference.sent[first : last + 1]
            case DeliveriesSettled(link, _, _, state, ranges) if isinstance(link.reference, Outbox):
                for first, last in ranges:
                    for number in range(first, last + 1):
                        link.reference.outcomes.setdefault(number, []).append(state)
            case _:
                pass

    def _accept(self, link: Link, attach: Attach) -> None:
        session = link.channel
        assert isinstance(session, Session)
        if attach.name in self.refused:
            session.refuse(link, LinkFault(ErrorCondition.NOT_ALLOWED, "not this one"))
            return
        self.adopt(link)
        self.send_attach(link, snd=attach.snd_settle_mode, rcv=attach.rcv_settle_mode)


def lines_of(event: Event) -> list[Line]:
    """An event as lines; a run becomes one line for each delivery."""
    match event:
        case ConnectionOpened(opening):
            return [("connection", "opened", opening.container_id)]
        case ConnectionClosed(error, by_peer):
            return [("connection", "closed", condition_of(error), by_peer)]
        case SessionBegun(session, begin):
            return [(session.outgoing_channel, "begun", begin.next_outgoing_id, begin.incoming_window)]
        case SessionEnded(session, error):
            return [(session.outgoing_channel, "ended", condition_of(error))]
        case SenderAttached(link, attach) | ReceiverAttached(link, attach):
            return [(link.end.name, "attached", attach.role, attach.initial_delivery_count)]
        case LinkDetached(link, error, closed):
            return [(link.end.name, "detached", condition_of(error), closed)]
        case DeliveriesReceived():
            name = event.link.end.name
            return [
                (name, "received", event.first + index, event.header + entry, event.settled, event.delivery_tag(index))
                for index, entry in enumerate(event.entries)
            ]
        case CreditReceived(link, flow):
            return [(link.end.name, "link credit", link.credit.link_credit, flow.drain, flow.echo)]
        case SenderFlowReceived(link, flow, drained):
            return [(link.end.name, "flow", flow.available, drained, flow.echo)]
        case DeliveriesSettled(link, _, _, state, ranges):
            return [
                (link.end.name, "settled", number, state) for first, last in ranges for number in range(first, last + 1)
            ]
        case IncomingSettled(link, _, _, state, ranges):
            return [
                (link.end.name, "settled by sender", number, state)
                for first, last in ranges
                for number in range(first, last + 1)
            ]
        case DeliveriesSent(link, first, last):
            return [(link.end.name, "sent", number) for number in range(first, last + 1)]


def numbers_of(event: DeliveriesSettled) -> list[int]:
    """The numbers of the deliveries that were settled, in order."""
    assert (event.first, event.last) == (event.ranges[0][0], event.ranges[-1][1])
    return [number for first, last in event.ranges for number in range(first, last + 1)]


def condition_of(error: Error | None) -> str | None:
    """The condition of an error, if there is one."""
    return None if error is None else error.condition


class Direction:
    """The bytes under way from one side to the other."""

    def __init__(self, source: Side, target: Side, sizes: tuple[int, ...]) -> None:
        self.source = source
        self.target = target
        self._sizes = cycle(sizes)
        self._under_way = b""

    @property
    def under_way(self) -> int:
        """How many bytes are under way."""
        return len(self._under_way)

    def load(self) -> None:
        """Take the output of the source, and put it under way."""
        self._under_way += self.source.output()
        self.source.take_events()

    def step(self, *, ask: bool, size: int | None = None) -> bool:
        """Deliver one piece; False when there is none. With ``ask`` the source gives more output also while its last is
        under way."""
        if ask or not self._under_way:
            self.load()
        size = size or next(self._sizes)
        piece, self._under_way = self._under_way[:size], self._under_way[size:]
        if piece:
            self.target.take(piece)
        return bool(piece)


class Pair:
    """A client and a server. Bytes travel only in :meth:`pump`."""

    def __init__(
        self,
        cutting: Cutting = WHOLE,
        *,
        frame_size: int = 512,
        client: SessionLimits = LIMITS,
        server: SessionLimits = LIMITS,
        handshakes: tuple[Callable[[], Handshake], Callable[[], Handshake]] = (client_handshake, server_handshake),
        **settings: object,
    ) -> None:
        """``client`` and ``server`` are the limits of their sessions; ``settings`` are those of both connections."""
        self.client, self.server = (
            Side(Connection(connection_settings(name, limits, frame_size, settings), make()))
            for name, limits, make in zip(("client", "server"), (client, server), handshakes, strict=True)
        )
        self._eager = cutting.eager
        self.directions = (
            Direction(self.client, self.server, cutting.to_server),
            Direction(self.server, self.client, cutting.to_client),
        )
        self.pump()
        self.client.connection.open()
        self.pump()

    def begin(self) -> Session:
        """Begin a session from the client; returns the client's end."""
        session = self.client.connection.new_session()
        session.begin()
        self.pump()
        return session

    def attach_sender(self, session: Session, name: str = "out", *, snd: int = MIXED, rcv: int = FIRST) -> SenderLink:
        """Attach a link on which the client sends; returns the client's end."""
        link = session.new_sender(name)
        self.client.adopt(link)
        self.client.send_attach(link, snd=snd, rcv=rcv)
        self.pump()
        return link

    def attach_receiver(
        self, session: Session, name: str = "in", *, snd: int = UNSETTLED, rcv: int = FIRST
    ) -> ReceiverLink:
        """Attach a link on which the client receives; returns the client's end."""
        link = session.new_receiver(name)
        self.client.adopt(link)
        self.client.send_attach(link, snd=snd, rcv=rcv)
        self.pump()
        return link

    def pump(self) -> None:
        """Carry bytes both ways until there are none, and check that both sides agree."""
        to_server, to_client = self.directions
        while self._carry(to_server) | self._carry(to_client):
            assert len(self.client.log) + len(self.server.log) < LINES_MAX, "the two do not come to rest"
        check_agreement(self.client.connection, self.server.connection)

    def _carry(self, direction: "Direction") -> bool:
        """Deliver one piece, or all bytes. False when there was nothing."""
        moved = direction.step(ask=self._eager)
        while moved and not self._eager and direction.step(ask=False):
            pass
        return moved

    def cross(self) -> None:
        """Put the output of both sides under way before either receives anything, and carry it."""
        for direction in self.directions:
            direction.load()
        self.pump()

    def history(self, *, exact: bool) -> object:
        """Everything that should not depend on how bytes are cut: what happened on each link, and the state of each
        side.

        Without ``exact``, it leaves out what depends on when output is asked for: how many flows come, what they grant,
        and the order between deliveries of several links.
        """
        lines: dict[object, list[Line]] = {}
        for side in (self.client, self.server):
            for line in side.log:
                if exact or line[1] not in ("flow", "link credit"):
                    particulars = line if exact or line[1] not in WITH_DELIVERY_ID else line[:2] + line[3:]
                    lines.setdefault((side.connection.settings.container_id, line[0]), []).append(particulars)
        return lines, [state_of(side.connection, exact=exact) for side in (self.client, self.server)]


def connection_settings(
    name: str, limits: SessionLimits, frame_size: int, settings: dict[str, object]
) -> ConnectionSettings:
    """The settings of one side."""
    return ConnectionSettings(container_id=name, max_frame_size=frame_size, session=limits, **settings)  # type: ignore[arg-type]


def state_of(connection: Connection, *, exact: bool) -> Line:
    """The state of a connection; with ``exact`` also what flows have granted."""
    sessions = [
        (
            session.outgoing_channel,
            session.state,
            session.window.next_incoming_id,
            session.window.next_outgoing_id,
            session.outgoing.count,
            session.incoming.count,
            [
                (link.end.name, link.end.state, link.end.handle, link.credit.delivery_count)
                + (link.credit.link_credit, link.credit.drain) * exact
                for link in session.links
            ],
        )
        for session in connection.all_sessions
    ]
    return connection.state, connection.finished, condition_of(connection.error), sessions


def check_agreement(client: Connection, server: Connection) -> None:
    """Check that both sides agree on each session and link. No byte may be under way."""
    if not (client.opened and server.opened):
        return
    theirs = {session.incoming_channel: session for session in server.sessions}
    for ours in client.sessions:
        other = theirs[IncomingChannel(ours.outgoing_channel)]
        check_windows(ours, other)
        check_windows(other, ours)
        for link in ours.links:
            for end in other.links:
                if isinstance(link, SenderLink) and isinstance(end, ReceiverLink):
                    check_link_credit(link, end)
                elif isinstance(link, ReceiverLink) and isinstance(end, SenderLink):
                    check_link_credit(end, link)


def check_windows(ours: Session, theirs: Session) -> None:
    """Check that our sent transfers are those they received, and that the window we see is the one they announced."""
    assert ours.window.next_outgoing_id == theirs.window.next_incoming_id
    assert ours.window.remote_incoming_window == theirs.window.announced
    assert ours.outgoing.count == theirs.incoming.count


def check_link_credit(sender: SenderLink, receiver: ReceiverLink) -> None:
    """Check that both ends of one link count the same. The sender counts a delivery when its first frame is sent."""
    if sender.end.name != receiver.end.name or not (sender.end.attached and receiver.end.attached):
        return
    assert 0 <= sender.waiting <= sender.credit.link_credit
    partly_sent = serial.diff(sender.credit.delivery_count, receiver.credit.delivery_count)
    assert partly_sent in ((0,) if sender.idle else (0, 1))
    assert sender.credit.link_credit == max(0, receiver.credit.link_credit - partly_sent)  # the receiver may lower it


def cut_anywhere(situation: Callable[..., Pair]) -> Callable[..., None]:
    """Make a test of a situation. It takes a :class:`Cutting`, makes a pair with it, and returns the pair.

    The situation is run with whole bytes and with bytes that are cut, and both runs must give the same history.
    """
    with_whole_bytes = cache(partial(situation, WHOLE))

    def test(cutting: Cutting, *parameters: object, **named: object) -> None:
        cut, whole = situation(cutting, *parameters, **named), with_whole_bytes(*parameters, **named)
        exact = not cutting.eager
        assert cut.history(exact=exact) == whole.history(exact=exact)

    test.__name__, test.__doc__, test.__module__ = situation.__name__, situation.__doc__, situation.__module__
    test.__signature__ = inspect.signature(situation).replace(return_annotation=None)  # type: ignore[attr-defined]
    examples = settings.default.max_examples // 7
    return settings(max_examples=examples)(given(cutting=cuttings)(test))
