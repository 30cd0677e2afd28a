"""A sending link: messages go out as the broker's link credit allows, and outcomes come back in ranges.

``post`` sends messages as far as link credit allows, waits for more where it must, and returns a receipt.
``post_nowait`` does so without waiting; ``send`` also waits for the outcome of one message. Messages have numbers,
counted from 0 over the life of the sender, across reconnects. Posts of several tasks are served in order, one after the
other.

Bounds: no message is encoded before there is link credit for it, and at most ``unsettled_max`` messages wait for their
outcome. When the connection is lost, messages without an outcome become uncertain, or unsent if they certainly were not
sent; ``post`` goes on with the rest when the link is attached again.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from itertools import islice

import anyio
from anyio.lowlevel import checkpoint

from amqp10.client.endpoint_status import EndpointStatus
from amqp10.client.journey import Journey
from amqp10.client.link_session import LinkSession
from amqp10.client.receipt import Receipt
from amqp10.client_core.errors import ClientError, LinkClosed, SendTimedOut, told
from amqp10.client_core.events import LinkEvent
from amqp10.client_core.message import Message
from amqp10.client_core.outcomes import Fate, FateRange, Outcomes, Unsent
from amqp10.client_core.reasons import LinkWait
from amqp10.client_core.sending import SenderCore
from amqp10.protocol.sender_link import DeliveriesSent, SenderLink
from amqp10.protocol.session import Session
from amqp10.wire.messaging import Error
from amqp10.wire.performatives import Attach

RUN_MESSAGES_MAX = 256
"""Messages encoded and sent in one piece of work, before other tasks get their turn."""

Sendable = Message | bytes
"""A message, or an encoded one."""


class Sender:
    """A sender to one address, made by ``open_sender``."""

    def __init__(
        self,
        session: LinkSession,
        *,
        name: str,
        address: str | None,
        settled: bool,
        unsettled_max: int,
        properties: Mapping[str, object] | None = None,
    ) -> None:
        self.name = name
        self.address = address
        """None for the anonymous terminus: then each message has its own address in ``to``."""
        self.settled = settled
        self.status = EndpointStatus()
        self.journey = Journey()
        self._session = session
        self._before_send = session.before_send
        self._core = SenderCore(
            name=name, address=address, settled=settled, unsettled_max=unsettled_max, properties=properties
        )
        self._turn = anyio.Lock(fast_acquire=True)

    # --- the user's side -------------------------------------------------------------------------------------------

    @property
    def link_credit(self) -> int:
        """Messages that can be sent now without more link credit."""
        return self._core.link_credit

    @property
    def max_message_size(self) -> int | None:
        """Bytes of the largest message that the broker takes; None for no limit, and while the link is away."""
        return self._core.max_message_size

    @property
    def wait(self) -> LinkWait | None:
        """Why the broker makes this sender wait; None when it does not, or has given no reason."""
        return self._core.wait

    @property
    def waiting_reason(self) -> str | None:
        """The reason of :attr:`wait` alone."""
        return self._core.waiting_reason

    async def waits(self) -> AsyncIterator[LinkWait | None]:
        """Why this sender waits, now and after each change; None each time when the wait is over.

        A reader that is slow gets the newest. Raises the reason once the sender is over.
        """
        seen = None
        while True:
            if self.wait == seen:
                await self.status.change()
            else:
                seen = self.wait
                yield seen

    @property
    def room(self) -> int:
        """Messages that :meth:`post_nowait` can send now, limited by link credit and ``unsettled_max``."""
        return 0 if self._turn.locked() or not self.status.up else self._core.room

    @property
    def posted(self) -> int:
        """Messages sent so far, which is the number of the next one."""
        return self._core.posted

    @property
    def unsettled(self) -> int:
        """Messages without an outcome."""
        return self._core.outcomes.missing

    @property
    def posting(self) -> bool:
        """A ``post`` is in progress; it may be waiting for link credit."""
        return self._turn.locked()

    async def send(self, message: Sendable, *, within_s: float | None = None) -> Fate:
        """Send one message and wait for its outcome.

        Raises SendTimedOut when there is none within ``within_s`` seconds, which says whether the message was sent and
        why the broker makes this sender wait; otherwise raises the same as :meth:`post`.
        """
        if within_s is not None:
            return await self._send_within(message, within_s)
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
        await checkpoint()
        async with self._turn:
            self.status.check()
            outcomes = Outcomes(self.posted)
            rest = iter(messages)
            try:
                for message in rest:
                    room = await self._room()
                    run = [self.encoded(message), *map(self.encoded, islice(rest, room - 1))]
                    await self._hand_over(run, outcomes)
            finally:
                outcomes.close()
        return Receipt(outcomes)

    def post_nowait(self, messages: Iterable[Sendable]) -> Receipt:
        """Send messages without waiting: all of them, or none. Their outcomes come with the receipt.

        Raises anyio.WouldBlock when they are more than there is :attr:`room` for, which is 0 while a :meth:`post` is in
        progress; otherwise raises the same as ``post``.
        """
        self.status.check()
        run = [self.encoded(message) for message in messages]
        if len(run) > self.room:
            raise anyio.WouldBlock
        outcomes = Outcomes(self.posted)
        if run:
            self._give(run, outcomes)
        outcomes.close()
        return Receipt(outcomes)

    def encoded(self, message: Sendable) -> bytes:
        """The message as it is sent, after the settings' ``before_send``. Raises EncodeError, and ValueError for bytes
        that are no message."""
        if isinstance(message, Message):
            return (message if self._before_send is None else self._before_send(message)).encode()
        if not message.startswith(b"\x00"):
            raise ValueError("bytes are an encoded message, which begins with 0x00; for a body write Message(b'…')")
        return message

    async def close(self) -> None:
        """Detach for good. Messages without an outcome become uncertain: wait for the receipts first."""
        self._session.forget(self)
        link = self._core.let_go()
        await self._session.close_link(link)
        self._over(LinkClosed(f"the sender to {self.address} was closed"), link)

    # --- the session's side ----------------------------------------------------------------------------------------

    def attach(self, session: Session) -> None:
        """Attach, for the first time or again."""
        self._core.attach(session, self)

    @property
    def engine_link(self) -> SenderLink | None:
        """The present link; None while there is none."""
        return self._core.link

    def attach_answered(self, attach: Attach) -> None:
        """The broker attached too."""
        if not self._session.moves(self, attach):
            self.usable(attach)

    def usable(self, attach: Attach) -> None:
        """The link is where it is to be used."""
        self.journey.arrived(anyio.current_time())
        self.status.came_up()

    def leave(self) -> None:
        """Use the link no more: another one follows in its place, which has not been used."""
        if (link := self._core.let_go()) is not None:
            link.reference = None

    def join(self, session: LinkSession) -> None:
        """Be one of another session."""
        self._session = session

    def event_received(self, event: LinkEvent) -> None:
        """Link credit, outcomes, or messages that were sent."""
        before = self._core.wait
        for first, last in self._core.event_received(event):
            self._core.outcomes.note(first, last, Unsent("the broker took its link credit back"))
        if self._core.wait is not before:
            self._session.wait_changed(self.address, self._core.wait)
        if self.settled or not isinstance(event, DeliveriesSent):
            self.status.changed()

    def detached(self, error: Error | None) -> None:
        """The broker ended the link."""
        if self._session.comes_back(self, error):
            return
        self._session.forget(self)
        self._over(LinkClosed(*told(f"the broker closed the link to {self.address}", error)), self._core.let_go())

    def lost(self, reason: ClientError) -> None:
        """The connection is lost for now."""
        if self._core.link is not None:
            self._core.link.abandon()
        self.went_away(reason)

    def went_away(self, reason: ClientError) -> None:
        """There is no link for now."""
        self._give_up(reason, self._core.let_go())
        self.status.went_away(reason)

    def give_up(self, reason: ClientError) -> None:
        """The user has given up the attach."""
        self._session.forget(self)
        self.ended(reason)

    def ended(self, reason: ClientError) -> None:
        """The session or the connection is over."""
        link = self._core.let_go()
        if link is not None:
            link.reference = None
        self._over(reason, link)

    # --- inside ----------------------------------------------------------------------------------------------------

    async def _send_within(self, message: Sendable, seconds: float) -> Fate:
        entry, receipt = self.encoded(message), None
        with anyio.move_on_after(seconds):
            async with self._turn:
                await self._room()
                outcomes = Outcomes(self.posted)
                receipt = Receipt(outcomes)
                self._give([entry], outcomes)
                outcomes.close()
            return (await receipt.fates())[0].fate
        sent = receipt is not None
        what = (
            "the message was sent, and has no outcome" if sent else "the message was not sent, for want of link credit,"
        )
        why = "" if self.wait is None else f"; the broker makes this sender wait: {self.wait}"
        raise SendTimedOut(f"{what} within {seconds:g} s{why}", sent=sent)

    async def _room(self) -> int:
        """Wait until at least one message may be sent; returns how many may."""
        while True:
            await self.status.usable()
            if self._core.room:
                return min(self._core.room, RUN_MESSAGES_MAX)
            await self.status.change()

    async def _hand_over(self, run: list[bytes], outcomes: Outcomes) -> None:
        """Send messages for which :meth:`_room` has returned room; they wait again only after a loss in between."""
        while run:
            room = await self._room()
            self._give(run[:room], outcomes)
            run = run[room:]
            await checkpoint()

    def _give(self, run: list[bytes], outcomes: Outcomes) -> None:
        """Give these messages to the link, which has room for them."""
        self._core.give(run, outcomes)
        self._session.wake()

    def _over(self, reason: ClientError, link: SenderLink | None) -> None:
        self._give_up(reason, link)
        self.status.ended(reason)

    def _give_up(self, reason: ClientError, link: SenderLink | None) -> None:
        waited = self._core.wait is not None
        self._core.give_up(str(reason), link)
        if waited:
            self._session.wait_changed(self.address, None)
