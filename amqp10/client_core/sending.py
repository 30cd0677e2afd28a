"""The state of one sender: the numbers of its messages, its link credit, and the outcomes that are missing.

Messages have numbers, counted from 0 over the life of the sender, whatever links it has had. The sender's user gives
messages only for which there is :attr:`SenderCore.room`, so no more than ``unsettled_max`` messages are without an
outcome, and all that wait for the session's window have link credit.
"""

from collections.abc import Mapping

from amqp10.client_core.errors import MessageTooLarge
from amqp10.client_core.events import LinkEvent, LinkUser
from amqp10.client_core.outcomes import SENT, OpenOutcomes, Outcomes, Uncertain, Unsent, as_fate
from amqp10.client_core.reasons import LinkWait, link_wait
from amqp10.errors import LinkFault
from amqp10.protocol.events import CreditReceived, DeliveriesSettled
from amqp10.protocol.sender_link import SETTLED, DeliveriesSent, SenderLink
from amqp10.protocol.session import Session
from amqp10.wire.messaging import Source, Target

UNSETTLED = 0
"""snd-settle-mode [2.8.2]."""


class SenderCore:
    """A sender to one address, on one link after the other."""

    def __init__(
        self,
        *,
        name: str,
        address: str | None,
        unsettled_max: int,
        settled: bool = False,
        properties: Mapping[str, object] | None = None,
    ) -> None:
        self.name = name
        self.address = address
        """None for the anonymous terminus: then each message has its own address in ``to``."""
        self.settled = settled
        self.link: SenderLink | None = None
        self.posted = 0
        """Messages given so far, which is the number of the next one."""
        self.wait: LinkWait | None = None
        """Why the broker makes this sender wait; None when it does not, or has given no reason."""
        self.outcomes = OpenOutcomes()
        self._unsettled_max = unsettled_max
        self._properties = properties

    @property
    def waiting_reason(self) -> str | None:
        """The reason of :attr:`wait` alone."""
        return None if self.wait is None else self.wait.reason

    @property
    def max_message_size(self) -> int | None:
        """Bytes of the largest message that the broker takes; None for no limit, and while there is no link."""
        remote = None if self.link is None else self.link.end.remote
        return None if remote is None else remote.max_message_size or None

    @property
    def link_credit(self) -> int:
        """Messages that can be sent now without more link credit."""
        return 0 if self.link is None else self.link.credit.link_credit - self.link.waiting

    @property
    def room(self) -> int:
        """Messages that :meth:`give` can take now."""
        return max(0, min(self.link_credit, self._unsettled_max - self.outcomes.missing))

    def attach(self, session: Session, user: LinkUser) -> None:
        """Attach, for the first time or again; ``user`` is told of the link's events."""
        self.link = session.new_sender(self.name)
        self.link.reference = user
        self.link.attach(
            source=Source(),
            target=Target(address=self.address),
            snd_settle_mode=SETTLED if self.settled else UNSETTLED,
            rcv_settle_mode=0,
            properties=self._properties,
        )

    def give(self, entries: list[bytes], outcomes: Outcomes, header: bytes = b"") -> None:
        """Give encoded messages to the link, which has room for them; ``outcomes`` will have theirs.

        ``header`` is the header section of each message, b"" when they have their own. Raises MessageTooLarge, and then
        no message was sent.
        """
        assert self.link is not None
        try:
            self.link.send_run(self.posted, entries, header)
        except LinkFault as fault:
            raise MessageTooLarge(fault.description, fault.condition) from None
        self.outcomes.add(outcomes, len(entries))
        self.posted += len(entries)

    def forget_newest(self, n: int, outcomes: Outcomes) -> None:
        """Give the newest messages' numbers to others: they were taken back before they were sent."""
        self.outcomes.add(outcomes, -n)
        self.posted -= n

    def event_received(self, event: LinkEvent) -> list[tuple[int, int]]:
        """Take in an event on the link. Returns the numbers of messages that were taken back before they were sent,
        because the broker has taken its link credit back: ranges, both ends inclusive."""
        match event:
            case CreditReceived():
                self.wait = link_wait(event.flow, self.wait)
                if event.link.credit.drain:
                    # Only messages within the link credit wait, so the answer is right as soon as they are sent.
                    event.link.answer_flow(available=0, drained=True)
                elif event.flow.echo:
                    event.link.answer_flow(available=0, drained=False)
                return event.link.take_back()
            case DeliveriesSettled():
                fate = as_fate(event.state)
                for first, last in event.ranges:
                    self.outcomes.note(first, last, fate)
            case DeliveriesSent() if self.settled:
                self.outcomes.note(event.first, event.last, SENT)
        return []

    def let_go(self) -> SenderLink | None:
        """Use the link no more. Returns it."""
        link, self.link = self.link, None
        return link

    def give_up(self, reason: str, link: SenderLink | None) -> None:
        """Give all messages without an outcome a fate, because no outcome will come for them any more; ``link`` is the
        former link."""
        self.wait = None
        for first, last in [] if link is None else link.unsent:
            self.outcomes.note(first, last, Unsent(reason))
        self.outcomes.give_up(Uncertain(reason))
