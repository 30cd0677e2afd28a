"""Tutorial 17: Spark moves a queue into a table and back, joins two streams, and counts by time.

To run it, with Java, and with the connector in the environment of ``spark-submit``:

    spark-submit --master 'local[2]' examples/18_spark_lake.py fill
    spark-submit --master 'local[2]' examples/18_spark_lake.py archive
    spark-submit --master 'local[2]' examples/18_spark_lake.py send-back
    spark-submit --master 'local[2]' examples/18_spark_lake.py join
    spark-submit --master 'local[2]' examples/18_spark_lake.py count
"""

import argparse
import os
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, from_json, to_date, window

ORDERS = "order STRING, customer STRING, cents LONG"
PAYMENTS = "order STRING, cents LONG"


def fill(spark: SparkSession, broker: Mapping[str, str]) -> None:
    """Send a thousand orders to the queue and to a stream, and a payment for each second order to another stream."""
    orders = spark.range(1000).selectExpr(
        "to_json(struct('o' || id AS order, 'c' || id % 7 AS customer, id * 10 AS cents)) AS body",
        "'o' || id AS messageId",
        "map('tenant', struct('string' AS type, 'c' || id % 7 AS text)) AS properties",
    )
    for address in ("/queues/sales", "/queues/sales-log"):
        orders.write.format("amqp10").mode("append").options(**broker).option("address", address).save()
    payments = spark.range(0, 1000, 2).selectExpr("to_json(struct('o' || id AS order, id * 10 AS cents)) AS body")
    payments.write.format("amqp10").mode("append").options(**broker).option("address", "/queues/payments").save()


def archive(spark: SparkSession, broker: Mapping[str, str], folder: str, form: str = "parquet") -> None:
    """Move all messages of the queue into a table with a folder for each day. A message is settled when Spark has
    committed its batch; ``form`` is the name of a format that Spark can write as a stream."""
    messages = spark.readStream.format("amqp10").options(**broker).option("address", "/queues/sales").load()
    query = (
        messages.withColumn("day", to_date("enqueued"))
        .writeStream.format(form)
        .partitionBy("day")
        .option("checkpointLocation", f"{folder}/checkpoints/sales")
        .trigger(availableNow=True)
        .start(f"{folder}/sales")
    )
    query.awaitTermination()


def send_back(spark: SparkSession, broker: Mapping[str, str], folder: str, form: str = "parquet") -> None:
    """Send the messages of the table to another queue, with their ids, properties and annotations. Rows have the
    address from which they were read, which goes before the option."""
    messages = spark.read.format(form).load(f"{folder}/sales").drop("day", "address")
    messages.write.format("amqp10").mode("append").options(**broker).option("address", "/queues/sales-again").save()


def stream(spark: SparkSession, broker: Mapping[str, str], address: str, schema: str) -> DataFrame:
    """The messages of a stream from its beginning: their fields, and the time at which each came to the broker."""
    messages = (
        spark.readStream.format("amqp10")
        .schema("body BINARY, enqueued TIMESTAMP")  # only these parts of a message are decoded
        .options(**broker)
        .options(address=address, mode="stream", startingOffsets="earliest")
        .load()
    )
    return messages.select("enqueued", from_json(col("body").cast("string"), schema).alias("is")).select(
        "enqueued", "is.*"
    )


def join(spark: SparkSession, broker: Mapping[str, str], folder: str) -> None:
    """Write each order with its payment, if that came within an hour. Spark forgets what is older than a watermark."""
    orders = stream(spark, broker, "/queues/sales-log", ORDERS).withWatermark("enqueued", "10 minutes").alias("o")
    payments = stream(spark, broker, "/queues/payments", PAYMENTS).withWatermark("enqueued", "10 minutes").alias("p")
    paid = orders.join(
        payments,
        expr("o.order = p.order AND p.enqueued BETWEEN o.enqueued - INTERVAL 1 HOUR AND o.enqueued + INTERVAL 1 HOUR"),
    ).select("o.order", "o.customer", "p.cents", col("p.enqueued").alias("paid"))
    query = (
        paid.writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoints/paid")
        .trigger(availableNow=True)
        .start(f"{folder}/paid")
    )
    query.awaitTermination()


def count(spark: SparkSession, broker: Mapping[str, str], folder: str) -> None:
    """Send what each customer has ordered in each minute to a queue, again whenever that changes.

    Spark does not give changing rows to a sink that is written in Python, so each batch is written by itself.
    """

    def send(changed: DataFrame, batch: int) -> None:
        changed.write.format("amqp10").mode("append").options(**broker).option("address", "/queues/totals").save()

    totals = (
        stream(spark, broker, "/queues/sales-log", ORDERS)
        .withWatermark("enqueued", "10 minutes")
        .groupBy(window("enqueued", "1 minute"), "customer")
        .agg(expr("count(*)").alias("orders"), expr("sum(cents)").alias("cents"))
        .selectExpr(
            "to_json(struct(window.start, customer, orders, cents)) AS body",
            "concat(window.start, ' ', customer) AS messageId",
        )
    )
    query = (
        totals.writeStream.foreachBatch(send)
        .outputMode("update")
        .option("checkpointLocation", f"{folder}/checkpoints/totals")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main() -> None:
    """Run one step."""
    steps = {"archive": archive, "send-back": send_back, "join": join, "count": count}
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=["fill", *steps])
    parser.add_argument("--folder", default="lake")
    parser.add_argument("--url", default="amqp://127.0.0.1:5672")
    parser.add_argument("--user", default="guest")
    given = parser.parse_args()
    os.environ.setdefault("AMQP10_PASSWORD", "guest")  # for this machine only: never in an option, which Spark shows
    spark = SparkSession.builder.appName(given.step).getOrCreate()
    broker = {"url": given.url, "user": given.user}
    if given.step == "fill":
        fill(spark, broker)
    else:
        steps[given.step](spark, broker, given.folder)
    spark.stop()


if __name__ == "__main__":
    main()
