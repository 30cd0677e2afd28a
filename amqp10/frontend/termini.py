"""What the broker answers to an attach: the source or target as it really is [3.5.3, 3.5.4].

A terminus names a queue or an exchange by its address, asks for a dynamic one, or (a target only) names nothing: then
every message says where it goes. Everything else is refused here, on the link, with a reason.
"""

from dataclasses import replace

from amqp10.addresses import AddressError, dynamic_queue_name, parse_source, parse_target, queue_address
from amqp10.errors import ErrorCondition, LinkFault
from amqp10.frontend.stream_filters import StreamFilters
from amqp10.messaging import RELEASED, Source, Target
from amqp10.performatives import Attach
from core.interface import Target as EngineTarget

OUTCOMES = ("amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list")
"""The outcomes that a consumer may use [3.4]."""
DYNAMIC_EXPIRY, PLAIN_EXPIRY = "link-detach", "session-end"
"""A dynamic node goes with its link; of any other terminus nothing is kept, which is the default's meaning [3.5.6]."""


def check_fresh(attach: Attach) -> None:
    """Raises LinkFault for an attach that wants to resume deliveries: there is nothing to resume here yet."""
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
    return source


def engine_target(address: str) -> EngineTarget:
    """Raises LinkFault invalid-field for an address that is none."""
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


def effective_source(source: Source, queue_name: str, stream: StreamFilters | None = None) -> Source:
    """The source as it is: messages are moved, an unsettled message is released, and nothing of the terminus outlives
    its link. From a stream messages are copied, and some filters may be in force."""
    return replace(
        source,
        address=queue_address(queue_name) if source.dynamic else source.address,
        durable=0,
        expiry_policy=DYNAMIC_EXPIRY if source.dynamic else PLAIN_EXPIRY,
        timeout=0,
        distribution_mode="move" if stream is None else "copy",
        filter=None if stream is None or not stream.effective else stream.effective,
        default_outcome=RELEASED,
        outcomes=OUTCOMES,
    )


def effective_target(target: Target, queue_name: str | None) -> Target:
    """The target as it is: nothing of the terminus outlives its link."""
    address = target.address if queue_name is None else queue_address(queue_name)
    expiry_policy = PLAIN_EXPIRY if queue_name is None else DYNAMIC_EXPIRY
    return replace(target, address=address, durable=0, expiry_policy=expiry_policy, timeout=0)


def consumer_priority(attach: Attach) -> int:
    """The priority among consumers that link properties ask for; 0 when they do not."""
    properties = attach.properties or {}
    value = properties.get("rabbitmq:priority", properties.get("priority", 0))
    number = getattr(value, "value", value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise LinkFault(ErrorCondition.INVALID_FIELD, "the link property priority must be an int")
    return number


def consumer_timeout_ms(attach: Attach) -> int | None:
    """How long deliveries may stay unsettled, as link properties ask for it; None when they do not."""
    value = (attach.properties or {}).get("rabbitmq:consumer-timeout")
    number = getattr(value, "value", value)
    if number is None or (isinstance(number, int) and not isinstance(number, bool) and number > 0):
        return number
    raise LinkFault(
        ErrorCondition.INVALID_FIELD, "the link property rabbitmq:consumer-timeout must be milliseconds above 0"
    )
