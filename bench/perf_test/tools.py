"""The two load generators: how each is told a load, and what it says of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.broker import ROOT, BrokerError

POM = Path(__file__).with_name("pom.xml")
BUILT = ROOT / "build/bench-perf-test"
CLASSPATH = BUILT / "classpath"
PERF_TEST = "PerfTest"
HEADGATE_BENCH = "headgate bench"
TOOLS = (HEADGATE_BENCH, PERF_TEST)
NUMBER = re.compile(r"([a-z]+): (\d+) msg/s")
LATENCIES = re.compile(r"(consumer|confirm) latency: ([\d/]+) µs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A load that both tools can make over AMQP 0.9.1, with durable messages and manual acknowledgements.

    rate: messages a second of all producers together; 0: as fast as possible. confirm: the most messages of a producer
    that are not confirmed. qos: the prefetch count of each consumer.
    """

    name: str
    producers: int
    consumers: int
    rate: int
    confirm: int = 100
    qos: int = 200
    size: int = 256


LOADS = (
    Load(name="1 to 1 at 500 a second", producers=1, consumers=1, rate=500),
    Load(name="4 to 4 at 2000 a second", producers=4, consumers=4, rate=2000, size=1024),
    Load(name="1 producer, flat out", producers=1, consumers=0, rate=0),
    Load(name="1 producer, 10 in flight", producers=1, consumers=0, rate=0, confirm=10),
)


def class_path(maven: str = "mvn") -> str:
    """The class path of PerfTest, which Maven fetches the first time. Raises BrokerError when that is not possible."""
    if not CLASSPATH.exists() or CLASSPATH.stat().st_mtime < POM.stat().st_mtime:
        if (found := shutil.which(maven)) is None:
            raise BrokerError(
                f"there is no command {maven}: install Maven and Java 17 or newer (Debian: apt-get install maven)"
            )
        BUILT.mkdir(parents=True, exist_ok=True)
        words = [found, "--batch-mode", "--quiet", "--file", str(POM), "dependency:build-classpath"]
        if (status := subprocess.run([*words, f"-Dmdep.outputFile={CLASSPATH}"], stdout=sys.stderr).returncode) != 0:
            raise BrokerError(f"mvn ended with {status}; its reason is above")
    return CLASSPATH.read_text()


def command(tool: str, load: Load, url: str, queue: str, seconds: int) -> list[str]:
    """The command that puts the load on a queue that exists. Raises BrokerError where PerfTest cannot be had."""
    if tool == HEADGATE_BENCH:
        words = [sys.executable, "-m", "amqp10", "bench", "latency" if load.consumers else "publish", queue]
        words += ["--protocol", "0.9.1", "--seconds", str(seconds), "--size", str(load.size), "--json", "--url", url]
        words += ["--connections", str(load.producers), "--in-flight", str(load.confirm), "--rate", str(load.rate)]
        words.append("--unbatched")  # as PerfTest does
        return words + (["--consumers", str(load.consumers), "--credit", str(load.qos)] if load.consumers else [])
    if (java := shutil.which("java")) is None:
        raise BrokerError("there is no command java: install Java 17 or newer")
    words = [java, "-cp", class_path(), "com.rabbitmq.perf.PerfTest", "--uri", url, "--id", "bench"]
    words += ["--predeclared", "--queue", queue, "--routing-key", queue, "--exchange", "amq.default"]
    words += ["--producers", str(load.producers), "--consumers", str(load.consumers), "--time", str(seconds)]
    words += ["--confirm", str(load.confirm), "--qos", str(load.qos), "--size", str(load.size)]
    words += ["--flag", "persistent"]
    return words + (["--rate", str(load.rate // load.producers)] if load.rate else [])


def readings(tool: str, said: str, *, consumers: bool) -> Iterator[Mapping[str, float]]:
    """What each second was like: messages sent and received, and the latency in ms, 50 % and 99 %.

    The latency is that of consumers, or without them that of confirms.
    """
    for line in said.splitlines():
        if tool == PERF_TEST:
            latencies = {what: values.split("/") for what, values in LATENCIES.findall(line)}
            of = latencies.get("consumer" if consumers else "confirm")
            if of is None or ", time " not in line:
                continue
            numbers = {what: float(number) for what, number in NUMBER.findall(line)}
            half, most = float(of[1]) / 1000, float(of[4]) / 1000
            yield {"sent": numbers["sent"], "received": numbers.get("received", 0.0), "p50": half, "p99": most}
            continue
        with contextlib.suppress(json.JSONDecodeError):
            one = json.loads(line)
            if "summary" not in one and one["latency_ms"]:
                sent, received = float(one["sent_per_second"]), float(one["received_per_second"])
                yield {
                    "sent": sent,
                    "received": received,
                    "p50": one["latency_ms"]["p50"],
                    "p99": one["latency_ms"]["p99"],
                }


def run(words: list[str]) -> tuple[str, float]:
    """Run a tool to its end: what it said, and its CPU seconds. Raises BrokerError when it fails."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise BrokerError(f"{words[0]} ended with {process.returncode}: {said[-1000:]}")
    return said, used.ru_utime + used.ru_stime
