"""Writes the descriptions of new queues into their folders, beside the event loop and some time after the declaration.

A folder and a file take the disk longer than the record of the definitions, which proves the queue already. No
client waits for a description, and a queue that is deleted soon never gets one. After a kill the next start writes
those that are missing, as after a power cut. An orderly stop writes all.

A queue may be deleted while its description is being written. Then the folder of the queue is removed before, behind or
between; so what was written is removed once more behind it, and the queue's number stays known until then
(:meth:`Describer.writes`).
"""

from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import trio

from core.clock import Now
from core.server.storage_task import RunBlocking
from core.store.definitions import StoredQueue
from core.store.descriptions import Description, remove_description, write_description

DESCRIBED_AFTER_S = 1.0
"""Seconds between a declaration and its description. The disk writes what is not synced back much later."""
DESCRIBED_AT_ONCE = 16
"""The most descriptions that a thread writes before it looks which of their queues were deleted: 2 to 20 ms."""


class _Waiting(NamedTuple):
    description: Description
    due: float
    """Monotonic seconds."""


class Describer:
    """The descriptions that are to be written. Used by the event loop only."""

    def __init__(self, root: Path, *, start: int, clock: Callable[[], Now]) -> None:
        """``start`` is the number of this start."""
        self._root = root
        self._start = start
        self._clock = clock
        self._wake: Callable[[], None] = lambda: None
        self._waiting: dict[int, _Waiting] = {}
        """By the number of the queue, in the order of their declaration."""
        self._out: dict[int, Description] = {}
        """Those that a thread is writing."""
        self._gone: dict[int, Description] = {}
        """Those of them whose queues were deleted meanwhile."""

    def add(self, host: str, queue: StoredQueue, generation: int) -> None:
        """Have a new queue of a virtual host described. ``generation`` is that of the definitions."""
        due = self._clock().monotonic + DESCRIBED_AFTER_S
        self._waiting[queue.id] = _Waiting(Description(queue, host, generation), due)
        self._wake()

    def forget(self, number: int) -> None:
        """The queue with this number is deleted."""
        if self._waiting.pop(number, None) is None and number in self._out:
            self._gone[number] = self._out[number]

    def writes(self, number: int) -> bool:
        """Whether a description of this queue may still come into its folder."""
        return number in self._out or number in self._gone

    async def run(self, run_blocking: RunBlocking, turn: Callable[[], None]) -> None:
        """Write what is due, until cancelled. See :data:`core.server.run.Background`."""
        while True:
            event = trio.Event()
            self._wake = event.set
            if not self._waiting:
                await event.wait()
            first = next(iter(self._waiting.values()), None)
            if first is None:
                continue
            await trio.sleep(max(0.0, first.due - self._clock().monotonic))
            await self._write_some(run_blocking, self._clock().monotonic)

    async def write_all(self, run_blocking: RunBlocking) -> None:
        """Write all that wait, for an orderly stop."""
        while self._waiting:
            await self._write_some(run_blocking, float("inf"))

    async def _write_some(self, run_blocking: RunBlocking, until: float) -> None:
        due = [one.description for one in islice(self._waiting.values(), DESCRIBED_AT_ONCE) if one.due <= until]
        for description in due:
            del self._waiting[description.queue.id]
        self._out = {description.queue.id: description for description in due}
        try:
            await run_blocking(partial(self._write, due))
            self._out = {}
            while self._gone:
                gone = list(self._gone.values())
                await run_blocking(partial(self._remove, gone))
                for description in gone:
                    del self._gone[description.queue.id]
        except trio.Cancelled:  # mostly before the thread has begun; an orderly stop writes them
            left = {number: _Waiting(one, 0.0) for number, one in self._out.items() if number not in self._gone}
            self._waiting = left | self._waiting
            raise
        finally:
            self._out, self._gone = {}, {}

    def _write(self, descriptions: list[Description]) -> None:
        for description in descriptions:
            write_description(self._root, description, start=self._start)

    def _remove(self, descriptions: list[Description]) -> None:
        for description in descriptions:
            remove_description(self._root, description.queue)
