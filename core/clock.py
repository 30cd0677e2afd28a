"""The time as a value.

Nothing below the server reads a clock. The server reads both clocks once per batch of work and hands the reading
down, so that a test moves time by passing another number.
"""

from typing import NamedTuple


class Now(NamedTuple):
    """One reading of the clocks, both in seconds."""

    monotonic: float
    """Never goes back: for deadlines, ages and durations."""
    wall: float
    """Seconds since the epoch: for what people and other machines read."""
