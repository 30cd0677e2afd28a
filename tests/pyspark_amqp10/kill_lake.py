"""``kill -9`` of Spark before, in and after the commits of the tables of Delta Lake and Iceberg, and an audit.

    python -m tests.pyspark_amqp10.kill_lake
    python -m tests.pyspark_amqp10.kill_lake --forms delta --moments after 20 40

The examples move a queue into a table in batches of 20 rows. In each run the driver and its Java are killed at the
second batch of the run, at another moment; the last run is not killed. Each message has to be in the table once.

==========  ==========================================================================
moment      when the processes are killed
==========  ==========================================================================
``before``  Spark has planned the batch; nothing of it is in the table
``after``   the table has the batch; Spark has not noted that it is done
a number    so many milliseconds after the example has begun to append the batch
==========  ==========================================================================
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from typing import TYPE_CHECKING

from amqp10.cli.main import run as headgate
from tests.kit.broker_process import ROOT, broker_process
from tests.pyspark_amqp10.lake_module import FORMS, lake_module
from tests.pyspark_amqp10.spark_fixtures import SPARK_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_ROWS = 20
MOMENTS = ("after", "before", "30", "80", "150", "after", "60")
KILLED_BATCH = 2
"""The first batch of a run may be one that the run before was killed at."""
RUN_SECONDS = 300.0


def main() -> int:
    """Kill and audit. Returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--moments", nargs="+", default=MOMENTS)
    parser.add_argument("--job", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job is not None:
        move(*given.job)
        return 0
    right = [audit(form, given.moments) for form in given.forms]
    return 0 if all(right) else 1


def audit(form: str, moments: list[str]) -> bool:
    """Move a queue with all these kills, and say whether each message is in the table once."""
    count = 2 * BATCH_ROWS * (len(moments) + 1)
    with tempfile.TemporaryDirectory() as folder, broker_process() as broker:
        arguments = ["--argument", "x-sequence=true", "--argument", "x-enqueued-time=true", "--url", broker.url()]
        headgate(["queues", "declare", "sales", *arguments])
        headgate(["publish", "/queues/sales", "sold", "--count", str(count), "--url", broker.url()])
        url = f"amqp://{broker.host}:{broker.port}"
        ends = [run(form, folder, url, moment) for moment in [*moments, "never"]]
        times = Counter(lake_module(form).read(folder)["offset"].to_pylist())
    right = ends == [-signal.SIGKILL] * len(moments) + [0] and times == Counter(range(count))
    print(f"{form}: {len(moments)} kills, exit statuses {ends}")
    print(f"{form}: {count} messages, {times.total()} rows, {len(times)} different: {'right' if right else 'WRONG'}")
    return right


def run(form: str, folder: str, url: str, moment: str) -> int:
    """One run in processes of its own. Returns its exit status."""
    environment = os.environ | {"AMQP10_PASSWORD": "guest", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.pyspark_amqp10.kill_lake", "--job", form, folder, url, moment]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        timeout=RUN_SECONDS,
    )
    return done.returncode


def move(form: str, folder: str, url: str, moment: str) -> None:
    """Move the queue into the table, and kill this process and its Java at the moment."""
    from pyspark.sql import SparkSession

    example, begun = lake_module(form), []

    def write(frame: "DataFrame", batch: int, folder: str) -> None:
        begun.append(batch)
        now = moment if len(begun) == KILLED_BATCH else "never"
        if now == "before":
            kill_all()
        elif now.isdigit():
            threading.Timer(int(now) / 1000, kill_all).start()
        example.append(frame, batch, folder)
        print(f"{form}: batch {batch} is in the table; the kill: {now}", flush=True)
        if now == "after":
            kill_all()

    spark = SparkSession.builder.config(map=SPARK_SETTINGS).getOrCreate()
    options = {"url": url, "user": "guest", "maxRowsPerTrigger": str(BATCH_ROWS)}
    example.archive(spark, options, folder, "/queues/sales", write)
    spark.stop()


def kill_all() -> None:
    """Kill all processes of this session."""
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
