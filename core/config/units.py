"""Units of the numbers in the configuration, and how they are written: ``"64MiB"``, ``"250ms"``, ``"5s"``.

In the program a size is an ``int`` of bytes and a duration a ``float`` of seconds; other units exist only in the text.
A bare number means bytes or seconds.

The limits of memory and disk space are written as in RabbitMQ. There ``M`` meant 2^20 bytes up to 3.12 and means 10^6
since 3.13, so a setting says which of the two applies, and every text with such a size names the convention.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BeforeValidator

BYTE_UNITS = {
    "B": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}
SECOND_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

UnitConvention = Literal["binary", "decimal"]
"""What a bare k, M or G means."""

_KILOBYTES = {"kB": 10**3, "MB": 10**6, "GB": 10**9}
_KIBIBYTES = {"kiB": 2**10, "MiB": 2**20, "GiB": 2**30}

LIMIT_UNITS: Mapping[UnitConvention, Mapping[str, int]] = MappingProxyType(
    {
        "binary": {"k": 2**10, "M": 2**20, "G": 2**30} | _KIBIBYTES | _KILOBYTES,
        "decimal": {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
        | (_KILOBYTES | {"TB": 10**12, "PB": 10**15})
        | {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
        | (_KIBIBYTES | {"TiB": 2**40, "PiB": 2**50}),
    }
)
"""Units of limits: RabbitMQ's up to 3.12, and those since 3.13 with the meaning that they have there: Pi is 2^50, and T
is a unit."""

_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
_LIMIT = re.compile(rf"({_NUMBER}) ?([A-Za-z]*)")
_QUANTITY = re.compile(rf"({_NUMBER}) ?([A-Za-z]+)")


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a field's number, and how a value is written in the file."""

    name: str
    render: Callable[[float], str] = str


def parse_bytes(value: object) -> object:
    """Bytes from a text such as ``"64MiB"``; any other type is left to the type check. Raises ValueError."""
    if not isinstance(value, str):
        return value
    size = _parse(value, BYTE_UNITS, "64MiB")
    if not size.is_integer():
        raise ValueError("must be a whole number of bytes")
    return int(size)


def parse_seconds(value: object) -> object:
    """Seconds from a text such as ``"250ms"``; any other type is left to the type check. Raises ValueError."""
    return _parse(value, SECOND_UNITS, "250ms") if isinstance(value, str) else value


def _parse(text: str, units: dict[str, int] | dict[str, float], example: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in units:
        raise ValueError(f'must be a number with a unit ({", ".join(units)}), such as "{example}"')
    return float(match[1]) * units[match[2]]


def parse_limit(text: str, convention: UnitConvention) -> int:
    """Bytes from a limit such as ``"50MB"`` or ``"1073741824"``. Raises ValueError, which names the convention."""
    match = _LIMIT.fullmatch(text)
    units = {"": 1, **LIMIT_UNITS[convention]}
    if match is None or match[2] not in units:
        raise ValueError(
            f"{text!r} is no size; it must be a number of bytes, or one with a unit: {', '.join(units)[2:]} "
            f"({explain_convention(convention)})"
        )
    size = Fraction(match[1]) * units[match[2]]
    if size.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return size.numerator


def explain_convention(convention: UnitConvention) -> str:
    """The convention in words, for messages."""
    return f"unit convention {convention}: 1M is {LIMIT_UNITS[convention]['M']} bytes"


def render_bytes(size: float) -> str:
    """The shortest exact text, in quotes: 65536 is ``"64KiB"``."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % BYTE_UNITS[unit] == 0:
            return f'"{size / BYTE_UNITS[unit]:.0f}{unit}"'
    return f'"{size:.0f}B"'


def render_seconds(seconds: float) -> str:
    """The shortest exact text, in quotes: 0.25 is ``"250ms"``."""
    for unit in ("d", "h", "min"):
        if seconds and seconds % SECOND_UNITS[unit] == 0:
            return f'"{seconds / SECOND_UNITS[unit]:g}{unit}"'
    if seconds >= 1 or not seconds:
        return f'"{seconds:g}s"'
    return f'"{seconds * 1000:g}ms"'


def _parse_path(value: object) -> object:
    return Path(value) if isinstance(value, str) else value


FilePath = Annotated[Path, BeforeValidator(_parse_path)]
Bytes = Annotated[int, BeforeValidator(parse_bytes), Unit("bytes", render_bytes)]
Seconds = Annotated[float, BeforeValidator(parse_seconds), Unit("a duration", render_seconds)]
Messages = Annotated[int, Unit("messages")]
Transfers = Annotated[int, Unit("transfer frames")]
Connections = Annotated[int, Unit("connections")]
