"""A sending link: messages go out as the broker's link credit allows, and outcomes come back in ranges.

``post`` sends messages as far as link credit allows, waits for more where it must, and returns a receipt.
``post_nowait`` does so without waiting; ``send`` also waits for the outcome of one message. Messages have numbers,
counted from 0 over the life of the sender, across reconnects. Posts of several tasks are served in order, one after the
other.

Bounds: no message is encoded before there is link credit for it, and at most ``unsettled_max`` messages wait for their
outcome. When the connection is lost, messages without an outcome become uncertain, or unsent if they certainly were not
sent; ``post`` goes on with the rest when the link is attached again.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Protocol

import trio

from amqp10.client.errors import ClientError, LinkClosed, MessageTooLarge, told
from amqp10.client.message import Message
from amqp10.client.receipt import SENT, Fate, FateRange, OpenReceipts, Receipt, Uncertain, Unsent
from amqp10.client.standing import Standing
from amqp10.errors import LinkFault
from amqp10.protocol.events import CreditReceived, DeliveriesSent, DeliveriesSettled
from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session import Session
from amqp10.wire.messaging import Error, Source, Target
from amqp10.wire.performatives import Attach
from amqp10.wire.types import plain

RUN_MESSAGES_MAX = 256
"""Messages encoded and sent in one piece of work, before other tasks get their turn."""
REASON_PROPERTY = "headgate:reason"
"""The property of a link flow with which the broker reports why the link waits, and with null that it waits no more. It
is sent once for each [2.7.4]."""
UNSETTLED, SETTLED = 0, 1
"""snd-settle-mode [2.8.2]."""

Sendable = Message | bytes
"""A message, or an encoded one."""


class SenderSession(Protocol):
    """The part of a session that its senders use."""

    def wake(self) -> None:
        """Wake the background task: there is output."""

    async def close_link(self, link: SenderLink | None) -> None:
        """Detach, and wait a limited time for the answer."""

    def forget_sender(self, sender: "Sender") -> None:
        """Drop a sender that must not be attached again."""


class Sender:
    """A sender to one address, made by ``open_sender``."""

    def __init__(
        self,
        session: SenderSession,
        *,
        name: str,
        address: str | None,
        settled: bool,
        unsettled_max: int,
        properties: dict[str, object] | None = None,
    ) -> None:
        self.name = name
        self.address = address
        """None for the anonymous terminus: then each message has its own address in ``to``."""
        self.settled = settled
        self.standing = Standing()
        self.waiting_reason: str | None = None
        """Why the broker makes this sender wait; None when it does not, or has given no reason."""
        self._session = session
        self._unsettled_max = unsettled_max
        self._properties = properties
        self._link: SenderLink | None = None
        self._receipts = OpenReceipts()
        self._next_number = 0
        self._turn = trio.StrictFIFOLock()

    # --- the user's side -------------------------------------------------------------------------------------------

    @property
    def link_credit(self) -> int:
        """Messages that can be sent now without more link credit."""
        return 0 if self._link is None else self._link.credit.link_credit - self._link.waiting

    @property
    def room(self) -> int:
        """Messages that :meth:`post_nowait` can send now, limited by link credit and ``unsettled_max``."""
        if self._turn.locked() or not self.standing.up:
            return 0
        return max(0, min(self.link_credit, self._unsettled_max - self.unsettled))

    @property
    def posted(self) -> int:
        """Messages sent so far, which is the number of the next one."""
        return self._next_number

    @property
    def unsettled(self) -> int:
        """Messages without an outcome."""
        return self._receipts.missing

    @property
    def posting(self) -> bool:
        """A ``post`` is in progress; it may be waiting for link credit."""
        return self._turn.locked()

    async def send(self, message: Sendable) -> Fate:
        """Send one message and wait for its outcome."""
        receipt = await self.post([message])
        return (await receipt.fates())[0].fate

    async def send_many(self, messages: Iterable[Sendable]) -> list[FateRange]:
        """Send messages and wait for their outcomes; the numbers in the ranges count up in the order of the
        messages."""
        return await (await self.post(messages)).fates()

    async def post(self, messages: Iterable[Sendable]) -> Receipt:
        """Send messages, waiting for link credit as long as it takes. Their outcomes come with the receipt.

        Raises MessageTooLarge, and LinkClosed and the like when the sender is over. Messages that were sent before
        that, or before the call is cancelled, stay sent.
        """
        await trio.lowlevel.checkpoint()
        async with self._turn:
            self.standing.check()
            receipt = Receipt(self._next_number)
            rest = iter(messages)
            try:
                for message in rest:
                    room = await self._room()
                    run = [_encoded(message), *map(_encoded, islice(rest, room - 1))]
                    await self._hand_over(run, receipt)
            finally:
                receipt.close()
        return receipt

    def post_nowait(self, messages: Iterable[Sendable]) -> Receipt:
        """Send messages without waiting: all of them, or none. Their outcomes come with the receipt.

        Raises trio.WouldBlock when they are more than there is :attr:`room` for, which is 0 while a :meth:`post` is in
        progress; otherwise raises the same as ``post``.
        """
        self.standing.check()
        run = [_encoded(message) for message in messages]
        if len(run) > self.room:
            raise trio.WouldBlock
        receipt = Receipt(self._next_number)
        if run:
            self._give(run, receipt)
        receipt.close()
        return receipt

    async def close(self) -> None:
        """Detach for good. Messages without an outcome become uncertain: wait for the receipts first."""
        self._session.forget_sender(self)
        link, self._link = self._link, None
        await self._session.close_link(link)
        self._over(LinkClosed(f"the sender to {self.address} was closed"), link)

    # --- the session's side ----------------------------------------------------------------------------------------

    def attach(self, session: Session) -> None:
        """Attach, for the first time or again."""
        link = session.new_sender(self.name)
        link.reference = self
        self._link = link
        link.attach(
            source=Source(),
            target=Target(address=self.address),
            snd_settle_mode=SETTLED if self.settled else UNSETTLED,
            rcv_settle_mode=0,
            properties=self._properties,
        )

    def attach_answered(self, attach: Attach) -> None:
        """The broker attached too. Without a target it has refused, and its reason follows [2.6.3]."""
        if attach.target is not None:
            self.standing.came_up()

    def credit_received(self, event: CreditReceived) -> None:
        """The broker set the link credit, and may have given a reason for giving none."""
        properties = event.flow.properties or {}
        if REASON_PROPERTY in properties:
            reason = plain(properties[REASON_PROPERTY])
            self.waiting_reason = reason if isinstance(reason, str) else None
        if event.link.credit.drain:
            # Only messages within the link credit wait, so the answer is right as soon as they are sent.
            event.link.answer_flow(available=0, drained=True)
        elif event.flow.echo:
            event.link.answer_flow(available=0, drained=False)
        for first, last in event.link.take_back():
            self._receipts.note(first, last, Unsent("the broker took its link credit back"))
        self.standing.changed()

    def sent(self, event: DeliveriesSent) -> None:
        """Messages were sent; if they are settled, no outcome will come."""
        if self.settled:
            self._receipts.note(event.first, event.last, SENT)
            self.standing.changed()

    def outcomes_received(self, event: DeliveriesSettled) -> None:
        """The broker reported outcomes of messages."""
        fate = event.state if isinstance(event.state, Fate) else Uncertain("the broker settled without an outcome")
        for first, last in event.ranges:
            self._receipts.note(first, last, fate)
        self.standing.changed()

    def detached(self, error: Error | None) -> None:
        """The broker ended the link."""
        self._session.forget_sender(self)
        link, self._link = self._link, None
        self._over(LinkClosed(*told(f"the broker closed the link to {self.address}", error)), link)

    def lost(self, reason: ClientError) -> None:
        """The connection is lost for now."""
        link, self._link = self._link, None
        if link is not None:
            link.abandon()
        self._give_up(reason, link)
        self.standing.went_away(reason)

    def ended(self, reason: ClientError) -> None:
        """The session or the connection is over, or the user has given up the attach."""
        link, self._link = self._link, None
        if link is not None:
            link.reference = None
        self._over(reason, link)

    # --- inside ----------------------------------------------------------------------------------------------------

    async def _room(self) -> int:
        """Wait until at least one message may be sent; returns how many may."""
        while True:
            await self.standing.usable()
            room = min(self.link_credit, self._unsettled_max - self.unsettled, RUN_MESSAGES_MAX)
            if room > 0:
                return room
            await self.standing.change()

    async def _hand_over(self, run: list[bytes], receipt: Receipt) -> None:
        """Send messages for which :meth:`_room` has returned room; they wait again only after a loss in between."""
        while run:
            room = await self._room()
            self._give(run[:room], receipt)
            run = run[room:]
            await trio.lowlevel.checkpoint()

    def _give(self, run: list[bytes], receipt: Receipt) -> None:
        """Give these messages to the link, which has room for them."""
        assert self._link is not None
        try:
            self._link.send_run(self._next_number, run, b"")
        except LinkFault as fault:
            raise MessageTooLarge(fault.description, fault.condition) from None
        self._receipts.add(receipt, len(run))
        self._next_number += len(run)
        self._session.wake()

    def _over(self, reason: ClientError, link: SenderLink | None) -> None:
        self._give_up(reason, link)
        self.standing.ended(reason)

    def _give_up(self, reason: ClientError, link: SenderLink | None) -> None:
        """Give all messages without an outcome a fate, because no outcome will come for them any more."""
        self.waiting_reason = None
        for first, last in [] if link is None else link.unsent:
            self._receipts.note(first, last, Unsent(str(reason)))
        self._receipts.give_up(Uncertain(str(reason)))


def _encoded(message: Sendable) -> bytes:
    if isinstance(message, Message):
        return message.encode()
    if not message.startswith(b"\x00"):
        raise ValueError("bytes are an encoded message, which begins with 0x00; for a body write Message(b'…')")
    return message
