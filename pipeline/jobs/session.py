"""The Spark session of a job, with the settings that Spark needs on every machine.

Settings from ``spark-submit --conf`` or ``spark-defaults.conf`` take precedence over those here.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
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
    # Spark looks for a group in a small map of 65,536 groups, and then in that of all groups. The sums per link and
    # second have more groups: without the small map, those over 100 million events take an eighth less time.
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
"""The garbage collector of a job, which is not interactive, and ends: Java's own choice has shorter pauses, which cost
something at each write to memory. The sums over 100 million events take a tenth less time with this one."""
CONFIGURED_BY = (
    "JDK_JAVA_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "SPARK_SUBMIT_OPTS",
    "SPARK_CONF_DIR",
    "SPARK_HOME",
)
"""Variables with which a user gives options to Java, or names a Spark that may have a spark-defaults.conf."""
OWN_DEFAULTS = Path(pyspark.__file__).parent / "conf" / "spark-defaults.conf"
"""What the Spark of the package pyspark reads without these variables; the package does not bring it."""


def is_configured(environ: Mapping[str, str]) -> bool:
    """Whether a user may have given options to Java. These stay as they are then: Java does not start with two garbage
    collectors, and ``spark.driver.extraJavaOptions`` would take the place of the user's."""
    return any(environ.get(name) for name in CONFIGURED_BY) or OWN_DEFAULTS.exists()


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
        if not is_configured(os.environ):
            settings["spark.driver.extraJavaOptions"] = COLLECTOR
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings.items():
        if not given.contains(key):
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
