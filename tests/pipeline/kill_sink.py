"""``python -m tests.pipeline.kill_sink --runs N``: kill -9 in the middle of what the sink writes, and audit the queue.

A job writes files of numbered lines, a file for each micro-batch, into a queue that takes so many messages and then
gives no link credit. So the job stands still at a place that is known, in the middle of a batch, and there one of three
is killed: the driver, the Python process that writes, or the broker. Then the queue is emptied while the job, started
again if it has ended, comes to its end. Every line must have come, and by the annotations of the messages a consumer
must be able to keep each exactly once.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from amqp10.client import Message
from amqp10.types import ULong
from pipeline.connector.encoding import BATCH_ANNOTATION, ROW_ANNOTATION
from pipeline.connector.links import ReceivingLink
from pipeline.connector.login import Login
from pipeline.connector.wire import BlockingConnection
from tests.kit.broker_process import ROOT
from tests.pipeline.kill import Broker

SUBJECTS = ("driver", "worker", "broker")
BATCHES, BATCH_ROWS = 3, 1000
ROOM = 1500
"""Messages that the queue takes: the first batch, and half of the second."""
STEP_SECONDS = 180.0
"""For whatever is waited for. Spark needs 10 s to start, and more on a busy machine."""
POLL_SECONDS = 0.1
STARTS_MAX = 4
"""Of the job in one run. Without the broker all tries of a task fail quickly."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What a run has shown."""

    messages: int
    """Taken from the queue, repeats among them."""
    starts: int
    """Of the job."""


class Job:
    """The process of the job, with those that it has started."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._command = [sys.executable, "-m", "tests.pipeline.sink_job", *arguments]
        self._log = folder / "job.log"
        self.starts = 0
        self.start()

    def start(self) -> None:
        """Start it, in a process group of its own."""
        environ = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, env=environ, stdout=log, stderr=log, start_new_session=True
            )
        self.starts += 1

    def ended(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """Python and the JVM. A Python worker has a group of its own: it may go on writing, as on another machine."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_writers(self, port: int) -> None:
        """Those of its processes that have a connection to the broker."""
        writers = [
            process
            for process in psutil.Process(self._process.pid).children(recursive=True)
            if any(one.raddr and one.raddr.port == port for one in process.net_connections("tcp"))
        ]
        assert writers, "no process of the job has a connection to the broker"
        for process in writers:
            process.kill()


def run(subject: str, folder: Path) -> Audit:
    """One run. Raises AssertionError for a promise that was not kept; the folder has the logs."""
    lines = folder / "in"
    lines.mkdir(parents=True)
    for batch in range(BATCHES):
        (lines / f"{batch}.txt").write_text("".join(f"{batch}-{row}\n" for row in range(BATCH_ROWS)))
    password_file = folder / "password"
    password_file.write_text("guest\n")
    with contextlib.ExitStack() as stack:
        broker = Broker(folder / "data")
        stack.callback(broker.close)
        login = Login.parse(broker.url, user="guest", password_file=str(password_file))
        url = f"amqp://guest:guest@127.0.0.1:{broker.port}"
        declare = [sys.executable, "-m", "amqp10", "queues", "declare", "kill", "--url", url]
        for argument in (f"x-max-length={ROOM}", "x-overflow=block"):
            declare += ["--argument", argument]
        subprocess.run(declare, cwd=ROOT, check=True, capture_output=True)
        job = Job(folder, str(lines), str(folder / "checkpoint"), broker.url, str(password_file), "/queues/kill")
        stack.callback(job.kill)
        _wait(lambda: _ready(login) >= ROOM, job, "the queue is full")
        match subject:
            case "driver":
                job.kill()
            case "worker":
                job.kill_writers(broker.port)
            case "broker":
                broker.kill()  # and it starts again on what it has written
        messages = list(_taken_until_the_job_ends(login, job))
    check(messages)
    return Audit(len(messages), job.starts)


def check(messages: list[Message]) -> None:
    """Every line has come, and each once for a consumer that drops repeats. Some have come twice: so was the kill."""
    kept: dict[tuple[object, object], object] = {}
    for message in messages:
        row = message.annotations[ROW_ANNOTATION]
        assert isinstance(row, ULong)
        first = kept.setdefault((message.annotations[BATCH_ANNOTATION], row.value), message.body)
        assert first == message.body, "a row has come again as another"
    expected = sorted(f"{batch}-{row}".encode() for batch in range(BATCHES) for row in range(BATCH_ROWS))
    assert sorted(kept.values()) == expected, f"{len(kept)} rows after dropping repeats, {len(expected)} were written"
    assert len(messages) > len(expected), "nothing was repeated: the kill did not hit a batch"


def _wait(done: Callable[[], bool], job: Job, what: str) -> None:
    deadline = time.monotonic() + STEP_SECONDS
    while not done():
        assert job.ended() is None, f"the job has ended with {job.ended()} before: {what}"
        assert time.monotonic() < deadline, f"not within {STEP_SECONDS:g} s: {what}"
        time.sleep(POLL_SECONDS)


def _ready(login: Login) -> int:
    """How many messages the queue has, as it tells whoever attaches without link credit."""
    with BlockingConnection.open(login) as connection:
        link = ReceivingLink.open(connection, "/queues/kill")
        return link.ready() or 0


def _taken_until_the_job_ends(login: Login, job: Job) -> Iterator[Message]:
    """All messages, while the job goes on; it is started again when it has failed."""
    deadline = time.monotonic() + STEP_SECONDS
    with BlockingConnection.open(login) as connection:
        link = ReceivingLink.open(connection, "/queues/kill", settled=True)
        while True:
            code = job.ended()
            for deliveries in link.fetch(ROOM, within_s=STEP_SECONDS):
                yield from map(Message.decode, deliveries.entries)
            if code == 0:  # it had ended before the queue was emptied
                return
            if code is not None:
                assert job.starts < STARTS_MAX, f"the job has failed {job.starts} times"
                job.start()
            assert time.monotonic() < deadline, "the job does not come to its end"
            time.sleep(POLL_SECONDS)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="of each subject (default 20)")
    parser.add_argument("--subjects", nargs="+", choices=SUBJECTS, default=SUBJECTS)
    arguments = parser.parse_args()
    for number in range(arguments.runs):
        for subject in arguments.subjects:
            folder = Path(tempfile.mkdtemp(prefix="headgate-kill-sink-"))
            try:
                audit = run(subject, folder)
            except AssertionError as error:
                sys.exit(f"run {number}, {subject}, folder {folder} (kept): {error}")
            repeats = audit.messages - BATCHES * BATCH_ROWS
            print(f"run {number}, {subject} killed: nothing lost, {repeats} repeats, {audit.starts} starts", flush=True)


if __name__ == "__main__":
    main()
