"""Which part of the broker is the slow one: three rules for AMQP 0.9.1, the reported reasons for AMQP 1.0.

A stage of AMQP 0.9.1 is *in flow* when the one behind it is slow, so the bottleneck is the first one behind the last
stage in flow (docs/stage-credit.md). For each second:

=======  ========  =======  ===================================
reader   channels  queues   the bottleneck
=======  ========  =======  ===================================
flow     none      none     the channel: routing, CPU
flow     flow      none     the queue that held the channel up
flow     flow      flow     the message store: the disk
=======  ========  =======  ===================================

What counts is time: for how long a stage was in flow, and not whether some block fell into a second. AMQP 1.0 needs no
rule: each link's records tell why it stands still and what has to change.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.tables.days import MICROSECONDS, horizon, seen_at, whole_second
from pipeline.tables.gold import LINK

CHANNEL = "channel"
QUEUE = "queue"
STORE = "message store"
SHARE_MIN = 0.1
"""The smallest share of its time that counts as a bottleneck: a publisher that is fast enough reaches every limit now
and then."""
BEHIND_SHARE = 0.25
"""Of the time for which the reader is in flow, the part for which a stage behind it must be, to count in a second."""


def stages_in_flow(events: DataFrame, *, newest: str | None = None) -> DataFrame:
    """A row for each second and stage of a connection: for how long the stage was in flow, ``in_flow_us``.

    ``events`` have days and begin with the records in effect. A stage that is blocked at the end of a record is so
    until its next record, its connection's end, or the day's end. What is known of a stage that changes several times
    within a record's interval is how it was at the end of it: that is a sample, and of many samples the share in which
    it was blocked is the share of time. So a record at whose end it is not blocked adds to ``blocks`` only.
    """
    stage = Window.partitionBy("day", "node", "connection", "stage", "name").orderBy("at", "sequence", "position")
    ends = (
        events.filter("connection is not null")
        .groupBy("day", "node", "connection")
        .agg(F.max(seen_at()).alias("last_us"), F.max(F.when(F.col("kind") == "connection-closed", seen_at()))
             .alias("closed_us"))
        .join(F.broadcast(horizon(events, newest)), "day")
        .withColumn("end_us", F.coalesce("closed_us", F.greatest("last_us", "horizon_us")))
    )  # fmt: skip
    columns = ("day", "node", "connection", "stage", "name", "at", "sequence", "position", "held_up_by")
    blocked = F.coalesce("blocked", F.lit(False))
    seen = (
        events.filter("kind = 'stage'")
        .select(*columns, "blocks", blocked.alias("blocked"), seen_at().alias("from_us"))
        .withColumn("next_us", F.lead("from_us").over(stage))
        .join(ends.select("day", "node", "connection", "end_us"), ["day", "node", "connection"])
        .filter("blocked or blocks > 0")
        .withColumn("until_us", F.when(F.col("blocked"), F.coalesce("next_us", "end_us")).otherwise(F.col("from_us")))
    )
    first = F.col("from_us")
    second = F.col("second")
    inside = F.least("until_us", (second + 1) * MICROSECONDS) - F.greatest(first, second * MICROSECONDS)
    seconds = F.sequence(whole_second(first), whole_second(F.greatest(first, F.col("until_us") - 1)))
    begun = F.coalesce(F.when(whole_second(first) == second, F.when(_is_own(), F.col("blocks"))), F.lit(0))
    return (
        seen.withColumn("second", F.explode(seconds))
        .groupBy("day", "node", "connection", "stage", "name", "second")
        .agg(
            F.sum(begun).alias("blocks"),
            F.sum(F.greatest(inside, F.lit(0))).alias("in_flow_us"),
            F.max_by("held_up_by", F.struct(F.col("held_up_by").isNotNull(), "at")).alias("held_up_by"),
        )
    )


def _is_own() -> Column:
    return F.col("day") == F.to_date("at")


def bottleneck_seconds(stages: DataFrame) -> DataFrame:
    """``bottleneck_seconds``: the result of the three rules for each second in which a connection's reader was in flow.

    ``reader_us``, ``channels_us`` and ``queues_us`` are for how long the reader, the channels together and the queues
    together were in flow. A kind of stage counts in a second in which it was so for at least :data:`BEHIND_SHARE` of
    the reader's time: a single block elsewhere in the second changes nothing. ``culprit`` is the name of the slow part:
    a channel, a queue, or the message store; null when a channel is in flow and no record of this second names the
    queue.
    """

    def held_up(stage: str) -> Column:
        return F.max_by(
            F.when(F.col("stage") == stage, F.col("held_up_by")),
            F.when((F.col("stage") == stage) & F.col("held_up_by").isNotNull(), F.col("in_flow_us")),
        )

    def in_flow(stage: str) -> Column:
        return F.coalesce(F.sum(F.when(F.col("stage") == stage, F.col("in_flow_us"))), F.lit(0))

    def behind(stages_us: str) -> Column:
        return F.col(stages_us) >= F.col("reader_us") * BEHIND_SHARE

    return (
        stages.groupBy("day", "node", "connection", "second")
        .agg(
            in_flow("reader").alias("reader_us"),
            in_flow("channel").alias("channels_us"),
            in_flow("queue").alias("queues_us"),
            F.sum("blocks").alias("blocks"),
            held_up("reader").alias("slow_channel"),
            held_up("channel").alias("slow_queue"),
        )
        .filter("reader_us > 0")
        .withColumn(
            "bottleneck",
            F.when(~behind("channels_us"), CHANNEL).when(~behind("queues_us"), QUEUE).otherwise(STORE),
        )
        .withColumn(
            "culprit",
            F.when(F.col("bottleneck") == CHANNEL, F.col("slow_channel"))
            .when(F.col("bottleneck") == QUEUE, F.col("slow_queue"))
            .otherwise(F.lit(STORE)),
        )
        .select(
            "day", "node", "connection", "second", "reader_us", "channels_us", "queues_us", "blocks", "bottleneck",
            "culprit",
        )
    )  # fmt: skip


def bottlenecks(seconds: DataFrame, shares: DataFrame, links: DataFrame) -> DataFrame:
    """``bottlenecks``: one verdict a day, with its evidence, for each publishing 0.9.1 connection and each 1.0 link.

    ``bottleneck`` is null where there is none: ``share`` is below :data:`SHARE_MIN`. ``evidence`` is a text with the
    figures. A share is of the time in which the connection's channels, or the link, were seen.
    """
    return _of_connections(seconds, links).unionByName(_of_links(shares, links))


def _of_connections(seconds: DataFrame, links: DataFrame) -> DataFrame:
    key = ["day", "node", "connection"]
    whole = (
        links.filter("protocol = 'amqp-0-9-1' and direction = 'in'")
        .groupBy(*key, "protocol", "container_id", "user")
        .agg(*(F.min(f"first_{unit}").alias(f"first_{unit}") for unit in ("second", "us")),
             *(F.max(f"last_{unit}").alias(f"last_{unit}") for unit in ("second", "us")))
        .withColumn("seconds", _seconds())
    )  # fmt: skip
    totals = seconds.groupBy(*key).agg(
        *(F.sum(f"{name}_us").alias(f"{name}_us") for name in ("reader", "channels", "queues")),
        F.sum("blocks").alias("blocks"),
    )
    amount = F.sum("reader_us").alias("amount")
    most = _most(seconds.groupBy(*key, "bottleneck").agg(amount), "bottleneck")
    named = seconds.filter("culprit is not null").groupBy(*key, "bottleneck", "culprit")
    culprit = _most(named.agg(amount), "culprit", "bottleneck")
    judged = (
        whole.join(totals, key, "left")
        .join(most, key, "left")
        .join(culprit, [*key, "bottleneck"], "left")
        .withColumn("blocked_us", F.coalesce("reader_us", F.lit(0)))
        .withColumn("part", F.coalesce(F.try_divide(F.col("blocked_us") / 1e6, "seconds"), F.lit(0.0)))
        .withColumn("share", F.least("part", F.lit(1.0)))
    )  # fmt: skip
    evidence = F.format_string(
        "of %.1f s the reader was in flow for %.2f s, channels for %.2f s, queues for %.2f s; stages became blocked %d"
        " times",
        "seconds",
        *(F.coalesce(F.col(name), F.lit(0)) / 1e6 for name in ("reader_us", "channels_us", "queues_us")),
        F.coalesce("blocks", F.lit(0)),
    )
    return _verdict(
        judged.withColumn("link", F.lit(None).cast("string")).withColumn("address", F.lit(None).cast("string")),
        evidence,
    )


def _seconds() -> Column:
    """The time in which something was seen, in seconds: not whole ones, since the first and last are partial."""
    return (F.col("last_us") - F.col("first_us")) / F.lit(1e6)


def _of_links(shares: DataFrame, links: DataFrame) -> DataFrame:
    by_link = shares.filter("link is not null")
    total = by_link.groupBy(*LINK).agg(
        F.sum("share").alias("share"),
        F.sum("blocked_us").alias("blocked_us"),
        F.sum("intervals").alias("intervals"),
        F.max("longest_seconds").alias("longest_seconds"),
    )
    worst = by_link.groupBy(*LINK).agg(
        F.max_by("reason", "blocked_us").alias("bottleneck"), F.max_by("culprit", "blocked_us").alias("culprit")
    )
    judged = (
        links.filter("protocol = 'amqp-1.0' and direction = 'in'")
        .join(total, [*LINK], "left")
        .join(worst, [*LINK], "left")
        .withColumn("share", F.least(F.coalesce("share", F.lit(0.0)), F.lit(1.0)))
        .withColumn("blocked_us", F.coalesce("blocked_us", F.lit(0)))
        .withColumn("seconds", _seconds())
    )
    evidence = F.format_string(
        "blocked for %.1f %% of its time, in %d stalls, the longest of %.3f s",
        F.col("share") * 100,
        F.coalesce("intervals", F.lit(0)),
        F.coalesce("longest_seconds", F.lit(0.0)),
    )
    return _verdict(judged, evidence)


def _verdict(judged: DataFrame, evidence: Column) -> DataFrame:
    is_one = F.col("share") >= SHARE_MIN
    return judged.select(
        "day", "node", "connection", "link", "protocol", "container_id", "user", "address", "first_second",
        "last_second", "seconds", "blocked_us", "share",
        F.when(is_one, F.col("bottleneck")).alias("bottleneck"),
        F.when(is_one, F.col("culprit")).alias("culprit"),
        evidence.alias("evidence"),
    )  # fmt: skip


def _most(counted: DataFrame, name: str, *also: str) -> DataFrame:
    """The value of ``name`` with the largest amount, for each connection."""
    largest = F.max_by(name, F.struct("amount", name))
    return counted.groupBy("day", "node", "connection", *also).agg(largest.alias(name))
