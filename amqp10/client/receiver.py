"""A receiving link: messages come at the pace of the link credit, which the user controls.

There are two ways to give link credit. *By hand*: ``grant(n)`` sets it to exactly ``n``; after that only messages that
come change it. *Automatic*: it is set to 200, and again when it falls below 100, but not while 200 deliveries wait here
to be taken. ``pause`` takes all of it back and waits until no message is in flight any more; ``resume`` gives it again;
``drain`` asks for the messages that are ready now and takes the rest of the link credit back.

Deliveries have numbers, counted from 0 over the life of the receiver, across reconnects; an outcome is given to a range
of numbers. Deliveries that were not settled when the connection was lost come again, under new numbers. So deliveries
that wait here are dropped then, and an outcome for one that the user holds has no effect. A receiver of a stream goes
on behind the last message that its user has taken: that one does not come again, and what waited here is read again.

Bounds: link credit bounds the waiting deliveries in automatic mode, and the session's window bounds them in any case.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

import anyio
from anyio.lowlevel import checkpoint

from amqp10.client.endpoint_status import EndpointStatus
from amqp10.client.journey import Journey
from amqp10.client.link_session import LinkSession
from amqp10.client.stream_reading import HEAD_BYTES, StreamReading, reading_of
from amqp10.client_core.errors import ClientError, LinkClosed, TimedOut, told
from amqp10.client_core.events import LinkEvent
from amqp10.client_core.message import Message
from amqp10.client_core.reasons import LinkWait, link_wait
from amqp10.client_core.view import MessageView
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.flow.unsettled import UnsettledMap
from amqp10.protocol.events import SenderFlowReceived
from amqp10.protocol.receiver_link import MIXED, SETTLED, DeliveriesReceived, ReceiverLink
from amqp10.protocol.session import Session
from amqp10.wire.messaging import ACCEPTED, RELEASED, Error, Modified, Outcome, Rejected, Source, Target
from amqp10.wire.performatives import Attach
from amqp10.wire.types import Int

AUTOMATIC_LINK_CREDIT = 200
"""Enough to hide a round trip of 10 ms at 20,000 messages/s, and little enough to share work between consumers."""
AUTOMATIC_TOP_UP_BELOW = 100
"""Half of it: one flow for a hundred messages."""
PRIORITY_PROPERTY = "rabbitmq:priority"
"""The link property with which a consumer asks to be served before others; an int, 0 by default."""


@dataclass(slots=True, eq=False)
class Delivery:
    """One message that was received, with its number. Do not change its fields; a frozen class would take twice as long
    to make."""

    number: int
    encoded: bytes
    settled: bool
    """It came settled: there is no outcome to give."""
    receiver: "Receiver" = field(repr=False)
    link: ReceiverLink = field(repr=False)
    """The link on which it came; after a reconnect the receiver has another one."""

    @property
    def message(self) -> Message:
        """The message, decoded. Raises DecodeError for one that its sender encoded wrongly."""
        return Message.decode(self.encoded)

    @property
    def view(self) -> MessageView:
        """The message, of which only the parts that are read are decoded. Raises DecodeError if its sections are
        wrong."""
        return MessageView(self.encoded)

    def accept(self) -> None:
        """Accept it: it has been processed. Deliveries accepted one by one are settled in ranges, before the next
        output."""
        if not self.settled:
            self.receiver.accept_soon(self.number)

    def reject(self, error: Error | None = None) -> None:
        """Reject it: no consumer can ever process it."""
        self.receiver.reject(self.number, error=error)

    def release(self) -> None:
        """Release it: it was not processed, and another consumer may get it."""
        self.receiver.release(self.number)

    def modify(self, *, delivery_failed: bool = True, undeliverable_here: bool = False) -> None:
        """Give it back with the modified outcome: by default, processing it failed."""
        self.receiver.modify(self.number, delivery_failed=delivery_failed, undeliverable_here=undeliverable_here)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverOptions:
    """The options of a receiver for its attach."""

    automatic: bool = True
    """Link credit is given automatically from the start; otherwise it is 0 until the user gives some."""
    settled: bool = False
    """Ask for settled messages: none can be given back, and none comes twice."""
    priority: int | None = None
    """A consumer with a higher priority is served first."""
    filter: Mapping[str, object] | None = None
    """Described values, by name [3.5.8]."""
    properties: Mapping[str, object] | None = None
    """Properties of the link."""


class Receiver:
    """A receiver from one address, made by ``open_receiver``."""

    def __init__(self, session: LinkSession, *, name: str, address: str | None, options: ReceiverOptions) -> None:
        self.name = name
        self.address = address
        """The address; None for a dynamic node until the broker has named it."""
        self.status = EndpointStatus()
        self.journey = Journey()
        self.wait: LinkWait | None = None
        """Why the broker sends no messages; None when it sends, or has given no reason."""
        self._session = session
        self._options = options
        self._reading: StreamReading | None = reading_of(options.filter or {})
        """Where it stands in its stream; None for a queue."""
        self._dynamic = address is None
        self._automatic = options.automatic
        self._paused = False
        self._to_grant = 0
        """Without automatic mode: the link credit that the next attach, or ``resume``, gives."""
        self._link: ReceiverLink | None = None
        self._buffer: deque[Delivery] = deque()
        self._former = 0
        """Deliveries at the head of the buffer that came on a former link and do not count on the present one."""
        self._unsettled: UnsettledMap[ReceiverLink] = UnsettledMap()
        """The unsettled deliveries by our numbers; the number of an entry in the map is its delivery-id."""
        self._accepted: list[int] = []
        """Numbers of deliveries that are accepted and not settled yet."""
        self._next_number = 0
        self._quiet = False
        self._drained = 0

    # --- link credit -----------------------------------------------------------------------------------------------

    @property
    def link_credit(self) -> int:
        """Messages that the broker may still send."""
        return 0 if self._link is None else self._link.credit.link_credit

    @property
    def waiting_reason(self) -> str | None:
        """The reason of :attr:`wait` alone."""
        return None if self.wait is None else self.wait.reason

    async def waits(self) -> AsyncIterator[LinkWait | None]:
        """Why the broker sends no messages, now and after each change; see :meth:`.Sender.waits`."""
        seen = None
        while True:
            if self.wait == seen:
                await self.status.change()
            else:
                seen = self.wait
                yield seen

    @property
    def available(self) -> int:
        """Messages that were ready at the broker, as its last flow reported."""
        return 0 if self._link is None else self._link.credit.available

    @property
    def delivery_count(self) -> int:
        """The delivery-count of the link [2.6.7]; a serial number."""
        return 0 if self._link is None else self._link.credit.delivery_count

    def grant(self, n: int, *, echo: bool = False) -> None:
        """Set the link credit to ``n`` messages, and leave automatic mode and any pause. With ``echo`` the broker
        answers with its own state, behind the messages that it sends at once."""
        if not 0 <= n <= 0xFFFF_FFFF:
            raise ValueError("link credit is a uint")
        self.status.check()
        self._automatic = self._paused = False
        self._to_grant = n
        if self._link is not None:
            self._link.credit.maximum = 0  # the automatic rule ends
            if self.status.up:
                self._set_link_credit(n, echo=echo)

    async def drain(self, time_out_s: float = 10.0) -> int:
        """Have the broker send its ready messages, at most up to the link credit, and take the rest of it back.

        When this returns, all messages that came can be received, and the link credit is 0 until ``grant`` or
        ``resume``. Returns the link credit that was not used. Raises TimedOut.
        """
        await self.status.usable()
        losses, self._drained = self.status.losses, 0
        self._pause(drain=True)
        self._to_grant = 0
        await self._until(lambda: self.link_credit == 0, losses, time_out_s, "the broker did not answer the drain")
        assert self._link is not None
        self._link.credit.drain = False  # the next flow tells the broker
        return self._drained

    async def pause(self, time_out_s: float = 10.0) -> None:
        """Take all link credit back, and wait until no message is in flight any more. Raises TimedOut."""
        await self.status.usable()
        losses, self._quiet = self.status.losses, False
        self._pause(drain=False)
        await self._until(lambda: self._quiet, losses, time_out_s, "the broker did not answer the pause")

    def resume(self) -> None:
        """Give link credit again: automatically, or the amount that ``pause`` took back."""
        self.status.check()
        if not self._paused:
            return
        self._paused = False
        if self._link is None or not self.status.up:
            return
        self._link.credit.withheld = False
        if self._automatic:
            self._link.channel.refill_later(self._link)
            self._session.wake()
        else:
            self._set_link_credit(self._to_grant)

    # --- deliveries ------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Deliveries that wait here to be taken."""
        return len(self._buffer)

    @property
    def unsettled(self) -> int:
        """Deliveries without an outcome, taken or not."""
        self.settle_accepted()
        return self._unsettled.count

    async def receive(self) -> Delivery:
        """Wait for the next delivery and take it."""
        return (await self.receive_batch(1))[0]

    async def receive_batch(self, n_max: int) -> list[Delivery]:
        """Take the next 1 to ``n_max`` deliveries: those that wait here, or the first ones that come."""
        if self._buffer:
            await checkpoint()
        while not self._buffer:
            await self.status.change()
        return self.receive_nowait(n_max)

    def receive_nowait(self, n_max: int) -> list[Delivery]:
        """Take the next 0 to ``n_max`` deliveries of those that wait here."""
        if n_max >= len(self._buffer):
            taken = list(self._buffer)
            self._buffer.clear()
        else:
            taken = [self._buffer.popleft() for _ in range(n_max)]
        self._session.buffered(-len(taken), -sum([len(delivery.encoded) for delivery in taken]))
        former = min(self._former, len(taken))
        self._former -= former
        if self._link is not None and len(taken) > former:
            self._link.confirmed(len(taken) - former)
            self._session.wake()
        return taken

    def holds(self, delivery: Delivery) -> bool:
        """An outcome for this delivery has an effect, or it needs none; otherwise it was lost with its link, and comes
        again. One that was taken from a stream needs none, and does not come again."""
        return delivery.settled or delivery.link is self._link or self._goes_on

    def __aiter__(self) -> "Receiver":
        return self

    async def __anext__(self) -> Delivery:
        return await self.receive()

    def accept(self, first: int, last: int | None = None) -> int:
        """Accept the deliveries in this range of numbers. Returns how many of them had no outcome before."""
        return self._settle(first, last, ACCEPTED)

    def accept_soon(self, number: int) -> None:
        """Accept one delivery; it is settled, in a range with others, before the next output."""
        if not self._accepted:
            self._session.settle_later(self.settle_accepted)
        self._accepted.append(number)

    def reject(self, first: int, last: int | None = None, *, error: Error | None = None) -> int:
        """Reject the deliveries in this range: no consumer can ever process them."""
        return self._settle(first, last, Rejected(error=error))

    def release(self, first: int, last: int | None = None) -> int:
        """Release the deliveries in this range: they were not processed, and the broker puts them back in their
        place."""
        return self._settle(first, last, RELEASED)

    def modify(
        self,
        first: int,
        last: int | None = None,
        *,
        delivery_failed: bool = True,
        undeliverable_here: bool = False,
        annotations: Mapping[str, object] | None = None,
    ) -> int:
        """Give the deliveries in this range the modified outcome.

        ``delivery_failed``: processing them failed. ``undeliverable_here``: they must not come to this link again.
        ``annotations`` are added to the messages.
        """
        outcome = Modified(
            delivery_failed=delivery_failed,
            undeliverable_here=undeliverable_here,
            message_annotations=dict(annotations) if annotations else None,
        )
        return self._settle(first, last, outcome)

    async def close(self) -> None:
        """Detach for good. Deliveries without an outcome go back to the node that they came from."""
        self.settle_accepted()
        self._session.forget(self)
        link, self._link = self._link, None
        await self._session.close_link(link)
        self._over(LinkClosed(f"the receiver from {self.address} was closed"))

    # --- the session's side ----------------------------------------------------------------------------------------

    def attach(self, session: Session) -> None:
        """Attach, for the first time or again."""
        options = self._options
        link = session.new_receiver(self.name)
        link.reference = self
        self._link = link
        source = Source(
            address=None if self._dynamic else self.address,
            dynamic=self._dynamic,
            filter=self._filters(),
        )
        properties = dict(options.properties or {})
        if options.priority is not None:
            properties[PRIORITY_PROPERTY] = Int(options.priority)
        rule = self._link_credit_rule()
        rule.withheld = True  # until it is known that the link stays here
        link.attach(
            source=source,
            target=Target(),
            snd_settle_mode=SETTLED if options.settled else MIXED,
            rcv_settle_mode=0,
            credit=rule,
            properties=properties or None,
        )

    @property
    def engine_link(self) -> ReceiverLink | None:
        """The present link; None while there is none."""
        return self._link

    def attach_answered(self, attach: Attach) -> None:
        """The broker attached too."""
        if self._reading is not None and self._reading.is_lost_with_its_stream(attach.properties):
            self._attach_anew()
        elif not self._session.moves(self, attach):
            self.usable(attach)

    def usable(self, attach: Attach) -> None:
        """The link is where it is to be used: it gives link credit."""
        self.journey.arrived(anyio.current_time())
        link = self._link
        assert link is not None
        if self._reading is None:
            self._reading = reading_of({}, attach.properties)
        if self._reading is not None:
            self._reading.began(attach.properties)
        if self._dynamic and isinstance(attach.source, Source) and isinstance(attach.source.address, str):
            self.address = attach.source.address
        link.credit.withheld = self._paused
        self.status.came_up()
        if self._automatic:
            link.channel.refill_later(link)
        elif self._to_grant and not self._paused:
            self._set_link_credit(self._to_grant)

    def event_received(self, event: LinkEvent) -> None:
        """A run of deliveries, or the broker's state."""
        match event:
            case DeliveriesReceived():
                self._received(event)
            case SenderFlowReceived():
                self._flow_received(event)

    def _received(self, event: DeliveriesReceived) -> None:
        n, first = len(event.entries), self._next_number
        self._next_number += n
        if not event.settled:
            self._unsettled.add(first, n, event.link, event.first)
        entries = [event.header + entry for entry in event.entries] if event.header else event.entries
        self._buffer.extend(
            [Delivery(first + index, entry, event.settled, self, event.link) for index, entry in enumerate(entries)]
        )
        if self._reading is not None:
            self._reading.head = entries[-1][:HEAD_BYTES]
        self._session.buffered(n, sum(map(len, entries)))
        self.status.changed()

    def settle_accepted(self) -> None:
        """Settle the deliveries that were accepted one by one."""
        numbers, self._accepted = self._accepted, []
        if not numbers:
            return
        numbers.sort()
        first = last = numbers[0]
        for number in numbers:
            if number > last + 1:
                self._settle_range(first, last, ACCEPTED)
                first = number
            last = number
        self._settle_range(first, last, ACCEPTED)

    def _flow_received(self, event: SenderFlowReceived) -> None:
        """The broker reported its state. When it has no link credit left and no message is in flight, the link is
        quiet."""
        flow = event.flow
        self._drained += event.drained
        if flow.link_credit == 0 and flow.delivery_count == event.link.credit.delivery_count:
            self._quiet = True
        self._set_wait(link_wait(flow, self.wait))
        self.status.changed()

    def detached(self, error: Error | None) -> None:
        """The broker ended the link."""
        if self._session.comes_back(self, error):
            return
        self._session.forget(self)
        self._link = None
        self._over(LinkClosed(*told(f"the broker closed the link from {self.address}", error)))

    def lost(self, reason: ClientError) -> None:
        """The connection is lost for now."""
        self.went_away(reason)

    def went_away(self, reason: ClientError) -> None:
        """There is no link for now. Link credit that was not used, or whose deliveries were not taken, is given again
        after the next attach."""
        untaken = self._drop_unsettled()
        if self.status.up:
            self._to_grant = (self._to_grant if self._paused else self.link_credit) + untaken
        self._link = None
        self._set_wait(None)
        self.status.went_away(reason)

    def leave(self) -> None:
        """Use the link no more: another one follows in its place, which has not been used."""
        if self._link is not None:
            self._link.reference = None
            self._link = None

    def join(self, session: LinkSession) -> None:
        """Be one of another session, where what waits here counts from now on."""
        size = sum(len(delivery.encoded) for delivery in self._buffer)
        self._session.buffered(-len(self._buffer), -size)
        self._session = session
        session.buffered(len(self._buffer), size)

    def give_up(self, reason: ClientError) -> None:
        """The user has given up the attach."""
        self._session.forget(self)
        self.ended(reason)

    def ended(self, reason: ClientError) -> None:
        """The session or the connection is over."""
        if self._link is not None:
            self._link.reference = None
            self._link = None
        self._over(reason)

    # --- inside ----------------------------------------------------------------------------------------------------

    @property
    def _goes_on(self) -> bool:
        """It is known where in its stream it goes on, or has gone on."""
        return self._reading is not None and self._reading.next_offset is not None

    def _filters(self) -> dict[str, object] | None:
        chosen = self._options.filter or {}
        return (dict(chosen) if self._reading is None else self._reading.filters(chosen)) or None

    def _attach_anew(self) -> None:
        """Detach what has not been used, and attach again as the filter says now."""
        link, engine = self._link, self._session.engine
        assert link is not None
        assert engine is not None
        self.leave()
        engine.detach(link)
        self.attach(engine)
        self._session.wake()

    def _link_credit_rule(self) -> ReceiverCredit:
        if not self._automatic:
            return ReceiverCredit()
        return ReceiverCredit(
            maximum=AUTOMATIC_LINK_CREDIT,
            top_up_at=AUTOMATIC_TOP_UP_BELOW - 1,
            unconfirmed_limit=AUTOMATIC_LINK_CREDIT,
        )

    def _set_wait(self, wait: LinkWait | None) -> None:
        if wait != self.wait:
            self.wait = wait
            self._session.wait_changed(self.address, wait)

    def _set_link_credit(self, n: int, *, drain: bool = False, echo: bool = False) -> None:
        assert self._link is not None
        self._link.credit.withheld = self._paused
        self._link.grant(n, drain=drain, echo=echo)
        self._session.wake()

    def _pause(self, *, drain: bool) -> None:
        if not self._paused:
            self._to_grant = self.link_credit
        self._paused = True
        self._set_link_credit(self.link_credit if drain else 0, drain=drain, echo=True)

    async def _until(self, reached: Callable[[], bool], losses: int, time_out_s: float, complaint: str) -> None:
        with anyio.move_on_after(time_out_s) as scope:
            while self.status.losses == losses and not reached():
                await self.status.change()
        self.status.check(losses)
        if scope.cancelled_caught:
            raise TimedOut(f"{complaint} within {time_out_s:g} s")

    def _settle(self, first: int, last: int | None, outcome: Outcome) -> int:
        self.settle_accepted()
        return self._settle_range(first, first if last is None else last, outcome)

    def _settle_range(self, first: int, last: int, outcome: Outcome) -> int:
        count = 0
        for piece in self._unsettled.settle(first, last):
            piece.owner.settle(piece.number, piece.last_number, outcome)
            count += piece.last - piece.first + 1
        if count:
            self._session.wake()
        return count

    def _over(self, reason: ClientError) -> None:
        self._set_wait(None)
        self._drop_unsettled()
        self.status.ended(reason)

    def _drop_unsettled(self) -> int:
        """Drop unsettled deliveries: they come again, or go to another consumer, so outcomes for them have no effect.
        Returns how many waited here. Of a stream, all behind the first of them are dropped too, and read again."""
        waiting = list(self._buffer)
        first = next((index for index, delivery in enumerate(waiting) if not delivery.settled), len(waiting))
        kept, dropped = waiting[:first], waiting[first:]
        if self._reading is not None:
            self._reading.lost(dropped[0].encoded if dropped else None)
        if not self._goes_on:
            kept += [delivery for delivery in dropped if delivery.settled]
            dropped = [delivery for delivery in dropped if not delivery.settled]
        self._buffer = deque(kept)
        self._former = len(kept)
        self._accepted.clear()
        self._session.buffered(-len(dropped), -sum(len(delivery.encoded) for delivery in dropped))
        self._unsettled = UnsettledMap()
        return len(dropped)
