"""Days: every table is made day by day, and a day begins with the records that are still in effect.

A stall, a blocked stage, an attached link and an open connection go on over midnight, and their records are in a day
before. So each day is given copies of those records (``in_effect``), and can then be made from its own records alone.
The copies keep their time ``at``, which is before the day's begin; they count as no records of the day.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.tables.records import FLOW_EVENTS

CARRIED_DAYS_MAX = 7
"""For so many days a record stays in effect. A broker that was killed tells no end: what it left would never end."""
CONNECTION, ATTACHED, STALL, STAGE, WINDOW = "connection", "attached", "stall", "stage", "window"
BEGINNINGS = ("connection-opened", "link-attached", "blocked", "stage", "window-closed")
ENDINGS = ("connection-closed", "link-detached", "unblocked", "window-opened")
MICROSECONDS = 1_000_000
COLUMNS = (*(name for name in FLOW_EVENTS if name != "packet"), "day")
"""What the answers need of ``flow_events``: not the packets that could not be read."""


def with_day(events: DataFrame) -> DataFrame:
    """``events`` with the day of each record in UTC; null for a packet that could not be read."""
    return events.withColumn("day", F.to_date("at"))


def day_begin() -> Column:
    """The begin of a row's day, in microseconds since 1970."""
    return F.unix_date("day").cast("bigint") * F.lit(86_400 * MICROSECONDS)


def whole_second(microseconds: Column) -> Column:
    """The second in which a time is, in seconds since 1970."""
    return F.floor(microseconds / F.lit(MICROSECONDS)).cast("bigint")


def seen_at() -> Column:
    """The time of a record within its day: a copy from a day before counts from midnight on."""
    return F.greatest(F.unix_micros("at"), day_begin())


def own_records(events: DataFrame) -> DataFrame:
    """``events`` without the copies from days before."""
    return events.filter((F.col("day") == F.to_date("at")) | F.col("at").isNull())


def of_days(events: DataFrame) -> DataFrame:
    """All of ``events`` with their days, and with the copies that their days begin with."""
    own = with_day(events).select(*COLUMNS)
    last = own.agg(F.max("day").alias("newest"))
    copies = in_effect(own).crossJoin(F.broadcast(last)).filter("day <= newest").select(*COLUMNS)
    return own.unionByName(copies)


def in_effect(events: DataFrame) -> DataFrame:
    """``in_effect``: for each day after a record's own, until its end, a copy of the record. ``events`` have days.

    A record that has no end in ``events`` is copied into :data:`CARRIED_DAYS_MAX` days.
    """
    group = (
        F.when(F.col("kind").isin("connection-opened", "connection-closed"), F.array(F.lit(CONNECTION)))
        .when(F.col("kind") == "link-attached", F.array(F.lit(ATTACHED)))
        .when(F.col("kind") == "link-detached", F.array(F.lit(ATTACHED), F.lit(STALL)))
        .when(F.col("kind") == "stage", F.array(F.lit(STAGE)))
        .when(F.col("kind").isin("window-closed", "window-opened"), F.array(F.lit(WINDOW)))
        .otherwise(F.array(F.lit(STALL)))
    )
    # At the same time a connection opens before its links attach, also where no sequence tells.
    order = ("at", "sequence", "position", F.col("kind") != "connection-opened")
    thing = Window.partitionBy(
        "node", "connection", "group", "link", "direction", "session", "side", "stage",
        F.when(F.col("group") == STAGE, F.col("name")),
    ).orderBy(*order)  # fmt: skip
    later = Window.partitionBy("node", "connection").orderBy(*order).rowsBetween(1, Window.unboundedFollowing)
    ends = F.when(F.col("kind").isin("connection-opened", "connection-closed"), F.col("at"))
    day = F.col("day")
    return (
        events.filter(F.col("kind").isin(*BEGINNINGS, *ENDINGS) & F.col("connection").isNotNull())
        .withColumn("group", F.explode(group))
        .withColumn("ends_at", F.least(F.lead("at").over(thing), F.min(ends).over(later)))
        .filter(F.col("kind").isin(*BEGINNINGS) & (F.coalesce("blocked", F.lit(True)) | (F.col("kind") != "stage")))
        .withColumn("last", F.least(F.to_date("ends_at"), F.date_add(F.to_date("at"), CARRIED_DAYS_MAX)))
        .filter(F.date_add(day, 1) <= F.col("last"))
        .withColumn("day", F.explode(F.sequence(F.date_add(day, 1), F.col("last"))))
        .select(*COLUMNS)
    )


def horizon(events: DataFrame, newest: str | None = None) -> DataFrame:
    """For each day the time until which its records tell what was, ``horizon_us``: for the newest day that of its last
    record, for all others their end. Without ``newest``, that is the last day of ``events``."""
    own = own_records(events).filter("at is not null")
    last = own.groupBy("day").agg(F.unix_micros(F.max("at")).alias("last_us"))
    newest_day = F.lit(newest).cast("date") if newest is not None else F.col("newest")
    both = last.crossJoin(F.broadcast(own.agg(F.max("day").alias("newest")))) if newest is None else last
    end = day_begin() + F.lit(86_400 * MICROSECONDS)
    return both.select("day", F.when(F.col("day") < newest_day, end).otherwise(F.col("last_us")).alias("horizon_us"))
