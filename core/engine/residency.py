"""How much of the queues may stay in memory: the policy, in figures only.

Each queue tells every five seconds how long its messages in memory would last at the rates at which they come, go and
are settled: its *duration*, in seconds. From the memory in use and the durations of all queues follows one *duration
target*, the same for all, so that a queue gets memory in proportion to what it moves. A queue multiplies the target by
its rates and has the number of messages that it may keep in memory, the *target*; what is above it goes to disk, in
batches. Infinity stands for "no limit" in durations and targets.

The names and constants follow the documents that the queues come from; ``docs/design/queues-that-lose-nothing.md`` has
the whole. What is new is only that no queue is told in the middle of something else: :class:`Residency` says which
queues have to give memory back, and the pump comes to them.

This module knows no queue, no message and no clock.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isinf
from typing import NamedTuple, Protocol

from core.store.places import SEGMENT_MESSAGES

HALF_LIFE_S = 5.0
"""A rate forgets half of what was in this time."""

RATES_MESSAGES = 100
"""Messages in or out after which rates are taken anew, where something depends on them."""

IDLE_RATE = 0.01
"""Messages a second. With all rates below it a queue is idle, and its messages last for ever."""

REPORT_INTERVAL_S = 5.0
"""How often a queue reports its duration and hears the target."""

SAMPLE_INTERVAL_S = 2.5
"""How often the memory in use is looked at."""

NEAR_LIMIT = 0.95
"""Memory ratio below which the target is raised by one more queue-second: there is room to grow into."""

REPORTS_MAX = 256
"""Reports gathered in one go: with 10,000 queues, about half a millisecond instead of twenty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """In what portions a queue pages."""

    io_batch_size: int = 2048
    """Messages paged in one go. The first documents have 64: enough to share one write among them, and few enough not
    to hold up the queue. Here a batch costs one record for each run, and paging one out takes less than a microsecond
    for each message, so the larger number of later versions amortises better and still holds up the queue for less
    than two milliseconds."""
    betas_min: int = SEGMENT_MESSAGES
    """Betas and gammas that a queue may always keep: the index of one segment, which is read as a whole."""
    place_messages: int = 1024
    """Messages of whom it is looked up in one go where they are: 5 ms of work where they were published one by one."""
    read_messages: int = 256
    """Bodies read ahead in one go: as many as one queue grant of the front ends asks for."""
    read_bytes: int = 2**20
    """The same in bytes. A larger body is read alone."""


class Rates(NamedTuple):
    """Messages a second, as moving averages."""

    ingress: float = 0.0
    """Published."""
    egress: float = 0.0
    """Fetched."""
    ack_ingress: float = 0.0
    """Handed out, to be settled later."""
    ack_egress: float = 0.0
    """Settled."""


class Moved(NamedTuple):
    """Counts of the same four things; they only grow."""

    ingress: int = 0
    egress: int = 0
    ack_ingress: int = 0
    ack_egress: int = 0


def averaged(rates: Rates, moved: Sequence[int], elapsed_s: float) -> Rates:
    """The rates after some time in which so much moved: a moving average with :data:`HALF_LIFE_S`."""
    if elapsed_s <= 0:
        return rates
    kept = 0.5 ** (elapsed_s / HALF_LIFE_S)
    return Rates(*(rate * kept + count / elapsed_s * (1 - kept) for rate, count in zip(rates, moved, strict=True)))


def queue_duration(in_ram: int, in_ram_before: int, rates: Rates) -> float:
    """How long messages in memory last, in seconds: the mean of two reports over the mean of four rates.

    ``in_ram`` counts ready messages and those handed out.
    """
    if max(rates) < IDLE_RATE:
        return inf
    return (in_ram + in_ram_before) / (4 * sum(rates))


def duration_target(*, ratio: float, paging_ratio: float, total: float, count: int, disk_alarm: bool = False) -> float:
    """For how many seconds queues may keep messages in memory.

    ``ratio``: memory in use, in parts of the watermark; infinite where the watermark is 0. ``total`` and ``count``: the
    finite durations of queues, summed and counted. Under a disk alarm nothing is paged: that would need the space.
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
    """How many betas and gammas a queue may keep; what is above goes to delta.

    ``alphas``: the messages of q1 and q4. The fewer messages may be in memory, the smaller the share of the rest whose
    index is.
    """
    if not depth or isinf(target):
        return inf
    if not target:
        return min(q3, betas_min)
    rest = depth - alphas
    return max(betas_min, rest - rest * rest // (rest + int(target)))


def chunk_size(current: int, permitted: float, io_batch_size: int) -> int:
    """How many messages to page now, when so many are there and so many may be."""
    return 0 if current <= permitted else min(current - int(permitted), io_batch_size)


def acks_first(rates: Rates) -> bool:
    """What to page first: of acks and ready messages, those that grow faster."""
    return rates.ack_ingress - rates.ack_egress > rates.ingress - rates.egress


class Resident(Protocol):
    """Something that keeps messages in memory, and can do with less."""

    def report(self, now: float) -> float:
        """Take the rates (monotonic seconds) and return the duration."""

    def set_duration_target(self, target_s: float) -> bool:
        """Keep no more than for this time. True: there is something to give back, so the queue that it belongs to
        should be touched."""


class Residency:
    """Durations of all queues, and the target that follows."""

    __slots__ = ("_disk_alarm", "_due", "_durations", "_paging_ratio", "_ratio", "duration_target")

    def __init__(self, paging_ratio: float) -> None:
        """``paging_ratio``: the share of the watermark at which paging begins; above 1 it never does."""
        self.duration_target = inf
        self._paging_ratio = paging_ratio
        self._ratio = 0.0
        self._disk_alarm = False
        self._durations: dict[Resident, float] = {}
        self._due: deque[tuple[float, Resident]] = deque()
        """When each reports next, in that order. Who has left drops out when its time comes."""

    def add(self, resident: Resident, now: float) -> None:
        """A queue comes. It reports first after one interval."""
        self._durations[resident] = inf
        self._due.append((now + REPORT_INTERVAL_S, resident))

    def remove(self, resident: Resident) -> None:
        """A queue goes."""
        del self._durations[resident]

    @property
    def deadline(self) -> float:
        """When the next report is due (monotonic seconds); infinity while there are no queues."""
        return self._due[0][0] if self._due else inf

    def gather(self, now: float) -> list[Resident]:
        """Let those report whose time has come, and tell them the target. Returns those that have to give back."""
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
        return pressed

    def sample(self, ratio: float, *, disk_alarm: bool) -> list[Resident]:
        """Memory was looked at. Returns those that have to give back at once.

        A target that falls is told at once, one that rises at the next report; under a disk alarm the other way round.
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
