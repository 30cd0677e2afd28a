"""The narrow waist: the five verbs a front end may use on the engine, and the actions it gets back.

The engine knows no protocol and calls no front end: it answers by putting actions into mailboxes. A callback during
``settle`` could call ``grant``, which dispatches, which calls back; with actions the order of effects is the order of
the list. Every verb takes a run or a range, and is exact for any size. Messages move between queues and consumers
only in :meth:`Engine.turn`, once per wake-up.

Numbers: a *confirm number* is the publisher's own (``Run.first`` and up). A *delivery number* is the engine's, counts
from 0 for each consumer, and has no gaps. Neither wraps.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Protocol

from core.clock import Now
from core.errors import EngineError
from core.message import Attributes, Origin, Return, Route, Run

if TYPE_CHECKING:  # front ends reach the engine through here, and few of them need it
    from core.credit_flow.flow import CreditFlow


class Outcome(Enum):
    """What became of a published message."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    RELEASED = "released"


class Disposal(Enum):
    """What a consumer did with a delivery, when it does not simply go back (then it is a ``Return``)."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"


# --- where messages go -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueueTarget:
    """Straight into one queue (the default exchange with the queue's name as the key)."""

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

    __slots__ = ("_notify", "actions")

    def __init__(self, notify: Callable[[], None]) -> None:
        self.actions: list[Action] = []  # those that wait; to be looked at only
        self._notify = notify

    def put(self, action: "Action") -> None:
        """Append an action; the owner hears of the first only."""
        if not self.actions:
            self._notify()
        self.actions.append(action)

    def take(self, most: int = 2**31, *, put_back: Sequence["Action"] = ()) -> list["Action"]:
        """The oldest actions, ``most`` at most, once ``put_back`` are the oldest again. Who leaves some comes back."""
        if put_back:
            self.actions[:0] = put_back
        actions, self.actions = self.actions, self.actions[most:]
        del actions[most:]
        return actions


@dataclass(eq=False, slots=True)
class Publisher:
    """A front end's publishing link or channel as the engine sees it.

    ``fixed_target`` is None when every run names its own (anonymous terminus, 0.9.1 channels). ``owner`` is the
    connection's identity, for exclusive queues. ``reference`` is the front end's and opaque to the engine.
    """

    mailbox: Mailbox
    owner: object
    fixed_target: Target | None
    reference: object
    unsynced: int = 0
    """Its messages that wait for a sync before they are accepted. The engine's; front ends may read it."""
    link_credit_max: int | None = None
    """The most link credit that the policy of its fixed target lets it have; None for no such limit. As above."""
    stage_credit: "CreditFlow | None" = None
    """Its side of the stage credit with queues, its own alone. None for one that nothing but link credit brakes."""


AGE_SECONDS = {"Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
"""The units of an age such as ``7D``, of a stream's messages: years of 365 days, months of 30."""


class StreamPosition(Enum):
    """Where a consumer of a stream begins, besides an offset, a time or an interval."""

    FIRST = "first"
    LAST = "last"
    NEXT = "next"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How a consumer reads a stream."""

    position: StreamPosition | int | float = StreamPosition.NEXT
    """Where to begin: an offset (int), or the first chunk not before a wall-clock time in seconds (float)."""
    filter_values: tuple[str, ...] = ()
    """Only messages with one of these filter values; empty for all."""
    match_unfiltered: bool = False
    """With filter values: also messages that have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """What a consumer asks of a queue."""

    priority: int = 0
    """Higher is served first while it has a queue grant."""
    exclusive: bool = False
    """No other consumer may be attached."""
    getter: bool = False
    """It takes what each grant brings at once, always as with drain, and is no consumer otherwise: it is not counted,
    not bound by exclusive or single active consumers, and without effect on auto-delete [0-9-1 basic.get]. A grant
    counts as use of the queue. Priority and exclusive mean nothing for it; streams refuse it."""
    stream: StreamOptions = StreamOptions()
    """Without meaning for other queues."""
    consumer_timeout_ms: int | None = None
    """How long its deliveries may stay unsettled, where it asks for less than the queue allows."""


class Consumer(Protocol):
    """A consumer as the engine hands it out. Front ends may only read these."""

    @property
    def reference(self) -> object:
        """What the front end passed to ``consume``."""

    @property
    def queue_name(self) -> str: ...

    @property
    def active(self) -> bool:
        """False for a consumer that waits behind the single active one."""

    @property
    def link_credit_max(self) -> int | None:
        """The most link credit that its queue's policy lets it use; None for no such limit."""


# --- actions -------------------------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Delivered:
    """Messages for a consumer, taken from its queue grant: ``entries`` have delivery numbers from ``first`` up.

    The list belongs to the front end.
    """

    consumer: Consumer
    first: int
    entries: list[bytes]
    attributes: Attributes
    delivery_count: int
    """Failed delivery attempts of each of these messages so far [3.2.1]."""
    first_acquirer: bool
    """True when none of them was ever handed to anybody before [3.2.1]."""
    annotations: Mapping[object, object] | None = None
    """Annotations that earlier consumers added with modified, the same for each of these messages."""
    sequences: Sequence[int] | None = None
    """A number for each message, to be told under the annotation ``sequence_key``; None where none is told."""
    sequence_key: str = ""
    """``x-stream-offset`` or ``x-opt-sequence``."""
    route: Route | None = None
    """How these messages came into the queue; None for straight into it."""


@dataclass(eq=False, slots=True)
class GrantReply:
    """The answer to one ``grant``, behind the deliveries that the grant brought at once.

    ``available`` is what is ready in the queue now (not what was). ``drained`` is how much of the grant was given
    back because the grant asked for drain and the queue had no more; the grant is 0 then.
    """

    consumer: Consumer
    available: int
    drained: int


@dataclass(eq=False, slots=True)
class Confirmed:
    """The engine's answer for messages ``first`` to ``last`` (confirm numbers, both inclusive)."""

    publisher: Publisher
    first: int
    last: int
    outcome: Outcome
    error: EngineError | None = None
    """Why, for a rejection that has a reason."""


@dataclass(eq=False, slots=True)
class PublisherBlocked:
    """Why a publisher's target takes no more for now; None when it does again. One of docs/flow-reasons."""

    publisher: Publisher
    reason: str | None


@dataclass(eq=False, slots=True)
class PublisherClosed:
    """The publisher's fixed target is gone. Confirms for it were put before this."""

    publisher: Publisher
    error: EngineError


@dataclass(eq=False, slots=True)
class TakenBack:
    """The consumer has held these deliveries too long (delivery numbers, both inclusive): they are in the queue again.

    What the consumer says of them from now on has no effect.
    """

    consumer: Consumer
    first: int
    last: int


@dataclass(eq=False, slots=True)
class Cancelled:
    """The consumer's queue is gone, and with it every delivery that is not settled."""

    consumer: Consumer
    error: EngineError


@dataclass(eq=False, slots=True)
class ActivityChanged:
    """A consumer of a single-active-consumer queue became the active one, or stopped being it."""

    consumer: Consumer
    active: bool


@dataclass(eq=False, slots=True)
class AlarmChanged:
    """The set of alarms that are on, after a change. Publishing stops while it is not empty."""

    alarms: frozenset[str]


Action = (
    Delivered
    | GrantReply
    | Confirmed
    | PublisherBlocked
    | PublisherClosed
    | TakenBack
    | Cancelled
    | ActivityChanged
    | AlarmChanged
)


# --- the engine ----------------------------------------------------------------------------------------------------


class Engine(Protocol):
    """The verbs. None of them awaits; each raises only :class:`core.errors.EngineError`, where it says so."""

    def subscribe(self, mailbox: Mailbox) -> frozenset[str]:
        """Put ``AlarmChanged`` into this mailbox from now on. Returns the alarms that are on."""

    def unsubscribe(self, mailbox: Mailbox, owner: object) -> bool:
        """The connection is gone: empty and forget its mailbox, delete its exclusive queues. True: call again."""

    def publisher(
        self,
        mailbox: Mailbox,
        owner: object,
        target: Target | None,
        reference: object,
        stage_credit: "CreditFlow | None" = None,
    ) -> Publisher:
        """Make a publisher. Raises NotFound, Locked or Forbidden (an internal exchange) for a fixed target.

        With ``stage_credit``, each message counts as sent to every queue that it goes to, until the queue has
        acknowledged it: when it could be delivered, or is rejected.
        """

    def retire(self, publisher: Publisher) -> None:
        """The publisher is gone, and its stage credit ends. What it published stays; no action for it follows."""

    def publish(self, publisher: Publisher, target: Target, run: Run, now: Now) -> None:
        """Take a run. ``Confirmed`` follows for every message of it, also for transient and unroutable ones.

        Raises NotFound when the exchange does not exist, or the queue of a target that is not fixed; nothing of the
        run is taken then. A message that no queue wants is confirmed as RELEASED.
        """

    def consume(
        self, queue: str, mailbox: Mailbox, owner: object, options: ConsumeOptions, reference: object
    ) -> Consumer:
        """Attach a consumer with no grant. Raises NotFound, Locked, PreconditionFailed (a getter of a stream)."""

    def cancel(self, consumer: Consumer, *, requeue: bool = True) -> None:
        """Detach; what is unsettled returns to its original positions, in order. Nothing follows for it.

        Without ``requeue`` the consumer gets nothing more, but keeps what it holds and settles it as before, until
        everything is settled or it is cancelled once more with ``requeue``. ``TakenBack`` may still follow for it.
        """

    def grant(self, consumer: Consumer, n: int, drain: bool) -> None:
        """Set (not add) the consumer's queue grant to ``n`` messages. One ``GrantReply`` follows in the next turn.

        A second grant before the reply replaces the first; there is one reply for each grant all the same.
        """

    def settle(self, consumer: Consumer, first: int, last: int, disposal: Disposal | Return) -> None:
        """Dispose of the deliveries in a range; numbers that are not outstanding are passed over."""

    def turn(self, now: Now) -> bool:
        """Do the work that verbs left behind: stage turns, then dispatch of the touched queues; and what is due.

        Returns True when a budget ran out and work is left for another turn.
        """

    @property
    def deadline(self) -> float:
        """The monotonic time at which something will be due although no verb is called; infinity for never."""


class ExchangeType(Enum):
    """The built-in routing rules."""

    DIRECT = "direct"
    FANOUT = "fanout"
    TOPIC = "topic"
    HEADERS = "headers"
    LOCAL_RANDOM = "x-local-random"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDeclaration:
    """What defines a queue; two declarations are equivalent when they are equal."""

    name: str
    durable: bool = True
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Mapping[str, object]
    """By key, plain values (ints, strings, bools, lists, maps)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeDeclaration:
    """What defines an exchange."""

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
    """32 hexadecimal digits, new at every declaration: a queue that was deleted and declared again is another one."""


class Topology(Protocol):
    """The control plane of one virtual host. Raises EngineError kinds as each method says."""

    def declare_queue(
        self, declaration: QueueDeclaration, owner: object, *, named_by_broker: bool = False
    ) -> tuple[QueueInfo, bool]:
        """Make a queue, or find an equivalent one; True when it was made.

        Raises Inequivalent, Locked, Invalid (name or arguments), Forbidden (``amq.`` prefix, when new, unless the
        broker chose the name), LimitReached, StillGoing.
        """

    def declare_dynamic_queue(self, name: str, owner: object) -> QueueInfo:
        """Make the exclusive, auto-delete queue behind a dynamic node, under a name the broker chose."""

    def queue_info(self, name: str, owner: object) -> QueueInfo:
        """Raises NotFound, Locked."""

    def ready_messages(self, name: str) -> int:
        """As in :meth:`queue_info`, at no cost that grows with consumers; 0 for a queue that is not there."""

    def delete_queue(self, name: str, owner: object) -> int:
        """Returns how many ready messages went with it; 0 for a queue that does not exist. Raises Locked."""

    def purge_queue(self, name: str, owner: object) -> int:
        """Remove the ready messages; returns how many. Raises NotFound, Locked."""

    def declare_exchange(self, declaration: ExchangeDeclaration) -> bool:
        """Raises Inequivalent, Invalid, StillGoing, Forbidden (default exchange, ``amq.`` prefix when new)."""

    def delete_exchange(self, name: str) -> None:
        """Idempotent. Raises Forbidden (default exchange, ``amq.`` prefix)."""

    def exchange_info(self, name: str) -> ExchangeDeclaration:
        """An exchange's definition. Raises NotFound, also for the default exchange, which was never declared."""

    def exchange_in_use(self, name: str) -> bool:
        """True when bindings leave it; an unknown exchange has none."""

    def bind(self, binding: Binding, owner: object) -> None:
        """Idempotent. Raises NotFound, Locked, Forbidden (default exchange)."""

    def unbind(self, binding: Binding, owner: object) -> None:
        """Idempotent. Raises Forbidden (default exchange)."""

    def bindings(self, source: str, destination: str, destination_is_queue: bool) -> Iterator[Binding | None]:
        """All bindings between two nodes, with None for each other one looked at; an unknown node has none."""


Snapshot = dict[str, object]
"""Plain values only (str, int, float, bool, None, lists and dicts of these): any protocol can send it."""


class Observable(Protocol):
    """A part with state to show implements this from plain counters."""

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """Everything of a kind ("queues", "links", …), or the one with this identity ([] when there is none)."""


class Control(Protocol):
    """What an operator may do at run time."""

    def set_alarm(self, name: str) -> None:
        """Raise an alarm by hand. Raises Invalid for a name that is not an alarm."""

    def clear_alarm(self, name: str) -> None:
        """Clear an alarm that was raised by hand. Raises Invalid."""

    def peek_queue(self, queue: str, count: int) -> list[Snapshot]:
        """The first ready messages of a queue, ``count`` at most; they stay as they are.

        Of each: ``sequence``, ``bytes``, ``priority``, ``durable``, ``delivery_count``, ``expires_at`` (wall-clock
        seconds, or None) and what :meth:`Converter.describe` says. Raises NotFound, Locked (an exclusive queue),
        Invalid (a count).
        """

    def move_messages(self, queue: str, target: Target, count: int | None) -> int:
        """Begin to move ready messages elsewhere, the first ``count`` or all that are ready now.

        Returns the number of the move. What became of it is in the queue's snapshot, under ``last_move``. Raises
        NotFound, Locked, Forbidden (an internal exchange), Invalid (a stream, a count, the queue itself),
        PreconditionFailed (another move is under way).
        """

    def replay_messages(self, queue: str, count: int | None) -> int:
        """As above, but each dead-lettered message goes to the queue in which it died first."""


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
    at: float
    """Wall-clock seconds."""
    exchange: str
    """Where the message was published when it came into the queue."""
    routing_keys: tuple[str, ...]
    ttl_ms: int | None = None
    """The message's own time-to-live, which is taken from it when it expired."""


class Converter(Protocol):
    """Knows the inside of entries, on the engine's behalf. Registered where the process is put together."""

    def routing_headers(self, entry: bytes, origin: Origin) -> Mapping[str, object]:
        """The fields that a headers exchange compares, with plain values."""

    def render(self, entry: bytes, attributes: Attributes, wanted: Origin) -> bytes:
        """The message in another protocol's encoding; the same bytes when it is already in it.

        ``attributes`` are those it is delivered with: some protocols keep these facts beside the entry, some in it.
        """

    def annotated(self, entry: bytes, origin: Origin, annotations: Mapping[object, object]) -> bytes:
        """The message with what consumers have added merged into its own annotations."""

    def describe(self, entry: bytes, origin: Origin) -> Snapshot:
        """What a person wants to see of a message: ``message_id`` (text or None), ``deaths`` (maps of ``queue``,
        ``reason`` and ``count``, the newest first), ``body``: its first bytes, 256 at most."""

    def dead_lettered(self, entry: bytes, origin: Origin, death: Death) -> bytes:
        """The message with this death entered among its deaths."""

    def deaths(self, entry: bytes, origin: Origin) -> Sequence[tuple[str, DeathReason]]:
        """Queue and reason of each of the message's deaths so far; [] for one that never died."""

    def filter_value(self, entry: bytes, origin: Origin) -> str | None:
        """What the publisher gave the message for the filters of stream consumers; None: nothing, or an empty text."""


class FlowReason(StrEnum):
    """Why a link or a reader waits, in the order of precedence: the closed list of docs/flow-reasons."""

    DRAIN_MODE = "drain-mode"
    MEMORY = "memory"
    DISK = "disk"
    PAUSED = "paused"
    POLICY = "policy"
    QUEUE_FULL = "queue-full"
    STORE_SLOW = "store-slow"
    UNCONFIRMED_LIMIT = "unconfirmed-limit"
    STAGE_CREDIT = "stage-credit"
    SESSION_WINDOW = "session-window"
    LINK_CREDIT = "link-credit"
    SOCKET = "socket"
    NO_MESSAGE = "no-message"
    INACTIVE = "inactive"


@dataclass(frozen=True, slots=True, kw_only=True)
class StallSubject:
    """Who may stand still: a link of AMQP 1.0, or a connection's reader of AMQP 0.9.1 (named as the connection)."""

    identity: str
    connection: str
    peer: str
    container_id: str
    user: str
    direction: str
    """``in`` from publishers, ``out`` to consumers."""
    address: str
    """"" for a reader, which serves many, and for the anonymous terminus."""


class StallWatch(Protocol):
    """Who is told of what stands still. ``culprit`` is what has to change: "queue q", "alarm disk", "client"."""

    def blocked(self, who: StallSubject, reason: FlowReason, culprit: str, now: Now) -> None:
        """It stands still since ``now``, or for another reason; the same reason again may name another culprit."""

    def unblocked(self, who: StallSubject, now: Now) -> None:
        """It moves again, or is gone. Nothing happens when it was not blocked."""

    def look_at(self, look: Callable[[Now], Iterator[int]], *, wanted: bool) -> None:
        """Call this several times a second from now on, or no more. It yields after so many links looked at."""
