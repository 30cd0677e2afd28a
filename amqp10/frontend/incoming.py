"""Publishing: deliveries of a receiving link become runs for the engine, and its answers become dispositions.

The engine gets entries without header section and delivery-annotations: the header is rewritten for every delivery to a
consumer, and delivery-annotations are for this hop only [3.2.1, 3.2.2]. Messages that the fast path has not checked are
checked one by one (``message_check.py``). Consecutive messages become one run when they have the same header, and the
same target and routing keys; or, without x-cc, when their exchange is the same and each has a routing key of its own.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from amqp10.errors import DecodeError, ErrorCondition, LinkFault
from amqp10.flow.fair_rate import WINDOW_MAX, PublisherWindow
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.frontend import termini
from amqp10.frontend.conditions import UNCERTAIN, link_fault, settled_as
from amqp10.frontend.gathered_run import GatheredRun, Unrouted
from amqp10.frontend.headers import AttributesByHeader
from amqp10.frontend.hop_prefix import HopPrefixes
from amqp10.frontend.message_check import MessageCheck
from amqp10.frontend.reasons import OPERATOR, REASON_KEY, reason_of_alarms
from amqp10.frontend.recent_queues import RecentQueues
from amqp10.protocol.link import error_from
from amqp10.protocol.receiver_link import DeliveriesReceived, ReceiverLink
from amqp10.wire.messaging import ACCEPTED, RELEASED, DeliveryState, Rejected, Source
from amqp10.wire.plain_messages import NOT_PLAIN
from amqp10.wire.serial import MASK
from amqp10.wire.types import Symbol, ULong
from core.access.rights import Rights
from core.clock import Now
from core.config.amqp10 import Amqp10Settings
from core.counters.message_sizes import SIZES
from core.counters.traffic import Traffic
from core.errors import EngineError
from core.interface import (
    Confirmed,
    Engine,
    ExchangeTarget,
    FlowReason,
    Outcome,
    Publisher,
    PublisherBlocked,
    PublisherCredit,
    QueueTarget,
    Target,
)
from core.message import Attributes, Route, Run, by_durable
from core.observe.flow_events.accounts import LinkAccount
from core.publish_limit import PublishLimit
from core.server.arrivals import UnansweredArrivals
from core.work import AMPLE, SEARCHED_MAX, Work

REJECTED_SYMBOL = "amqp:rejected:list"
"""The descriptor of rejected, as a source lists it among its outcomes [3.4.3]; likewise the one below [3.4.5]."""
MODIFIED_SYMBOL = "amqp:modified:list"


class PublisherLink:
    """A publishing link: joins the peer's sender, our receiving end, and the engine's publisher."""

    __slots__ = (
        "_alarmed", "_arrivals", "_at_home", "_attributes", "_bound_by", "_checks", "_engine", "_held_up", "_hop",
        "_leaderless", "_route", "_settings", "_target", "_traffic", "_unasked", "_work",
        "bound_by_operator", "flow", "limits", "limits_changed", "link", "name", "paused", "publisher",
        "recent",
    )  # fmt: skip

    def __init__(
        self,
        link: ReceiverLink,
        publisher: Publisher,
        *,
        name: str,
        engine: Engine,
        rights: Rights,
        attributes: AttributesByHeader,
        settings: Amqp10Settings,
        traffic: Traffic,
        work: Work,
        from_node: bool = False,
    ) -> None:
        """``name`` is the broker's own name of the link, ``rights`` are those of the user, whose name a message's
        user-id must be. ``from_node``: another node publishes, which says how messages came into the queue."""
        self._hop = HopPrefixes() if from_node else None
        self._route: Route | None = None
        """How the messages that are being published came into the queue."""
        self.name = name
        self.link = link
        self.publisher = publisher
        self.recent: RecentQueues | None = None  # the queues that hold a link of the anonymous terminus up when full
        self.flow: LinkAccount | None = None  # records flow events of this link; None while they are not wanted
        self._engine = engine
        self._attributes = attributes
        self._settings = settings
        self._target = publisher.fixed_target
        self._checks = MessageCheck(publisher.fixed_target, rights=rights, attributes=attributes, work=work)
        self._traffic = traffic
        self._work = work
        self._arrivals = UnansweredArrivals(traffic.flow.settle_seconds)
        self._unasked = 0
        """Messages that came settled and that the engine has not answered; the next answers are counted for them."""
        self._held_up: FlowReason | None = None  # why the engine wants no more messages for the target
        self._at_home = "" if publisher.home is None else f"@{publisher.home}"  # where the target is, if not here
        self._leaderless = False  # whether the queue has lost its leader, and the publisher with it
        self._alarmed = False
        self._bound_by: int | None = None  # the bound of the policy that the link credit keeps to
        self.paused = False  # whether an operator has paused the link
        self.limits: Sequence[PublishLimit] = ()  # of its rate, also those that limit nothing now
        self.limits_changed: Callable[[], None] | None = None
        """What these limits call when they change; None before the attach."""
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
        if self.link.credit.held_back_by:
            return FlowReason.RATE_LIMIT
        if self.publisher.link_credit_max is not None or self._operator_binds:
            return FlowReason.POLICY
        if self._held_up is not None:
            return self._held_up
        if self._window is not None and self._window.held_by_bytes:
            return FlowReason.MEMORY_SHARE
        return FlowReason.STORE_SLOW if self.publisher.unsynced else FlowReason.UNCONFIRMED_LIMIT

    def culprit(self, reason: FlowReason) -> str:
        """What has to change before it can publish, for this reason."""
        match reason:
            case FlowReason.MEMORY | FlowReason.DISK:
                return f"alarm {reason.value}{self._at_home}"
            case FlowReason.STORE_SLOW:
                return "store"
            case FlowReason.PAUSED | FlowReason.DRAIN_MODE:
                return OPERATOR
            case FlowReason.RATE_LIMIT if self.link.credit.held_back_by:
                return self.link.credit.held_back_by
            case FlowReason.MEMORY_SHARE if self._window is not None:
                return f"bytes of the {self._window.byte_budget}"
            case FlowReason.UNCONFIRMED_LIMIT if self.link.credit.unsettled_full:
                return "client"
            case FlowReason.POLICY:
                return OPERATOR if self._operator_binds else f"policy of {self._where}"
        return self._where

    @property
    def _operator_binds(self) -> bool:
        """The operator's bound is lower than all other bounds."""
        return self.link.credit.ceiling < self.link.credit.maximum

    @property
    def _window(self) -> PublisherWindow | None:
        return self.link.credit.window

    @property
    def _where(self) -> str:
        match self._target:
            case QueueTarget(queue):
                return f"queue {queue}{self._at_home}"
            case ExchangeTarget(exchange):
                return f"exchange {exchange}"
        if (full_queue := self.full_queue) is not None:
            return f"queue {full_queue}"
        return "targets of its messages"

    @property
    def oldest_unconfirmed(self) -> float | None:
        """When the oldest unanswered message came (monotonic seconds)."""
        return self._arrivals.oldest

    @property
    def held_up(self) -> FlowReason | None:
        """Why the engine wants no more messages for the target; None when it takes them."""
        return self._held_up

    @property
    def full_queue(self) -> str | None:
        """The full queue that holds a link of the anonymous terminus up."""
        full = None if self.recent is None else self.recent.full
        return None if full is None else full[0]

    def told(self, action: PublisherBlocked | PublisherCredit) -> "PublisherLink":
        """The engine wants no more messages for a target of the link, or takes them again. Or the node that leads the
        target has given link credit, which is passed on as it is. Returns the link."""
        if self._leaderless or (self.recent is None and action.publisher is not self.publisher):
            return self  # it is about a leader that leads no more
        if isinstance(action, PublisherCredit):
            self.link.credit.limit = action.limit
            self.pass_credit_on()
            if self.link.credit.link_credit and self._held_up is FlowReason.NO_QUORUM:
                self._hold_up(None)  # the next leader is there
        elif self.recent is None:
            self._hold_up(None if action.reason is None else FlowReason(action.reason))
        else:
            self.recent.told(action)
            self._hold_up_by_queues(self.recent)
        return self

    def pass_credit_on(self) -> None:
        """Give the peer the link credit that the node gives that leads the target, less what that did not get."""
        credit = self.link.credit
        wanted = credit.allowed(credit.limit or 0)
        if self.link.end.attached and wanted != credit.link_credit:
            self.link.grant(wanted, covered=self.link_credit_wanted is not None)

    def target_gone(self, publisher: Publisher) -> bool:
        """A target was deleted. Returns whether it was that of the link, so that the link is over."""
        if self.recent is None or not self.recent.gone(publisher):
            return True
        self._hold_up_by_queues(self.recent)
        return False

    @property
    def is_of_node(self) -> bool:
        """Whether another node publishes on it."""
        return self._hop is not None

    def leader_lost(self) -> None:
        """The node that led the target leads it no more, and has answered what it will answer. Take all link credit
        back, until :meth:`go_on`."""
        if not self._leaderless:
            self._leaderless, self._at_home = True, ""
            self._leave()
            self.link.follow_rule(ReceiverCredit())
            if self.link.end.attached:
                self.link.write_flow()
        self._hold_up(FlowReason.NO_QUORUM)

    def go_on(self, publisher: Publisher, rule: Callable[[], ReceiverCredit]) -> None:
        """Publish to the next leader of the target. ``rule`` makes the rule for link credit of the new ``publisher``;
        what has come on the link so far has not come to that leader."""
        self._leaderless, self.publisher = False, publisher
        self._at_home = "" if publisher.home is None else f"@{publisher.home}"
        self.link.follow_rule(rule())
        if publisher.home is None:
            self._hold_up(None)

    def _leave(self) -> None:
        """The present publisher publishes no more."""
        self.link.credit.close()
        if self.limits_changed is not None:
            for limit in self.limits:
                limit.unwatch(self.limits_changed)
        self.limits, self.limits_changed = (), None
        self._engine.retire(self.publisher)

    def _hold_up_by_queues(self, recent: RecentQueues) -> None:
        full = recent.full
        self._hold_up(None if full is None else full[1])

    def _hold_up(self, reason: FlowReason | None) -> None:
        if self.flow is not None:
            self.flow.changed()
        self._held_up = reason
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

    def alarmed(self, reason: FlowReason | None) -> None:
        """An alarm takes all link credit back, with the reason; None: it is over. For a link of another node."""
        self._alarmed = reason is not None
        self._apply_ceiling()
        if self.link.end.attached:
            self.tell({REASON_KEY: None if reason is None else Symbol(reason.value)})

    def _apply_ceiling(self) -> None:
        if self.flow is not None:
            self.flow.changed()
        most = MASK if self.bound_by_operator is None else self.bound_by_operator
        self.link.credit.ceiling = 0 if self.paused or self._alarmed else most
        if self.publisher.home is not None:
            self.pass_credit_on()
        self.link.channel.refill_later(self.link)

    def link_credit_rule(self) -> ReceiverCredit:
        """The link credit rule at the attach: as configured, within the target's policy; none if it lives elsewhere."""
        if self.publisher.home is not None:
            return ReceiverCredit()
        credit = ReceiverCredit(unconfirmed_limit=self._settings.unconfirmed_limit)
        if self._alarmed:
            credit.ceiling = 0
        self._bound(credit, self.publisher.link_credit_max)
        return credit

    def _bound(self, credit: ReceiverCredit, most: int | None) -> None:
        settings = self._settings
        self._bound_by = most
        maximum = self.link_credit_max
        credit.maximum = maximum if most is None else min(most, maximum)
        credit.top_up_at = min(settings.link_credit_top_up, credit.maximum // 2)

    @property
    def link_credit_wanted(self) -> int | None:
        """The most link credit that the client can use, as it has said in its attach; None if it has not."""
        remote = self.link.end.remote
        return None if remote is None else termini.link_credit_wanted(remote)

    @property
    def link_credit_max(self) -> int:
        """The most link credit of the link where no policy bounds it."""
        settings, wanted = self._settings, self.link_credit_wanted
        if wanted is None:
            return settings.publisher_link_credit_max
        return min(wanted, settings.wanted_link_credit_max if settings.flow == "fixed" else WINDOW_MAX)

    def wanted_at_home(self) -> dict[str, object]:
        """What an attach to the node that leads the target says of the link credit that the client wants, within the
        bounds of this node; that node has bounds of its own."""
        return {} if self.link_credit_wanted is None else {termini.MAX_LINK_CREDIT: ULong(self.link_credit_max)}

    def attach_properties(self) -> dict[str, object]:
        """What the broker's attach says of the link credit that the client wants, if this node decides of it."""
        if self.link_credit_wanted is None or self.publisher.home is not None:
            return {}
        most, of_policy = self.link_credit_max, self.publisher.link_credit_max
        return {termini.MAX_LINK_CREDIT: ULong(most if of_policy is None else min(most, of_policy))}

    def tell(self, properties: Mapping[str, object]) -> None:
        """Send the peer a reason, or its end, in a flow."""
        self.link.write_flow(properties=properties)

    def release(self) -> None:
        """The link is over; messages that were published stay."""
        if not self._leaderless:
            self._leave()
        if self.recent is not None:
            self.recent.release()
        del self.publisher  # it refers to this link: breaking the cycle frees both at once

    def deliveries_received(self, event: DeliveriesReceived, now: Now, *, begin: int = 0, until: int = AMPLE) -> int:
        """Publish the messages of a run from index ``begin``. Return the index of the first that is left because the
        turn is over, which is so when the work counter has reached ``until``; the number of messages if none is left.

        Raises LinkFault for a message that ends the link; those before it are published.
        """
        if not begin:
            n = len(event.entries)
            self._traffic.messages_received += n
            sizes, header = self._traffic.sizes, len(event.header)
            if n == 1 or event.even:
                sizes.counts[bisect_left(SIZES, len(event.entries[0]) + header)] += n
                sizes.total += (len(event.entries[0]) + header) * n
            else:
                sizes.add(event.entries, header)
            if self.flow is not None:
                self.flow.transferred(n)
            if event.settled:
                self._unasked += n
            else:
                self._traffic.messages_received_confirm += n
        if self._leaderless:
            return self._release_from(begin, event)
        target = self._target
        if event.checked and target is not None and (type(target) is QueueTarget or not self._has_to_search(target)):
            attributes = self._attributes.known.get(event.header) or self._attributes.of(event.header)
            run = Run(event.first, event.entries, attributes)
            self._publish(target, run, event, now)
            return len(event.entries)
        if self._hop is None:
            return self._publish_each(event, now, begin, until)
        return self._publish_routed(event, self._hop, now)

    def _release_from(self, begin: int, event: DeliveriesReceived) -> int:
        """Release what the client has sent before it knew that the queue has no leader. What it has sent settled is
        gone, as a client that sends so accepts. Returns as :meth:`deliveries_received`."""
        n = len(event.entries) - begin
        if event.settled:
            self._unasked -= n
            self.link.confirmed(n)
        else:
            self._settle(event.first + begin, event.first + begin + n - 1, RELEASED)
        return len(event.entries)

    def _publish_routed(self, event: DeliveriesReceived, hop: HopPrefixes, now: Now) -> int:
        """Publish what another node has routed. Raises LinkFault as :meth:`deliveries_received`."""
        try:
            for start, stop, (header, size, self._route) in hop.groups(event.entries):
                part = event.part(start, stop)
                if size > len(header) and not event.checked:
                    part = part._replace(entries=[header + entry[size:] for entry in part.entries])
                self._publish_each(part, now, 0, AMPLE)
        except DecodeError as error:
            raise LinkFault(ErrorCondition.DECODE_ERROR, error.description) from error
        finally:
            self._route = None
        return len(event.entries)

    def confirmed(self, action: Confirmed, now: Now) -> None:
        """Settle deliveries with the engine's answer."""
        self._arrivals.answered(action.first, action.last, now.monotonic)
        unasked = min(n := action.last - action.first + 1, self._unasked)
        self._unasked -= unasked
        if action.outcome is Outcome.ACCEPTED:
            self._traffic.messages_confirmed += n - unasked
        elif action.outcome is Outcome.RELEASED:
            self._traffic.messages_unroutable_returned += n - unasked
            self._traffic.messages_unroutable_dropped += unasked
        if self.link.reference is not self:
            return  # the link is over: the peer gets no answer any more
        if action.publisher.link_credit_max != self._bound_by and action.publisher.home is None:
            self._bound(self.link.credit, action.publisher.link_credit_max)
        state = ACCEPTED if action.outcome is Outcome.ACCEPTED else self._state_of(action)
        self._settle(action.first, action.last, state)

    def _state_of(self, action: Confirmed) -> DeliveryState:
        if action.outcome is Outcome.RELEASED:
            return RELEASED
        if action.outcome is Outcome.UNCERTAIN:  # the nearest that a client without modified understands is released
            return UNCERTAIN if self._may_be(MODIFIED_SYMBOL) else RELEASED
        return Rejected(error=None if action.error is None else error_from(link_fault(action.error)))

    def _settle(self, first: int, last: int, state: DeliveryState) -> None:
        self.link.settle(first, last, state)  # settling looks at the link credit, too
        self.link.credit.confirmed(last - first + 1)
        if self.flow is not None:
            self.flow.settled(last - first + 1, settled_as(state))

    def _publish_each(self, event: DeliveriesReceived, now: Now, begin: int, until: int) -> int:
        """Publish messages that have to be checked, together where that is possible. Returns as
        :meth:`deliveries_received`.

        To find a route, or to decode large sections, may take milliseconds; the turn may be over then. So messages of
        the anonymous terminus go together only if the engine knows their routes, and those for an exchange that reads
        their headers are published few by few.
        """
        messages = event.entries[begin:] if begin else event.entries
        first, fixed = event.first + begin, self._target
        header_ends, addresses, attributes = self._checks.read(messages, event)
        examined = self._checks.examined
        most = self._most_together()
        gathered = GatheredRun(first, fixed)
        index = 0
        while index < len(messages):
            if fixed is not None and most == AMPLE and header_ends[index] >= 0 and not gathered.routing_keys:
                stop = header_ends.index(NOT_PLAIN, index)
                gathered.extend(messages[index:stop], header_ends[index:stop], attributes[index:stop])
                index = stop
                continue
            number = first + index
            try:
                message = examined(messages[index], header_ends[index], addresses[index], attributes[index], event)
            except LinkFault:
                self._publish_gathered(gathered, event, now)
                raise
            index += 1
            if isinstance(message, Unrouted):
                self._publish_gathered(gathered, event, now)
                gathered = GatheredRun(number + 1, fixed)
                self._unrouted(number, message, event)
                continue
            searched = fixed is None and self._has_to_search(message.target)
            if searched or not gathered.admits(message.target, message.routing_keys):
                self._publish_gathered(gathered, event, now)
                gathered = GatheredRun(number, message.target, message.routing_keys)
            gathered.entries.append(message.entry)
            gathered.attributes.append(message.attributes)
            if searched or len(gathered.entries) >= most:
                self._publish_gathered(gathered, event, now)
                gathered = GatheredRun(number + 1, fixed)
                most = self._most_together()
            if self._work.spent >= until:
                self._publish_gathered(gathered, event, now)
                return begin + index
        self._publish_gathered(gathered, event, now)
        return len(event.entries)

    def _has_to_search(self, target: Target) -> bool:
        """Whether the engine does not know the queues of this target."""
        if not isinstance(target, ExchangeTarget):
            return False
        return not self._engine.known_routes(target.exchange, (target.routing_key,))

    def _most_together(self) -> int:
        """The most messages for the target of the link that are published together."""
        return SEARCHED_MAX if self._target is not None and self._has_to_search(self._target) else AMPLE

    def _publish_gathered(self, gathered: GatheredRun, event: DeliveriesReceived, now: Now) -> None:
        if gathered.entries:
            assert gathered.target is not None
            self._work.spent += len(gathered.entries)
            self._publish(gathered.target, gathered.run(), event, now, keys=gathered.keys)

    def _publish(
        self, target: Target, run: Run, event: DeliveriesReceived, now: Now, *, keys: list[str] | None = None
    ) -> None:
        n, run.routes = len(run.entries), self._route
        try:
            if keys is None:
                self._engine.publish(self.publisher, target, run, now)
            else:
                assert isinstance(target, ExchangeTarget)
                self._engine.publish_by_keys(self.publisher, target.exchange, keys, run, now)
            if self.recent is not None and type(target) is QueueTarget:
                self.recent.used(target.queue, n)
                if self._held_up is not None and self.recent.full is None:
                    self._hold_up(None)
            if not event.settled:
                if isinstance(run.attributes, Attributes):
                    self._arrivals.came(run.first, n, durable=run.attributes.durable, now=now.monotonic)
                    return
                for start, stop, durable in by_durable(run.attributes, n):
                    self._arrivals.came(run.first + start, stop - start, durable=durable, now=now.monotonic)
        except EngineError as error:
            unrouted = Unrouted(link_fault(error))
            for number in range(run.first, run.first + n):
                self._unrouted(number, unrouted, event)

    def _unrouted(self, number: int, unrouted: Unrouted, event: DeliveriesReceived) -> None:
        """Reject the message. If it cannot be rejected, raise LinkFault to end the link [anonymous terminus 2.2.2]."""
        fault = unrouted.fault
        self.link.credit.unpublished += 1
        if event.settled or not self._may_be(REJECTED_SYMBOL):
            self.link.confirmed(1)
            tag = event.delivery_tag(number - event.first)
            raise LinkFault(fault.condition, fault.description, {"delivery-tag": tag})
        self._settle(number, number, Rejected(error=error_from(fault)))

    def _may_be(self, outcome: str) -> bool:
        """False for a source that lists its outcomes without this one [3.5.3]."""
        remote = self.link.end.remote
        source = remote.source if remote is not None else None
        return not isinstance(source, Source) or not source.outcomes or outcome in source.outcomes


def publisher_link(reference: object) -> PublisherLink:
    """The publishing link that the engine's publisher refers to."""
    assert isinstance(reference, PublisherLink)
    return reference
