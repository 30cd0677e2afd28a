"""Links of a blocking connection: one that receives by link credit and drain, one that sends and waits for outcomes.

Receiving. Link credit bounds a batch: :meth:`ReceivingLink.fetch` grants exactly so many messages, with drain, and ends
when they have come or the broker has given the rest back; the link credit is 0 before and after it [2.6.7].
:meth:`ReceivingLink.stream` keeps link credit topped up instead, for a reader that knows where to stop.

Sending. Messages go out in runs as link credit allows. Their numbers count up from 0 over the life of the link, and
their outcomes come as ranges of numbers, never one by one.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from amqp10.blocking.connection import BlockingConnection
from amqp10.client_core.errors import ClientError, ConnectionLost, LinkRefused, TimedOut, told
from amqp10.client_core.events import LinkEvent
from amqp10.client_core.outcomes import FateRange, Outcomes
from amqp10.client_core.sending import SenderCore
from amqp10.errors import ErrorCondition
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.protocol.events import SenderFlowReceived
from amqp10.protocol.lifecycle import LinkState
from amqp10.protocol.receiver_link import MIXED, SETTLED, DeliveriesReceived, ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from amqp10.wire.messaging import ACCEPTED, Accepted, Error, Outcome, Source, Target
from amqp10.wire.performatives import Attach

RUN_MESSAGES_MAX = 4096
"""Messages passed to the engine at once: what one write may hold, and as many as one incoming run."""
UNSETTLED_MAX = 20_000
"""The most messages of one sender without an outcome; further ones wait, whatever link credit there is."""
REFUSALS = frozenset(
    (
        ErrorCondition.NOT_FOUND,
        ErrorCondition.UNAUTHORIZED_ACCESS,
        ErrorCondition.NOT_ALLOWED,
        ErrorCondition.INVALID_FIELD,
        ErrorCondition.RESOURCE_LOCKED,
        ErrorCondition.PRECONDITION_FAILED,
    )
)
"""Conditions with which RabbitMQ ends the session when it refuses an attach. With one of these it would do so again."""
IDENTITY_PROPERTY = "headgate:queue-identity"
"""Property of an attach: the identity of the queue's declaration. Headgate sends it, other brokers do not."""

WhenLate = Callable[[], None]
"""Called when the broker makes a sender wait for longer than the sender's user expects."""


class Deliveries(NamedTuple):
    """A run: messages with consecutive delivery-ids, whole and encoded, in order."""

    first: int
    """Extended delivery-id of the first message; the others count up from it."""
    entries: list[bytes]
    settled: bool
    """Whether they came settled: then they get no outcome."""

    @property
    def last(self) -> int:
        """Extended delivery-id of the last."""
        return self.first + len(self.entries) - 1


