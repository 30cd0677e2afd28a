"""Consuming: the client's link credit becomes queue grants, and the engine's deliveries become transfers.

There are two ledgers: the link credit of the client (``link.credit``), and how much of it the engine holds
(``link.grant``). The engine gets the link credit in batches: of at most 256 with fixed flow control. The next batch
follows when the previous one is used up and written to the socket, and while not too much output waits there. Where an
operator, a policy or the client itself limits what a consumer holds unsettled, it gets no more than what is left of
that. An echo or a drain of the client is answered when no batch is due any more, behind the transfers of the batches.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.flow.grant_size import GrantSize
from amqp10.flow.link_credit import QueueGrant
from amqp10.flow.unsettled_bytes import UnsettledBytes
from amqp10.frontend.annotations import merge_message_annotations, with_annotations
from amqp10.frontend.headers import HeaderByAttributes
from amqp10.frontend.hop_prefix import with_routes
from amqp10.frontend.reasons import OPERATOR, first_reason
from amqp10.frontend.session_watches import session_of
from amqp10.frontend.stream_place import HEAD_BYTES, StreamPlace
from amqp10.frontend.termini import MAX_UNSETTLED_BYTES
from amqp10.protocol.events import CreditReceived, DeliveriesSettled
from amqp10.protocol.lifecycle import LinkState
from amqp10.protocol.sender_link import SETTLED, DeliveriesSent, SenderLink
from amqp10.protocol.stream_offsets import BEGINS_AT_KEY
from amqp10.wire.codec.encode import encode_value
from amqp10.wire.messaging import RELEASED, Accepted, DeliveryState, Modified, Rejected
from amqp10.wire.types import ULong
from core.counters.traffic import Traffic
from core.flow_facts import Settled
from core.interface import (
    ConsumeOptions,
    Consumer,
    Converter,
    Delivered,
    Disposal,
    Engine,
    FlowReason,
    GrantReply,
    TakenBack,
)
from core.message import UNSENT, Origin, Return, first_of
from core.observe.flow_events.accounts import LinkAccount

UNSENT_KEY = "x-opt-headgate-unsent"
"""A message annotation of the outcome modified, true: a node returns a delivery that it never sent to a client, so that
the message counts as it did before."""
CLIENT = "client"
"""The culprit when the client decided so itself."""
ACTIVE_KEY = "rabbitmq:active"
"""A property of link flows, a boolean: the consumer is the single active one. RabbitMQ's name, for its clients."""
ADDED_ANNOTATIONS_BYTES_MAX = 4096
"""Size of the annotations of one modified outcome: room for a reason and the head of a stack trace, but too small to
enlarge every message of a queue."""


def disposal_of(state: DeliveryState | None) -> Disposal | Return:
    """The engine's form of an outcome. Settling without one means the default outcome: released [3.5.3]."""
    match state:
        case Accepted():
            return Disposal.ACCEPTED
        case Rejected():
            return Disposal.REJECTED
        case Modified():
            annotations: dict[object, object] = dict((state.message_annotations or {}).items())
            if annotations.pop(UNSENT_KEY, None) is True:
                return UNSENT
            return Return(
                delivery_failed=state.delivery_failed,
                undeliverable_here=state.undeliverable_here,
                annotations=annotations or None,
            )
        case _:
            return Return()


def check_added_annotations(state: DeliveryState | None) -> None:
    """Raises LinkFault for a modified outcome with too large annotations, because they are kept for every message."""
    if not isinstance(state, Modified) or not state.message_annotations:
        return
    size = len(encode_value(state.message_annotations))
    if size > ADDED_ANNOTATIONS_BYTES_MAX:
        raise LinkFault(
            ErrorCondition.RESOURCE_LIMIT_EXCEEDED,
            f"modified with {size} bytes of message-annotations; at most {ADDED_ANNOTATIONS_BYTES_MAX} are kept",
        )


