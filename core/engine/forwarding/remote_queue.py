"""A queue that another node leads: nothing is kept here but what is on its way.

    inbox (a stage) → an outlet, while the home node gives link credit → the home node
    the home node → an inlet → the consumer

A publisher with this queue as its fixed target has an outlet, that is a link, of its own, and its link credit is that
of the home node. All other publishers share one outlet, since their messages come through exchanges or by name. Each
consumer has an inlet of its own, and its grant is the link credit there. So this node holds nothing that it could not
hand on.

Messages are answered when the home node has answered them. When the connection to it is lost, messages without an
answer are released, and what is attached here is told why.
"""

from collections.abc import Callable, Mapping
from math import inf

from core.clock import Now
from core.credit_flow.flow import CreditFlow
from core.credit_flow.stage import Stage
from core.declaring import Recording
from core.engine.confirms import Confirms, Submission
from core.engine.forwarding.inlet import Inlet
from core.engine.forwarding.nodes import FarChange, HomeNode
from core.engine.forwarding.outlet import Outlet
from core.engine.options.in_force import QueueOptions, QueueType
from core.engine.queue.attachments import Attachments
from core.engine.queue.consumers import Attachment, Consumers
from core.engine.queue.kinds import AnyQueue, Peeked
from core.engine.queue.queue_counters import QueueCounters
from core.engine.ready.remains import LetGo
from core.errors import EngineError, HomeLost, Invalid, NotFound
from core.interface import Cancelled, Disposal, Publisher, PublisherBlocked, Target
from core.message import Return
from core.slices import Walk

DISPATCH_COST = 2
"""The cost of a turn, in units of :mod:`core.work`, beside that of its messages."""


