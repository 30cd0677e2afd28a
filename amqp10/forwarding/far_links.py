"""The links to another node: each is attached for one outlet or inlet of a remote queue, and says so to no other.

Links publish unsettled, so that every message is answered. Consumers' deliveries are settled by the consumer's own
outcome. A link that its user has closed is detached as soon as it is attached.
"""

from collections.abc import Mapping

from amqp10.addresses import queue_address
from amqp10.errors import DecodeError, ErrorCondition, LinkFault
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.forwarding.link_host import LinkHost
from amqp10.frontend.conditions import CONDITIONS
from amqp10.frontend.far_clients import client_properties
from amqp10.frontend.hop_prefix import with_routes
from amqp10.frontend.incoming import PublisherLink
from amqp10.frontend.outgoing import ACTIVE_KEY, UNSENT_KEY
from amqp10.frontend.reasons import REASON_KEY
from amqp10.frontend.stream_filters import filters_for
from amqp10.frontend.termini import GETTER_KEY
from amqp10.protocol.events import CreditReceived, DeliveriesSettled, SenderFlowReceived
from amqp10.protocol.receiver_link import DeliveriesReceived, IncomingOutcome, ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session import Session
from amqp10.protocol.stream_offsets import BEGINS_AT_KEY
from amqp10.wire.messaging import (
    ACCEPTED,
    RELEASED,
    Accepted,
    DeliveryState,
    Error,
    Modified,
    Rejected,
    Source,
    Target,
)
from amqp10.wire.sections import Header, encode_header
from amqp10.wire.types import Int, Symbol, UInt, ULong
from core.engine.forwarding.inlet import Inlet
from core.engine.forwarding.outlet import Outlet
from core.errors import EngineError, PreconditionFailed
from core.interface import ConsumeOptions, Disposal, FlowReason, Outcome, Publisher
from core.message import DEFAULT_PRIORITY, Attributes, Origin, Return, RunPart, first_of

UNSETTLED, FIRST = 0, 0
"""snd-settle-mode and rcv-settle-mode [2.8.2, 2.8.3]."""
HEADERS_KEPT = 256
ERRORS: Mapping[str, type[EngineError]] = {
    condition.value: kind for kind, condition in reversed(list(CONDITIONS.items()))
}
"""The engine's error for a condition; the first kind in ``CONDITIONS`` that has it."""


