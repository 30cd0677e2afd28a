"""Settings of the alarms, and how the limits of memory and disk space are written.

A limit is kept as it was written, since an operator writes it in the same form at run time:

- memory: ``0.4`` of all memory, or ``absolute 1GB`` (a size with a unit needs no ``absolute``);
- disk space: ``50MB``, or ``mem_relative 1.0``, as many times all memory.

The file may also have a number or a table of one key: ``0.4``, ``{ absolute = 1073741824 }``.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from core.config.section import Section
from core.config.units import Seconds, Unit, UnitConvention, parse_limit

WATERMARK_MAX = 1
MEM_RELATIVE_MAX = 1000
"""More disk space than a thousand times the memory is a typing mistake."""

_SHARE = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class Watermark:
    """How much memory may be in use: a share of all memory, or a number of bytes."""

    text: str
    share: Fraction | None = None
    size: int = 0

    def limit(self, total: int) -> int:
        """The limit in bytes; never more than ``total``, all memory in bytes."""
        return int(self.share * total) if self.share is not None else min(self.size, total)


@dataclass(frozen=True, slots=True)
class FreeLimit:
    """How much disk space must stay free: a multiple of all memory, or a number of bytes."""

    text: str
    times_memory: Fraction | None = None
    size: int = 0

    def limit(self, total: int) -> int:
        """The limit in bytes, for ``total`` bytes of memory."""
        return round(self.times_memory * total) if self.times_memory is not None else self.size


def parse_watermark(text: str, convention: UnitConvention) -> Watermark:
    """Parse a memory limit; see the module. Raises ValueError."""
    absolute = text.removeprefix("absolute ")
    if absolute == text and _SHARE.fullmatch(text):
        share = Fraction(text)
        if share > WATERMARK_MAX:
            raise ValueError(
                f"the watermark {text} is above {WATERMARK_MAX}.0, which is all memory; "
                f'it must be a share from 0 to {WATERMARK_MAX}.0, or "absolute" and a size'
            )
        return Watermark(text, share=share)
    return Watermark(text, size=parse_limit(absolute, convention))


def parse_free_limit(text: str, convention: UnitConvention) -> FreeLimit:
    """Parse a disk limit; see the module. Raises ValueError."""
    times = text.removeprefix("mem_relative ")
    if times == text:
        return FreeLimit(text, size=parse_limit(text, convention))
    if not _SHARE.fullmatch(times) or Fraction(times) > MEM_RELATIVE_MAX:
        raise ValueError(f"mem_relative {times}: must be a number from 0 to {MEM_RELATIVE_MAX}")
    return FreeLimit(text, times_memory=Fraction(times))


def _as_text(value: object) -> object:
    """The value in the file as a text in the form of the command line; any other value is left to the type check."""
    if isinstance(value, dict) and len(value) == 1:
        ((key, inner),) = value.items()
        return f"{key} {_as_text(inner)}"
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


LimitText = Annotated[str, BeforeValidator(_as_text)]


class AlarmSettings(Section):
    """When publishers must wait for memory or disk space, and which other notices an operator is shown."""

    unit_convention: UnitConvention = "binary"
    """What k, M and G mean in the limits below. Binary: 2^10, 2^20, 2^30, as with RabbitMQ up to 3.12. Decimal:
    10^3, 10^6, 10^9, as since 3.13. kB, MB, GB are decimal and kiB, MiB, GiB binary in both."""

    memory_watermark: LimitText = "0.4"
    """While the broker uses more memory, publishers wait. A share of all memory, or "absolute" and a size. More than
    0.5 is not safe. 0 stops all publishing."""

    paging_ratio: Annotated[float, Unit("a share of the watermark")] = Field(default=0.5, ge=0)
    """Queues begin to page messages out to disk when so much of the watermark is used. Above 1 they never do."""

    disk_free_limit: LimitText = "50MB"
    """While the data folder's disk has less free, publishers wait. A size, or "mem_relative" and how many times all
    memory it is; 1.0 to 2.0 is a careful choice."""

    event_loop_lag: Seconds = Field(default=0.25, ge=0.01, le=60.0)
    """A notice is shown when the event loop was late by more than this."""

    sockets_share: Annotated[float, Unit("a share")] = Field(default=0.9, ge=0.0, le=1.0)
    """A notice is shown when more than this share of the possible connections is in use."""

    @field_validator("memory_watermark")
    @classmethod
    def _watermark(cls, text: str, info: ValidationInfo) -> str:
        return parse_watermark(text, info.data.get("unit_convention", "binary")).text

    @field_validator("disk_free_limit")
    @classmethod
    def _free_limit(cls, text: str, info: ValidationInfo) -> str:
        return parse_free_limit(text, info.data.get("unit_convention", "binary")).text

    @property
    def watermark(self) -> Watermark:
        """The parsed memory watermark."""
        return parse_watermark(self.memory_watermark, self.unit_convention)

    @property
    def free_limit(self) -> FreeLimit:
        """The parsed limit of free disk space."""
        return parse_free_limit(self.disk_free_limit, self.unit_convention)
