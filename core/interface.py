"""The interface between front ends and the engine: five verbs, and the actions with which the engine answers.

The engine knows no protocol and calls no front end: it answers by putting actions into mailboxes, which take effect in
the order of the list. Every verb is exact for any run or range. Messages move only in :mod:`core.server.pump`'s turn.
Numbers do not wrap: a *confirm number* is the publisher's own, a *delivery number* counts from 0 for each consumer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Protocol

from core.clock import Now
from core.declaring import Recording
from core.errors import EngineError
from core.held import Held, HeldRange, Hold
from core.message import Attributes, EnqueuedTimes, Origin, Return, Routes, Run, RunAttributes, first_of
from core.slices import Walk
from core.stream_options import AGE_SECONDS as AGE_SECONDS
from core.stream_options import NEW_MESSAGES
from core.stream_options import StreamOptions as StreamOptions
from core.stream_options import StreamPosition as StreamPosition
from core.taken_numbers import PublishingId

if TYPE_CHECKING:  # all front ends import this module, and few of them need stage credit
    from core.credit_flow.flow import CreditFlow
    from core.flow_facts import ClientIdentity
    from core.link_count import LinkCount
    from core.publish_limit import PublishLimit


class Outcome(Enum):
    """How the engine has settled a published message. Uncertain: a queue may have it, and a repeat may double it."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    RELEASED = "released"
    UNCERTAIN = "uncertain"


