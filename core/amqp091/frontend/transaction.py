"""What a channel in transaction mode holds back until tx.commit, and does then: publishes first, then acknowledgements.

What a commit does, and what a rollback throws away, may be much: both go on a step at a time, and the channel's next
method waits. A rollback has its effect at once; what goes on is only that memory becomes free.

Bounds: ``transaction_bytes_max`` of messages and ``transaction_acks_max`` ranges of acknowledgements. What is thrown
away is no more than that, since the channel waits for it.
"""

from collections import deque
from collections.abc import Callable

from core.amqp091.errors import ChannelFault, ReplyCode
from core.amqp091.frontend.settings import FrontEndSettings
from core.clock import Now

Step = Callable[[Now], object]

DROPPED_AT_ONCE = 64
"""Steps whose memory becomes free at once: a step is about ten objects, which takes 1 to 2 us."""


class Transaction:
    """Of one channel."""

    __slots__ = (
        "_acknowledgements",
        "_acks_held",
        "_bytes_held",
        "_publishes",
        "_settings",
        "dropped",
        "due",
        "selected",
    )

    def __init__(self, settings: FrontEndSettings) -> None:
        self._settings = settings
        self.selected = False
        """The channel is in transaction mode."""
        self._publishes: deque[Step] = deque()
        self._bytes_held = 0
        self._acknowledgements: deque[Step] = deque()
        self._acks_held = 0
        self.due: deque[Step] = deque()
        """What is left to do of a commit."""
        self.dropped: deque[deque[Step]] = deque()
        """What will not be done, and is still there."""

    def hold_publishes(self, size: int, step: Step) -> None:
        """Hold back a run of publishes, of so many bytes. Raises ChannelFault where that is too much."""
        limit = self._settings.transaction_bytes_max
        self._bytes_held += size
        if self._bytes_held > limit:
            raise _too_much(f"{limit} bytes of messages")
        self._publishes.append(step)

    def hold_acknowledgements(self, ranges: int, step: Step) -> None:
        """Hold back acknowledgements of so many ranges of delivery tags. Raises ChannelFault where that is too much."""
        limit = self._settings.transaction_acks_max
        self._acks_held += ranges
        if self._acks_held > limit:
            raise _too_much(f"{limit} acknowledgements")
        self._acknowledgements.append(step)

    def commit(self) -> None:
        """tx.commit: what is held is due from now on. Raises ChannelFault outside of transaction mode."""
        self._check_selected()
        assert not self.due, "the channel waits until a commit is done"
        self.due, self._publishes = self._publishes, deque()
        self.due += self._acknowledgements
        self._acknowledgements.clear()
        self._bytes_held = self._acks_held = 0

    def rollback(self) -> None:
        """tx.rollback: what is held will not be done. Raises ChannelFault outside of transaction mode."""
        self._check_selected()
        self.drop()

    def drop(self) -> None:
        """What is held will not be done, and may be much."""
        self.dropped += (held for held in (self._publishes, self._acknowledgements) if held)
        self._publishes, self._acknowledgements = deque(), deque()
        self._bytes_held = self._acks_held = 0

    def abandon(self) -> None:
        """A step of a commit has failed: those behind it will not be done."""
        if self.due:
            self.dropped.append(self.due)
            self.due = deque()

    def drop_some(self) -> None:
        """Let go of some of what was thrown away."""
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
