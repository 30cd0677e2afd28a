"""AMQP 1.0 on one accepted connection: turns events into engine calls, and the engine's actions into link calls.

This object joins a connection and the engine. Publishing is in ``incoming``, consuming in ``outgoing``. In one call,
waiting actions come before new bytes: a delivery is counted before a flow changes the link credit.
"""

from collections.abc import Callable, Iterator
from functools import partial

from amqp10.addresses import MANAGEMENT_ADDRESS
from amqp10.errors import AmqpError, ConnectionFault, ErrorCondition, LinkFault
from amqp10.frontend import flow_totals, termini
from amqp10.frontend.conditions import fault_of, link_fault
from amqp10.frontend.failover import no_leader
from amqp10.frontend.far_clients import subscribed
from amqp10.frontend.flow_self import FLOW_SELF, ConnectionFlow, SelfReceiver, earlier, refuse_sender
from amqp10.frontend.frame_cutter import Amqp10FrameCutter
from amqp10.frontend.headers import AttributesByHeader, HeaderByAttributes
from amqp10.frontend.held_attaches import Attached, HeldAttaches
from amqp10.frontend.incoming import PublisherLink, publisher_link
from amqp10.frontend.management_links import ManagementLinks, ManagementRequests
from amqp10.frontend.moved_links import MovedLinks
from amqp10.frontend.operating import AlarmEffects, Operating
from amqp10.frontend.outgoing import ConsumerLink, consumer_link, deliver, looks, settle
from amqp10.frontend.publisher_windows import PublisherWindows, sender_flow_received
from amqp10.frontend.reasons import BlockWatches
from amqp10.frontend.rights_rechecks import rights_rechecks
from amqp10.frontend.session_watches import SessionWatches, session_of
from amqp10.frontend.snapshots import link_identity, parts_of, stall_subject
from amqp10.frontend.virtual_host import begin_within_limits, enter_host, leaving_fault
from amqp10.management.node import ManagementNode
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
from amqp10.protocol.receiver_link import DeliveriesReceived, ReceiverLink
from amqp10.protocol.sender_link import DeliveriesSent, SenderLink
from amqp10.protocol.session import Session
from amqp10.wire.framing import Piece
from amqp10.wire.performatives import Attach, Open
from core.access.checked_engine import CheckedEngine
from core.access.entering import OnlyTheDefault, VirtualHostsByName
from core.access.rights import Rights, all_rights, no_rights
from core.clock import Now
from core.config.settings import Settings
from core.counters.traffic import Traffic
from core.errors import EngineError, HomeLost
from core.interface import (
    Action,
    ActivityChanged,
    AlarmChanged,
    BoundChanged,
    Cancelled,
    Confirmed,
    Converter,
    Delivered,
    GrantReply,
    Mailbox,
    PublisherBlocked,
    PublisherClosed,
    PublisherCredit,
    RightsChanged,
    TakenBack,
)
from core.observe.flow_events.recorder import FlowEvents
from core.observe.stalls import Stalls
from core.order_position import OrderPosition
from core.server.frame_tap import Cutters
from core.server.frontends import PeerInfo
from core.server.orders import Order
from core.work import Work

EVENT_WORK, ACTION_WORK, ACTIONS_AT_ONCE = 15, 15, 16
"""The least work of a frame or run and of an action, in units of :mod:`core.work`; actions that are taken at once."""


