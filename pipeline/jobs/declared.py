"""The tables, declared for ``spark-pipelines``: the same functions as in the triggered run, in an order that Spark
chooses.

``pipeline/spark-pipeline.yml`` names this file and the source of the events. Tables are in Spark's catalog.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from pipeline.jobs import sources
from pipeline.tables import bottlenecks as stages
from pipeline.tables import bronze, days, gold, silver
from pipeline.tables.capacity import capacity as capacity_of

URL, PASSWORD_FILE, EVENTS = "headgate.url", "headgate.passwordFile", "headgate.events"
"""Settings of the specification: a broker and the file with its password, or instead of both a folder."""


def _spark() -> SparkSession:
    found = SparkSession.getActiveSession()
    assert found is not None, "spark-pipelines makes the session before it reads this file"
    return found


def _table(name: str) -> DataFrame:
    return _spark().read.table(name)


def _events() -> DataFrame:
    return days.of_days(_table("flow_events"))


@dp.table
def flow_events() -> DataFrame:
    """The bronze table, from a folder or from a broker's stream."""
    spark = _spark()
    folder, url, password_file = (spark.conf.get(name, "") for name in (EVENTS, URL, PASSWORD_FILE))
    if folder:
        return sources.folder_stream(spark, folder)
    if not url:
        raise sources.NoSource(f"the specification names no source: set {URL} or {EVENTS} under configuration")
    return sources.broker_stream(spark, {"url": url} | ({"passwordFile": password_file} if password_file else {}))


@dp.materialized_view
def block_intervals() -> DataFrame:
    """The silver table of finished intervals. Spark allows no Python state in a declared table, so it is recomputed."""
    return silver.paired_intervals(_events())


@dp.materialized_view
def event_counts() -> DataFrame:
    """See ``pipeline.tables``, also for those below."""
    return bronze.event_counts(_events())


@dp.materialized_view
def links() -> DataFrame:
    return gold.links(_events())


@dp.materialized_view
def intervals() -> DataFrame:
    return _table("block_intervals").unionByName(silver.open_intervals(_events()))


@dp.materialized_view
def link_seconds() -> DataFrame:
    return gold.link_seconds(_events())


@dp.materialized_view
def blocked_seconds() -> DataFrame:
    return gold.blocked_seconds(_table("intervals"))


@dp.materialized_view
def link_timeline() -> DataFrame:
    return gold.link_timeline(_table("link_seconds"), _table("blocked_seconds"))


@dp.materialized_view
def queue_seconds() -> DataFrame:
    return gold.queue_seconds(_table("link_timeline"), _table("links"))


@dp.materialized_view
def waits() -> DataFrame:
    return gold.waits(_table("link_seconds"))


@dp.materialized_view
def closed_windows() -> DataFrame:
    return gold.closed_windows(_events())


@dp.materialized_view
def blocked_shares() -> DataFrame:
    return gold.blocked_shares(_table("intervals"), _events())


@dp.materialized_view
def bottleneck_seconds() -> DataFrame:
    return stages.bottleneck_seconds(stages.stages_in_flow(_events()))


@dp.materialized_view
def bottlenecks() -> DataFrame:
    return stages.bottlenecks(_table("bottleneck_seconds"), _table("blocked_shares"), _table("links"))


@dp.materialized_view
def capacity() -> DataFrame:
    return capacity_of(_table("link_timeline"), _table("bottleneck_seconds"), _table("links"))
