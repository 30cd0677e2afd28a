"""The broker's answer to an attach: the source or target that is in force [3.5.3, 3.5.4].

A terminus names a queue or an exchange by its address, asks for a dynamic one, or (only a target) has no address: then
every message has its own address. All other termini are refused here, on the link, with a reason.

The answer holds only what is in force, so a client that checks it sees what it did not get. Known clients do not check
some fields, and would lose messages or get those of other consumers: unsupported values of these fields are refused.
``docs/protocol/fields.md`` has each field.
"""

from collections.abc import Callable

from amqp10.addresses import AddressError, dynamic_queue_name, parse_source, queue_address
from amqp10.errors import ErrorCondition, LinkFault, quote
from amqp10.frontend.stream_filters import HELD, StreamFilters, check_unfiltered, held_filter, stream_filters
from amqp10.protocol.connection import Connection
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SETTLED, SenderLink
from amqp10.targets import parse_target
from amqp10.wire.messaging import RELEASED, Source, Target
from amqp10.wire.performatives import Attach
from amqp10.wire.types import Array, Described, Symbol, ULong
from core.access.checked_engine import CheckedEngine
from core.held import HOLDER_BYTES_MAX
from core.interface import ConsumeOptions, QueueInfo, StreamOptions
from core.interface import Target as EngineTarget

OUTCOMES = ("amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list")
"""The outcomes that a consumer may use [3.4]."""
DYNAMIC_EXPIRY, PLAIN_EXPIRY = "link-detach", "session-end"
"""A dynamic node is deleted with its link. Of any other terminus no state is kept, as the default says [3.5.6]."""
MOVE, COPY = "move", "copy"
"""Distribution modes [3.5.7]: a message goes to one consumer, or each consumer gets a copy."""
QUEUE, TOPIC, SHARED = "queue", "topic", "shared"
TEMPORARY_QUEUE, TEMPORARY_TOPIC = "temporary-queue", "temporary-topic"
"""Capabilities of termini that JMS clients ask for."""
LIFETIME_POLICY, DIST_MODES = "lifetime-policy", "supported-dist-modes"
DELETE_ON_CLOSE = Described(ULong(0x2B), [])
"""The lifetime of every dynamic node here: it is deleted with the link that made it [3.5.10]."""
_LIFETIME_POLICIES = {
    0x2B: "amqp:delete-on-close:list",
    0x2C: "amqp:delete-on-no-links:list",
    0x2D: "amqp:delete-on-no-messages:list",
    0x2E: "amqp:delete-on-no-links-or-messages:list",
}
"""All lifetime policies of the specification [3.5.10 to 3.5.13], by descriptor."""

QUEUE_IDENTITY = "headgate:queue-identity"
"""A property of the attach to a consumer: the identity of the queue's declaration. A queue that was deleted and
declared again has another one, and offsets and sequence numbers of the former queue are invalid for it."""

MAX_UNSETTLED_BYTES = "headgate:max-unsettled-bytes"
"""A property of a consumer's attach, a positive integer: the most bytes that it is to hold unsettled. The broker's
attach has what holds."""


MAX_LINK_CREDIT = "headgate:max-link-credit"
"""A property of a publisher's attach, a positive integer: the most link credit that it can use. The broker's attach has
what holds."""

HOLDER_KEY = "headgate:holder"
"""A property of a consumer's attach, a string: the name under which requests give it messages to hold. It gets none by
link credit."""

GETTER_KEY = "headgate:getter"
"""A property of a consumer's attach, true: another node attaches it for basic.get of AMQP 0.9.1."""


def check_fresh(attach: Attach) -> None:
    """Raises LinkFault for an attach that wants to resume deliveries, which is not supported."""
    if attach.unsettled or attach.incomplete_unsettled:
        raise LinkFault(ErrorCondition.NOT_IMPLEMENTED, "deliveries are not resumed; attach without unsettled ones")


def requested_target(attach: Attach) -> Target:
    """The target a publisher asks for. Raises LinkFault when there is none, or it is a coordinator."""
    check_fresh(attach)
    if attach.target is None:
        raise LinkFault(ErrorCondition.INVALID_FIELD, "the attach names no target")
    if not isinstance(attach.target, Target):
        raise LinkFault(ErrorCondition.NOT_IMPLEMENTED, "transactions are not implemented")
    if attach.target.address is not None and not isinstance(attach.target.address, str):
        raise LinkFault(ErrorCondition.INVALID_FIELD, "a target's address must be a string")
    _check_dynamic(attach.target)
    link_credit_wanted(attach)
    return attach.target