class Amqp10FrontEnd:
    """The :class:`core.server.frontends.FrontEnd` for AMQP 1.0."""

    __slots__ = (
        "_alarms", "_attributes", "_blocks", "_consumers", "_converter", "_dynamic", "_engine", "_eof", "_flow",
        "_headers", "_held", "_hosts", "_leader", "_lost", "_mailbox", "_management", "_moved", "_now", "_rechecks",
        "_releasing", "_rights_of", "_sessions", "_stalls", "_steps", "_until", "_wake", "_windows", "_work",
        "_work_per_turn_max", "connection", "info", "settings", "traffic",
    )  # fmt: skip

    def __init__(
        self,
        info: PeerInfo,
        *,
        mailbox: Mailbox,
        connection: Connection,
        engine: CheckedEngine,
        converter: Converter,
        management: ManagementNode,
        stalls: Stalls,
        settings: Settings,
        unique: Callable[[], str],
        wake: Callable[[], None],
        traffic: Traffic | None = None,
        flow: FlowEvents | None = None,
        work: Work | None = None,
        rights_of: Callable[[str], Rights] = all_rights,
        hosts: VirtualHostsByName | None = None,
        windows: PublisherWindows | None = None,
        order: OrderPosition | None = None,
        leader: Callable[[str | None], dict[str, object]] = no_leader,
    ) -> None:
        """``engine`` is of the default virtual host until the connection is open, then of the one of ``hosts`` that the
        client wants, with rights from ``rights_of``. ``unique`` returns the part of a dynamic node's name that no peer
        can guess; ``wake`` asks for a turn. ``leader``: what an attach is told of the node that leads its queue, None
        for this one. ``traffic``, ``flow``, ``work`` and ``order`` are of all connections."""
        self.info, self.connection = info, connection
        self.traffic, self.settings = traffic or Traffic(), settings.amqp10
        self._work, self._work_per_turn_max = work or Work(), settings.engine.work_per_turn.peer
        self._until = 0
        """This turn is over when the work counter reaches this value."""
        self._engine, self._mailbox, self._converter, self._stalls = engine, mailbox, converter, stalls
        self._rights_of, self._hosts, self._wake = rights_of, hosts or OnlyTheDefault(engine.unchecked), wake
        self._management = ManagementRequests(management, self._engine, info.identity, self.settings, self._work, wake)
        self._windows = (windows or PublisherWindows(self.settings)).of_connection(mailbox, wake)
        self._attributes, self._headers = AttributesByHeader(), HeaderByAttributes()
        self._held, self._leader = HeldAttaches(order or OrderPosition(), wake), leader
        self._dynamic = termini.DynamicNodes(connection, self._engine, owner=info.identity, unique=unique)
        self._blocks = BlockWatches(self.settings.flow_reason, stalls, partial(stall_subject, info, connection))
        self._moved: MovedLinks | None = None
        self._sessions = SessionWatches(self.traffic.flow.closed_windows)
        self._consumers: dict[ConsumerLink, None] = {}
        """The consuming links, in order of attaching."""
        self._alarms = AlarmEffects(connection, self._sessions, self._blocks, settings.cluster)
        connection.flow_frames = self.traffic.flow.flow_frames
        self._flow = ConnectionFlow(flow, info, connection, wake)
        self._releasing: Iterator[None] | None = None
        """The remaining steps of the release when the connection ends."""
        self._steps: Iterator[None] | None = None
        """What is left of an event: messages to publish, or links to release. Later events wait for these steps."""
        self._rechecks: Iterator[None] | None = None
        """The remaining checks of links against changed rights."""
        self._now, self._eof, self._lost = Now(0.0, 0.0), False, False

    # --- the server's side -------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: Now) -> bool:
        self._begin_turn(now)
        if self._mailbox.actions:
            self._take_some_actions()
        self.connection.receive_data(data, now.monotonic)
        if self._mailbox.actions or self._work.spent >= self._until:
            self.connection.end_turn()  # deliveries under the earlier link credit count before a flow changes it
        self._answer_events(now)
        waits = self._mailbox.actions or self._management.waiting or self._blocks.watches
        return bool(waits) or not self.connection.at_rest or self._steps is not None or self._flow.recorder is not None

    def receive_eof(self, now: Now) -> None:
        self._begin_turn(now)
        self._eof = True
        self._read_to_the_end(now)

    def _read_to_the_end(self, now: Now) -> None:
        """Take bytes that the peer sent before it closed, a turn at a time: at most the bytes of one read."""
        if self.connection.input_left:
            self.connection.go_on()
            self._answer_events(now)
        if not self.connection.input_left:
            self.connection.receive_eof()
            self._answer_events(now)

    def take_actions(self, now: Now) -> None:
        self._begin_turn(now)
        if self._management.waiting:  # first, within half a turn: clients expect the answer before what follows from it
            self._management.go_on((self._work.spent + self._until) // 2, self._fail_receiver)
        if self._mailbox.actions:
            self._take_some_actions()
        if self._held.waiting:
            self._left_of(self._held.answers(self._attached, now.monotonic), EVENT_WORK)
        if self._moved is not None:
            self._left_of(self._moved.attempts(self.info.identity, now.monotonic, self._detach), EVENT_WORK)
        if self._releasing is not None:
            self._releasing = self._left_of(self._releasing, EVENT_WORK)
        if self._rechecks is not None:
            self._rechecks = self._left_of(self._rechecks, 0)
        if self._management.waiting and self._management.go_on(self._until, self._fail_receiver):
            self._wake()
        if self._mailbox.actions:
            self._wake()
        elif self._eof:
            self._read_to_the_end(now)
        elif not self.connection.frames_left and self.connection.input_left:
            self.connection.go_on()
        if self._steps is not None or self.connection.events or not self.connection.exhausted:
            self._answer_events(now)

    def _begin_turn(self, now: Now) -> None:
        self._now = now
        if self._windows.timed:
            self._windows.begin_turn(now.monotonic)
        self._until = self._work.spent + min(self._work_per_turn_max, self._work.allowance)

    def _take_some_actions(self) -> None:
        work = self._work
        while self._mailbox.actions and work.spent < self._until:
            for action in self._mailbox.take(ACTIONS_AT_ONCE):
                self._take_action(action)
                work.spent += ACTION_WORK

    def pieces_to_send(self, now: Now) -> list[Piece]:
        if self._flow.recorder is not None:
            self._flow.report(now)
        pieces = self.connection.pieces_to_send(now.monotonic)
        told = self._blocks.watches and self._alarms.tell(now)
        self._alarms.refilled.clear()
        if told:
            pieces += self.connection.pieces_to_send(now.monotonic)
        if self.connection.events:
            self._answer_events(now)
        return pieces

    def output_backlog(self, waiting_bytes: int) -> None:
        self.connection.output_backlog(waiting_bytes)

    def deadline(self) -> float | None:
        deadline, next_report = self.connection.deadline(), self._blocks.deadline() if self._blocks.watches else None
        if (rights := self._engine.rights).expires_at is not None:
            deadline = earlier(deadline, rights.deadline(self._now))
        if self._windows.timed:
            deadline = earlier(deadline, self._windows.deadline)
        if self._held.waiting:
            deadline = earlier(deadline, self._held.deadline)
        if self._moved is not None:
            deadline = earlier(deadline, self._moved.deadline)
        if self.connection.backlog_bytes:
            return deadline  # no reason can be sent before the socket has taken the waiting output
        if self._flow.receiver is not None:
            next_report = earlier(next_report, self._flow.receiver.deadline())
        return deadline if next_report is None else earlier(deadline, next_report)

    def tick(self, now: Now) -> None:
        self._now = now
        self._engine.rights.tick(now)
        if self._windows.timed:
            self._windows.tick(now.monotonic, can_send=not self.connection.backlog_bytes)
        self.connection.tick(now.monotonic)
        self._answer_events(now)
        if self._held.waiting or (self._moved is not None and self._moved.waiting):
            self._wake()

    def shut_down(self, reason: str, now: Now) -> None:
        self._now = now
        self.connection.close(ConnectionFault(ErrorCondition.CONNECTION_FORCED, reason), monotonic=now.monotonic)
        self._release_all()  # no delivery can be sent to the peer or settled by it any more

    def last_words(self) -> bytes:
        return self.connection.close_for_a_bug()

    def connection_lost(self, now: Now) -> bool:
        self._begin_turn(now)
        self._read_to_the_end(now)
        if not self.connection.input_left:
            self._release_all()
        return self.connection.input_left or self._releasing is not None

    @property
    def finished(self) -> bool:
        return self.connection.finished

    @property
    def established(self) -> bool:
        return self.connection.remote is not None

    @property
    def reading(self) -> bool:
        return self.connection.reading

    def snapshot(self, kind: str, now: Now) -> list[dict[str, object]]:
        return [row for part in self.parts(kind, now) for row in part]

    def parts(self, kind: str, now: Now, identity: str | None = None) -> Iterator[list[dict[str, object]]]:
        return parts_of(kind, identity, self.info, self.connection, self._alarms.on, self._sessions, now)

    def check(self, order: Order) -> None:
        Operating(self.info, self.connection).check(order)

    def obey(self, order: Order, now: Now) -> None:
        self._now = now
        if (user := Operating(self.info, self.connection).obey(order)) is not None:
            self._blocks.look_at(user)
        self._answer_events(now)

    def cutters(self) -> Cutters:
        """See :class:`core.server.frame_tap.Traceable`."""
        return Cutters(Amqp10FrameCutter(), Amqp10FrameCutter(), self.connection.unread())

    def look(self, now: Now) -> Iterator[int]:
        """Check which consuming links wait for their client; yields between some, with the number looked at."""
        return looks(self._consumers, self._sessions, self._blocks, self.connection, self._engine, now)

    # --- events ----------------------------------------------------------------------------------------------------

    def _answer_events(self, now: Now) -> None:
        work, connection = self._work, self.connection
        while (self._steps is None or self._go_on_with_event()) and (event := connection.next_event()) is not None:
            self._answer(event, now)
            work.spent += EVENT_WORK
            if work.spent >= self._until:
                self.connection.end_turn()
        if not connection.frames_left and connection.input_left:
            self._wake()

    def _answer(self, event: Event, now: Now) -> None:
        match event:
            case DeliveriesReceived():
                if (reached := self._deliveries_received(event, now)) < len(event.entries):
                    self._steps = self._publishes_of(event, reached)
            case DeliveriesSettled():
                settle(event)
            case DeliveriesSent():
                user = event.link.reference
                if isinstance(user, ConsumerLink | ManagementLinks):
                    user.sent(event)
            case CreditReceived():
                self._credit_received(event, now)
            case ConnectionOpened():
                self._opened(event.open, now)
            case SessionBegun():
                begin_within_limits(event.session, self._engine)
            case ReceiverAttached() | SenderAttached():
                if self._alarms.node is None or not self._held.holds(event, now.monotonic):
                    self._attached(event)
            case LinkDetached():
                self._release(event.link)
            case SessionEnded():
                self._engine.end_channel()
                self._sessions.forget(event.session, now)
                self._steps = self._releases_of(event.session)
            case ConnectionClosed():
                flow_totals.connection_closed(event, self.connection, self.traffic.flow)
                self._release_all()
            case SenderFlowReceived():
                sender_flow_received(event)

    def _opened(self, remote: Open, now: Now) -> None:
        rights_of, self._rights_of = self._rights_of, no_rights  # they are asked for once
        rights = self._alarms.rights_of(remote, self.info, rights_of(self.connection.handshake.identity))
        fault = enter_host(self._engine, self._hosts, remote.hostname, rights)
        if fault := self._alarms.no_node or fault:
            self.connection.close(fault, monotonic=now.monotonic)
            return
        self.connection.open()
        self._flow.opened()
        self._alarms.on = subscribed(self._engine, self._mailbox, self.info, remote)

    def _deliveries_received(self, event: DeliveriesReceived, now: Now, begin: int = 0) -> int:
        """Take deliveries from an index on. Returns the index of the first that waits for another turn."""
        link, user = event.link, event.link.reference
        try:
            if isinstance(user, PublisherLink):
                begin = user.deliveries_received(event, now, begin=begin, until=self._until)
                if link.credit.link_credit == 0 or self._alarms.on:
                    self._blocks.look_at(user)
                return begin
            if isinstance(user, ManagementLinks):
                user.requests_received(event)
                if self._management.go_on(self._until, self._fail_receiver):
                    self._wake()
        except LinkFault as fault:
            self._fail_receiver(link, fault)
        return len(event.entries)

    def _publishes_of(self, event: DeliveriesReceived, begin: int) -> Iterator[None]:
        """Publish deliveries from an index on, at each step as many as the turn has time for."""
        while (begin := self._deliveries_received(event, self._now, begin)) < len(event.entries):
            yield

    def _fail_receiver(self, link: ReceiverLink, fault: LinkFault) -> None:
        flow_totals.message_refused(fault, self.traffic.flow)
        session_of(link).fail_link(link, fault)

    def _credit_received(self, event: CreditReceived, now: Now) -> None:
        user = event.link.reference
        if isinstance(user, ConsumerLink):
            user.credit_received(event)
            if user.held_up:
                self._blocks.look_at(user)
        elif isinstance(user, ManagementLinks):
            user.credit_received(event)
        elif isinstance(user, SelfReceiver):
            user.credit_received(event, now)

    # --- attaching ---------------------------------------------------------------------------------------------------

    def _attached(self, event: Attached) -> None:
        if isinstance(event, ReceiverAttached):
            self._publisher_attached(event.link, event.attach)
        else:
            self._consumer_attached(event.link, event.attach, self._now)

    def _publisher_attached(self, link: ReceiverLink, attach: Attach) -> None:
        session = session_of(link)
        try:
            target = termini.requested_target(attach)
            if target.address == MANAGEMENT_ADDRESS:
                self._management.links_of(session).receiver_attached(link, attach)
                return
            if target.address == FLOW_SELF:
                raise refuse_sender()
            self._alarms.check_welcome(self._engine, attach)
            queue_name = self._dynamic.make(link, attach.name, target.address) if target.dynamic else None
            effective = termini.effective_target(target, queue_name)
            engine_target = None if effective.address is None else termini.engine_target(str(effective.address))
            publisher = self._engine.publisher(self._mailbox, self.info.identity, engine_target, link)
        except (EngineError, AmqpError) as error:
            self._refuse(link, fault_of(error))
            return
        link.reference = publisher.reference = PublisherLink(
            link, publisher, name=link_identity(self.info, session, link), engine=self._engine,
            rights=self._engine.rights, attributes=self._attributes, settings=self.settings, traffic=self.traffic,
            work=self._work, from_node=self._alarms.node is not None,
        )  # fmt: skip
        self.traffic.publishers += 1
        self._engine.begin_link()
        self._alarms.publisher_attached(link.reference, session, self._now)
        link.attach(
            source=attach.source,
            target=effective,
            snd_settle_mode=attach.snd_settle_mode,
            rcv_settle_mode=attach.rcv_settle_mode,
            credit=self._windows.link_credit_rule(link.reference, self._engine, self._now.monotonic),
            max_message_size=self.settings.max_message_size,
            properties={**link.reference.attach_properties(), **self._leader(publisher.home)},
        )
        link.reference.flow = self._flow.recorder_of(link.reference)

    def _consumer_attached(self, link: SenderLink, attach: Attach, now: Now) -> None:
        session = session_of(link)
        try:
            source = termini.requested_source(attach)
            if source.address == MANAGEMENT_ADDRESS:
                self._management.links_of(session).sender_attached(link, attach)
                return
            if source.address == FLOW_SELF and not source.dynamic:
                self._flow.receiver_attached(link, attach)
                return
            self._alarms.check_welcome(self._engine, attach)
            queue_name = self._dynamic.source_queue(link, attach.name, source)
            self._engine.check_source(queue_name)
            user = ConsumerLink(
                link, engine=self._engine, converter=self._converter, headers=self._headers,
                batch=self.settings.max_queue_credit, traffic=self.traffic,
                bytes_wanted=termini.unsettled_bytes_max(attach), sizes=self._windows.grant_size(),
                to_node=self._alarms.node is not None,
            )  # fmt: skip
            queue = self._engine.queue_info(queue_name, self.info.identity)
            user.of_stream = queue.type == "stream"
            stream = termini.checked_filters(source, queue, now.wall)
            options = termini.consume_options(attach, source, stream, queue, self._alarms.node)
            user.consumer = self._engine.consume(queue_name, self._mailbox, self.info.identity, options, user)
        except (EngineError, AmqpError) as error:
            self._refuse(link, fault_of(error))
            return
        link.reference = user
        self._consumers[user] = None
        self.traffic.consumers += 1
        self._engine.begin_link()
        self._stalls.look_at(self.look, wanted=True)
        link.attach(
            source=termini.effective_source(source, queue_name, stream),
            target=attach.target,
            snd_settle_mode=1 if attach.snd_settle_mode == 1 else 0,
            rcv_settle_mode=attach.rcv_settle_mode,
            max_message_size=attach.max_message_size,
            properties={termini.QUEUE_IDENTITY: queue.identity, **user.attach_properties(), **self._leader(queue.home)},
        )
        user.flow = self._flow.recorder_of(user)

    def _refuse(self, link: SenderLink | ReceiverLink, fault: AmqpError) -> None:
        self._dynamic.delete(link)
        session_of(link).refuse(link, fault)

    # --- actions ---------------------------------------------------------------------------------------------------

    def _take_action(self, action: Action) -> None:
        match action:
            case Confirmed():
                publisher_link(action.publisher.reference).confirmed(action, self._now)
            case Delivered():
                deliver(action)
            case GrantReply():
                consumer_link(action.consumer.reference).replied(action)
            case TakenBack():
                consumer_link(action.consumer.reference).taken_back(action)
            case AlarmChanged():
                self._alarms.changed(action.alarms, self._now)
            case RightsChanged():
                self._rechecks = rights_rechecks(self.connection, self._engine, self._windows, self._work, self._detach)
                if fault := leaving_fault(self._engine):
                    self.connection.close(fault, monotonic=self._now.monotonic)
                    self._release_all()
            case PublisherClosed():
                publisher = publisher_link(action.publisher.reference)
                if publisher.target_gone(action.publisher) and not self._stays(publisher, action.error):
                    self._detach(publisher.link, link_fault(action.error))
            case Cancelled():
                consumer = consumer_link(action.consumer.reference)
                if not self._stays(consumer, action.error):
                    self._detach(consumer.cancelled(), link_fault(action.error))
            case ActivityChanged():
                consumer = consumer_link(action.consumer.reference)
                consumer.activity_changed(active=action.active)
                self._blocks.look_at(consumer)
            case BoundChanged():
                consumer_link(action.consumer.reference).bounds_changed()
            case PublisherBlocked() | PublisherCredit():
                if (publisher := publisher_link(action.publisher.reference)).link.reference is publisher:  # not over
                    self._blocks.look_at(publisher.told(action))

    def _stays(self, user: PublisherLink | ConsumerLink, error: EngineError) -> bool:
        if self._moved is None and isinstance(error, HomeLost):
            self._moved = MovedLinks(self.connection, self._engine, self._windows, self._blocks)
        return self._moved is not None and self._moved.keep(user, error, self.info.identity, self._now.monotonic)

    def _detach(self, link: SenderLink | ReceiverLink, fault: LinkFault) -> None:
        if link.end.attached:
            session_of(link).detach(link, fault)
        self._release(link)

    def _release(self, link: SenderLink | ReceiverLink) -> None:
        """The link is over: release its publisher or consumer in the engine, once."""
        self._held.forget(link)
        user, link.reference = link.reference, None
        if user is not None:
            flow_totals.link_gone(link, self.traffic.flow)
        if isinstance(user, PublisherLink | ConsumerLink):
            if self._moved is not None:
                self._moved.forget(user)
            self._blocks.forget(user, self._now)
            if user.flow is not None:
                user.flow.detached()
            user.release()
            self._engine.end_link()
            if isinstance(user, PublisherLink):
                self.traffic.publishers -= 1
            else:
                del self._consumers[user]
                self.traffic.consumers -= 1
        elif isinstance(user, ManagementLinks):
            user.released(link)
        elif isinstance(user, SelfReceiver):
            self._flow.receiver_released()
        self._dynamic.delete(link)

    def _release_all(self) -> None:
        if not self._lost:
            self._lost = True
            self._stalls.look_at(self.look, wanted=False)
            self._sessions.forget_all(self._now)
            self._releasing = self._releases()
            self._rechecks = None
        if self._releasing is not None:
            self._releasing = self._left_of(self._releasing, EVENT_WORK)

    def _releases_of(self, session: Session) -> Iterator[None]:
        """Release the links of a session, one at each step."""
        for link in session.links:
            self._release(link)
            yield
        session.forget()

    def _go_on_with_event(self) -> bool:
        """Take more steps of the last event. Returns False if the turn is over before the last step."""
        if self._work.take_steps(self._steps or iter(()), until=self._until, cost=EVENT_WORK):
            self._steps = None
        else:
            self.connection.end_turn()
        return self._steps is None

    def _releases(self) -> Iterator[None]:
        """Release all that this connection has in the engine, one link at each step."""
        yield from self._steps or ()
        for session in self.connection.all_sessions:
            yield from self._releases_of(session)
        self.connection.forget_sessions()
        self._flow.closed()
        while self._engine.unsubscribe(self._mailbox, self.info.identity):
            yield

    def _left_of(self, steps: Iterator[None], cost: int) -> Iterator[None] | None:
        """Take steps of this ``cost`` until the turn is over. Returns those that are left; they get the next turn."""
        if self._work.take_steps(steps, until=self._until, cost=cost):
            return None
        self._wake()
        return steps
