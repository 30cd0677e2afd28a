"""The link pair of the management node: requests come on one link, answers go on the other [HTTP over AMQP].

Both links have the same name, both say ``paired``, and either may attach first. Requests are answered one at a time, in
order, and an answer needs link credit that the client has given before. A client that breaks these rules loses the
pair's link, not its session.

A request counts against the link credit for requests until its answer has gone to the socket. So a client that asks and
does not listen is soon not listened to either, and what waits for it is bounded: requests as well as answers.

An answer may take long to make: it is a walk, of which each turn of the connection takes some steps. A half that goes
takes along the walk and the requests that wait behind it: what has not been answered may not have been done.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from amqp10.addresses import MANAGEMENT_ADDRESS
from amqp10.errors import ErrorCondition, LinkFault
from amqp10.events import CreditReceived, DeliveriesReceived, DeliveriesSent
from amqp10.frontend.settings import FrontEndSettings
from amqp10.frontend.stream_filters import check_unfiltered
from amqp10.frontend.termini import check_distribution_mode
from amqp10.link_credit import ReceiverCredit
from amqp10.management import ManagementNode, RequestError
from amqp10.messaging import ACCEPTED, RELEASED, Source, Target
from amqp10.performatives import Attach
from amqp10.receiver_link import ReceiverLink
from amqp10.sender_link import SETTLED, SenderLink
from amqp10.session import Session
from core.slices import Walk
from core.work import Work

STEP_WORK = 50
"""Of a step of a walk, in units of :mod:`core.work`: a row of a queue takes 25 us to make and 30 to encode, a link that
is asked why it waits takes 200."""
REQUEST_WORK = 100
"""Of a request beside its steps: to decode it, and to encode its answer."""


class Asked(NamedTuple):
    """A request that waits for its turn or is being answered."""

    link: ReceiverLink
    number: int
    """Of its delivery."""
    message: bytes
    fault: LinkFault | None
    """Why it must not be answered. It waits all the same: what came before it is answered."""


class Pair:
    """The two links of one name, as far as they are attached."""

    __slots__ = ("_flow_wanted", "_walk", "answers", "asked", "receiver", "sender", "unsent")

    def __init__(self) -> None:
        self.receiver: ReceiverLink | None = None
        self.sender: SenderLink | None = None
        self.answers = 0
        """Answers so far: the delivery number of the next."""
        self.unsent: dict[int, ReceiverLink] = {}
        """Answers that have not gone to the socket, and the link that each one's request came on."""
        self.asked: deque[Asked] = deque()
        """The first is being answered."""
        self._walk: Walk[bytes] | None = None
        """What is left of its answer; None before the first step."""
        self._flow_wanted = False
        """The client drains the link for answers, or wants to know its state: it is told behind the answers."""

    def ask(self, link: ReceiverLink, number: int, message: bytes) -> None:
        """A request has come."""
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

    def answer_some(self, node: ManagementNode, owner: object) -> int:
        """One step towards the answer to the first request. Returns its work, in units of :mod:`core.work`.

        Raises LinkFault for a request that cannot be answered.
        """
        asked = self.asked[0]
        if asked.fault is not None:
            raise asked.fault
        work = STEP_WORK
        if self._walk is None:
            self._walk = node.respond(asked.message, owner)
            work += REQUEST_WORK
        try:
            next(self._walk)
        except StopIteration as end:
            self._walk = None
            self.asked.popleft()
            self._send(asked, end.value)
        except RequestError as error:
            raise LinkFault(error.condition, str(error)) from error
        return work

    def _send(self, asked: Asked, answer: bytes) -> None:
        sender = self.sender
        assert sender is not None  # else the request would be forgotten
        if sender.credit.link_credit > sender.waiting:
            sender.send_run(self.answers, [answer], b"")
            self.unsent[self.answers] = asked.link
            self.answers += 1
        else:  # the client has lowered the link credit since it asked: it wants no answer
            asked.link.confirmed(1)
        asked.link.settle(asked.number, asked.number, ACCEPTED)
        if not self.asked:
            self._tell_flow()

    def forget_requests(self) -> None:
        """None of the requests is answered any more. A link for requests that stays gets its link credit back."""
        self._walk = None
        asked, self.asked = self.asked, deque()
        for one in asked:
            if one.link.end.attached:
                one.link.settle(one.number, one.number, RELEASED)
                one.link.confirmed(1)
        self._tell_flow()

    def flow_wanted(self) -> None:
        """Tell the state of the link for answers, behind the answer to what has been asked."""
        self._flow_wanted = True
        if not self.asked:
            self._tell_flow()

    def _tell_flow(self) -> None:
        if self._flow_wanted and self.sender is not None:
            self.sender.answer_flow(available=0, drained=self.sender.credit.drain)
        self._flow_wanted = False

    def answers_gone(self, first: int, last: int) -> None:
        """These answers were sent, or never will be."""
        for number in [number for number in self.unsent if first <= number <= last]:
            self.unsent.pop(number).confirmed(1)


class ManagementRequests:
    """The pairs of one connection that have asked for something: each gets one step, then the next has its turn."""

    def __init__(self, node: ManagementNode, owner: object, settings: FrontEndSettings, work: Work) -> None:
        """``owner`` is whose exclusive queues may be used."""
        self._node = node
        self._owner = owner
        self._settings = settings
        self._work = work
        self._waiting: OrderedDict[Pair, None] = OrderedDict()

    def links_of(self, session: Session) -> "ManagementLinks":
        """The pairs of a session of this connection."""
        if not isinstance(session.reference, ManagementLinks):
            session.reference = ManagementLinks(self, self._settings)
        return session.reference

    def join(self, pair: Pair) -> None:
        """The pair has requests."""
        self._waiting[pair] = None

    def go_on(self, until: int, fail: Callable[[ReceiverLink, LinkFault], None]) -> bool:
        """Answer until so much work is done, as it is counted in ``work``. Returns True when there is more.

        ``fail`` ends a link of which a request cannot be answered.
        """
        work = self._work
        while self._waiting and work.spent < until:
            pair, _ = self._waiting.popitem(last=False)
            if not pair.asked:
                continue
            link = pair.asked[0].link
            try:
                work.spent += pair.answer_some(self._node, self._owner)
            except LinkFault as fault:
                pair.forget_requests()
                fail(link, fault)
            if pair.asked:
                self._waiting[pair] = None
        return bool(self._waiting)


class ManagementLinks:
    """The management pairs of one session, by link name."""

    def __init__(self, requests: ManagementRequests, settings: FrontEndSettings) -> None:
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
                top_up_at=self._settings.management_top_up,
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
        """Take requests, to be answered in their turn."""
        link = event.link
        pair = self._pairs[link.end.name]
        for index, entry in enumerate(event.entries):
            pair.ask(link, event.first + index, event.header + entry if event.checked else entry)
        self._requests.join(pair)

    def sent(self, event: DeliveriesSent) -> None:
        """Answers have gone to the socket."""
        pair = self._pairs.get(event.link.end.name)
        if pair is not None:
            pair.answers_gone(event.first, event.last)

    def credit_received(self, event: CreditReceived) -> None:
        """The client gave link credit for answers, or asks for what is left of it."""
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
        return self._pairs.setdefault(attach.name, Pair())
