"""Consumers of AMQP 0.9.1 whose queue has lost its leader: they stay, and go on at the next leader.

The client sees nothing of it but deliveries: the consumer keeps its tag, and what it had not acknowledged comes again,
flagged as redelivered, with new delivery-tags. Acknowledging the former tags has no effect, and is no error. A consumer
of a stream goes on behind the last message that was sent to it, because offsets are the same at each node.

AMQP 0.9.1 has one way to tell a client that a consumer waits: basic.cancel, which ends it. These consumers get it:

- those with the argument ``x-cancel-on-ha-failover``, which ask for it;
- those of a stream that were to begin at its end, and whose leader was lost before it had said which offset that is;
- those whose leader cannot be reached for ``REACHED_WITHIN_S``, although the cluster still has it as the leader. A link
  of AMQP 1.0 goes on waiting then, and its client knows the reason.

The times of the attempts are those of AMQP 1.0 links (:mod:`core.leader_losses`).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from core.amqp091.frontend.consuming import Consuming, Consumption
from core.amqp091.frontend.shared import Shared
from core.errors import EngineError, HomeLost
from core.interface import ConsumeOptions
from core.leader_losses import LeaderLosses, moves

REACHED_WITHIN_S = 15.0
"""How long one consumer is tried (seconds): five times the 3 s within which a cluster has another leader when a node is
lost (``docs/cluster.md``). While no node leads, the queue is this node's own, so an attempt does not fail: it fails
only where this node alone has lost the leader."""
ATTEMPT_WORK = 20
"""The least cost of an attempt, in units of :mod:`core.work`: that of a method."""

Cancel = Callable[[Consuming, Consumption, EngineError], None]


class _Moved(NamedTuple):
    """A consumer that waits for a leader, and what the next one is asked for."""

    consuming: Consuming
    queue: str
    options: ConsumeOptions
    until: float


class MovedConsumers:
    """The consumers of one connection that wait for a leader. Times are monotonic seconds."""

    __slots__ = ("_losses", "_moved", "_shared")

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._losses: LeaderLosses[Consumption] = LeaderLosses()
        self._moved: dict[Consumption, _Moved] = {}

    @property
    def waiting(self) -> bool:
        """Whether a consumer waits."""
        return bool(self._losses.waiting)

    @property
    def deadline(self) -> float | None:
        """When a consumer is to be tried; None if none waits."""
        return self._losses.deadline

    def keep(self, consuming: Consuming, consumption: Consumption, error: EngineError, monotonic: float) -> bool:
        """Keep a consumer whose queue has ended for it, if another node will lead the queue, or leads it already.
        Returns whether it is kept: :meth:`attempts` has it go on."""
        consumer = consumption.consumer
        if consumer is None or consumption.getter or consumption.cancelled or consumption.ends_with_leader:
            return False
        if not moves(self._shared.engine, error, consumer.queue_name, self._shared.owner):
            return False
        options = consumption.options_anew(consumer)
        if options is None:
            return False
        consuming.leader_lost(consumption)
        until = monotonic + REACHED_WITHIN_S
        self._moved[consumption] = _Moved(consuming, consumer.queue_name, options, until)
        self._losses.wait(consumption, monotonic)
        return True

    def attempts(self, monotonic: float, cancel: Cancel) -> Iterator[None]:
        """Have the consumers go on whose time has come, one at each step. ``cancel`` ends one that cannot stay."""
        for consumption in self._losses.due(monotonic):
            moved = self._moved.pop(consumption)
            if consumption.cancelled:
                continue
            try:
                self._shared.engine.check_source(moved.queue)
                moved.consuming.go_on(consumption, moved.queue, moved.options)
            except HomeLost as error:
                if monotonic < moved.until:
                    self._moved[consumption] = moved
                    self._losses.wait(consumption, monotonic)
                else:
                    cancel(moved.consuming, consumption, error)
            except EngineError as error:
                cancel(moved.consuming, consumption, error)
            yield
