"""How the calls benchmark evaluates its runs, and a run of the benchmark for a moment."""

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from math import isnan
from pathlib import Path

import pytest
import trio

from amqp10.services import CallTimedOut
from bench.calling.caller import TIME_OUT_S, Caller, percentile
from bench.calling.plan import FAST, SLOW, Calls, Measurement, Plan
from bench.calls import P99_RATIO_MAX, RATE_MIN, fault, p99_ratios, seconds_or_never, verdict
from bench.results import Entry
from tests.kit.broker_process import ROOT

MEASUREMENT = Measurement(seconds=10.25, warm_up_seconds=5.5, in_flight=4, slow_in_flight=0, body_bytes=12)
CALLS = Calls(
    all_calls=120, calls=100, seconds=1.0, p50_ms=1.0, p99_ms=2.0, wrong=0, problem="", slow_answers=0
)  # fmt: skip


class Answering:
    """A service whose calls take a second each. A function of the body gives the answer."""

    def __init__(self, answer: Callable[[object], object], slow: Callable[[], Awaitable[None]] = trio.sleep_forever):
        self.answer = answer
        self.slow = slow
        self.asked: list[tuple[str, object]] = []

    async def call(self, target: str, command: str, body: object = b"", *, time_out_s: float | None = None) -> object:
        self.asked.append((target, body))
        assert command == "echo"
        if target == SLOW:
            await self.slow()
        await trio.sleep(1.0)
        return self.answer(body)


async def test_calls_are_counted_behind_the_warm_up_and_all_of_them_altogether(autojump_clock):
    service = Answering(lambda body: body)
    calls = await Caller(service, MEASUREMENT).run()
    assert calls.all_calls == len(service.asked) == len({body for _, body in service.asked})
    assert {len(body) for _, body in service.asked if isinstance(body, bytes)} == {12}
    assert (calls.all_calls, calls.calls) == (4 * 16, 4 * 9), "begun at 0 to 15 s; begun behind 5.5 s, over at 15.75 s"
    assert (calls.wrong, calls.problem, calls.slow_answers) == (0, "", 0)


async def test_the_answer_to_another_call_is_wrong(autojump_clock):
    calls = await Caller(Answering(lambda body: b"1".ljust(12, b".")), MEASUREMENT).run()
    assert calls.wrong == calls.all_calls - 1 > 0
    assert calls.problem.startswith("the answer to b'")


async def test_a_call_that_fails_is_wrong(autojump_clock):
    def lose(body: object) -> object:
        raise CallTimedOut("no answer")

    calls = await Caller(Answering(lose), MEASUREMENT).run()
    assert (calls.all_calls, calls.wrong, calls.problem) == (0, 4, "CallTimedOut: no answer")


async def test_slow_calls_go_on_beside_and_are_given_up_in_the_end(autojump_clock):
    service = Answering(lambda body: body)
    with trio.fail_after(TIME_OUT_S):
        calls = await Caller(service, replace(MEASUREMENT, slow_in_flight=3)).run()
    assert sum(target == SLOW for target, _ in service.asked) == 3
    assert (calls.wrong, calls.slow_answers) == (0, 0)
    assert calls.calls > 0


def test_what_makes_a_run_void():
    assert fault(CALLS, 120, 0) == ""
    assert fault(CALLS, 121, 0) == "120 calls were answered, and 121 executed"
    assert fault(CALLS, 119, 0) == "120 calls were answered, and 119 executed"
    assert fault(CALLS, 120, 1) == "1 requests came twice"
    assert fault(replace(CALLS, wrong=2, problem="mixed up"), 120, 0) == "2 calls went wrong: mixed up"
    assert fault(replace(CALLS, all_calls=0, calls=0), 0, 0) == "no call at all"


@pytest.mark.parametrize(("percent", "value"), [(50, 50), (99, 99), (100, 100), (1, 1), (0, 1)])
def test_percentiles(percent, value):
    assert percentile(list(range(100, 0, -1)), percent) == value


def test_percentiles_of_few_values():
    assert percentile([7], 99) == 7
    assert percentile([1, 2], 99) == 2
    assert isnan(percentile([], 50))


def entry(name: str, **figures: list[float]) -> Entry:
    runs = tuple(dict(zip(figures, values, strict=True)) for values in zip(*figures.values(), strict=True))
    return Entry(scenario=name, parameters={}, broker="Headgate", runs=runs)


@pytest.mark.parametrize(("rate", "reached"), [(RATE_MIN, True), (RATE_MIN - 0.1, False)])
def test_the_goal_of_the_rate_is_for_the_median(rate, reached):
    assert verdict([entry("calls", rate=[1.0, rate, 1e6])], slow_target=False)[1] is reached


@pytest.mark.parametrize(("ratio", "reached"), [(P99_RATIO_MAX, True), (P99_RATIO_MAX + 0.01, False)])
def test_neighbours_are_compared_with_each_other(ratio, reached):
    entries = [
        entry("undisturbed", p99_ms=[1.0, 2.0, 10.0]),
        entry("beside a slow target", p99_ms=[0.5, 2.0 * ratio, 100.0]),
    ]
    found = p99_ratios(entries)
    assert (found.low, found.median, found.high) == (0.5, pytest.approx(ratio), 10.0)
    words, is_reached = verdict(entries, slow_target=True)
    assert is_reached is reached
    assert words.startswith(f"ratio of p99 {ratio:.2f} (0.50-10.00)")


def test_plans_travel():
    plan = Plan(url="amqp://broker", role="host", type=FAST, durable=True, answers_after_s=seconds_or_never("never"))
    assert Plan.from_json(plan.to_json()) == plan
    assert Measurement.from_json(MEASUREMENT.to_json()) == MEASUREMENT
    assert seconds_or_never("0.5") == 0.5
    assert set(asdict(CALLS)) == set(Calls.__dataclass_fields__)


@pytest.fixture
def measured(tmp_path: Path) -> Callable[..., list[dict[str, object]]]:
    """Run the program for a moment; returns the entries of its result file."""

    def run_program(*words: str) -> list[dict[str, object]]:
        output = tmp_path / "result.json"
        command = [sys.executable, "-m", "bench.calls", "--seconds", "1", "--warm-up", "0.2", "--runs", "1"]
        ended = subprocess.run(
            [*command, "--in-flight", "50", "--output", str(output), *words],
            cwd=ROOT, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        entries: list[dict[str, object]] = json.loads(output.read_text(encoding="utf-8"))["entries"]
        return entries

    return run_program


@pytest.mark.slow
def test_the_program_beside_a_target_that_never_answers(measured):
    """Both kinds of runs lose, double and mix up no call."""
    entries = measured("--slow-target", "--answers-after", "never", "--slow-in-flight", "300")
    assert [entry["scenario"] for entry in entries] == ["undisturbed", "beside a slow target"]
    for one in entries:
        (run,) = one["runs"]
        assert run["void"] == ""
        assert run["calls"] > 50
        assert run["slow_answers"] == 0
        assert run["cpu_us"] == pytest.approx(run["caller_cpu_us"] + run["host_cpu_us"] + run["broker_cpu_us"], abs=0.2)
