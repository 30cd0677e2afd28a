"""Publishing on one channel: it passes runs to the engine, and sends the engine's answers as confirms and returns.

What follows from the needed part of a property list (durable, priority, time-to-live, further keys) is computed once
for each and kept. The engine answers every message; a channel in confirm mode sends the
answers on [confirm.select], any other discards them.

Publishes of a transaction are held back until tx.commit (``transaction.py``). Then the channel publishes them, turn by
turn, and answers when the engine has answered them all.

Numbers: the engine gets the channel's own count of publishes, from 0. A confirm's delivery-tag counts from 1 since
confirm.select.
"""

import struct
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, takewhile

from core.amqp091.content import body_of, entry_of, properties_of
from core.amqp091.errors import ChannelFault, ReplyCode
from core.amqp091.events import PublishesReceived
from core.amqp091.framing import content_frames, method_frame
from core.amqp091.frontend.direct_reply import DIRECT_REPLY_TO
from core.amqp091.frontend.flow_report import ANSWERS
from core.amqp091.frontend.replies import channel_fault
from core.amqp091.frontend.shared import Shared
from core.amqp091.frontend.transaction import Transaction
from core.amqp091.methods import BasicReturn
from core.amqp091.properties import PERSISTENT, TTL_MS_MAX, BasicProperties, decode_properties, encode_properties
from core.amqp091.publish_run import PublishRun
from core.clock import Now
from core.credit_flow.flow import CreditFlow
from core.errors import EngineError, NotFound
from core.interface import Confirmed, ExchangeTarget, Outcome, Publisher, QueueTarget, Target
from core.message import Attributes, Origin, Run, RunAttributes, by_durable, first_of, part_of
from core.observe.flow_events.accounts import LinkAccount
from core.server.arrivals import UnansweredArrivals
from core.work import SEARCHED_MAX

LISTS_KEPT = 128
"""Needed parts of property lists that a channel has examined and keeps; few, because one may be large."""
LIST_BYTES_MAX = 4096
"""The largest needed part, in bytes, that is kept."""

_CONFIRM = struct.Struct(">BHIHHQBB")
_ACK, _NACK = 80, 120
_CONFIRM_BYTES = 13
"""The size of the payload of basic.ack and basic.nack."""


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """What follows from the properties of a message."""

    attributes: Attributes
    routing_keys: tuple[str, ...] = ()
    """Keys besides that of basic.publish."""
    hides_keys: bool = False
    """Whether the message loses its header BCC."""
    replies_here: bool = False
    """Whether the message gets the address of the channel's direct reply-to consumer."""

    @property
    def plain(self) -> bool:
        """Whether the message stays as it came, and has no further keys."""
        return not (self.routing_keys or self.hides_keys or self.replies_here)


@dataclass(slots=True)
class Returnable:
    """Mandatory messages without an answer yet: they may have to be returned."""

    first: int
    exchange: str
    routing_key: str
    entries: list[bytes]


class Answered:
    """Which of the channel's publishes the engine has answered, as a prefix and ranges."""

    __slots__ = ("_above", "below")

    def __init__(self) -> None:
        self.below = 0
        """All numbers below this one are answered."""
        self._above: dict[int, int] = {}
        """Answered ranges beyond a gap: from their first number to their last."""

    def add(self, first: int, last: int) -> None:
        """Add a range of answered numbers, each for the first time."""
        if first != self.below:
            self._above[first] = last
            return
        self.below = last + 1
        while (beyond := self._above.pop(self.below, None)) is not None:
            self.below = beyond + 1


PUBLISHES_WORK = 20
"""Cost of a run of publishes, in units of :mod:`core.work`; each publish adds half a unit."""
UNLIKE_WORK = 2
"""The cost of a publish that is not like the one before it, in these units, beside that of parsing it."""
PROPERTIES_WORK, PROPERTY_BYTES_A_UNIT = 20, 16
"""Cost of checking properties that are new to the channel, in units of :mod:`core.work`."""


