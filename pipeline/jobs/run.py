"""The triggered run: reads new events into bronze, makes the answers of the days they belong to, and stops.

A run costs what its new events cost, and the rest of their day: days without new events are not read. Bronze changes
with each batch of the stream, and the answers of all touched days at once (:mod:`pipeline.jobs.warehouse`), so a run
that is killed leaves the tables of the run before, and the next one continues.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.jobs import answers
from pipeline.jobs.contents import BRONZE, IN_EFFECT, UNDATED, Day
from pipeline.jobs.warehouse import Warehouse
from pipeline.tables import bench, days
from pipeline.tables.records import FLOW_EVENTS, spark_schema

Progress = Callable[[str], None]
LOOK_SECONDS = 1
"""Seconds between two checks of a query's progress."""
FUTURE_DAYS_MAX = 1
"""A record whose time is later than tomorrow is of the day on which it was read: clocks differ by less."""
SMALL_BYTES = 4 << 20
"""Bronze of touched days up to this size is kept in memory and computed in one piece: Spark's tasks would cost more
than the work."""
SMALL_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    # Planning anew between stages, and compiling Java for each of them, take longer than such events.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # In a plan without shuffles a join behind a union was seen to miss rows with it.
    "spark.sql.unionOutputPartitioning": "false",
}
WRITERS = 4
"""Tables that are written at the same time: small ones are mostly waiting for Spark's planning."""
FILES_MAX = 16
"""Bronze files of a day; with more they are made into one."""
EVENTS = spark_schema(FLOW_EVENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """For how long to keep what: days until a day's bronze, and its answers, are removed; None keeps them."""

    bronze_days: int | None = None
    answer_days: int | None = None
    today: date | None = None
    """Without it, the day of the clock."""

    def oldest(self, kept_days: int | None) -> str:
        """The first day that stays; empty when all do."""
        today = self.today or date.today()
        return "" if kept_days is None else (today - timedelta(days=kept_days - 1)).isoformat()


def run(
    spark: SparkSession,
    events: DataFrame,
    warehouse: str,
    *,
    benches: str | None,
    progress: Progress,
    keep: Keep | None = None,
) -> None:
    """Update all tables. ``events`` is a streaming data frame of ``flow_events``; ``benches`` a folder of result
    files."""
    house, keep = Warehouse(warehouse), keep or Keep()
    house.clean()
    remove_old(house, keep, progress)
    take_in(spark, events, house, progress, keep)
    compact(house, progress)
    answer(spark, house, progress)
    if benches is not None:
        progress("bench_results: the benchmarks' result files")
        results = bench.bench_results(spark, benches).persist()
        for name, table in (("bench_results", results), ("bench_compared", bench.bench_compared(results))):
            unique = f"v{house.contents.version + 1:06}"
            files = house.write(table, name, unique=unique)
            empty = {UNDATED: house.write_empty(table, name, UNDATED, unique=unique)} if not files else {}
            house.contents.tables[name] = files | empty
        publish(house)
        results.unpersist()


def publish(house: Warehouse) -> None:
    """Make what was written the truth, also for programs that read the views."""
    house.commit()
    house.put(answers.VIEWS, answers.sql_views(house.contents))


def take_in(
    spark: SparkSession, events: DataFrame, house: Warehouse, progress: Progress, keep: Keep | None = None
) -> None:  # fmt: skip
    """Read new events into bronze, each batch once."""
    oldest, today = (keep or Keep()).oldest((keep or Keep()).bronze_days), (keep or Keep()).today or date.today()

    def append(batch: DataFrame, number: int) -> None:
        contents, query = house.contents, house.query_of(BRONZE)
        if contents.query == query and number <= contents.batch:
            return  # it was committed, and Spark was killed before it noted that
        day = F.to_date("at")
        latest = F.lit((today + timedelta(days=FUTURE_DAYS_MAX)).isoformat()).cast("date")
        arrived = F.lit(today.isoformat()).cast("date")
        dated = batch.withColumn("day", F.when(day <= latest, day).otherwise(arrived))
        late = F.col("day") < F.lit(oldest).cast("date") if oldest else F.lit(False)
        seen = Observation()
        kept = dated.observe(seen, F.count_if(late).alias("late")).filter(~late)
        files = house.write(kept, BRONZE, unique=f"{query[:8]}-{number:08}")
        for name, new in files.items():
            contents.tables.setdefault(BRONZE, {}).setdefault(name, []).extend(new)
        contents.query, contents.batch = query, number
        contents.too_late += seen.get["late"]
        house.commit()

    query = (
        events.writeStream.foreachBatch(append)
        .option("checkpointLocation", house.checkpoint_of(BRONZE))
        .trigger(availableNow=True)
        .start()
    )
    follow(query, BRONZE, progress)


def follow(query: StreamingQuery, name: str, progress: Progress) -> None:
    """Wait until a query ends, and report its progress; raises its error."""
    told = -1
    try:
        while not query.awaitTermination(LOOK_SECONDS):
            told = _tell(query, name, told, progress)
    finally:
        query.stop()
    _tell(query, name, told, progress)


def _tell(query: StreamingQuery, name: str, told: int, progress: Progress) -> int:
    rows = sum(batch.numInputRows for batch in query.recentProgress)
    if rows != told:
        progress(f"{name}: {rows:,} rows read")
    return rows


def remove_old(house: Warehouse, keep: Keep, progress: Progress) -> None:
    """Remove the days that are older than what is kept. Answers stay when their bronze goes."""
    tables = house.contents.tables
    bronze, others = keep.oldest(keep.bronze_days), keep.oldest(keep.answer_days)
    removed = [
        (name, day)
        for name, by_day in tables.items()
        for day in by_day
        if day != UNDATED and day < (bronze if name == BRONZE else others)
    ]
    for name, day in removed:
        del tables[name][day]
        if name == BRONZE and day in house.contents.days:
            house.contents.days[day].made_from = []
    if removed:
        progress(f"removed: {len(removed)} days of tables that are older than what is kept")
        house.commit()


def compact(house: Warehouse, progress: Progress) -> None:
    """Make one file of the bronze files of a day that has many."""
    bronze = house.contents.tables.get(BRONZE, {})
    for day, names in bronze.items():
        if len(names) <= FILES_MAX:
            continue
        progress(f"{BRONZE}: {len(names)} files of {day} become one")
        into = f"{BRONZE}/day={day}/v{house.contents.version:06}-compact.parquet"
        house.merge(names, into)
        known = house.contents.days.get(day)
        if known is not None and known.made_from == names:
            known.made_from = [into]
        bronze[day] = [into]
        house.commit()


def touched_days(house: Warehouse) -> list[str]:
    """The days whose answers are not those of their bronze: new events came, or a later day made stalls longer."""
    bronze, known = house.contents.tables.get(BRONZE, {}), house.contents.days
    newest = max(bronze, default="")
    return [
        day
        for day in sorted(bronze)
        if day not in known
        or known[day].made_from != bronze[day]
        or (known[day].was_newest and known[day].has_open and day != newest)
    ]


def spans_of(touched: Sequence[str], all_days: Sequence[str]) -> Iterator[list[str]]:
    """Touched days that follow each other, together."""
    follows = {(a, b) for a, b in pairwise(sorted(all_days))}
    span: list[str] = []
    for day in touched:
        if span and (span[-1], day) not in follows:
            yield span
            span = []
        span.append(day)
    if span:
        yield span


def answer(spark: SparkSession, house: Warehouse, progress: Progress) -> None:
    """Make the answers of all touched days, and of those after them as long as what goes on over midnight changes."""
    while touched := touched_days(house):
        span = next(spans_of(touched, list(house.contents.tables[BRONZE])))
        progress(f"answers: {span[0]} to {span[-1]}, {len(span)} of {len(house.contents.tables[BRONZE])} days")
        _answer(spark, house, span, progress)


def _answer(spark: SparkSession, house: Warehouse, span: list[str], progress: Progress) -> None:
    """Make the answers of some days that follow each other, and the records with which the days after them begin."""
    bronze = house.contents.tables[BRONZE]
    small = house.size_of(name for day in span for name in bronze[day]) <= SMALL_BYTES
    with other_settings(spark, SMALL_SETTINGS if small else {}):
        _make(spark, house, span, progress, small=small)


@contextmanager
def other_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Other settings of the session, until the block ends."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _make(spark: SparkSession, house: Warehouse, span: list[str], progress: Progress, *, small: bool) -> None:
    contents = house.contents
    bronze = contents.tables[BRONZE]
    began_with, begin = _begin(spark, house, span[0])
    events = house.read(spark, BRONZE, EVENTS, span).select(*days.COLUMNS).unionByName(begin)
    if small:
        events = events.coalesce(1).localCheckpoint()
    unique = f"v{contents.version + 1:06}"
    written: dict[str, dict[str, list[str]]] = {}
    frames: dict[str, DataFrame] = {}

    def write(name: str, table: DataFrame) -> None:
        written[name], frames[name] = house.write(table, name, unique=unique), table

    def keep(name: str, table: DataFrame) -> DataFrame:
        write(name, table)
        return house.read_files(spark, name, table, written[name])

    after = F.lit(day_after(span[-1])).cast("date")
    copies = keep(IN_EFFECT, days.in_effect(events).filter(F.col("day") <= after))
    inside = copies.filter(F.col("day").cast("string").isin(span))
    whole = events if len(span) == 1 else events.unionByName(inside)
    made = answers.of_events(whole, newest=max(bronze), keep=keep)
    with ThreadPoolExecutor(WRITERS if small else 1) as threads:
        list(threads.map(write, made, made.values()))
    leaves = _leaves(copies)
    effect = written.pop(IN_EFFECT)
    for name, by_day in written.items():
        table = contents.tables.setdefault(name, {})
        table.update({day: by_day.get(day, []) for day in span})
        if not any(table.values()):
            table[span[0]] = house.write_empty(frames[name], name, span[0], unique=unique)
    _note(house, span, effect, leaves, began_with)
    publish(house)
    progress(f"answers: version {contents.version} of the tables counts")


@dataclass(frozen=True, slots=True)
class Leaves:
    """What is in effect when a day begins: a digest, and how many things stand still."""

    digest: str
    blocked: int


NOTHING = Leaves("", 0)


def _leaves(copies: DataFrame) -> dict[str, Leaves]:
    """By the day that begins with them."""
    columns = [name for name in copies.columns if name != "day"]
    digest = F.sum(F.xxhash64(*columns).cast("decimal(38, 0)")).cast("string")
    found = copies.groupBy("day").agg(
        F.concat_ws("-", F.count("*"), digest).alias("digest"),
        F.count_if(F.col("kind").isin("blocked", "stage")).alias("blocked"),
    )
    return {str(row.day): Leaves(row.digest, row.blocked) for row in found.collect()}


def _begin(spark: SparkSession, house: Warehouse, day: str) -> tuple[str, DataFrame]:
    """The records with which a day begins, and their digest: those that the last day before it left."""
    effect = house.contents.tables.get(IN_EFFECT, {})
    found = max((known for known in effect if known <= day), default=None)
    columns = house.read(spark, IN_EFFECT, EVENTS, [] if found is None else [found]).select(*days.COLUMNS)
    oldest = F.lit(day_after(day, -days.CARRIED_DAYS_MAX)).cast("date")
    rows = columns.filter(F.to_date("at") >= oldest).withColumn("day", F.lit(day).cast("date"))
    return house.contents.digests.get(found or "", ""), rows


def _note(
    house: Warehouse, span: list[str], effect: dict[str, list[str]], leaves: dict[str, Leaves], began_with: str
) -> None:
    """Note what was made. When the day after the span began with something else, it is touched now."""
    contents = house.contents
    bronze = contents.tables[BRONZE]
    begins = contents.tables.setdefault(IN_EFFECT, {})
    day = day_after(span[0])
    while day <= day_after(span[-1]):
        begins[day] = effect.get(day, [])
        contents.digests[day] = leaves.get(day, NOTHING).digest
        day = day_after(day)
    for day in span:
        contents.days[day] = Day(
            made_from=list(bronze[day]),
            was_newest=day == max(bronze),
            has_open=leaves.get(day_after(day), NOTHING).blocked > 0,
            began_with=began_with if day == span[0] else contents.digests.get(day, ""),
        )
    following = min((later for later in bronze if later > span[-1]), default=None)
    known = contents.days.get(following or "")
    if known is not None and known.began_with != contents.digests[day_after(span[-1])]:
        known.made_from = []


def day_after(day: str, count: int = 1) -> str:
    """A day so many days later."""
    return (date.fromisoformat(day) + timedelta(days=count)).isoformat()
