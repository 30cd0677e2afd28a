"""Consumers that could be busy and are not: for each queue, the share of time with messages and no consumer to take
them.

During that time each of its consumers has used up what it allowed (link credit, a prefetch count, a window, a socket
that it does not read), so the consumers are slow and not the queue. Each sample notes for every queue whether that is
so now. A ratio is the mean over about the last minute, in which newer samples count for more.

Bound: ``addresses_max`` queues, the oldest of those with a ratio of :data:`RATIO_MIN` or more; no others are kept.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

SAMPLE_WEIGHT = 1 / 60
"""The weight of one sample; there is one each second."""
RATIO_MIN = 0.001
"""Lower ratios count as 0: six minutes after the last sample in which a queue stood still, if it did so for long."""
SLICE = 1000
"""Queues visited between two pauses: 1 ms."""


class IdleConsumers:
    """The ratios by queue."""

    def __init__(self, *, addresses_max: int) -> None:
        self._addresses_max = addresses_max
        self._ratios: dict[str, float] = {}

    @property
    def ratios(self) -> Mapping[str, float]:
        """The ratio of each queue, from 0 to 1; for queues that are not in the map it is 0 or not known."""
        return MappingProxyType(self._ratios)

    def sample(self, queues: Iterable[tuple[str, bool]]) -> Iterator[None]:
        """Take one sample of every queue: its name, and whether it has messages that it may hand to no consumer. Yields
        where other tasks may run."""
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
