"""Confirmed rows per second of the Spark sink, warm, on two cores: ``python -m tests.pyspark_amqp10.measure_sink``.

A DataFrame of two partitions with bodies of 100 bytes, kept in memory, is written to a queue several times. The first
pass warms Java up. A rate is rows by the time of the whole write, until the broker has accepted the last of them; CPU
time is that of all processes, the broker's by itself. Needs the extra ``pipeline`` and Java.
"""

import argparse
import os
import sys
import tempfile
import time

from amqp10.blocking.requests import BlockingManagement
from bench.broker import ROOT, started
from pyspark_amqp10.login import PASSWORD_VARIABLE, Login
from tests.pyspark_amqp10.measure import BODY_BYTES, SERVE, CpuTimes, session

CASES = {"annotated": "true", "plain": "false"}
"""With the annotations that let a consumer drop repeats, and without."""


def build_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.pyspark_amqp10.measure_sink", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--case", choices=tuple(CASES), action="append", help="only this one (default: all)")
    parser.add_argument("--rows", type=int, default=400_000, help="of each pass (default: 400000)")
    parser.add_argument("--passes", type=int, default=3, help="the first of them to warm up (default: 3)")
    return parser


def main() -> int:
    """The command line."""
    given = build_parser().parse_args()
    os.environ.setdefault(PASSWORD_VARIABLE, "guest")
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1", PYTHONPATH=str(ROOT))
    with (
        tempfile.TemporaryDirectory(prefix="bench-spark-") as folder,
        started(SERVE) as broker,
        session(folder) as spark,
    ):
        login = Login.parse(f"amqp://127.0.0.1:{broker.url.rpartition(':')[2]}", user="guest")
        body = f"cast(lpad(cast(id as string), {BODY_BYTES}, '0') as binary) as body"
        rows = spark.range(0, given.rows, 1, 2).selectExpr(body).cache()
        rows.count()
        print(f"{'sink':10} {'pass':>4} {'rows':>9} {'rows/s':>9} {'CPU us/row':>11} {'of it broker':>13}", flush=True)
        for case in given.case or CASES:
            for number in range(given.passes):
                address = declared(login, f"{case}-{number}")
                broker_before, times, began = broker.cpu_seconds(), CpuTimes(), time.monotonic()
                write = rows.write.format("amqp10").mode("append").option("url", f"amqp://{login.url.place}")
                write.option("user", "guest").option("address", address).option("batchIdAnnotation", CASES[case]).save()
                seconds = time.monotonic() - began
                times.look()
                cpu, of_broker = times.seconds, broker.cpu_seconds() - broker_before
                print(
                    f"{case:10} {number:4} {given.rows:9} {given.rows / seconds:9.0f} {cpu / given.rows * 1e6:11.1f} "
                    f"{of_broker / given.rows * 1e6:13.1f}",
                    flush=True,
                )
    return 0


def declared(login: Login, name: str) -> str:
    """A new durable queue; its address."""
    with login.connect() as connection:
        BlockingManagement(connection).request("PUT", f"/queues/{name}", {"durable": True, "arguments": {}})
    return f"/queues/{name}"


if __name__ == "__main__":
    sys.exit(main())
