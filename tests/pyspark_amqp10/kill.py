"""``kill -9`` of driver, workers and broker at every stage of a batch: nothing lost, nothing twice, the queue empty.

    python -m tests.pyspark_amqp10.kill --runs 20
    python -m tests.pyspark_amqp10.kill --runs 15 --readers 4
    python -m tests.pyspark_amqp10.kill --runs 20 --readers 4 --cluster
    python -m tests.pyspark_amqp10.kill --runs 100 --readers 4 --jobs 3

A query reads a queue, or a stream, into Parquet files in several micro-batches. At a stage of one of them somebody is
killed, what died is started again, and the query goes on from its checkpoint until all is read. Then the files have
every message exactly once, and the broker has none left in the queue. With ``--readers`` so many tasks read the queue.
With ``--cluster`` they run in two executors, processes of their own on a standalone cluster, and an executor is killed
as well.

=============  ======================================================================================
stage          what has happened last
=============  ======================================================================================
``fetching``   the batch before is in Spark's log; its messages are being settled, the next are fetched
``planned``    where the batch ends is in the log of offsets
``reading``    a task has begun to write a file
``written``    the batch is in the sink's own log
``committed``  the batch is in the log of commits; its messages are not settled yet
=============  ======================================================================================

Stages are recognised by the files that Spark writes, so a kill comes at a stage or just behind it. Rows of the batch
behind the one to be killed are held until the kill was made: however fast the query is, it cannot come to its end
before.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import SendingLink
from amqp10.blocking.requests import BlockingManagement
from amqp10.cli.free_ports import free_ports
from amqp10.wire.sections import DATA, Header, encode_header, encode_section
from pyspark_amqp10.errors import ClientError
from pyspark_amqp10.login import Login
from pyspark_amqp10.requests import queue_path
from tests.kit.prepared_broker import PreparedBroker
from tests.pyspark_amqp10 import kill_jobs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
STAGES = ("fetching", "planned", "reading", "written", "committed")
VICTIMS = ("driver", "worker", "broker")
EXECUTOR = "executor"
"""A fourth victim, where executors are processes of their own."""
EXECUTORS_MIN = 2
"""With several readers, so many executors must have had tasks."""
EXECUTOR_CLASS = "CoarseGrainedExecutorBackend"
"""In the command line of an executor's Java, and of no other process of Spark."""
MODES = ("queue", "stream")
ROWS, ROWS_OF_A_BATCH, KILLED_BATCH = 3000, 700, 2
"""Five batches; the kill is in the third."""
HELD_FROM = (KILLED_BATCH + 1) * ROWS_OF_A_BATCH
"""This row and those behind it are held until the kill was made: the batch behind the killed one begins with it."""
KILLED = "killed"
"""The file in the folder of a run that says that the kill was made."""
PATIENCE_S = 180.0
"""For a whole run on a machine that does other things, too."""
LOOK_S = 0.0005
FETCH_DELAY_MAX_S = 0.3
"""When, behind the commit of the batch before, ``fetching`` kills: as long as a small batch takes."""
LOG_SHOWN_MAX = 3000
"""Characters of the driver's log, when it ended by itself."""
RETRY_S, TRIES_MAX = 0.1, 600
"""How soon, and how often at most, a query that failed is begun again: a broker is back long before the last time."""


@dataclass(frozen=True, slots=True)
class Run:
    """One experiment."""

    number: int
    victim: str
    stage: str
    mode: str
    readers: int = 1

    def __str__(self) -> str:
        several = "" if self.readers == 1 else f" with {self.readers} readers"
        return f"run {self.number}: {self.mode}{several}, kill {self.victim} at {self.stage}"


class Wrong(AssertionError):
    """A run did not end as it must."""


# --- the broker ----------------------------------------------------------------------------------------------------