class BlockingEnd:
    """Our end of a link: the broker's answer, why the link is over, and waiting for what happens on it."""

    def __init__(self, connection: BlockingConnection, address: str | None, take: Callable[[LinkEvent], None]) -> None:
        """``take`` is called with each event on the attached link."""
        self.answer: Attach | None = None
        """The broker's attach. Its source has the filters in force."""
        self.failure: ClientError | None = None
        self._connection = connection
        self._address = address
        self._take = take

    def attached(self) -> None:
        """Wait until the broker has attached too. Raises LinkRefused with the broker's reason, and TimedOut."""
        try:
            self.wait(lambda: self.answer is not None, None, "the attach")
        except ConnectionLost as lost:
            if lost.condition in REFUSALS:
                raise LinkRefused(lost.text, lost.condition) from None
            raise

    def wait(self, done: Callable[[], bool], within_s: float | None, what: str) -> None:
        """Wait until ``done`` returns True. Raises TimedOut, and the reason why the link or the connection is over."""
        seconds = self._connection.settings.answer_time_out_s if within_s is None else within_s
        self._connection.wait_until(
            lambda: done() or self.failure is not None, within_s=seconds, what=f"{self._address}: {what}"
        )
        self.check()

    def check(self) -> None:
        """Raise the reason why the link or the connection is over."""
        failure = self.failure or self._connection.failure
        if failure is not None:
            raise failure

    def close(self, link: ReceiverLink | SenderLink) -> None:
        """Detach for good, and wait for the answer."""
        connection = self._connection
        with connection.lock:
            link.reference = None
            if connection.failure is None and link.end.attached:
                connection.session.detach(link)
                with suppress(ClientError):  # the connection is over, and the link with it
                    connection.moved_until(
                        lambda: link.end.state is LinkState.GONE, within_s=connection.settings.close_time_out_s
                    )

    # --- calls of the client core ----------------------------------------------------------------------------------

    def attach_answered(self, attach: Attach) -> None:
        """See :class:`amqp10.client_core.events.LinkUser`."""
        self.answer = attach

    def event_received(self, event: LinkEvent) -> None:
        """See :class:`amqp10.client_core.events.LinkUser`."""
        self._take(event)

    def detached(self, error: Error | None) -> None:
        """See :class:`amqp10.client_core.events.LinkUser`."""
        place = f"{self._connection.url.place} {self._address or '(anonymous terminus)'}"
        text, condition = told(f"{place} closed the link", error)
        self.failure = LinkRefused(text, condition, description=None if error is None else error.description)


