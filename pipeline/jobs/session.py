"""The Spark session of a job, with the settings that Spark needs on every machine.

Settings from ``spark-submit --conf`` or ``spark-defaults.conf`` take precedence over those here.
"""

import os
import sys

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
}
LOOPBACK = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.driver.memory": DRIVER_MEMORY,
    "spark.sql.shuffle.partitions": LOCAL_PARTITIONS,
}
"""Settings for a Spark within one process: no other machine on the network can connect to it."""


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
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings.items():
        if not given.contains(key):
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
