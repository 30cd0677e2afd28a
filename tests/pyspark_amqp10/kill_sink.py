"""``kill -9`` of driver, worker and broker at every stage of a batch that the sink writes, and an audit of the queue.

    python -m tests.pyspark_amqp10.kill_sink --runs 24
    python -m tests.pyspark_amqp10.kill_sink --runs 24 --exactly-once

A job writes files of numbered lines, a file for each micro-batch, into a queue that takes so many messages and then
gives no link credit. The job has at most :data:`UNDER_WAY_MAX` messages on their way then, which the queue takes on. So
the job stands still at a place that is known, however fast it is, and only the next step of the run lets it go on. At
that place the driver is killed, or the Python processes that write, or the broker. Then the queue is emptied while the
job, started again if it has ended, comes to its end. Every line must have come, and by the annotations of the messages
a consumer must be able to keep each exactly once. With ``--exactly-once`` the queue drops repeats itself
(``x-deduplicate``): then every line must have come once from the queue.

=============  =========================================================================================
stage          what has happened last
=============  =========================================================================================
``planned``    where the batch ends is in the log of offsets; the queue has no room for any of its rows
``sending``    half of its rows are accepted; the queue has no room for the others
``accepted``   the last of its rows has been accepted; the batch is in no log of commits yet
``committed``  the batch is in the log of commits; for the one behind it the queue has no room
=============  =========================================================================================

The job stands still at ``planned`` and ``sending``, so a kill is there for certain. The other two pass: a kill comes
there, or in the batch behind, for which the queue has no room.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import psutil

from amqp10.blocking.links import ReceivingLink
from amqp10.client import Message
from amqp10.wire.types import ULong
from pyspark_amqp10.encoding import BATCH_ANNOTATION, ROW_ANNOTATION
from pyspark_amqp10.login import Login
from tests.kit.broker_process import ROOT
from tests.pyspark_amqp10 import kill_jobs
from tests.pyspark_amqp10.kill import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBJECTS = ("driver", "worker", "broker")
BATCH_ROWS = 1000
KILLED_BATCH = 1
"""The kill is in the second batch, in which all there is to a batch has been done once before."""
ROOM = MappingProxyType({"planned": 1000, "sending": 1500, "accepted": 2000, "committed": 2000})
"""By stage, the messages that the queue takes: the first batch, and what of the second has to be accepted."""
UNDER_WAY_MAX = 100
"""The link credit that the job asks for, and so the most messages of a batch that the queue takes although it is full:
a tenth of a batch, so that ``sending`` is far from both ends of a batch after three kills, too."""
STAGES = tuple(ROOM)
STEP_SECONDS = 180.0
"""For whatever is waited for. Spark needs 10 s to start, and more on a busy machine."""
POLL_SECONDS = 0.02
"""The stage ``accepted`` lasts a tenth of a second."""
STARTS_MAX = 4
"""Of the job in one run. Without the broker all tries of a task fail quickly."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What a run has shown."""

    messages: int
    """Taken from the queue, repeats among them."""
    repeats: int
    starts: int
    """Of the job."""