class Publishing:
    """The publisher's side of one channel."""

    __slots__ = (
        "_answered",
        "_arrivals",
        "_channel",
        "_confirm_base",
        "_flow",
        "_options",
        "_plain",
        "_published",
        "_publisher",
        "_rejection",
        "_returnable",
        "_shared",
        "_stage_credit",
        "_transaction",
        "committing",
    )

    def __init__(self, channel: int, shared: Shared, stage_credit: CreditFlow, transaction: Transaction) -> None:
        self._channel = channel
        self._shared = shared
        self._stage_credit = stage_credit
        self._publisher: Publisher | None = None
        self._flow: LinkAccount | None = None
        """The recorder of flow events; None where they are not recorded, or before the first publish."""
        self._options: dict[bytes, MessageOptions] = {}
        """By the needed part of the property list."""
        self._plain: dict[bytes, Attributes] = {}
        """The attributes of those options that are plain."""
        self._published = 0
        self._answered = Answered()
        self._confirm_base: int | None = None
        """The number of publishes before confirm.select; None outside of confirm mode."""
        self._returnable: deque[Returnable] = deque()
        self._arrivals = UnansweredArrivals(shared.traffic.flow.settle_seconds)
        self._transaction = transaction
        self.committing = False
        """Whether a tx.commit is not answered yet."""
        self._rejection: str | None = None
        """The cause of a rejection of a message of the transaction; None without one."""

    @property
    def published(self) -> int:
        """Messages given to the engine."""
        return self._published

    @property
    def unconfirmed(self) -> int:
        """Messages that the engine has not answered; those answered out of order count until all before them are
        answered."""
        return self._published - self._answered.below

    @property
    def confirming(self) -> bool:
        """Whether the channel is in confirm mode."""
        return self._confirm_base is not None

    def confirm_from_now_on(self) -> None:
        """confirm.select. Raises ChannelFault on a transactional channel."""
        if self._transaction.selected:
            raise ChannelFault(ReplyCode.PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
        if self._confirm_base is None:
            self._confirm_base = self._published

    def forget_options(self) -> None:
        """Examine every property list again: the user may have lost the right to another user's user-id."""
        self._options.clear()

    def begin_transactions(self) -> None:
        """tx.select. Raises ChannelFault on a channel in confirm mode."""
        if self.confirming:
            raise ChannelFault(ReplyCode.PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
        self._transaction.selected = True

    # --- publishing --------------------------------------------------------------------------------------------

    def received(self, event: PublishesReceived, now: Now) -> PublishesReceived | None:
        """Publish runs, as far as the turn of the connection reaches; return the rest, None without one. Raises
        ChannelFault; then the messages before the fault are published, and the others are not."""
        shared = self._shared
        for place, run in enumerate(event.runs):
            start, count = 0, len(run.entries)
            while start < count:
                if (place or start) and shared.turn_over:
                    return event.beyond(place, start)
                start = self._publish_some(run, start, now)
        return None

    def _publish_some(self, run: PublishRun, start: int, now: Now) -> int:
        """Publish messages of a run, from the one at ``start`` on, that can go to the engine together. Returns the
        place of the first one that was not published. Raises ChannelFault.

        Messages through an exchange go together whatever their routing keys, if the engine knows their routes: to find
        a route may take long, and the turn may be over then.
        """
        by_keys = bool(run.exchange) and not (run.mandatory or self._transaction.selected)
        options = self._options_of(first_of(run.needed, start))
        stop = len(run.entries)
        keys, attributes = run.routing_key, options.attributes
        of_each: RunAttributes = attributes
        if isinstance(run.needed, list):
            if options.plain:
                of_each = self._plain_from(run.needed[start:] if start else run.needed) or [attributes]
                stop = start + len(of_each)
                if len(set(map(id, of_each))) == 1:
                    of_each = attributes
            else:
                stop = start + _alike_from(run.needed, start)
        if isinstance(keys, list):
            if by_keys and options.plain:
                keys = keys[start:stop]
                stop = start + (self._shared.engine.known_routes(run.exchange, keys) or 1)
            else:
                stop = min(stop, start + _alike_from(keys, start))
                keys = keys[start]
        elif run.exchange and not self._shared.engine.known_routes(run.exchange, (keys,)):
            stop = min(stop, start + SEARCHED_MAX)
        count = stop - start
        unlike = isinstance(keys, list) or isinstance(of_each, list)
        self._shared.work.spent += PUBLISHES_WORK + (count * UNLIKE_WORK if unlike else count // 2)
        entries = run.entries if count == len(run.entries) else run.entries[start:stop]
        part = Run(self._published, entries, part_of(of_each, 0, count), options.routing_keys)
        if isinstance(keys, list):
            self._publish_by_keys(run.exchange, keys[:count], part, now)
        else:
            self._publish_to(run.exchange, keys, part, options, now, mandatory=run.mandatory)
        return stop

    def _plain_from(self, needed: list[bytes]) -> list[Attributes]:
        """The attributes of messages, from the first one on, whose properties were examined and are plain."""
        plain = self._plain
        try:
            return list(map(plain.__getitem__, needed))
        except KeyError:
            return [plain[one] for one in takewhile(plain.__contains__, needed)]

    def _publish_by_keys(self, exchange: str, keys: list[str], run: Run, now: Now) -> None:
        publisher = self._publisher or self._begin()
        count = len(keys)
        self._stage_credit.ack(self._shared.reader, count)
        attributes = run.attributes
        self._shared.traffic.sizes.add(run.entries)
        try:
            self._shared.engine.publish_by_keys(publisher, exchange, keys, run, now)
        except EngineError as error:
            raise channel_fault(error) from error
        self._count_published(count, attributes, now)

    def _publish_to(
        self, exchange: str, key: str, run: Run, options: MessageOptions, now: Now, *, mandatory: bool
    ) -> None:
        """Publish messages that have one routing key, or hold them back for the commit."""
        target: Target
        if exchange or options.routing_keys:
            target = ExchangeTarget(exchange, key)
        else:
            target = QueueTarget(key)
        self._stage_credit.ack(self._shared.reader, len(run.entries))
        if options.hides_keys or options.replies_here:
            run.entries = self._rewritten(run.entries, options)
        returnable = Returnable(0, exchange, key, []) if mandatory else None
        if self._transaction.selected:
            self._hold(run, target, returnable)
        else:
            self._publish(run, target, returnable, now)

    def _publish(self, run: Run, target: Target, returnable: Returnable | None, now: Now) -> None:
        publisher = self._publisher or self._begin()
        first = run.first = self._published
        count, attributes = len(run.entries), run.attributes
        self._shared.traffic.sizes.add(run.entries)
        if returnable is not None:
            returnable.first = first
            returnable.entries = list(run.entries)  # a copy: the engine may change its list
        try:
            self._shared.engine.publish(publisher, target, run, now)
        except NotFound as error:
            if not isinstance(target, QueueTarget):
                raise channel_fault(error) from error
            # The default exchange has no such queue: no error [0-9-1 3.1.3.1]. It is answered like any unroutable
            # message.
            self._shared.mailbox.put(Confirmed(publisher, first, first + count - 1, Outcome.RELEASED))
        except EngineError as error:
            raise channel_fault(error) from error
        self._count_published(count, attributes, now)
        if returnable is not None:
            self._returnable.append(returnable)

    def _begin(self) -> Publisher:
        """Make the channel a publisher, with its first publish."""
        shared = self._shared
        self._publisher = shared.engine.publisher(
            shared.mailbox, shared.owner, None, self, stage_credit=self._stage_credit
        )
        shared.traffic.publishers += 1
        self._flow = shared.link_recorder(self._channel, "in")
        return self._publisher

    def _count_published(self, count: int, attributes: RunAttributes, now: Now) -> None:
        first = self._published
        self._published = first + count
        if self._flow is not None:
            self._flow.transferred(count)
        self._shared.traffic.messages_received += count
        if self._confirm_base is not None:
            self._shared.traffic.messages_received_confirm += count
            for start, stop, durable in by_durable(attributes, count):
                self._arrivals.came(first + start, stop - start, durable=durable, now=now.monotonic)

    def _options_of(self, needed: bytes) -> MessageOptions:
        """What follows from the needed properties. Raises ChannelFault for properties that a message must not have."""
        options = self._options.get(needed)
        if options is None:
            options = self._examine(needed)
            if len(needed) <= LIST_BYTES_MAX:
                if len(self._options) >= LISTS_KEPT:
                    self._options.clear()
                    self._plain.clear()
                self._options[needed] = options
                if options.plain:
                    self._plain[needed] = options.attributes
        return options

    def _examine(self, needed: bytes) -> MessageOptions:
        self._shared.work.spent += PROPERTIES_WORK + len(needed) // PROPERTY_BYTES_A_UNIT
        properties = decode_properties(needed, 0, len(needed))
        self._check_user(properties)
        headers = properties.headers or {}
        attributes = Attributes(
            origin=Origin.AMQP091,
            durable=properties.delivery_mode == PERSISTENT,
            priority=properties.priority or 0,
            ttl_ms=_ttl_ms(properties.expiration),
        )
        return MessageOptions(
            attributes,
            (*_keys(headers, "CC"), *_keys(headers, "BCC")),
            hides_keys="BCC" in headers,
            replies_here=properties.reply_to == DIRECT_REPLY_TO,
        )

    def _rewritten(self, entries: list[bytes], options: MessageOptions) -> list[bytes]:
        """The messages without their BCC, or with the channel's reply address. Raises ChannelFault if it has none."""
        address = self._reply_address() if options.replies_here else None
        rewritten = []
        before = changed = b""
        for entry in entries:
            data = properties_of(entry)
            if data != before:
                before = data
                self._shared.work.spent += PROPERTIES_WORK + len(data) // PROPERTY_BYTES_A_UNIT
                properties = decode_properties(data, 0, len(data))
                headers = properties.headers
                if options.hides_keys and headers is not None:
                    headers = {key: value for key, value in headers.items() if key != "BCC"}
                changed = encode_properties(
                    replace(properties, headers=headers, reply_to=address or properties.reply_to)
                )
            rewritten.append(entry_of(changed, body_of(entry)))
        return rewritten

    def _check_user(self, properties: BasicProperties) -> None:
        user = properties.user_id
        rights = self._shared.engine.rights
        if user is not None and user != self._shared.connection.identity and not rights.impersonates:
            raise ChannelFault(
                ReplyCode.PRECONDITION_FAILED,
                f"user_id property set to '{user}' but authenticated user was '{self._shared.connection.identity}'",
            )

    def _reply_address(self) -> str:
        reply_queue = self._shared.reply_queues.get(self._channel)
        if reply_queue is None:
            raise ChannelFault(ReplyCode.PRECONDITION_FAILED, "fast reply consumer does not exist")
        return reply_queue

    # --- the engine's answers ------------------------------------------------------------------------------------

    def confirmed(self, action: Confirmed, now: Now) -> None:
        """Take the engine's answer for a range of messages. Ignored when the channel is over."""
        if action.publisher is not self._publisher:
            return
        self._arrivals.answered(action.first, action.last, now.monotonic)
        first, last = action.first, action.last
        returned = 0
        if self._returnable:
            unroutable = action.outcome is Outcome.RELEASED and action.error is None
            returned = self._return(first, last, unroutable=unroutable)
        if action.error is None:
            self._count_answered(last - first + 1, action.outcome, returned)
        if self._flow is not None:
            self._flow.settled(last - first + 1, ANSWERS[action.outcome])
        in_order = first == self._answered.below
        self._answered.add(first, last)
        refused = action.outcome is Outcome.REJECTED or action.error is not None
        if self._transaction.selected and refused:
            self._rejection = str(action.error)
        base = self._confirm_base
        if base is None or last < base:
            return
        first = max(first, base)
        method = _NACK if refused else _ACK
        if in_order or first == last:
            self._shared.connection.write(self._confirm(method, last - base + 1, multiple=last > first))
            return
        frames = [self._confirm(method, number - base + 1, multiple=False) for number in range(first, last + 1)]
        self._shared.connection.write(b"".join(frames))

    def _count_answered(self, n: int, outcome: Outcome, returned: int) -> None:
        traffic = self._shared.traffic
        if outcome is Outcome.RELEASED:
            traffic.messages_unroutable_returned += returned
            traffic.messages_unroutable_dropped += n - returned
        elif outcome is Outcome.ACCEPTED and self._confirm_base is not None:
            traffic.messages_confirmed += n

    def _confirm(self, method: int, delivery_tag: int, *, multiple: bool) -> bytes:
        return _CONFIRM.pack(1, self._channel, _CONFIRM_BYTES, 60, method, delivery_tag, multiple, 0xCE)

    def _return(self, first: int, last: int, *, unroutable: bool) -> int:
        """Return those of these mandatory messages that were not routed, before their confirm. Returns how many."""
        returned = 0
        rest: list[Returnable] = []
        while self._returnable and self._returnable[0].first <= last:
            kept = self._returnable.popleft()
            start = max(first - kept.first, 0)
            stop = min(last + 1 - kept.first, len(kept.entries))
            if start >= stop:
                rest.append(kept)
                continue
            if unroutable:
                self._send_back(kept, start, stop)
                returned += stop - start
            for low, high in ((0, start), (stop, len(kept.entries))):
                if low < high:
                    part = kept.entries[low:high]
                    rest.append(Returnable(kept.first + low, kept.exchange, kept.routing_key, part))
        self._returnable.extendleft(reversed(rest))
        return returned

    def _send_back(self, kept: Returnable, start: int, stop: int) -> None:
        method = BasicReturn(
            reply_code=ReplyCode.NO_ROUTE,
            reply_text=ReplyCode.NO_ROUTE.name,
            exchange=kept.exchange,
            routing_key=kept.routing_key,
        )
        connection = self._shared.connection
        prefix = method_frame(self._channel, method)
        for entry in kept.entries[start:stop]:
            connection.write(prefix + content_frames(self._channel, entry, connection.frame_max))

    # --- transactions --------------------------------------------------------------------------------------------

    def _hold(self, run: Run, target: Target, returnable: Returnable | None) -> None:
        """Hold a run back for the commit, at whose time it will be published."""
        engine = self._shared.engine
        try:
            engine.check_target(target, run.routing_keys)
            if isinstance(target, ExchangeTarget):
                engine.exchange_info(target.exchange)
        except EngineError as error:
            raise channel_fault(error) from error
        step = partial(self._publish, run, target, returnable)
        self._transaction.hold_publishes(sum(map(len, run.entries)), step)

    def commit(self) -> None:
        """Begin a commit: it is answered when the engine has answered every publish."""
        self.committing = True

    def committed(self) -> bool:
        """True once, when the engine has answered every publish. Raises ChannelFault when it has rejected any of
        them."""
        if not self.committing or self._answered.below < self._published:
            return False
        self.committing = False
        if self._rejection is not None:
            why, self._rejection = self._rejection, None
            raise ChannelFault(ReplyCode.PRECONDITION_FAILED, f"a message of the transaction was rejected: {why}")
        return True

    def release(self) -> None:
        """End publishing on a channel that is over: published messages stay, uncommitted ones are dropped."""
        if self._publisher is not None:
            self._shared.engine.retire(self._publisher)
            self._publisher = None
            self._shared.traffic.publishers -= 1
        if self._flow is not None:
            self._flow.detached()
            self._flow = None
        self._returnable.clear()


def _alike_from(values: Sequence[object], start: int) -> int:
    """How many values, from the one at ``start`` on, are equal to it."""
    first = values[start]
    return next(
        (place for place, value in enumerate(islice(values, start, None)) if value != first), len(values) - start
    )


def _keys(headers: Mapping[str, object], name: str) -> tuple[str, ...]:
    """Further routing keys in a header. Raises ChannelFault for a value that is no list of strings."""
    keys = headers.get(name, [])
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ChannelFault(ReplyCode.PRECONDITION_FAILED, f"the header '{name}' must be an array of long strings")
    return tuple(str(key) for key in keys)


def _ttl_ms(expiration: str | None) -> int | None:
    """The time-to-live in milliseconds. Raises ChannelFault for an expiration that is not a number."""
    if expiration is None:
        return None
    if not (expiration.isascii() and expiration.isdigit() and int(expiration) <= TTL_MS_MAX):
        raise ChannelFault(
            ReplyCode.PRECONDITION_FAILED,
            f"invalid expiration '{expiration[:32]}': it must be a number of milliseconds, {TTL_MS_MAX} at most",
        )
    return int(expiration)
