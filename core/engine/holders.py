"""What clients ask about the messages that holders hold, for the queues of a virtual host."""

from collections.abc import Callable, Mapping

from core.clock import Now
from core.engine.queue.holding import Holding
from core.engine.queue.kinds import AnyQueue
from core.engine.queue.queue import Queue
from core.engine.routing.topology import Topology
from core.errors import Invalid
from core.held import Held, HeldRange, Hold
from core.interface import Disposal
from core.message import Return
from core.slices import Walk


class Holders:
    """The queues of a virtual host, as holders use them."""

    def __init__(
        self,
        topology: Topology,
        queues: Mapping[str, AnyQueue],
        touch: Callable[[AnyQueue], None],
        clock: Callable[[], Now],
    ) -> None:
        """``touch`` gives a queue a turn, and has its sums taken anew."""
        self._topology, self._queues, self._touch, self._clock = topology, queues, touch, clock

    def hold(self, queue: str, owner: object, wanted: Hold) -> Walk[Held]:
        """See :meth:`core.interface.Engine.hold`."""
        return self._holding(queue, owner, wanted.holder).hold(wanted, self._clock)

    def settle(self, queue: str, owner: object, which: HeldRange, disposal: Disposal | Return) -> Walk[int]:
        """See :meth:`core.interface.Engine.settle_held`."""
        return self._holding(queue, owner, which.holder).settle(which, disposal)

    def _holding(self, queue: str, owner: object, holder: str) -> Holding:
        self._topology.queue(queue, owner)
        found = self._queues[queue]
        if not isinstance(found, Queue):
            raise Invalid(f"'{queue}': no consumer can hold its messages: it is a stream, or lives on another node")
        return found.holding(holder, lambda: self._touch(found))