class Job:
    """The process of the job, with those that it has started."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._command = [sys.executable, "-m", "tests.pyspark_amqp10.sink_job", *arguments]
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

    def kill_workers(self, port: int) -> None:
        """The Python processes that write: those with a connection to the broker. While none has, all that Java has
        started: the one that is to write, and the one that commits, whose death ends the query."""
        workers, writers = [], []
        for process in psutil.Process(self._process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # a worker may end while they are looked at
                if "python" in process.name():
                    workers.append(process)
                    if any(one.raddr and one.raddr.port == port for one in process.net_connections("tcp")):
                        writers.append(process)
        assert workers, "the job has no Python workers"
        for process in writers or workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


class SessionJob:
    """The job in the Spark session of this process, when its own process was killed."""

    def __init__(self, spark: "SparkSession", *arguments: str) -> None:
        self._spark, self._arguments = spark, arguments
        self.starts = 0
        self.start()

    def start(self) -> None:
        """Start it."""
        from tests.pyspark_amqp10.sink_job import started

        self._query = started(self._spark, *self._arguments)
        self.starts += 1

    def ended(self) -> int | None:
        """0 when it has come to its end, 1 when it has failed, None while it runs."""
        return None if self._query.isActive else int(self._query.exception() is not None)

    def kill(self) -> None:
        """Stop the query, where it has not ended, and leave the session to others."""
        self._query.stop()


def run(
    subjects: Sequence[str],
    stage: str,
    folder: Path,
    spark: "SparkSession | None" = None,
    *,
    exactly_once: bool = False,
) -> Audit:
    """One run, in which each subject is killed, one after the other and in a batch of its own.

    More than one only while ``sending``: behind each kill the queue has room for as much again, a whole batch and a
    half, and fills in the middle of the next batch. With ``exactly_once`` it would not: of a batch that comes again it
    takes only the rest. With ``spark``, the last is the driver, and this session finishes the job. Raises
    AssertionError for a promise that was not kept; the folder has the logs.
    """
    assert spark is None or subjects[-1] == "driver", "a session finishes what another driver has begun"
    assert len(subjects) == 1 or stage == "sending", f"{stage} is a stage of the second batch only"
    assert len(subjects) == 1 or not exactly_once, "a queue that drops repeats is not full in the middle of each batch"
    batches = KILLED_BATCH + len(subjects) + 1
    _write_lines(folder / "in", batches)
    password_file = folder / "password"
    password_file.write_text("guest\n")
    with contextlib.ExitStack() as stack:
        broker = Broker(folder / "data")
        stack.callback(broker.close)
        login = Login.parse(broker.url, user="guest", password_file=str(password_file))
        _declare(broker, ROOM[stage], exactly_once=exactly_once)
        checkpoint = folder / "checkpoint"
        places = (str(folder / "in"), str(checkpoint), broker.url, str(password_file), "/queues/kill")
        arguments = (*places, str(UNDER_WAY_MAX))
        job = Job(folder, *arguments)
        stack.callback(job.kill)
        messages: list[Message] = []
        for number, subject in enumerate(subjects):
            if number:
                messages += _taken(login, ROOM[stage])
            _wait_for(stage, checkpoint, login, job)
            _kill(subject, job, broker)
        last = job if spark is None else SessionJob(spark, *arguments)
        stack.callback(last.kill)
        messages += _taken_until_the_job_ends(login, last)
    check(messages, batches=batches, repeated=stage == "sending" and not exactly_once)
    assert not exactly_once or len(messages) == batches * BATCH_ROWS, "a row has come twice from the queue"
    return Audit(len(messages), len(messages) - batches * BATCH_ROWS, job.starts + (0 if last is job else last.starts))


def _write_lines(folder: Path, batches: int) -> None:
    folder.mkdir(parents=True)
    for batch in range(batches):
        (folder / f"{batch}.txt").write_text("".join(f"{batch}-{row}\n" for row in range(BATCH_ROWS)))


def _declare(broker: Broker, room: int, *, exactly_once: bool) -> None:
    url = f"amqp://guest:guest@127.0.0.1:{broker.port}"
    declare = [sys.executable, "-m", "amqp10", "queues", "declare", "kill", "--url", url]
    for argument in (f"x-max-length={room}", "x-overflow=block", f"x-deduplicate={str(exactly_once).lower()}"):
        declare += ["--argument", argument]
    subprocess.run(declare, cwd=ROOT, check=True, capture_output=True)


def _kill(subject: str, job: Job, broker: Broker) -> None:
    match subject:
        case "driver":
            job.kill()
        case "worker":
            job.kill_workers(broker.port)
        case "broker":
            broker.kill()  # and it starts again on what it has written


def _wait_for(stage: str, checkpoint: Path, login: Login, job: Job) -> None:
    """Return when the stage has been reached, or just behind it. A job that has failed is started again."""
    planned, committed = (checkpoint / log / str(KILLED_BATCH) for log in ("offsets", "commits"))
    reached: dict[str, Callable[[], bool]] = {
        "planned": planned.exists,
        "sending": lambda: _ready(login) >= ROOM[stage],
        "accepted": lambda: _ready(login) >= ROOM[stage],
        "committed": committed.exists,
    }
    deadline = time.monotonic() + STEP_SECONDS
    while not reached[stage]():
        _go_on(job)
        assert time.monotonic() < deadline, f"not within {STEP_SECONDS:g} s: {stage}"
        time.sleep(POLL_SECONDS)
    ready, most = _ready(login), ROOM[stage] + UNDER_WAY_MAX
    assert ready <= most, f"the queue has {ready} messages, not {most} at the most: the job does not stand still"


def _go_on(job: Job | SessionJob) -> None:
    """Start it again when it has failed."""
    code = job.ended()
    assert code != 0, "the job has come to its end before anybody was killed"
    if code is not None:
        assert job.starts < STARTS_MAX, f"the job has failed {job.starts} times"
        job.start()


def check(messages: list[Message], *, batches: int, repeated: bool) -> None:
    """Every line has come, and each once for a consumer that drops repeats.

    ``repeated``: some must have come twice, because the kill was between the rows of a batch.
    """
    kept: dict[tuple[object, object], object] = {}
    for message in messages:
        row = message.annotations[ROW_ANNOTATION]
        assert isinstance(row, ULong)
        first = kept.setdefault((message.annotations[BATCH_ANNOTATION], row.value), message.body)
        assert first == message.body, "a row has come again as another"
    expected = sorted(f"{batch}-{row}".encode() for batch in range(batches) for row in range(BATCH_ROWS))
    assert sorted(kept.values()) == expected, f"{len(kept)} rows after dropping repeats, {len(expected)} were written"
    assert not repeated or len(messages) > len(expected), "nothing was repeated: the kill did not hit a batch"


def _ready(login: Login) -> int:
    """How many messages the queue has, as it tells whoever attaches without link credit."""
    with login.connect() as connection:
        link = ReceivingLink.open(connection, "/queues/kill")
        return link.ready() or 0


def _taken(login: Login, messages: int) -> list[Message]:
    """What the queue has now, but not more than so many: the job refills it meanwhile."""
    with login.connect() as connection:
        return _fetched(ReceivingLink.open(connection, "/queues/kill", settled=True), messages)


def _fetched(link: ReceivingLink, messages: int) -> list[Message]:
    deliveries = link.fetch(messages, within_s=STEP_SECONDS)
    return [Message.decode(entry) for run_ in deliveries for entry in run_.entries]


def _taken_until_the_job_ends(login: Login, job: Job | SessionJob) -> Iterator[Message]:
    """All messages, while the job goes on; it is started again when it has failed."""
    deadline = time.monotonic() + STEP_SECONDS
    with login.connect() as connection:
        link = ReceivingLink.open(connection, "/queues/kill", settled=True)
        while True:
            code = job.ended()
            yield from _fetched(link, max(ROOM.values()))
            if code == 0:  # it had ended before the queue was emptied
                return
            if code is not None:
                _go_on(job)
            assert time.monotonic() < deadline, "the job does not come to its end"
            time.sleep(POLL_SECONDS)


def plan(runs: int) -> list[tuple[str, str]]:
    """Every subject at every stage, as often as there are runs."""
    cases = list(product(STAGES, SUBJECTS))
    return [cases[number % len(cases)] for number in range(runs)]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=24, help="12 are every subject at every stage (default: 24)")
    parser.add_argument("--subjects", nargs="+", choices=SUBJECTS, default=SUBJECTS, help="only runs that kill these")
    parser.add_argument("--exactly-once", action="store_true", help="into a queue that drops repeats")
    kill_jobs.add_options(parser)
    arguments = parser.parse_args()
    if arguments.jobs > 1:
        sys.exit(kill_jobs.in_parallel("tests.pyspark_amqp10.kill_sink", sys.argv[1:], arguments.jobs))
    for number, (stage, subject) in kill_jobs.share(list(enumerate(plan(arguments.runs))), arguments.job):
        if subject not in arguments.subjects:
            continue
        folder, began = Path(tempfile.mkdtemp(prefix="headgate-kill-sink-")), time.monotonic()
        said = f"run {number}: kill {subject} at {stage}"
        try:
            audit = run([subject], stage, folder, exactly_once=arguments.exactly_once)
        except AssertionError as error:
            sys.exit(f"{said}, folder {folder} (kept): {error}")
        shutil.rmtree(folder, ignore_errors=True)
        seconds = time.monotonic() - began
        print(f"{said}: nothing lost, {audit.repeats} repeats, {audit.starts} starts, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
