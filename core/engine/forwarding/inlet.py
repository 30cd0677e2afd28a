"""The messages that one consumer gets from a remote queue, through a link of its own.

The consumer's grant is the link credit. A grant for which the client has asked, by an echo or a drain, is answered when
the home node has answered; meanwhile only the newest grant waits behind it. Other grants are answered at once. The home
node is asked for the ready messages of the queue now and then only; what has come since is taken off.

What comes beyond the grant, because the grant was lowered meanwhile, goes back to the home node at once.

A stream is read in order. So when a delivery of a stream goes back unsent, what the home node has sent behind it goes
back too. The inlet takes the link credit away, and asks for an answer: nothing that was on its way comes behind that.
Then it grants anew, and the home node begins again with what went back.
"""

from collections.abc import Callable
from math import inf

from core.engine.forwarding.links import FarReceiver
from core.engine.queue.consumers import Attachment
from core.engine.queue.queue_counters import QueueCounters
from core.engine.ready.batch import Batch
from core.errors import EngineError
from core.interface import ActivityChanged, Delivered, Disposal, TakenBack
from core.message import UNSENT, Attributes, Return, Routes, RunAttributes

PROBE_SECONDS = 0.1
"""How often the home node is asked for the ready messages when no client asks: by about every tenth grant of a consumer
that gets 100,000 messages a second. The ledger of stalls looks four times a second."""
NO_ATTRIBUTES = Attributes()