class Broker:
    """A broker on one port and one folder, through any number of deaths."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.password_file = folder.with_suffix(".password")
        self.password_file.write_text("guest\n", encoding="ascii")
        [self.port] = free_ports(1)
        self._process = self._started()

    @property
    def url(self) -> str:
        """Without credentials."""
        return f"amqp://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """SIGKILL, and a start on what is left."""
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        self._process = self._started()

    def close(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait(30)
        self._process.stdout.close()

    def connect(self) -> BlockingConnection:
        """As guest."""
        return Login.parse(self.url, user="guest", password_file=str(self.password_file)).connect()

    def _started(self) -> PreparedBroker:
        options = ["--data", str(self._folder), "--admin", "off", "--listen", f"127.0.0.1:{self.port}"]
        with open(os.devnull, "wb") as log:
            process = PreparedBroker("serve", *options, stderr=log.fileno())
        if "is ready" not in process.stdout.readline():
            raise Wrong("the broker did not start")
        return process


def fill(broker: Broker, name: str, mode: str) -> str:
    """A queue or a stream with numbered messages; its address."""
    argument = "x-sequence=true" if mode == "queue" else "x-queue-type=stream"
    command = [sys.executable, "-m", "amqp10", "queues", "declare", name, "--argument", argument]
    url = f"amqp://guest:guest@127.0.0.1:{broker.port}"
    subprocess.run([*command, "--url", url], cwd=ROOT, check=True, capture_output=True)
    with broker.connect() as connection:
        sending = SendingLink.open(connection, f"/queues/{name}")
        bodies = [encode_section(DATA, b"%d" % number) for number in range(ROWS)]
        sent = sending.send(bodies, header=encode_header(Header(durable=True)), within_s=PATIENCE_S)
        if sending.confirm(sent, within_s=PATIENCE_S):
            raise Wrong("not every message was accepted")
    return f"/queues/{name}"


def left(broker: Broker, address: str) -> int:
    """Messages in a queue, ready or not settled, when its consumers are gone."""
    path = queue_path(address)
    assert path is not None
    with broker.connect() as connection:
        shown: Any = BlockingManagement(connection).request("GET", path).body
    return int(shown["messages_ready"]) + int(shown["messages_unacknowledged"])


# --- the driver: a process of its own ------------------------------------------------------------------------------


class Driver:
    """A process that runs one query after the other, with a Spark session at one master after the other."""

    def __init__(self, folder: Path, master: str | None) -> None:
        """``master`` is the URL of a cluster's master; None: this process runs all tasks."""
        environment = os.environ | {
            "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
        }  # fmt: skip
        self._log = folder / "driver.log"
        command = [sys.executable, "-m", "tests.pyspark_amqp10.kill", "--driver", str(folder)]
        command += [] if master is None else ["--master", master]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.pid = self._process.pid

    def begin(self, job: Mapping[str, object]) -> None:
        """Have it run a query to its end."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()

    def leave(self) -> None:
        """Have it end its session: the next query begins another one."""
        self.begin({})
        self.result()

    def result(self) -> dict[str, int]:
        """Wait for the end of the query: rows, distinct rows, and how often it failed before."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                result: dict[str, int] = json.loads(line)
                return result
        raise Wrong(f"the driver ended by itself:\n{self._log.read_text(errors='replace')[-LOG_SHOWN_MAX:]}")

    def kill(self) -> None:
        """SIGKILL to Python and to its Java at once; workers end with their sockets."""
        processes = [psutil.Process(self.pid), *self._java()]
        for process in processes:
            process.kill()
        self._process.communicate()
        psutil.wait_procs(processes[1:], timeout=30)

    def kill_workers(self) -> None:
        """SIGKILL to every Python process that Java has started: the planner's with its links, and the tasks'."""
        for java in [*self._java(), *executors()]:
            for process in java.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if "python" in process.name():
                        process.kill()

    def close(self) -> None:
        """End it in order."""
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()

    def _java(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for one in psutil.Process(self.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # a worker may end while they are counted
                if one.name() == "java":
                    found.append(one)
        return found


def executors() -> list[psutil.Process]:
    """The executors of a cluster that this process has started."""
    found: list[psutil.Process] = []
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if one.name() == "java" and any(word.endswith(EXECUTOR_CLASS) for word in one.cmdline()):
                found.append(one)
    return found


def kill_executor() -> None:
    """SIGKILL to an executor; the cluster starts another one. Its Python workers end with their sockets."""
    running = executors()
    if not running:
        raise Wrong("there is no executor")
    running[0].kill()


def busy_executors(folder: Path) -> int:
    """How many executors of the cluster in this folder have had tasks, by their logs."""
    logs = folder.glob("worker-*/app-*/*/stderr")
    return sum(1 for log in logs if "Running task" in log.read_text(errors="replace"))


def complete(spark: "SparkSession", job: Mapping[str, Any]) -> dict[str, int]:
    """Run a query to its end, again and again until it does not fail: rows, distinct rows, failures."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    failures = 0
    while True:
        try:
            reader = spark.readStream.format("amqp10").options(**job["options"])
            rows = reader.load().selectExpr("CAST(CAST(body AS STRING) AS INT) AS number")
            writer = rows.mapInArrow(held_until(job["killed"]), "number INT").writeStream
            checkpointed = writer.format("parquet").option("checkpointLocation", job["checkpoint"])
            checkpointed.trigger(availableNow=True).start(job["output"]).awaitTermination()
            break
        except (PySparkException, Py4JError):  # the second is what a session says whose workers are dead
            failures += 1
            if failures > TRIES_MAX:
                raise
            time.sleep(RETRY_S)
    written = spark.read.schema("number INT").parquet(job["output"]).toArrow().column(0).to_pylist()
    return {"rows": len(written), "distinct": len(set(written)), "failures": failures}


def held_until(killed: str) -> "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """What passes rows on unchanged, those from :data:`HELD_FROM` on only when this file is there. It runs in workers,
    which need not have this module: the function that is returned goes to them as a whole."""
    first, seconds, look_s = HELD_FROM, PATIENCE_S, LOOK_S

    def held(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import os
        import time

        for batch in batches:
            deadline = time.monotonic() + seconds
            while any(number >= first for number in batch.column(0).to_pylist()) and not os.path.exists(killed):
                if time.monotonic() > deadline:
                    raise TimeoutError("no kill was made")
                time.sleep(look_s)
            yield batch

    return held


def session_at(master: str | None, folder: Path) -> "SparkSession":
    """A session of the driver's process. None is for tasks in this process."""
    from pyspark.sql import SparkSession

    from tests.pyspark_amqp10.spark_fixtures import JAVA_OPTIONS, SPARK_SETTINGS

    own: dict[str, bool | float | int | str | None] = {
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    if master is not None:
        own |= {"spark.master": master, "spark.executor.extraJavaOptions": JAVA_OPTIONS}
    return SparkSession.builder.config(map={**SPARK_SETTINGS, **own}).getOrCreate()


def drive(folder: Path, master: str | None) -> None:
    """What the driver's process does: jobs from stdin, results to stdout. A job of nothing ends the session."""
    spark: SparkSession | None = session_at(master, folder)
    for line in sys.stdin:
        job = json.loads(line)
        if job:
            spark = spark or session_at(job["master"], folder)
            print(json.dumps(complete(spark, job)), flush=True)
        elif spark is not None:
            spark.stop()
            spark = None
            print("{}", flush=True)
    if spark is not None:
        spark.stop()


# --- one run -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Laboratory:
    """What runs share."""

    folder: Path
    broker: Broker
    random: random.Random
    driver: Driver | None = None
    """It goes on from run to run until it is killed: another start of Spark takes longer than a run."""

    def driver_at(self, master: str | None) -> Driver:
        """The driver, which is started where there is none."""
        if self.driver is None:
            self.driver = Driver(self.folder, master)
        return self.driver

    def leave(self) -> None:
        """Have the driver, if there is one, leave the cluster, which ends."""
        if self.driver is not None:
            self.driver.leave()

    def close(self) -> None:
        """End the driver, if there is one."""
        if self.driver is not None:
            self.driver.close()
            self.driver = None


@contextmanager
def laboratory(seed: int = 0) -> Iterator[Laboratory]:
    """A broker and a folder; both go in the end."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="headgate-kill-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        broker = Broker(folder / "broker")
        stack.callback(broker.close)
        place = Laboratory(folder, broker, random.Random(seed))
        stack.callback(place.close)
        yield place


def experiment(place: Laboratory, run: Run, master: str | None, spark: "SparkSession | None" = None) -> None:
    """Do one run, at the cluster with this master. Where the driver is killed, this session finishes what it has begun,
    or without one another driver. Raises Wrong."""
    folder = place.folder / f"run{run.number}"
    folder.mkdir()
    address = fill(place.broker, f"kill-{run.number}", run.mode)
    job = {
        "checkpoint": str(folder / "checkpoint"),
        "output": str(folder / "output"),
        "killed": str(folder / KILLED),
        "master": master,
        "options": {
            "url": place.broker.url, "user": "guest", "passwordFile": str(place.broker.password_file),
            "address": address, "mode": run.mode,
            "maxRowsPerTrigger": str(ROWS_OF_A_BATCH),
        } | ({"startingOffsets": "earliest"} if run.mode == "stream" else {"readers": str(run.readers)}),
    }  # fmt: skip
    driver = place.driver_at(master)
    driver.begin(job)
    _wait_for(run.stage, folder, place.random)
    if run.victim == "broker":
        place.broker.kill()
    elif run.victim == "worker":
        driver.kill_workers()
    elif run.victim == EXECUTOR:
        kill_executor()
    else:
        driver.kill()
        place.driver = None
    (folder / KILLED).touch()
    if run.victim == "driver" and spark is None:
        driver = place.driver_at(master)
        driver.begin(job)
    result = driver.result() if spark is None or run.victim != "driver" else complete(spark, job)
    if (result["rows"], result["distinct"]) != (ROWS, ROWS):
        raise Wrong(f"{run}: {result['rows']} rows, {result['distinct']} distinct; {ROWS} were sent")
    if run.mode == "queue" and (rest := _emptied(place.broker, address)):
        raise Wrong(f"{run}: {rest} messages are left in the queue")


def _wait_for(stage: str, folder: Path, chance: random.Random) -> None:
    """Return when the stage of the batch to be killed has been reached."""
    batch, checkpoint, output = KILLED_BATCH, folder / "checkpoint", folder / "output"

    def files() -> int:
        return sum(1 for name in os.listdir(output) if name.startswith("part-")) if output.exists() else 0

    before = checkpoint / "commits" / str(batch - 1)
    _until(before.exists)
    logged = [(output / "_spark_metadata" / str(one)).read_text() for one in range(batch)]
    written = sum(line.startswith("{") for log in logged for line in log.splitlines())  # as long as none is compacted
    reached: dict[str, Callable[[], bool]] = {
        "fetching": lambda: True,
        "planned": (checkpoint / "offsets" / str(batch)).exists,
        "reading": lambda: files() > written,
        "written": (output / "_spark_metadata" / str(batch)).exists,
        "committed": (checkpoint / "commits" / str(batch)).exists,
    }
    if stage == "fetching":
        time.sleep(chance.uniform(0, FETCH_DELAY_MAX_S))
    _until(reached[stage])


def _until(condition: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise Wrong("the stage was not reached")
        time.sleep(LOOK_S)


def _emptied(broker: Broker, address: str) -> int:
    """Messages left, when what the last consumer has settled has been taken in."""
    rest = -1

    def empty() -> bool:
        nonlocal rest
        with suppress(ClientError):
            rest = left(broker, address)
        return rest == 0

    with suppress(Wrong):
        _until(empty, within_s=5.0)
    return rest


def plan(runs: int, readers: int = 1, *, with_cluster: bool = False) -> list[Run]:
    """Every victim at every stage, queues before streams, as often as there are runs; several readers are of queues
    only."""
    victims = (*VICTIMS, EXECUTOR) if with_cluster else VICTIMS
    cases = list(product(MODES if readers == 1 else ("queue",), STAGES, victims))
    chosen = [cases[number % len(cases)] for number in range(runs)]
    return [Run(number, victim, stage, mode, readers) for number, (mode, stage, victim) in enumerate(chosen)]


def perform(
    place: Laboratory,
    runs: Sequence[Run],
    say: Callable[[str], None],
    spark: "SparkSession | None" = None,
    *,
    with_cluster: bool = False,
) -> None:
    """All runs, one after the other. With ``spark``, only the last may kill the driver, and this session finishes it.
    Raises Wrong with the first that fails."""
    from tests.pipeline.cluster import cluster

    with cluster(place.folder) if with_cluster else nullcontext() as master:
        try:
            for run in runs:
                began = time.monotonic()
                experiment(place, run, master, spark)
                say(f"{run}: every row once, {time.monotonic() - began:.0f} s")
            if with_cluster and busy_executors(place.folder) < EXECUTORS_MIN:
                raise Wrong("one executor has had all tasks")
            place.leave()
        except BaseException:
            place.close()
            raise


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.pyspark_amqp10.kill", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=30, help="how many; 30 are every victim at every stage (default)")
    parser.add_argument(
        "--readers", type=int, default=1, help="tasks that read a queue; several: no streams (default: 1)"
    )
    parser.add_argument("--stage", choices=STAGES, help="only runs that kill at this one")
    parser.add_argument("--victim", choices=(*VICTIMS, EXECUTOR), help="only runs that kill this one")
    parser.add_argument("--cluster", action="store_true", help="on a standalone cluster with two executors")
    kill_jobs.add_options(parser)
    parser.add_argument("--driver", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--master", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.driver is not None:
        drive(given.driver, given.master)
        return 0
    if given.jobs > 1:
        return kill_jobs.in_parallel("tests.pyspark_amqp10.kill", sys.argv[1:], given.jobs)
    runs = [
        run
        for run in plan(given.runs, given.readers, with_cluster=given.cluster)
        if given.victim in (None, run.victim) and given.stage in (None, run.stage)
    ]
    runs = list(kill_jobs.share(runs, given.job))
    try:
        with laboratory() as place:
            perform(place, runs, lambda text: print(text, flush=True), with_cluster=given.cluster)
    except Wrong as wrong:
        print(wrong)
        return 1
    print(f"{len(runs)} runs: nothing lost, nothing twice")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
