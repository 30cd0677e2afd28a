"""How many messages a queue accepts before its publishers are held up: blocked time by rate, and the knee."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pipeline.tables.gold import LINK

RATE_STEPS = 2
"""Bins of rates for each doubling: each is 41 % wider than the one before."""
KNEE_SHARE = 0.1
"""The share of its time for which a publisher stands still at the knee."""
BIN_SECONDS_MIN = 3
"""A bin needs this many seconds to be judged: the first and last second of a load are incomplete."""


def capacity(timeline: DataFrame, seconds: DataFrame, links: DataFrame) -> DataFrame:
    """``capacity``: how much publishers are blocked at each rate, in bins of rates; ``knee`` marks the first blocked
    bin.

    The subject is the address of a 1.0 link, or a 0.9.1 connection, since its reader stops for everything that it
    publishes. The blocked share of a second of a 0.9.1 connection is whether its reader was in flow.
    """
    moved = timeline.filter("direction = 'in' and transfers > 0")
    newer = (
        moved.join(links.filter("protocol = 'amqp-1.0'").select(*LINK, "address"), [*LINK])
        .groupBy("node", F.col("address").alias("subject"), "second")
        .agg(F.sum("transfers").alias("rate"), F.avg(F.col("blocked_us") / 1e6).alias("share"))
    )
    channels = links.filter("protocol = 'amqp-0-9-1'").select(*LINK)
    older = (
        moved.join(channels, [*LINK])
        .groupBy("node", F.col("connection").alias("subject"), "second")
        .agg(F.sum("transfers").alias("rate"))
        .join(
            seconds.select("node", F.col("connection").alias("subject"), "second", F.lit(1.0).alias("share")),
            ["node", "subject", "second"],
            "left",
        )
        .withColumn("share", F.coalesce("share", F.lit(0.0)))
    )
    step = F.floor(F.log2("rate") * RATE_STEPS)
    bins = (
        newer.unionByName(older)
        .filter("subject is not null")
        .groupBy("node", "subject", F.pow(F.lit(2.0), step / RATE_STEPS).alias("rate_from"))
        .agg(F.avg("rate").alias("rate"), F.avg("share").alias("blocked_share"), F.count("*").alias("seconds"))
    )
    blocked = (F.col("blocked_share") >= KNEE_SHARE) & (F.col("seconds") >= BIN_SECONDS_MIN)
    subject = Window.partitionBy("node", "subject")
    return bins.withColumn("first", F.min(F.when(blocked, F.col("rate_from"))).over(subject)).select(
        "node", "subject", "rate_from", "rate", "blocked_share", "seconds",
        F.coalesce(F.col("rate_from") == F.col("first"), F.lit(False)).alias("knee"),
    )  # fmt: skip
