"""What a quorum queue does when its node leads the queue's group no more, and when it leads it again.

While another node leads, the queue is *held*: it takes on and delivers nothing, and its publishers are told so. What
consumers held is taken back from them: the next leader delivers it again, flagged. Consumers and publishers stay.
"""

from collections.abc import Callable, Iterable, Sequence

from core.engine.confirms import Confirms
from core.engine.queue.admissions import Admissions
from core.engine.queue.attachments import Attachments
from core.engine.queue.dead_letter import DeadLetters
from core.engine.queue.endings import Endings
from core.engine.queue.length_limit import BlockedPublishers
from core.engine.queue.moving import Move
from core.engine.quorum.leadership import Leadership
from core.engine.ready.backing import Backing, MemoryBacking
from core.engine.ready.remains import Remains
from core.engine.ready.sub_queue import SubQueue
from core.interface import Publisher, TakenBack


class Led:
    """The term in which a queue is led here, and the parts of the queue that change with it."""

    __slots__ = (
        "_admissions", "_attachments", "_backings", "_blocked", "_endings", "_first_sequence", "_letters",
        "_sub_queues", "leadership", "term",
    )  # fmt: skip

    def __init__(
        self,
        leadership: Leadership,
        backings: Callable[[int], Backing],
        first_sequence: Callable[[], int],
        sub_queues: Sequence[SubQueue],
        blocked: BlockedPublishers,
    ) -> None:
        """``leadership``: that of the queue's group. ``backings`` and ``first_sequence`` are asked again in each
        term."""
        self.leadership = leadership
        self.term = leadership.term
        """The term that the queue has followed; 0 while it is held. It is another one than that of the group while the
        queue has not had its turn."""
        self._backings = backings
        self._first_sequence = first_sequence
        self._sub_queues = sub_queues
        self._blocked = blocked

    def knows(self, attachments: Attachments, admissions: Admissions, endings: Endings, letters: DeadLetters) -> None:
        """Call this once, with the other parts of the queue."""
        self._attachments = attachments
        self._admissions = admissions
        self._endings = endings
        self._letters = letters

    @property
    def over(self) -> bool:
        """Whether the queue knows that it is led elsewhere, and has answered all messages that it has taken on. The log
        says soon which of them are committed: they must not be answered otherwise."""
        return not self.term and not self._admissions.waiting

    def follow(self, confirms: Confirms, publishers: Iterable[Publisher], move: Move | None) -> int:
        """The node has begun to lead the queue's group, or has ceased to. Returns the next sequence number."""
        if self.term:
            self._hold()
            self._admissions.give_up(confirms)
            if move is not None:
                move.end("the leader of the queue has changed")
        self.term = self.leadership.term
        if not self.term:
            self.tell(publishers)
            return 0
        for sub_queue in self._sub_queues:
            sub_queue.backing = self._backings(sub_queue.level)
        self._blocked.tell(publishers, full=False)
        self._endings.go_on_dead_lettering()
        return self._first_sequence()

    def tell(self, publishers: Iterable[Publisher]) -> None:
        """Tell the publishers that do not know it yet that the queue is held, and why."""
        self._blocked.tell(publishers, full=True, reason=self.leadership.held_for)

    def _hold(self) -> None:
        """Forget every message. Consumers are told that what they held is taken back."""
        for attachment in list(self._attachments):
            for first, last in attachment.unsettled.numbers(attachment.consumer.next_number):
                attachment.consumer.mailbox.put(TakenBack(attachment.consumer, first, last, moved=True))
            if attachment.unsettled.remove_all():
                self._attachments.vacated(attachment)
        self._endings.clear(Remains().let_go)
        self._letters.abandon()
        for sub_queue in self._sub_queues:
            sub_queue.returned.take_all()
            sub_queue.backing = MemoryBacking()  # it stays empty
