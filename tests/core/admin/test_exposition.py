"""Metrics as text: the same text as prometheus-client writes, with checkpoints in between so that other tasks run."""

import trio
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest

from core.admin.exposition import SLICE_SAMPLES, exposition
from core.admin.slices import SLICE_S


class Registry:
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def gauge(name: str, count: int) -> Metric:
    family = GaugeMetricFamily(name, "Two\nlines.", labels=["address"])
    for number in range(count):
        family.add_metric([f"q{number}"], number)
    return family


def text_of(families: list[Metric]) -> bytes:
    async def make() -> bytes:
        return b"".join(await exposition(lambda: families))

    return trio.run(make)


@given(
    st.lists(
        st.sampled_from([0, 1, SLICE_SAMPLES - 1, SLICE_SAMPLES, SLICE_SAMPLES + 1, 2 * SLICE_SAMPLES]), max_size=4
    )
)
def test_slices_put_together_are_what_prometheus_client_makes(counts: list[int]):
    families = [gauge(f"family_{number}", count) for number, count in enumerate(counts)]
    assert text_of(families) == generate_latest(Registry(families))


def test_counters_and_histograms_keep_their_names():
    counter = CounterMetricFamily("headgate_published", "Messages taken.", value=5)
    histogram = HistogramMetricFamily("headgate_sync_seconds", "Syncs.", buckets=[("0.1", 1), ("+Inf", 2)], sum_value=3)
    families = [counter, histogram]
    assert text_of(families) == generate_latest(Registry(families))


class Clock:
    """A clock that goes on by one step each time it is read."""

    def __init__(self, step_s: float) -> None:
        self.now = 0.0
        self._step_s = step_s

    def __call__(self) -> float:
        self.now += self._step_s
        return self.now


async def turns_during(families: list[Metric], clock: Clock) -> tuple[int, int]:
    """How many turns another task gets while a scrape is written, and how many pieces the scrape has."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        while not turns:
            await trio.lowlevel.checkpoint()
        turns = 0
        pieces = await exposition(lambda: families, clock)
        found = turns
        nursery.cancel_scope.cancel()
    return found, len(pieces)


async def test_others_have_their_turn_in_each_slice():
    turns, pieces = await turns_during([gauge("many", 10 * SLICE_SAMPLES)], Clock(2 * SLICE_S))
    assert pieces == 10
    assert turns >= 9  # between the ten pieces


async def test_small_families_share_a_turn_or_a_busy_loop_makes_the_scrape_time_out():
    turns, pieces = await turns_during([gauge(f"family_{number}", 2) for number in range(100)], Clock(SLICE_S / 20))
    assert pieces == 100
    # Six slices of 19 families, as the clock is read where each begins. Trio runs the two tasks in any order.
    assert turns <= 7
