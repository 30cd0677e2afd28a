"""Consuming on one channel: prefetch becomes queue grants, deliveries become basic.deliver, and basic.get.

The front end grants a queue a batch of a consumer's room at a time: at most 256 messages, at most what the
prefetch-count leaves, and none while too much output waits for the socket. When half of a grant is used and there is
room, it is set anew. So a queue that has messages never waits for an acknowledgement that the prefetch-count does not
ask for.

A prefetch-count of the whole channel (global) is shared by its consumers: each may hold a grant for all that is left,
and deliveries beyond it go back to their queue as never sent. A consumer that lost deliveries in this way is first when
there is room again.

A settlement of many ranges of deliveries is done in steps, and later methods on the channel wait for it.

Acknowledgements are by delivery-tag, which the channel counts from 1; the engine's delivery numbers are per consumer.
``Unacked`` maps one to the other.

A consumer outlives the leader of its queue (``moved_consumers.py``): for a while it has no consumer in the engine.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from core.amqp091.deliver_run import encode_by_keys, encode_each, encode_run
from core.amqp091.errors import ChannelFault, ReplyCode, cut
from core.amqp091.framing import content_frames, method_frame
from core.amqp091.frontend.flow_report import settled_as
from core.amqp091.frontend.rendering import offset_in, rendered
from core.amqp091.frontend.shared import Shared
from core.amqp091.methods import BasicCancel, BasicGetEmpty, BasicGetOk
from core.amqp091.unacked import DeliveryRange, Unacked, UnknownDeliveryTag
from core.flow_facts import FLOW_STREAM
from core.interface import ConsumeOptions, Consumer, Delivered, Disposal, GrantReply
from core.leader_losses import begin_anew
from core.message import UNSENT, Return, Route, part_of
from core.observe.flow_events.accounts import LinkAccount

FAILED = Return(delivery_failed=True)
"""basic.reject with requeue: a failed attempt, which quorum queues count."""
GIVEN_BACK = Return()
"""basic.nack with requeue and basic.recover: no attempt has failed. The difference is RabbitMQ's."""
DELIVERED_BYTES_A_UNIT = 256
"""Bytes of a delivery that are written and sent for one unit of :mod:`core.work`."""
DELIVERY_RANGE_WORK = 12
"""Cost of settling one :class:`DeliveryRange`, in the same units."""
GETTERS_KEPT = 64
"""Queues for which a channel keeps its attachment for basic.get."""
SHORT_KEY = 63
"""A routing key of no more characters fits a short string of 255 bytes, whichever characters it has."""


