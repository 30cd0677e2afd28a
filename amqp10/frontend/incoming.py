"""Publishing: deliveries of a receiving link become runs for the engine, and its answers become dispositions.

The engine gets entries without header section and delivery-annotations: the header is rewritten for every delivery to a
consumer, and delivery-annotations are for this hop only [3.2.1, 3.2.2]. Messages that the fast path has not checked are
checked here one by one: sections in order, no reserved annotations, and a user-id that is the peer's own. Consecutive
messages become one run when they have the same header, and the same target and routing keys; or, without x-cc, when
their exchange is the same and each has a routing key of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from amqp10.addresses import NAME_BYTES_MAX, AddressError
from amqp10.errors import AmqpError, DecodeError, ErrorCondition, LinkFault
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.frontend.conditions import link_fault
from amqp10.frontend.headers import AttributesByHeader
from amqp10.frontend.reasons import OPERATOR, reason_of_alarms
from amqp10.protocol.link import error_from
from amqp10.protocol.receiver_link import DeliveriesReceived, ReceiverLink
from amqp10.targets import parse_target
from amqp10.wire.messaging import ACCEPTED, RELEASED, DeliveryState, Rejected, Source
from amqp10.wire.sections import (
    SectionBounds,
    are_plain_annotations,
    check_annotations,
    decode_map_section,
    decode_property_fields,
    scan,
)
from amqp10.wire.serial import MASK
from amqp10.wire.types import Symbol
from core.clock import Now
from core.config.amqp10 import Amqp10Settings
from core.counters.traffic import Traffic
from core.errors import EngineError
from core.flow_facts import Settled
from core.interface import (
    Confirmed,
    Engine,
    ExchangeTarget,
    FlowReason,
    Outcome,
    Publisher,
    QueueTarget,
    Target,
)
from core.message import Attributes, Run, by_durable
from core.observe.flow_events.accounts import LinkAccount
from core.server.arrivals import UnansweredArrivals

LOOKED_INTO_BYTES_MAX = 65_536
"""Size of the largest section that is decoded: at 0.2 µs a byte that takes 13 ms, in which no other connection is
served; a maximum message of annotations would take 3 s. Sections that are not decoded may have any size."""
CC = "x-cc"
"""Message annotation with more routing keys: a list of strings."""
CC_BYTES = CC.encode()
CC_KEYS_MAX = 256
REJECTED_SYMBOL = "amqp:rejected:list"
"""The descriptor of rejected, as a source lists it among its outcomes [3.4.3]."""


@dataclass(frozen=True, slots=True)
class Unrouted:
    """A message that cannot be routed for a reason of its own, with the error for its publisher."""

    fault: LinkFault


@dataclass(slots=True)
class CheckedMessage:
    """One message after the check, with the values that the engine needs."""

    entry: bytes
    attributes: Attributes
    target: Target
    routing_keys: tuple[str, ...]


@dataclass(slots=True)
class GatheredRun:
    """Messages that go to the engine together."""

    target: Target
    """Of the first message."""
    run: Run
    keys: list[str] | None = None
    """The routing key of each message, once they differ."""

    def take(self, message: CheckedMessage) -> bool:
        """Append a message. Returns False if it cannot go together with the messages before it."""
        run, target = self.run, message.target
        if message.attributes is not run.attributes or message.routing_keys != run.routing_keys:
            return False
        if self.keys is not None or target != self.target:
            first = self.target
            if run.routing_keys or not (isinstance(first, ExchangeTarget) and isinstance(target, ExchangeTarget)):
                return False
            if first.exchange != target.exchange:
                return False
            if self.keys is None:
                self.keys = [first.routing_key] * len(run.entries)
            self.keys.append(target.routing_key)
        run.entries.append(message.entry)
        return True


class PublisherLink:
    """A publishing link: joins the peer's sender, our receiving end, and the engine's publisher."""

    __slots__ = (
        "_arrivals",
        "_attributes",
        "_bound_by",
        "_engine",
        "_held_up",
        "_identity",
        "_settings",
        "_target",
        "_traffic",
        "_unasked",
        "bound_by_operator",
        "flow",
        "link",
        "name",
        "paused",
        "publisher",
    )

    def __init__(
        self,
        link: ReceiverLink,
        publisher: Publisher,
        *,
        name: str,
        engine: Engine,
        identity: str,
        attributes: AttributesByHeader,
        settings: Amqp10Settings,
        traffic: Traffic,
    ) -> None:
        """``name`` is the broker's own name of the link, ``identity`` the user that a message's user-id must be."""
        self.name = name
        self.link = link
        self.publisher = publisher
        self.flow: LinkAccount | None = None
        """Records flow events of this link; None while they are not wanted."""
        self._engine = engine
        self._identity = identity
        self._attributes = attributes
        self._settings = settings
        self._target = publisher.fixed_target
        self._traffic = traffic
        self._arrivals = UnansweredArrivals(traffic.flow.settle_seconds)
        self._unasked = 0
        """Messages that came settled and that the engine has not answered; the next answers are counted for them."""
        self._held_up: FlowReason | None = None
        """Why the engine wants no more messages for the target; None when it takes them."""
        self._bound_by: int | None = None
        """The bound of the policy that the link credit keeps to."""
        self.paused = False
        """An operator has paused the link."""
        self.bound_by_operator: int | None = None
        """The most link credit that an operator allows; None without such a bound."""

    def __str__(self) -> str:
        return self.name

    def blocked_by(self, alarms: frozenset[str]) -> FlowReason | None:
        """Why this publisher cannot send now; None when it can."""
        if alarms:
            return reason_of_alarms(alarms)
        if self.link.credit.link_credit > 0:
            return None
        if self.paused:
            return FlowReason.PAUSED
        if self.publisher.link_credit_max is not None or self._operator_binds:
            return FlowReason.POLICY
        if self._held_up is not None:
            return self._held_up
        return FlowReason.STORE_SLOW if self.publisher.unsynced else FlowReason.UNCONFIRMED_LIMIT

    def culprit(self, reason: FlowReason) -> str:
        """What has to change before it can publish, for this reason."""
        match reason:
            case FlowReason.MEMORY | FlowReason.DISK:
                return f"alarm {reason.value}"
            case FlowReason.STORE_SLOW:
                return "store"
            case FlowReason.PAUSED | FlowReason.DRAIN_MODE:
                return OPERATOR
            case FlowReason.POLICY:
                return OPERATOR if self._operator_binds else f"policy of {self._where}"
        return self._where

    @property
    def _operator_binds(self) -> bool:
        """The operator's bound is lower than all other bounds."""
        return self.link.credit.ceiling < self.link.credit.maximum

    @property
    def _where(self) -> str:
        match self._target:
            case QueueTarget(queue):
                return f"queue {queue}"
            case ExchangeTarget(exchange):
                return f"exchange {exchange}"
        return "targets of its messages"

    @property
    def oldest_unconfirmed(self) -> float | None:
        """When the oldest unanswered message came (monotonic seconds)."""
        return self._arrivals.oldest

    def held_up(self, reason: str | None) -> None:
        """The engine wants no more messages for the target, for this reason; with None it takes them again."""
        if self.flow is not None:
            self.flow.changed()
        self._held_up = None if reason is None else FlowReason(reason)
        self.link.credit.withheld = reason is not None
        self.link.channel.refill_later(self.link)

    def pause(self, *, paused: bool) -> None:
        """Take back the link credit and give none, or give it again. Messages in flight are still accepted."""
        self.paused = paused
        self._apply_ceiling()

    def bound(self, most: int | None) -> None:
        """Limit the link credit to ``most``, at least 1, whatever the rule says; None removes the limit."""
        self.bound_by_operator = most
        self._apply_ceiling()

    def _apply_ceiling(self) -> None:
        if self.flow is not None:
            self.flow.changed()
        most = MASK if self.bound_by_operator is None else self.bound_by_operator
        self.link.credit.ceiling = 0 if self.paused else most
        self.link.channel.refill_later(self.link)

    def link_credit_rule(self) -> ReceiverCredit:
        """The link credit rule at the attach: the configured rule, within the policy of the target."""
        credit = ReceiverCredit(unconfirmed_limit=self._settings.unconfirmed_limit)
        self._bound(credit, self.publisher.link_credit_max)
        return credit

    def _bound(self, credit: ReceiverCredit, most: int | None) -> None:
        settings = self._settings
        self._bound_by = most
        credit.maximum = settings.max_link_credit if most is None else min(most, settings.max_link_credit)
        credit.top_up_at = min(settings.link_credit_top_up, credit.maximum // 2)

    def tell(self, properties: Mapping[str, object]) -> None:
        """Send the peer a reason, or its end, in a flow."""
        self.link.write_flow(properties=properties)

    def release(self) -> None:
        """The link is over; messages that were published stay."""
        self._engine.retire(self.publisher)
        del self.publisher  # it refers to this link: breaking the cycle frees both at once

    def deliveries_received(self, event: DeliveriesReceived, now: Now) -> None:
        """Publish a run. Raises LinkFault for a message that ends the link; those before it are published."""
        self._count_received(len(event.entries), settled=event.settled)
        if event.checked and self._target is not None:
            run = Run(event.first, event.entries, self._attributes.of(event.header))
            self._publish(self._target, run, event, now)
            return
        self._publish_one_by_one(event, now)

    def confirmed(self, action: Confirmed, now: Now) -> None:
        """Settle deliveries with the engine's answer."""
        self._arrivals.answered(action.first, action.last, now.monotonic)
        self._count_answered(action.last - action.first + 1, action.outcome)
        if self.link.reference is not self:
            return  # the link is over: the peer gets no answer any more
        if action.publisher.link_credit_max != self._bound_by:
            self._bound(self.link.credit, action.publisher.link_credit_max)
        self._settle(action.first, action.last, self._state_of(action))

    def _count_received(self, n: int, *, settled: bool) -> None:
        self._traffic.messages_received += n
        if self.flow is not None:
            self.flow.transferred(n)
        if settled:
            self._unasked += n
        else:
            self._traffic.messages_received_confirm += n

    def _count_answered(self, n: int, outcome: Outcome) -> None:
        unasked = min(n, self._unasked)
        self._unasked -= unasked
        if outcome is Outcome.ACCEPTED:
            self._traffic.messages_confirmed += n - unasked
        elif outcome is Outcome.RELEASED:
            self._traffic.messages_unroutable_returned += n - unasked
            self._traffic.messages_unroutable_dropped += unasked

    @staticmethod
    def _state_of(action: Confirmed) -> DeliveryState:
        if action.outcome is Outcome.ACCEPTED:
            return ACCEPTED
        if action.outcome is Outcome.RELEASED:
            return RELEASED
        return Rejected(error=None if action.error is None else error_from(link_fault(action.error)))

    def _settle(self, first: int, last: int, state: DeliveryState) -> None:
        self.link.settle(first, last, state)
        self.link.confirmed(last - first + 1)
        if self.flow is not None:
            self.flow.settled(last - first + 1, _settled_as(state))

    def _publish_one_by_one(self, event: DeliveriesReceived, now: Now) -> None:
        gathered: GatheredRun | None = None
        for index, payload in enumerate(event.entries):
            number = event.first + index
            try:
                checked = self._check(payload, event)
            except LinkFault:
                self._publish_gathered(gathered, event, now)
                raise
            if isinstance(checked, Unrouted):
                self._publish_gathered(gathered, event, now)
                gathered = None
                self._unrouted(number, checked, event)
            elif gathered is None or not gathered.take(checked):
                self._publish_gathered(gathered, event, now)
                run = Run(number, [checked.entry], checked.attributes, checked.routing_keys)
                gathered = GatheredRun(checked.target, run)
        self._publish_gathered(gathered, event, now)

    def _publish_gathered(self, gathered: "GatheredRun | None", event: DeliveriesReceived, now: Now) -> None:
        if gathered is not None:
            self._publish(gathered.target, gathered.run, event, now, keys=gathered.keys)

    def _publish(
        self, target: Target, run: Run, event: DeliveriesReceived, now: Now, *, keys: list[str] | None = None
    ) -> None:
        n = len(run.entries)
        try:
            if keys is None:
                self._engine.publish(self.publisher, target, run, now)
            else:
                assert isinstance(target, ExchangeTarget)
                self._engine.publish_by_keys(self.publisher, target.exchange, keys, run, now)
            if not event.settled:
                for start, stop, durable in by_durable(run.attributes, n):
                    self._arrivals.came(run.first + start, stop - start, durable=durable, now=now.monotonic)
        except EngineError as error:
            unrouted = Unrouted(link_fault(error))
            for number in range(run.first, run.first + n):
                self._unrouted(number, unrouted, event)

    def _check(self, payload: bytes, event: DeliveriesReceived) -> CheckedMessage | Unrouted:
        """Check one message. Raises LinkFault for one that must end the link."""
        if event.checked:
            # one body section and nothing else: no `to`, so only the anonymous terminus comes here
            return Unrouted(LinkFault(ErrorCondition.PRECONDITION_FAILED, "the message has no properties with a 'to'"))
        if not payload:
            raise LinkFault(ErrorCondition.DECODE_ERROR, "a delivery without a message: it has no section at all")
        try:
            bounds = scan(payload)
            check_sizes(bounds)
            attributes = self._attributes.of(payload[slice(*bounds.header)] if bounds.header else b"")
            routing_keys = self._routing_keys(payload, bounds)
            target = self._checked_target(payload, bounds)
        except DecodeError as error:
            raise LinkFault(ErrorCondition.DECODE_ERROR, error.description) from error
        except LinkFault as fault:
            if fault.condition == ErrorCondition.INVALID_FIELD and self._target is None:
                return Unrouted(fault)
            raise
        if isinstance(target, Unrouted):
            return target
        start = bounds.delivery_annotations or bounds.header
        return CheckedMessage(payload[start[1] :] if start else payload, attributes, target, routing_keys)

    def _routing_keys(self, payload: bytes, bounds: SectionBounds) -> tuple[str, ...]:
        """The extra keys of x-cc; raises DecodeError for reserved annotations, LinkFault for a bad x-cc."""
        if bounds.message_annotations is None:
            return ()
        if are_plain_annotations(payload, *bounds.message_annotations, without=CC_BYTES):
            return ()
        annotations = decode_map_section(payload, *bounds.message_annotations)
        check_annotations(annotations)
        keys = annotations.get(Symbol(CC))
        if keys is None:
            return ()
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise LinkFault(ErrorCondition.INVALID_FIELD, f"{CC} must be a list of strings")
        if len(keys) > CC_KEYS_MAX or any(len(key.encode()) > NAME_BYTES_MAX for key in keys):
            raise LinkFault(
                ErrorCondition.INVALID_FIELD, f"{CC} may have {CC_KEYS_MAX} keys of {NAME_BYTES_MAX} bytes at most"
            )
        return tuple(str(key) for key in keys)

    def _checked_target(self, payload: bytes, bounds: SectionBounds) -> Target | Unrouted:
        if bounds.properties is None:
            if self._target is None:
                return Unrouted(
                    LinkFault(ErrorCondition.PRECONDITION_FAILED, "the message has no properties with a 'to'")
                )
            return self._target
        properties = decode_property_fields(payload, *bounds.properties)
        if properties.user_id is not None and properties.user_id != self._identity.encode():
            raise LinkFault(
                ErrorCondition.UNAUTHORIZED_ACCESS, "the message's user-id is not the user of this connection"
            )
        if self._target is not None:
            return self._target
        if not isinstance(properties.to, str):
            return Unrouted(LinkFault(ErrorCondition.PRECONDITION_FAILED, "the message's 'to' is not set"))
        try:
            return parse_target(properties.to)
        except AddressError as error:
            return Unrouted(LinkFault(ErrorCondition.PRECONDITION_FAILED, str(error)))

    def _unrouted(self, number: int, unrouted: Unrouted, event: DeliveriesReceived) -> None:
        """Reject the message. If it cannot be rejected, raise LinkFault to end the link [anonymous terminus 2.2.2]."""
        fault = unrouted.fault
        if event.settled or not self._may_be_rejected():
            self.link.confirmed(1)
            tag = event.delivery_tag(number - event.first)
            raise LinkFault(fault.condition, fault.description, {"delivery-tag": tag})
        self._settle(number, number, Rejected(error=error_from(fault)))

    def _may_be_rejected(self) -> bool:
        """False for a source that lists its outcomes without rejected [3.5.3]."""
        remote = self.link.end.remote
        source = remote.source if remote is not None else None
        return not isinstance(source, Source) or not source.outcomes or REJECTED_SYMBOL in source.outcomes


def _settled_as(state: DeliveryState) -> Settled:
    """The broker's answer, for flow events."""
    if state is ACCEPTED:
        return Settled.ACCEPTED
    return Settled.RELEASED if state is RELEASED else Settled.REJECTED


def check_sizes(bounds: SectionBounds) -> None:
    """Raises LinkFault for a message with sections so large that decoding them would delay all other connections."""
    for looked_into in (bounds.header, bounds.message_annotations, bounds.properties):
        if looked_into is not None and looked_into[1] - looked_into[0] > LOOKED_INTO_BYTES_MAX:
            raise LinkFault(
                ErrorCondition.RESOURCE_LIMIT_EXCEEDED,
                f"a section of {looked_into[1] - looked_into[0]} bytes; header, message-annotations and properties may"
                f" have {LOOKED_INTO_BYTES_MAX} each",
            )


def fault_of(error: EngineError | AmqpError) -> AmqpError:
    """The link fault for the error that refused an attach."""
    return link_fault(error) if isinstance(error, EngineError) else error