class RemoteQueue:
    """A queue of another node, as a :class:`core.engine.queue.kinds.AnyQueue`."""

    __slots__ = (
        "_asking", "_due", "_home", "_inlets", "_known", "_leaving", "_outlets", "_passing", "_shared", "_told",
        "_touch", "_virtual_host", "attachments", "consumers", "counters", "deadline", "expired", "inbox", "name",
        "options", "publishers", "stage_credit",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        options: QueueOptions,
        home: HomeNode,
        *,
        virtual_host: str,
        touch: Callable[[AnyQueue], None],
        messages_per_turn: int | None,
        stage_credit: CreditFlow,
        passing: bool = False,
    ) -> None:
        """``touch`` asks for a turn of a queue. ``passing``: this node forgets the queue when it has no link to it."""
        self._passing = passing
        self.name = name
        self.options = options
        self.inbox: Stage[Submission] = Stage(messages_per_turn)
        self.consumers = Consumers(single_active=False)
        self.attachments = Attachments(self.consumers)
        self.publishers: dict[Publisher, None] = {}
        self.stage_credit = stage_credit
        self.counters = QueueCounters()
        self.deadline = inf
        self.expired = False
        self._home = home
        self._virtual_host = virtual_host
        self._touch = touch
        self._inlets: dict[Attachment, Inlet] = {}
        self._asking: dict[Inlet, None] = {}
        self._outlets: dict[Publisher, Outlet] = {}
        """Of publishers with a link of their own."""
        self._leaving: dict[Publisher, None] = {}
        """Publishers among these that have left, and whose messages are not all answered."""
        self._due: dict[Outlet, None] = {}
        """Links with news."""
        self._known: dict[Publisher, None] = {}
        """The publishers of the last turn."""
        self._shared: Outlet | None = None
        """Of all others; None until they publish."""
        self._told: dict[Publisher, str] = {}
        """The reasons that publishers know."""

    @property
    def home(self) -> str:
        """The name of the node that leads the queue."""
        return self._home.name

    @property
    def ready(self) -> int:
        """How many messages are ready, as the home node said last."""
        return max((inlet.available for inlet in self._inlets.values()), default=0)

    @property
    def unacknowledged(self) -> int:
        """How many messages consumers of this node hold."""
        return self.attachments.unacknowledged

    def counts(self) -> Mapping[str, object]:
        """See :class:`core.engine.queue.kinds.AnyQueue`."""
        outlets = [*self._outlets.values(), *([] if self._shared is None else [self._shared])]
        return {
            "home": self._home.name,
            "published": self.counters.published,
            "delivered": self.counters.delivered,
            "accepted": self.counters.accepted,
            "messages_without_answer": sum(outlet.sent_runs.count for outlet in outlets),
            "messages_without_link_credit": sum(outlet.waiting for outlet in outlets),
        }

    # --- what the pump does ---------------------------------------------------------------------------------

    def admit(self, confirms: Confirms, now: Now) -> bool:
        """Send what there is link credit for, and answer what the home node has answered."""
        if self.publishers.keys() != self._known.keys():
            self._see_to_publishers()
        inbox = self.inbox
        if inbox.waiting:
            for submission, start, stop in inbox.take_turn():
                outlet = self._outlets.get(submission.publisher) or self._shared_outlet()
                outlet.put(submission, start, stop)
                self._due[outlet] = None
                self.counters.published += stop - start
        due, self._due = self._due, {}
        for outlet in due:
            outlet.go_on(confirms, self.stage_credit)
            if outlet.ended is not None:
                self._see_to_lost(outlet, outlet.ended, confirms)
            self._tell_reason(outlet)
        for publisher in [one for one in self._leaving if not self._outlets[one].busy]:
            del self._leaving[publisher]
            self._close(self._outlets.pop(publisher))
        if self._passing and not (inbox.waiting or self.publishers or self._outlets or self._shared):
            self.expired = True
        return inbox.waiting > 0 and not inbox.stalled

    def dispatch(self, now: Now) -> int:
        """Pass grants on. Deliveries and answers come later, outside of the queue's turns."""
        asking, self._asking = self._asking, {}
        for inlet in asking:
            inlet.pass_on(now.monotonic)
        return DISPATCH_COST + len(asking)

    # --- publishers -----------------------------------------------------------------------------------------

    def _see_to_publishers(self) -> None:
        """Attach a link for each new publisher; that of one that has left goes when its messages are answered."""
        for publisher in [one for one in self.publishers if one not in self._known]:
            if not publisher.told_only:
                self._outlets[publisher] = self._open(publisher)
            elif self._shared is not None:
                self._due[self._shared] = None  # tells it why the link waits
        for publisher in [one for one in self._known if one not in self.publishers]:
            self._told.pop(publisher, None)
            if publisher in self._outlets:
                self._outlets[publisher].publisher = None
                self._leaving[publisher] = None
        self._known = self.publishers.copy()

    def _open(self, publisher: Publisher | None) -> Outlet:
        outlet = Outlet(self, publisher, self._news)
        if (down := self._home.down(self._virtual_host)) is not None:
            outlet.link_ended(self.unreachable(down))
        else:
            outlet.link = self._home.new_sender(self._virtual_host, self.name, outlet)
        return outlet

    def _news(self, outlet: Outlet) -> None:
        """The home node has told something about a link."""
        self._due[outlet] = None
        self._touch(self)

    def _shared_outlet(self) -> Outlet:
        if self._shared is None:
            self._shared = self._open(None)
        return self._shared

    @staticmethod
    def _close(outlet: Outlet) -> None:
        link, outlet.link = outlet.link, None
        if link is not None:
            link.close()

    def _see_to_lost(self, outlet: Outlet, error: EngineError, confirms: Confirms) -> None:
        """The link is over: answer its messages, and tell its publisher."""
        outlet.give_up(confirms, self.stage_credit, error)
        if outlet is self._shared:
            self._shared = None
        elif outlet.publisher is not None:
            confirms.close(outlet.publisher, error)

    def _tell_reason(self, outlet: Outlet) -> None:
        """Tell why the home node makes the link wait."""
        reason = None if outlet.ended is not None else outlet.reason
        if outlet.publisher is not None:
            told = [outlet.publisher]
        elif outlet is self._shared:
            told = [one for one in self.publishers if one.told_only]
        else:
            return
        for publisher in told:
            if reason == self._told.get(publisher):
                continue
            if reason is None:
                del self._told[publisher]
            else:
                self._told[publisher] = reason
            publisher.mailbox.put(PublisherBlocked(publisher, reason))

    # --- consumers ------------------------------------------------------------------------------------------

    def attach(self, attachment: Attachment) -> None:
        """Attach a link for a consumer. Raises NotFound or HomeLost when the home node cannot be reached."""
        if (down := self._home.down(self._virtual_host)) is not None:
            raise self.unreachable(down)
        if attachment.consumer.options.holder or attachment.consumer.options.copies is not None:
            raise self.elsewhere()
        of_stream = self.options.type is QueueType.STREAM
        inlet = self._inlets[attachment] = Inlet(attachment, self.counters, self._lost, in_order=of_stream)
        self.attachments.attach(attachment)
        inlet.link = self._home.new_receiver(self._virtual_host, self.name, attachment.consumer.options, inlet)

    def unreachable(self, why: str) -> NotFound | HomeLost:
        """The error for what is attached while the home node cannot be reached. A queue with copies will be there in a
        moment, at another node."""
        kind = NotFound if self.options.type is QueueType.CLASSIC else HomeLost
        return kind(f"queue '{self.name}': its home node {self._home.name} is down: {why}")

    def grant(self, attachment: Attachment, n: int, drain: bool) -> None:
        """Set the grant; the home node answers, if the client has asked."""
        attachment.grant, attachment.drain = n, drain or attachment.consumer.options.getter
        attachment.replies_due += 1
        self._asking[self._inlets[attachment]] = None

    def settle(self, attachment: Attachment, first: int, last: int, disposal: Disposal | Return) -> bool:
        """Pass the settlement on. Returns False: it needs no turn of the queue."""
        inlet = self._inlets.get(attachment)
        if inlet is not None:
            before = attachment.unsettled.count
            inlet.settle(first, last, disposal)
            self.counters.accepted += (before - attachment.unsettled.count) * (disposal is Disposal.ACCEPTED)
            if attachment.detached and not attachment.unsettled.count:
                self.attachments.vacated(attachment)
                self._forget(attachment)
        return False

    def cancel(self, attachment: Attachment, *, requeue: bool = True) -> None:
        """Detach the link of the consumer; without ``requeue`` when it has settled everything."""
        inlet = self._inlets.get(attachment)
        if inlet is None:
            return
        self._asking.pop(inlet, None)
        if requeue or not attachment.unsettled.count:
            self._forget(attachment)
        else:
            inlet.stop()
        self.attachments.leave(attachment)

    def _forget(self, attachment: Attachment) -> None:
        self._inlets.pop(attachment).close()

    def _lost(self, inlet: Inlet, error: EngineError) -> None:
        """The link of a consumer is over. What it holds belongs to the home node again."""
        attachment = inlet.attachment
        self._asking.pop(inlet, None)
        del self._inlets[attachment]
        attachment.unsettled.remove_all()
        was_leaving = attachment.detached
        self.attachments.leave(attachment)
        if not was_leaving:
            attachment.consumer.mailbox.put(Cancelled(attachment.consumer, error))

    # --- what the control plane does ------------------------------------------------------------------------

    def apply(self, options: QueueOptions, now: Now) -> None:
        """Policies act on the home node."""
        self.options = options

    def used(self) -> None:
        """The home node knows whether the queue is used."""

    def conclude(self) -> None:
        """Nothing is kept here."""

    def peek(self, n: int) -> list[Peeked]:
        """Raises Invalid: the messages are on the home node."""
        raise self.elsewhere()

    def move(self, target: Target | None, n: int | None) -> int:
        """Raises Invalid: the messages are on the home node."""
        raise self.elsewhere()

    def purge(self, let_go: LetGo) -> Walk[int]:
        """Have the home node purge it. The walk waits for the answer, and raises PreconditionFailed for a refusal."""
        return self.change(FarChange.PURGE).walk()

    def change(self, what: FarChange) -> Recording[int]:
        """Have the home node change it. Returns what gets the answer, or why it was not done."""
        recording: Recording[int] = Recording()
        self._home.change(self._virtual_host, self.name, what, recording)
        return recording

    def dissolve(self, confirms: Confirms, error: EngineError, let_go: LetGo, *, moved: bool = False) -> None:
        """See :class:`core.engine.queue.kinds.AnyQueue`."""
        for outlet in (*self._outlets.values(), *([] if self._shared is None else [self._shared])):
            outlet.give_up(confirms, self.stage_credit, error)
            self._close(outlet)
        for submission, start, _ in self.inbox.take_all():  # the outlets have the messages before these
            confirms.gone(submission, self, start, moved=error if moved else None)
        for publisher in self.publishers:
            confirms.close(publisher, error)
        self._outlets.clear()
        self._leaving.clear()
        self._due.clear()
        self._shared = None
        for inlet in self._inlets.values():
            inlet.close()
        self._inlets.clear()
        self._asking.clear()
        self.attachments.dissolve(error, let_go)

    def elsewhere(self) -> Invalid:
        """The error for what only the home node can do."""
        return Invalid(f"queue '{self.name}' lives on node {self._home.name}: ask there")
