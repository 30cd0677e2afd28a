"""Consumers that could be busy and are not: the share of time in which a queue has messages and nobody takes one.

Then each of its consumers has used up what it allowed (link credit, a prefetch count, a window, a socket that is not
read), so it is not the queue that is slow. Each sample says of every queue whether that is so now; a ratio is the mean
of about the last minute, newer samples counting for more.

Bound: ``addresses_max`` queues, the oldest of those that have a ratio; queues without one are not kept.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

SAMPLE_WEIGHT = 1 / 60
"""Of one sample; there is one each second."""
RATIO_MIN = 0.001
"""Less is nothing: six minutes after the last sample of a queue that stood still for long."""
SLICE = 1000
"""Queues looked at between two pauses: 1 ms."""


class IdleConsumers:
    """The ratios by queue."""

    def __init__(self, *, addresses_max: int) -> None:
        self._addresses_max = addresses_max
        self._ratios: dict[str, float] = {}

    @property
    def ratios(self) -> Mapping[str, float]:
        """From 0 to 1, by queue; of queues that are left out it is 0, or not known."""
        return MappingProxyType(self._ratios)

    def sample(self, queues: Iterable[tuple[str, bool]]) -> Iterator[None]:
        """Take one sample of every queue: its name, and whether it has messages that nobody may be handed. Yields
        where others may go on."""
        ratios: dict[str, float] = {}
        for number, (name, idle) in enumerate(queues, start=1):
            before = self._ratios.get(name, 0.0)
            if idle or before:
                ratio = before + (idle - before) * SAMPLE_WEIGHT
                if ratio >= RATIO_MIN and len(ratios) < self._addresses_max:
                    ratios[name] = ratio
            if number % SLICE == 0:
                yield
        self._ratios = ratios
