"""The Spark session of a job, with the settings that Spark needs on every machine.

Settings from ``spark-submit --conf`` or ``spark-defaults.conf`` take precedence over those here.
"""

import os
import sys
from collections.abc import Mapping

from pyspark.conf import SparkConf
from pyspark.sql import SparkSession

LOCAL_MASTER = "local[2]"
DRIVER_MEMORY = "2g"
"""Enough to add up 100 million events."""
LOCAL_PARTITIONS = "4"
"""Partitions of a shuffle. Spark's default, 200, makes 200 small tasks and files of each step on one machine."""
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Stores the state of stalls; transformWithState needs it.
    "spark.sql.streaming.stateStore.providerClass": ROCKS_DB,
    "spark.ui.showConsoleProgress": "false",
    # A small map before the map of the groups. Sums per link and second have more groups than it has room for, 65,536,
    # and are looked for in both then: without it a sixth faster, of 100 million events.
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
}
LOOPBACK = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.driver.memory": DRIVER_MEMORY,
    "spark.sql.shuffle.partitions": LOCAL_PARTITIONS,
}
"""Settings for a Spark within one process: no other machine on the network can connect to it."""

COLLECTOR = "-XX:+UseParallelGC"
"""A job is not interactive, and ends. With this collector of garbage it takes a tenth less time than with Java's own
choice, whose short pauses cost something at each write to memory."""
OPTIONS_OF_JAVA = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
"""The variables with which a user gives options to every Java."""


def chooses_collector(environ: Mapping[str, str]) -> bool:
    """Whether the options that a user gives to Java choose a collector: with two, Java does not start."""
    words = " ".join(environ.get(name, "") for name in OPTIONS_OF_JAVA).split()
    return any(word.startswith("-XX:+Use") and word.endswith("GC") for word in words)


def session(name: str, *, master: str | None = None) -> SparkSession:
    """A session on ``master``; without one, that of ``spark-submit``, or two cores of this machine."""
    given = SparkConf()
    master = master or given.get("spark.master", None) or LOCAL_MASTER
    settings = dict(EVERYWHERE)
    # Python workers must be of the same minor version as the driver.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        settings |= LOOPBACK
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if not chooses_collector(os.environ):
            settings["spark.driver.extraJavaOptions"] = COLLECTOR
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings.items():
        if not given.contains(key):
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
