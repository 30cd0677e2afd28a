"""AMQP 0.9.1 on one accepted connection: passes events and actions to channels, and decides whether the reader may
read.

This class maps engine objects to channels, and ends channels with their connection. Channels do publishing, consuming
and definitions.

The reader is the first stage that a publish passes. While it stops, the peer's bytes stay in the socket. It stops in
four cases: one of its channels has used up its stage credit; too many methods wait behind a channel; too many answers
wait for the socket; or an alarm is on and a publish has come since. Before that publish, the connection is only
*blocking*, and may consume, declare and acknowledge. A peer that is blocked by an alarm is told so, if it supports
[connection.blocked]. While the reader stops, the peer's silence is no fault.

Order within one call: waiting actions are taken before new bytes.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from core.access.checked_engine import CheckedEngine
from core.access.entering import OnlyTheDefault, VirtualHostsByName
from core.access.rights import Rights, all_rights
from core.amqp091.connection import Amqp091Connection
from core.amqp091.errors import Amqp091ConnectionFault, ChannelFault, ReplyCode
from core.amqp091.events import (
    AcksReceived,
    Amqp091ConnectionClosed,
    Amqp091ConnectionOpened,
    ChannelClosed,
    ChannelOpened,
    Event,
    MethodReceived,
    PublishesReceived,
    SecretUpdated,
)
from core.amqp091.frontend.channel import Channel
from core.amqp091.frontend.consuming import Consuming, Consumption, beyond
from core.amqp091.frontend.decode_errors import count_decode_error
from core.amqp091.frontend.flow_report import (
    StageReports,
    client_identity,
    connection_snapshot,
    flow_connection,
    stall_subject,
)
from core.amqp091.frontend.frame_cutter import Amqp091FrameCutter
from core.amqp091.frontend.moved_consumers import ATTEMPT_WORK, MovedConsumers
from core.amqp091.frontend.publishing import UNLIKE_WORK, Publishing
from core.amqp091.frontend.replies import channel_fault, held_too_long, rights_fault
from core.amqp091.frontend.rights_rechecks import rights_rechecks
from core.amqp091.frontend.secret_renewal import SecretRenewal
from core.amqp091.frontend.shared import Shared
from core.amqp091.frontend.throttle import ReaderStall, Throttle
from core.amqp091.methods import ChannelOpen, ConnectionBlocked, ConnectionUnblocked
from core.amqp091.publish_run import SINGLE_WORK, SINGLES_MAX
from core.clock import Now
from core.config.settings import Settings
from core.counters.traffic import Traffic
from core.credit_flow.flow import CreditFlow, StageCreditSpec
from core.errors import EngineError, Forbidden, HomeLost, NotFound
from core.interface import (
    Action,
    AlarmChanged,
    Cancelled,
    Confirmed,
    Converter,
    Delivered,
    FlowReason,
    GrantReply,
    Mailbox,
    RightsChanged,
    TakenBack,
)
from core.observe.flow_events.recorder import FlowEvents
from core.observe.stalls import Stalls
from core.server.drain import DRAINED
from core.server.frame_tap import Cutters
from core.server.frontends import PeerInfo
from core.server.orders import Order
from core.work import Work

BLOCKED_CAPABILITY = "connection.blocked"
CANCEL_CAPABILITY = "consumer_cancel_notify"
ACTIONS_AT_ONCE = 16
EVENT_WORK, ACTION_WORK, CHANNEL_WORK = 20, 15, 30
"""The least cost of a method or a run, of an action, and of a channel that begins or ends, in units of
:mod:`core.work`."""
RECHECK_WORK = 5
"""The least cost of checking a consumer against changed rights, in the same units."""
DELIVERED_BYTES_AT_ONCE = 256 * 1024
"""Message bytes of one delivery that are sent at once: each byte is copied three times, which takes 5 ms for 1 MiB."""
DONE = object()


def _released(channel: Channel, now: Now, then: Callable[[], None] | None) -> Iterator[None]:
    yield from channel.release(now)
    if then is not None:
        then()


class Amqp091FrontEnd:
    """The :class:`core.server.frontends.FrontEnd` for AMQP 0.9.1."""

    def __init__(
        self,
        info: PeerInfo,
        *,
        mailbox: Mailbox,
        connection: Amqp091Connection,
        engine: CheckedEngine,
        converter: Converter,
        stalls: Stalls,
        settings: Settings,
        unique: Callable[[], str],
        wake: Callable[[], None],
        traffic: Traffic | None = None,
        flow: FlowEvents | None = None,
        work: Work | None = None,
        rights_of: Callable[[str], Rights] = all_rights,
        hosts: VirtualHostsByName | None = None,
    ) -> None:
        """``engine`` gets the virtual host that the client wants, of ``hosts``, and the user's rights, from
        ``rights_of``, once the connection is open. ``unique`` returns the part of a name that must not be guessed;
        ``wake`` requests a turn. ``traffic`` has the protocol's counts, ``flow`` records flow events, ``work`` counts
        the work in the event loop."""
        self.info, self.connection = info, connection
        self.traffic = traffic or Traffic()
        stage_credit = StageCreditSpec(settings.stage_credit.initial, settings.stage_credit.more_after)
        self.reader = CreditFlow(
            info.identity,
            stage_credit,
            blocked_time=self.traffic.flow.stage_credit.of("reader"),
            unblocked=wake,
        )
        self.throttle = Throttle(self.reader)
        self._stall = ReaderStall(
            self.throttle,
            self.reader,
            stalls,
            subject_of=partial(stall_subject, info, connection),
            paused=self.traffic.flow.paused_readers,
        )
        self.channels: dict[int, Channel] = {}
        self._shared = Shared(
            identity=info.identity,
            owner=info.identity,
            engine=engine,
            converter=converter,
            mailbox=mailbox,
            connection=connection,
            reader=self.reader,
            settings=settings,
            stage_credit=stage_credit,
            unique=unique,
            wake=wake,
            traffic=self.traffic,
            work=work or Work(),
        )
        self._events_per_turn_max = settings.amqp091.events_per_turn_max
        self._flow = flow
        self._rights_of, self._hosts = rights_of, hosts or OnlyTheDefault(engine.unchecked)
        self._renewal = SecretRenewal(connection, wake)
        self._rechecking: Iterator[None] | None = None
        """The remaining channels to check against changed rights."""
        self._moved: MovedConsumers | None = None
        """None before a consumer has lost the leader of its queue."""
        self._stages: StageReports | None = None
        """None while flow events are not recorded."""
        self._releasing: deque[Iterator[None]] = deque()
        """Channels that are over, whose consumers the engine has not all been told of."""
        self._last_channel = 0
        """The number of the channel that had the last turn."""
        self._closing: dict[Channel, None] = {}
        """Channels that the peer has closed, with earlier work left."""
        self._now, self._lost = Now(0.0, 0.0), False
        self._close_due = False
        """Whether the peer has closed the connection; earlier input is still being processed."""

    # --- calls of the server -----------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: Now) -> bool:
        self._now = now
        self._shared.begin_turn()
        if self._shared.mailbox.actions:
            self._work_on(now)
        self.connection.receive_data(data, now.monotonic)
        self._read(now)
        return True

    def receive_eof(self, now: Now) -> None:
        self._shared.begin_turn()
        self.connection.receive_eof()
        self._read(now)

    def take_actions(self, now: Now) -> None:
        self._now = now
        self._shared.begin_turn()
        self._work_on(now)
        self._read(now)

    def _work_on(self, now: Now) -> None:
        """Take the engine's actions, then continue the channels' work, until this turn is over."""
        shared = self._shared
        if self._renewal.waiting and (fault := self._renewal.go_on()) is not None:
            self.connection.close(fault, now.monotonic)
            self._release_all()
        while shared.mailbox.actions and not (shared.turn_over or shared.flooded):
            actions = shared.mailbox.take(ACTIONS_AT_ONCE)
            for place, action in enumerate(actions):
                shared.work.spent += ACTION_WORK
                rest = beyond(action, DELIVERED_BYTES_AT_ONCE) if isinstance(action, Delivered) else None
                self._take_action(action)
                if rest is not None:
                    shared.mailbox.take(0, put_back=[rest, *actions[place + 1 :]])
                    break
        if shared.mailbox.actions:
            if not shared.flooded:  # otherwise the next turn comes when output has been sent
                shared.wake()
            return
        if self._releasing:
            self._go_on_releasing()
        if self._rechecking is not None:
            self._go_on_rechecking()
        if self._moved is not None and self._moved.waiting:
            steps = self._moved.attempts(now.monotonic, self._cancel)
            if not shared.work.take_steps(steps, until=shared.work_until, cost=ATTEMPT_WORK):
                shared.wake()
        busy = [channel for channel in self.channels.values() if not channel.idle]
        if len(busy) > 1:  # begin with the channel behind the one that had the last turn
            busy.sort(key=lambda channel: (channel.number <= self._last_channel, channel.number))
        for channel in busy:
            if shared.turn_over:
                shared.wake()
                break
            self._last_channel = channel.number
            if self._within(channel, partial(channel.turn, now)):
                shared.wake()
        if self._closing or self._close_due:
            self._see_to_closing(now)

    def pieces_to_send(self, now: Now) -> list[bytes | memoryview]:
        pieces = self.connection.pieces_to_send(now.monotonic)
        if pieces and (self.connection.input_left or self._shared.mailbox.actions):
            self._shared.wake()  # the waiting output may have stopped us from reading or from taking actions
        if not self._shared.backlog_bytes:
            for channel in self.channels.values():
                if channel.consuming.hungry:
                    channel.consuming.socket_ready()
        return pieces

    def output_backlog(self, waiting_bytes: int) -> None:
        self._shared.backlog_bytes = waiting_bytes

    def deadline(self) -> float | None:
        attempt = None if self._moved is None else self._moved.deadline
        ends = self.connection.deadline(), self._shared.engine.rights.deadline(self._now), attempt
        return min((end for end in ends if end is not None), default=None)

    def tick(self, now: Now) -> None:
        self._see_to_heartbeats()
        self._shared.engine.rights.tick(now)
        self.connection.tick(now.monotonic)
        self._read(now)
        if self._moved is not None and self._moved.waiting:
            self._shared.wake()

    def shut_down(self, reason: str, now: Now) -> None:
        self.connection.close(Amqp091ConnectionFault(ReplyCode.CONNECTION_FORCED, reason), now.monotonic)
        self._release_all()

    def last_words(self) -> bytes:
        return self.connection.close_for_a_bug()

    def connection_lost(self, now: Now) -> bool:
        self._now = now
        self._shared.begin_turn()
        if not self._lost:
            self._lost = True
            self._stall.end(now)
            self.reader.end(now.monotonic)
        self._release_all()
        if self._releasing or self.channels:
            return True
        if self._shared.flow is not None:
            self._shared.flow.closed()
            self._shared.flow = None
        return self._shared.engine.unsubscribe(self._shared.mailbox, self._shared.owner)

    @property
    def finished(self) -> bool:
        return self.connection.finished

    @property
    def established(self) -> bool:
        return self.connection.opened

    @property
    def reading(self) -> bool:
        return not (self._held_up or self.connection.input_left or self.connection.awaiting_answer)

    def parts(self, kind: str, now: Now, identity: str | None = None) -> Iterator[list[dict[str, object]]]:
        yield self.snapshot(kind, now)

    def snapshot(self, kind: str, now: Now) -> list[dict[str, object]]:
        match kind:
            case "connections":
                facts = self.info, self.connection, len(self.channels), self.reader, self.throttle
                return [connection_snapshot(*facts, now)]
            case "channels":
                return [channel.snapshot(now) for channel in self.channels.values()]
            case _:
                return []

    def check(self, order: Order) -> None:
        """Raises NotFound: orders name links and sessions, which AMQP 0.9.1 does not have."""
        raise NotFound(f"connection '{self.info.identity}' has no links and sessions of AMQP 1.0")

    def obey(self, order: Order, now: Now) -> None:
        """No order passes ``check``."""

    def cutters(self) -> Cutters:
        """See :class:`core.server.frame_tap.Traceable`."""
        return Cutters(Amqp091FrameCutter(), Amqp091FrameCutter(), self.connection.unread())

    # --- reading ---------------------------------------------------------------------------------------------------

    @property
    def _held_up(self) -> bool:
        """Whether no more input is to be taken now; the end of the connection is always taken."""
        shared = self._shared
        too_much = shared.flooded or shared.waiting_methods > shared.waiting_methods_max
        return self.connection.opened and (self.throttle.blocked or too_much or self._renewal.waiting)

    def _see_to_heartbeats(self) -> None:
        """Pause the check for the peer's heartbeats while we do not read, for any reason."""
        if self.connection.heartbeats_paused is not self._held_up:
            self.connection.heartbeats_paused = self._held_up

    def _read(self, now: Now) -> None:
        """Process input, as far as the stages accept it, and within the limits of one turn."""
        self._now = now
        shared = self._shared
        left = self._events_per_turn_max
        while left and not shared.turn_over and not self._held_up:
            work_left = shared.work_until - shared.work.spent
            self.connection.singles_max = min(SINGLES_MAX, max(1, work_left // (SINGLE_WORK + UNLIKE_WORK)))
            before = self.connection.work_done
            event = self.connection.next_event(self._room, now.monotonic)
            shared.work.spent += self.connection.work_done - before
            if event is None:
                break
            left -= 1
            shared.work.spent += EVENT_WORK
            self._answer(event, now)
        if (not left or shared.turn_over) and self.connection.input_left:
            shared.wake()
        self._see_to_heartbeats()
        if self._stages is not None:
            self._stages.observe([channel.stage_credit for channel in self.channels.values()])
        if self.connection.opened:
            self._stall.observe(now)
        else:
            self._stall.end(now)

    def _room(self, number: int) -> int:
        """How many publishes may be passed to a channel at once: up to the end of its stage credit, where the reader
        stops exactly, and one while an alarm is on."""
        channel = self.channels.get(number)
        if channel is None or self.throttle.alarms:
            return 1
        return max(1, self.reader.room(channel.stage_credit))

    def _answer(self, event: Event, now: Now) -> None:
        match event:
            case PublishesReceived():
                channel = self.channels[event.channel]
                self.reader.send(channel.stage_credit, event.count, now.monotonic)
                if self.throttle.publish_received():
                    self._tell_blocked()
                self._within(channel, partial(channel.take, event, now))
            case AcksReceived() | MethodReceived():
                channel = self.channels[event.channel]
                self._within(channel, partial(channel.take, event, now))
            case Amqp091ConnectionOpened():
                self._record_flow()
                host = self.connection.virtual_host
                engine = self._hosts.find(host)
                if engine is None:  # it was deleted behind the negotiation
                    self.shut_down(f"vhost {host} was deleted", now)
                    return
                self._shared.engine.enter(engine, self._rights_of(self.connection.identity).on(host))
                self._shared.mailbox.client = client_identity(self.info, self.connection)
                self.throttle.alarms = self._shared.engine.subscribe(self._shared.mailbox)
                if FlowReason.DRAIN_MODE in self.throttle.alarms:
                    self.shut_down(DRAINED, now)
            case SecretUpdated():
                self._renewal.begin(self._shared.engine.rights, event.secret)
            case ChannelOpened():
                self._shared.work.spent += CHANNEL_WORK
                if (why := self._shared.engine.begin_channel()) is not None:
                    fault = Amqp091ConnectionFault(ReplyCode.NOT_ALLOWED, why, *ChannelOpen.ID)
                    self.connection.close(fault, now.monotonic)
                    self._release_all()
                    return
                self.channels[event.channel] = Channel(event.channel, self._shared)
                self.traffic.channels += 1
                self.traffic.channels_opened += 1
            case ChannelClosed():
                self._channel_closed(event)
            case Amqp091ConnectionClosed():
                count_decode_error(event, self.connection, self.traffic.flow)
                self._close_due = event.by_peer and event.reply_code != 0
                if not self._close_due:
                    self._release_all()
        if self._close_due or self._closing:
            self._see_to_closing(now)

    def _record_flow(self) -> None:
        if self._flow is not None:
            recorder = self._shared.flow = self._flow.connection(flow_connection(self.info, self.connection))
            self._stages = None if recorder is None else StageReports(recorder, self.reader)

    def _within(self, channel: Channel, work: Callable[[], object]) -> object:
        """Run a function of a channel. A fault that it raises ends the channel, or the connection."""
        if channel.released:
            return None
        try:
            return work()
        except ChannelFault as fault:
            self._fail(channel, fault)
        except Amqp091ConnectionFault as fault:
            self.connection.close(fault, self._now.monotonic)
            self._release_all()
        return None

    # --- the ends of channels and connection -------------------------------------------------------------------------

    def _channel_closed(self, event: ChannelClosed) -> None:
        channel = self.channels.get(event.channel)
        if not event.by_peer:
            if channel is not None:
                self._release(channel)
        elif channel is None:
            self.connection.accept_channel_close(event.channel)
        else:
            self._closing[channel] = None

    def _see_to_closing(self, now: Now) -> None:
        """Answer the peer's closes of channels and connection, once all earlier input is processed and answered."""
        if self._shared.mailbox.actions:
            return
        for channel in [channel for channel in self._closing if channel.idle]:
            if self._shared.turn_over or self._releasing:
                self._shared.wake()
                return
            self._release(channel, partial(self.connection.accept_channel_close, channel.number))
        if self._close_due and all(channel.idle for channel in self.channels.values()):
            self._release_all()
            if not self._releasing:
                self._close_due = False
                self.connection.accept_close()

    def _fail(self, channel: Channel, fault: ChannelFault) -> None:
        self._release(channel)
        self.connection.fail_channel(channel.number, fault)

    def _release(self, channel: Channel, then: Callable[[], None] | None = None) -> None:
        """End a channel; ``then`` is called when the engine has been told of all its consumers."""
        self._closing.pop(channel, None)
        if self.channels.pop(channel.number, None) is not None:
            self.traffic.channels -= 1
            self._shared.engine.end_channel()
        self._shared.work.spent += CHANNEL_WORK
        self._releasing.append(_released(channel, self._now, then))
        self._go_on_releasing()

    def _go_on_releasing(self) -> None:
        releasing, shared = self._releasing, self._shared
        while releasing:
            if shared.turn_over:
                shared.wake()
                return
            if next(releasing[0], DONE) is DONE:
                releasing.popleft()

    def _release_all(self) -> None:
        self._go_on_releasing()
        for channel in list(self.channels.values()):
            if self._releasing:
                self._shared.wake()
                return
            self._release(channel)

    # --- actions ---------------------------------------------------------------------------------------------------

    def _take_action(self, action: Action) -> None:
        match action:
            case Confirmed():
                publishing = action.publisher.reference
                assert isinstance(publishing, Publishing)
                publishing.confirmed(action, self._now)
            case Delivered():
                consuming, consumption = _consumer(action.consumer.reference)
                consuming.delivered(consumption, action)
            case GrantReply():
                consuming, consumption = _consumer(action.consumer.reference)
                consuming.replied(consumption, action)
            case TakenBack():
                consuming, consumption = _consumer(action.consumer.reference)
                if action.moved:
                    consuming.taken_back(consumption, action.first, action.last)
                else:
                    self._fail_consuming(consuming, held_too_long(consuming.channel))
            case Cancelled():
                consuming, consumption = _consumer(action.consumer.reference)
                if not self._stays(consuming, consumption, action.error):
                    self._cancel(consuming, consumption, action.error)
            case AlarmChanged():
                self._alarms_changed(action.alarms)
            case RightsChanged():
                self._rechecking = self._rechecks()
                self._go_on_rechecking()
            case _:
                pass  # 0.9.1 has no method for the other actions

    def _go_on_rechecking(self) -> None:
        """Check more channels against changed rights, until the turn is over."""
        shared = self._shared
        if self._rechecking is None or shared.work.take_steps(
            self._rechecking, until=shared.work_until, cost=RECHECK_WORK
        ):
            self._rechecking = None
        else:
            shared.wake()

    def _rechecks(self) -> Iterator[None]:
        """The checks of a user whose rights have changed. A user that may not be here any more is told so at once."""
        if (fault := rights_fault(self._shared.engine)) is not None:
            self.connection.close(fault, self._now.monotonic)
            self._release_all()
            return iter(())
        return rights_rechecks(self._shared.engine, list(self.channels.values()), self._fail)

    def _fail_consuming(self, consuming: Consuming, fault: ChannelFault) -> None:
        channel = self.channels.get(consuming.channel)
        if channel is not None and channel.consuming is consuming:
            self._fail(channel, fault)

    def _stays(self, consuming: Consuming, consumption: Consumption, error: EngineError) -> bool:
        """Whether a consumer that the engine has ended goes on at the next leader of its queue."""
        if self._moved is None and isinstance(error, HomeLost):
            self._moved = MovedConsumers(self._shared)
        return self._moved is not None and self._moved.keep(consuming, consumption, error, self._now.monotonic)

    def _cancel(self, consuming: Consuming, consumption: Consumption, error: EngineError) -> None:
        """End a consumer that the engine has ended, or does not make anew."""
        if isinstance(error, Forbidden):  # its right has gone while it waited for a leader
            self._fail_consuming(consuming, channel_fault(error))
        elif consuming.queue_gone(consumption) and self._can(CANCEL_CAPABILITY):
            consuming.tell_cancelled(consumption)

    def _alarms_changed(self, alarms: frozenset[str]) -> None:
        self._drain(wanted=FlowReason.DRAIN_MODE in alarms)
        told = self.throttle.told
        self.throttle.alarms = alarms
        if told and not self.throttle.told:
            if self._can(BLOCKED_CAPABILITY):
                self.connection.send(0, ConnectionUnblocked())
            self._shared.wake()

    def _drain(self, *, wanted: bool) -> None:
        """Stop deliveries to consumers while the broker is being drained, and resume them afterwards."""
        if self._shared.drained is wanted:
            return
        self._shared.drained = wanted
        for channel in self.channels.values():
            if wanted:
                channel.consuming.hold()
            else:
                channel.consuming.ask_all()

    def _tell_blocked(self) -> None:
        if self._can(BLOCKED_CAPABILITY):
            self.connection.send(0, ConnectionBlocked(reason=self.throttle.reason))

    def _can(self, capability: str) -> bool:
        return self.connection.client_capabilities.get(capability) is True


def _consumer(reference: object) -> tuple[Consuming, Consumption]:
    assert isinstance(reference, tuple)
    consuming, consumption = reference
    assert isinstance(consuming, Consuming)
    assert isinstance(consumption, Consumption)
    return consuming, consumption
