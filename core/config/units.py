"""What the numbers of the configuration count, and how people write them: ``"64MiB"``, ``"250ms"``, ``"5s"``.

Inside, a size is an ``int`` of bytes and a duration a ``float`` of seconds; other units belong to the text
only. A bare number means bytes or seconds.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

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

_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]+)")


@dataclass(frozen=True, slots=True)
class Unit:
    """What a field's number counts, and how a value of it is written in the file."""

    name: str
    render: Callable[[float], str] = str


def parse_bytes(value: object) -> object:
    """Bytes from a text such as ``"64MiB"``; what is no text is left to the type check. Raises ValueError."""
    if not isinstance(value, str):
        return value
    size = _parse(value, BYTE_UNITS, "64MiB")
    if not size.is_integer():
        raise ValueError("must be a whole number of bytes")
    return int(size)


def parse_seconds(value: object) -> object:
    """Seconds from a text such as ``"250ms"``; as above."""
    return _parse(value, SECOND_UNITS, "250ms") if isinstance(value, str) else value


def _parse(text: str, units: dict[str, int] | dict[str, float], example: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in units:
        raise ValueError(f'must be a number with a unit ({", ".join(units)}), such as "{example}"')
    return float(match[1]) * units[match[2]]


def render_bytes(size: float) -> str:
    """The shortest exact text, quoted: 65536 is ``"64KiB"``."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % BYTE_UNITS[unit] == 0:
            return f'"{size / BYTE_UNITS[unit]:.0f}{unit}"'
    return f'"{size:.0f}B"'


def render_seconds(seconds: float) -> str:
    """The shortest exact text, quoted: 0.25 is ``"250ms"``."""
    for unit in ("d", "h", "min"):
        if seconds and seconds % SECOND_UNITS[unit] == 0:
            return f'"{seconds / SECOND_UNITS[unit]:g}{unit}"'
    if seconds >= 1 or not seconds:
        return f'"{seconds:g}s"'
    return f'"{seconds * 1000:g}ms"'


Bytes = Annotated[int, BeforeValidator(parse_bytes), Unit("bytes", render_bytes)]
Seconds = Annotated[float, BeforeValidator(parse_seconds), Unit("a duration", render_seconds)]
Messages = Annotated[int, Unit("messages")]
Transfers = Annotated[int, Unit("transfer frames")]
Connections = Annotated[int, Unit("connections")]
