"""basic.qos, basic.consume, basic.cancel and basic.get: how consumers begin and end [0-9-1 1.8.3]."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from core.amqp091 import methods
from core.amqp091.errors import Amqp091ConnectionFault, ChannelFault, ReplyCode, quote
from core.amqp091.frontend.consuming import Consuming, Consumption
from core.amqp091.frontend.definitions import DefinitionMethods
from core.amqp091.frontend.direct_reply import DIRECT_REPLY_TO, is_reply_queue, reply_queue_name
from core.amqp091.frontend.shared import Shared
from core.amqp091.methods import Method
from core.amqp091.table import Amqp091Timestamp
from core.clock import Now
from core.errors import Invalid, Locked, PreconditionFailed
from core.interface import AGE_SECONDS, ConsumeOptions, StreamOptions, StreamPosition

CONSUMER_TAG_PREFIX = "amq.ctag-"
CANCEL_ON_HA_FAILOVER = "x-cancel-on-ha-failover"
"""The client wants basic.cancel when the leader of the queue is lost. RabbitMQ's name."""
ARGUMENTS = ("x-priority", "x-consumer-timeout", CANCEL_ON_HA_FAILOVER)
"""Arguments that a consumer of a queue may have."""
STREAM_ARGUMENTS = ("x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered", CANCEL_ON_HA_FAILOVER)
FILTER_VALUES_MAX = 256
"""Filter values of one consumer: each chunk of a stream is compared with all of them."""
PRIORITIES = range(-(2**31), 2**31)