class FarSenderLink:
    """A link that publishes to a queue; see :class:`core.engine.forwarding.links.FarSender`."""

    __slots__ = ("_headers", "_host", "_queue", "_user", "link")

    def __init__(self, host: LinkHost, queue: str, user: Outlet) -> None:
        self.link: SenderLink | None = None
        self._host = host
        self._queue = queue
        self._user: Outlet | None = user
        self._headers: dict[Attributes, bytes] = {}

    @property
    def room(self) -> int:
        link = self.link
        if link is None or not link.end.attached:
            return 0
        return max(0, link.credit.link_credit - link.waiting)

    def send(self, first: int, part: RunPart) -> None:
        link, entries, attributes = self.link, part.entries, part.attributes
        assert link is not None
        assert self._user is not None
        if first_of(attributes).origin is not Origin.AMQP10:
            entries = self._rendered(entries, attributes)
        header = [self._header(one) for one in attributes] if isinstance(attributes, list) else self._header(attributes)
        if part.run.routes is not None:
            header = with_routes(header, part.routes)
        try:
            link.send_run(first, entries if entries is not part.run.entries else entries.copy(), header)
        except LinkFault as fault:
            error = PreconditionFailed(fault.description)
            self._user.answered(first, first + len(part) - 1, Outcome.REJECTED, error)
        self._host.touch()

    def close(self) -> None:
        self._user = None
        self._host.detach(self.link)
        self._host.forget(self)

    # --- what the connection tells -----------------------------------------------------------------------------

    def attach(self, session: Session) -> None:
        """Attach on this session."""
        publisher = None if self._user is None else self._user.publisher
        self.link = session.new_sender(self._host.next_link_name())
        self.link.reference = self
        self.link.attach(
            source=Source(),
            target=Target(address=queue_address(self._queue)),
            snd_settle_mode=UNSETTLED,
            rcv_settle_mode=FIRST,
            properties=self._host.attach_properties
            | client_properties(None if publisher is None else publisher.mailbox.client)
            | _wanted_link_credit(publisher),
        )

    def attach_answered(self) -> None:
        """The other node has attached; its link credit follows."""
        if self._user is None:
            self._host.detach(self.link)

    def event_received(self, event: CreditReceived | DeliveriesSettled) -> None:
        """The other node has given link credit, or has answered messages."""
        user = self._user
        if user is None:
            return
        if isinstance(event, CreditReceived):
            self._credit_received(event, user)
            return
        outcome, error = outcome_of(event.state)
        for first, last in event.ranges:
            user.answered(first, last, outcome, error)

    def lost(self, error: EngineError) -> None:
        """The link is over."""
        user, self._user, self.link = self._user, None, None
        if user is not None:
            user.link_ended(error)

    def _credit_received(self, event: CreditReceived, user: Outlet) -> None:
        properties = event.flow.properties
        reason = user.reason
        if properties and REASON_KEY in properties:
            reason = _reason(properties[REASON_KEY])
        elif event.link.credit.link_credit:
            reason = None
        if event.link.credit.drain or event.flow.echo:
            event.link.answer_flow(available=user.waiting, drained=event.link.credit.drain)
            self._host.touch()
        user.credit_received(reason)

    def _header(self, attributes: Attributes) -> bytes:
        header = self._headers.get(attributes)
        if header is None:
            if len(self._headers) >= HEADERS_KEPT:
                self._headers.clear()
            header = self._headers[attributes] = _encoded_header(attributes)
        return header

    def _rendered(self, entries: list[bytes], attributes: Attributes | list[Attributes]) -> list[bytes]:
        render = self._host.converter.render
        if not isinstance(attributes, list):
            return [render(entry, attributes, Origin.AMQP10) for entry in entries]
        return [render(entry, one, Origin.AMQP10) for entry, one in zip(entries, attributes, strict=True)]


class FarReceiverLink:
    """A link that consumes from a queue; see :class:`core.engine.forwarding.links.FarReceiver`."""

    __slots__ = ("_grant", "_host", "_options", "_queue", "_user", "link")

    def __init__(self, host: LinkHost, queue: str, options: ConsumeOptions, user: Inlet) -> None:
        self.link: ReceiverLink | None = None
        self._host = host
        self._queue = queue
        self._options = options
        self._user: Inlet | None = user
        self._grant: tuple[int, bool, bool] | None = None
        """The grant that waits for the attach, whether it drains, and whether an answer is wanted."""

    def grant(self, n: int, *, drain: bool, echo: bool) -> None:
        if self.link is None or not self.link.end.attached:
            self._grant = n, drain, echo or (self._grant is not None and self._grant[2])
            return
        self.link.grant(n, drain=drain, echo=echo)
        self._host.touch()

    def settle(self, first: int, last: int, disposal: Disposal | Return) -> None:
        if self.link is not None:
            self.link.settle(first, last, state_of(disposal))
            self._host.touch()

    def close(self) -> None:
        self._user = None
        self._host.detach(self.link)
        self._host.forget(self)

    # --- what the connection tells -----------------------------------------------------------------------------

    def attach(self, session: Session) -> None:
        """Attach on this session."""
        options = self._options
        properties = self._host.attach_properties
        if options.priority:
            properties["rabbitmq:priority"] = Int(options.priority)
        if options.getter:
            properties[GETTER_KEY] = True
        if options.consumer_timeout_ms is not None:
            properties["rabbitmq:consumer-timeout"] = UInt(options.consumer_timeout_ms)
        if self._user is not None:
            properties |= client_properties(self._user.attachment.consumer.mailbox.client)
        self.link = session.new_receiver(self._host.next_link_name())
        self.link.reference = self
        self.link.attach(
            source=Source(
                address=queue_address(self._queue),
                filter=filters_for(options.stream),
                capabilities=("topic",) if options.exclusive else (),
            ),
            target=Target(),
            snd_settle_mode=UNSETTLED,
            rcv_settle_mode=FIRST,
            credit=ReceiverCredit(),
            properties=properties,
        )

    def attach_answered(self) -> None:
        """The other node has attached."""
        if self._user is None:
            self._host.detach(self.link)
            return
        remote = None if self.link is None else self.link.end.remote
        begins_at = ((remote and remote.properties) or {}).get(BEGINS_AT_KEY)
        if isinstance(begins_at, ULong):
            self._user.began(begins_at.value)
        if self._grant is not None:
            (n, drain, echo), self._grant = self._grant, None
            self.grant(n, drain=drain, echo=echo)

    def event_received(self, event: DeliveriesReceived | SenderFlowReceived | IncomingOutcome) -> None:
        """The other node has sent deliveries, or a flow, or has taken deliveries back."""
        user = self._user
        if user is None:
            return
        if isinstance(event, IncomingOutcome):
            for first, last in event.ranges:
                user.taken_back(first, last, moved=isinstance(event.state, Modified))
            return
        if isinstance(event, SenderFlowReceived):
            properties = event.flow.properties
            if properties and ACTIVE_KEY in properties:
                user.activity_changed(active=properties[ACTIVE_KEY] is True)
            elif event.flow.available is not None:  # only answers have it
                user.answered(event.flow.available)
            return
        try:
            for first, entries, history, route in self._host.arriving.read(event):
                user.delivered(
                    first,
                    entries,
                    history.attributes,
                    delivery_count=history.delivery_count,
                    first_acquirer=history.first_acquirer,
                    routes=route,
                )
        except DecodeError as error:
            session = event.link.channel
            assert isinstance(session, Session)
            session.fail_link(event.link, LinkFault(ErrorCondition.DECODE_ERROR, error.description))

    def lost(self, error: EngineError) -> None:
        """The link is over."""
        user, self._user, self.link = self._user, None, None
        if user is not None:
            user.link_ended(error)


