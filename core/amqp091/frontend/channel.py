"""One channel: a stage between the reader and the queues, which also keeps the order in which its methods are answered.

The channel processes the reader's events strictly in order, with as many publishes in a turn as the stage's budget
allows. While a method waits for the engine (basic.get, tx.commit), or the budget is used up, later events wait here. So
a consumer's acknowledgements wait behind publishes. AMQP 0.9.1 requires this order, and it is why one slow target holds
up all work on a connection. Only queue.declare and queue.delete follow each other without waiting, so that many of them
are recorded together; they too are answered in order, and a refused one is answered before a later one begins.

When the channel has processed a publish it acknowledges that to the reader (stage credit). What waits is bounded:
publishes by the stage credit, other methods by ``waiting_methods_max``, above which the reader stops too.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import ClassVar

from core.amqp091 import methods
from core.amqp091.errors import Amqp091ConnectionFault, ChannelFault, ProtocolError, ReplyCode
from core.amqp091.events import AcksReceived, MethodReceived, PublishesReceived
from core.amqp091.frontend.consumers import ConsumerMethods
from core.amqp091.frontend.consuming import FAILED, GIVEN_BACK, Consuming
from core.amqp091.frontend.definitions import Begun, DefinitionMethods
from core.amqp091.frontend.publishing import Publishing
from core.amqp091.frontend.replies import channel_fault
from core.amqp091.frontend.shared import Shared
from core.amqp091.frontend.transaction import Transaction
from core.amqp091.methods import Method
from core.clock import Now
from core.credit_flow.flow import CreditFlow
from core.errors import EngineError, StillGoing
from core.interface import Disposal, Snapshot

Work = PublishesReceived | AcksReceived | MethodReceived

LOOKS_AT_QUEUES = (methods.QueueDeclare, methods.QueuePurge, methods.QueueDelete)
"""The answers to these include the effect of all earlier publishes of the channel on the queue, so they wait for the
queues' next turn."""


METHOD_WORK = 20
"""Cost of a method that waited, in units of :mod:`core.work`."""
DUE_WORK = 80
"""The cost of a settlement or publish of a committed transaction, in these units. To settle one of 100,000 deliveries
moves the lists of all behind it."""
DROP_WORK = 100
"""Cost of freeing a part of a transaction, in the same units."""