def requested_source(attach: Attach) -> Source:
    """The source a consumer asks for. Raises LinkFault when there is none."""
    check_fresh(attach)
    if not isinstance(attach.source, Source):
        raise LinkFault(ErrorCondition.INVALID_FIELD, "the attach names no source")
    source = attach.source
    if not source.dynamic and not isinstance(source.address, str):
        raise LinkFault(ErrorCondition.INVALID_FIELD, "a source needs an address (a string), or must be dynamic")
    unknown = [outcome for outcome in source.outcomes if outcome not in OUTCOMES]
    if unknown:
        raise LinkFault(ErrorCondition.NOT_IMPLEMENTED, f"unknown outcome {unknown[0]!r}; known: {', '.join(OUTCOMES)}")
    if source.distribution_mode not in (None, MOVE, COPY):
        raise LinkFault(
            ErrorCondition.INVALID_FIELD, f"distribution-mode {quote(source.distribution_mode)} is not move or copy"
        )
    _check_dynamic(source)
    return source


def check_distribution_mode(source: Source, *, copies: bool) -> None:
    """Raises LinkFault for a mode that the node does not have; ``copies``: each of its consumers gets a copy.

    The subscriber of a topic asks for copy too, and means that its messages are kept for it, which a queue does.
    """
    if source.distribution_mode == COPY and not copies and TOPIC not in source.capabilities:
        raise LinkFault(
            ErrorCondition.NOT_IMPLEMENTED,
            "distribution-mode copy: a queue cannot be browsed; consume with move, or use a stream",
        )
    if source.distribution_mode == MOVE and copies:
        raise LinkFault(
            ErrorCondition.NOT_IMPLEMENTED,
            "distribution-mode move: this node keeps its messages for every consumer; consume with copy",
        )


def checked_filters(source: Source, queue: QueueInfo, wall: float) -> StreamFilters | None:
    """The filters of a consumer; None for a queue that is no stream. Raises LinkFault for what the node does not have:
    filters, or the distribution mode. A queue of another node may be a stream; that node checks the filters."""
    held = held_filter(source.filter)
    if held is not None:
        _check_holdable(queue)
        if source.distribution_mode != COPY:
            raise LinkFault(ErrorCondition.INVALID_FIELD, f"the filter {HELD} is for distribution-mode copy")
        return held
    if queue.home is not None:
        found = stream_filters(source.filter, wall)
        if found.effective:
            return found
    of_stream = queue.type == "stream"
    check_distribution_mode(source, copies=of_stream)
    if of_stream:
        return stream_filters(source.filter, wall)
    check_unfiltered(source.filter)
    return None


def consume_options(
    attach: Attach, source: Source, stream: StreamFilters | None, queue: QueueInfo, node: str | None
) -> ConsumeOptions:
    """What the attach asks of its queue; ``stream`` is given for a stream, and for what may be one. ``node`` is at the
    other end; None for a client. Raises LinkFault."""
    may_be_alone = stream is None or queue.home is not None
    holder, copies = holder_name(attach), None if stream is None else stream.held
    if holder:
        _check_holdable(queue)
    return ConsumeOptions(
        priority=consumer_priority(attach),
        exclusive=may_be_alone and consumes_alone(source),
        getter=copies is not None or (node is not None and (attach.properties or {}).get(GETTER_KEY) is True),
        holder=holder,
        copies=copies,
        stream=StreamOptions() if stream is None else stream.options,
        consumer_timeout_ms=consumer_timeout_ms(attach),
        settled_when_sent=attach.snd_settle_mode == SETTLED,
    )


def _check_holdable(queue: QueueInfo) -> None:
    """Raises LinkFault for a queue whose messages are not held here."""
    if queue.home is not None:
        raise LinkFault(
            ErrorCondition.NOT_IMPLEMENTED,
            f"messages are held where the queue lives: attach to the node {quote(queue.home)}",
        )
    if queue.type == "stream":
        raise LinkFault(ErrorCondition.NOT_IMPLEMENTED, "the messages of a stream are not held: read it by offset")


def holder_name(attach: Attach) -> str:
    """The name under which the consumer is to hold messages, as the link properties ask for it; empty by default."""
    value = (attach.properties or {}).get(HOLDER_KEY)
    if value is None:
        return ""
    if not isinstance(value, str) or not 0 < len(value.encode()) <= HOLDER_BYTES_MAX:
        raise LinkFault(
            ErrorCondition.INVALID_FIELD,
            f"the link property {HOLDER_KEY} is {quote(value)}; it must be a string of 1 to {HOLDER_BYTES_MAX} bytes",
        )
    if attach.snd_settle_mode == SETTLED:
        raise LinkFault(ErrorCondition.INVALID_FIELD, f"{HOLDER_KEY}: a link that sends settled holds nothing")
    return value


