"""``python -m tests.hostile.handshake_rate``: how much longer does another connection wait beside TLS handshakes?

Processes begin connections at a steady rate, make the whole TLS handshake with the broker's P-256 certificate, and
leave. Meanwhile a publisher without TLS sends one message after the other and waits for each confirm. It is measured
alone and beside the handshakes in turn, so that a change of the machine meets both alike. The processes that make
handshakes have a lower priority than the publisher and the broker: they stand for other machines.

The exit code is 1 when the 99th percentile of the publisher's waits grows by more than 5 ms, and when fewer handshakes
were made than asked for: then the figure says nothing.
"""

import argparse
import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from core.amqp091.methods import BasicAck, BasicPublish, ConfirmSelect, ConfirmSelectOk, Method, QueueDeclare
from tests.kit.amqp091_peer import publish
from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.certificates import Trial
from tests.kit.plain_clients import PATIENCE_S, Client091

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = 4
"""How many make handshakes: each waits for its broker's answer, 8 ms at 500 a second."""
NICENESS = 5
ADDED_MS_MAX = 5.0
"""The bound that is promised."""
RATE_SHARE_MIN = 0.95
"""A run with a smaller share of the handshakes that were asked for is none."""
PAUSE_S = 0.001
"""Between two messages of the publisher."""
CONFIGURATION = """
[server]
tls_listen = ["127.0.0.1:0"]
[tls]
certificate = "{certificate}"
key = "{key}"
[log]
level = "error"
[admin]
enabled = false
"""


@dataclass(slots=True)
class Waits:
    """The waits of the publisher, in milliseconds, and the handshakes that were made meanwhile."""

    each: list[float] = field(default_factory=list)
    handshakes: int = 0
    seconds: float = 0.0

    @property
    def p99(self) -> float:
        """The 99th percentile."""
        return statistics.quantiles(self.each, n=100)[98]

    @property
    def rate(self) -> float:
        """Handshakes a second."""
        return self.handshakes / self.seconds

    def line(self, name: str) -> str:
        """A line of the report."""
        return (
            f"{name:<10} {len(self.each):>7} messages, waits: median {statistics.median(self.each):.2f} ms, "
            f"p99 {self.p99:.2f} ms, longest {max(self.each):.1f} ms; {self.rate:.0f} handshakes/s"
        )


class Publisher:
    """A connection of AMQP 0.9.1 that waits for each confirm. No other thread reads for it."""

    def __init__(self, broker: BrokerAddress) -> None:
        self.client = Client091(broker.host, broker.port, reads=False)
        self.client.tell(QueueDeclare(queue="q", arguments={"x-max-length": 10}), ConfirmSelect())
        self._until(ConfirmSelectOk)
        self._message = publish(1, b"x", method=BasicPublish(routing_key="q"))

    def _until(self, answer: type[Method]) -> None:
        wanted, seen = b"".join(number.to_bytes(2) for number in answer.ID), b""
        while wanted not in seen:
            came = self.client.plain.some()
            if not came:
                raise ConnectionError("the broker has closed the publisher's connection")
            seen += came

    def wait_ms(self) -> float:
        """Publish a message; returns how long the confirm took."""
        began = time.perf_counter()
        self.client.send(self._message)
        self._until(BasicAck)
        return (time.perf_counter() - began) * 1000


def make_handshakes(port: int, rate: float, seconds: float) -> int:
    """Make handshakes at this rate for so long; returns how many succeeded. A late one is made at once."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    began, made, begun = time.monotonic(), 0, 0
    while (due := began + begun / rate) < began + seconds:
        time.sleep(max(0.0, due - time.monotonic()))
        if time.monotonic() >= began + seconds:
            break
        begun += 1
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as plain,
            context.wrap_socket(plain),
        ):
            made += 1
    return made


def measure(publisher: Publisher, waits: Waits, broker: BrokerAddress, *, rate: float, seconds: float) -> None:
    """Publish for so long, beside so many handshakes a second."""
    here = ["--port", str(broker.tls_port), "--rate", str(rate / PROCESSES), "--seconds", str(seconds)]
    command = [sys.executable, "-m", "tests.hostile.handshake_rate", *here]
    crowd = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES if rate else 0)
    ]
    try:
        for process in crowd:
            assert process.stdout is not None
            assert process.stdout.readline() == "begin\n"
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            waits.each.append(publisher.wait_ms())
            time.sleep(PAUSE_S)
        waits.seconds += seconds
        for process in crowd:
            assert process.stdout is not None
            waits.handshakes += json.loads(process.stdout.read())  # the first line may have been read with the last
    finally:
        for process in crowd:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def compare(*, rate: float, seconds: float, rounds: int) -> tuple[Waits, Waits]:
    """The waits alone, and beside handshakes."""
    alone, beside = Waits(), Waits()
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial.make(Path(folder))
        config = Path(trial.path("broker.toml"))
        config.write_text(CONFIGURATION.format(certificate=trial.path("server.pem"), key=trial.path("server.key")))
        with broker_process("--config", str(config)) as broker:
            publisher = Publisher(broker)
            measure(publisher, Waits(), broker, rate=0, seconds=min(1.0, seconds))  # what only the first messages cost
            for _ in range(rounds):
                measure(publisher, alone, broker, rate=0, seconds=seconds)
                measure(publisher, beside, broker, rate=rate, seconds=seconds)
            publisher.client.close()
    return alone, beside


def verdict(alone: Waits, beside: Waits, *, rate: float) -> tuple[int, str]:
    """The exit code, and the last line of the report."""
    added = beside.p99 - alone.p99
    enough = beside.rate >= RATE_SHARE_MIN * rate
    told = f"p99 grows by {added:.2f} ms (at most {ADDED_MS_MAX:g})" + ("" if enough else "; TOO FEW HANDSHAKES")
    return int(added > ADDED_MS_MAX or not enough), told


def main(arguments: Sequence[str]) -> int:
    """Measure and print. Returns the exit code."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile.handshake_rate", description=__doc__, formatter_class=formatter
    )
    parser.add_argument("--rate", type=float, default=500, help="handshakes a second; default: 500")
    parser.add_argument("--seconds", type=float, default=5, help="the length of each part; default: 5")
    parser.add_argument("--rounds", type=int, default=4, help="how often each part is measured; default: 4")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)  # for the processes that make the handshakes
    options = parser.parse_args(arguments)
    if options.port is not None:
        os.nice(NICENESS)
        print("begin", flush=True)
        print(make_handshakes(options.port, options.rate, options.seconds))
        return 0
    alone, beside = compare(rate=options.rate, seconds=options.seconds, rounds=options.rounds)
    code, told = verdict(alone, beside, rate=options.rate)
    print(alone.line("alone"), beside.line("handshakes"), told, sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
