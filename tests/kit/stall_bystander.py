"""A bystander in a process of its own, which measures how long the broker's event loop keeps it waiting.

It publishes a message of AMQP 0.9.1 to a queue of its own and waits until the message comes back, again and again. A
stall is the CPU time that the thread of the event loop used between the two, less the time in which the bystander
itself was ready to run and had no processor. So other processes of a busy machine do not count. On a machine with
nothing else to do that time is nothing; beside three busy processes on two processors it was up to 129 ms. In that time
the event loop worked for others, and the answer was there and not read. Both times come from ``/proc``, so this needs
Linux.

The process is ``python -m tests.kit.stall_bystander HOST PORT PID``. It prints ``{"ready": true}`` when it has begun,
and its report when its standard input ends.
"""

import json
import select
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from core.amqp091.methods import BasicConsume, BasicDeliver, BasicPublish, QueueDeclare
from tests.kit.amqp091_peer import publish
from tests.kit.plain_clients import Client091

ROOT = Path(__file__).resolve().parents[2]
INTERVAL_S = 0.002
"""The pause between two pings, short enough that a stall of 50 ms cannot fall between them."""
PATIENCE_S = 60.0
"""The broker counts as frozen when it leaves a ping unanswered for this long."""


def loop_cpu_ns(pid: int) -> int:
    """The CPU time of the broker's event loop, which is its main thread."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])


def wait_for_processor_ns() -> int:
    """How long this process was ready to run and had no processor, since it began."""
    return int(Path("/proc/self/schedstat").read_text().split()[1])


def resident_bytes(pid: int) -> int:
    """The resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


@dataclass(slots=True)
class Report:
    """What the bystander has measured."""

    pings: int = 0
    resident_bytes_max: int = 0
    """The largest memory of the broker."""
    longest_cpu_ms: float = 0.0
    """The longest stall."""
    longest_wall_ms: float = 0.0
    longest_own_wait_ms: float = 0.0
    """The longest time for which the bystander waited for a processor within one ping: none on a quiet machine."""
    frozen: bool = False
    """True when the last ping got no answer."""
    over_at: float = 0.0
    """The end of the longest stall, in seconds from the beginning."""
    loop_cpu_s: float = 0.0
    """The CPU time of the event loop in all."""


class Bystander:
    """The bystander's process as its parent sees it."""

    def __init__(self, host: str, port: int, pid: int) -> None:
        command = [sys.executable, "-m", "tests.kit.stall_bystander", host, str(port), str(pid)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the bystander ended before it began"

    def report(self) -> Report:
        """End the process; returns its report. Raises RuntimeError when it has ended by itself."""
        out, _ = self._process.communicate(timeout=PATIENCE_S + 10)
        if self._process.returncode != 0 or not out:
            raise RuntimeError(f"the bystander ended with status {self._process.returncode}")
        return Report(**json.loads(out))


def bystand(host: str, port: int, pid: int) -> None:
    """Ping until the standard input ends."""
    client = Client091(host, port)
    client.call(QueueDeclare(queue="bystander", durable=False))
    client.call(BasicConsume(queue="bystander", no_ack=True))
    ping = publish(1, b"ping", method=BasicPublish(exchange="", routing_key="bystander"))
    report = Report()
    print(json.dumps({"ready": True}), flush=True)
    began, cpu_began = time.monotonic(), loop_cpu_ns(pid)
    while not select.select([sys.stdin], [], [], INTERVAL_S)[0]:
        wall, before, waited = time.monotonic(), loop_cpu_ns(pid), wait_for_processor_ns()
        client.send(ping)
        try:
            client.wait(BasicDeliver, report.pings + 1, seconds=PATIENCE_S)
        except TimeoutError:
            report.frozen = True
        own_wait_ms = (wait_for_processor_ns() - waited) / 1e6
        cpu_ms = (loop_cpu_ns(pid) - before) / 1e6 - own_wait_ms
        report.pings += 1
        report.resident_bytes_max = max(report.resident_bytes_max, resident_bytes(pid))
        report.longest_wall_ms = max(report.longest_wall_ms, (time.monotonic() - wall) * 1000)
        report.longest_own_wait_ms = max(report.longest_own_wait_ms, own_wait_ms)
        if cpu_ms > report.longest_cpu_ms:
            report.longest_cpu_ms, report.over_at = cpu_ms, time.monotonic() - began
        if report.frozen:
            break
    report.loop_cpu_s = (loop_cpu_ns(pid) - cpu_began) / 1e9
    print(json.dumps(asdict(report)), flush=True)
    client.close()


if __name__ == "__main__":
    try:
        bystand(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    except (TimeoutError, ConnectionError) as error:
        print(f"the bystander was cut off: {error}", file=sys.stderr)
        sys.exit(1)