def consumes_alone(source: Source) -> bool:
    """Whether the consumer of a queue asked for the subscription of a topic that is not shared, which gets all
    messages. Shared subscriptions, and consumers that ask for a queue, get a part of them each."""
    return TOPIC in source.capabilities and SHARED not in source.capabilities


def _check_dynamic(terminus: Source | Target) -> None:
    """Raises LinkFault for a dynamic node that asks for properties that no queue has: only queues are made [3.5.9]."""
    if not terminus.dynamic:
        return
    for topic in (TEMPORARY_TOPIC, TOPIC):
        if topic in terminus.capabilities:
            raise LinkFault(
                ErrorCondition.NOT_IMPLEMENTED,
                f"the capability {topic}: a dynamic node is a queue, of which each message goes to one consumer",
            )
    properties = terminus.dynamic_node_properties or {}
    if properties.get(LIFETIME_POLICY) is not None:
        _check_lifetime_policy(properties[LIFETIME_POLICY])
    if properties.get(DIST_MODES) is not None:
        _check_supported_modes(properties[DIST_MODES])


def _check_lifetime_policy(policy: object) -> None:
    descriptor = policy.descriptor if isinstance(policy, Described) else None
    name = None
    if isinstance(descriptor, ULong):
        name = _LIFETIME_POLICIES.get(descriptor.value)
    elif isinstance(descriptor, Symbol) and descriptor.value in _LIFETIME_POLICIES.values():
        name = descriptor.value
    if name is None or not isinstance(policy, Described) or policy.value != []:
        raise LinkFault(ErrorCondition.INVALID_FIELD, f"{LIFETIME_POLICY} {quote(policy)} is none of [3.5.10]")
    if name != _LIFETIME_POLICIES[0x2B]:
        raise LinkFault(
            ErrorCondition.NOT_IMPLEMENTED, f"{LIFETIME_POLICY} {name}: a dynamic node goes when its link is closed"
        )


def _check_supported_modes(given: object) -> None:
    modes = given.items if isinstance(given, Array) else [given]
    if not all(isinstance(mode, Symbol) for mode in modes):
        raise LinkFault(ErrorCondition.INVALID_FIELD, f"{DIST_MODES} {quote(given)}: it must be symbols")
    if Symbol(MOVE) not in modes:
        raise LinkFault(
            ErrorCondition.NOT_IMPLEMENTED, f"{DIST_MODES} without move: each message of a queue goes to one consumer"
        )


def engine_target(address: str) -> EngineTarget:
    """The target for the engine. Raises LinkFault invalid-field for an address that cannot be parsed."""
    try:
        return parse_target(address)
    except AddressError as error:
        raise LinkFault(ErrorCondition.INVALID_FIELD, str(error)) from error


def queue_of(address: object) -> str:
    """The queue that a source's address names. Raises LinkFault invalid-field."""
    try:
        return parse_source(str(address))
    except AddressError as error:
        raise LinkFault(ErrorCondition.INVALID_FIELD, str(error)) from error


def dynamic_name(container_id: str, link_name: str, unique: str, *, address: object) -> str:
    """The name for a dynamic node. Raises LinkFault when the peer named one itself [3.5.3]."""
    if address is not None:
        raise LinkFault(ErrorCondition.INVALID_FIELD, "a dynamic terminus must not name an address")
    return dynamic_queue_name(container_id, link_name, unique)


class DynamicNodes:
    """The queues behind the dynamic nodes of one connection: each lives as long as the link that asked for it."""

    __slots__ = ("_connection", "_engine", "_names", "_owner", "_unique")

    def __init__(
        self, connection: Connection, engine: CheckedEngine, *, owner: object, unique: Callable[[], str]
    ) -> None:
        """``unique`` returns the part of a name that no peer can guess."""
        self._connection = connection
        self._engine = engine
        self._owner = owner
        self._unique = unique
        self._names: dict[SenderLink | ReceiverLink, str] = {}

    def make(self, link: SenderLink | ReceiverLink, link_name: str, address: object) -> str:
        """Declare a queue for this link; returns its name. Raises EngineError, LinkFault."""
        remote = self._connection.remote
        container_id = remote.container_id if remote is not None else ""
        name = dynamic_name(container_id, link_name, self._unique(), address=address)
        self._engine.declare_dynamic_queue(name, self._owner)
        self._names[link] = name
        return name

    def source_queue(self, link: SenderLink, link_name: str, source: Source) -> str:
        """The queue of a consumer's source, which is declared if the source is dynamic. Raises EngineError,
        LinkFault."""
        return self.make(link, link_name, source.address) if source.dynamic else queue_of(source.address)

    def delete(self, link: SenderLink | ReceiverLink) -> None:
        """Delete the queue of a link that is over, if it had one."""
        name = self._names.pop(link, None)
        if name is not None:
            self._engine.unchecked.delete_queue(name, self._owner)