class ReceivingLink:
    """A receiver for one address. Made by :meth:`open`."""

    def __init__(self, connection: BlockingConnection, address: str, link: ReceiverLink) -> None:
        self.address = address
        self.end = BlockingEnd(connection, address, self._take)
        self._connection = connection
        self._link = link
        self._arrived: list[Deliveries] = []
        self._keep_at = 0
        """While streaming: the link credit, which is set to this again when half of it is used."""
        self._to_come = 0
        """While streaming: how many more messages are wanted."""
        self._echoes = 0
        self._available: int | None = None

    @classmethod
    def open(
        cls,
        connection: BlockingConnection,
        address: str,
        *,
        name: str | None = None,
        filters: Mapping[str, object] | None = None,
        distribution_mode: str | None = None,
        settled: bool = False,
        properties: Mapping[str, object] | None = None,
    ) -> "ReceivingLink":
        """Attach, with link credit 0. ``settled``: messages shall come settled. ``filters`` are described values,
        ``distribution_mode`` is ``move``, ``copy``, or the node's own [3.5.7].

        Raises LinkRefused with the broker's reason, TimedOut, and the connection's errors.
        """
        with connection.lock:
            link = connection.session.new_receiver(name or connection.new_link_name())
            receiving = cls(connection, address, link)
            link.reference = receiving.end
            link.attach(
                source=Source(
                    address=address, distribution_mode=distribution_mode, filter=dict(filters) if filters else None
                ),
                target=Target(),
                snd_settle_mode=SETTLED if settled else MIXED,
                rcv_settle_mode=0,
                credit=ReceiverCredit(),
                properties=properties,
            )
            receiving.end.attached()
        return receiving

    # --- batches ---------------------------------------------------------------------------------------------------

    def fetch(self, link_credit: int, *, within_s: float) -> list[Deliveries]:
        """Return the messages that are there now, at most ``link_credit``, by link credit with drain [2.6.7]. It is 0
        afterwards.

        Where the broker does not answer the drain in time, the messages so far are returned, and the link credit is
        taken back. Raises TimedOut when it does not answer that either.
        """
        link = self._link
        with self._connection.lock:
            self.end.check()
            link.grant(link_credit, drain=True)
            drained = self._connection.moved_until(self._drained, within_s=within_s)
            self.end.check()
            link.credit.drain = False
            if not drained:
                self._take_back(within_s)
            return self._taken()

    def _drained(self) -> bool:
        return self._link.credit.link_credit == 0 or self.end.failure is not None

    def _take_back(self, within_s: float) -> None:
        """Set link credit to 0, and wait until no message is on its way any more."""
        echoes = self._echoes
        self._link.grant(0, echo=True)
        self.end.wait(lambda: self._echoes > echoes, within_s, "the answer to a drain, and to taking link credit back")

    def ready(self) -> int | None:
        """How many messages the broker would send now: its ``available`` [2.6.7]. None when it does not say."""
        with self._connection.lock:
            self.sync()
            return self._available

    # --- streams ---------------------------------------------------------------------------------------------------

    def stream(self, link_credit: int, *, messages: int) -> None:
        """Have so many messages sent from now on, with link credit between half of ``link_credit`` and all of it."""
        with self._connection.lock:
            self.end.check()
            self._keep_at, self._to_come = link_credit, messages
            self._link.grant(min(link_credit, messages))

    def arrived(self, *, within_s: float) -> list[Deliveries]:
        """Return the runs that have come, after waiting for the first. Empty when the time is over."""
        with self._connection.lock:
            self._connection.moved_until(lambda: bool(self._arrived) or self.end.failure is not None, within_s=within_s)
            if not self._arrived:
                self.end.check()
            return self._taken()

    # --- outcomes --------------------------------------------------------------------------------------------------

    def settle(self, first: int, last: int, outcome: Outcome = ACCEPTED) -> None:
        """Give deliveries (extended ids, both inclusive) their outcome. It is sent with the next :meth:`sync`."""
        with self._connection.lock:
            self.end.check()
            self._link.settle(first, last, outcome)
            session = self._connection.session
            session.connection.to_flush[session] = None

    def sync(self, *, within_s: float | None = None) -> None:
        """Make a round trip. After it the broker has processed everything that was sent before, outcomes too."""
        with self._connection.lock:
            self.end.check()
            echoes = self._echoes
            self._link.grant(self._link.credit.link_credit, echo=True)
            self.end.wait(lambda: self._echoes > echoes, within_s, "the answer to an echo")

    @property
    def queue_identity(self) -> str | None:
        """The identity that tells the queue from earlier and later ones of its name; None when the broker does not send
        it."""
        answer = self.end.answer
        identity = None if answer is None else (answer.properties or {}).get(IDENTITY_PROPERTY)
        return identity if isinstance(identity, str) else None

    @property
    def attached(self) -> bool:
        """Whether the link is attached and the connection open."""
        return self.end.failure is None and self._connection.failure is None

    def close(self) -> None:
        """Detach for good, and wait for the answer. Deliveries without an outcome return to their queue."""
        self.end.close(self._link)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _take(self, event: LinkEvent) -> None:
        if isinstance(event, DeliveriesReceived):
            header = event.header
            entries = [header + entry for entry in event.entries] if header else event.entries
            self._arrived.append(Deliveries(event.first, entries, event.settled))
            self._link.confirmed(len(entries))
            self._to_come -= len(entries)
            left = self._link.credit.link_credit
            if left <= self._keep_at // 2 and left < self._to_come:
                self._link.grant(min(self._keep_at, self._to_come))
        elif isinstance(event, SenderFlowReceived):
            self._echoes += 1
            self._available = event.flow.available

    def _taken(self) -> list[Deliveries]:
        arrived, self._arrived = self._arrived, []
        return arrived


