"""Gold: transferred messages and blocked time, per link and per queue, in each second.

A record belongs to the second in which it began. It adds up 10 ms, unless the broker is configured otherwise, so events
counted in a second may have happened up to that much later.
"""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from pipeline.tables.days import MICROSECONDS, seen_at, whole_second

LINK = ("day", "node", "connection", "link", "direction")
"""A link on a day. A link that stays for several days has a row of its own on each."""
MOVED = ("transfers", "accepted", "not_accepted", "granted")
"""The counts in ``link_seconds``, in messages."""


def second_of(column: str) -> Column:
    """Whole seconds since 1970."""
    return F.col(column).cast("timestamp").cast("bigint")


def link_seconds(events: DataFrame) -> DataFrame:
    """``link_seconds``: messages, outcomes and link credit per link and second.

    ``second`` is in seconds since 1970. The other columns are those of :func:`sums`.
    """
    return events.filter("kind = 'activity'").groupBy(*LINK, second_of("at").alias("second")).agg(*sums())


def sums() -> list[Column]:
    """The columns that add up activity records.

    ``not_accepted`` is rejected, released or modified. ``link_credit_min`` and ``link_credit_max`` are taken over the
    values at the ends of records; null for AMQP 0.9.1, which has no link credit.
    """

    def total(*names: str) -> Column:
        return F.sum(sum((F.coalesce(F.col(name), F.lit(0)) for name in names), F.lit(0)))

    return [
        total("transfers").alias("transfers"),
        total("accepted").alias("accepted"),
        total("rejected", "released", "modified").alias("not_accepted"),
        total("granted").alias("granted"),
        F.min("link_credit").alias("link_credit_min"),
        F.max("link_credit").alias("link_credit_max"),
    ]


def links(events: DataFrame) -> DataFrame:
    """``links``: each link on a day, with its address, its connection's protocol, and its first and last second.

    ``first_us`` and ``last_us`` are the times of its first and last record, in microseconds since 1970: they tell how
    much of its first and last second a link was there for. A 0.9.1 channel has no address: each of its messages names
    its own target.
    """
    attached = (
        events.filter("kind = 'link-attached'")
        .groupBy(*LINK)
        .agg(F.max_by("address", "at").alias("address"), F.max_by("name", "at").alias("name"))
    )
    spans = (
        events.filter(F.col("link").isNotNull())
        .groupBy(*LINK)
        .agg(
            F.min(seen_at()).alias("first_us"),
            F.max(seen_at()).alias("last_us"),
            F.count_if(F.col("day") == F.to_date("at")).alias("own"),
        )
        .filter("own > 0")
    )
    return (
        spans.select(
            *(*LINK, "first_us", "last_us"),
            whole_second(F.col("first_us")).alias("first_second"),
            whole_second(F.col("last_us")).alias("last_second"),
        )
        .join(attached, [*LINK], "left")
        .join(connections(events), ["day", "node", "connection"], "left")
    )


def connections(events: DataFrame) -> DataFrame:
    """Protocol, container-id and user of each connection; the latest one where a restarted broker has used its number
    again."""
    columns = ("protocol", "container_id", "user", "peer")
    return (
        events.filter("kind = 'connection-opened'")
        .groupBy("day", "node", "connection")
        .agg(*(F.max_by(column, "at").alias(column) for column in columns))
    )


def blocked_seconds(intervals: DataFrame) -> DataFrame:
    """``blocked_seconds``: the part of each interval that lies in each second of its day, in microseconds, by
    reason."""
    begin, end = F.unix_micros("since"), F.unix_micros("until")
    second = F.col("second")
    inside = F.least(end, (second + 1) * MICROSECONDS) - F.greatest(begin, second * MICROSECONDS)
    # The second of the last microsecond: an interval that ends on a full second has nothing in the next one.
    last = F.greatest(begin, end - 1)
    return (
        intervals.filter("event = 'interval' and until > since")
        .withColumn("second", F.explode(F.sequence(whole_second(begin), whole_second(last))))
        .groupBy(*LINK, "address", "second", "reason", "culprit")
        .agg(F.sum(inside).alias("blocked_us"))
    )


def link_timeline(seconds: DataFrame, blocked: DataFrame) -> DataFrame:
    """``link_timeline``: ``link_seconds`` with ``blocked_us``, also for seconds without messages."""
    keys = [*LINK, "second"]
    totals = blocked.groupBy(*keys).agg(F.sum("blocked_us").alias("blocked_us"))
    # A 0.9.1 reader is blocked, and not its channels: its rows have no link, and null is equal to null here.
    left, right = seconds.alias("s"), totals.alias("b")
    same = [F.col(f"s.{key}").eqNullSafe(F.col(f"b.{key}")) for key in keys]
    both = left.join(right, same, "full_outer")
    return both.select(
        *(F.coalesce(f"s.{key}", f"b.{key}").alias(key) for key in keys),
        *(F.coalesce(F.col(f"s.{name}"), F.lit(0)).alias(name) for name in MOVED),
        "link_credit_min",
        "link_credit_max",
        F.coalesce("blocked_us", F.lit(0)).alias("blocked_us"),
    )