def effective_source(source: Source, queue_name: str, stream: StreamFilters | None = None) -> Source:
    """The source in force: messages are moved, the default outcome is released, and no state of the terminus survives
    its link. From a stream messages are copied, and some filters may be in force."""
    is_topic = stream is not None or consumes_alone(source)
    held = {QUEUE: True, TOPIC: is_topic, TEMPORARY_QUEUE: source.dynamic}
    return Source(
        address=queue_address(queue_name) if source.dynamic else source.address,
        expiry_policy=DYNAMIC_EXPIRY if source.dynamic else PLAIN_EXPIRY,
        dynamic=source.dynamic,
        dynamic_node_properties={LIFETIME_POLICY: DELETE_ON_CLOSE} if source.dynamic else None,
        distribution_mode=MOVE if stream is None else COPY,
        filter=None if stream is None or not stream.effective else stream.effective,
        default_outcome=RELEASED,
        outcomes=OUTCOMES,
        capabilities=tuple(name for name in source.capabilities if held.get(name)),
    )


def effective_target(target: Target, queue_name: str | None) -> Target:
    """The target in force: no state of the terminus survives its link. ``queue_name`` is that of a dynamic target."""
    dynamic = queue_name is not None
    address = target.address if queue_name is None else queue_address(queue_name)
    is_queue = dynamic or (isinstance(address, str) and address.startswith("/queues/"))
    held = {QUEUE: is_queue, TOPIC: not is_queue and address is not None, TEMPORARY_QUEUE: dynamic}
    return Target(
        address=address,
        expiry_policy=DYNAMIC_EXPIRY if dynamic else PLAIN_EXPIRY,
        dynamic=dynamic,
        dynamic_node_properties={LIFETIME_POLICY: DELETE_ON_CLOSE} if dynamic else None,
        capabilities=tuple(name for name in target.capabilities if held.get(name)),
    )


def consumer_priority(attach: Attach) -> int:
    """The priority among consumers that the link properties ask for; 0 by default."""
    properties = attach.properties or {}
    value = properties.get("rabbitmq:priority", properties.get("priority", 0))
    number = getattr(value, "value", value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise LinkFault(ErrorCondition.INVALID_FIELD, "the link property priority must be an int")
    return number


def consumer_timeout_ms(attach: Attach) -> int | None:
    """How long deliveries may stay unsettled, in milliseconds, as the link properties ask for it; None by default."""
    value = (attach.properties or {}).get("rabbitmq:consumer-timeout")
    number = getattr(value, "value", value)
    if number is None or (isinstance(number, int) and not isinstance(number, bool) and number > 0):
        return number
    raise LinkFault(
        ErrorCondition.INVALID_FIELD, "the link property rabbitmq:consumer-timeout must be milliseconds above 0"
    )


def link_credit_wanted(attach: Attach) -> int | None:
    """The most link credit that the publisher can use, as the link properties say; None by default."""
    return _positive(attach, MAX_LINK_CREDIT)


def unsettled_bytes_max(attach: Attach) -> int | None:
    """The most bytes that the consumer is to hold unsettled, as the link properties ask for it; None by default."""
    number = _positive(attach, MAX_UNSETTLED_BYTES)
    if number is None:
        return None
    if attach.snd_settle_mode == SETTLED:
        raise LinkFault(
            ErrorCondition.INVALID_FIELD,
            f"the link property {MAX_UNSETTLED_BYTES} is for unsettled messages, and snd-settle-mode is settled",
        )
    return number


def _positive(attach: Attach, name: str) -> int | None:
    """A link property that is a positive integer; None without it."""
    value = (attach.properties or {}).get(name)
    number = getattr(value, "value", value)
    if number is None or (isinstance(number, int) and not isinstance(number, bool) and number > 0):
        return number
    raise LinkFault(
        ErrorCondition.INVALID_FIELD,
        f"the link property {name} is {quote(value)}; it must be an integer of at least 1",
    )
