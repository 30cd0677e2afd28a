"""What flow control has done on all connections of one protocol since the start.

Front ends add to it once per run, per flow, or when a link goes, and nobody asks it on a hot path. All of it only
grows. Labels are from closed lists, so there are never more than some dozens of figures.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from core.server.standing import StandingTimes

SETTLE_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""From the arrival of a message to its answer: below 1 ms nothing is synced, 1 to 20 ms is a sync of a good disk, and
from 0.1 s on somebody waits."""


class Durations:
    """A histogram of messages by how long something took."""

    __slots__ = ("bounds", "counts", "seconds")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        """Upper ones, in seconds."""
        self.counts = [0] * (len(bounds) + 1)
        """For each bound what was not above it but above the one before; last, what was above all."""
        self.seconds = 0.0
        """Of all together."""

    def observe(self, seconds: float, n: int) -> None:
        """It took ``n`` messages so long; less than nothing, by a clock that is behind, is nothing."""
        self.counts[bisect_left(self.bounds, seconds)] += n
        if seconds > 0.0:
            self.seconds += n * seconds


@dataclass(slots=True)
class LinkCreditTotals:
    """Link credit of links that are gone, in one direction. One is one message.

    What was granted has been consumed, drained or withdrawn (the receiver lowered it, or its link went with it).
    """

    granted: int = 0
    consumed: int = 0
    drained: int = 0
    withdrawn: int = 0
    unbalanced: int = 0
    """Links of which that was not true: bugs of ours."""

    def add(self, *, granted: int, consumed: int, drained: int, withdrawn: int, left: int) -> None:
        """A link is gone that still had link credit ``left``."""
        self.granted += granted
        self.consumed += consumed
        self.drained += drained
        self.withdrawn += withdrawn + left
        self.unbalanced += granted != consumed + drained + withdrawn + left


@dataclass(slots=True)
class FlowTotals:
    """Of one protocol. Directions are ``in`` from publishers and ``out`` to consumers."""

    link_credit: dict[str, LinkCreditTotals] = field(
        default_factory=lambda: {"in": LinkCreditTotals(), "out": LinkCreditTotals()}
    )
    transfers_over_credit: int = 0
    """Messages that came although nothing was granted for them; each has ended its link."""
    flow_frames: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By direction and kind."""
    closed_windows: StandingTimes[tuple[str, str]] = field(default_factory=StandingTimes)
    """Of sessions, by direction and reason."""
    paused_readers: StandingTimes[str] = field(default_factory=StandingTimes)
    """Of connections whose socket is not read, by reason."""
    settle_seconds: dict[bool, Durations] = field(
        default_factory=lambda: {durable: Durations(SETTLE_SECONDS) for durable in (False, True)}
    )
    """From the arrival of durable messages, and of others, to the answer."""
    decode_errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Of what peers sent and nobody understood, by stage and condition."""
