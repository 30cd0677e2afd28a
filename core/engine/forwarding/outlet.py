"""The messages that are published to a remote queue through one link: of one publisher, or of all that share a link."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from core.credit_flow.flow import CreditFlow
from core.engine.confirms import Confirms, Submission
from core.engine.forwarding.links import FarSender
from core.engine.forwarding.sent_runs import SentRuns
from core.errors import EngineError
from core.interface import Outcome, Publisher, PublisherCredit
from core.message import RunPart


class _Settled(NamedTuple):
    first: int
    last: int
    outcome: Outcome
    error: EngineError | None


class Outlet:
    """One link to publish. The connection calls the methods that end in the past tense; the rest is for the queue."""

    __slots__ = (
        "_backlog", "_head_start", "_settled", "_told_limit", "_touch", "ended", "link", "publisher", "reason", "sent",
        "sent_runs", "waiting",
    )  # fmt: skip

    def __init__(self, queue: object, publisher: Publisher | None, touch: Callable[["Outlet"], None]) -> None:
        """``publisher`` is None for the link that others share. ``touch`` asks for a turn of the queue, in which
        :meth:`go_on` is called."""
        self.publisher = publisher
        self.link: FarSender | None = None
        self.sent = 0
        """How many messages were given to the link, in all."""
        self.sent_runs = SentRuns(queue)
        self.waiting = 0
        """How many messages wait for link credit."""
        self.reason: str | None = None
        """Why the home node makes the link wait, in its words; None when it does not, or gives no reason."""
        self.ended: EngineError | None = None
        """Why the link is over; None while it is not."""
        self._backlog: deque[tuple[Submission, int, int]] = deque()
        self._head_start = 0
        self._settled: list[_Settled] = []
        self._told_limit = 0
        self._touch = touch

    @property
    def busy(self) -> bool:
        """Whether some messages are not answered."""
        return self.waiting > 0 or self.sent_runs.count > 0

    # --- what the connection tells -----------------------------------------------------------------------------

    def credit_received(self, reason: str | None) -> None:
        """The home node has set the link credit. ``reason``: why it makes the link wait."""
        self.reason = reason
        self._touch(self)

    def answered(self, first: int, last: int, outcome: Outcome, error: EngineError | None) -> None:
        """The home node has answered messages, first and last inclusive. A rejection has an ``error``."""
        latest = self._settled[-1] if self._settled else None
        if latest is not None and latest.last + 1 == first and latest.outcome is outcome and error is None:
            self._settled[-1] = latest._replace(last=last)
            return
        self._settled.append(_Settled(first, last, outcome, error))
        self._touch(self)

    def link_ended(self, error: EngineError) -> None:
        """The link is over, by the home node or because it was lost."""
        self.ended = error
        self.link = None
        self._touch(self)

    # --- what the queue does in its turn -----------------------------------------------------------------------

    def put(self, submission: Submission, start: int, stop: int) -> None:
        """Take messages that are to be sent."""
        self._backlog.append((submission, start, stop))
        self.waiting += stop - start

    def go_on(self, confirms: Confirms, stage_credit: CreditFlow) -> None:
        """Answer what was answered, send what there is link credit for, and tell the publisher of its link credit."""
        settled, self._settled = self._settled, []
        for first, last, outcome, error in settled:
            self.sent_runs.answer(confirms, first, last, outcome, error)
        if (link := self.link) is None:
            return
        room = link.room
        while self._backlog and room > 0:
            submission, start, end = self._backlog[0]
            stop = min(end, start + room)
            if stop == end:
                self._backlog.popleft()
            else:
                self._backlog[0] = (submission, stop, end)
            count = stop - start
            link.send(self.sent, RunPart(submission.run, start, stop))
            self.sent_runs.add(self.sent, submission, start, stop)
            self.sent += count
            self.waiting -= count
            room -= count
            if submission.publisher.stage_credit is not None:
                stage_credit.ack(submission.publisher.stage_credit, count)
        if self.publisher is not None:
            self._tell(self.publisher, room)

    def give_up(self, confirms: Confirms, stage_credit: CreditFlow, error: EngineError) -> None:
        """Answer all messages: what was answered as it was, what was sent as uncertain, and the rest as withdrawn."""
        settled, self._settled = self._settled, []
        for first, last, outcome, refusal in settled:
            self.sent_runs.answer(confirms, first, last, outcome, refusal)
        self.sent_runs.give_up(confirms, error)
        backlog, self._backlog, self.waiting = self._backlog, deque(), 0
        for submission, start, stop in backlog:
            confirms.withdrawn(submission, self.sent_runs.place, start, stop, error)
            if submission.publisher.stage_credit is not None:
                stage_credit.ack(submission.publisher.stage_credit, stop - start)

    def _tell(self, publisher: Publisher, room: int) -> None:
        limit = self.sent + room
        if limit != self._told_limit:
            self._told_limit = limit
            publisher.mailbox.put(PublisherCredit(publisher, limit))