def _wanted_link_credit(publisher: Publisher | None) -> dict[str, object]:
    """What an attach says of the link credit that the client wants; nothing for a link that several clients share, for
    one that is only told, and for a client of AMQP 0.9.1, which has no link credit."""
    if publisher is None or publisher.told_only or not isinstance(publisher.reference, PublisherLink):
        return {}
    return publisher.reference.wanted_at_home()


def outcome_of(state: DeliveryState | None) -> tuple[Outcome, EngineError | None]:
    """The engine's answer to published messages, from that of the other node."""
    match state:
        case Accepted():
            return Outcome.ACCEPTED, None
        case Rejected(error=error):
            return Outcome.REJECTED, error_of(error)
        case Modified():
            return Outcome.UNCERTAIN, None
        case _:
            return Outcome.RELEASED, None


def error_of(error: Error | None) -> EngineError:
    """The engine's error for one of the other node."""
    if error is None:
        return PreconditionFailed("the home node of the queue rejected it")
    return ERRORS.get(str(error.condition), PreconditionFailed)(error.description or str(error.condition))


def state_of(disposal: Disposal | Return) -> DeliveryState:
    """The outcome on the wire of what a consumer decided."""
    match disposal:
        case Disposal.ACCEPTED:
            return ACCEPTED
        case Disposal.REJECTED:
            return Rejected()
    if disposal.unsent:
        return Modified(message_annotations={UNSENT_KEY: True})
    if not (disposal.delivery_failed or disposal.undeliverable_here or disposal.annotations):
        return RELEASED
    return Modified(
        delivery_failed=disposal.delivery_failed,
        undeliverable_here=disposal.undeliverable_here,
        message_annotations=_annotations(disposal.annotations),
    )


def _annotations(added: Mapping[object, object] | None) -> dict[str, object] | None:
    return None if added is None else {str(key): value for key, value in added.items()}


def _reason(value: object) -> str | None:
    name = value.value if isinstance(value, Symbol) else value
    return name if isinstance(name, str) and name in set(FlowReason) else None


def _encoded_header(attributes: Attributes) -> bytes:
    priority = attributes.priority
    if attributes.origin is Origin.AMQP091 and not priority:
        priority = DEFAULT_PRIORITY
    if not attributes.durable and priority == DEFAULT_PRIORITY and attributes.ttl_ms is None:
        return b""
    return encode_header(Header(durable=attributes.durable, priority=priority, ttl=attributes.ttl_ms))
