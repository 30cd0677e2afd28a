"""The task that takes a sample for time lines and rates every second. Other tasks run between two slices of it."""

import trio

from core.observe.overview import Overview
from core.observe.timelines import INTERVAL_S, Timelines


class Sampling:
    """Takes samples while the admin server runs."""

    def __init__(self, *, overview: Overview, timelines: Timelines) -> None:
        self._overview = overview
        self._timelines = timelines

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            due = trio.current_time() + INTERVAL_S
            self._overview.sample()
            for _ in self._timelines.sample():
                await trio.lowlevel.checkpoint()
            await trio.sleep_until(max(due, trio.current_time()))
