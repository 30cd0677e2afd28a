"""How many messages each queue may keep in memory: the calculation only.

Every five seconds each queue reports its *duration*: how many seconds its messages in memory would last at the current
rates of publishing, delivery and settlement. One *duration target* for all queues is calculated from the memory in use
and all durations, so that each queue gets memory in proportion to its rates. A queue multiplies the duration target by
its rates; the result, its *target*, is the number of messages that it may keep in memory. Messages above the target are
paged out in batches. Infinity means "no limit" in durations and targets.

The names and constants follow the documents that describe this queue design; see
``docs/design/queues-that-lose-nothing.md``. One thing differs: a queue never pages out while it does something else.
:class:`Residency` returns the queues that have to free memory, and the pump gives each of them a turn.

This module knows no queue, no message and no clock.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isinf
from typing import NamedTuple, Protocol

from core.store.places import SEGMENT_MESSAGES

HALF_LIFE_S = 5.0
"""Seconds in which the weight of an old rate in the average falls to a half."""

RATES_MESSAGES = 100
"""After this many messages in or out, the rates are updated if paging depends on them."""

IDLE_RATE = 0.01
"""Messages a second. A queue with all rates below this is idle, and its duration is infinite."""

REPORT_INTERVAL_S = 5.0
"""How often a queue reports its duration and gets the duration target."""

SAMPLE_INTERVAL_S = 2.5
"""How often the memory in use is sampled."""

NEAR_LIMIT = 0.95
"""Below this ratio of memory in use to watermark, one second is added to the sum of durations, so that queues can
grow."""

REPORTS_MAX = 256
"""The most reports taken in one turn: with 10,000 queues a turn then takes about 0.5 ms instead of 20 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """The batch sizes of paging."""

    io_batch_size: int = 2048
    """Messages paged out in one batch. The first documents have 64: enough to share one write, and few enough not to
    delay the queue. Here a batch costs one record for each run, and paging out takes less than 1 µs for each message.
    So the larger number of later versions amortises better and still delays the queue for less than 2 ms."""
    betas_min: int = SEGMENT_MESSAGES
    """Betas and gammas that a queue may always keep: those of one index segment, which is read as a whole."""
    place_messages: int = 1024
    """Messages whose places on disk are looked up in one batch: 5 ms of work if they were published one by one."""
    read_messages: int = 256
    """Bodies read ahead in one batch: as many as the front ends ask for with one queue grant."""
    read_bytes: int = 2**20
    """Bytes of bodies read ahead in one batch. A larger body is read alone."""


class Rates(NamedTuple):
    """Messages a second, as moving averages."""

    ingress: float = 0.0
    """Published."""
    egress: float = 0.0
    """Fetched."""
    ack_ingress: float = 0.0
    """Delivered, and to be settled later."""
    ack_egress: float = 0.0
    """Settled."""


class Moved(NamedTuple):
    """Totals of the same four kinds of events; they never decrease."""

    ingress: int = 0
    egress: int = 0
    ack_ingress: int = 0
    ack_egress: int = 0


def averaged(rates: Rates, moved: Sequence[int], elapsed_s: float) -> Rates:
    """Update the rates after ``elapsed_s`` seconds in which ``moved`` messages moved: a moving average with
    :data:`HALF_LIFE_S`."""
    if elapsed_s <= 0:
        return rates
    kept = 0.5 ** (elapsed_s / HALF_LIFE_S)
    return Rates(*(rate * kept + count / elapsed_s * (1 - kept) for rate, count in zip(rates, moved, strict=True)))


def queue_duration(in_ram: int, in_ram_before: int, rates: Rates) -> float:
    """How many seconds the messages in memory last: the mean count of two reports, divided by twice the sum of the four
    rates.

    ``in_ram`` counts ready and delivered messages in memory.
    """
    if max(rates) < IDLE_RATE:
        return inf
    return (in_ram + in_ram_before) / (4 * sum(rates))


def duration_target(*, ratio: float, paging_ratio: float, total: float, count: int, disk_alarm: bool = False) -> float:
    """The duration target of all queues, in seconds.

    ``ratio``: memory in use divided by the watermark; infinite if the watermark is 0. ``total`` and ``count``: the sum
    and the number of finite durations. Under a disk alarm nothing is paged out, because that needs disk space.
    """
    if disk_alarm:
        return inf
    if isinf(ratio):
        return 0.0
    if ratio < paging_ratio or not count:
        return inf
    return (total + (1.0 if ratio < NEAR_LIMIT else 0.0)) / count / ratio


