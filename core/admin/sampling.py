"""The task behind time lines and rates: a sample of everything each second, in slices between which messages have
their turn.
"""

import trio

from core.observe.overview import Overview
from core.observe.timelines import INTERVAL_S, Timelines


class Sampling:
    """Samples as long as the admin server runs."""

    def __init__(self, *, overview: Overview, timelines: Timelines) -> None:
        self._overview = overview
        self._timelines = timelines

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            due = trio.current_time() + INTERVAL_S
            self._overview.sample()
            for _ in self._timelines.sample():
                await trio.lowlevel.checkpoint()
            await trio.sleep_until(max(due, trio.current_time()))