def _settled_as(state: DeliveryState | None) -> Settled:
    """The client's answer, for flow events."""
    match state:
        case Accepted():
            return Settled.ACCEPTED
        case Rejected():
            return Settled.REJECTED
        case Modified():
            return Settled.MODIFIED
        case _:
            return Settled.RELEASED


class ConsumerLink:
    """A consuming link: joins the peer's receiver, our sending end, and the engine's consumer."""

    __slots__ = (
        "_available",
        "_batch",
        "_bytes",
        "_bytes_wanted",
        "_converter",
        "_drain_due",
        "_drained",
        "_echo_due",
        "_engine",
        "_headers",
        "_leaderless",
        "_next_number",
        "_to_node",
        "_traffic",
        "bound_by_operator",
        "consumer",
        "flow",
        "grant",
        "holds",
        "link",
        "of_stream",
        "place",
        "sizes",
        "unsettled_bytes_max",
        "unsettled_max",
    )

    def __init__(
        self,
        link: SenderLink,
        *,
        engine: Engine,
        converter: Converter,
        headers: HeaderByAttributes,
        batch: int,
        traffic: Traffic,
        bytes_wanted: int | None = None,
        sizes: GrantSize | None = None,
        to_node: bool = False,
    ) -> None:
        """``bytes_wanted`` is the most bytes that its client wants to hold unsettled. ``sizes`` says how large batches
        are, unless the link sends settled; with None they have at most ``batch`` messages. ``to_node``: another node is
        at the other end, which adds to messages what clients expect."""
        self._to_node = to_node
        self.link = link
        self.sizes = sizes
        self.consumer: Consumer | None = None
        self.flow: LinkAccount | None = None
        """Records flow events of this link; None while they are not wanted."""
        self.place: StreamPlace | None = None
        """Where it stands in its stream; None for a queue."""
        self.of_stream = False
        """Its queue is a stream, which keeps delivered messages; answers to grants tell what is available to this
        consumer."""
        self.holds: frozenset[FlowReason] = frozenset()
        """Why it gets no messages, whatever link credit its client gives."""
        self.bound_by_operator: int | None = None
        """The most messages that an operator lets it hold unsettled; None without such a bound."""
        self.unsettled_max: int | None = None
        """The lower of this and the bound of the queue's policy; None without a bound."""
        self.unsettled_bytes_max: int | None = None
        """The most bytes that it may hold unsettled, as its client or the queue's policy says; None without a
        bound."""
        self._bytes: UnsettledBytes | None = None
        """What it holds, since there is a bound in bytes."""
        self._bytes_wanted = bytes_wanted
        self.grant = QueueGrant(batch)
        self._leaderless = ""
        """The queue that has lost its leader, and the consumer with it; empty while it has one."""
        self._next_number = 0
        """The delivery number after the last one that was taken."""
        link.grant = self.grant
        self._batch = batch
        self._engine = engine
        self._converter = converter
        self._headers = headers
        self._traffic = traffic
        self._echo_due = False
        self._drain_due = False
        self._drained = False
        self._available = 0

    @property
    def available(self) -> int:
        """The ready messages that the queue reported with its answer to the last grant."""
        return self._available

    def blocked_by(self, alarms: frozenset[str]) -> FlowReason | None:
        """Why we hold the link although it has link credit: a hold of ours, or another consumer is the single active
        one."""
        if not self.link.credit.link_credit:
            return None
        if self.holds:
            return first_reason(self.holds)
        if self.consumer is None:
            return FlowReason.NO_QUORUM if self._leaderless else None
        return None if self.consumer.active else FlowReason.INACTIVE

    @property
    def held_up(self) -> bool:
        """The link may get no messages for the link credit of its client."""
        return bool(self.holds or self._leaderless) or (self.consumer is not None and not self.consumer.active)

    def waits_for_client(self, *, backlog_bytes: int, ready: Callable[[str], int]) -> FlowReason | None:
        """Why waiting messages cannot be sent, if the client is the cause; otherwise None."""
        link = self.link
        if not link.idle:
            if not link.channel.window.remote_incoming_window:
                return FlowReason.SESSION_WINDOW
            return FlowReason.SOCKET if backlog_bytes else None
        if self.consumer is None or not self.consumer.active or not (self._full or link.credit.link_credit == 0):
            return None
        waiting = self._available if self.of_stream else ready(self.consumer.queue_name)
        if not waiting:
            return None
        return FlowReason.POLICY if link.credit.link_credit else FlowReason.LINK_CREDIT

    @property
    def _full(self) -> bool:
        """It holds as many unsettled messages or bytes as it may."""
        return not self.holds and (self._full_of_messages or self.full_of_bytes)

    @property
    def _full_of_messages(self) -> bool:
        return self.unsettled_max is not None and self.link.unsettled >= self.unsettled_max

    @property
    def full_of_bytes(self) -> bool:
        """It holds so many bytes that it may get nothing, or not the next message."""
        most = self.unsettled_bytes_max
        return self._bytes is not None and most is not None and self._bytes.room(most) == 0

    @property
    def unsettled_bytes(self) -> int | None:
        """Bytes that it holds unsettled, or that wait to be sent to it; None without a bound in bytes."""
        return None if self._bytes is None else self._bytes.held

    @property
    def bytes_bound_by(self) -> str | None:
        """Who has set the bound in bytes that is in force: ``client`` or ``policy``; None without one."""
        if self.unsettled_bytes_max is None:
            return None
        return CLIENT if self.unsettled_bytes_max == self._bytes_wanted else FlowReason.POLICY.value

    def culprit(self, reason: FlowReason) -> str:
        """What has to change before it gets messages, for this reason."""
        if reason is FlowReason.INACTIVE and self.consumer is not None:
            return f"active consumer of queue {self.consumer.queue_name}"
        if reason is FlowReason.POLICY and self.consumer is not None:
            policy = f"policy of queue {self.consumer.queue_name}"
            if self._full_of_messages:
                return OPERATOR if self.bound_by_operator == self.unsettled_max else policy
            return CLIENT if self.bytes_bound_by == CLIENT else policy
        if reason is FlowReason.NO_QUORUM:
            return f"queue {self._leaderless}"
        return OPERATOR if reason is FlowReason.POLICY or reason in self.holds else CLIENT

    def hold(self, reason: FlowReason) -> None:
        """Send nothing more. Waiting deliveries go back to the queue; a message that is partly sent is sent whole."""
        if reason not in self.holds:
            self.holds |= {reason}
            self._return_unsent()
            self._request(self.grant.request(0, self._untaken))

    def let_go(self, reason: FlowReason) -> None:
        """Remove one reason to hold the link."""
        if reason in self.holds:
            self.holds -= {reason}
            self.go_on()

    def bound(self, most: int | None) -> None:
        """Let the consumer hold at most so many messages unsettled; None removes the limit."""
        self.bound_by_operator = most
        self.bounds_changed()

    def bounds_changed(self) -> None:
        """Put the bounds in force. What is above them and has not been sent goes back to the queue; a client keeps what
        it has."""
        counted = self._bytes is not None
        self._find_bounds()
        self._return_unsent(all_of_them=self._bytes is not None and not counted)
        self._request(self.grant.request(self._allowed, self._untaken))

    def attach_properties(self) -> Mapping[str, object]:
        """For the answer to the attach, from which on the bounds hold: the bound in bytes, if the client wants one; and
        where in its stream the link begins, which the leader alone knows, so that the link can go on there."""
        self._find_bounds()
        told = {}
        if self._bytes_wanted is not None and self.unsettled_bytes_max is not None:
            told[MAX_UNSETTLED_BYTES] = ULong(self.unsettled_bytes_max)
        if self.consumer is not None and self.consumer.begins_at is not None:
            told[BEGINS_AT_KEY] = ULong(self.consumer.begins_at)
        return told

    def _find_bounds(self) -> None:
        """Of the bounds of the operator, the policy and the client, the one that allows less holds. Bytes are counted
        while there is a bound in bytes."""
        consumer, remote = self.consumer, self.link.end.remote
        messages = most = None
        if remote is None or remote.snd_settle_mode != SETTLED:
            messages = _least(self.bound_by_operator, None if consumer is None else consumer.unsettled_max)
            most = _least(self._bytes_wanted, None if consumer is None else consumer.unsettled_bytes_max)
        self.unsettled_max = messages
        if most is None:
            self._bytes = None
        elif self._bytes is None:
            self._bytes = UnsettledBytes()
        elif most != self.unsettled_bytes_max:
            self._bytes.full = False
        self.unsettled_bytes_max = most

    @property
    def _allowed(self) -> int:
        """The link credit in force: 0 while the link is held, and no more than the consumer may hold unsettled."""
        if self.holds:
            return 0
        most = self.link.credit.link_credit
        if self.unsettled_max is not None:
            most = min(most, max(0, self.unsettled_max - self.link.unsettled))
        if self._bytes is not None and self.unsettled_bytes_max is not None:
            most = min(most, self.link.waiting + self._bytes.room(self.unsettled_bytes_max))
        return most

    @property
    def _untaken(self) -> int:
        """How many messages the engine has delivered in actions that were not taken yet."""
        consumer = self.consumer
        return 0 if consumer is None or consumer.options.holder else consumer.next_number - self._next_number

    def tell(self, properties: Mapping[str, object]) -> None:
        """Send the peer a reason, or its end, in a flow."""
        self.link.write_flow(properties=properties)

    def activity_changed(self, *, active: bool) -> None:
        """This consumer became the single active one, or stopped being it: tell the peer before any deliveries."""
        if self.link.end.attached:
            self.tell({ACTIVE_KEY: active})

    @property
    def is_of_node(self) -> bool:
        """Whether another node consumes on it."""
        return self._to_node

    def leader_lost(self) -> None:
        """The node that led the queue leads it no more, and what the client has not settled comes again from the next
        leader. So what it has is released, and what waits is not sent. Of a stream it keeps what it has."""
        assert self.consumer is not None
        self._leaderless = self.consumer.queue_name
        self.consumer, self._drained = None, False
        if self.place is not None:  # settling what it has sent has no effect there
            self.place.withdrawn(self.link.waiting_entry(0))
            for first, last in self.link.take_back(0):
                self._gone(first, last)
        elif self._next_number:
            for first, last in self.link.release(0, self._next_number - 1):
                self._gone(first, last)

    def options_anew(self, former: Consumer) -> ConsumeOptions:
        """What the consumer of the next leader is asked for, where this was that of the last one."""
        stream = former.options.stream
        if self.place is not None and (position := self.place.next_offset(former)) is not None:
            stream = replace(stream, position=position)
        return replace(former.options, first_number=self._next_number, stream=stream)

    def continue_with(self, consumer: Consumer) -> None:
        """Consume from the next leader."""
        self.consumer, self._leaderless = consumer, ""
        self.grant.lost()  # what the client has asked meanwhile, no engine was asked
        self._find_bounds()
        self._request(self.grant.request(self._bound_batch(), self._untaken))

    def cancelled(self) -> SenderLink:
        """The engine has ended the consumer. Returns its link, which is to be detached."""
        self.consumer = None
        return self.link

    def release(self) -> None:
        """The link is over: all unsettled deliveries go back to the queue, in order."""
        if self.consumer is None:
            return
        for first, last in self.link.unsent:
            self._engine.settle(self.consumer, first, last, UNSENT)
        self._engine.cancel(self.consumer)
        self.consumer = None

    def credit_received(self, event: CreditReceived) -> None:
        """The client set its link credit: take back deliveries above it, and pass it on to the queue."""
        if self.flow is not None:
            self.flow.changed()
        bounded = self.holds or self.unsettled_max is not None or self._bytes is not None
        if bounded or self.link.waiting > self.link.credit.link_credit:
            self._return_unsent()
        self._echo_due = self._echo_due or event.flow.echo
        self._drain_due = self.link.credit.drain
        self._drained = False
        if not self._drain_due:
            self.link.cancel_drained()
        self._request(self.grant.request(self._bound_batch(), self._untaken))

    def delivered(self, action: Delivered) -> None:
        """Send messages that the queue delivered, unless the link is over. Raises LinkFault if one is larger than the
        client takes."""
        if self.link.end.state is not LinkState.ATTACHED:
            return
        entries, attributes = action.entries, action.attributes
        origin = (attributes[0] if isinstance(attributes, list) else attributes).origin
        self.grant.delivered(len(entries))
        self._next_number = action.first + len(entries)
        self._count(len(entries), redelivered=not action.first_acquirer)
        if origin is not Origin.AMQP10:
            render, first = self._converter.render, first_of(attributes)
            entries = [render(entry, first, Origin.AMQP10) for entry in entries]
        if action.annotations is not None:
            entries = [merge_message_annotations(entry, action.annotations) for entry in entries]
        prefix: bytes | list[bytes] = self._headers.of(action)
        if self._to_node:
            prefix = with_routes(prefix, action.routes)
        if not self._to_node or action.sequences is not None or action.enqueued_ms is not None:
            prefix, entries = with_annotations(
                prefix, entries, action.sequences, action.sequence_key, action.enqueued_ms
            )
        link = self.link
        behind = False
        if self._bytes is not None:
            behind = self._bytes.full and self._bytes.count > 0
            self._bytes.delivered(action.first, list(map(len, entries)))
        if self.place is not None:
            self.place.head = entries[-1][:HEAD_BYTES]
        link.send_run(action.first, entries, prefix)
        if self.sizes is not None:
            self.sizes.delivered(action.first, entries)
        if self._bytes is not None:
            self._return_unsent(len(entries) if behind else 0)
            if self.full_of_bytes:  # what is granted still would bring the same messages again
                self._request(self.grant.request(self._allowed, self._untaken))
        elif self.holds or self.unsettled_max is not None or link.waiting > link.credit.link_credit:
            self._return_unsent()

    def _count(self, n: int, *, redelivered: bool) -> None:
        traffic = self._traffic
        traffic.messages_delivered += n
        if self.link.settled:
            traffic.messages_delivered_consume_auto_ack += n
        else:
            traffic.messages_delivered_consume_manual_ack += n
        if redelivered:
            traffic.messages_redelivered += n

    def taken_back(self, action: TakenBack) -> None:
        """The queue has taken deliveries back: release those that were sent. The client has them until it settles them,
        so they count against its bounds until then. Another node learns why by the outcome."""
        state = Modified() if action.moved and self._to_node else RELEASED
        for first, last in self.link.release(action.first, action.last, state):
            self._gone(first, last)
        self.go_on()

    def replied(self, action: GrantReply) -> None:
        """The queue answered a grant."""
        self._available = action.available
        self._drained = self._drained or action.drained > 0
        newer = self.grant.replied(action.drained, self._bound_batch(), self._untaken)
        if newer is not None:
            self._drained = False
            self._request(newer)
            return
        self.go_on()

    def sent(self, event: DeliveriesSent) -> None:
        """Deliveries were written to the socket; on a settled link this settles them."""
        if self.link.settled and self.consumer is not None:
            self._engine.settle(self.consumer, event.first, event.last, Disposal.ACCEPTED)
        if self.flow is not None:
            self.flow.transferred(event.last - event.first + 1)
        self.go_on()

    def settled(self, event: DeliveriesSettled) -> None:
        """The client disposed of deliveries. Raises LinkFault for added annotations that are too large."""
        if self.consumer is not None or self._leaderless:
            _, first, last, state, ranges = event
            count = last - first + 1
            if len(ranges) > 1:
                count = sum(high - low + 1 for low, high in ranges)
            disposal: Disposal | Return = Disposal.ACCEPTED
            if isinstance(state, Accepted):
                self._traffic.messages_acknowledged += count
            else:
                check_added_annotations(state)
                disposal = disposal_of(state)
            if self.flow is not None:
                self.flow.settled(count, _settled_as(state))
            if self.consumer is not None:
                self._engine.settle(self.consumer, first, last, disposal)
            if self.sizes is not None:
                self.sizes.settled(first, last, count)
            if self._bytes is not None:
                for low, high in ranges:
                    self._bytes.gone(low, high)
                self.go_on()
            elif self.unsettled_max is not None:
                self.go_on()

    def go_on(self) -> None:
        """Ask for the next batch when it is due; when none will come, send the answers that are due."""
        grant, due = self.grant, self._drain_due or self._echo_due
        if grant.requested or self.consumer is None or (not due and (grant.outstanding or grant.waiting)):
            return
        allowed = self._bound_batch()
        exhausted = self._drained or allowed <= self.link.waiting
        if not exhausted:
            batch = self.grant.next_batch(allowed)
            if batch is not None:
                self._request(batch)
                return
        if self._drain_due and exhausted:
            self.link.answer_flow(available=self._available, drained=True)
            self._drain_due = self._echo_due = False
        elif self._echo_due and (exhausted or self.grant.outstanding):
            self.link.answer_flow(available=self._available, drained=False)
            self._echo_due = False

    def _bound_batch(self) -> int:
        """Apply the policy's bound on the queue grant, which may be below the front end's own batch and may change.
        Returns the link credit in force."""
        limit = self.consumer.link_credit_max if self.consumer is not None else None
        batch = self._batch if self.sizes is None or self.link.settled else self.sizes.size
        self.grant.batch = batch if limit is None else min(batch, limit)
        if self.holds or self.unsettled_max is not None or self._bytes is not None:
            return self._allowed
        return self.link.credit.link_credit

    def _request(self, n: int | None) -> None:
        if n is not None and self.consumer is not None:
            asked = self._echo_due or self._drain_due
            self._engine.grant(self.consumer, n, self.link.credit.drain, asked=asked)

    def _return_unsent(self, behind: int = 0, *, all_of_them: bool = False) -> None:
        """Give back to the queue what may not be sent, and the newest ``behind`` deliveries, which are behind others
        that went back."""
        if self.consumer is None:
            return
        link, most, excess = self.link, 0 if all_of_them else self._allowed, 0
        if self._bytes is not None and self.unsettled_bytes_max is not None:
            excess = max(behind, self._bytes.excess(self.unsettled_bytes_max, link.waiting))
            most = min(most, link.waiting - excess)
        if self.place is not None:
            self.place.withdrawn(link.waiting_entry(most))
        for first, last in link.take_back(most):
            self._engine.settle(self.consumer, first, last, UNSENT)
            self._gone(first, last)
        if excess and self._bytes is not None:
            self._bytes.full = True

    def _gone(self, first: int, last: int) -> None:
        """Unsent deliveries go back to the queue."""
        if self.sizes is not None:
            self.sizes.returned(first, last)
        if self._bytes is not None:
            self._bytes.gone(first, last)


def _least(*bounds: int | None) -> int | None:
    return min((most for most in bounds if most is not None), default=None)


def consumer_link(reference: object) -> ConsumerLink:
    """The consuming link that the engine's consumer refers to."""
    assert isinstance(reference, ConsumerLink)
    return reference


def deliver(action: Delivered) -> None:
    """Have the consuming link of a delivery send it, if it is still attached."""
    consumer = consumer_link(action.consumer.reference)
    try:
        consumer.delivered(action)
    except LinkFault as fault:
        session_of(consumer.link).fail_link(consumer.link, fault)


def settle(event: DeliveriesSettled) -> None:
    """Have the consuming link of deliveries that its client has settled tell the queue."""
    try:
        if isinstance(consumer := event.link.reference, ConsumerLink):
            consumer.settled(event)
    except LinkFault as fault:
        session_of(event.link).fail_link(event.link, fault)
