"""Rows per second of the Spark sources, warm, on two local cores: ``python -m tests.pyspark_amqp10.measure``.

A broker is filled with messages of 100 bytes; a query reads all of them in micro-batches and drops the rows, several
times. The first pass warms Java up. A rate is rows by the time of whole micro-batches, planning and logs included; CPU
time is that of all processes, the broker's by itself. Needs the extra ``pipeline`` and Java.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from amqp10.blocking.links import SendingLink
from amqp10.blocking.requests import BlockingManagement
from amqp10.wire.sections import DATA, Header, encode_header, encode_section
from bench.broker import ROOT, Broker, started
from pyspark_amqp10.login import PASSWORD_VARIABLE, Login

BODY_BYTES = 100
SERVE = "{python} -m amqp10 serve --listen 127.0.0.1:{port} --data {data} --admin off"
CASES = ("stream", "queue")
WITHIN_S = 60.0
LOOK_S = 0.1
"""How often the CPU times of processes are taken that may end."""
SPARK: dict[str, bool | float | int | str | None] = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.pyspark_amqp10.measure", description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=CASES, action="append", help="only this one (default: all)")
    parser.add_argument("--readers", type=int, nargs="+", default=[1], help="tasks that read a queue (default: 1)")
    parser.add_argument("--messages", type=int, default=400_000, help="of each pass (default: 400000)")
    parser.add_argument("--rows", type=int, default=100_000, help="of a micro-batch at the most (default: 100000)")
    parser.add_argument("--passes", type=int, default=3, help="the first of them to warm up (default: 3)")
    given = parser.parse_args()
    os.environ.setdefault(PASSWORD_VARIABLE, "guest")
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1", PYTHONPATH=str(ROOT))
    folders = tempfile.TemporaryDirectory(prefix="bench-spark-")
    with folders as folder, started(SERVE) as broker, session(folder) as spark:
        print(
            f"{'source':8} {'readers':>7} {'pass':>4} {'rows':>9} {'rows/s':>9} {'CPU us/row':>11} {'broker':>7}",
            flush=True,
        )
        for case in given.case or CASES:
            for number in range(given.passes):
                for readers in given.readers if case == "queue" else [1]:
                    measure(spark, broker, case, readers, number, given, Path(folder))
    return 0


@contextmanager
def session(folder: str) -> Iterator[object]:
    """Spark on two cores, quiet."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.config(map=SPARK | {"spark.local.dir": folder}).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()


def measure(
    spark: object, broker: Broker, case: str, readers: int, number: int, given: argparse.Namespace, folder: Path
) -> None:
    """One pass: fill, read all of it, print a line."""
    from pyspark.sql import SparkSession

    assert isinstance(spark, SparkSession)
    login = Login.parse(f"amqp://127.0.0.1:{broker.url.rpartition(':')[2]}", user="guest")
    name = f"{case}-{readers}-{number}"
    fill(login, name, case, given.messages)
    options = {"url": f"amqp://{login.url.place}", "user": "guest", "address": f"/queues/{name}", "mode": case}
    if case == "stream":
        options |= {"startingOffsets": "earliest", "minPartitions": "2"}
    else:
        options |= {"readers": str(readers)}
    times, broker_before = CpuTimes(), broker.cpu_seconds()
    query = (
        spark.readStream.format("amqp10")
        .options(**options, maxRowsPerTrigger=str(given.rows))
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / f"checkpoint-{name}"))
        .trigger(availableNow=True)
        .start()
    )
    while not query.awaitTermination(LOOK_S):
        times.look()
    times.look()
    batches = [one for one in query.recentProgress if one.numInputRows]
    rows = sum(one.numInputRows for one in batches)
    seconds = sum(one.durationMs["triggerExecution"] for one in batches) / 1000
    broker_cpu = broker.cpu_seconds() - broker_before
    cpu = times.seconds
    print(
        f"{case:8} {readers:7} {number:4} {rows:9} {rows / seconds:9.0f} {cpu / rows * 1e6:11.1f} "
        f"{broker_cpu / rows * 1e6:7.1f}",
        flush=True,
    )
    if rows != given.messages:
        raise SystemExit(f"{rows} rows were read of {given.messages} messages")


def fill(login: Login, name: str, case: str, messages: int) -> None:
    """Declare a queue that stamps numbers, or a stream, and publish to it."""
    arguments = {"x-sequence": True} if case == "queue" else {"x-queue-type": "stream"}
    with login.connect() as connection:
        body: dict[str, object] = {"durable": True, "arguments": arguments}
        BlockingManagement(connection).request("PUT", f"/queues/{name}", body)
        sending = SendingLink.open(connection, f"/queues/{name}")
        entry = encode_section(DATA, bytes(BODY_BYTES))
        sent = sending.send([entry] * messages, header=encode_header(Header(durable=True)), within_s=WITHIN_S)
        if sending.confirm(sent, within_s=WITHIN_S):
            raise SystemExit(f"not every message to {name} was accepted")


class CpuTimes:
    """CPU time from now on of this process and everything that it has started: Python, Java, workers, the broker.

    A query's own processes end with it, so that they have to be looked at before.
    """

    def __init__(self) -> None:
        self._last: dict[int, float] = {}
        self.look()
        self._before = sum(self._last.values())

    def look(self) -> None:
        """Take the times of the processes that are there."""
        root = psutil.Process()
        for one in [root, *root.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                times = one.cpu_times()
                self._last[one.pid] = times.user + times.system

    @property
    def seconds(self) -> float:
        """Of all processes until they were last looked at."""
        return sum(self._last.values()) - self._before


if __name__ == "__main__":
    sys.exit(main())
