"""The task that measures: memory each second, free disk space the more often the less there is, and its own lateness.

The alarms decide on the measured values. Publishers are told of a change in the engine's turn that follows, so their
windows close with the measurement that raises the alarm.

Memory that was freed is not in use, but Python's allocator keeps what the C library has not given back, and the
operating system goes on counting it. So before the memory alarm is raised, and each second while it is on, freed memory
is given back and memory is measured again: the alarm ends with its backlog. Above the paging limit the same is done
less often, so that queues do not page messages out for memory that is not in use. Giving 1 GiB back takes 38 ms and
holds the C library's lock for 30 ms of them, so it runs in a thread, and takes at most a twentieth of the time.

All log lines about alarms are written here, also about those that an operator or the store raises.
"""

import platform
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from math import inf
from typing import Protocol, TypeVar

import structlog
import trio

from core.alarms.disk_space import RETRIES_MAX, RETRY_S, DiskAlarm
from core.alarms.memory import UNKNOWN_TOTAL_BYTES, MemoryAlarm
from core.alarms.notices import DescriptorNotice, LagNotice
from core.alarms.registry import ALARMS, NOTICES, AlarmRegistry
from core.clock import Now
from core.config.alarms import AlarmSettings, parse_free_limit, parse_watermark
from core.config.units import explain_convention
from core.errors import Invalid, PreconditionFailed
from core.interface import Snapshot
from core.observe.buckets import LAG_SECONDS
from core.server.measures import Measures
from core.waiting.blocked_time import BlockedTimes

MEMORY_INTERVAL_S = 1.0
PAGING_GIVE_BACK_S = 10.0
"""Seconds between two times that memory is given back above the paging limit, when the alarm is not about to be
raised."""
GIVE_BACK_SHARE = 0.05
"""The largest share of the time that goes into giving memory back."""
MEASURING_S_MAX = 5.0
"""A measurement of free disk space that takes longer has failed."""

Result = TypeVar("Result")


class InThread(Protocol):
    """Runs a function that may take long, in a thread."""

    def __call__(self, function: Callable[[], Result], /) -> Awaitable[Result]:
        """Return what the function returns, or raise what it raises."""


async def in_thread(function: Callable[[], Result], /) -> Result:
    """See :class:`InThread`. A caller that is cancelled does not wait; the thread then ends on its own."""
    return await trio.to_thread.run_sync(function, abandon_on_cancel=True)