class SendingLink:
    """A sender for one address. Made by :meth:`open`."""

    def __init__(self, connection: BlockingConnection, core: SenderCore) -> None:
        self.address = core.address
        """None for the anonymous terminus: then each message names its target in ``to``."""
        self.end = BlockingEnd(connection, core.address, self._take)
        self._connection = connection
        self._core = core
        self._sending = Outcomes(0)
        """Those of the call of :meth:`send` that is under way, or was the last."""

    @classmethod
    def open(
        cls,
        connection: BlockingConnection,
        address: str | None,
        *,
        name: str | None = None,
        properties: Mapping[str, object] | None = None,
        settled: bool = False,
        unsettled_max: int = UNSETTLED_MAX,
    ) -> "SendingLink":
        """Attach. At most ``unsettled_max`` messages are on their way without an outcome; with ``settled`` none gets
        one.

        Raises LinkRefused with the broker's reason, TimedOut, and the connection's errors.
        """
        core = SenderCore(
            name=name or connection.new_link_name(),
            address=address,
            settled=settled,
            unsettled_max=unsettled_max,
            properties=properties,
        )
        sending = cls(connection, core)
        with connection.lock:
            core.attach(connection.session, sending.end)
            sending.end.attached()
        return sending

    @property
    def progress(self) -> tuple[int, int]:
        """Messages given to the link so far, and how many of them are without an outcome."""
        return self._core.posted, self._core.outcomes.missing

    @property
    def waiting_reason(self) -> str | None:
        """Why the broker makes this link wait; None when it does not, or has given no reason."""
        return self._core.waiting_reason

    def send(
        self, entries: Sequence[bytes], *, header: bytes = b"", within_s: float, when_late: WhenLate | None = None
    ) -> Outcomes:
        """Send encoded messages, waiting for link credit for at most ``within_s`` seconds each time.

        With ``when_late`` there is no TimedOut: it is called each time these seconds are over, and the wait goes on.

        ``header`` is the header section of all of them, b"" for none or when the entries have their own. Raises
        TimedOut without link credit, and MessageTooLarge for a message that is too large; the messages before it are
        sent.
        """
        core = self._core
        with self._connection.lock:
            outcomes = self._sending = Outcomes(core.posted)
            while (at := len(outcomes)) < len(entries) or self._waiting:
                if at == len(entries):  # until the messages are written the broker may take link credit back
                    self._wait(
                        lambda: not self._waiting or len(outcomes) < len(entries), within_s, "a window", when_late
                    )
                    continue
                if not core.room:
                    self._wait(lambda: core.room > 0, within_s, "link credit, or outcomes of what was sent", when_late)
                    continue
                self.end.check()
                core.give(list(entries[at : at + min(core.room, RUN_MESSAGES_MAX)]), outcomes, header)
                self._connection.moved_until(lambda: True, within_s=0.0)
            outcomes.close()
        return outcomes

    def confirm(self, outcomes: Outcomes, *, within_s: float, when_late: WhenLate | None = None) -> list[FateRange]:
        """Wait until every message of a call of :meth:`send` has its outcome; returns those other than accepted.

        ``within_s`` is how long the broker may take for the next outcome. Raises TimedOut; with ``when_late`` as
        :meth:`send` does.
        """
        unsettled = self._core.outcomes
        with self._connection.lock:
            while not outcomes.done:
                before = unsettled.missing
                self._wait(
                    lambda before=before: unsettled.missing < before,  # type: ignore[misc]
                    within_s,
                    "outcomes of what was sent",
                    when_late,
                )
        return not_accepted(outcomes)

    def close(self) -> None:
        """Detach for good, and wait for the answer."""
        if self._core.link is not None:
            self.end.close(self._core.link)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _take(self, event: LinkEvent) -> None:
        for first, last in self._core.event_received(event):  # the newest messages, which send() passes again
            self._core.forget_newest(last - first + 1, self._sending)

    @property
    def _waiting(self) -> int:
        """Messages that are not written yet."""
        return 0 if self._core.link is None else self._core.link.waiting

    def _wait(self, done: Callable[[], bool], within_s: float, what: str, when_late: WhenLate | None = None) -> None:
        def over() -> bool:
            return done() or self.end.failure is not None

        while when_late is not None and not self._connection.moved_until(over, within_s=within_s):
            when_late()
        try:
            self.end.wait(done, within_s, what)
        except TimedOut as late:
            if self._core.waiting_reason is None:
                raise
            raise TimedOut(f"{late.text}; it makes this link wait: {self._core.waiting_reason}") from None


def not_accepted(outcomes: Outcomes) -> list[FateRange]:
    """The outcomes so far that are other than accepted, in order."""
    return [one for one in outcomes.so_far() if not isinstance(one.fate, Accepted)]
