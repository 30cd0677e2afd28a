"""How a consumer reads a stream. Other modules have these names from :mod:`core.interface`."""

from dataclasses import dataclass
from enum import Enum

AGE_SECONDS = {"Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
"""Seconds in each unit of an age such as ``7D``, for messages of a stream: years of 365 days, months of 30."""


class StreamPosition(Enum):
    """Named positions in a stream at which a consumer may begin."""

    FIRST = "first"
    LAST = "last"
    NEXT = "next"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How a consumer reads a stream."""

    position: StreamPosition | int | float = StreamPosition.NEXT
    """Where to begin: an offset (int), or the first chunk not before a wall-clock time in seconds (float)."""
    filter_values: tuple[str, ...] = ()
    """Only messages with one of these filter values; empty for all."""
    match_unfiltered: bool = False  # with filter values: also messages that have none


NEW_MESSAGES = StreamOptions()
"""The options of a consumer that asks for nothing."""