class Inlet:
    """One link to consume. The connection calls the methods that end in the past tense; the rest is for the queue."""

    __slots__ = (
        "_asked_behind",
        "_awaited",
        "_counters",
        "_echo_out",
        "_goes_back",
        "_in_order",
        "_lost",
        "_probe_at",
        "_stale",
        "attachment",
        "available",
        "link",
    )

    def __init__(
        self,
        attachment: Attachment,
        counters: QueueCounters,
        lost: Callable[["Inlet", EngineError], None],
        *,
        in_order: bool = False,
    ) -> None:
        """``lost`` is called when the link is over, but for :meth:`close`. ``in_order``: the queue is a stream."""
        self.attachment = attachment
        self._counters = counters
        self._lost = lost
        self.link: FarReceiver | None = None
        self.available = 0
        """The ready messages of the queue, as the home node said last, less those that have come since."""
        self._echo_out = self._awaited = False
        """Whether an answer of the home node is out, and whether the client waits for it."""
        self._stale = False
        """The grant has changed since the question."""
        self._in_order = in_order
        self._goes_back = self._asked_behind = False
        """Whether a delivery of a stream has gone back, so that what comes behind it goes back too; and whether the
        answer that is out is behind all of that."""
        self._probe_at = -inf
        """When the home node is asked although no client asks (monotonic seconds)."""

    # --- what the queue does -----------------------------------------------------------------------------------

    def pass_on(self, now: float = -inf) -> None:
        """Pass the grant on, at this time (monotonic seconds)."""
        attachment = self.attachment
        asked = attachment.asked or attachment.drain
        if self.link is None or self._goes_back or self._awaited or (self._echo_out and asked):
            self._stale = True
            return
        echo = not self._echo_out and (asked or now >= self._probe_at)
        self._echo_out, self._awaited, self._stale = self._echo_out or echo, asked, False
        self.link.grant(attachment.grant, drain=attachment.drain, echo=echo)
        if echo:
            self._probe_at = now + PROBE_SECONDS
        if not asked and attachment.replies_due:
            attachment.reply(self.available)

    def settle(self, first: int, last: int, disposal: Disposal | Return) -> None:
        """Settle deliveries by their numbers for the consumer, both inclusive."""
        for batch in self.attachment.unsettled.remove(first, last):
            self._settle(batch, disposal)
            if isinstance(disposal, Return) and disposal.unsent:
                self._go_back()

    def stop(self) -> None:
        """The consumer gets no more messages, and keeps those that it has."""
        self.attachment.grant = 0
        if self.link is not None:
            self.link.grant(0, drain=False, echo=False)

    def close(self) -> None:
        """The consumer is gone: the home node takes back what it had."""
        self.attachment.unsettled.remove_all()
        link, self.link = self.link, None
        if link is not None:
            link.close()

    # --- what the connection tells -----------------------------------------------------------------------------

    def delivered(
        self,
        first: int,
        entries: list[bytes],
        attributes: RunAttributes,
        *,
        delivery_count: int,
        first_acquirer: bool,
        routes: Routes = None,
    ) -> None:
        """Messages have come, with numbers of the session from ``first`` up. The list belongs to the consumer."""
        attachment, count = self.attachment, len(entries)
        if (excess := count if self._goes_back else count - attachment.grant) > 0:
            if self.link is not None:
                self.link.settle(first + count - excess, first + count - 1, UNSENT)
                self._go_back()
            count -= excess
            if not count:
                return
            del entries[count:]
        consumer = attachment.consumer
        number = consumer.next_number
        attachment.grant -= count
        consumer.next_number = number + count
        self._counters.delivered += count
        self.available = max(0, self.available - count)
        attachment.unsettled.append(number, Batch(range(first, first + count), [], NO_ATTRIBUTES))
        consumer.mailbox.put(
            Delivered(consumer, number, entries, attributes, delivery_count, first_acquirer, routes=routes)
        )

    def taken_back(self, first: int, last: int, *, moved: bool) -> None:
        """The home node has taken deliveries back: numbers of the session, both inclusive. The consumer is told, and
        they wait for it to settle them. ``moved`` is as :class:`core.interface.TakenBack` has it."""
        consumer = self.attachment.consumer
        unsettled = self.attachment.unsettled
        for number, batch in unsettled.numbered():
            low, high = batch.sequences[0], batch.sequences[-1]
            if high < first or low > last:
                continue
            places = [place for place, one in enumerate(batch.sequences) if first <= one <= last]
            if places:
                consumer.mailbox.put(TakenBack(consumer, number + places[0], number + places[-1], moved))

    def began(self, offset: int) -> None:
        """The home node has said where in its stream the consumer begins."""
        self.attachment.consumer.begins_at = offset

    def answered(self, available: int) -> None:
        """The home node has answered the last echo: all that its grant brings at once has come."""
        self.available = available
        self._echo_out = self._awaited = False
        if self._goes_back and not self._asked_behind:
            self._ask_behind()
            return
        if self._goes_back:
            self._goes_back = self._asked_behind = False
            self._stale = True
        if self._stale:
            self.pass_on()
        elif self.attachment.replies_due:
            self.attachment.reply(available)

    def activity_changed(self, *, active: bool) -> None:
        """The consumer has become the single active one, or has ceased to be it. The home node tells changes only, and
        not that a new consumer is not active."""
        consumer = self.attachment.consumer
        consumer.active = active
        consumer.mailbox.put(ActivityChanged(consumer, active))

    def link_ended(self, error: EngineError) -> None:
        """The link is over, by the home node or because it was lost. What the consumer holds is the home node's."""
        self.link = None
        self._lost(self, error)

    def _go_back(self) -> None:
        """The home node gets a delivery back. Of a stream take nothing more until it has begun there again."""
        if not self._in_order or self._goes_back or self.link is None:
            return
        self._goes_back = True
        if self._echo_out:  # that answer may come before what is on its way
            self.link.grant(0, drain=False, echo=False)
        else:
            self._ask_behind()

    def _ask_behind(self) -> None:
        """Ask for an answer behind all that is on its way."""
        self._asked_behind = self._echo_out = True
        if self.link is not None:
            self.link.grant(0, drain=False, echo=True)

    def _settle(self, batch: Batch, disposal: Disposal | Return) -> None:
        if self.link is None:
            return
        numbers = batch.sequences
        if isinstance(numbers, range) and numbers.step == 1:
            self.link.settle(numbers[0], numbers[-1], disposal)
            return
        for number in numbers:
            self.link.settle(number, number, disposal)
