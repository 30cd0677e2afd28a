"""A transaction: a channel in transaction mode holds back publishes and acknowledgements, and does them at tx.commit.

A commit does the publishes first. Both a commit and the memory release of a rollback may be long; each continues in
steps, while the channel's next method waits. A rollback has its effect at once; only freeing its memory takes steps.

Bounds: ``transaction_bytes_max`` of messages and ``transaction_acks_max`` ranges of acknowledgements. The steps of a
rollback are bounded by the same, since the channel waits for them.
"""

from collections import deque
from collections.abc import Callable

from core.amqp091.errors import ChannelFault, ReplyCode
from core.clock import Now
from core.config.amqp091 import Amqp091Settings

Step = Callable[[Now], object]

DROPPED_AT_ONCE = 64
"""Steps whose memory is freed at once. A step has about ten objects, which takes 1 to 2 us."""


class Transaction:
    """The transaction of one channel."""

    __slots__ = (
        "_acknowledgements",
        "_acks_held",
        "_acks_max",
        "_bytes_held",
        "_bytes_max",
        "_publishes",
        "dropped",
        "due",
        "selected",
    )

    def __init__(self, settings: Amqp091Settings) -> None:
        self._bytes_max, self._acks_max = settings.transaction_bytes_max, settings.transaction_acks_max
        self.selected = False
        """Whether the channel is in transaction mode."""
        self._publishes: deque[Step] = deque()
        self._bytes_held = 0
        self._acknowledgements: deque[Step] = deque()
        self._acks_held = 0
        self.due: deque[Step] = deque()
        """The steps of a commit that are left to do."""
        self.dropped: deque[deque[Step]] = deque()
        """The steps of a rollback, whose memory is not freed yet."""

    def hold_publishes(self, size: int, step: Step) -> None:
        """Hold back a run of publishes of ``size`` bytes. Raises ChannelFault above the limit."""
        self._bytes_held += size
        if self._bytes_held > self._bytes_max:
            raise _too_much(f"{self._bytes_max} bytes of messages")
        self._publishes.append(step)

    def hold_acknowledgements(self, ranges: int, step: Step) -> None:
        """Hold back acknowledgements of so many ranges of delivery tags. Raises ChannelFault above the limit."""
        self._acks_held += ranges
        if self._acks_held > self._acks_max:
            raise _too_much(f"{self._acks_max} acknowledgements")
        self._acknowledgements.append(step)

    def commit(self) -> None:
        """tx.commit: the held steps are due from now on. Raises ChannelFault outside of transaction mode."""
        self._check_selected()
        assert not self.due, "the channel waits until a commit is done"
        self.due, self._publishes = self._publishes, deque()
        self.due += self._acknowledgements
        self._acknowledgements.clear()
        self._bytes_held = self._acks_held = 0

    def rollback(self) -> None:
        """tx.rollback: the held steps will not be done. Raises ChannelFault outside of transaction mode."""
        self._check_selected()
        self.drop()

    def drop(self) -> None:
        """Drop the held steps, of which there may be many."""
        self.dropped += (held for held in (self._publishes, self._acknowledgements) if held)
        self._publishes, self._acknowledgements = deque(), deque()
        self._bytes_held = self._acks_held = 0

    def abandon(self) -> None:
        """Drop the steps behind a step of a commit that has failed."""
        if self.due:
            self.dropped.append(self.due)
            self.due = deque()

    def drop_some(self) -> None:
        """Free some of the dropped steps."""
        steps = self.dropped[0]
        for _ in range(min(len(steps), DROPPED_AT_ONCE)):
            steps.popleft()
        if not steps:
            self.dropped.popleft()

    def _check_selected(self) -> None:
        if not self.selected:
            raise ChannelFault(ReplyCode.PRECONDITION_FAILED, "channel is not transactional")


def _too_much(what: str) -> ChannelFault:
    return ChannelFault(ReplyCode.PRECONDITION_FAILED, f"the transaction has more than {what}; commit it earlier")
