"""The link pair of the management node: requests come on one link, responses go on the other [HTTP over AMQP].

Both links have the same name and the property ``paired``, and either may attach first. Requests are served one at a
time and answered in order; only those that declare or delete a queue begin while others of these are being recorded. An
answer needs link credit that the client has given before. A client that breaks these rules loses the link of the pair,
not its session.

A request uses the link credit for requests until its answer has been written to the socket. So the broker soon reads no
more requests from a client that does not read its answers, and both waiting requests and waiting answers are bounded.

An answer may take long to make: it is a walk, and each turn of the connection does some of its steps. When one half of
the pair is detached, the walk and the waiting requests end: requests without an answer may not have been executed.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from amqp10.addresses import MANAGEMENT_ADDRESS
from amqp10.errors import ErrorCondition, LinkFault
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.frontend.stream_filters import check_unfiltered
from amqp10.frontend.termini import check_distribution_mode
from amqp10.management.node import ManagementNode, RequestError, RequestInProgress
from amqp10.protocol.events import CreditReceived
from amqp10.protocol.receiver_link import DeliveriesReceived, ReceiverLink
from amqp10.protocol.sender_link import SETTLED, DeliveriesSent, SenderLink
from amqp10.protocol.session import Session
from amqp10.wire.messaging import ACCEPTED, RELEASED, Source, Target
from amqp10.wire.performatives import Attach
from core.access.checked_engine import CheckedEngine
from core.config.amqp10 import Amqp10Settings
from core.work import Work

STEP_WORK = 50
"""Work of one step of a walk, in units of :mod:`core.work`: a row of a queue takes 25 us to make and 30 us to encode, a
link that is asked why it waits takes 200 us."""
REQUEST_WORK = 100
"""Work of a request besides its steps: to decode it, and to encode its answer."""


LINK_CREDIT_WHILE_RECORDED = 128
"""The link credit of a client that has used all that it had, for requests that wait for the disk: twice as many changes
of queues as are recorded together (:data:`core.engine.routing.staged.RECORDED_AT_ONCE`), so that the next record
gathers while one is on its way. With less, a record has few changes, and its two syncs and four ways between threads
are shared by few."""


class Asked(NamedTuple):
    """A request that waits for its turn or is being answered."""

    link: ReceiverLink
    number: int
    """The number of its delivery."""
    message: bytes
    fault: LinkFault | None
    """Why it must not be answered. It waits nevertheless, so that the requests before it are answered."""


class Pair:
    """The two links of one name; each is None while it is not attached."""

    __slots__ = ("_flow_wanted", "_served", "answers", "asked", "bytes_max", "receiver", "sender", "unsent")

    def __init__(self, bytes_max: int) -> None:
        """``bytes_max``: how many bytes of requests may be under way."""
        self.bytes_max = bytes_max
        self.receiver: ReceiverLink | None = None
        self.sender: SenderLink | None = None
        self.answers = 0
        """The number of answers so far, which is the delivery number of the next one."""
        self.unsent: dict[int, ReceiverLink] = {}
        """Answers that have not been written to the socket, with the link on which each one's request came."""
        self.asked: deque[Asked] = deque()
        """The waiting requests; the first ones are being served."""
        self._served: deque[RequestInProgress] = deque()
        """The service of the first requests; the last one may not have begun."""
        self._flow_wanted = False
        """The client drains the link for answers, or asked for its state: a flow is sent behind the answers."""

    @property
    def asleep(self) -> bool:
        """Whether the connection will be woken when the first request can go on."""
        return bool(self._served) and (self._served[0].asleep or self._served[0].waits)

    def ask(self, link: ReceiverLink, number: int, message: bytes) -> None:
        """Add a request that has come."""
        self.asked.append(Asked(link, number, message, self._fault()))

    def _fault(self) -> LinkFault | None:
        sender = self.sender
        if sender is None or not sender.end.attached:
            return LinkFault(ErrorCondition.PRECONDITION_FAILED, "the half of the pair for answers is not attached")
        if sender.credit.link_credit <= sender.waiting + len(self.asked):
            return LinkFault(
                ErrorCondition.PRECONDITION_FAILED,
                f"insufficient credit ({sender.credit.link_credit}) for the answer; grant link credit before a request",
            )
        return None

    def answer_some(self, node: ManagementNode, engine: CheckedEngine, owner: object, wake: Callable[[], None]) -> int:
        """Do one step towards the answer to the first request, and begin the next one if the first is being recorded.
        Returns the work, in units of :mod:`core.work`; 0 if all that is to be done is to wait. ``wake`` is called when
        the change of a request is recorded.

        Raises LinkFault for a request that cannot be answered.
        """
        asked = self.asked[0]
        if asked.fault is not None:
            raise asked.fault
        work = STEP_WORK
        if not self._served:
            self._served.append(node.serve(asked.message, engine, owner, wake))
            work += REQUEST_WORK
        first = self._served[0]
        begun = first.begun
        try:
            if first.waits or (first.response is None and not first.step()):
                if first.asleep:
                    return 0
                if not first.waits:
                    return work
                self._withhold(wanted=True)
                return self._begin_next(node, engine, owner, wake) + (0 if begun else work)
        except RequestError as error:
            raise LinkFault(error.condition, str(error)) from error
        self._served.popleft()
        self.asked.popleft()
        assert first.response is not None
        self._withhold(wanted=False)
        self._send(asked, first.response)
        return work

    def _begin_next(self, node: ManagementNode, engine: CheckedEngine, owner: object, wake: Callable[[], None]) -> int:
        """Begin the request behind those that are being recorded, if it may begin. Returns the work."""
        work = 0
        if self._served[-1].begun:
            number = len(self._served)
            if number == len(self.asked):
                self._allow_more()
                return 0
            if self.asked[number].fault is not None:
                return 0
            self._served.append(node.serve(self.asked[number].message, engine, owner, wake))
            work = REQUEST_WORK
        last = self._served[-1]
        if last.changes_queue:
            last.step()
            work += STEP_WORK if last.begun else 0
        return work

    def _withhold(self, *, wanted: bool) -> None:
        """Give no more link credit while a request waits for the disk, so that it comes with the answer as it does for
        other requests; unless the client has none left."""
        link = self.receiver
        if link is not None and link.credit.withheld is not wanted:
            link.credit.withheld = wanted
            link.confirmed(0)

    def _allow_more(self) -> None:
        """All requests that have come are being recorded. Where the client has no link credit left, let more come, as
        far as they have no more bytes than as many frames as the link credit was at first. The size of the last one
        tells."""
        link = self.receiver
        if link is None or link.credit.link_credit:
            return
        self._withhold(wanted=False)
        credit = link.credit
        maximum = min(LINK_CREDIT_WHILE_RECORDED, self.bytes_max // max(1, len(self.asked[-1].message)))
        if maximum > credit.maximum:
            credit.maximum, credit.top_up_at, credit.unconfirmed_limit = maximum, maximum // 2, maximum
            link.confirmed(0)

    def _send(self, asked: Asked, answer: bytes) -> None:
        sender = self.sender
        assert sender is not None  # otherwise the request would have been dropped
        if sender.credit.link_credit > sender.waiting:
            sender.send_run(self.answers, [answer], b"")
            self.unsent[self.answers] = asked.link
            self.answers += 1
        else:  # the client has lowered the link credit since the request: it wants no answer
            asked.link.confirmed(1)
        asked.link.settle(asked.number, asked.number, ACCEPTED)
        if not self.asked:
            self._tell_flow()

    def forget_requests(self) -> None:
        """Drop all requests. A link for requests that stays attached gets its link credit back."""
        self._withhold(wanted=False)
        self._served.clear()
        asked, self.asked = self.asked, deque()
        for one in asked:
            if one.link.end.attached:
                one.link.settle(one.number, one.number, RELEASED)
                one.link.confirmed(1)
        self._tell_flow()

    def flow_wanted(self) -> None:
        """Send a flow for the link for answers, behind the answers to all requests so far."""
        self._flow_wanted = True
        if not self.asked:
            self._tell_flow()

    def _tell_flow(self) -> None:
        if self._flow_wanted and self.sender is not None:
            self.sender.answer_flow(available=0, drained=self.sender.credit.drain)
        self._flow_wanted = False

    def answers_gone(self, first: int, last: int) -> None:
        """These answers were sent, or will not be sent."""
        unsent = self.unsent
        few = last - first < len(unsent)
        for number in range(first, last + 1) if few else [number for number in unsent if first <= number <= last]:
            if (link := unsent.pop(number, None)) is not None:
                link.confirmed(1)


class ManagementRequests:
    """The pairs of one connection that have requests: each gets one step in turn."""

    __slots__ = ("_engine", "_node", "_owner", "_settings", "_work", "waiting", "wake")

    def __init__(
        self,
        node: ManagementNode,
        engine: CheckedEngine,
        owner: object,
        settings: Amqp10Settings,
        work: Work,
        wake: Callable[[], None],
    ) -> None:
        """``engine`` has the rights of the user, ``owner`` is the connection whose exclusive queues the requests may
        use. ``wake`` gives the connection another turn."""
        self.wake = wake
        self._node = node
        self._engine = engine
        self._owner = owner
        self._settings = settings
        self._work = work
        self.waiting: OrderedDict[Pair, None] = OrderedDict()
        """The pairs that have requests, the next one first."""

    def links_of(self, session: Session) -> "ManagementLinks":
        """The pairs of a session of this connection."""
        if not isinstance(session.reference, ManagementLinks):
            session.reference = ManagementLinks(self, self._settings)
        return session.reference

    def join(self, pair: Pair) -> None:
        """Add a pair that has requests."""
        self.waiting[pair] = None

    def go_on(self, until: int, fail: Callable[[ReceiverLink, LinkFault], None]) -> bool:
        """Answer requests until the work counter reaches ``until``. Returns True when there is more to do, unless the
        connection will be woken for it.

        ``fail`` ends a link with a request that cannot be answered.
        """
        work = self._work
        recorded_first: list[Pair] = []
        while self.waiting and work.spent < until:
            pair, _ = self.waiting.popitem(last=False)
            if not pair.asked:
                continue
            link = pair.asked[0].link
            done = STEP_WORK
            try:
                done = pair.answer_some(self._node, self._engine, self._owner, self.wake)  # it may add work itself
            except LinkFault as fault:
                pair.forget_requests()
                fail(link, fault)
            work.spent += done
            if pair.asked and done:
                self.waiting[pair] = None
            elif pair.asked:
                recorded_first.append(pair)
        more = bool(self.waiting) or not all(pair.asleep for pair in recorded_first)
        self.waiting |= dict.fromkeys(recorded_first)
        return more


class ManagementLinks:
    """The management pairs of one session, by link name."""

    def __init__(self, requests: ManagementRequests, settings: Amqp10Settings) -> None:
        self._requests = requests
        self._settings = settings
        self._pairs: dict[str, Pair] = {}

    def receiver_attached(self, link: ReceiverLink, attach: Attach) -> None:
        """The client attached the half for requests. Raises LinkFault."""
        pair = self._pair(attach)
        if pair.receiver is not None:
            raise LinkFault(ErrorCondition.PRECONDITION_FAILED, "this half of the pair is attached already")
        pair.receiver = link
        link.reference = self
        link.attach(
            source=attach.source if isinstance(attach.source, Source) else None,
            target=Target(address=MANAGEMENT_ADDRESS),
            snd_settle_mode=attach.snd_settle_mode,
            rcv_settle_mode=attach.rcv_settle_mode,
            credit=ReceiverCredit(
                maximum=self._settings.management_link_credit,
                top_up_at=self._settings.management_link_credit // 2,
                unconfirmed_limit=self._settings.management_link_credit,
            ),
            max_message_size=self._settings.max_frame_size,
            properties={"paired": True},
        )

    def sender_attached(self, link: SenderLink, attach: Attach) -> None:
        """The client attached the half for answers. Raises LinkFault."""
        assert isinstance(attach.source, Source)
        check_distribution_mode(attach.source, copies=False)
        check_unfiltered(attach.source.filter)
        pair = self._pair(attach)
        if pair.sender is not None:
            raise LinkFault(ErrorCondition.PRECONDITION_FAILED, "this half of the pair is attached already")
        pair.sender = link
        link.reference = self
        link.attach(
            source=Source(address=MANAGEMENT_ADDRESS),
            target=attach.target if isinstance(attach.target, Target) else None,
            snd_settle_mode=SETTLED,
            rcv_settle_mode=0,
            max_message_size=attach.max_message_size,
            properties={"paired": True},
        )

    def requests_received(self, event: DeliveriesReceived) -> None:
        """Add requests, to be answered in their turn."""
        link = event.link
        pair = self._pairs[link.end.name]
        for index, entry in enumerate(event.entries):
            pair.ask(link, event.first + index, event.header + entry if event.checked else entry)
        self._requests.join(pair)

    def sent(self, event: DeliveriesSent) -> None:
        """Answers have been written to the socket."""
        pair = self._pairs.get(event.link.end.name)
        if pair is not None:
            pair.answers_gone(event.first, event.last)
            if pair.receiver is not None and not pair.receiver.credit.link_credit:
                self._requests.wake()  # to send the link credit that this has given back, for which the client waits

    def credit_received(self, event: CreditReceived) -> None:
        """The client gave link credit for answers, or drains what is left of it."""
        link = event.link
        pair = self._pairs[link.end.name]
        for first, last in link.take_back():
            pair.answers_gone(first, last)
        if link.credit.drain or event.flow.echo:
            pair.flow_wanted()

    def released(self, link: ReceiverLink | SenderLink) -> None:
        """One half is detached; the other may stay."""
        pair = self._pairs.get(link.end.name)
        if pair is None:
            return
        if pair.receiver is link:
            pair.receiver = None
            pair.forget_requests()
        if pair.sender is link:
            pair.sender = None
            pair.answers_gone(0, pair.answers)
            pair.forget_requests()
        if pair.receiver is None and pair.sender is None:
            del self._pairs[link.end.name]

    def _pair(self, attach: Attach) -> Pair:
        if not (attach.properties or {}).get("paired"):
            raise LinkFault(
                ErrorCondition.INVALID_FIELD, "a link to /management needs the property paired = true, and a partner"
            )
        settings = self._settings
        return self._pairs.setdefault(attach.name, Pair(settings.management_link_credit * settings.max_frame_size))
