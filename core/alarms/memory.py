"""The memory alarm: on while the process uses more memory than its watermark.

It is a level: each measurement alone decides whether it is on. The watermark is far below the total memory because a
busy broker needs memory beside its messages. With a watermark above half of all memory the operating system may end the
process before publishers have stopped.

The sampler passes in the measurements. This module reads no clock and no file.
"""

from fractions import Fraction

from core.alarms.registry import MEASURED, AlarmRegistry
from core.config.alarms import Watermark
from core.config.units import UnitConvention
from core.interface import Snapshot

UNKNOWN_TOTAL_BYTES = 2**30
"""Used as the total memory if the operating system does not report it."""

CAREFUL_SHARE = Fraction(1, 2)
"""A watermark above this share of all memory gets a warning."""


class MemoryAlarm:
    """The memory alarm with its watermark and its last measurement."""

    def __init__(
        self,
        registry: AlarmRegistry,
        *,
        watermark: Watermark,
        total: int | None,
        paging_ratio: float,
        unit_convention: UnitConvention,
    ) -> None:
        self.used = 0
        """Bytes in use at the last sample."""
        self.total_known = True
        self.total = 0
        """All memory that the process may use, in bytes."""
        self.limit = 0
        """The watermark in bytes: the alarm is on above it."""
        self._registry = registry
        self._paging_ratio = paging_ratio
        self._unit_convention = unit_convention
        self.set_watermark(watermark, total)

    def set_watermark(self, watermark: Watermark, total: int | None) -> None:
        """Set another watermark until the next start. It applies from the next sample on."""
        self.watermark = watermark
        self.total_known = total is not None
        self.total = UNKNOWN_TOTAL_BYTES if total is None else total
        self.limit = watermark.limit(self.total)
        self._registry.measured("memory", self.figures())

    @property
    def paging_limit(self) -> int | None:
        """The bytes in use above which queues page messages out; None if they never do."""
        return int(self.limit * self._paging_ratio) if self._paging_ratio <= 1 else None

    @property
    def warning(self) -> str | None:
        """A warning about a watermark that is too high; else None."""
        if self.limit <= CAREFUL_SHARE * self.total:
            return None
        return (
            f"memory watermark {self.watermark.text} is more than {float(CAREFUL_SHARE)} of all memory: "
            "the operating system may end the broker before publishers have stopped"
        )

    def exceeded_by(self, used: int) -> bool:
        """Return whether this many bytes are above the watermark."""
        return used > self.limit

    def sample(self, used: int) -> None:
        """Raise or clear the alarm for this number of bytes in use."""
        self.used = used
        self._registry.measured("memory", self.figures())
        if self.exceeded_by(used):
            cause = f"{used} bytes of memory are used, the limit is {self.limit} (watermark {self.watermark.text})"
            self._registry.set("memory", MEASURED, cause)
        else:
            self._registry.clear("memory", MEASURED)

    def figures(self) -> Snapshot:
        """Return the figures for the row of the alarm. Sizes are in bytes."""
        return {
            "limit": self.limit,
            "used": self.used,
            "total": self.total,
            "total_known": self.total_known,
            "watermark": self.watermark.text,
            "paging_limit": self.paging_limit,
            "unit_convention": self._unit_convention,
        }
