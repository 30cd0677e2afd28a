"""What an operator does with the ready messages of a queue: look at the first, move them, and send dead ones back."""

from collections.abc import Callable, Mapping

from core.engine.queue.kinds import AnyQueue
from core.engine.queue.moving import shown
from core.engine.routing.topology import Topology
from core.errors import Invalid
from core.interface import Converter, QueueTarget, Snapshot, Target

OPERATOR = object()
"""An owner that owns no queue, so that operators cannot touch the messages of exclusive queues."""


class OperatorMoves:
    """The queues of a virtual host, as operators use them. All methods raise NotFound, and Locked for an exclusive
    queue."""

    def __init__(
        self,
        topology: Topology,
        queues: Mapping[str, AnyQueue],
        touch: Callable[[AnyQueue], None],
        check_exchange: Callable[[str], None],
        converter: Converter | None,
    ) -> None:
        """``touch`` gives a queue a turn. ``check_exchange`` raises for an exchange to which none may publish."""
        self._topology, self._queues, self._touch = topology, queues, touch
        self._check_exchange, self._converter = check_exchange, converter

    def peek(self, queue: str, count: int) -> list[Snapshot]:
        """Rows of the first ready messages, which stay as they are. Raises Invalid for a count."""
        looked_at = self._operated(queue)
        self._touch(looked_at)
        return [shown(one, self._converter) for one in looked_at.peek(count)]

    def begin(self, queue: str, target: Target, count: int | None) -> int:
        """Begin to move ready messages; returns the move's number. Raises EngineError, as for every operator."""
        source = self._operated(queue)
        if not isinstance(target, QueueTarget):
            self._check_exchange(target.exchange)
        elif target.queue == queue:
            raise Invalid(f"queue '{queue}': its messages cannot be moved to itself")
        else:
            self._topology.check_may_publish(target.queue, OPERATOR)
        return self._begin(source, target, count)

    def begin_replay(self, queue: str, count: int | None) -> int:
        """Move ready messages, each to the queue in which it died first; otherwise as above."""
        return self._begin(self._operated(queue), None, count)

    def _begin(self, source: AnyQueue, target: Target | None, count: int | None) -> int:
        if count is not None and count < 1:
            raise Invalid(f"{count} messages cannot be moved; 1 or more can")
        self._touch(source)
        return source.move(target, count)

    def _operated(self, name: str) -> AnyQueue:
        self._topology.queue(name, OPERATOR)
        return self._queues[name]