def target_ram_count(target_s: float, rates: Rates) -> float:
    """How many messages a queue may keep in memory: a whole number, or infinity."""
    return inf if isinf(target_s) else float(int(target_s * sum(rates)))


def permitted_betas(*, depth: int, alphas: int, q3: int, target: float, betas_min: int) -> float:
    """How many betas and gammas a queue may keep; those above this number become delta.

    ``alphas``: the number of messages in q1 and q4. The lower the target, the smaller the share of the other messages
    whose index entries stay in memory.
    """
    if not depth or isinf(target):
        return inf
    if not target:
        return min(q3, betas_min)
    rest = depth - alphas
    return max(betas_min, rest - rest * rest // (rest + int(target)))


def chunk_size(current: int, permitted: float, io_batch_size: int) -> int:
    """How many messages to page out now, with ``current`` messages in memory and ``permitted`` allowed."""
    return 0 if current <= permitted else min(current - int(permitted), io_batch_size)


def acks_first(rates: Rates) -> bool:
    """Return whether to page out delivered messages before ready ones: whichever kind grows faster comes first."""
    return rates.ack_ingress - rates.ack_egress > rates.ingress - rates.egress


class Resident(Protocol):
    """A backing that keeps messages in memory and can page them out."""

    def report(self, now: float) -> float:
        """Update the rates and return the duration. ``now``: monotonic seconds."""

    def set_duration_target(self, target_s: float) -> bool:
        """Set the duration target. Returns True if messages have to be paged out: touch the queue of this backing."""


class Residency:
    """The durations of all queues, and the duration target calculated from them."""

    __slots__ = ("_disk_alarm", "_due", "_durations", "_paging_ratio", "_ratio", "deadline", "duration_target")

    def __init__(self, paging_ratio: float) -> None:
        """``paging_ratio``: the share of the watermark at which paging begins; above 1 paging never begins."""
        self.duration_target = inf
        self.deadline = inf
        """When the next report is due (monotonic seconds); infinity without backings."""
        self._paging_ratio = paging_ratio
        self._ratio = 0.0
        self._disk_alarm = False
        self._durations: dict[Resident, float] = {}
        self._due: deque[tuple[float, Resident]] = deque()
        """When each resident reports next, in order of time. The entry of a removed resident is dropped when its time
        comes."""

    def add(self, resident: Resident, now: float) -> None:
        """Add a backing. Its first report is due after one interval."""
        self._durations[resident] = inf
        self._due.append((now + REPORT_INTERVAL_S, resident))
        self.deadline = self._due[0][0]

    def remove(self, resident: Resident) -> None:
        """Remove a backing."""
        del self._durations[resident]

    def gather(self, now: float) -> list[Resident]:
        """Take the reports that are due, and set the target of each. Returns the backings that have to page out."""
        pressed: list[Resident] = []
        for _ in range(min(REPORTS_MAX, len(self._due))):
            if self._due[0][0] > now:
                break
            _, resident = self._due.popleft()
            if resident in self._durations:
                self._due.append((now + REPORT_INTERVAL_S, resident))
                self._durations[resident] = resident.report(now)
                if resident.set_duration_target(self.duration_target):
                    pressed.append(resident)
        self.deadline = self._due[0][0] if self._due else inf
        return pressed

    def sample(self, ratio: float, *, disk_alarm: bool) -> list[Resident]:
        """The memory in use was sampled. Returns the backings that have to page out at once.

        A target that falls is set at once, one that rises at the next report; under a disk alarm the other way round.
        """
        self._ratio = ratio
        self._disk_alarm = disk_alarm
        before = self.duration_target
        self.duration_target = self._target()
        at_once = self.duration_target > before if disk_alarm else self.duration_target < before
        if not at_once:
            return []
        return [resident for resident in self._durations if resident.set_duration_target(self.duration_target)]

    def _target(self) -> float:
        finite = [duration for duration in self._durations.values() if not isinf(duration)]
        return duration_target(
            ratio=self._ratio,
            paging_ratio=self._paging_ratio,
            total=sum(finite),
            count=len(finite),
            disk_alarm=self._disk_alarm,
        )