class Disposal(Enum):
    """How a consumer has settled a delivery that does not go back to its queue (for one that does, see ``Return``)."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"


# --- where messages go -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueueTarget:
    """Directly into one queue (the default exchange with the queue's name as the routing key)."""

    queue: str


@dataclass(frozen=True, slots=True)
class ExchangeTarget:
    """Through an exchange."""

    exchange: str
    routing_key: str


Target = QueueTarget | ExchangeTarget


# --- mailbox and references ----------------------------------------------------------------------------------------


class Mailbox:
    """Actions for one connection, in order. ``notify`` is called when it turns from empty to non-empty."""

    __slots__ = ("_notify", "actions", "client", "watch")

    def __init__(self, notify: Callable[[], None]) -> None:
        self.actions: list[Action] = []  # the waiting actions, for reading only
        self.client: ClientIdentity | None = None  # at the other end; None until it has opened, and for the broker
        self.watch: Callable[[Action], None] | None = None  # of traces: called with each action
        self._notify = notify

    def put(self, action: "Action") -> None:
        """Append an action. ``notify`` is called for the first waiting action only."""
        if not self.actions:
            self._notify()
        self.actions.append(action)
        if self.watch is not None:
            self.watch(action)

    def take(self, most: int = 2**31, *, put_back: Sequence["Action"] = ()) -> list["Action"]:
        """Take the ``most`` oldest actions, with ``put_back`` before them. A caller that leaves some calls again."""
        if put_back:
            self.actions[:0] = put_back
        actions, self.actions = self.actions, self.actions[most:]
        del actions[most:]
        return actions


@dataclass(eq=False, slots=True)
class Publisher:
    """A front end's publishing link or channel as the engine sees it.

    ``fixed_target`` is None when every run names its own target (anonymous terminus, 0.9.1 channels). ``owner`` is the
    connection's identity, for exclusive queues. ``reference`` is the front end's: the engine does not look inside.
    """

    mailbox: Mailbox
    owner: object
    fixed_target: Target | None
    reference: object
    unsynced: int = 0
    """How many of its messages wait for a sync before they are accepted. Front ends may only read it."""
    link_credit_max: int | None = None
    """The most link credit that a policy allows to its fixed target's publishers; None for no limit. Read only."""
    stage_credit: "CreditFlow | None" = None
    """Its own side of the stage credit with queues. None for a publisher that is limited by link credit only."""
    home: str | None = None
    """The other node that leads its fixed target, and so gives the link credit: :class:`PublisherCredit` follows."""
    told_only: bool = False
    """Nothing is published by it: it is only told whether its fixed target takes messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """What a consumer asks of a queue when it attaches."""

    priority: int = 0  # higher is served first while it has a queue grant
    exclusive: bool = False
    """No other consumer may be attached."""
    getter: bool = False
    """It takes at once what each grant brings, as with drain, and does not count as a consumer: exclusive and single
    active consumers do not bind it, and it has no effect on auto-delete [0-9-1 basic.get]. A grant counts as use of the
    queue. Priority and exclusive mean nothing for it; streams refuse it."""
    stream: StreamOptions = NEW_MESSAGES
    consumer_timeout_ms: int | None = None
    """How long its deliveries may stay unsettled, in milliseconds, when that is less than the queue allows."""
    settled_when_sent: bool = False
    """The front end settles each delivery when it sends it. The queue only shows this."""
    holder: str = ""
    """The name by which requests give it messages to hold; then it gets none by grants. Streams refuse it."""
    copies: HeldRange | None = None
    """A getter that gets copies of what a holder holds, once each, and settles nothing."""
    first_number: int = 0
    """The number of its first delivery: above those of the consumer in whose place it is, after a change of leader."""


@dataclass(eq=False, slots=True)
class Consumer:
    """A front end's consuming link or channel as the engine sees it. Front ends may only read its attributes."""

    identity: int  # unique in the engine and ascending, so it also orders consumers by age
    queue_name: str
    mailbox: Mailbox
    options: ConsumeOptions
    reference: object
    """It belongs to the front end; the engine does not look inside."""
    active: bool = True
    """False while another one is the single active consumer."""
    link_credit_max: int | None = None
    """The most link credit that its queue's policy lets it use; None for no limit."""
    unsettled_max: int | None = None
    """The most messages that its queue's policy lets it hold unsettled, but not over AMQP 0.9.1; None for no limit."""
    unsettled_bytes_max: int | None = None  # the same in bytes of messages without header section
    begins_at: int | None = None  # of a stream: the offset that its leader has begun at; None while that is not known
    next_number: int = 0
    """The delivery number after the last one that is in a ``Delivered``, taken from the mailbox or not."""

    def __post_init__(self) -> None:
        self.next_number = self.options.first_number


# --- actions -------------------------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Delivered:
    """Messages for a consumer, taken from its queue grant: ``entries`` have delivery numbers from ``first`` up.

    The lists belong to the front end.
    """

    consumer: Consumer
    first: int
    entries: list[bytes]
    attributes: RunAttributes
    delivery_count: int
    """Failed delivery attempts of each of these messages so far [3.2.1]."""
    first_acquirer: bool
    """True when none of them was handed to any consumer before [3.2.1]."""
    annotations: Mapping[object, object] | None = None
    """Annotations that earlier consumers added with modified, the same for each of these messages."""
    sequences: Sequence[int] | None = None
    """A number for each message, sent as the annotation ``sequence_key``; None when no numbers are sent."""
    sequence_key: str = ""
    """``x-stream-offset`` or ``x-opt-sequence``."""
    routes: Routes = None
    """How these messages came into the queue."""
    enqueued_ms: EnqueuedTimes = None
    """When these messages came into the queue, if that is to be sent."""

    @property
    def origin(self) -> Origin:
        """The protocol in whose encoding the entries are."""
        return first_of(self.attributes).origin


@dataclass(eq=False, slots=True)
class GrantReply:
    """The answer to one ``grant``, behind the deliveries that the grant brought at once.

    ``available`` is the number of ready messages in the queue now. ``drained`` is how much of the grant was given back
    because it asked for drain and the queue had no more; the grant is 0 then.
    """

    consumer: Consumer
    available: int
    drained: int


@dataclass(eq=False, slots=True)
class Confirmed:
    """The engine has settled messages ``first`` to ``last`` (confirm numbers, both inclusive)."""

    publisher: Publisher
    first: int
    last: int
    outcome: Outcome
    error: EngineError | None = None
    """The cause, for a rejection that has one. A release with a cause is no message without a route: its queue had
    begun to take it on, and has not."""


@dataclass(eq=False, slots=True)
class PublisherBlocked:
    """Why the publisher's target takes no more messages now; None when it takes them again (docs/flow-reasons)."""

    publisher: Publisher
    reason: str | None


@dataclass(eq=False, slots=True)
class PublisherCredit:
    """The node that leads the publisher's fixed target allows it ``limit`` messages, counted from its first one."""

    publisher: Publisher
    limit: int


@dataclass(eq=False, slots=True)
class PublisherClosed:
    """The publisher's fixed target was deleted. Confirms for it were put before this."""

    publisher: Publisher
    error: EngineError


@dataclass(eq=False, slots=True)
class TakenBack:
    """These deliveries (delivery numbers, both inclusive) are in the queue again. It has no effect if the consumer
    settles them later."""

    consumer: Consumer
    first: int
    last: int
    moved: bool = False  # the node leads the queue no more, and takes back all; else they were held too long


@dataclass(eq=False, slots=True)
class Cancelled:
    """The consumer's queue was deleted, and with it every unsettled delivery."""

    consumer: Consumer
    error: EngineError


@dataclass(eq=False, slots=True)
class ActivityChanged:
    """A consumer of a single-active-consumer queue became the active one, or stopped being it."""

    consumer: Consumer
    active: bool


@dataclass(eq=False, slots=True)
class BoundChanged:
    """The most messages or bytes that a consumer may hold unsettled is another number, by a policy."""

    consumer: Consumer


@dataclass(eq=False, slots=True)
class AlarmChanged:
    """The set of alarms that are on, after a change. Publishing stops while it is not empty."""

    alarms: frozenset[str]


@dataclass(eq=False, slots=True)
class RightsChanged:
    """The rights of the connection's user, or rates, have changed: what is attached has to be checked again."""


Action = (
    Delivered
    | GrantReply
    | Confirmed
    | PublisherBlocked
    | PublisherCredit
    | PublisherClosed
    | TakenBack
    | Cancelled
    | ActivityChanged
    | BoundChanged
    | AlarmChanged
    | RightsChanged
)


# --- declarations --------------------------------------------------------------------------------------------------


class ExchangeType(Enum):
    """The built-in routing rules."""

    DIRECT = "direct"
    FANOUT = "fanout"
    TOPIC = "topic"
    HEADERS = "headers"
    LOCAL_RANDOM = "x-local-random"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDeclaration:
    """The definition of a queue; two declarations are equivalent when they are equal."""

    name: str
    durable: bool = True
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Mapping[str, object]
    """By key, plain values (ints, strings, bools, lists, maps)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeDeclaration:
    """The definition of an exchange."""

    name: str
    type: ExchangeType = ExchangeType.DIRECT
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """An edge from an exchange to a queue or to another exchange."""

    source: str
    destination: str
    destination_is_queue: bool
    binding_key: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """A queue's definition and its counts (messages, not bytes)."""

    declaration: QueueDeclaration
    type: str
    ready: int
    unacknowledged: int
    consumers: int
    identity: str
    """32 hexadecimal digits, new at every declaration: they tell a queue from an earlier one of the same name."""
    home: str | None = None  # the other node on which it lives, which alone knows its type and definition


# --- the engine ----------------------------------------------------------------------------------------------------


class Engine(Protocol):
    """The verbs of one virtual host. None awaits; each raises only :class:`core.errors.EngineError`, if it says so."""

    connections: int
    """How many connections use the virtual host. Front ends count it, as they subscribe."""
    links: "LinkCount"

    def subscribe(self, mailbox: Mailbox) -> frozenset[str]:
        """Put ``AlarmChanged`` into this mailbox from now on. Returns the alarms that are on."""

    def unsubscribe(self, mailbox: Mailbox, owner: object) -> bool:
        """Forget the mailbox of a closed connection, and delete its exclusive queues. True: call again next turn."""

    def publisher(
        self,
        mailbox: Mailbox,
        owner: object,
        target: Target | None,
        reference: object,
        stage_credit: "CreditFlow | None" = None,
        *,
        told_only: bool = False,
    ) -> Publisher:
        """Make a publisher. Raises NotFound, Locked or Forbidden (an internal exchange) for a fixed target.

        With ``stage_credit``, each message counts as sent to every queue until it could be delivered, or is rejected.
        """

    def publish_limits(self, target: Target | None) -> "tuple[PublishLimit, ...]":
        """The rates that publishers to this target keep to, if the protocol can."""

    def retire(self, publisher: Publisher) -> None:
        """Remove a publisher and end its stage credit. Its messages stay in their queues; no action for it follows."""

    def publish(self, publisher: Publisher, target: Target, run: Run, now: Now) -> None:
        """Publish a run. ``Confirmed`` follows for every message of it, also for transient and unroutable ones.

        Raises NotFound when the exchange does not exist, or the queue of a target that is not fixed; then no message of
        the run is published. A message that is routed to no queue is confirmed as RELEASED.
        """

    def known_routes(self, exchange: str, routing_keys: Sequence[str]) -> int:
        """Return how many of these routing keys, from the first one on, are routed without a search that takes long.
        The engine may search for some of them now, which adds to the work."""

    def publish_by_keys(self, publisher: Publisher, exchange: str, keys: Sequence[str], run: Run, now: Now) -> None:
        """As :meth:`publish`, through one exchange, with a routing key for each message and without a fixed target."""

    def consume(
        self, queue: str, mailbox: Mailbox, owner: object, options: ConsumeOptions, reference: object
    ) -> Consumer:
        """Attach a consumer with no grant. Raises NotFound, Locked, PreconditionFailed (a getter of a stream)."""

    def cancel(self, consumer: Consumer, *, requeue: bool = True) -> None:
        """Detach a consumer; its unsettled deliveries return to their original positions. No action for it follows.

        Without ``requeue`` the consumer gets no more deliveries, but keeps its unsettled ones and settles them as
        before, until all are settled or it is cancelled again with ``requeue``. ``TakenBack`` may still follow for it.
        """

    def grant(self, consumer: Consumer, n: int, drain: bool, *, asked: bool = True) -> None:
        """Set (not add) the consumer's queue grant to ``n`` messages. One ``GrantReply`` follows in the next turn; if
        its client has not ``asked``, that of a queue of another node may come before the messages of the grant.
        A second grant before the reply replaces the first; each of the two grants still gets its own reply.
        """

    def settle(self, consumer: Consumer, first: int, last: int, disposal: Disposal | Return) -> None:
        """Settle the deliveries in a range of delivery numbers; numbers that are not outstanding are ignored."""

    def hold(self, queue: str, owner: object, wanted: Hold) -> Walk[Held]:
        """Give ready messages to a holder. Raises NotFound, Locked, Invalid, PreconditionFailed."""

    def settle_held(self, queue: str, owner: object, which: HeldRange, disposal: Disposal | Return) -> Walk[int]:
        """Settle what a holder holds; returns how many messages. Raises as :meth:`hold`."""

    # --- queues, exchanges and bindings

    def declare_queue(
        self, declaration: QueueDeclaration, owner: object, *, named_by_broker: bool = False
    ) -> tuple[QueueInfo, bool]:
        """Make a queue, or find an equivalent one; True when it was made.

        Raises Inequivalent, Locked, Invalid (name or arguments), Forbidden (``amq.`` prefix, when new, unless the
        broker chose the name), LimitReached, StillGoing.
        """

    def begin_declaring(
        self, declaration: QueueDeclaration, owner: object, *, named_by_broker: bool = False
    ) -> Recording[tuple[QueueInfo, bool]]:
        """The same, recorded in the next turn together with what others declare and delete. Until then the queue is not
        there, and naming it here or in ``begin_deleting`` raises StillGoing."""

    def declare_dynamic_queue(self, name: str, owner: object) -> QueueInfo:
        """Make the exclusive, auto-delete queue behind a dynamic node, under a name the broker chose."""

    def queue_info(self, name: str, owner: object) -> QueueInfo:
        """Raises NotFound, Locked."""

    def ready_messages(self, name: str) -> int:
        """As in :meth:`queue_info`, at a cost that does not grow with consumers; 0 for a queue that is not there."""

    def delete_queue(self, name: str, owner: object) -> int:
        """Delete a queue; returns how many ready messages it had, 0 when there is no such queue. Raises Locked."""

    def begin_deleting(self, name: str, owner: object) -> Recording[int]:
        """The same, recorded in the next turn with others; the queue stays until then. Raises also StillGoing."""

    def purge_queue(self, name: str, owner: object) -> Walk[int]:
        """Remove the ready messages; returns how many, when it is to be written. Raises NotFound, Locked, Invalid."""

    def declare_exchange(self, declaration: ExchangeDeclaration) -> bool:
        """Raises Inequivalent, Invalid, StillGoing, Forbidden (default exchange, ``amq.`` prefix when new)."""

    def delete_exchange(self, name: str) -> None:
        """Idempotent. Raises Forbidden (default exchange, ``amq.`` prefix)."""

    def exchange_info(self, name: str) -> ExchangeDeclaration:
        """An exchange's definition. Raises NotFound, also for the default exchange, which was never declared."""

    def exchange_in_use(self, name: str) -> bool:
        """True when it is the source of bindings; False for an unknown exchange."""

    def bind(self, binding: Binding, owner: object) -> None:
        """Idempotent. Raises NotFound, Locked, Forbidden (default exchange)."""

    def unbind(self, binding: Binding, owner: object) -> None:
        """Idempotent. Raises Forbidden (default exchange)."""

    def bindings(self, source: str, destination: str, destination_is_queue: bool) -> Iterator[Binding | None]:
        """All bindings between two nodes, with None for each other binding looked at; empty for an unknown node."""


Snapshot = dict[str, object]
"""Plain values only (str, int, float, bool, None, lists and dicts of these), so that any protocol can send it."""


class Observable(Protocol):
    """A part of the broker whose state can be shown, from plain counters."""

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """All rows of a kind ("queues", "links", …), or the one with this identity ([] when there is none)."""


class DeathReason(Enum):
    """Why a message was dead-lettered."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    MAXLEN = "maxlen"
    DELIVERY_LIMIT = "delivery_limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """One dead-lettering of one message."""

    queue: str
    reason: DeathReason
    at: float  # wall-clock seconds
    exchange: str
    """The exchange to which the message was published when it came into the queue."""
    routing_keys: tuple[str, ...]
    ttl_ms: int | None = None
    """The message's own time-to-live in milliseconds; it is removed from a message that has expired."""


class Converter(Protocol):
    """Reads and changes the content of messages for the engine. The process hands it in."""

    def routing_headers(self, entry: bytes, origin: Origin) -> Mapping[str, object]:
        """The fields that a headers exchange compares, with plain values."""

    def render(self, entry: bytes, attributes: Attributes, wanted: Origin) -> bytes:
        """The message in another protocol's encoding; the same bytes when it is already in it. ``attributes`` are those
        of the delivery: some protocols keep these facts beside the entry, some inside it."""

    def annotated(self, entry: bytes, origin: Origin, annotations: Mapping[object, object]) -> bytes:
        """The message with the annotations that consumers have added merged into its own."""

    def describe(self, entry: bytes, origin: Origin) -> Snapshot:
        """What an operator is shown of a message: ``message_id`` (text or None), ``deaths`` (maps of ``queue``,
        ``reason`` and ``count``, the newest first), ``body``: its first bytes, 256 at most."""

    def dead_lettered(self, entry: bytes, origin: Origin, death: Death) -> bytes:
        """The message with this death added to its deaths."""

    def deaths(self, entry: bytes, origin: Origin) -> Sequence[tuple[str, DeathReason]]:
        """Queue and reason of each of the message's deaths; [] for one that was never dead-lettered."""

    def publishing_id(self, entry: bytes, origin: Origin) -> PublishingId | None:
        """What the publisher calls the message; None if it says nothing. Raises Invalid for what cannot be an id."""

    def filter_values(self, entries: Sequence[bytes], origin: Origin) -> Sequence[str | None] | None:
        """The value of each message that stream consumers' filters compare; None if all have none or an empty text."""


class FlowReason(StrEnum):
    """Why a link or a reader waits, in the order of precedence: the closed list of docs/flow-reasons."""

    DRAIN_MODE = "drain-mode"
    MEMORY = "memory"
    DISK = "disk"
    PAUSED = "paused"
    RATE_LIMIT = "rate-limit"
    POLICY = "policy"
    LEADER_MOVING = "leader-moving"
    NO_QUORUM = "no-quorum"
    QUEUE_FULL = "queue-full"
    MEMORY_SHARE = "memory-share"
    STORE_SLOW = "store-slow"
    UNCONFIRMED_LIMIT = "unconfirmed-limit"
    STAGE_CREDIT = "stage-credit"
    SESSION_WINDOW = "session-window"
    LINK_CREDIT = "link-credit"
    SOCKET = "socket"
    NO_MESSAGE = "no-message"
    INACTIVE = "inactive"
