"""The attaches of another node that wait until this node has made the changes of definitions that the other one has.

The queue of such an attach may have been declared, or deleted and declared again, by a change that this node has not
read yet: without the wait it would be refused, or get the queue that is gone. The wait is bounded in time; an attach
that has waited so long is answered by what this node knows.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from amqp10.protocol.events import ReceiverAttached, SenderAttached
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from amqp10.wire.types import ULong
from core.order_position import OrderPosition

DEFINITIONS_KEY = "headgate:definitions"
"""A property of the attach of another node, a ulong: the number of the last change of definitions that it has made."""
HELD_S = 3.0
"""The longest wait. Changes are read in one round trip to etcd. When a leader of etcd was lost, there was no answer for
up to 2.6 s (docs/cluster.md)."""
HELD_MAX = 1_000
"""The most attaches of one connection that wait; more are answered at once. With the texts that describe a client, each
takes up to 8 KiB."""

Attached = ReceiverAttached | SenderAttached


class _Held(NamedTuple):
    event: Attached
    number: int
    until: float


class HeldAttaches:
    """The attaches of one connection between nodes."""

    __slots__ = ("_order", "_wake", "waiting")

    def __init__(self, order: OrderPosition, wake: Callable[[], None]) -> None:
        """``wake`` asks for a turn, in which :meth:`answers` is to be used."""
        self._order, self._wake = order, wake
        self.waiting: dict[ReceiverLink | SenderLink, _Held] = {}
        """Those that are held, by link. Callers may read it, to save a call when there are none."""

    @property
    def deadline(self) -> float | None:
        """When the first one has waited too long (monotonic seconds)."""
        return next((held.until for held in self.waiting.values()), None)

    def holds(self, event: Attached, monotonic: float) -> bool:
        """Hold an attach back if this node is behind the other one. Returns whether it is held."""
        number = _number_of(event.attach.properties)
        if number <= self._order.made or len(self.waiting) >= HELD_MAX:
            return False
        self.waiting[event.link] = _Held(event, number, monotonic + HELD_S)
        self._order.wait(number, self._wake)
        return True

    def answers(self, attach: Callable[[Attached], None], monotonic: float) -> Iterator[None]:
        """Have ``attach`` answer those that need not wait any more, one at each step, in the order in which they came:
        the numbers of a node grow."""
        while self.waiting:
            link, held = next(iter(self.waiting.items()))
            if held.number > self._order.made and monotonic < held.until:
                return
            self.forget(link)
            attach(held.event)
            yield

    def forget(self, link: ReceiverLink | SenderLink) -> None:
        """The link waits no more, or is over."""
        if self.waiting.pop(link, None) is not None and not self.waiting:
            self._order.forget(self._wake)


def _number_of(properties: Mapping[str, object] | None) -> int:
    """The number in the properties of an attach; 0, which holds nothing, for what is none."""
    number = (properties or {}).get(DEFINITIONS_KEY)
    return number.value if isinstance(number, ULong) else 0
