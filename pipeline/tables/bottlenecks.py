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

A stage is in flow in a second in which it became or was blocked. AMQP 1.0 needs no rule: each link's records tell why
it stands still and what has to change.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.tables.gold import LINK, second_of

CHANNEL = "channel"
QUEUE = "queue"
STORE = "message store"
SHARE_MIN = 0.1
"""The smallest share of the seconds, or of the time of a 1.0 link, that counts as a bottleneck: a publisher that is
fast enough reaches every limit now and then."""
STAGE_SECONDS_MAX = 86_400
"""A blocked stage without a later record counts as blocked for a day at most."""


def stages_in_flow(events: DataFrame) -> DataFrame:
    """A row for each second in which a stage of a connection was in flow."""
    stage = Window.partitionBy("node", "connection", "stage", "name").orderBy("at", "sequence", "position")
    ends = (
        events.filter("connection is not null")
        .groupBy("node", "connection")
        .agg(F.max("at").alias("last"))
    )  # fmt: skip
    seen = (
        events.filter("kind = 'stage'")
        .select("node", "connection", "stage", "name", "at", "sequence", "position", "blocks", "blocked", "held_up_by")
        .withColumn("next", F.lead("at").over(stage))
        .join(ends, ["node", "connection"])
    )
    until = F.when(F.col("blocked"), F.coalesce("next", "last")).otherwise(F.col("at"))
    first = second_of("at")
    last = F.least(F.greatest(until.cast("bigint"), first), first + STAGE_SECONDS_MAX)
    return (
        seen.filter("blocked or blocks > 0")
        .withColumn("second", F.explode(F.sequence(first, last)))
        .groupBy("node", "connection", "stage", "name", "second")
        .agg(
            F.sum(F.when(second_of("at") == F.col("second"), F.coalesce("blocks", F.lit(0))).otherwise(0)).alias(
                "blocks"
            ),
            F.max_by("held_up_by", F.struct(F.col("held_up_by").isNotNull(), "at")).alias("held_up_by"),
        )
    )


def bottleneck_seconds(stages: DataFrame) -> DataFrame:
    """``bottleneck_seconds``: the result of the three rules for each second in which a connection's reader was in flow.

    ``culprit`` is the name of the slow part: a channel, a queue, or the message store; null when a channel is in flow
    and no record of this second names the queue.
    """

    def held_up(stage: str) -> Column:
        return F.max_by(
            F.when(F.col("stage") == stage, F.col("held_up_by")),
            F.when((F.col("stage") == stage) & F.col("held_up_by").isNotNull(), F.col("blocks")),
        )

    def in_flow(stage: str) -> Column:
        return F.count_if(F.col("stage") == stage)

    return (
        stages.groupBy("node", "connection", "second")
        .agg(
            in_flow("reader").alias("readers"),
            in_flow("channel").alias("channels"),
            in_flow("queue").alias("queues"),
            F.sum("blocks").alias("blocks"),
            held_up("reader").alias("slow_channel"),
            held_up("channel").alias("slow_queue"),
        )
        .filter("readers > 0")
        .withColumn(
            "bottleneck",
            F.when(F.col("channels") == 0, CHANNEL).when(F.col("queues") == 0, QUEUE).otherwise(STORE),
        )
        .withColumn(
            "culprit",
            F.when(F.col("bottleneck") == CHANNEL, F.col("slow_channel"))
            .when(F.col("bottleneck") == QUEUE, F.col("slow_queue"))
            .otherwise(F.lit(STORE)),
        )
        .select("node", "connection", "second", "readers", "channels", "queues", "blocks", "bottleneck", "culprit")
    )


def bottlenecks(seconds: DataFrame, shares: DataFrame, links: DataFrame) -> DataFrame:
    """``bottlenecks``: one verdict, with its evidence, for each publishing 0.9.1 connection and each 1.0 link.

    ``bottleneck`` is null where there is none: ``share`` is below :data:`SHARE_MIN`. ``evidence`` is a text with the
    figures. For AMQP 0.9.1 a share is of the seconds in which the connection's channels were seen, for AMQP 1.0 of
    time.
    """
    return _of_connections(seconds, links).unionByName(_of_links(shares, links))


def _of_connections(seconds: DataFrame, links: DataFrame) -> DataFrame:
    whole = (
        links.filter("protocol = 'amqp-0-9-1' and direction = 'in'")
        .groupBy("node", "connection", "protocol", "container_id")
        .agg(F.min("first_second").alias("first_second"), F.max("last_second").alias("last_second"))
        .withColumn("seconds", F.col("last_second") - F.col("first_second") + 1)
    )
    totals = seconds.groupBy("node", "connection").agg(
        F.count("*").alias("in_flow"),
        F.sum("blocks").alias("blocks"),
        F.count_if(F.col("channels") > 0).alias("with_channels"),
        F.count_if(F.col("queues") > 0).alias("with_queues"),
    )
    most = _most(seconds.groupBy("node", "connection", "bottleneck").agg(F.count("*").alias("amount")), "bottleneck")
    named = seconds.filter("culprit is not null").groupBy("node", "connection", "bottleneck", "culprit")
    culprit = _most(named.agg(F.count("*").alias("amount")), "culprit", "bottleneck")
    judged = (
        whole.join(totals, ["node", "connection"], "left")
        .join(most, ["node", "connection"], "left")
        .join(culprit, ["node", "connection", "bottleneck"], "left")
        .withColumn("share", F.coalesce(F.col("in_flow") / F.col("seconds"), F.lit(0.0)))
    )
    evidence = F.format_string(
        "of %d seconds the reader was in flow in %d, a channel in %d, a queue in %d; stages became blocked %d times",
        "seconds",
        *(F.coalesce(name, F.lit(0)) for name in ("in_flow", "with_channels", "with_queues", "blocks")),
    )
    return _verdict(
        judged.withColumn("link", F.lit(None).cast("string")).withColumn("address", F.lit(None).cast("string")),
        evidence,
    )


def _of_links(shares: DataFrame, links: DataFrame) -> DataFrame:
    by_link = shares.filter("link is not null")
    total = by_link.groupBy(*LINK).agg(
        F.sum("share").alias("share"),
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
        .withColumn("share", F.coalesce("share", F.lit(0.0)))
        .withColumn("seconds", F.col("last_second") - F.col("first_second") + 1)
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
        "node", "connection", "link", "protocol", "container_id", "address", "first_second", "last_second", "seconds",
        "share",
        F.when(is_one, F.col("bottleneck")).alias("bottleneck"),
        F.when(is_one, F.col("culprit")).alias("culprit"),
        evidence.alias("evidence"),
    )  # fmt: skip


def _most(counted: DataFrame, name: str, *also: str) -> DataFrame:
    """The value of ``name`` with the largest amount, for each connection."""
    largest = F.max_by(name, F.struct("amount", name))
    return counted.groupBy("node", "connection", *also).agg(largest.alias(name))
