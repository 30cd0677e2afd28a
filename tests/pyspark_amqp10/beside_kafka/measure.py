"""Runs passes: writes rows and reads them again, system after system, and checks each by count and sum."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from bench.broker import Broker
from tests.pyspark_amqp10.beside_kafka.figures import Pass, checked
from tests.pyspark_amqp10.beside_kafka.rows import Kind
from tests.pyspark_amqp10.beside_kafka.systems import System

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPARK: Mapping[str, str] = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
}
CHECK = "check"


@contextmanager
def session(folder: str, jars: str, cores: int) -> Iterator[SparkSession]:
    """Spark in this process, quiet, with these jars."""
    from pyspark.sql import SparkSession

    own = {"spark.master": f"local[{cores}]", "spark.local.dir": folder, "spark.jars": jars}
    spark = SparkSession.builder.config(map={**SPARK, **own}).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one kind in memory, in the columns of one system's sink; how many, and their sum."""

    frame: DataFrame
    count: int
    total: int


class Runner:
    """Makes passes with one Spark. ``others``: all brokers, whose CPU time is not Spark's."""

    def __init__(
        self, spark: SparkSession, folder: Path, *, rows: int, tasks: int, rows_max: int, brokers: Sequence[Broker]
    ) -> None:
        self._spark, self._folder, self._rows, self._tasks = spark, folder, rows, tasks
        self._rows_max = rows_max
        self._brokers = brokers
        self._made: dict[tuple[str, ...], Rows] = {}
        self._places = 0

    def passes(self, system: System, kind: Kind, number: int) -> list[Pass]:
        """Write all rows to a new place of the system, and read them from it."""
        self._places += 1
        place = f"{system.name}-{kind.name}-{self._places}"
        rows = self._in_memory(system, kind)
        system.make(place)
        written = self._timed(system, lambda: self._write(system, rows.frame, place, kind))
        read = self._timed(system, lambda: self._read(system, place, kind))
        system.delete(place)
        void = checked(rows.count, rows.total, read.rows, read.total)
        return [
            Pass(
                kind=kind.name,
                way=way,
                system=system.name,
                number=number,
                rows=rows.count,
                seconds=one.seconds,
                whole_seconds=one.whole_seconds,
                broker_cpu_us=one.broker_cpu / rows.count * 1e6,
                spark_cpu_us=one.spark_cpu / rows.count * 1e6,
                void=void,
            )
            for way, one in (("sink", written), ("source", read))
        ]

    def _in_memory(self, system: System, kind: Kind) -> Rows:
        from pyspark.sql.functions import expr

        columns = system.columns(kind)
        made = self._made.get(columns)
        if made is None:
            frame = self._spark.range(0, self._rows, 1, self._tasks).selectExpr(*columns).cache()
            of_system = kind.sum_of_headgate if columns == kind.for_headgate else kind.sum_of_kafka
            total = frame.agg(expr(f"sum({of_system})")).collect()[0][0]
            made = self._made[columns] = Rows(frame, frame.count(), total)
        return made

    def _timed(self, system: System, work: Callable[[], Done]) -> Timed:
        broker, spark, began = system.broker.cpu_seconds(), self._spark_cpu(), time.monotonic()
        done = work()
        whole = time.monotonic() - began
        return Timed(
            rows=done.rows,
            total=done.total,
            seconds=done.seconds or whole,
            whole_seconds=whole,
            broker_cpu=system.broker.cpu_seconds() - broker,
            spark_cpu=self._spark_cpu() - spark,
        )

    def _write(self, system: System, frame: DataFrame, place: str, kind: Kind) -> Done:
        system.write(frame, place, kind)
        return Done(self._rows, None, 0.0)

    def _read(self, system: System, place: str, kind: Kind) -> Done:
        """Read all that is there in micro-batches, and drop it."""
        from pyspark.sql.functions import count, expr, lit

        frame, summed = system.stream(place, kind, self._rows_max)
        query = (
            frame.observe(CHECK, count(lit(1)).alias("rows"), expr(f"sum({summed})").alias("total"))
            .writeStream.format("noop")
            .option("checkpointLocation", str(self._folder / f"checkpoint-{place}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        batches = [one for one in query.recentProgress if one.numInputRows]
        found = [one.observedMetrics[CHECK] for one in batches]
        return Done(
            sum(one["rows"] for one in found),
            sum(one["total"] or 0 for one in found),
            sum(one.durationMs["triggerExecution"] for one in batches) / 1000,
        )

    def _spark_cpu(self) -> float:
        """CPU time of this process and all that it has started, also what has ended, less the brokers."""
        root = psutil.Process()
        brokers = {one.pid for one in self._brokers}
        mine = [root, *(one for one in root.children(recursive=True) if one.pid not in brokers)]
        total = 0.0
        for process in mine:
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                ended = times.children_user + times.children_system if process is not root else 0.0
                total += times.user + times.system + ended
        return total


@dataclass(frozen=True, slots=True)
class Done:
    """What a pass did: rows, their sum if it is known, and the seconds if not those of the whole pass."""

    rows: int
    total: int | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The same with times."""

    rows: int
    total: int | None
    seconds: float
    whole_seconds: float
    broker_cpu: float
    spark_cpu: float
