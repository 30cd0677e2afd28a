"""The link pair of the management node: requests come on one link, answers go on the other [HTTP over AMQP].

Both links have the same name, both say ``paired``, and either may attach first. Requests are answered one at a time, in
order, and an answer needs link credit that the client has given before. A client that breaks these rules loses the
pair's link, not its session.

A request counts against the link credit for requests until its answer has gone to the socket. So a client that asks and
does not listen is soon not listened to either, and what waits for it is bounded.
"""

from amqp10.addresses import MANAGEMENT_ADDRESS
from amqp10.errors import ErrorCondition, LinkFault
from amqp10.events import CreditReceived, DeliveriesReceived, DeliveriesSent
from amqp10.frontend.settings import FrontEndSettings
from amqp10.frontend.stream_filters import check_unfiltered
from amqp10.frontend.termini import check_distribution_mode
from amqp10.link_credit import ReceiverCredit
from amqp10.management import ManagementNode, RequestError
from amqp10.messaging import ACCEPTED, Source, Target
from amqp10.performatives import Attach
from amqp10.receiver_link import ReceiverLink
from amqp10.sender_link import SETTLED, SenderLink
from amqp10.session import Session


class Pair:
    """The two links of one name, as far as they are attached."""

    __slots__ = ("answers", "receiver", "sender", "unsent")

    def __init__(self) -> None:
        self.receiver: ReceiverLink | None = None
        self.sender: SenderLink | None = None
        self.answers = 0
        """Answers so far: the delivery number of the next."""
        self.unsent: dict[int, ReceiverLink] = {}
        """Answers that have not gone to the socket, and the link that each one's request came on."""

    def answers_gone(self, first: int, last: int) -> None:
        """These answers were sent, or never will be."""
        for number in [number for number in self.unsent if first <= number <= last]:
            self.unsent.pop(number).confirmed(1)


class ManagementLinks:
    """The management pairs of one session, by link name."""

    def __init__(self, session: Session, node: ManagementNode, *, owner: object, settings: FrontEndSettings) -> None:
        self._session = session
        self._node = node
        self._owner = owner
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
        """Answer requests. Raises LinkFault for one that cannot be answered."""
        link = event.link
        pair = self._pairs[link.end.name]
        for index, entry in enumerate(event.entries):
            number = event.first + index
            self._answer(pair, link, event.header + entry if event.checked else entry)
            link.settle(number, number, ACCEPTED)

    def sent(self, event: DeliveriesSent) -> None:
        """Answers have gone to the socket."""
        pair = self._pairs.get(event.link.end.name)
        if pair is not None:
            pair.answers_gone(event.first, event.last)

    def credit_received(self, event: CreditReceived) -> None:
        """The client gave link credit for answers, or asks for what is left of it."""
        link = event.link
        for first, last in link.take_back():
            self._pairs[link.end.name].answers_gone(first, last)
        if link.credit.drain or event.flow.echo:
            link.answer_flow(available=0, drained=link.credit.drain)

    def released(self, link: ReceiverLink | SenderLink) -> None:
        """One half is detached; the other may stay."""
        pair = self._pairs.get(link.end.name)
        if pair is None:
            return
        if pair.receiver is link:
            pair.receiver = None
        if pair.sender is link:
            pair.sender = None
            pair.answers_gone(0, pair.answers)
        if pair.receiver is None and pair.sender is None:
            del self._pairs[link.end.name]

    def _pair(self, attach: Attach) -> Pair:
        if not (attach.properties or {}).get("paired"):
            raise LinkFault(
                ErrorCondition.INVALID_FIELD, "a link to /management needs the property paired = true, and a partner"
            )
        return self._pairs.setdefault(attach.name, Pair())

    def _answer(self, pair: Pair, link: ReceiverLink, request: bytes) -> None:
        sender = pair.sender
        if sender is None or not sender.end.attached:
            raise LinkFault(ErrorCondition.PRECONDITION_FAILED, "the half of the pair for answers is not attached")
        if sender.credit.link_credit <= sender.waiting:
            raise LinkFault(
                ErrorCondition.PRECONDITION_FAILED,
                f"insufficient credit ({sender.credit.link_credit}) for the answer; grant link credit before a request",
            )
        try:
            answer = self._node.respond(request, self._owner)
        except RequestError as error:
            raise LinkFault(error.condition, str(error)) from error
        sender.send_run(pair.answers, [answer], b"")
        pair.unsent[pair.answers] = link
        pair.answers += 1
