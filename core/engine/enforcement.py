"""Which policy is in force for each queue, and how queues and exchanges hear of a change: turn by turn.

A change asks no more of a queue than it may have moved: whether a policy that has changed holds for the queue now, and
only where the policy in force has itself changed or gone, which one comes next. So setting one of a hundred policies
costs one search of each queue's name, and not a hundred.
"""

from collections.abc import Iterable

from core.engine.edges import Node
from core.engine.policies import Policies, Policy, shown
from core.interface import QueueDeclaration, Snapshot
from core.work import Work

SEARCH_WORK = 2
"""Of searching a name for a pattern, in units of :mod:`core.work`: 1.5 µs where the pattern is not found, 4 µs where it
is."""


class Enforcement:
    """The policy in force for each queue of one virtual host, and who has yet to hear of a change."""

    def __init__(self, policies: Policies, work: Work) -> None:
        self._policies = policies
        self._work = work
        self._winners: dict[str, Policy] = {}
        """By the name of the queue; queues for which no policy is in force have none."""
        self._queues: dict[str, None] = {}
        """Names of queues that have not heard of all changes. The last is the next that hears."""
        self._exchanges: dict[str, None] = {}
        self._changed: dict[str, None] = {}
        """Names of policies that have changed since all queues had heard of everything."""
        self._fresh: list[Policy] = []
        """Those of them that there are, those that win first."""

    @property
    def waiting(self) -> bool:
        """Whether another policy may hold for a queue or exchange than is in force."""
        return bool(self._queues or self._exchanges)

    def begin(self, policy: str, queues: Iterable[str], exchanges: Iterable[str]) -> None:
        """The policy of this name was set or cleared, and all of these have to hear of it. Those that have been waiting
        hear first."""
        if not self._queues:
            self._changed.clear()
        self._changed[policy] = None
        self._fresh = [one for one in self._policies.ranked if one.name in self._changed]
        waiting = self._queues
        self._queues = {name: None for name in queues if name not in waiting} | waiting
        self._exchanges = dict.fromkeys(exchanges)

    def next(self) -> Node:
        """The queue or exchange that is to hear next, exchanges first; it may be gone."""
        if self._exchanges:
            return Node(False, self._exchanges.popitem()[0])
        return Node(True, self._queues.popitem()[0])

    def enter(self, queue: QueueDeclaration) -> Policy | None:
        """A queue is made. Returns its policy."""
        self._work.spent += SEARCH_WORK * self._policies.count
        winner = self._policies.winner(queue)
        if winner is not None:
            self._winners[queue.name] = winner
        return winner

    def renew(self, queue: QueueDeclaration) -> tuple[Policy | None, bool]:
        """The policy that holds for a queue now, which is in force from here on, and whether that is another one."""
        before = self._winners.pop(queue.name, None)
        winner = self._now(queue, before)
        if winner is not None:
            self._winners[queue.name] = winner
        return winner, winner is not before

    def leave(self, queue: str) -> None:
        """The queue of this name goes."""
        self._winners.pop(queue, None)

    def shown(self, queue: QueueDeclaration) -> Snapshot:
        """What the queue's snapshot says of policies, also of those of which the queue has not heard."""
        return shown(queue, self._policies.winner(queue) if self._queues else self._winners.get(queue.name))

    def _now(self, queue: QueueDeclaration, before: Policy | None) -> Policy | None:
        """Policies that have not changed and go before the one in force did not hold, and do not now."""
        for policy in self._fresh:
            if before is not None and policy.rank > before.rank:
                break
            self._work.spent += SEARCH_WORK
            if policy.holds_for(queue):
                return policy
        if before is None or before.name not in self._changed:
            return before
        self._work.spent += SEARCH_WORK * self._policies.count
        return self._policies.winner(queue, after=before)
