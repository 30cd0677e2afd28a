"""What flow control has done on all connections of one protocol since the start.

Front ends add to these totals once per run, per flow frame, or when a link ends; they are not read on hot paths. All of
them only grow. Labels are from closed lists, so there are never more than some dozens of figures.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from core.waiting.blocked_time import BlockedTimes

SETTLE_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Bounds, in seconds, for the time from the arrival of a message to its answer. Below 1 ms no sync was needed, 1 to 20
ms is a sync of a good disk, and from 0.1 s on publishers notice."""


class Durations:
    """A histogram: how many messages took how long."""

    __slots__ = ("bounds", "counts", "seconds")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        """Upper bounds, in seconds."""
        self.counts = [0] * (len(bounds) + 1)
        """For each bound, the messages that took no longer, but longer than the bound before; last, those above all
        bounds."""
        self.seconds = 0.0
        """The sum over all messages."""

    def observe(self, seconds: float, n: int) -> None:
        """Count ``n`` messages that took ``seconds``. A negative duration, from a clock that is behind, counts as 0."""
        self.counts[bisect_left(self.bounds, seconds)] += n
        if seconds > 0.0:
            self.seconds += n * seconds


@dataclass(slots=True)
class LinkCreditTotals:
    """Link credit of links that have ended, in one direction. One unit is one message.

    Everything granted was consumed, drained or withdrawn (the receiver lowered it, or its link ended).
    """

    granted: int = 0
    consumed: int = 0
    drained: int = 0
    withdrawn: int = 0
    unbalanced: int = 0
    """Links for which that sum was not right: bugs of ours."""

    def add(self, *, granted: int, consumed: int, drained: int, withdrawn: int, left: int) -> None:
        """Add the figures of a link that has ended with ``left`` unused link credit."""
        self.granted += granted
        self.consumed += consumed
        self.drained += drained
        self.withdrawn += withdrawn + left
        self.unbalanced += granted != consumed + drained + withdrawn + left


@dataclass(slots=True)
class FlowTotals:
    """The totals of one protocol. Directions are ``in`` from publishers and ``out`` to consumers."""

    link_credit: dict[str, LinkCreditTotals] = field(
        default_factory=lambda: {"in": LinkCreditTotals(), "out": LinkCreditTotals()}
    )
    transfers_over_credit: int = 0
    """Messages that came without link credit; each has ended its link."""
    flow_frames: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Count of flow frames, by direction and kind."""
    closed_windows: BlockedTimes[tuple[str, str]] = field(default_factory=BlockedTimes)
    """Time that session windows were closed, by direction and reason."""
    paused_readers: BlockedTimes[str] = field(default_factory=BlockedTimes)
    """Time that connections' sockets were not read, by reason. The stalls do not tell: a reader and a link without an
    address have the same labels there."""
    stage_credit: BlockedTimes[str] = field(default_factory=BlockedTimes)
    """Time that parties of connections had no stage credit, by their kind: ``reader`` or ``channel``."""
    settle_seconds: dict[bool, Durations] = field(
        default_factory=lambda: {durable: Durations(SETTLE_SECONDS) for durable in (False, True)}
    )
    """From the arrival of a message to the answer; the key is whether it is durable."""
    decode_errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Bytes from peers that could not be decoded, by stage and condition."""
