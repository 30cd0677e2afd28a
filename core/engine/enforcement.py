"""Which policy is in force for each queue, and the application of changed policies to queues and exchanges over several
turns.

After a change, only the changed policies are matched, and only against the names that begin as their patterns do. The
other policies are matched only if the policy in force for the queue has itself changed or was cleared. So setting one
of a hundred policies matches each queue's name at most once, and not a hundred times.
"""

from collections.abc import Callable, Iterable

from core.engine.options.policies import Policies, Policy, shown
from core.engine.routing.edges import Node
from core.interface import QueueDeclaration, Snapshot
from core.work import Work

SEARCH_WORK = 2
"""The cost of matching a name against a pattern, in units of :mod:`core.work`: 1.5 µs without a match, 4 µs with
one."""
WORK_PER_TURN = 1_000
"""The most work that one turn spends on applying changed policies, in these units."""
HEARING_WORK = 1
"""The cost of checking a queue or exchange after a policy change, in these."""


class Enforcement:
    """The policy in force for each queue of one virtual host, and the queues and exchanges to which a change has not
    been applied yet."""

    def __init__(self, policies: Policies, work: Work) -> None:
        self._policies = policies
        self._work = work
        self._winners: dict[str, Policy] = {}
        """By queue name; a queue without a policy has no entry."""
        self._queues: dict[str, None] = {}
        """Names of queues to which not all changes were applied. The last one is the next."""
        self._exchanges: dict[str, None] = {}
        self._changed: dict[str, None] = {}
        """Names of policies that have changed since the last time that all changes were applied to all queues."""
        self._fresh: list[Policy] = []
        """The changed policies that still exist, by rank, the winning one first."""
        self.waiting = False
        """Whether a change has not been applied to some queue or exchange yet."""

    def begin(self, policy: str, queues: Iterable[str], exchanges: Iterable[str]) -> None:
        """Note that the policy of this name was set or cleared, and has to be applied to all these queues and
        exchanges. Queues that already wait come first."""
        if not self._queues:
            self._changed.clear()
        self._changed[policy] = None
        self._fresh = [one for one in self._policies.ranked if one.name in self._changed]
        waiting = self._queues
        self._queues = {name: None for name in self._concerned(policy, queues) if name not in waiting} | waiting
        self._exchanges = dict.fromkeys(exchanges)
        self.waiting = bool(self._queues or self._exchanges)

    def _concerned(self, policy: str, queues: Iterable[str]) -> Iterable[str]:
        """Return the queues for which the policy of this name was in force, or whose names begin as its pattern says.
        The beginning of a name is compared in 0.05 µs, a pattern takes 1.5 µs."""
        yield from [queue for queue, winner in self._winners.items() if winner.name == policy]
        patterns = [one.pattern for one in self._fresh if one.name == policy]
        for pattern in patterns:
            if pattern is not None:
                beginning = pattern.beginning
                yield from [queue for queue in queues if queue.startswith(beginning)]

    def next(self) -> Node:
        """Return the next queue or exchange to which changes are to be applied, exchanges first. It may have been
        deleted."""
        is_queue = not self._exchanges
        name, _ = (self._queues if is_queue else self._exchanges).popitem()
        self.waiting = bool(self._queues or self._exchanges)
        return Node(is_queue, name)

    def go_on(self, apply_to_exchange: Callable[[str], None], apply_to_queue: Callable[[str], None]) -> None:
        """Apply changes to some of the exchanges and queues that wait. They may have been deleted."""
        until = self._work.spent + WORK_PER_TURN
        while self.waiting and self._work.spent < until:
            is_queue, name = self.next()
            self._work.spent += HEARING_WORK if is_queue else HEARING_WORK + SEARCH_WORK * self._policies.count
            (apply_to_queue if is_queue else apply_to_exchange)(name)

    def enter(self, queue: QueueDeclaration) -> Policy | None:
        """Register a new queue. Returns its policy."""
        self._work.spent += SEARCH_WORK * self._policies.count
        winner = self._policies.winner(queue)
        if winner is not None:
            self._winners[queue.name] = winner
        return winner

    def renew(self, queue: QueueDeclaration) -> tuple[Policy | None, bool]:
        """Put the policy that now matches a queue in force. Returns the policy, and whether it differs from the one
        before."""
        before = self._winners.pop(queue.name, None)
        winner = self._now(queue, before)
        if winner is not None:
            self._winners[queue.name] = winner
        return winner, winner is not before

    def leave(self, queue: str) -> None:
        """The queue of this name is deleted."""
        self._winners.pop(queue, None)

    def shown(self, queue: QueueDeclaration) -> Snapshot:
        """The policy part of the queue's snapshot. It takes account of changes that were not applied to the queue
        yet."""
        return shown(queue, self._policies.winner(queue) if self._queues else self._winners.get(queue.name))

    def _now(self, queue: QueueDeclaration, before: Policy | None) -> Policy | None:
        """Find the policy for a queue. An unchanged policy that ranks before the one in force did not match, and does
        not now."""
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
