"""The task behind the ledger of stalls: when it looks and when it reports, on a clock that the test moves."""

from collections.abc import Iterator

import structlog
import trio
import trio.testing
from structlog.testing import LogCapture

from core.clock import Now
from core.config.log import LogSettings
from core.flow_facts import StallSubject
from core.interface import FlowReason
from core.observe.stall_log import StallLog
from core.observe.stalls import Stall, Stalls
from core.server.rounds import StallRounds
from core.server.run import read_clocks

READER = StallSubject(
    identity="c1", connection="c1", peer="host:1", container_id="", user="guest", direction="in", address=""
)


def no_log() -> StallLog:
    """A logger whose lines are thrown away."""
    return StallLog(structlog.wrap_logger(None, processors=[LogCapture()]), LogSettings(), read_clocks)


class Heard:
    """A listener that notes the times of its calls."""

    def __init__(self) -> None:
        self.started: list[float] = []
        self.ended: list[float] = []

    def stall_started(self, stall: Stall) -> None:
        self.started.append(trio.current_time() - stall.since.monotonic)

    def look_failed(self, error: Exception) -> None:
        raise error

    def stall_ended(self, stall: Stall, now: Now) -> None:
        self.ended.append(now.monotonic - stall.since.monotonic)


async def test_a_stall_is_told_after_50_ms_and_within_a_second(autojump_clock: trio.testing.MockClock):
    heard = Heard()
    stalls = Stalls(clock=read_clocks, listeners=[heard])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(StallRounds(stalls, no_log()).run, lambda: None)
        for pause in (0.0, 0.17, 0.31):
            await trio.sleep(pause)
            stalls.blocked(READER, FlowReason.MEMORY, "alarm memory", read_clocks())
            await trio.sleep(1.0)
            stalls.unblocked(READER, read_clocks())
        nursery.cancel_scope.cancel()
    assert len(heard.started) == len(heard.ended) == 3
    assert all(0.05 <= delay <= 0.26 for delay in heard.started)


async def test_looks_are_taken_at_least_twice_a_second(autojump_clock: trio.testing.MockClock):
    looked: list[float] = []

    def look(now: Now) -> Iterator[int]:
        looked.append(now.monotonic)
        yield 1000

    stalls = Stalls(clock=read_clocks)
    stalls.look_at(look, wanted=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(StallRounds(stalls, no_log()).run, lambda: None)
        await trio.sleep(4.1)
        nursery.cancel_scope.cancel()
    assert len(looked) == 10
