"""What a user's job on Spark does with the connector alone: write rows to a queue, read them, and use its own packages.

The tests run a copy of this project, with the broker's URL as the argument. Nothing of this tree is on its path.
"""

import sys
from collections.abc import Iterator

import pandas
from pyspark.sql import SparkSession

SETTINGS = {
    "spark.master": "local[1]",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    ),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
ROWS = 3


def owners(frames: Iterator[pandas.DataFrame]) -> Iterator[pandas.DataFrame]:
    """Whose packages Spark's Python worker imports."""
    import core
    import pipeline
    import tests

    for frame in frames:
        yield frame.assign(body=f"{core.OWNER}, {pipeline.OWNER}, {tests.OWNER}, row " + frame["id"].astype(str))[
            ["body"]
        ]


def main(url: str) -> None:
    """Write, then read."""
    spark = SparkSession.builder.config(map=SETTINGS).getOrCreate()
    options = {"url": url, "user": "guest", "address": "/queues/of-the-connector"}
    rows = spark.range(ROWS).coalesce(1).mapInPandas(owners, "body string")
    rows.write.format("amqp10").mode("append").options(**options).save()
    messages = spark.readStream.format("amqp10").options(**options).load().selectExpr("cast(body as string) as body")
    messages.writeStream.format("memory").queryName("taken").trigger(availableNow=True).start().awaitTermination()
    for row in spark.table("taken").collect():
        print(row.body)
    spark.stop()


main(sys.argv[1])