def queue_seconds(timeline: DataFrame, links: DataFrame) -> DataFrame:
    """``queue_seconds``: the same per address, from and to the queue, for links that have an address.

    ``blocked_us`` adds up all links of the address: two that stand still for a second make two seconds.
    """
    return (
        timeline.join(links.select(*LINK, "address"), [*LINK])
        .filter(F.col("address").isNotNull())
        .groupBy("day", "node", "address", "direction", "second")
        .agg(
            *(F.sum(name).alias(name) for name in (*MOVED, "blocked_us")),
            F.min("link_credit_min").alias("link_credit_min"),
            F.count("*").alias("links"),
        )
    )


def blocked_shares(intervals: DataFrame, events: DataFrame) -> DataFrame:
    """``blocked_shares``: blocked time of each link by reason, and its share of the time during which the link was
    seen.

    For the reader of a 0.9.1 connection that time is the connection's. Stalls are reported from 50 ms on: shorter waits
    are not included.
    """
    span = [F.min(seen_at()).alias("first_us"), F.max(seen_at()).alias("last_us")]
    own = events.filter("link is not null").groupBy(*LINK).agg(*span)
    whole = events.filter("connection is not null").groupBy("day", "node", "connection").agg(*span)
    place = (*LINK, "address")
    blocked = (
        intervals.filter("event = 'interval'")
        .groupBy(*place, "reason", "culprit")
        .agg(
            F.sum(F.unix_micros("until") - F.unix_micros("since")).alias("blocked_us"),
            F.count("*").alias("intervals"),
            F.max("seconds").alias("longest_seconds"),
            F.max(F.col("ended_by") == "open").alias("open"),
            F.max(F.unix_micros("until")).alias("blocked_until_us"),
        )
    )
    of_links = blocked.filter("link is not null").join(own, [*LINK])
    of_readers = blocked.filter("link is null").join(whole, ["day", "node", "connection"])
    users = connections(events).select("day", "node", "connection", "user")
    both = of_links.unionByName(of_readers).join(users, ["day", "node", "connection"], "left")
    return both.select(
        *place, "user", "reason", "culprit", "blocked_us", "intervals", "longest_seconds", "open",
        F.try_divide(
            "blocked_us", F.greatest("last_us", "blocked_until_us") - F.col("first_us")
        ).alias("share"),
    )  # fmt: skip


def waits(seconds: DataFrame) -> DataFrame:
    """``waits``: how long messages of a link wait for their outcome on average, by Little's law.

    Records have no time per message. But the messages that wait at the end of each second are those that came before,
    less those settled. That number divided by the settled messages per second is the mean wait: exact over a time in
    which as many come as are settled, to within a second. From publishers it is the time to the broker's outcome, to
    consumers the time to the client's. A negative number is impossible: it means that records are missing, and the row
    is left out.
    """
    answered = F.col("accepted") + F.col("not_accepted")
    totals = (
        seconds.withColumn("waiting", F.sum(F.col("transfers") - answered).over(_so_far()))
        .groupBy(*LINK)
        .agg(
            F.sum("transfers").alias("transfers"),
            F.sum(answered).alias("answered"),
            F.avg("waiting").alias("waiting_mean"),
            F.max("waiting").alias("waiting_max"),
            (F.max("second") - F.min("second") + 1).alias("seconds"),
        )
    )
    return totals.filter("waiting_mean >= 0 and answered > 0").withColumn(
        "wait_seconds", F.col("waiting_mean") * F.col("seconds") / F.col("answered")
    )


def _so_far() -> WindowSpec:
    return Window.partitionBy(*LINK).orderBy("second").rowsBetween(Window.unboundedPreceding, 0)


def closed_windows(events: DataFrame) -> DataFrame:
    """``closed_windows``: when an incoming-window was 0 for longer than a record's interval, and which side's it was.

    ``until`` is null while it is closed. A window that ends with its session has no record of its end either: then the
    next one, or the end of its connection, ends it.
    """
    window = Window.partitionBy("day", "node", "connection", "session", "side").orderBy("at", "sequence", "position")
    ends = (
        events.filter("kind = 'connection-closed'")
        .groupBy("day", "node", "connection")
        .agg(F.max("at").alias("closed"))
    )  # fmt: skip
    return (
        events.filter(F.col("kind").isin("window-closed", "window-opened"))
        .withColumn("next", F.lead("at").over(window))
        .filter("kind = 'window-closed'")
        .join(ends, ["day", "node", "connection"], "left")
        .select(
            *("day", "node", "connection", "session", "side"),
            F.timestamp_micros(seen_at()).alias("since"),
            F.coalesce("next", F.when(F.col("closed") >= F.col("at"), F.col("closed"))).alias("until"),
        )
    )
