"""The disk alarm: on while the disk of the data folder has less space free than the limit.

The next check comes the sooner the nearer the limit is: when the disk has got there if it fills up at 125 MB a second.
That is not a promise that the disk never fills up; what happens then is the store's business.

Where free space cannot be measured, it is tried again for twenty minutes, and then not any more: an alarm that nobody
can clear would be worse than none.

Who measures feeds it. Nothing here reads a clock or a file.
"""

from math import inf

from core.alarms.registry import MEASURED, AlarmRegistry
from core.config.alarms import FreeLimit
from core.config.units import UnitConvention
from core.interface import Snapshot

BYTES_PER_MS = 250_000
"""How fast a disk fills up at most. The formula takes half of it: 10 s apart until 1.25 GB above the limit, and
100 ms apart from 12.5 MB above it."""
INTERVAL_MIN_MS = 100
INTERVAL_MAX_MS = 10_000
ALARMED_INTERVAL_S = 0.5
"""While the alarm is on: publishers go on within a second after there is space again."""
RETRIES_MAX = 10
RETRY_S = 120.0


def interval_ms(free: int, limit: int) -> float:
    """When to check again, while there is more free than the limit."""
    return min(max(2 * (free - limit) / BYTES_PER_MS, INTERVAL_MIN_MS), INTERVAL_MAX_MS)


class DiskAlarm:
    """The limit in force, and what was measured last."""

    def __init__(
        self, registry: AlarmRegistry, *, free_limit: FreeLimit, total_memory: int, unit_convention: UnitConvention
    ) -> None:
        self.free: int | None = None
        """Bytes, when they were measured last; None when they never were."""
        self.failures = 0
        """Measurements that failed in a row."""
        self._registry = registry
        self._unit_convention = unit_convention
        self.set_limit(free_limit, total_memory)

    @property
    def disabled(self) -> bool:
        """Nothing is measured any more."""
        return self.failures > RETRIES_MAX

    def set_limit(self, free_limit: FreeLimit, total_memory: int) -> None:
        """Another limit, until the next start. It holds from the next sample on."""
        self.free_limit = free_limit
        self.limit = free_limit.limit(total_memory)
        self._registry.measured("disk", self.figures())

    def sample(self, free: int) -> None:
        """So many bytes are free now: raise the alarm or clear it."""
        self.free = free
        self.failures = 0
        self._registry.measured("disk", self.figures())
        if free < self.limit:
            cause = f"{free} bytes of disk space are free, the limit is {self.limit} ({self.free_limit.text})"
            self._registry.set("disk", MEASURED, cause)
        else:
            self._registry.clear("disk", MEASURED)

    def failed(self) -> None:
        """The free space could not be measured. What was measured before holds until it is given up."""
        self.failures += 1
        if self.disabled:
            self.free = None
            self._registry.clear("disk", MEASURED)
            self._registry.measured("disk", self.figures())

    def next_check_s(self) -> float:
        """Seconds from the last sample or failure to the next; infinity when there is to be none."""
        if self.disabled:
            return inf
        if self.failures:
            return RETRY_S
        assert self.free is not None
        return ALARMED_INTERVAL_S if self.free < self.limit else interval_ms(self.free, self.limit) / 1000

    def figures(self) -> Snapshot:
        """Sizes are bytes."""
        return {
            "limit": self.limit,
            "free": self.free,
            "free_limit": self.free_limit.text,
            "measured": not self.disabled,
            "unit_convention": self._unit_convention,
        }
