"""``python -m tests.pipeline.cluster``: the same job on this machine's two cores, and on a cluster with two workers.

The cluster is Spark's own, standalone: a master and two workers with one core each, processes of their own that the
scripts inside PySpark start. The job is run twice with the same generated events; what changes are ``--master`` and
``--warehouse``. Then every table must hold the same rows. A queue is archived and replayed on the cluster, too, so that
the connector's source and sink work in executors.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pyspark

from tests.kit.broker_process import ROOT, broker_process
from tests.pyspark_amqp10.spark_fixtures import JAVA_OPTIONS

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = "Successfully registered with master"
PATIENCE_S = 120.0
"""How long a process may take until it is ready: Java starts in 2 s, and in more on a busy machine."""
LOOK_S = 0.1
EVENTS = 20_000
MESSAGES = 3000
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS}
DEFAULTS = "spark.sql.shuffle.partitions 4\nspark.ui.enabled false\n"
"""The spark-defaults.conf of this cluster. Like every cluster, it states how many cores it has: two, not 200."""


@contextmanager
def spark_process(log: Path, said: re.Pattern[str], *words: str) -> Iterator[Callable[[], re.Match[str]]]:
    """A process of the cluster, until the block ends. Yields what waits until the process is ready, and returns the
    match of the line with which it said so."""
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(SPARK_CLASS), *words], env=os.environ | LOOPBACK, stdout=output, stderr=subprocess.STDOUT
        )

    def ready() -> re.Match[str]:
        deadline = time.monotonic() + PATIENCE_S
        while (match := said.search(log.read_text())) is None:
            assert process.poll() is None, f"{words[0]} has ended; see {log}"
            assert time.monotonic() < deadline, f"{words[0]} does not say that it is there; see {log}"
            time.sleep(LOOK_S)
        return match

    try:
        yield ready
    finally:
        process.terminate()
        process.wait()


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and two workers on the loopback interface. Yields the URL of the master."""
    deploy = "org.apache.spark.deploy"
    place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with ExitStack() as stack:
        master = spark_process(folder / "master.log", MASTER, f"{deploy}.master.Master", *place)
        url = stack.enter_context(master)()[1]
        workers = []
        for number in (1, 2):
            work = folder / f"worker-{number}"
            words = (f"{deploy}.worker.Worker", *place, "--cores", "1", "--memory", "1g", "--work-dir", str(work), url)
            worker = spark_process(folder / f"worker-{number}.log", re.compile(REGISTERED), *words)
            workers.append(stack.enter_context(worker))
        for ready in workers:
            ready()
        yield url


def pipeline(folder: Path, *words: str) -> str:
    """Run a command of the pipeline; returns its output. The folder has the defaults of the cluster."""
    environment = os.environ | LOOPBACK | {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(folder)}
    ran = subprocess.run(
        [sys.executable, "-m", "pipeline", *words], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, (
        f"python -m pipeline {' '.join(words)} ended with {ran.returncode}\n{ran.stderr[-4000:]}"
    )
    return ran.stdout


def rows_of(warehouse: Path, table: str) -> list[str]:
    """All rows of a table, as text, in an order that does not depend on which executor wrote them."""
    return sorted(map(str, pq.read_table(warehouse / table).to_pylist()))


def tables_of(warehouse: Path) -> set[str]:
    """The names of the tables in a warehouse."""
    return {path.name for path in warehouse.iterdir() if path.is_dir() and not path.name.startswith("_")}


def same_tables(local: Path, other: Path) -> int:
    """Compare the tables; returns how many there are. Raises AssertionError for one that differs, or has no rows in
    both."""
    names = tables_of(local)
    assert names == tables_of(other), f"{sorted(names)} and {sorted(tables_of(other))}"
    for name in names:
        rows = rows_of(local, name), rows_of(other, name)
        assert rows[0] == rows[1], f"{name} has {len(rows[0])} rows here and {len(rows[1])} there, or others"
    assert any(rows_of(local, name) for name in names)
    return len(names)


def archived_and_replayed(folder: Path, master: str) -> int:
    """Move messages from a queue into an archive, and from there into another queue; returns how many came out
    of that."""
    with broker_process() as broker:
        url = broker.url("guest")

        def headgate(*words: str, given: str | None = None) -> str:
            command = [sys.executable, "-m", "amqp10", *words, "--url", broker.url()]
            return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, input=given).stdout

        for name in ("orders", "again"):
            headgate("queues", "declare", name, "--argument", "x-sequence=true")
        headgate("publish", "/queues/orders", given="".join(f"{number}\n" for number in range(MESSAGES)))
        password = folder / "password"
        password.write_text("guest\n")
        common = ("--url", url, "--password-file", str(password), "--warehouse", str(folder / "audit"))
        pipeline(folder, "archive", *common, "--address", "/queues/orders", "--master", master)
        pipeline(folder, "replay", *common, "--address", "/queues/orders", "--to", "/queues/again", "--master", master)
        return len(set(headgate("consume", "/queues/again", "--drain").split()))


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline.cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=EVENTS, help=f"to be generated (default {EVENTS})")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headgate-cluster-"))
    (folder / "spark-defaults.conf").write_text(DEFAULTS)
    pipeline(folder, "generate", "--workload", "queue", "--events", str(given.events), "--out", str(folder / "events"))
    job = ("run", "--events", str(folder / "events"))
    try:
        pipeline(folder, *job, "--warehouse", str(folder / "local"), "--master", "local[2]")
        print("done with --master local[2]", flush=True)
        with cluster(folder) as master:
            pipeline(folder, *job, "--warehouse", str(folder / "cluster"), "--master", master)
            print(f"done with --master {master}", flush=True)
            count = same_tables(folder / "local", folder / "cluster")
            print(f"{count} tables are the same", flush=True)
            came = archived_and_replayed(folder, master)
            assert came == MESSAGES, f"{came} of {MESSAGES} messages came out of archive and replay"
            print(f"{MESSAGES} messages archived from a queue and replayed into another, on the cluster")
    except AssertionError as error:
        sys.exit(f"folder {folder} (kept): {error}")


if __name__ == "__main__":
    main()