class ConsumerMethods:
    """The consumer methods of one channel. Raises EngineError, ChannelFault and Amqp091ConnectionFault."""

    __slots__ = ("_consuming", "_definitions", "_shared")

    def __init__(self, shared: Shared, consuming: Consuming, definitions: DefinitionMethods) -> None:
        self._shared = shared
        self._consuming = consuming
        self._definitions = definitions

    def knows(self, method: Method) -> bool:
        """Whether this class answers the method."""
        return type(method) in self._ANSWERS

    def answer(self, method: Method) -> Method | None:
        """Carry out a method, and return its answer."""
        return self._ANSWERS[type(method)](self, method)

    def _qos(self, method: methods.BasicQos) -> Method:
        if method.prefetch_size:
            raise Amqp091ConnectionFault(ReplyCode.NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
        if method.global_:
            self._consuming.channel_prefetch_count = method.prefetch_count
            self._consuming.ask_all()
        else:
            self._consuming.prefetch_count = method.prefetch_count
        return methods.BasicQosOk()

    def consume(self, method: methods.BasicConsume, now: Now) -> Consumption:
        """Attach a consumer, without deliveries yet."""
        shared, consuming = self._shared, self._consuming
        if method.no_local:
            raise Amqp091ConnectionFault(ReplyCode.NOT_IMPLEMENTED, "no_local=true")
        if method.consumer_tag in consuming.by_tag:
            raise Amqp091ConnectionFault(
                ReplyCode.NOT_ALLOWED, f"attempt to reuse consumer tag {quote(method.consumer_tag)}"
            )
        if shared.consumers >= shared.settings.amqp091.consumers_max:
            raise ChannelFault(
                ReplyCode.PRECONDITION_FAILED,
                f"the connection has {shared.consumers} consumers, and may have no more (consumers_max)",
            )
        consumption = Consumption(
            shared,
            consumer_tag=method.consumer_tag or CONSUMER_TAG_PREFIX + shared.unique(),
            no_ack=method.no_ack,
            prefetch_count=consuming.prefetch_count,
        )
        queue = self._definitions.named(method.queue)
        if queue == DIRECT_REPLY_TO:
            queue = self._reply_queue(method)
        shared.engine.check_source(queue)
        kind = shared.engine.queue_info(queue, shared.owner).type
        _check_arguments(method.arguments, queue, kind)
        consumption.of_stream = kind == "stream"
        consumption.ends_with_leader = _boolean(method.arguments, CANCEL_ON_HA_FAILOVER)
        stream = self._stream_options(method, now) if consumption.of_stream else StreamOptions()
        options = ConsumeOptions(
            priority=_priority(method.arguments),
            exclusive=method.exclusive,
            stream=stream,
            consumer_timeout_ms=_consumer_timeout_ms(method.arguments),
            settled_when_sent=method.no_ack,
        )
        try:
            consuming.consume(queue, consumption, options)
        except Locked as error:  # not a foreign exclusive queue: another consumer is exclusive
            raise ChannelFault(ReplyCode.ACCESS_REFUSED, str(error)) from error
        return consumption

    def _reply_queue(self, method: methods.BasicConsume) -> str:
        shared = self._shared
        if not method.no_ack:
            raise ChannelFault(ReplyCode.PRECONDITION_FAILED, "reply consumer cannot acknowledge")
        if self._consuming.channel in shared.reply_queues:
            raise ChannelFault(ReplyCode.PRECONDITION_FAILED, "reply consumer already set")
        name = reply_queue_name(shared.unique())
        shared.engine.declare_dynamic_queue(name, shared.owner)
        shared.reply_queues[self._consuming.channel] = name
        return name

    def _cancel(self, method: methods.BasicCancel) -> Method:
        consumption = self._consuming.by_tag.get(method.consumer_tag)
        consumer = consumption.consumer if consumption is not None else None
        if consumer is not None and is_reply_queue(consumer.queue_name):
            self._shared.reply_queues.pop(self._consuming.channel, None)
        self._consuming.cancel(method.consumer_tag)
        return methods.BasicCancelOk(consumer_tag=method.consumer_tag)

    def _get(self, method: methods.BasicGet) -> None:
        """Begin basic.get. It is answered when the engine has replied."""
        queue = self._definitions.named(method.queue)
        self._shared.engine.check_source(queue)
        if self._shared.engine.queue_info(queue, self._shared.owner).type == "stream":
            raise Amqp091ConnectionFault(ReplyCode.NOT_IMPLEMENTED, "basic.get from a stream; use basic.consume")
        self._consuming.get(queue, no_ack=method.no_ack)

    def _stream_options(self, method: methods.BasicConsume, now: Now) -> StreamOptions:
        if method.no_ack:
            raise Amqp091ConnectionFault(ReplyCode.NOT_IMPLEMENTED, "no_ack is not supported by streams")
        if not self._consuming.prefetch_count:
            raise ChannelFault(ReplyCode.PRECONDITION_FAILED, "consumer prefetch count is not set for a stream")
        arguments = method.arguments
        return StreamOptions(
            position=_position(arguments.get("x-stream-offset", "next"), now),
            filter_values=_filter_values(arguments.get("x-stream-filter", [])),
            match_unfiltered=_boolean(arguments, "x-stream-match-unfiltered"),
        )

    _ANSWERS: ClassVar[Mapping[type[Method], Callable[..., Method | None]]] = {
        methods.BasicQos: _qos,
        methods.BasicCancel: _cancel,
        methods.BasicGet: _get,
    }
    """Shared by all objects: bound methods in each one would be a reference cycle, for the garbage collector to
    free."""


def _check_arguments(arguments: Mapping[str, object], queue: str, kind: str) -> None:
    """Raises PreconditionFailed for an argument that would need support which the broker does not have, or not here."""
    known = STREAM_ARGUMENTS if kind == "stream" else ARGUMENTS
    for name in arguments:
        if name.startswith("x-") and name not in known:
            raise PreconditionFailed(
                f"consumer argument {quote(name)} is not supported by queue {quote(queue)} of type {kind};"
                f" there are {', '.join(known)}"
            )


def _priority(arguments: Mapping[str, object]) -> int:
    priority = arguments.get("x-priority", 0)
    if not isinstance(priority, int) or isinstance(priority, bool) or priority not in PRIORITIES:
        raise Invalid(f"x-priority is {quote(str(priority))}; it must be a whole number of 32 bits")
    return priority


def _consumer_timeout_ms(arguments: Mapping[str, object]) -> int | None:
    timeout = arguments.get("x-consumer-timeout")
    if timeout is None:
        return None
    if not isinstance(timeout, int) or isinstance(timeout, bool) or timeout < 1:
        raise Invalid(f"x-consumer-timeout is {quote(str(timeout))}; it must be a number of milliseconds above 0")
    return timeout


def _position(offset: object, now: Now) -> StreamPosition | int | float:
    """The position that x-stream-offset names. Raises Invalid."""
    if isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0:
        return offset
    if isinstance(offset, Amqp091Timestamp):
        return float(offset.seconds)
    if isinstance(offset, str):
        if offset in {position.value for position in StreamPosition}:
            return StreamPosition(offset)
        count, unit = offset[:-1], offset[-1:]
        if unit in AGE_SECONDS and count.isascii() and count.isdigit() and len(count) <= 9:
            return now.wall - int(count) * AGE_SECONDS[unit]
    raise Invalid(
        f"x-stream-offset is {quote(str(offset))}; it must be first, last, next, an offset, a timestamp or an age such"
        " as 7D or 1h"
    )


def _filter_values(values: object) -> tuple[str, ...]:
    """Raises Invalid."""
    found = [values] if isinstance(values, str) else values
    if not isinstance(found, list) or not all(isinstance(value, str) for value in found):
        raise Invalid("x-stream-filter must be a string or an array of strings")
    if len(found) > FILTER_VALUES_MAX:
        raise Invalid(f"x-stream-filter has {len(found)} values; it may have {FILTER_VALUES_MAX}")
    return tuple(found)


def _boolean(arguments: Mapping[str, object], name: str) -> bool:
    """An argument that is false without a value. Raises Invalid."""
    value = arguments.get(name, False)
    if not isinstance(value, bool):
        raise Invalid(f"{name} is {quote(str(value))}; it must be a boolean")
    return value