class Channel:
    """An open channel. Raises ChannelFault and Amqp091ConnectionFault for faults of its peer."""

    __slots__ = (
        "_budget",
        "_held",
        "_queues_behind",
        "_recorded",
        "_shared",
        "_stage",
        "_subscriptions",
        "_wakes",
        "consuming",
        "definitions",
        "number",
        "publishing",
        "released",
        "stage_credit",
        "transaction",
        "waiting_publishes",
    )

    def __init__(self, number: int, shared: Shared) -> None:
        self.number = number
        self.stage_credit = CreditFlow(
            f"{shared.identity}/{number}",
            shared.stage_credit,
            blocked_time=shared.traffic.flow.stage_credit.of("channel"),
        )
        self.transaction = Transaction(shared.settings.amqp091)
        self.publishing = Publishing(number, shared, self.stage_credit, self.transaction)
        self.consuming = Consuming(number, shared)
        self.definitions = DefinitionMethods(shared)
        self.waiting_publishes = 0
        """How many messages wait in the stage."""
        self.released = False
        self._shared = shared
        self._subscriptions = ConsumerMethods(shared, self.consuming, self.definitions)
        self._stage: deque[Work] = deque()
        self._recorded: deque[Begun] = deque()
        """Declarations and deletions of queues that are being recorded."""
        self._wakes: Begun | None = None
        """The one of them that wakes the connection when it is recorded."""
        self._budget = self._messages_per_turn
        self._queues_behind = False
        """Whether messages were published since the queues' last turn."""
        self._held = False
        """Whether the first method in the stage declares something whose deletion is not complete, and was tried in
        this turn."""

    @property
    def _messages_per_turn(self) -> int:
        return self._shared.messages_per_turn

    @property
    def waiting(self) -> bool:
        """Whether a method waits for the engine's answer, or is not finished."""
        consuming = self.consuming
        return bool(self.publishing.committing or consuming.unfinished or self.transaction.dropped or consuming.getting)

    @property
    def idle(self) -> bool:
        """Whether all input was processed and answered."""
        return not (self._stage or self._recorded or self.waiting)

    def snapshot(self, now: Now) -> Snapshot:
        """The row of this channel."""
        shared, publishing, consuming = self._shared, self.publishing, self.consuming
        reading = self.stage_credit.reading(now.monotonic)
        return {
            "identity": f"{shared.identity}/{self.number}",
            "connection": shared.identity,
            "vhost": shared.connection.virtual_host,
            "channel": self.number,
            "stage_credit_state": reading.state.value,
            "stage_credit_held_up_by": list(reading.held_up_by),
            "stage_credit_blocks": self.stage_credit.blocks,
            "stage_credit_blocked_seconds": self.stage_credit.blocked_seconds(now.monotonic),
            "publishes_to": [party.name for party in self.stage_credit.peers if party is not shared.reader],
            "waiting_publishes": self.waiting_publishes,
            "published": publishing.published,
            "unconfirmed": publishing.unconfirmed,
            "confirming": publishing.confirming,
            "transactional": self.transaction.selected,
            "consumers": len(consuming.by_tag),
            "unacked": consuming.unacked,
            "prefetch_count": consuming.prefetch_count,
            "channel_prefetch_count": consuming.channel_prefetch_count,
        }

    # --- the stage ---------------------------------------------------------------------------------------------

    def take(self, work: Work, now: Now) -> None:
        """Take an event from the reader, and process it at once if none waits before it."""
        if self._stage or self._must_wait(work):
            self._put(work)
        elif isinstance(work, PublishesReceived):
            if self._shared.turn_over:  # to parse it took long
                self._put(work)
                self._shared.wake()
            elif not self._take_publishes(work, now) and self._messages_per_turn:
                self._shared.wake()
        elif self._waits_for_queues(work):
            self._put(work)
            self._shared.wake()
        else:
            self._do(work, now)

    def turn(self, now: Now) -> bool:
        """Begin a new turn with a new budget. Returns True when events are left for the next turn."""
        self._budget = self._messages_per_turn
        self._queues_behind = self._held = False
        self._answer_recorded()
        self._go_on(now)
        stage, shared = self._stage, self._shared
        while stage and not (self._held or self.released or shared.turn_over):
            if self._must_wait(stage[0]) or self._waits_for_queues(stage[0]):
                break
            work = stage.popleft()
            if isinstance(work, PublishesReceived):
                self.waiting_publishes -= work.count
                if not self._take_publishes(work, now, in_front=True):
                    break
            else:
                shared.waiting_methods -= 1
                shared.work.spent += METHOD_WORK
                self._do(work, now)
        if not stage or self.waiting or self._messages_per_turn <= 0:
            return False
        return not (self._recorded and (self._held or self._must_wait(stage[0])))  # they wake the connection

    def _waits_for_queues(self, work: Work) -> bool:
        return self._queues_behind and isinstance(work, MethodReceived) and isinstance(work.method, LOOKS_AT_QUEUES)

    def _must_wait(self, work: Work) -> bool:
        """Whether a method before this event waits for the engine."""
        if not self._recorded:
            return self.waiting
        return self.waiting or not (isinstance(work, MethodReceived) and self.definitions.joins(work.method))

    def _put(self, work: Work, *, in_front: bool = False) -> None:
        if isinstance(work, PublishesReceived):
            self.waiting_publishes += work.count
        else:
            self._shared.waiting_methods += 1
        if in_front:
            self._stage.appendleft(work)
        else:
            self._stage.append(work)

    def _take_publishes(self, work: PublishesReceived, now: Now, *, in_front: bool = False) -> bool:
        """Publish as many messages as the budget and the turn of the connection allow; the rest waits. Returns True
        when none wait."""
        waiting = None
        if work.count > self._budget:
            if not self._budget:
                self._put(work, in_front=in_front)
                return False
            waiting = work.split(self._budget)
        count = work.count
        self._queues_behind = True
        rest = self.publishing.received(work, now)
        if rest is not None:
            count -= rest.count
            waiting = rest if waiting is None else rest.followed_by(waiting)
        self._budget -= count
        if waiting is not None:
            self._put(waiting, in_front=in_front)
        return waiting is None

    # --- methods -----------------------------------------------------------------------------------------------

    def _do(self, work: AcksReceived | MethodReceived, now: Now) -> None:
        if isinstance(work, AcksReceived):
            try:
                self._settle(partial(self.consuming.acknowledge, work.ranges), len(work.ranges))
            except ProtocolError as fault:
                raise located(fault, methods.BasicAck()) from fault
            return
        method = work.method
        try:
            answer = self._answer(method, now)
        except StillGoing as going:
            self._hold(work, going)
            return
        except EngineError as error:
            if not self._recorded:
                raise located(channel_fault(error), method) from error
            self._hold(work)  # a method before it may still fail, or make what this one lacks
        except ProtocolError as fault:
            if not self._recorded:
                raise located(fault, method) from fault
            self._hold(work)
        else:
            if answer is not None:
                self._send(method, answer)
            elif self._recorded:
                self._answer_recorded()

    def _hold(self, work: MethodReceived, going: StillGoing | None = None) -> None:
        """Try a method again in the next turn, when a change before it is recorded, or when it is time."""
        self._held = True
        self._put(work, in_front=True)
        if going is not None and going.when_over is not None:
            going.when_over(self._shared.wake)
        elif not self._recorded:
            self._shared.wake()

    def _answer_recorded(self) -> None:
        """Answer the declarations and deletions that have been recorded. The first of the others wakes the connection.
        Raises ChannelFault."""
        while self._recorded:
            method, recording, answer = first = self._recorded[0]
            if not recording.done:
                if first is not self._wakes:
                    self._wakes = first
                    recording.when_done(self._shared.wake)
                return
            try:
                answered = answer()
            except EngineError as error:
                raise located(channel_fault(error), method) from error
            self._recorded.popleft()
            self._send(method, answered)

    def _send(self, method: Method, answer: Method) -> None:
        if not getattr(method, "no_wait", False):
            self._shared.connection.send(self.number, answer)

    def _answer(self, method: Method, now: Now) -> Method | None:
        if isinstance(method, methods.QueueDeclare | methods.QueueDelete) and self.definitions.joins(method):
            self._recorded.append(self.definitions.begin(method))
            return None
        if self.definitions.knows(method):
            return self.definitions.answer(method)
        if isinstance(method, methods.BasicConsume):
            self._consume(method, now)
            return None
        if isinstance(method, methods.TxCommit):
            self._commit(now)
            return None
        if self._subscriptions.knows(method):
            return self._subscriptions.answer(method)
        answer = self._ANSWERS.get(type(method))
        if answer is None:
            raise Amqp091ConnectionFault(ReplyCode.COMMAND_INVALID, f"a client may not send {type(method).__name__}")
        return answer(self, method)

    def _consume(self, method: methods.BasicConsume, now: Now) -> None:
        """Answer basic.consume before the first delivery is sent."""
        consumption = self._subscriptions.consume(method, now)
        if not method.no_wait:
            answer = methods.BasicConsumeOk(consumer_tag=consumption.consumer_tag)
            self._shared.connection.send(self.number, answer)
        self.consuming.ask(consumption)

    def _select_confirms(self, method: methods.ConfirmSelect) -> Method:
        self.publishing.confirm_from_now_on()
        return methods.ConfirmSelectOk()

    # --- acknowledgements ----------------------------------------------------------------------------------------

    def _settle(self, settlement: Callable[[], None], ranges: int = 1) -> None:
        """Settle now, or with the transaction. ``ranges`` is how many ranges of delivery tags it then holds back."""
        if self.transaction.selected:
            self.transaction.hold_acknowledgements(ranges, lambda now: settlement())
        else:
            settlement()

    def _reject(self, method: methods.BasicReject) -> None:
        how = FAILED if method.requeue else Disposal.REJECTED
        self._settle(lambda: self.consuming.settle(method.delivery_tag, how, multiple=False))

    def _nack(self, method: methods.BasicNack) -> None:
        how = GIVEN_BACK if method.requeue else Disposal.REJECTED
        self._settle(lambda: self.consuming.settle(method.delivery_tag, how, multiple=method.multiple))

    def _recover(self, method: methods.BasicRecover) -> Method:
        self._recover_async(method)
        return methods.BasicRecoverOk()

    def _recover_async(self, method: methods.BasicRecover | methods.BasicRecoverAsync) -> None:
        if not method.requeue:
            raise Amqp091ConnectionFault(ReplyCode.NOT_IMPLEMENTED, "basic.recover with requeue=false")
        self.consuming.recover()

    # --- transactions --------------------------------------------------------------------------------------------

    def _select_transactions(self, method: methods.TxSelect) -> Method:
        self.publishing.begin_transactions()
        return methods.TxSelectOk()

    def _commit(self, now: Now) -> None:
        """Begin tx.commit. It is answered when everything in the transaction is done and safe."""
        self.transaction.commit()
        self.publishing.commit()
        self._go_on(now)

    def _roll_back(self, method: methods.TxRollback) -> Method:
        self.transaction.rollback()
        if self.transaction.dropped:
            self._shared.wake()
        return methods.TxRollbackOk()

    # --- work of several turns -------------------------------------------------------------------------------------

    def _go_on(self, now: Now) -> None:
        """Continue unfinished work until the turn is over. Raises ChannelFault."""
        shared = self._shared
        while not shared.turn_over:
            if not self._step(now):
                if self.publishing.committed():
                    shared.connection.send(self.number, methods.TxCommitOk())
                return
        shared.wake()

    def _step(self, now: Now) -> bool:
        """Do one step; returns False when nothing is unfinished. Raises ChannelFault; later steps are then not done."""
        work, consuming, transaction = self._shared.work, self.consuming, self.transaction
        try:
            if consuming.unfinished:
                consuming.settle_more()
            elif transaction.due:
                work.spent += DUE_WORK
                transaction.due.popleft()(now)
            elif transaction.dropped:
                work.spent += DROP_WORK
                transaction.drop_some()
            else:
                return False
        except ChannelFault as fault:
            transaction.abandon()
            raise located(fault, methods.TxCommit() if self.publishing.committing else methods.BasicAck()) from fault
        return True

    # --- the end -------------------------------------------------------------------------------------------------

    def release(self, now: Now) -> Iterator[None]:
        """End the channel: events that were not processed are dropped. The returned iterator completes a settlement or
        commit that was begun; then unacknowledged deliveries go back to their queues, one consumer's in each step.
        """
        if self.released:
            return
        self.released = True
        self._shared.waiting_methods -= sum(not isinstance(work, PublishesReceived) for work in self._stage)
        self._stage.clear()
        self._recorded.clear()
        self._shared.reply_queues.pop(self.number, None)
        self.transaction.drop()
        self.consuming.stop()
        unfinished = True
        while unfinished:
            with suppress(ChannelFault):  # the channel is closed, so the fault cannot be reported
                unfinished = self._step(now)
            yield
        self.publishing.release()
        self.stage_credit.end(now.monotonic)
        yield from self.consuming.release()

    _ANSWERS: ClassVar[Mapping[type[Method], Callable[..., Method | None]]] = {
        methods.ConfirmSelect: _select_confirms,
        methods.TxSelect: _select_transactions,
        methods.TxRollback: _roll_back,
        methods.BasicReject: _reject,
        methods.BasicNack: _nack,
        methods.BasicRecover: _recover,
        methods.BasicRecoverAsync: _recover_async,
        methods.AccessRequest: lambda channel, method: methods.AccessRequestOk(),
    }
    """Shared by all channels: bound methods in each object would be a reference cycle, for the garbage collector to
    free."""


def located(fault: ProtocolError, method: Method) -> ProtocolError:
    """The fault, with the ids of the method that caused it."""
    fault.class_id, fault.method_id = method.ID
    return fault
