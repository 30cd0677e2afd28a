"""One session: its handles, the order of its frames, and the dispatch of frames to its links [2.5].

The arithmetic is in other modules: the window in ``session_window``, link credit in ``link_credit``, unsettled
deliveries in ``unsettled``, pending output and its order in ``session_output``. This module finds the link for each
frame, and gives links access to their channel.

A fault of a link detaches that link. A fault of the session raises SessionFault to the connection, which calls
:meth:`Session.fail`. This module must not know addresses, messages or the engine.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NewType, Protocol, TypeVar

from amqp10.errors import AmqpError, ConnectionFault, ErrorCondition, LinkFault, SessionFault
from amqp10.flow.session_window import OUTGOING_WINDOW, SessionWindow
from amqp10.flow.unsettled import UnsettledLimit, UnsettledMap
from amqp10.protocol.events import (
    CreditReceived,
    DeliveriesSettled,
    LinkDetached,
    LinkEvent,
    ReceiverAttached,
    SenderAttached,
    SenderFlowReceived,
    SessionBegun,
    SessionEnded,
)
from amqp10.protocol.lifecycle import SESSION, IllegalTransition, Input, LinkState, SessionState, step
from amqp10.protocol.link import RECEIVER, SENDER, InputHandle, LinkEnd, OutputHandle, error_from
from amqp10.protocol.link_names import LinkNames
from amqp10.protocol.receiver_link import RANGES_AT_ONCE, PartialDelivery, ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session_output import SessionOutput
from amqp10.protocol.settings import SessionLimits
from amqp10.wire import serial
from amqp10.wire.flow_frame import encode_flow
from amqp10.wire.framing import Piece
from amqp10.wire.messaging import Accepted, DeliveryState, Modified, Received, Rejected, Released
from amqp10.wire.performatives import Attach, Begin, Detach, Disposition, End, Flow, Performative, Transfer
from amqp10.wire.transfer_run import TransferRun

IncomingChannel = NewType("IncomingChannel", int)
"""The channel number that the peer gave to its end of a session."""
OutgoingChannel = NewType("OutgoingChannel", int)
"""The channel number that we gave to our end."""

Link = SenderLink | ReceiverLink
LinkT = TypeVar("LinkT", SenderLink, ReceiverLink)

TXN_ID = "txn-id"
"""The property of a flow with which a receiver makes its deliveries part of a transaction [4.4.3]."""


class SessionConnection(Protocol):
    """The part of a connection that its sessions use."""

    frame_size_max: int
    link_names: "LinkNames[Session]"
    flow_frames: Counter[tuple[str, str]]
    to_flush: "dict[Session, None]"
    """The sessions that have something for the output; a session notes itself here."""
    refilled: dict[ReceiverLink, None] | None

    def write(self, channel: int, performative: Performative, payload: bytes) -> None: ...
    def write_frames(self, *pieces: Piece) -> None: ...
    def report(self, event: "SessionEvent") -> None: ...
    def hold_partial(self, partial: PartialDelivery, change_bytes: int) -> None: ...
    def output_room(self) -> int: ...


class Session:
    """Our end of one session, with the links on it."""

    __slots__ = (
        "_due", "_last_delivery_id", "_links_in", "_links_out", "_to_flush", "_unanswered", "connection",
        "dispositions", "incoming", "incoming_channel", "limits", "next_delivery_id", "outgoing", "outgoing_channel",
        "output_room", "reference", "remote", "report", "state", "unsettled_limit", "window", "write_frames",
    )  # fmt: skip

    def __init__(self, connection: SessionConnection, channel: OutgoingChannel, limits: SessionLimits) -> None:
        self.connection = connection
        # what links ask of their session and the connection does: one call less for each event and frame
        self.report, self.write_frames = connection.report, connection.write_frames
        self.output_room = connection.output_room
        self._to_flush = connection.to_flush
        self.outgoing_channel: int = channel
        self.incoming_channel: IncomingChannel | None = None
        self.limits = limits
        self.state = SessionState.UNMAPPED
        self.window = SessionWindow(
            maximum=limits.max_incoming_window,
            top_up_at=limits.window_top_up,
            initial_outgoing_id=limits.initial_outgoing_id,
        )
        self.outgoing: UnsettledMap[SenderLink] = UnsettledMap()
        self.incoming: UnsettledMap[ReceiverLink] = UnsettledMap()
        self.unsettled_limit: UnsettledLimit[ReceiverLink] = UnsettledLimit(limits.unsettled_limit)
        self._due = SessionOutput(connection.refilled)
        self.dispositions = self._due.as_receiver
        self.remote: Begin | None = None
        self.reference: object = None
        """For the user of the session; this class does not read it."""
        self._links_in: dict[InputHandle, Link] = {}
        self._links_out: dict[OutputHandle, Link] = {}
        self._unanswered: dict[tuple[str, bool], list[Link]] = {}
        """Links of ours that the peer has not attached yet, by name and role of our end, in order of opening."""
        self.next_delivery_id = 0
        """The extended delivery-id of the next delivery that we send."""
        self._last_delivery_id: int | None = None

    # --- life cycle ------------------------------------------------------------------------------------------------

    @property
    def mapped(self) -> bool:
        """Both begins have been exchanged and no end has gone or come."""
        return self.state is SessionState.MAPPED

    @property
    def links(self) -> list[Link]:
        """The links with a handle of ours, in order of attaching."""
        return list(self._links_out.values())

    def link(self, handle: int) -> Link | None:
        """The link with this handle of ours, or None."""
        return self._links_out.get(OutputHandle(handle))

    @property
    def frame_size_max(self) -> int:
        """The largest frame that the peer takes, in bytes."""
        return self.connection.frame_size_max

    def begin(self, *, properties: Mapping[str, object] | None = None) -> None:
        """Send our begin, as the opening or as the answer [2.7.2]."""
        self._step(Input.OPENING_SENT)
        self._write(
            Begin(
                remote_channel=self.incoming_channel,
                next_outgoing_id=self.window.next_outgoing_id,
                incoming_window=self.window.announced,
                outgoing_window=OUTGOING_WINDOW,
                handle_max=self.limits.handle_max,
                properties=dict(properties) if properties else None,
            )
        )

    def begin_received(self, begin: Begin, channel: IncomingChannel) -> None:
        """Take the peer's begin."""
        self._step(Input.OPENING_RECEIVED)
        self.incoming_channel = channel
        self.remote = begin
        self.window.begin_received(
            next_outgoing_id=begin.next_outgoing_id,
            incoming_window=begin.incoming_window,
            outgoing_window=begin.outgoing_window,
        )
        self.report(SessionBegun(self, begin))

    def end(self, fault: AmqpError | None = None) -> None:
        """End the session from our side, with a reason if there is one [2.5.4]."""
        self.flush()
        self._step(Input.CLOSING_SENT if fault is None else Input.FAULT)
        self._drop_links()
        self._write(End(error=None if fault is None else error_from(fault)))

    def fail(self, fault: AmqpError) -> None:
        """The peer broke a rule of the session: end it with the reason, and ignore its further frames."""
        if self.state is SessionState.BEGIN_RCVD:
            self.begin()
        self.end(fault)
        self.report(SessionEnded(self, error_from(fault)))

    def end_received(self, end: End) -> None:
        """Take the peer's end, and answer it unless it is itself the answer to ours."""
        self._step(Input.CLOSING_RECEIVED)
        if self.state is SessionState.END_RCVD:
            self._drop_links()
            self.report(SessionEnded(self, end.error))
            self._step(Input.CLOSING_SENT)
            self._write(End())

    def close_incoming_window(self) -> None:
        """Publishing stops: announce a window of 0, and tolerate transfers in flight."""
        if self.window.close(self.limits.incoming_window_margin):
            self._due.flow_due = True
            self._to_flush[self] = None

    def open_incoming_window(self) -> None:
        """Publishing goes on: announce the whole window."""
        if self.window.open():
            self._due.flow_due = True
            self._to_flush[self] = None

    # --- links that we open ----------------------------------------------------------------------------------------

    def new_sender(self, name: str) -> SenderLink:
        """A sending link that is not attached yet; call its ``attach``."""
        return self._opened(SenderLink(self, LinkEnd(self, name=name, role=SENDER, handle=self._free_handle(None))))

    def new_receiver(self, name: str) -> ReceiverLink:
        """A receiving link that is not attached yet; call its ``attach``."""
        return self._opened(ReceiverLink(self, LinkEnd(self, name=name, role=RECEIVER, handle=self._free_handle(None))))

    def _opened(self, link: LinkT) -> LinkT:
        self._links_out[link.end.handle] = link
        self._unanswered.setdefault((link.end.name, link.end.role), []).append(link)
        return link

    def detach(self, link: Link, fault: AmqpError | None = None, *, closed: bool = True) -> None:
        """Detach a link from our side; frames for it are dropped until the peer's detach comes [2.6.4]."""
        self.flush()
        self._let_go(link)
        link.end.detach(fault, closed=closed)

    def refuse(self, link: Link, fault: AmqpError) -> None:
        """Refuse the attach that an event brought."""
        self._let_go(link)
        link.end.refuse(fault)

    # --- frames ----------------------------------------------------------------------------------------------------

    def frame_received(self, performative: Performative, *payload: Piece) -> bool:
        """Take a frame other than begin and end. Returns whether it is done; else it is to be given again. Raises
        SessionFault and ConnectionFault."""
        if self.state is SessionState.DISCARDING or self.state is SessionState.END_SENT:
            return True
        if not isinstance(performative, Disposition):  # one that calls for output says so itself
            self._to_flush[self] = None
        match performative:
            case Flow():
                self._flow_received(performative)
            case Transfer():
                self._transfer_received(performative, *payload)
            case Disposition():
                return self.disposition_received(
                    role=performative.role,
                    first=performative.first,
                    last=performative.first if performative.last is None else performative.last,
                    settled=performative.settled,
                    state=performative.state,
                )
            case Attach():
                self._attach_received(performative)
            case Detach():
                self._detach_received(performative)
            case _:
                raise ConnectionFault(
                    ErrorCondition.NOT_ALLOWED, f"{type(performative).__name__.lower()} inside a session"
                )
        return True

    def run_received(self, run: TransferRun) -> bool:
        """Take a run of whole deliveries from the fast path, with the same result as for its single frames. Returns
        False, and takes nothing, if the last frames on the link left a delivery incomplete."""
        link = self._links_in.get(InputHandle(run.handle))
        if isinstance(link, ReceiverLink) and link.partial is not None:
            return False
        if self.state is not SessionState.MAPPED:
            return True
        n, room = len(run.entries), max(0, self.window.incoming_window + self.window.margin)
        if taken := min(n, room):
            self.window.received(taken)
            if self.window.incoming_window <= self.window.top_up_at:
                self._to_flush[self] = None
            link = link or self._link(run.handle)  # which raises
            if link.end.state is LinkState.ATTACHED:
                try:
                    last = self._last_delivery_id
                    if last is not None and run.first_delivery_id == (last + 1) & serial.MASK:
                        first, self._last_delivery_id = last + 1, last + taken
                    else:
                        first = self.extend_delivery_id(run.first_delivery_id, taken)
                    receiving = link if isinstance(link, ReceiverLink) else self._receiving(link)  # which raises
                    receiving.run_received(run, first, 0, taken)
                except LinkFault as fault:
                    self.fail_link(link, fault)
        if n > room:
            self.window.received(n - room)  # raises
        return True

    def disposition_received(
        self, *, role: bool, first: int, last: int, settled: bool, state: DeliveryState | None
    ) -> bool:
        """Take the states of a range of deliveries [2.7.6]; wire ids, both inclusive. Returns whether all is done;
        else it is to be called again."""
        if self.state is not SessionState.MAPPED:
            return True
        span = serial.diff(last, first)
        if span < 0:
            raise SessionFault(
                ErrorCondition.INVALID_FIELD, f"disposition from {first} to {last}: last is before first"
            )
        terminal = isinstance(state, Accepted | Released | Rejected | Modified)
        if not terminal and state is not None and not isinstance(state, Received):
            raise SessionFault(ErrorCondition.NOT_IMPLEMENTED, "disposition with a state that is not known here")
        if role is RECEIVER:
            extended = serial.extend(self.next_delivery_id, first)
            self._outgoing_disposed(extended, extended + span, settled, state if terminal else None)
        elif self._last_delivery_id is not None and (settled or terminal):
            extended = serial.extend(self._last_delivery_id, first)
            return self._incoming_disposed(extended, extended + span, settled, state)
        return True

    def _incoming_disposed(self, first: int, last: int, settled: bool, state: DeliveryState | None) -> bool:
        taken = (self.incoming.settle if settled else self.incoming.overlap)(first, last, RANGES_AT_ONCE)
        by_link: dict[ReceiverLink, list[tuple[int, int]]] = {}
        for owner, begin, end, _ in taken:
            by_link.setdefault(owner, []).append((begin, end))
        for link, ranges in by_link.items():
            link.disposed_by_sender(ranges, state, settled=settled)
        self._release_held()
        return not settled or len(taken) < RANGES_AT_ONCE

    def _release_held(self) -> None:
        for link in self.unsettled_limit.released():
            link.unsettled_released()

    def _outgoing_disposed(self, first: int, last: int, settled: bool, state: DeliveryState | None) -> None:
        if state is None and not settled:
            return
        taken = self.outgoing.settle(first, last)
        if not taken:
            return
        if not settled:  # the outcome applies at once, and the disposition tells the receiver that we have settled
            self._due.as_sender.add(taken[0].first, taken[-1].last, state, settled=True)
            self._to_flush[self] = None
        by_link: dict[SenderLink, list[tuple[int, int]]] = {}
        for owner, begin, end, number in taken:
            by_link.setdefault(owner, []).append((number, number + end - begin))
        for link, ranges in by_link.items():
            self.report(DeliveriesSettled(link, ranges[0][0], ranges[-1][1], state, ranges))

    def _flow_received(self, flow: Flow) -> None:
        self.window.flow_received(
            next_incoming_id=flow.next_incoming_id,
            incoming_window=flow.incoming_window,
            next_outgoing_id=flow.next_outgoing_id,
            outgoing_window=flow.outgoing_window,
        )
        if flow.handle is None:
            if flow.drain or {flow.delivery_count, flow.link_credit, flow.available} != {None}:
                raise SessionFault(ErrorCondition.INVALID_FIELD, "a flow with fields of a link, and without its handle")
            self._count_flow("out", flow)
            if flow.echo:
                self._due.flow_due = True
            return
        link = self._link(flow.handle)
        self._count_flow("out" if isinstance(link, SenderLink) else "in", flow)
        if link.end.state is not LinkState.ATTACHED:
            return
        if flow.properties and TXN_ID in flow.properties:
            self.fail_link(link, LinkFault(ErrorCondition.NOT_IMPLEMENTED, "transactions are not implemented"))
            return
        if isinstance(link, SenderLink):
            link.credit.flow_received(
                delivery_count=flow.delivery_count, link_credit=flow.link_credit, drain=flow.drain
            )
            self.report(CreditReceived(link, flow))
        else:
            drained = link.credit.flow_received(delivery_count=flow.delivery_count, available=flow.available)
            self.report(SenderFlowReceived(link, flow, drained))
            if flow.echo:
                self._due.echoes[link] = None

    def _transfer_received(self, transfer: Transfer, *payload: Piece) -> None:
        self.window.received(1)
        link = self._link(transfer.handle)
        if not link.end.attached:
            return
        try:
            self._receiving(link).transfer_received(transfer, *payload)
        except LinkFault as fault:
            self.fail_link(link, fault)

    def _attach_received(self, attach: Attach) -> None:
        if attach.handle > self.limits.handle_max:
            raise ConnectionFault(
                ErrorCondition.FRAMING_ERROR,
                f"handle {attach.handle} is above the handle-max {self.limits.handle_max}",
            )
        handle = InputHandle(attach.handle)
        if handle in self._links_in:
            raise SessionFault(ErrorCondition.HANDLE_IN_USE, f"handle {handle} is attached already")
        link = self._awaiting_answer(attach)
        if link is None:
            link = self._new_remote_link(attach)
        link.end.attach_received(attach)
        self._links_in[handle] = link
        if link.end.state is LinkState.DETACH_SENT:
            return  # the answer came too late; the peer's detach follows
        if isinstance(link, SenderLink):
            self.report(SenderAttached(link, attach))
            return
        link.attach_received()
        if attach.initial_delivery_count is None and link.end.state is LinkState.ATTACH_RCVD:
            self.refuse(
                link,
                LinkFault(ErrorCondition.INVALID_FIELD, "a sender's attach needs an initial-delivery-count"),
            )
            return
        self.report(ReceiverAttached(link, attach))

    def _new_remote_link(self, attach: Attach) -> Link:
        """Our end of a link that the peer opens. It steals an attached link of the same name and direction."""
        role = not attach.role
        former = self.connection.link_names.claim(attach.name, role)
        if former is not None:
            former.session.fail_link(
                former.link, LinkFault(ErrorCondition.STOLEN, f"link {attach.name!r} was attached again")
            )
        end = LinkEnd(self, name=attach.name, role=role, handle=self._free_handle(attach.handle))
        link = SenderLink(self, end) if role is SENDER else ReceiverLink(self, end)
        self.connection.link_names.set_owner(attach.name, role, self, link)
        self._links_out[end.handle] = link
        return link

    def _detach_received(self, detach: Detach) -> None:
        link = self._link(detach.handle)
        answer_is_due = link.end.detach_received()
        del self._links_in[InputHandle(detach.handle)]
        if answer_is_due:
            self.flush()
            self._let_go(link)
            self.report(LinkDetached(link, detach.error, detach.closed))
            link.end.detach(closed=detach.closed)
        self._links_out.pop(link.end.handle, None)

    def fail_link(self, link: Link, fault: LinkFault) -> None:
        """Detach a link because the peer broke a rule on it, and report that to the user of the connection."""
        if not link.end.attached:
            return
        self.detach(link, fault)
        self.report(LinkDetached(link, error_from(fault), closed=True))

    # --- what links ask of their session -----------------------------------------------------------------------------

    def write(self, performative: Attach | Detach | Transfer, payload: bytes = b"") -> None:
        self.connection.write(self.outgoing_channel, performative, payload)

    def write_disposition(self, disposition: Disposition) -> None:
        self._write(disposition)

    def write_link_flow(
        self,
        *,
        handle: int,
        delivery_count: int,
        link_credit: int,
        available: int | None = None,
        drain: bool = False,
        echo: bool = False,
        properties: Mapping[str, object] | None = None,
    ) -> None:
        flow = self._session_flow()
        flow.handle, flow.available = handle, available
        flow.delivery_count, flow.link_credit = delivery_count, link_credit
        flow.drain, flow.echo, flow.properties = drain, echo, dict(properties) if properties else None
        sending = isinstance(self._links_out.get(OutputHandle(handle)), SenderLink)
        self._write_flow(flow, "out" if sending else "in")

    def extend_delivery_id(self, delivery_id: int, n: int) -> int:
        last = self._last_delivery_id
        extended = delivery_id if last is None else serial.extend(last + 1, delivery_id)
        if last is not None and extended <= last:
            raise SessionFault(
                ErrorCondition.INVALID_FIELD,
                f"delivery-id {delivery_id} does not follow {last & serial.MASK}, the last one of this session",
            )
        self._last_delivery_id = extended + n - 1
        return extended

    def hold_partial(self, partial: PartialDelivery, change_bytes: int) -> None:
        self.connection.hold_partial(partial, change_bytes)

    def wants_to_send(self, link: SenderLink) -> None:
        self._due.sending[link] = None
        self._to_flush[self] = None

    def refill_later(self, link: ReceiverLink) -> None:
        self._due.refills[link] = None
        self._to_flush[self] = None

    # --- output ----------------------------------------------------------------------------------------------------

    def send_flow(self, *, echo: bool = False) -> None:
        """Send the peer a flow with the session's own state [2.7.4]."""
        flow = self._session_flow()
        flow.echo = echo
        self._write_flow(flow, "in")

    def flush(self) -> None:
        """Put all pending frames into the output."""
        if self.state is SessionState.MAPPED:
            self._due.flush(self)

    @property
    def blocked(self) -> bool:
        """Deliveries wait for the peer's window or for the socket."""
        return self._due.blocked

    # --- inside ----------------------------------------------------------------------------------------------------

    def _session_flow(self) -> Flow:
        window = self.window
        return Flow(
            next_incoming_id=window.next_incoming_id if self.remote is not None else None,
            incoming_window=window.announced,
            next_outgoing_id=window.next_outgoing_id,
            outgoing_window=OUTGOING_WINDOW,
        )

    def _count_flow(self, direction: str, flow: Flow) -> None:
        """Count a flow by direction (``in``: about deliveries of the peer; ``out``: about ours) and by purpose."""
        if flow.handle is None:
            kind = "window"
        elif flow.drain:
            kind = "drain"
        else:
            kind = "echo" if flow.echo else "grant"
        self.connection.flow_frames[direction, kind] += 1

    def _write_flow(self, flow: Flow, direction: str) -> None:
        self._count_flow(direction, flow)
        self.write_frames(encode_flow(self.outgoing_channel, flow))

    def _write(self, performative: Performative) -> None:
        self.connection.write(self.outgoing_channel, performative, b"")

    def _link(self, handle: int) -> Link:
        link = self._links_in.get(InputHandle(handle))
        if link is None:
            raise SessionFault(ErrorCondition.UNATTACHED_HANDLE, f"handle {handle} is not attached")
        return link

    @staticmethod
    def _receiving(link: Link) -> ReceiverLink:
        if isinstance(link, SenderLink):
            raise SessionFault(
                ErrorCondition.NOT_ALLOWED,
                f"transfer on link {link.end.name!r}, of which its peer is the receiver",
            )
        return link

    def _awaiting_answer(self, attach: Attach) -> Link | None:
        """The link that we attached and that this attach answers; it may be detached again already."""
        links = self._unanswered.get((attach.name, not attach.role), [])
        link = next((link for link in links if link.end.state in (LinkState.ATTACH_SENT, LinkState.DETACH_SENT)), None)
        if link is not None:
            links.remove(link)
            if not links:
                del self._unanswered[link.end.name, link.end.role]
        return link

    def _free_handle(self, wanted: int | None) -> OutputHandle:
        """A handle that the peer accepts [2.7.2]: the wanted one if possible, else the lowest free one."""
        limit = self.remote.handle_max if self.remote is not None else serial.MASK
        if wanted is not None and wanted <= limit and OutputHandle(wanted) not in self._links_out:
            return OutputHandle(wanted)
        handle = 0
        while OutputHandle(handle) in self._links_out:
            handle += 1
        if handle > limit:
            raise SessionFault(
                ErrorCondition.RESOURCE_LIMIT_EXCEEDED, f"no handle is free: the handle-max of the peer is {limit}"
            )
        return OutputHandle(handle)

    def _let_go(self, link: Link) -> None:
        """The link ends: drop all that would be sent or settled on it."""
        link.abandon()
        if isinstance(link, SenderLink):
            self.outgoing.forget(link)
        else:
            self.incoming.forget(link)
            self.unsettled_limit.forget(link)
            self._release_held()
        self._due.forget(link)
        self.connection.link_names.release(link.end.name, link.end.role, link)

    def forget(self) -> None:
        """The session is over and its user has dropped its links: break the reference cycles, to free all at once."""
        self.unsettled_limit.clear()
        for held in (self._links_in, self._links_out, self._unanswered, self.incoming, self.outgoing, self._due):
            held.clear()
        self.reference = None

    def _drop_links(self) -> None:
        for link in self._links_out.values():
            self._let_go(link)

    def _step(self, happened: Input) -> None:
        try:
            self.state = step(SESSION, self.state, happened)
        except IllegalTransition as illegal:
            if happened in (Input.OPENING_RECEIVED, Input.CLOSING_RECEIVED):
                raise ConnectionFault(ErrorCondition.ILLEGAL_STATE, f"session: {illegal}") from illegal
            raise


SessionEvent = LinkEvent | SessionBegun[Session] | SessionEnded[Session]
