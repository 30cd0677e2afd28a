"""Links and consumers of clients whose queue has lost its leader, and when each is tried at the next one.

Front ends keep such a link or consumer, and make its publisher or consumer in the engine anew when another node leads,
or this one. This module knows which losses those are, and the times of the attempts: one at once, and further ones at a
fixed distance. What an attempt does, the front end knows.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from core.access.checked_engine import CheckedEngine
from core.errors import EngineError, HomeLost
from core.interface import Consumer, StreamPosition

AGAIN_S = 0.05
"""Between two attempts at a queue that has no leader. A node looks as often for one then
(``core/cluster/member.py``)."""
KINDS = ("quorum", "stream")
"""The types of queues that another node may lead next."""

User = TypeVar("User")


def moves(engine: CheckedEngine, error: EngineError, queue: str, owner: object) -> bool:
    """Whether the error says that a queue has lost its leader which another node will lead, or leads already.
    ``owner``: the connection's identity."""
    if not isinstance(error, HomeLost):
        return False
    try:
        return engine.queue_info(queue, owner).type in KINDS
    except EngineError:
        return False


def begin_anew(former: Consumer) -> StreamPosition | float | None:
    """Where a consumer of a stream that was sent nothing begins at the next leader. None if only the former leader knew
    that: the end, or the last chunk, of the time when the consumer came."""
    if former.begins_at is not None:
        return former.begins_at
    position = former.options.stream.position
    return None if position in (StreamPosition.NEXT, StreamPosition.LAST) else position


class LeaderLosses(Generic[User]):
    """What waits for a leader on one connection. Times are monotonic seconds."""

    __slots__ = ("_tried_at", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[User, float] = {}
        """When each one that waits is to be tried, in this order. For reading only."""
        self._tried_at: dict[User, float] = {}
        """When each one was tried last, oldest first. Those that this delays no more go with the next loss."""

    @property
    def deadline(self) -> float | None:
        """When one is to be tried; None if none waits."""
        return min(self.waiting.values(), default=None)

    def wait(self, user: User, monotonic: float) -> None:
        """Have one wait: for no time, if it was not tried just now."""
        while self._tried_at and next(iter(self._tried_at.values())) + AGAIN_S <= monotonic:
            del self._tried_at[next(iter(self._tried_at))]
        self.waiting[user] = max(monotonic, self._tried_at.get(user, monotonic - AGAIN_S) + AGAIN_S)

    def due(self, monotonic: float) -> Iterator[User]:
        """Those whose time has come. Each waits no more when it is given out; the caller has one wait again whose
        attempt has failed."""
        for user in [one for one, at in self.waiting.items() if at <= monotonic]:
            if self.waiting.pop(user, None) is None:
                continue  # it has ended meanwhile
            self._tried_at.pop(user, None)
            self._tried_at[user] = monotonic
            yield user

    def forget(self, user: User) -> None:
        """One is over."""
        self.waiting.pop(user, None)
        self._tried_at.pop(user, None)