class Consumption:
    """One consumer of a channel, or its attachment for basic.get from one queue."""

    __slots__ = (
        "_shared",
        "cancelled",
        "consumer",
        "consumer_tag",
        "ends_with_leader",
        "entry_bytes",
        "getter",
        "granted",
        "next_offset",
        "no_ack",
        "of_stream",
        "prefetch_count",
        "returned_below",
    )

    def __init__(
        self, shared: Shared, *, consumer_tag: str, no_ack: bool, prefetch_count: int = 0, getter: bool = False
    ) -> None:
        self._shared = shared
        self.consumer_tag = consumer_tag
        self.no_ack = no_ack
        self.prefetch_count = prefetch_count
        """0 for no limit."""
        self.getter = getter
        """Whether it is for basic.get; then it asks for messages only when basic.get does."""
        self.consumer: Consumer | None = None
        """None also while it waits for the next leader of its queue."""
        self.ends_with_leader = False
        """It is cancelled when the leader of its queue is lost, as its client wants."""
        self.of_stream = False
        self.next_offset: int | None = None
        """Of a stream: where it goes on behind what was sent to it; None if nothing was."""
        self.returned_below = 0
        """Of a stream: deliveries below this number are behind one that went back to it unsent, and come again."""
        self.granted = 0
        """The queue grant that the engine still has for it, in messages."""
        self.entry_bytes = 1
        """The size of the last message. Grants are limited so that a batch of such messages fits the output limit."""
        self.cancelled = False
        """It gets no more deliveries; those that it has can still be acknowledged."""

    def options_anew(self, former: Consumer) -> ConsumeOptions | None:
        """What the next leader is asked for, where the former consumer had been asked for at the last one. None if only
        that leader knew where in the stream it was to begin."""
        options, stream = former.options, former.options.stream
        if self.of_stream and self.next_offset is not None:
            stream = replace(stream, position=self.next_offset)
        elif self.of_stream:
            if (begin := begin_anew(former)) is None:
                return None
            stream = replace(stream, position=begin)
        return replace(options, first_number=former.next_number, stream=stream)

    def ask(self, unacked: int, channel_room: int | None) -> bool:
        """Set the queue grant anew, if that is due. False while too much output waits for the socket: call again later.

        ``unacked`` is the number of messages that this consumer holds, ``channel_room`` what the channel's
        prefetch-count leaves.
        """
        consumer = self.consumer
        if consumer is None or self.cancelled or self.getter or self._shared.drained:
            return True
        shared = self._shared
        room = min(shared.max_queue_credit, max(1, shared.unsent_bytes_max // self.entry_bytes))
        if self.prefetch_count and not self.no_ack:
            room = min(room, self.prefetch_count - unacked)
        if channel_room is not None and not self.no_ack:
            room = min(room, channel_room)
        if room <= 0 or self.granted > room // 2:
            return True
        if shared.congested:
            return False
        self.granted = room
        self._shared.engine.grant(consumer, room, False)
        return True


class Consuming:
    """The consumers' side of one channel."""

    __slots__ = (
        "_flow",
        "_getters",
        "_getting",
        "_got",
        "_hungry",
        "_passed_over",
        "_shared",
        "_unacked",
        "by_tag",
        "channel",
        "channel_prefetch_count",
        "prefetch_count",
        "unfinished",
    )

    def __init__(self, channel: int, shared: Shared) -> None:
        self.channel = channel
        self._shared = shared
        self.by_tag: dict[str, Consumption] = {}
        self.prefetch_count = 0
        """The prefetch-count for later consumers."""
        self.channel_prefetch_count = 0
        self._unacked: Unacked[Consumption] = Unacked()
        self._hungry: dict[Consumption, None] = {}
        """Consumers that need a grant once the socket has taken the waiting output."""
        self._passed_over: dict[Consumption, None] = {}
        """Consumers whose deliveries went back because the channel had no room."""
        self._getters: dict[str, Consumption] = {}
        self._getting: Consumption | None = None
        """The attachment of the basic.get that is not answered yet."""
        self._flow: LinkAccount | None = None
        """The recorder of flow events; None where they are not recorded, or before the first consumer."""
        self._got: Delivered | None = None
        self.unfinished: tuple[list[tuple[int, int]], Disposal | Return] | None = None
        """The rest of a settlement of many deliveries, in ranges of tags. Later methods on the channel wait for it."""

    @property
    def unacked(self) -> int:
        """Messages delivered and not acknowledged."""
        return self._unacked.total

    @property
    def getting(self) -> bool:
        """Whether a basic.get is not answered yet."""
        return self._getting is not None

    # --- consumers ---------------------------------------------------------------------------------------------

    def consume(self, queue: str, consumption: Consumption, options: ConsumeOptions) -> None:
        """Attach a consumer, which gets no deliveries before :meth:`ask`. Raises EngineError."""
        shared = self._shared
        self._attach(queue, consumption, options)
        self.by_tag[consumption.consumer_tag] = consumption
        self._record(queue)
        shared.consumers += 1
        shared.traffic.consumers += 1

    def _attach(self, queue: str, consumption: Consumption, options: ConsumeOptions) -> None:
        shared = self._shared
        consumption.consumer = shared.engine.consume(queue, shared.mailbox, shared.owner, options, (self, consumption))

    def leader_lost(self, consumption: Consumption) -> None:
        """The node that led the queue of a consumer leads it no more. What the client has not acknowledged comes again
        from the next leader, and acknowledging it has no effect. Of a stream nothing comes again, so it counts against
        the prefetch-count until then."""
        consumption.consumer, consumption.granted = None, 0
        self._forget_wishes(consumption)
        if not consumption.of_stream:
            self._unacked.forget(consumption)
            if self.channel_prefetch_count:
                self.ask_all()

    def go_on(self, consumption: Consumption, queue: str, options: ConsumeOptions) -> None:
        """Have a consumer that has lost its leader consume from the next one. Raises EngineError."""
        self._attach(queue, consumption, options)
        self.ask(consumption)

    def _record(self, queue: str) -> None:
        if self._flow is None and queue != FLOW_STREAM:
            self._flow = self._shared.link_recorder(self.channel, "out")

    def ask(self, consumption: Consumption) -> None:
        """Set a consumer's queue grant by the room that there is."""
        if not consumption.ask(self._unacked.count(consumption), self._channel_room()):
            self._hungry[consumption] = None
        elif self._hungry:
            self._hungry.pop(consumption, None)

    def ask_all(self) -> None:
        """Set all queue grants, after the channel may have got room. As long as the channel has a prefetch-count,
        consumers whose deliveries went back come first, and alone: the others follow when the queues have answered."""
        if self._channel_room() == 0:
            return
        passed_over, self._passed_over = self._passed_over, {}
        for consumption in passed_over:
            consumption.granted = 0
        first = passed_over if self.channel_prefetch_count else {}
        for consumption in first or self.by_tag.values():
            self.ask(consumption)

    def hold(self) -> None:
        """Set all queue grants to 0: the broker is being drained."""
        for consumption in self.by_tag.values():
            if consumption.consumer is not None:
                consumption.granted = 0
                self._shared.engine.grant(consumption.consumer, 0, False)

    def socket_ready(self) -> None:
        """Ask for the consumers that waited for the socket: the waiting output is gone."""
        hungry, self._hungry = self._hungry, {}
        for consumption in hungry:
            self.ask(consumption)

    @property
    def hungry(self) -> bool:
        """Whether a consumer waits for the socket."""
        return bool(self._hungry)

    def cancel(self, consumer_tag: str) -> None:
        """basic.cancel: no more is delivered; deliveries so far can still be acknowledged. An unknown tag is no
        error."""
        consumption = self.by_tag.pop(consumer_tag, None)
        if consumption is None:
            return
        self._shared.consumers -= 1
        self._shared.traffic.consumers -= 1
        consumption.cancelled = True
        self._forget_wishes(consumption)
        if consumption.consumer is None:
            return  # it waits for a leader
        keeps = self._unacked.count(consumption) > 0
        self._shared.engine.cancel(consumption.consumer, requeue=not keeps)
        if not keeps:
            consumption.consumer = None  # breaks their reference cycle

    def queue_gone(self, consumption: Consumption) -> bool:
        """Remove a consumer whose queue was deleted. True when the client has to be told."""
        self._unacked.forget(consumption)
        consumption.consumer = None
        self._forget_wishes(consumption)
        if consumption is self._getting:
            self._end_get(BasicGetEmpty())
        if self.channel_prefetch_count:
            self.ask_all()
        if self.by_tag.get(consumption.consumer_tag) is consumption:
            del self.by_tag[consumption.consumer_tag]
            self._shared.consumers -= 1
            self._shared.traffic.consumers -= 1
            return True
        self._getters = {name: getter for name, getter in self._getters.items() if getter is not consumption}
        return False

    def _forget_wishes(self, consumption: Consumption) -> None:
        self._hungry.pop(consumption, None)
        self._passed_over.pop(consumption, None)

    def tell_cancelled(self, consumption: Consumption) -> None:
        """Send basic.cancel to a client that supports it."""
        self._shared.connection.send(self.channel, BasicCancel(consumer_tag=consumption.consumer_tag, no_wait=True))

    # --- deliveries --------------------------------------------------------------------------------------------

    def delivered(self, consumption: Consumption, action: Delivered) -> None:
        """Send deliveries of a queue."""
        if consumption is self._getting:
            self._got = action
            return
        consumer = consumption.consumer
        if consumer is None:
            return
        count = len(action.entries)
        consumption.granted -= count
        consumption.entry_bytes = len(action.entries[-1])
        if not consumption.no_ack:
            room = 0 if action.first < consumption.returned_below else self._channel_room()
            if room is not None and count > room:
                self._shared.engine.settle(consumer, action.first + room, action.first + count - 1, UNSENT)
                del action.entries[room:]
                count = room
                self._passed_over[consumption] = None
                if consumption.of_stream:
                    consumption.returned_below = consumer.next_number
        if not count or consumption.cancelled:
            return
        tag = self._tags(consumption, action.first, count)
        pieces = self._encoded(action, consumption, tag)
        self._shared.work.spent += sum(map(len, pieces)) // DELIVERED_BYTES_A_UNIT
        self._shared.connection.write(*pieces)
        self._count(consumption, count, redelivered=not action.first_acquirer)
        if consumption.no_ack:
            self._shared.engine.settle(consumer, action.first, action.first + count - 1, Disposal.ACCEPTED)
        if consumption.granted <= self._shared.max_queue_credit // 2:
            self._hungry[consumption] = None

    def _count(self, consumption: Consumption, n: int, *, redelivered: bool) -> None:
        traffic = self._shared.traffic
        traffic.messages_delivered += n
        if self._flow is not None and _is_recorded(consumption):
            self._flow.transferred(n)
        if redelivered:
            traffic.messages_redelivered += n
        match consumption.getter, consumption.no_ack:
            case False, False:
                traffic.messages_delivered_consume_manual_ack += n
            case False, True:
                traffic.messages_delivered_consume_auto_ack += n
            case True, False:
                traffic.messages_delivered_get_manual_ack += n
            case _:
                traffic.messages_delivered_get_auto_ack += n

    def _tags(self, consumption: Consumption, first: int, count: int) -> int:
        if consumption.no_ack:
            return self._unacked.skip(count)
        return self._unacked.append(consumption, first, count)

    def _encoded(self, action: Delivered, consumption: Consumption, tag: int) -> list[bytes | memoryview]:
        """The frames of deliveries with the delivery-tags from ``tag`` up."""
        shared, routes, consumer_tag = self._shared, action.routes, consumption.consumer_tag
        entries, redelivered = rendered(action, shared.converter), not action.first_acquirer
        if consumption.of_stream and (offset := offset_in(entries[-1])) is not None:
            consumption.next_offset = offset + 1
        frame_max = shared.connection.frame_max
        if isinstance(routes, list):
            own_exchange, own_key = _names(None, action)
            of_each = routes[: len(entries)]
            exchanges = [own_exchange if route is None else route.exchange for route in of_each]
            keys = [own_key if route is None else route.routing_keys[0] for route in of_each]
            if max(map(len, keys)) > SHORT_KEY:
                keys = list(map(_short, keys))
            if exchanges.count(exchanges[0]) == len(exchanges):
                return encode_by_keys(
                    self.channel, consumer_tag, tag, redelivered, exchanges[0], keys, entries, frame_max
                )
            names = list(zip(exchanges, keys, strict=True))
            return encode_each(self.channel, consumer_tag, tag, redelivered, names, entries, frame_max)
        exchange, routing_key = _names(routes, action)
        return encode_run(self.channel, consumer_tag, tag, redelivered, exchange, routing_key, entries, frame_max)

    def _channel_room(self) -> int | None:
        if not self.channel_prefetch_count:
            return None
        got = sum(self._unacked.count(getter) for getter in self._getters.values())
        return max(0, self.channel_prefetch_count - self._unacked.total + got)

    # --- basic.get ---------------------------------------------------------------------------------------------

    def get(self, queue: str, *, no_ack: bool) -> None:
        """Ask for one message. The answer is sent when the engine has replied. Raises EngineError."""
        getter = self._getters.pop(queue, None)
        if getter is None:
            self._drop_getters()
            getter = Consumption(self._shared, consumer_tag="", no_ack=no_ack, getter=True)
            self._record(queue)
            shared = self._shared
            options = ConsumeOptions(getter=True)
            getter.consumer = shared.engine.consume(queue, shared.mailbox, shared.owner, options, (self, getter))
        self._getters[queue] = getter
        getter.no_ack = no_ack
        self._getting = getter
        assert getter.consumer is not None
        self._shared.engine.grant(getter.consumer, 1, True)

    def replied(self, consumption: Consumption, action: GrantReply) -> None:
        """Take a queue's answer to a grant."""
        if consumption is not self._getting:
            if self.channel_prefetch_count:
                self.ask_all()
            return
        got, self._got = self._got, None
        if got is None:
            self._shared.traffic.messages_get_empty += 1
            self._end_get(BasicGetEmpty())
            return
        self._count(consumption, 1, redelivered=not got.first_acquirer)
        self._getting = None
        exchange, routing_key = _names(got.routes[0] if isinstance(got.routes, list) else got.routes, got)
        method = BasicGetOk(
            delivery_tag=self._tags(consumption, got.first, 1),
            redelivered=not got.first_acquirer,
            exchange=exchange,
            routing_key=routing_key,
            message_count=action.available,
        )
        connection = self._shared.connection
        entry = rendered(got, self._shared.converter)[0]
        frames = content_frames(self.channel, entry, connection.frame_max)
        connection.write(method_frame(self.channel, method) + frames)
        if consumption.no_ack and consumption.consumer is not None:
            self._shared.engine.settle(consumption.consumer, got.first, got.first, Disposal.ACCEPTED)

    def _end_get(self, answer: BasicGetEmpty) -> None:
        self._getting = self._got = None
        self._shared.connection.send(self.channel, answer)

    def _drop_getters(self) -> None:
        """Detach the oldest attachments for basic.get that hold no deliveries."""
        for queue, getter in list(self._getters.items()):
            if len(self._getters) < GETTERS_KEPT:
                return
            if not self._unacked.count(getter) and getter.consumer is not None:
                self._shared.engine.cancel(getter.consumer)
                getter.consumer = None  # breaks their reference cycle
                del self._getters[queue]

    # --- acknowledgements --------------------------------------------------------------------------------------

    def settle(self, delivery_tag: int, disposal: Disposal | Return, *, multiple: bool) -> None:
        """basic.nack, basic.reject. Raises ChannelFault for an unknown delivery-tag."""
        if not (multiple or delivery_tag):
            raise ChannelFault(ReplyCode.PRECONDITION_FAILED, "unknown delivery tag 0")
        self._settle([(0 if multiple else delivery_tag, delivery_tag)], disposal)

    def acknowledge(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Settle a run of basic.ack, in ranges of delivery-tags; a first of 0 means all up to the last. Raises
        ChannelFault."""
        self._settle(ranges, Disposal.ACCEPTED)

    def recover(self) -> None:
        """basic.recover: every unacknowledged delivery goes back to its queue, and is delivered again."""
        self._settle([(0, 0)], GIVEN_BACK)

    def settle_more(self) -> None:
        """Continue the unfinished settlement. Raises ChannelFault."""
        assert self.unfinished is not None
        (ranges, disposal), self.unfinished = self.unfinished, None
        self._settle(ranges, disposal)

    def _settle(self, ranges: Sequence[tuple[int, int]], disposal: Disposal | Return) -> None:
        """Settle the ranges in order. Of a range of many deliveries some are settled, and the rest waits."""
        unacked = self._unacked
        for place, (first, last) in enumerate(ranges):
            try:
                if first:
                    taken, due = unacked.take_range(first, last)
                else:
                    last = last or unacked.newest
                    taken, due = unacked.take_up_to(last) if last else ([], 1)
            except UnknownDeliveryTag as unknown:
                self._dispose(unknown.taken, disposal)
                raise ChannelFault(ReplyCode.PRECONDITION_FAILED, str(unknown)) from unknown
            self._dispose(taken, disposal)
            if due <= last:
                self.unfinished = ([(first and due, last), *ranges[place + 1 :]], disposal)
                self._shared.wake()
                return

    def _dispose(self, taken: list[DeliveryRange[Consumption]], disposal: Disposal | Return) -> None:
        engine = self._shared.engine
        self._shared.work.spent += DELIVERY_RANGE_WORK * len(taken)
        touched: dict[Consumption, None] = {}
        for consumption, first, last in taken:
            if consumption.consumer is not None:
                engine.settle(consumption.consumer, first, last, disposal)
                if self._flow is not None and _is_recorded(consumption):
                    self._flow.settled(last - first + 1, settled_as(disposal))
                if disposal is Disposal.ACCEPTED:
                    self._shared.traffic.messages_acknowledged += last - first + 1
                touched[consumption] = None
        for consumption in touched:
            self._has_less(consumption)
        if self.channel_prefetch_count and taken:
            self.ask_all()

    def _has_less(self, consumption: Consumption) -> None:
        """Ask for more for a consumer that holds fewer deliveries; one that was cancelled leaves with its last one."""
        if not consumption.cancelled:
            if not self.channel_prefetch_count:
                self.ask(consumption)
        elif not self._unacked.count(consumption) and consumption.consumer is not None:
            self._shared.engine.cancel(consumption.consumer)
            consumption.consumer = None

    def taken_back(self, consumption: Consumption, first: int, last: int) -> None:
        """The queue has taken back all deliveries of a consumer, because its node leads it no more; this is a range of
        their numbers. They are delivered again. Acknowledging the former tags is no error, and has no effect."""
        if consumption.consumer is None:
            return
        self._shared.engine.settle(consumption.consumer, first, last, GIVEN_BACK)  # the node in between forgets them
        if consumption is self._getting:
            self._got = None
        self._unacked.forget(consumption)
        self._has_less(consumption)
        if self.channel_prefetch_count:
            self.ask_all()

    def stop(self) -> None:
        """End the deliveries of a channel that is over: its consumers ask for no more. A settlement that was begun
        continues."""
        for consumption in self.by_tag.values():
            consumption.cancelled = True

    def release(self) -> Iterator[None]:
        """End the consumers of a channel that is over. The returned iterator gives unacknowledged deliveries back to
        their queues, in order, one consumer's in each step."""
        cancelled = [consumption for consumption in self._unacked.consumers() if consumption.cancelled]
        consumptions = (*cancelled, *self.by_tag.values(), *self._getters.values())
        self._shared.consumers -= len(self.by_tag)
        self._shared.traffic.consumers -= len(self.by_tag)
        if self._flow is not None:
            self._flow.detached()
            self._flow = None
        self.by_tag.clear()
        self._getters.clear()
        self._hungry.clear()
        self._passed_over.clear()
        self._getting = self._got = None
        self._unacked = Unacked()
        for consumption in consumptions:
            consumption.cancelled = True
        return self._let_go(consumptions)

    def _let_go(self, consumptions: Iterable[Consumption]) -> Iterator[None]:
        engine = self._shared.engine
        for consumption in consumptions:
            consumer, consumption.consumer = consumption.consumer, None
            if consumer is not None:
                engine.cancel(consumer)
                yield


def beyond(action: Delivered, size: int) -> Delivered | None:
    """Keep the messages of a delivery up to ``size`` bytes, or the first one if it is larger; returns the rest."""
    entries = action.entries
    if len(entries) == 1 or sum(map(len, entries)) <= size:
        return None
    n = max(1, bisect_right(list(accumulate(map(len, entries))), size))
    sequences = action.sequences
    rest = replace(
        action,
        first=action.first + n,
        entries=entries[n:],
        sequences=None if sequences is None else sequences[n:],
        attributes=part_of(action.attributes, n, len(entries)),
        routes=part_of(action.routes, n, len(entries)),
        enqueued_ms=part_of(action.enqueued_ms, n, len(entries)),
    )
    del entries[n:]
    if sequences is not None:
        action.sequences = sequences[:n]
    return rest


def _is_recorded(consumption: Consumption) -> bool:
    """Whether flow events of it are recorded: not for the stream of flow events, which would feed on itself."""
    return consumption.consumer is not None and consumption.consumer.queue_name != FLOW_STREAM


def _names(route: Route | None, action: Delivered) -> tuple[str, str]:
    """Exchange and routing key of a delivery. AMQP 1.0 allows longer routing keys than 0.9.1 can encode."""
    if route is None:
        return "", action.consumer.queue_name
    return route.exchange, _short(route.routing_keys[0])


def _short(routing_key: str) -> str:
    """The routing key, cut if it does not fit a short string."""
    return routing_key if len(routing_key) <= SHORT_KEY else cut(routing_key)