class Sampler:
    """Measures, and keeps alarms and notices up to date. Limits changed while it runs hold until the next start."""

    def __init__(
        self,
        *,
        settings: AlarmSettings,
        registry: AlarmRegistry,
        measures: Measures,
        clock: Callable[[], Now],
        memory_sampled: Callable[[int, int, Now], None],
        log: structlog.typing.FilteringBoundLogger,
        in_thread: InThread = in_thread,
    ) -> None:
        """``memory_sampled`` is called each second with the bytes in use, the limit and the time."""
        self._convention = settings.unit_convention
        self._registry = registry
        self._measures = measures
        self._clock = clock
        self._memory_sampled = memory_sampled
        self._log = log
        self._in_thread = in_thread
        self._memory = MemoryAlarm(
            registry,
            watermark=settings.watermark,
            total=measures.memory_total(),
            paging_ratio=settings.paging_ratio,
            unit_convention=self._convention,
        )
        self._disk = DiskAlarm(
            registry,
            free_limit=settings.free_limit,
            total_memory=self._memory.total,
            unit_convention=self._convention,
        )
        self._lag = LagNotice(registry, limit_s=settings.event_loop_lag)
        self._descriptors = DescriptorNotice(registry, share=settings.sockets_share)
        self.lag_counts = [0] * (len(LAG_SECONDS) + 1)
        """How late the wake-ups of this task were: for each bound in ``LAG_SECONDS`` those that were no later, but
        later than the bound before; last, those later than all bounds."""
        self.lag_seconds = 0.0
        """The sum of the lateness of all wake-ups."""
        self._alarm_times: BlockedTimes[str] = BlockedTimes()
        self._memory_due = self._disk_due = -inf
        self._give_back_from = self._gave_back_at = -inf
        self._memory_measurable = True
        self._hurry = trio.Event()
        self._starting = True
        for name in registry.raised:
            self._alarm_times.begin(name, clock().monotonic)
        registry.witness = self._alarm_changed

    # --- measuring -----------------------------------------------------------------------------------------

    async def run(self, turn: Callable[[], None]) -> None:
        """Measure until cancelled. ``turn`` is the engine's: it tells publishers of a change at once."""
        self._tell_watermark()
        self._tell_free_limit()
        while True:
            now = self._clock().monotonic
            if self._memory_due <= now:
                self._measure_descriptors()
                await self._measure_memory(now)
                self._memory_due = now + MEMORY_INTERVAL_S
                turn()
            if self._disk_due <= now:
                await self._measure_disk()
                self._disk_due = now + self._disk.next_check_s()
                turn()
            self._starting = False
            await self._sleep(min(self._memory_due, self._disk_due))

    async def _sleep(self, due: float) -> None:
        """Sleep until ``due``, or until a measurement is wanted at once."""
        due = max(due, self._clock().monotonic)
        with trio.move_on_at(due):
            await self._hurry.wait()
        if not self._hurry.is_set():
            lag = self._clock().monotonic - due
            self._lag.sample(lag)
            self.lag_counts[bisect_left(LAG_SECONDS, lag)] += 1
            self.lag_seconds += lag
            return
        self._hurry = trio.Event()
        self._memory_due = -inf
        if not self._disk.disabled:
            self._disk_due = -inf

    def _measure_descriptors(self) -> None:
        used, limit = self._measures.sockets()
        self._descriptors.sample(sockets_used=used, sockets_limit=limit)

    async def _measure_memory(self, now: float) -> None:
        if not self._memory_measurable:
            return
        try:
            used = self._measures.memory_used()
            if self._worth_giving_back(used, now):
                await self._give_back(now)
                used = self._measures.memory_used()
        except OSError as error:
            self._memory_measurable = False
            self._log.warning("memory-monitoring-disabled", reason=str(error))
            return
        self._memory.sample(used)
        self._memory_sampled(used, self._memory.limit, self._clock())

    def _worth_giving_back(self, used: int, now: float) -> bool:
        if now < self._give_back_from:
            return False
        if self._memory.exceeded_by(used):
            return True
        paging_limit = self._memory.paging_limit
        return paging_limit is not None and used > paging_limit and now >= self._gave_back_at + PAGING_GIVE_BACK_S

    async def _give_back(self, now: float) -> None:
        await self._in_thread(self._measures.give_back)
        done = self._clock().monotonic
        self._gave_back_at = now
        self._give_back_from = done + (done - now) / GIVE_BACK_SHARE

    async def _measure_disk(self) -> None:
        try:
            free = await self._disk_free()
        except OSError as error:
            self._disk.failed()
            if self._disk.disabled:
                self._log.warning("disk-monitoring-disabled", text="Disabling disk free space monitoring")
            else:
                self._log.warning(
                    "disk-not-measured",
                    reason=str(error),
                    retry_s=RETRY_S,
                    retries_left=RETRIES_MAX + 1 - self._disk.failures,
                )
        else:
            self._disk.sample(free)

    async def _disk_free(self) -> int:
        with trio.move_on_after(MEASURING_S_MAX):
            return await self._in_thread(self._measures.disk_free)
        raise TimeoutError(f"the disk has not told its free space within {MEASURING_S_MAX:g} s")

    # --- for an operator -----------------------------------------------------------------------------------

    def set_memory_watermark(self, text: str) -> None:
        """Set another watermark, written as in the configuration. Raises Invalid, PreconditionFailed."""
        if not self._memory_measurable:
            raise PreconditionFailed("memory cannot be measured here, so it has no watermark")
        try:
            watermark = parse_watermark(text, self._convention)
        except ValueError as error:
            raise Invalid(str(error)) from None
        self._memory.set_watermark(watermark, self._measures.memory_total())
        self._tell_watermark()
        self._memory.sample(self._memory.used)
        self._hurry.set()

    def set_disk_free_limit(self, text: str) -> None:
        """Set another limit, written as in the configuration. Raises Invalid, PreconditionFailed."""
        if self._disk.disabled:
            self._log.warning("disk-free-limit-ignored", reason="disk free space monitoring is disabled")
            raise PreconditionFailed(
                "free disk space cannot be measured here; monitoring is disabled until the next start"
            )
        try:
            free_limit = parse_free_limit(text, self._convention)
        except ValueError as error:
            raise Invalid(str(error)) from None
        self._disk.set_limit(free_limit, self._memory.total)
        self._tell_free_limit()
        if self._disk.free is not None and not self._disk.failures:
            self._disk.sample(self._disk.free)
        self._hurry.set()

    def memory(self) -> Snapshot:
        """The memory alarm's row, with a warning about the watermark if there is one."""
        return {**self._row("memory"), "measured": self._memory_measurable, "warning": self._memory.warning}

    def disk(self) -> Snapshot:
        """The disk alarm's row."""
        return self._row("disk")

    def alarm_seconds(self) -> dict[str, float]:
        """How long each alarm and notice has been on, in all."""
        return dict.fromkeys(ALARMS + NOTICES, 0.0) | self._alarm_times.seconds(self._clock().monotonic)

    def _row(self, name: str) -> Snapshot:
        return next(row for row in self._registry.snapshot() if row["name"] == name)

    # --- the log -------------------------------------------------------------------------------------------

    def _tell_watermark(self) -> None:
        memory = self._memory
        if not memory.total_known:
            text = f"Unknown total memory size for your OS {platform.system()}; assuming {UNKNOWN_TOTAL_BYTES} bytes"
            self._log.warning("memory-total-unknown", text=text)
        self._log.info(
            "memory-watermark-set",
            watermark=memory.watermark.text,
            limit=memory.limit,
            total=memory.total,
            units=explain_convention(self._convention),
        )
        if memory.warning is not None:
            self._log.warning("memory-watermark-high", text=memory.warning)

    def _tell_free_limit(self) -> None:
        self._log.info(
            "disk-free-limit-set",
            text=f"Disk free limit set to {self._disk.free_limit.text}",
            limit=self._disk.limit,
            units=explain_convention(self._convention),
        )

    def _alarm_changed(self, row: Snapshot) -> None:
        """Log one line when an alarm comes on and one when it goes off, with the cause and the figures."""
        times, now = self._alarm_times, self._clock().monotonic
        (times.begin if row["on"] else times.end)(str(row["name"]), now)
        facts = {key: value for key, value in row.items() if key not in ("name", "level", "on", "since", "sources")}
        facts |= {"alarm": row["name"], "publishers_wait": row["level"] == "alarm"}
        if row["on"]:
            self._log.warning("alarm-on", **facts, at_start=self._starting)
        else:
            self._log.warning("alarm-off", **facts)
