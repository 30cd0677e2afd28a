"""The report's figures, computed a second time: from the raw events, by DuckDB, in other words.

Nothing here is shared with the pipeline: neither its tables nor its code.
"""

from pathlib import Path

import duckdb

Key = tuple[object, ...]

LINKS = """
    select node, connection, link, direction,
        sum(transfers), (epoch_us(max("at")) - epoch_us(min("at"))) / 1e6
    from events where link is not null group by all having sum(transfers) > 0
"""
HELD_UP_LINKS = """
    with ends as (
        select node, connection, link, sum(epoch_us("at") - epoch_us(since)) as us
        from events where kind = 'unblocked' and direction = 'in' and link is not null group by all
    ), spans as (
        select node, connection, link, epoch_us(max("at")) - epoch_us(min("at")) as us
        from events where link is not null group by all
    ), newer as (
        select distinct node, connection from events where kind = 'connection-opened' and protocol = 'amqp-1.0'
    )
    select node, connection, link, least(coalesce(ends.us, 0) / spans.us, 1)
    from spans join newer using (node, connection) left join ends using (node, connection, link)
"""
HELD_UP_READERS = """
    with stages as (
        select node, connection, blocked, epoch_us("at") as begin,
            lead(epoch_us("at")) over (partition by node, connection order by "at", sequence, position) as until
        from events where kind = 'stage' and stage = 'reader'
    ), ends as (
        select node, connection, epoch_us(max("at")) as last,
            epoch_us(max("at") filter (kind = 'connection-closed')) as closed
        from events where connection is not null group by all
    ), spans as (
        select node, connection, epoch_us(max("at")) - epoch_us(min("at")) as us
        from events join (
            select node, connection from events where kind = 'connection-opened' and protocol = 'amqp-0-9-1'
        ) using (node, connection)
        where link is not null and direction = 'in' group by all
    ), held as (
        select node, connection, sum(coalesce(until, closed, last) - begin) as us
        from stages join ends using (node, connection) where blocked group by all
    )
    select node, connection, least(coalesce(held.us, 0) / spans.us, 1)
    from spans left join held using (node, connection)
"""
BLOCKED = """
    select direction, reason, culprit, sum(epoch_us("at") - epoch_us(since)), count(*)
    from events where kind = 'unblocked' group by all
"""
COUNTS = """
    select node, kind, count(*) from events group by all
"""


class ByDuckDB:
    """The events of a folder."""

    def __init__(self, folder: Path) -> None:
        self._connection = duckdb.connect(config={"threads": 2})
        self._connection.execute(
            f"create view events as select * from read_parquet('{folder}/*.parquet', union_by_name = true)"
        )

    def _rows(self, query: str, keys: int) -> dict[Key, tuple[float, ...]]:
        return {tuple(row[:keys]): tuple(row[keys:]) for row in self._connection.execute(query).fetchall()}

    def links(self) -> dict[Key, tuple[float, ...]]:
        """By node, connection, link and direction: messages, and seconds for which the link was there."""
        return self._rows(LINKS, 4)

    def held_up(self) -> dict[Key, tuple[float, ...]]:
        """Shares by node, connection and link, or None for the reader of a 0.9.1 connection."""
        readers = {(*key, None): value for key, value in self._rows(HELD_UP_READERS, 2).items()}
        return self._rows(HELD_UP_LINKS, 3) | readers

    def blocked(self) -> dict[Key, tuple[float, ...]]:
        """By direction, reason and culprit: blocked microseconds, and how often."""
        return self._rows(BLOCKED, 3)

    def counts(self) -> dict[Key, tuple[float, ...]]:
        """Records by node and kind."""
        return self._rows(COUNTS, 2)
