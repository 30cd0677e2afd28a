"""ActiveMQ Artemis, embedded in a Java program of one class: built with Maven, started on a loopback port."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from amqp10.cli.free_ports import free_ports
from bench.broker import ROOT, SCRATCH, STOP_SECONDS, Broker, BrokerError, await_listening, connect

SOURCES = Path(__file__).parent / "artemis"
BUILT = ROOT / "build/bench-artemis"
CLASSPATH = BUILT / "classpath"
MEMORY = ("-Xms512M", "-Xmx2G")
"""As in the profile that Artemis writes for a new broker."""
START_SECONDS = 120.0
"""A Java program with some hundred classes starts slowly on a busy machine."""


def built() -> bool:
    """Whether the program is built, and not older than its sources."""
    sources = [path for path in SOURCES.rglob("*") if path.is_file()]
    return CLASSPATH.exists() and CLASSPATH.stat().st_mtime >= max(path.stat().st_mtime for path in sources)


def build(maven: str = "mvn") -> None:
    """Build the program, and note its class path. Raises BrokerError when Maven is missing or the build fails."""
    if (found := shutil.which(maven)) is None:
        raise BrokerError(
            f"there is no command {maven}: install Maven and Java 17 or newer (Debian: apt-get install maven)"
        )
    words = [found, "--batch-mode", "--quiet", "compile", "dependency:build-classpath"]
    words.append(f"-Dmdep.outputFile={CLASSPATH}")
    if (status := subprocess.run(words, cwd=SOURCES, stdout=sys.stderr).returncode) != 0:
        raise BrokerError(f"mvn ended with {status}; its reason is above")
    CLASSPATH.touch()


@contextlib.contextmanager
def artemis(port: int, data: Path | None) -> Iterator[Broker]:
    """Start the built program; it is stopped at the end.

    port: 0 for a free one. data: the folder in which durable messages are kept, None to keep none on disk.
    """
    if (java := shutil.which("java")) is None:
        raise BrokerError("there is no command java: install Java 17 or newer")
    port = port or free_ports(1)[0]
    SCRATCH.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="artemis-", dir=SCRATCH) as scratch:
        log = Path(scratch) / "log"
        classes = f"{BUILT / 'classes'}:{CLASSPATH.read_text()}"
        persistence = "false" if data is None else "true"
        words = [java, *MEMORY, "-cp", classes, "headgate.bench.Artemis", str(port), str(data or scratch), persistence]
        with log.open("wb") as output:
            process = subprocess.Popen(words, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        try:
            await_listening(process, port, log, START_SECONDS)
            yield connect(f"amqp://guest:guest@127.0.0.1:{port}", process.pid)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
