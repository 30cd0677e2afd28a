"""The disk alarm: on while the disk of the data folder has less free space than the limit.

The nearer the limit, the sooner the next check: at the time when the disk would reach the limit if it filled up at 125
MB a second. This does not guarantee that the disk never fills up; the store handles that case.

If free space cannot be measured, the measurement is retried for twenty minutes and then given up, because an alarm that
could never be cleared would be worse than none.

The sampler passes in the measurements. This module reads no clock and no file.
"""

from math import inf

from core.alarms.registry import MEASURED, AlarmRegistry
from core.config.alarms import FreeLimit
from core.config.units import UnitConvention
from core.interface import Snapshot

BYTES_PER_MS = 250_000
"""The highest speed at which a disk fills up. The formula uses half of it: checks are 10 s apart down to 1.25 GB above
the limit, and 100 ms apart from 12.5 MB above it."""
INTERVAL_MIN_MS = 100
INTERVAL_MAX_MS = 10_000
ALARMED_INTERVAL_S = 0.5
"""The interval while the alarm is on, so that publishers continue within a second after there is space again."""
RETRIES_MAX = 10
RETRY_S = 120.0


def interval_ms(free: int, limit: int) -> float:
    """Return the milliseconds until the next check while free space is above the limit."""
    return min(max(2 * (free - limit) / BYTES_PER_MS, INTERVAL_MIN_MS), INTERVAL_MAX_MS)


class DiskAlarm:
    """The disk alarm with its limit and its last measurement."""

    def __init__(
        self, registry: AlarmRegistry, *, free_limit: FreeLimit, total_memory: int, unit_convention: UnitConvention
    ) -> None:
        self.free: int | None = None
        """Free bytes at the last measurement; None before the first one."""
        self.failures = 0
        """How many measurements have failed in a row."""
        self._registry = registry
        self._unit_convention = unit_convention
        self.set_limit(free_limit, total_memory)

    @property
    def disabled(self) -> bool:
        """Whether measuring was given up."""
        return self.failures > RETRIES_MAX

    def set_limit(self, free_limit: FreeLimit, total_memory: int) -> None:
        """Set another limit until the next start. It applies from the next sample on."""
        self.free_limit = free_limit
        self.limit = free_limit.limit(total_memory)
        self._registry.measured("disk", self.figures())

    def sample(self, free: int) -> None:
        """Raise or clear the alarm for this number of free bytes."""
        self.free = free
        self.failures = 0
        self._registry.measured("disk", self.figures())
        if free < self.limit:
            cause = f"{free} bytes of disk space are free, the limit is {self.limit} ({self.free_limit.text})"
            self._registry.set("disk", MEASURED, cause)
        else:
            self._registry.clear("disk", MEASURED)

    def failed(self) -> None:
        """The free space could not be measured. The last measurement stays in force until measuring is given up."""
        self.failures += 1
        if self.disabled:
            self.free = None
            self._registry.clear("disk", MEASURED)
            self._registry.measured("disk", self.figures())

    def next_check_s(self) -> float:
        """Return the seconds from the last sample or failure to the next check; infinity if measuring was given up."""
        if self.disabled:
            return inf
        if self.failures:
            return RETRY_S
        assert self.free is not None
        return ALARMED_INTERVAL_S if self.free < self.limit else interval_ms(self.free, self.limit) / 1000

    def figures(self) -> Snapshot:
        """Return the figures for the row of the alarm. Sizes are in bytes."""
        return {
            "limit": self.limit,
            "free": self.free,
            "free_limit": self.free_limit.text,
            "measured": not self.disabled,
            "unit_convention": self._unit_convention,
        }
