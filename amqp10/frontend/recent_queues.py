"""The queues to which a link of the anonymous terminus published last, and which of them are full.

Each message of such a link names its target, so the link has none of its own whose queue could tell it to wait. With
adaptive flow control the engine therefore has a publisher for each of the queues that the link used last. Nothing is
published by it; it is told when its queue is full, and when it takes messages again. While one of the queues is full,
the link gets no link credit: its next message may be for that queue. What it may send still is taken on.

A link may use any number of queues, so the last ones count only, and of these only queues to which one of the last
messages went: else a queue that the link has not used for long could hold it up.
"""

from core.errors import EngineError
from core.interface import Engine, FlowReason, Publisher, PublisherBlocked, QueueTarget

QUEUES_MAX = 8
"""The queues that count. Each costs the engine a publisher; with more of them in turn, each message costs 3 µs to enter
its queue and leave another."""
MESSAGES_MAX = 256
"""A queue that got none of so many messages counts no more: as many as a link has under way with fixed link credit."""


class RecentQueue:
    """One of the queues that a link used last."""

    __slots__ = ("full_because", "publisher", "used_at")

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self.used_at = 0
        """How many messages the link had published when the last one went to this queue."""
        self.full_because: FlowReason | None = None
        """Why the queue takes no more messages; None while it takes them."""


class RecentQueues:
    """The queues that one link used last. Its owner tells which messages it publishes, and gets the engine's news."""

    __slots__ = ("_engine", "_own", "_queues", "_sent")

    def __init__(self, engine: Engine, own: Publisher) -> None:
        """``own`` is the link's own publisher, which has no target."""
        self._engine = engine
        self._own = own
        self._queues: dict[str, RecentQueue] = {}
        self._sent = 0

    @property
    def full(self) -> tuple[str, FlowReason] | None:
        """The name of a queue that holds the link up, with the reason; None if none does."""
        for name, queue in self._queues.items():
            if queue.full_because is not None:
                return name, queue.full_because
        return None

    @property
    def names(self) -> list[str]:
        """The names of the queues that count."""
        return list(self._queues)

    def used(self, name: str, messages: int) -> None:
        """The link has published messages to this queue."""
        self._sent += messages
        queue = self._queues.get(name)
        if queue is None:
            queue = self._enter(name)
            if queue is None:
                return
        queue.used_at = self._sent

    def told(self, action: PublisherBlocked) -> None:
        """A queue is full, or takes messages again."""
        name = self._name_of(action.publisher)
        if name is None:
            return
        if action.reason is not None and self._sent - self._queues[name].used_at >= MESSAGES_MAX:
            self._leave(name)
            return
        self._queues[name].full_because = None if action.reason is None else FlowReason(action.reason)

    def gone(self, publisher: Publisher) -> bool:
        """Forget the queue of this publisher, which was deleted. Returns whether it is one of these queues."""
        name = self._name_of(publisher)
        if name is not None:
            self._leave(name)
        return publisher is not self._own

    def release(self) -> None:
        """The link is over."""
        for name in list(self._queues):
            self._leave(name)

    def _enter(self, name: str) -> RecentQueue | None:
        own = self._own
        try:
            publisher = self._engine.publisher(own.mailbox, own.owner, QueueTarget(name), own.reference, told_only=True)
        except EngineError:
            return None  # the queue has gone meanwhile, which the message is told
        if len(self._queues) >= QUEUES_MAX:
            self._leave(min(self._queues, key=lambda other: self._queues[other].used_at))
        queue = self._queues[name] = RecentQueue(publisher)
        return queue

    def _leave(self, name: str) -> None:
        self._engine.retire(self._queues.pop(name).publisher)

    def _name_of(self, publisher: Publisher) -> str | None:
        target = publisher.fixed_target
        if not isinstance(target, QueueTarget) or target.queue not in self._queues:
            return None
        return target.queue if self._queues[target.queue].publisher is publisher else None
