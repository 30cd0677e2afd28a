"""The CPU time of a broker's process, and when the broker has done all its work. It needs Linux."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

QUIET_SHARE = 0.1
"""A broker that uses less than this share of a processor, and does not wait for one, has done its work."""
QUIET_SECONDS = 0.01
QUIET_TIMES = 2
QUIET_SECONDS_MAX = 30.0
BUSY_SHARE = 0.2
"""A broker that uses this share of a processor without any operation is never quiet."""
BUSY_SECONDS_MAX = 1.0
SECONDS_MAX = 6
NEARLY = 0.7
"""The share of the cost of the second before: idle seconds differ by that much."""
_CPU_CLOCK = 2
"""The kernel makes the clock of a process's CPU time from its id and this kind."""


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """The CPU time of one process with all its threads, also those that have ended, to the nanosecond."""

    pid: int

    def seconds(self) -> float:
        """The CPU time so far."""
        return time.clock_gettime(~self.pid << 3 | _CPU_CLOCK)

    def settled(self, idle: float = 0.0) -> float:
        """Wait until the broker has also done what it put off, 30 s at most; returns the CPU time then.

        ``idle`` is the share of a processor that it uses without operations. With much of it the wait is at most 1 s.
        """
        deadline = time.monotonic() + (BUSY_SECONDS_MAX if idle >= BUSY_SHARE else QUIET_SECONDS_MAX)
        now, quiet = self.seconds(), 0
        while quiet < QUIET_TIMES and time.monotonic() < deadline:
            before = now
            time.sleep(QUIET_SECONDS)
            now = self.seconds()
            quiet = 0 if now - before > QUIET_SHARE * QUIET_SECONDS or self._runnable() else quiet + 1
        return now

    def _runnable(self) -> bool:
        """Whether a thread runs or waits for a processor."""
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
                if (task / "stat").read_text().rpartition(")")[2].split()[0] == "R":
                    return True
        return False

    def per_second(self, seconds: float) -> float:
        """The CPU time that the broker uses in a second without any operation.

        A broker writes the descriptions of new queues up to two seconds later, in threads. So seconds are measured
        until one costs nearly as much as the one before, or until there were :data:`SECONDS_MAX` of them.
        """
        self.settled()
        cost = self._one_second(seconds)
        for _ in range(SECONDS_MAX - 1):
            before, cost = cost, self._one_second(seconds)
            if NEARLY * before <= cost <= before / NEARLY:
                break
        return cost

    def _one_second(self, seconds: float) -> float:
        before, began = self.seconds(), time.monotonic()
        time.sleep(seconds)
        return (self.seconds() - before) / (time.monotonic() - began)
