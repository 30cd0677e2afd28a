"""All tables that are made from the events of some days, and the views with which SQL programs read them."""

from collections.abc import Callable

from pyspark.sql import DataFrame

from pipeline.jobs.contents import UNDATED, Contents
from pipeline.tables import bottlenecks, bronze, gold, silver
from pipeline.tables.capacity import capacity

Keeping = Callable[[str, DataFrame], DataFrame]
VIEWS = "tables.sql"
"""The file with a view for each table, for programs that read SQL."""


def of_events(events: DataFrame, *, newest: str, keep: Keeping) -> dict[str, DataFrame]:
    """The tables by name, that are not yet written. ``events`` have days and begin with the records in effect.

    ``newest`` is the newest day of all. Tables from which others are made go through ``keep``, which writes them and
    reads them back: the others need not compute them again, nor does Spark have to plan that.
    """
    links = keep("links", gold.links(events))
    intervals = keep("intervals", silver.intervals(events, newest=newest))
    seconds = keep("link_seconds", gold.link_seconds(events))
    blocked = keep("blocked_seconds", gold.blocked_seconds(intervals))
    timeline = keep("link_timeline", gold.link_timeline(seconds, blocked))
    shares = keep("blocked_shares", gold.blocked_shares(intervals, events))
    stages = bottlenecks.stages_in_flow(events, newest=newest)
    flow = keep("bottleneck_seconds", bottlenecks.bottleneck_seconds(stages))
    return {
        "event_counts": bronze.event_counts(events),
        "queue_seconds": gold.queue_seconds(timeline, links),
        "waits": gold.waits(seconds),
        "closed_windows": gold.closed_windows(events),
        "bottlenecks": bottlenecks.bottlenecks(flow, shares, links),
        "capacity": capacity(timeline, flow, links),
    }


def sql_views(contents: Contents) -> str:
    """Statements for DuckDB, to be read in the folder of the tables: ``duckdb -init tables.sql``."""
    lines = ["-- In the folder of this file: duckdb -init tables.sql"]
    for table in sorted(contents.tables):
        names = contents.files(table)
        if names:
            files = ", ".join(f"'{name.replace(chr(39), chr(39) * 2)}'" for name in names)
            by_day = UNDATED not in contents.tables[table]
            partitioned = (
                "hive_partitioning = true, hive_types = {'day': date}" if by_day else "hive_partitioning = false"
            )
            lines.append(f"create or replace view {table} as select * from read_parquet([{files}], {partitioned});")
    return "\n".join(lines) + "\n"
