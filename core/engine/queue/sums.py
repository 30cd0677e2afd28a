"""The figures of all queues added up, without a walk over all of them: only queues that have changed are looked at.

The engine notes in ``changed`` which queues may have changed. A reader has the sums brought up to date first: the
figures of each changed queue are read, and the difference to what was counted for it goes into the sums. So a reading
costs what has happened since the last one, and nothing for queues that are idle.
"""

from collections.abc import Iterator, Mapping

from core.engine.queue.kinds import AnyQueue

QUEUE_FIGURES = ("messages_ready", "messages_unacknowledged", "consumers", "published", "delivered", "accepted")
SLICE = 200
"""Queues that are looked at between two pauses: 0.5 ms."""
_NOTHING = (0,) * len(QUEUE_FIGURES)


class QueueSums:
    """The sums over the queues of one broker."""

    __slots__ = ("_counted", "_groups", "_sums", "changed")

    def __init__(self) -> None:
        self._groups: list[Mapping[str, AnyQueue]] = []
        self.changed: dict[AnyQueue, None] = {}
        """The queues that may have changed since their figures were counted."""
        self._counted: dict[AnyQueue, tuple[int, ...]] = {}
        self._sums = list(_NOTHING)

    def over(self, queues: Mapping[str, AnyQueue]) -> "QueueSums":
        """Add up these queues too, those of a virtual host by name, as they come and go. Returns itself."""
        self._groups.append(queues)
        return self

    def without(self, queues: Mapping[str, AnyQueue]) -> None:
        """A virtual host has been deleted, after all its queues."""
        self._groups = [group for group in self._groups if group is not queues]

    def forget(self, queue: AnyQueue) -> None:
        """A queue has been deleted."""
        self.changed.pop(queue, None)
        self._count(self._counted.pop(queue, _NOTHING), _NOTHING)

    def refresh(self) -> Iterator[None]:
        """Bring the sums up to date; yields where other tasks may run."""
        number = 0
        while self.changed:
            queue, _ = self.changed.popitem()
            if not any(queues.get(queue.name) is queue for queues in self._groups):
                continue  # deleted, and touched once more by what it had left behind
            figures = _figures(queue)
            self._count(self._counted.get(queue, _NOTHING), figures)
            self._counted[queue] = figures
            number += 1
            if number % SLICE == 0:
                yield

    def __len__(self) -> int:
        """How many queues are in the sums."""
        return len(self._counted)

    def sums(self) -> dict[str, int]:
        """The sums by :data:`QUEUE_FIGURES`, as of the last refresh."""
        return dict(zip(QUEUE_FIGURES, self._sums, strict=True))

    def _count(self, before: tuple[int, ...], now: tuple[int, ...]) -> None:
        if before != now:
            self._sums = [total + new - old for total, old, new in zip(self._sums, before, now, strict=True)]


def _figures(queue: AnyQueue) -> tuple[int, ...]:
    counters = queue.counters
    return (
        queue.ready,
        queue.unacknowledged,
        len(queue.consumers),
        counters.published,
        counters.delivered,
        counters.accepted,
    )
