"""The calling side: tasks that make one call after the other, and a record of every call.

Each body begins with a different count, so that an answer to another call is noticed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count
from typing import Protocol

import trio

from amqp10.services import ServiceError
from bench.calling.plan import COMMAND, FAST, SLOW, Calls, Measurement

TIME_OUT_S = 30.0
"""The time-out of a call: an answer that takes longer counts as lost."""
NS_PER_MS = 1e6


class Calling(Protocol):
    """The part of a service that is measured."""

    async def call(self, target: str, command: str, body: object = b"", *, time_out_s: float | None = None) -> object:
        """Execute a command on the target, and wait for its answer."""


class Caller:
    """One measurement: makes the calls, and counts their results."""

    def __init__(self, service: Calling, measurement: Measurement) -> None:
        self._service = service
        self._measurement = measurement
        self._numbers = count(1)
        self._all_calls = 0
        self._slow_answers = 0
        self._wrong = 0
        self._problem = ""
        self._latencies_ns: list[int] | None = None
        """Latencies of calls that began after the warm-up; None before."""
        self._over = False

    async def run(self) -> Calls:
        """Make the calls, and wait for every answer."""
        told = self._measurement
        async with trio.open_nursery() as slow:
            for number in range(told.slow_in_flight):
                slow.start_soon(self._call_slow, told.warm_up_seconds * number / told.slow_in_flight)
            async with trio.open_nursery() as fast:
                for _ in range(told.in_flight):
                    fast.start_soon(self._call)
                await trio.sleep(told.warm_up_seconds)
                latencies: list[int] = []
                self._latencies_ns = latencies
                began = time.monotonic_ns()
                await trio.sleep(told.seconds)
                seconds, calls = (time.monotonic_ns() - began) / 1e9, len(latencies)
                self._over = True
            slow.cancel_scope.cancel()
        return Calls(
            all_calls=self._all_calls,
            calls=calls,
            seconds=seconds,
            p50_ms=percentile(latencies, 50) / NS_PER_MS,
            p99_ms=percentile(latencies, 99) / NS_PER_MS,
            wrong=self._wrong,
            problem=self._problem,
            slow_answers=self._slow_answers,
        )

    async def _call(self) -> None:
        call, size = self._service.call, self._measurement.body_bytes
        while not self._over:
            body = (b"%d." % next(self._numbers)).ljust(size, b".")
            latencies, began = self._latencies_ns, time.monotonic_ns()
            try:
                answer = await call(FAST, COMMAND, body, time_out_s=TIME_OUT_S)
            except ServiceError as error:
                self._note_wrong(f"{type(error).__name__}: {error}")
                return
            if latencies is not None:
                latencies.append(time.monotonic_ns() - began)
            self._all_calls += 1
            if answer != body:
                self._note_wrong(f"the answer to {body!r} is {answer!r}")

    async def _call_slow(self, delay_s: float) -> None:
        """Start with a delay. Without it all calls would be answered, and made again, at the same moment."""
        await trio.sleep(delay_s)
        while True:
            await self._service.call(SLOW, COMMAND, b"slow", time_out_s=60 * TIME_OUT_S)
            self._slow_answers += 1

    def _note_wrong(self, problem: str) -> None:
        self._wrong += 1
        self._problem = self._problem or problem


def percentile(values: Sequence[int], percent: float) -> float:
    """The smallest value that is not exceeded by this percentage of the values; NaN for no values."""
    if not values:
        return float("nan")
    ranked = sorted(values)
    return ranked[max(0, -int(-len(ranked) * percent // 100) - 1)]
