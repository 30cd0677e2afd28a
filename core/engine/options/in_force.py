"""The options in force for a queue: its arguments and its policy joined into one typed value.

If an argument and a policy both give a number, the lower number applies. For any other key the argument applies, except
for the queue mode, where the policy applies: whether a queue is lazy is an operator's decision [engine row 4.12].

This module knows names and values, not queues.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from core.interface import AGE_SECONDS, QueueDeclaration
from core.message import DEFAULT_PRIORITY
from core.publish_limit import NO_RATES, PublishRates

DELIVERY_LIMIT_DEFAULT = 20
"""Failed deliveries of a message in a quorum queue before it is dead-lettered or dropped: the default of RabbitMQ since
4.0."""

DELIVER_LIMIT = "x-deliver-limit"
"""The spelling of ``x-delivery-limit`` in RabbitMQ's client for Python."""

QUORUM_LEVELS = 2
"""Quorum queues have two priority levels, as in RabbitMQ since 4.0: up to the default priority, and above it."""

ValueT = TypeVar("ValueT")


class QueueType(Enum):
    """What a queue promises, and how it is kept."""

    CLASSIC = "classic"
    QUORUM = "quorum"
    STREAM = "stream"


class Overflow(Enum):
    """What happens at the length limit."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"
    BLOCK = "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """The effective settings of one queue. None means no limit, or not set."""

    type: QueueType = QueueType.CLASSIC
    durable: bool = True
    """Whether its durable messages outlive the broker. Always False for exclusive queues."""
    lazy: bool = False
    single_active_consumer: bool = False
    sync_always: bool = False
    """Whether messages of a classic queue or stream are accepted only when synced."""
    sequence_annotation: bool = False
    """Whether deliveries carry their sequence number in the queue as the annotation x-opt-sequence."""
    deduplicate: bool = False
    """Whether a message whose publishing id was taken on before is dropped."""
    enqueued_annotation: bool = False
    """Whether deliveries carry the time of their arrival as the annotation x-opt-enqueued-time."""
    max_priority: int | None = None
    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    """In ready messages."""
    max_length_bytes: int | None = None
    """In bytes of ready messages as they are stored: without header section and delivery-annotations."""
    overflow: Overflow = Overflow.DROP_HEAD
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    at_least_once: bool = False
    """Whether a dead-lettered message is kept until its targets have confirmed it."""
    delivery_limit: int | None = None
    consumer_timeout_ms: int | None = None
    max_link_credit: int | None = None
    """The most link credit on each link to and from the queue. Only a policy can set it."""
    max_unsettled: int | None = None
    """The most messages that each consumer of AMQP 1.0 holds unsettled. Only a policy can set it."""
    max_unsettled_bytes: int | None = None
    """The same in bytes of messages without header section. Only a policy can set it."""
    publish_rates: PublishRates = NO_RATES
    """For all links that publish to the queue, together. Only a policy can set them."""
    max_age_s: int | None = None
    """Streams: how long messages are kept, in seconds."""
    stream_segment_bytes: int | None = None

    @property
    def levels(self) -> int:
        """How many priority levels the queue has."""
        return QUORUM_LEVELS if self.type is QueueType.QUORUM else 1 + (self.max_priority or 0)

    def level_of(self, priority: int) -> int:
        """Return the level of messages with this priority, from 0 up."""
        if self.type is QueueType.QUORUM:
            return int(priority > DEFAULT_PRIORITY)
        return min(priority, self.max_priority or 0)


def effective(declaration: QueueDeclaration, policy: Mapping[str, object]) -> QueueOptions:
    """Join a queue's arguments with a policy's definition. Both were checked when they were declared."""
    arguments = declaration.arguments
    if not (arguments or policy):
        return _PLAIN[declaration.durable and not declaration.exclusive]
    if DELIVER_LIMIT in arguments:
        arguments = {"x-delivery-limit": arguments[DELIVER_LIMIT], **arguments}
    kind = QueueType(str(arguments.get("x-queue-type", QueueType.CLASSIC.value)))
    choose = _Choice(arguments, policy)
    overflow = choose.first("overflow", str)
    return QueueOptions(
        type=kind,
        durable=declaration.durable and not declaration.exclusive,
        lazy=(policy.get("queue-mode") or arguments.get("x-queue-mode")) == "lazy",
        single_active_consumer=arguments.get("x-single-active-consumer") is True,
        sync_always=choose.first("sync", str) == "always",
        sequence_annotation=arguments.get("x-sequence") is True,
        deduplicate=choose.first("deduplicate", bool) is True,
        enqueued_annotation=choose.first("enqueued-time", bool) is True,
        max_priority=choose.first("max-priority", int),
        message_ttl_ms=choose.lower("message-ttl"),
        expires_ms=choose.lower("expires"),
        max_length=choose.lower("max-length"),
        max_length_bytes=choose.lower("max-length-bytes"),
        overflow=Overflow.DROP_HEAD if overflow is None else Overflow(overflow),
        dead_letter_exchange=choose.first("dead-letter-exchange", str),
        dead_letter_routing_key=choose.first("dead-letter-routing-key", str),
        at_least_once=choose.first("dead-letter-strategy", str) == "at-least-once",
        delivery_limit=_delivery_limit(kind, choose.lower("delivery-limit")),
        consumer_timeout_ms=choose.lower("consumer-timeout"),
        max_link_credit=choose.lower("max-link-credit"),
        max_unsettled=choose.lower("max-unsettled"),
        max_unsettled_bytes=choose.lower("max-unsettled-bytes"),
        publish_rates=PublishRates.of(policy),
        max_age_s=_lower(_age(arguments.get("x-max-age")), _age(policy.get("max-age"))),
        stream_segment_bytes=choose.first("stream-max-segment-size-bytes", int),
    )


_PLAIN = tuple(QueueOptions(durable=durable) for durable in (False, True))
"""The options of a queue without arguments and policy, which most queues are; to join nothing takes 25 us."""


class _Choice:
    """Looks keys up in arguments and policy. The argument's name is the policy's key with the prefix ``x-``."""

    def __init__(self, arguments: Mapping[str, object], policy: Mapping[str, object]) -> None:
        self._arguments = arguments
        self._policy = policy

    def first(self, key: str, kind: type[ValueT]) -> ValueT | None:
        value = self._arguments.get(f"x-{key}", self._policy.get(key))
        return value if isinstance(value, kind) else None

    def lower(self, key: str) -> int | None:
        return _lower(self._arguments.get(f"x-{key}"), self._policy.get(key))


def _lower(*values: object) -> int | None:
    return min((value for value in values if isinstance(value, int)), default=None)


def _delivery_limit(kind: QueueType, given: int | None) -> int | None:
    if kind is not QueueType.QUORUM:
        return given
    if given is not None and given < 0:
        return None  # -1 removes the limit, as in RabbitMQ
    return DELIVERY_LIMIT_DEFAULT if given is None else given


def _age(value: object) -> int | None:
    if not isinstance(value, str) or len(value) < 2 or value[-1] not in AGE_SECONDS or not value[:-1].isdigit():
        return None
    return int(value[:-1]) * AGE_SECONDS[value[-1]]
