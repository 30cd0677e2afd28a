"""``python -m tests.pyspark_amqp10.sink_job IN CHECKPOINT URL PASSWORD_FILE ADDRESS UNDER_WAY_MAX``

It writes lines of files into a queue, in a process of its own that a test can kill. One file is one micro-batch, a task
that fails is tried again, as on a cluster, and at most UNDER_WAY_MAX messages are on their way.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.pyspark_amqp10.spark_fixtures import SPARK_SETTINGS

MASTER = "local[2,200]"
"""Two cores, and so many tries for a task that mostly a broker that was killed is back before they are used up: else
Spark has to be started again. Spark's own local[2] has one."""


def started(
    spark: SparkSession, lines: str, checkpoint: str, url: str, password_file: str, address: str, under_way_max: str
) -> StreamingQuery:
    """A query that writes what there is, and ends."""
    return (
        spark.readStream.option("maxFilesPerTrigger", 1)
        .text(lines)
        .withColumnRenamed("value", "body")
        .writeStream.format("amqp10")
        .option("url", url)
        .option("user", "guest")
        .option("passwordFile", password_file)
        .option("address", address)
        .option("maxUnconfirmed", under_way_max)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def main(*arguments: str) -> None:
    """Write what there is, and end."""
    spark = SparkSession.builder.config(map=SPARK_SETTINGS).master(MASTER).getOrCreate()
    started(spark, *arguments).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
