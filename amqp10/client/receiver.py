"""A receiving link: messages in, at the pace that link credit allows, which is in the user's hands.

Two ways to give link credit. *By hand*: ``grant(n)`` sets it to exactly ``n``; nothing else ever changes it but
messages that come. *Automatic*: it is set to 200, and again when it falls below 100, but not while as many as that wait
here untaken. ``pause`` takes all of it back and waits until nothing is on its way any more; ``resume`` gives it again;
``drain`` asks for what is there now and takes the rest back.

Deliveries have numbers, counted from 0 over the life of the receiver, across reconnects; an outcome is given to a range
of them. What was not settled when the connection was lost comes again, under new numbers, so deliveries that wait here
are dropped then, and an outcome for one that the user holds has no effect.

Bounds: what waits here is limited by link credit in automatic mode, and by the session's window in any case.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import trio

from amqp10.client.errors import ClientError, LinkClosed, TimedOut, told
from amqp10.client.message import Message
from amqp10.client.sender import REASON_PROPERTY
from amqp10.client.standing import Standing
from amqp10.client.view import MessageView
from amqp10.events import DeliveriesReceived, SenderFlowReceived
from amqp10.link_credit import ReceiverCredit
from amqp10.messaging import ACCEPTED, RELEASED, Error, Modified, Outcome, Rejected, Source, Target
from amqp10.performatives import Attach
from amqp10.receiver_link import MIXED, SETTLED, ReceiverLink
from amqp10.session import Session
from amqp10.types import Int, plain
from amqp10.unsettled import UnsettledMap

AUTOMATIC_LINK_CREDIT = 200
"""Enough to hide a round trip at 20,000 messages/s over 10 ms, and little enough to share work between consumers."""
AUTOMATIC_TOP_UP_BELOW = 100
"""Half: one flow for a hundred messages."""
PRIORITY_PROPERTY = "rabbitmq:priority"
"""The link property by which a consumer asks to be served before others; an int, 0 by default."""


class ReceiverSession(Protocol):
    """What a receiver asks of its session."""

    def wake(self) -> None:
        """There is something to send."""

    def settle_later(self, receiver: "Receiver") -> None:
        """Have the receiver settle what it has noted, before anything is sent."""

    def buffered(self, messages: int, size: int) -> None:
        """So many more messages and bytes (or fewer, below 0) wait for the user."""

    async def close_link(self, link: ReceiverLink | None) -> None:
        """Detach, and wait for the answer for a limited time."""

    def forget_receiver(self, receiver: "Receiver") -> None:
        """The receiver is not to be attached again."""


@dataclass(slots=True, eq=False)
class Delivery:
    """One message that came, under its number. Nothing in it is to be changed; freezing it would double its cost."""

    number: int
    encoded: bytes
    settled: bool
    """It came settled: there is no outcome to give."""
    receiver: "Receiver" = field(repr=False)
    link: ReceiverLink = field(repr=False)
    """What it came on; another one after a reconnect."""

    @property
    def message(self) -> Message:
        """The message, decoded. Raises DecodeError for one that its sender encoded wrongly."""
        return Message.decode(self.encoded)

    @property
    def view(self) -> MessageView:
        """The message, decoded only where it is looked at. Raises DecodeError where its sections are wrong already."""
        return MessageView(self.encoded)

    def accept(self) -> None:
        """It is dealt with. Deliveries that are accepted one by one are settled in ranges, before anything is sent."""
        if not self.settled:
            self.receiver.accept_soon(self.number)

    def reject(self, error: Error | None = None) -> None:
        """It can never be dealt with by anybody."""
        self.receiver.reject(self.number, error=error)

    def release(self) -> None:
        """It was not looked at: give it to somebody else."""
        self.receiver.release(self.number)

    def modify(self, *, delivery_failed: bool = True, undeliverable_here: bool = False) -> None:
        """It was tried in vain."""
        self.receiver.modify(self.number, delivery_failed=delivery_failed, undeliverable_here=undeliverable_here)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverOptions:
    """What a receiver asks for when it attaches."""

    automatic: bool = True
    """Link credit is given automatically from the start; else it is 0 until the user grants some."""
    settled: bool = False
    """Messages are to come settled: none can be given back, and none comes twice."""
    priority: int | None = None
    """Higher is served first."""
    filter: Mapping[str, object] | None = None
    """Described values, by name [3.5.8]."""
    properties: Mapping[str, object] | None = None
    """Of the link."""


class Receiver:
    """A receiver from one address. Made by ``open_receiver``."""

    def __init__(self, session: ReceiverSession, *, name: str, address: str | None, options: ReceiverOptions) -> None:
        self.name = name
        self.address = address
        """For a dynamic node, None until the broker has named it."""
        self.standing = Standing()
        self.waiting_reason: str | None = None
        """Why the broker sends nothing although it may; None when it does, or has not said why."""
        self._session = session
        self._options = options
        self._dynamic = address is None
        self._automatic = options.automatic
        self._paused = False
        self._to_grant = 0
        """By hand: the link credit that the next attach, or ``resume``, gives."""
        self._link: ReceiverLink | None = None
        self._buffer: deque[Delivery] = deque()
        self._former = 0
        """Deliveries at the head of what waits here that came on a former link; the present one has no part in them."""
        self._unsettled: UnsettledMap[ReceiverLink] = UnsettledMap()
        """By our numbers; the number of an entry in the map is its delivery-id."""
        self._accepted: list[int] = []
        """Accepted and not settled yet."""
        self._next_number = 0
        self._quiet = False
        self._drained = 0

    # --- link credit -----------------------------------------------------------------------------------------------

    @property
    def link_credit(self) -> int:
        """Messages that the broker may still send."""
        return 0 if self._link is None else self._link.credit.link_credit

    @property
    def available(self) -> int:
        """Messages that were ready at the broker when it last said so."""
        return 0 if self._link is None else self._link.credit.available

    @property
    def delivery_count(self) -> int:
        """Where the link's count of deliveries stands [2.6.7]; a serial number."""
        return 0 if self._link is None else self._link.credit.delivery_count

    def grant(self, n: int, *, echo: bool = False) -> None:
        """Set the link credit to ``n`` messages, and leave automatic mode and any pause. With ``echo`` the broker
        answers with its own state, behind what it sends at once."""
        if not 0 <= n <= 0xFFFF_FFFF:
            raise ValueError("link credit is a uint")
        self.standing.check()
        self._automatic = self._paused = False
        self._to_grant = n
        if self._link is not None:
            self._link.credit.maximum = 0  # the automatic rule is over
            if self.standing.up:
                self._set_link_credit(n, echo=echo)

    async def drain(self, time_out_s: float = 10.0) -> int:
        """Have the broker send what is ready, at most up to the link credit, and take the rest of it back.

        When this returns, everything that came is here to be received, and the link credit is 0 until ``grant`` or
        ``resume``. Returns the link credit that was not used. Raises TimedOut.
        """
        await self.standing.usable()
        losses, self._drained = self.standing.losses, 0
        self._pause(drain=True)
        self._to_grant = 0
        await self._until(lambda: self.link_credit == 0, losses, time_out_s, "the broker did not answer the drain")
        assert self._link is not None
        self._link.credit.drain = False  # told with the next flow
        return self._drained

    async def pause(self, time_out_s: float = 10.0) -> None:
        """Take all link credit back, and wait until nothing is on its way any more. Raises TimedOut."""
        await self.standing.usable()
        losses, self._quiet = self.standing.losses, False
        self._pause(drain=False)
        await self._until(lambda: self._quiet, losses, time_out_s, "the broker did not answer the pause")

    def resume(self) -> None:
        """Give link credit again: automatically, or what was left when ``pause`` took it back."""
        self.standing.check()
        if not self._paused:
            return
        self._paused = False
        if self._link is None or not self.standing.up:
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
        """Deliveries that are here and not taken."""
        return len(self._buffer)

    @property
    def unsettled(self) -> int:
        """Deliveries without an outcome, taken or not."""
        self.settle_accepted()
        return self._unsettled.count

    async def receive(self) -> Delivery:
        """The next delivery; waits for it."""
        return (await self.receive_batch(1))[0]

    async def receive_batch(self, n_max: int) -> list[Delivery]:
        """The next deliveries, from 1 to ``n_max`` of them: what is here, or the first that comes."""
        if self._buffer:
            await trio.lowlevel.checkpoint()
        while not self._buffer:
            await self.standing.change()
        return self.receive_nowait(n_max)

    def receive_nowait(self, n_max: int) -> list[Delivery]:
        """The next deliveries that are here already, from none to ``n_max`` of them."""
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

    def __aiter__(self) -> "Receiver":
        return self

    async def __anext__(self) -> Delivery:
        return await self.receive()

    def accept(self, first: int, last: int | None = None) -> int:
        """Deliveries in this range of numbers are dealt with. Returns how many of them had no outcome before."""
        return self._settle(first, last, ACCEPTED)

    def accept_soon(self, number: int) -> None:
        """Accept one delivery, in a range with those that are accepted before anything is sent next."""
        if not self._accepted:
            self._session.settle_later(self)
        self._accepted.append(number)

    def reject(self, first: int, last: int | None = None, *, error: Error | None = None) -> int:
        """They can never be dealt with by anybody."""
        return self._settle(first, last, Rejected(error=error))

    def release(self, first: int, last: int | None = None) -> int:
        """They were not looked at: the broker gives them to somebody, at their old place."""
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
        """They were tried in vain (``delivery_failed``), or must not come to this link again, or get annotations."""
        outcome = Modified(
            delivery_failed=delivery_failed,
            undeliverable_here=undeliverable_here,
            message_annotations=dict(annotations) if annotations else None,
        )
        return self._settle(first, last, outcome)

    async def close(self) -> None:
        """Detach for good. What has no outcome goes back to where it came from."""
        self.settle_accepted()
        self._session.forget_receiver(self)
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
            filter=dict(options.filter) if options.filter else None,
        )
        properties = dict(options.properties or {})
        if options.priority is not None:
            properties[PRIORITY_PROPERTY] = Int(options.priority)
        rule = self._link_credit_rule()
        rule.withheld = self._paused
        link.attach(
            source=source,
            target=Target(),
            snd_settle_mode=SETTLED if options.settled else MIXED,
            rcv_settle_mode=0,
            credit=rule,
            properties=properties or None,
        )

    def attach_answered(self, attach: Attach) -> None:
        """The broker attached too. Without a source it has refused, and its reason follows [2.6.3]."""
        if not isinstance(attach.source, Source):
            return
        link = self._link
        assert link is not None
        if self._dynamic and isinstance(attach.source.address, str):
            self.address = attach.source.address
        self.standing.came_up()
        if self._automatic:
            link.channel.refill_later(link)
        elif self._to_grant and not self._paused:
            self._set_link_credit(self._to_grant)

    def received(self, event: DeliveriesReceived) -> None:
        """A run of deliveries came."""
        n, first = len(event.entries), self._next_number
        self._next_number += n
        if not event.settled:
            self._unsettled.add(first, n, event.link, event.first)
        entries = [event.header + entry for entry in event.entries] if event.header else event.entries
        self._buffer.extend(
            [Delivery(first + index, entry, event.settled, self, event.link) for index, entry in enumerate(entries)]
        )
        self._session.buffered(n, sum(map(len, entries)))
        self.standing.changed()

    def settle_accepted(self) -> None:
        """Settle what was accepted one by one."""
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

    def flow_received(self, event: SenderFlowReceived) -> None:
        """The broker told its state. With no link credit left on its side and nothing on its way, the link is quiet."""
        flow = event.flow
        self._drained += event.drained
        if flow.link_credit == 0 and flow.delivery_count == event.link.credit.delivery_count:
            self._quiet = True
        properties = flow.properties or {}
        if REASON_PROPERTY in properties:
            reason = plain(properties[REASON_PROPERTY])
            self.waiting_reason = reason if isinstance(reason, str) else None
        self.standing.changed()

    def detached(self, error: Error | None) -> None:
        """The broker ended the link."""
        self._session.forget_receiver(self)
        self._link = None
        self._over(LinkClosed(*told(f"the broker closed the link from {self.address}", error)))

    def lost(self, reason: ClientError) -> None:
        """The connection is gone, for now. What was granted and not used, or not taken, is granted again."""
        untaken = sum(not delivery.settled for delivery in self._buffer)
        self._to_grant = (self._to_grant if self._paused else self.link_credit) + untaken
        self._link = None
        self.waiting_reason = None
        self._drop_unsettled()
        self.standing.went_away(reason)

    def ended(self, reason: ClientError) -> None:
        """The session or the connection is over, or nobody waits for the link any more."""
        if self._link is not None:
            self._link.reference = None
            self._link = None
        self._over(reason)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _link_credit_rule(self) -> ReceiverCredit:
        if not self._automatic:
            return ReceiverCredit()
        return ReceiverCredit(
            maximum=AUTOMATIC_LINK_CREDIT,
            top_up_at=AUTOMATIC_TOP_UP_BELOW - 1,
            unconfirmed_limit=AUTOMATIC_LINK_CREDIT,
        )

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
        with trio.move_on_after(time_out_s) as scope:
            while self.standing.losses == losses and not reached():
                await self.standing.change()
        self.standing.check(losses)
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
        self._drop_unsettled()
        self.standing.ended(reason)

    def _drop_unsettled(self) -> None:
        """What has no outcome comes again, or goes to somebody else: here it is worth nothing any more."""
        kept = [delivery for delivery in self._buffer if delivery.settled]
        dropped = [delivery for delivery in self._buffer if not delivery.settled]
        self._buffer = deque(kept)
        self._former = len(kept)
        self._accepted.clear()
        self._session.buffered(-len(dropped), -sum(len(delivery.encoded) for delivery in dropped))
        self._unsettled = UnsettledMap()
