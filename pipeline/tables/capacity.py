"""How many messages a queue accepts before its publishers are held up: blocked time by rate, and the knee."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.tables.days import MICROSECONDS
from pipeline.tables.gold import LINK

RATE_STEPS = 2
"""Bins of rates for each doubling: each is 41 % wider than the one before."""
KNEE_SHARE = 0.1
"""The share of its time for which a publisher stands still at the knee."""
BIN_SECONDS_MIN = 3
"""A bin needs this many seconds to be judged: in fewer, one stall decides."""
COVERED_US_MIN = 100_000
"""A first or last second of which a link was there for less is left out: its rate would be a guess."""


def capacity(timeline: DataFrame, seconds: DataFrame, links: DataFrame) -> DataFrame:
    """``capacity``: how much publishers are blocked at each rate, in bins of rates; ``knee`` marks the first blocked
    bin.

    The subject is the address of a 1.0 link, or a 0.9.1 connection, since its reader stops for everything that it
    publishes. The blocked share of a second of a 0.9.1 connection is for how much of it its reader was in flow. The
    first and the last second of a link weigh as much as the link was there for.
    """
    key = ("day", "node", "subject", "second")
    moved = timeline.filter("direction = 'in' and transfers > 0")
    newer = (
        moved.join(links.filter("protocol = 'amqp-1.0'").select(*LINK, "address", "first_us", "last_us"), [*LINK])
        .withColumn("covered_us", _covered())
        .groupBy("day", "node", F.col("address").alias("subject"), "second")
        .agg(
            F.sum("transfers").alias("transfers"),
            F.max("covered_us").alias("covered_us"),
            F.try_divide(F.sum("blocked_us"), F.sum("covered_us")).alias("share"),
        )
    )
    channels = links.filter("protocol = 'amqp-0-9-1'").select(*LINK, "first_us", "last_us")
    in_flow = seconds.select("day", "node", F.col("connection").alias("subject"), "second", "reader_us")
    older = (
        moved.join(channels, [*LINK])
        .withColumn("covered_us", _covered())
        .groupBy("day", "node", F.col("connection").alias("subject"), "second")
        .agg(F.sum("transfers").alias("transfers"), F.max("covered_us").alias("covered_us"))
        .join(in_flow, [*key], "left")
        .select(
            *(*key, "transfers", "covered_us"),
            F.coalesce(F.try_divide("reader_us", F.col("covered_us")), F.lit(0.0)).alias("share"),
        )
    )
    rated = (
        newer.unionByName(older)
        .filter(F.col("subject").isNotNull() & (F.col("covered_us") >= COVERED_US_MIN))
        .withColumn("weight", F.col("covered_us") / MICROSECONDS)
        .withColumn("rate", F.col("transfers") / F.col("weight"))
        .withColumn("share", F.least("share", F.lit(1.0)))
    )
    step = F.floor(F.log2("rate") * RATE_STEPS)
    bins = rated.groupBy("day", "node", "subject", F.pow(F.lit(2.0), step / RATE_STEPS).alias("rate_from")).agg(
        (F.sum("transfers") / F.sum("weight")).alias("rate"),
        (F.sum(F.col("share") * F.col("weight")) / F.sum("weight")).alias("blocked_share"),
        F.sum("weight").alias("seconds"),
    )
    blocked = (F.col("blocked_share") >= KNEE_SHARE) & (F.col("seconds") >= BIN_SECONDS_MIN)
    subject = Window.partitionBy("day", "node", "subject")
    return bins.withColumn("first", F.min(F.when(blocked, F.col("rate_from"))).over(subject)).select(
        "day", "node", "subject", "rate_from", "rate", "blocked_share", "seconds",
        F.coalesce(F.col("rate_from") == F.col("first"), F.lit(False)).alias("knee"),
    )  # fmt: skip


def _covered() -> Column:
    """How much of its second a link was there for, in microseconds: the first and the last second are partial."""
    begin = F.col("second") * MICROSECONDS
    return F.least(F.col("last_us"), begin + MICROSECONDS) - F.greatest(F.col("first_us"), begin)
