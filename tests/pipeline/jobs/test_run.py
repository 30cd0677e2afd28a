"""The triggered run over all workloads at once, generated and live, each as a node of its own, and a second run that
goes on."""

from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession
from pyspark.sql.streaming.tws_tester import TwsTester

from pipeline.generate.files import Answers, generate
from pipeline.generate.workloads import NAMES
from pipeline.jobs.contents import place_of, read_contents, read_table
from pipeline.jobs.run import EVENTS, run, take_in
from pipeline.jobs.sources import NoSource, folder_stream
from pipeline.jobs.warehouse import Warehouse
from pipeline.report.figures import read_figures
from pipeline.report.page import page, sentence
from pipeline.tables.bronze import flow_events
from pipeline.tables.days import of_days
from pipeline.tables.records import FLOW_EVENTS, arrow_schema
from pipeline.tables.silver import INPUT, KINDS, open_intervals, paired_intervals
from tests.pipeline.by_duckdb import ByDuckDB
from tests.pipeline.live import SLOWED, record_all
from tests.pipeline.pairing import Unwrapped
from tests.pipeline.reference import link_seconds

pytestmark = [pytest.mark.spark, pytest.mark.slow]
Row = dict[str, object]
SECOND = 1_000_000
OPEN_SECONDS = 0.5
"""How long the stalls that are open at the end last."""


def rows(folder: Path, table: str, **only: object) -> list[Row]:
    fs, root = place_of(str(folder))
    contents = read_contents(fs, root)
    assert contents is not None
    found = read_table(fs, root, contents, table, None)
    assert found is not None
    return [row for row in found.to_pylist() if all(row[name] == value for name, value in only.items())]


@dataclass(frozen=True)
class Ran:
    """The tables of all workloads, after a run of the first events and a run of the rest."""

    warehouse: Path
    answers: dict[str, Answers]
    events: list[Row]
    first_open: list[Row]
    progress: list[str]

    def rows(self, table: str, **only: object) -> list[Row]:
        return rows(self.warehouse, table, **only)


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("run")
    events, warehouse = folder / "events", folder / "warehouse"
    events.mkdir()
    answers = {}
    for name in NAMES:
        answers[name] = generate(
            folder / name, name, events=600, connections=2, records=5, seed=3, node=name, progress=lambda done, of: None
        )
        for file in (folder / name).glob("*.parquet"):
            file.rename(events / f"{name}-{file.name}")
    live = record_all(folder / "live")
    pq.write_table(pa.Table.from_pylist(live, schema=arrow_schema(FLOW_EVENTS)), events / "live.parquet")
    told: list[str] = []
    house = Warehouse(str(warehouse))
    take_in(spark, folder_stream(spark, str(events)), house, told.append)
    bronze = house.read(spark, "flow_events", EVENTS).drop("day")
    first_open = [row.asDict() for row in open_intervals(of_days(bronze)).collect()]
    pq.write_table(the_end(first_open), events / "later.parquet")
    benches = str(Path(__file__).parents[3] / "bench" / "results")
    run(spark, folder_stream(spark, str(events)), str(warehouse), benches=benches, progress=told.append)
    kept: list[Row] = pq.read_table(events).to_pylist()
    return Ran(warehouse, answers, kept, first_open, told)


def the_end(still_open: list[Row]) -> pa.Table:
    """The records that the broker sends when the stalls end."""
    names = ("node", "connection", "link", "direction", "address", "reason", "culprit", "since")
    ends = [
        {name: row[name] for name in names}
        | {"kind": "unblocked", "at": row["since"].timestamp() * 1e6 + OPEN_SECONDS * 1e6, "seconds": OPEN_SECONDS}
        for row in still_open
    ]
    return pa.Table.from_pylist(ends, schema=arrow_schema(FLOW_EVENTS))


def test_every_record_is_in_bronze_once(ran: Ran):
    assert len(ran.rows("flow_events")) == len(ran.events)
    counted = {(row["node"], row["kind"]): row["records"] for row in ran.rows("event_counts")}
    assert sum(counted.values()) == len(ran.events)
    assert counted["ramp", "activity"] == 800


@pytest.mark.parametrize("workload", NAMES)
def test_the_bottleneck_is_the_one_that_was_generated(ran: Ran, workload: str):
    answers = ran.answers[workload]
    found = {row["connection"]: row for row in ran.rows("bottlenecks", node=workload)}
    assert set(found) == set(answers.culprits)
    assert {row["bottleneck"] for row in found.values()} == {answers.bottleneck}
    assert {connection: row["culprit"] for connection, row in found.items()} == answers.culprits


@pytest.mark.parametrize("stage", SLOWED)
def test_the_bottleneck_of_a_broker_is_the_stage_at_which_it_is_slowed(ran: Ran, stage: str):
    [found] = [row for row in ran.rows("bottlenecks", node=f"live {stage}") if row["protocol"] == "amqp-0-9-1"]
    culprit = str(found["culprit"]).removeprefix(str(found["connection"]))  # the connection names a channel
    assert (found["bottleneck"], culprit) == (SLOWED[stage].bottleneck, SLOWED[stage].culprit), found["evidence"]


def test_values_are_those_of_a_plain_python_reference(ran: Ran):
    columns = ("transfers", "accepted", "not_accepted", "granted", "link_credit_min", "link_credit_max")
    found = {
        (row["node"], row["connection"], row["link"], row["direction"], row["second"]): tuple(
            row[name] for name in columns
        )
        for row in ran.rows("link_seconds")
    }
    assert len(found) > 500
    assert found == link_seconds(ran.events)


def test_what_a_run_leaves_open_is_paired_by_the_next(ran: Ran):
    answers = ran.answers["stalls"]
    assert len(ran.first_open) == answers.open_intervals == 2
    intervals = ran.rows("intervals", node="stalls")
    assert {row["ended_by"] for row in intervals} == {"unblocked"}
    assert len(intervals) == 2 * (answers.seconds + 1)
    for link, blocked_us in answers.blocked_us.items():
        own = [row["seconds"] for row in intervals if row["link"] == link]
        assert sum(own) * 1e6 == pytest.approx(blocked_us + OPEN_SECONDS * 1e6)


def test_the_query_without_state_finds_the_same_intervals(ran: Ran):
    """What the watch pairs with state, record by record, is what the tables have."""
    micros, found = {"at": 0, "since": 0}, []
    for node, connection in sorted({(row["node"], row["connection"]) for row in ran.events if row["connection"]}):
        own = [
            row
            for row in ran.events
            if (row["node"], row["connection"], row["kind"] in KINDS) == (node, connection, True)
        ]
        tester = TwsTester(Unwrapped(), timeMode="None")
        given = [
            SparkRow(**{name: row[name] for name in INPUT} | {name: microseconds(row[name]) for name in micros})
            for row in own
        ]
        found += tester.test((node, connection), given)
    paired = [(row.node, row.link, row.reason, row.since, row.until, row.ended_by) for row in found]
    kept = [
        (
            row["node"],
            row["link"],
            row["reason"],
            microseconds(row["since"]),
            microseconds(row["until"]),
            row["ended_by"],
        )
        for row in ran.rows("intervals")
    ]
    assert len(kept) > 50
    assert sorted(map(str, kept)) == sorted(map(str, paired))


def microseconds(at: object) -> int | None:
    assert at is None or isinstance(at, datetime)
    return None if at is None else round(at.timestamp() * 1e6)


def test_the_query_without_state_ends_what_has_no_end_of_its_own(spark: SparkSession):
    def record(kind: str, at: int, connection: str, link: str | None, since: int | None = None) -> Row:
        row = {"node": "n", "kind": kind, "at": at * SECOND, "connection": connection, "link": link, "direction": "in"}
        return row | {"since": None if since is None else since * SECOND}

    rows = [
        record("blocked", 2, "again", "a", 1), record("blocked", 6, "again", "a", 5),
        record("blocked", 2, "detached", "a", 1), record("link-detached", 4, "detached", "a"),
        record("blocked", 2, "closed", None, 1), record("connection-closed", 7, "closed", None),
        record("connection-opened", 0, "opened", None), record("blocked", 2, "opened", "a", 1),
        record("connection-opened", 9, "opened", None), record("blocked", 2, "open", "a", 1),
    ]  # fmt: skip
    events = of_days(spark.createDataFrame(pa.Table.from_pylist(rows, schema=arrow_schema(FLOW_EVENTS))))
    found = {(row.connection, row.ended_by, row.seconds) for row in paired_intervals(events).collect()}
    ends = {
        ("detached", "link-detached", 3.0),
        ("closed", "connection-closed", 6.0),
        ("opened", "connection-opened", 8.0),
    }
    assert found == ends | {("again", "blocked", 4.0)}
    assert {row.connection for row in open_intervals(events).collect()} == {"again", "open"}


def test_blocked_time_is_shared_out_over_seconds_to_the_microsecond(ran: Ran):
    for workload in ("stalls", "ramp"):
        for link, blocked_us in ran.answers[workload].blocked_us.items():
            more = OPEN_SECONDS * 1e6 if workload == "stalls" else 0
            for table in ("blocked_seconds", "link_timeline"):
                own = ran.rows(table, node=workload, link=link)
                assert sum(row["blocked_us"] for row in own) == blocked_us + more, table
                assert all(0 <= row["blocked_us"] <= 1_000_000 for row in own), table
    [share] = ran.rows("blocked_shares", node="stalls", link="c1/0/0")
    assert (share["reason"], share["culprit"], share["share"]) == ("store-slow", "store", pytest.approx(0.5, abs=0.02))


def test_seconds_of_queues_are_those_of_their_links(ran: Ran):
    moved = {row["address"]: 0 for row in ran.rows("queue_seconds", node="links")}
    for row in ran.rows("queue_seconds", node="links"):
        moved[row["address"]] += row["transfers"]
    wanted = ran.answers["links"].transfers
    assert moved == {f"/queues/orders-{link[1]}": n for link, n in wanted.items()}


def test_the_knee_is_where_the_capacity_is(ran: Ran):
    capacity = ran.answers["ramp"].capacity
    [knee] = [row for row in ran.rows("capacity", node="ramp") if row["knee"]]
    assert knee["rate_from"] <= capacity < knee["rate_from"] * 2**0.5
    assert not [row for row in ran.rows("capacity", node="links") if row["knee"]]
    assert [row["subject"] for row in ran.rows("capacity", node="queue") if row["knee"]]


def test_result_files_of_benchmarks_are_read_and_compared(ran: Ran):
    results = ran.rows("bench_results")
    assert {row["file"][-5:] for row in results} == {".json"}
    both = "two-senders, 0.9.1, both, 20 ms"
    [figure] = ran.rows("bench_results", file="2026-11-21-two-senders-20-ms.json", scenario=both, figure="sum")
    assert figure["low"] <= figure["median"] == 698_400 <= figure["high"]
    assert all(row["earlier_file"] < row["file"] for row in ran.rows("bench_compared"))


def test_the_report_says_what_was_generated(ran: Ran):
    figures = read_figures(str(ran.warehouse), first_day="2023-01-01")
    said = {sentence(row) for row in figures.verdicts}
    assert "AMQP 0.9.1, connection c1 (publisher-1): the bottleneck is queue orders-1" in said
    assert "AMQP 0.9.1, connection c0 (publisher-0): no bottleneck" in said
    html = page(figures)
    assert "the bottleneck is the message store: the disk" in html
    assert "store-slow (in): store" in html
    assert html.count("<polyline") == 12


def test_figures_of_the_report_are_those_that_duckdb_computes_from_the_raw_events(ran: Ran):
    figures = read_figures(str(ran.warehouse), first_day="2023-01-01")
    other = ByDuckDB(ran.warehouse.parent / "events")
    close = partial(pytest.approx, rel=0.001)
    held_up = {(row["node"], row["connection"], row["link"]): row["share"] for row in figures.verdicts}
    assert len(held_up) > 15
    assert held_up == close({key: share for key, (share,) in other.held_up().items() if key in held_up})
    assert {key for key, (share,) in other.held_up().items() if share >= 0.1} <= held_up.keys()
    blocked = {
        (row["direction"], row["reason"], row["culprit"]): (row["blocked_us_sum"], row["intervals_sum"])
        for row in figures.blocked
    }
    wanted = other.blocked()
    assert blocked.keys() == wanted.keys()
    for key, values in blocked.items():
        assert values == close(wanted[key]), key
    # a figure has no node, and links of two nodes may have sent as many messages
    known = [(*key[1:], messages, seconds) for key, (messages, seconds) in other.links().items()]
    assert len(figures.links) == 8
    for link in figures.links:
        key = (link.connection, link.link, link.direction, link.messages)
        (own, *_) = (one for one in known if one[:4] == key and link.rate == close(key[3] / one[4]))
        known.remove(own)
    counts = {(row["node"], row["kind"]): row["records"] for row in figures.counts}
    assert counts == {key: count for key, (count,) in other.counts().items()}


def test_duckdb_reads_the_tables_by_their_views_and_by_their_folders(ran: Ran):
    sql = (ran.warehouse / "tables.sql").read_text()
    connection = duckdb.connect()
    connection.execute(f"set file_search_path = '{ran.warehouse}'")
    connection.execute(sql)
    query = "select count(*), sum(transfers), min(day) from {}"
    [viewed] = connection.execute(query.format("link_seconds")).fetchall()
    by_folder = f"read_parquet('{ran.warehouse}/link_seconds/*/*.parquet', hive_partitioning = true)"
    [globbed] = connection.execute(query.format(by_folder)).fetchall()
    rows = ran.rows("link_seconds")
    assert viewed == globbed == (len(rows), sum(row["transfers"] for row in rows), date(2023, 11, 14))
    for table in read_contents(*place_of(str(ran.warehouse))).tables:
        assert connection.execute(f"select count(*) from {table}").fetchall() == [(len(ran.rows(table)),)]


def test_progress_names_what_is_being_made(ran: Ran):
    assert any(line.startswith("flow_events: ") for line in ran.progress)
    assert any(line.startswith("answers: 2023-11-14 to ") for line in ran.progress)


def test_messages_become_the_rows_that_were_packed_and_what_is_no_packet_is_kept(spark: SparkSession, tmp_path: Path):
    answers = generate(
        tmp_path / "events",
        "queue",
        events=900,
        connections=1,
        records=5,
        seed=1,
        packets=True,
        progress=lambda *_: None,
    )
    packets = pq.read_table(tmp_path / "events").to_pylist()
    messages = [(row["offset"], bytearray(row["body"])) for row in packets] + [(99, bytearray(b"no packet"))]
    found = flow_events(spark.createDataFrame(messages, "offset bigint, body binary")).collect()
    assert len(found) == answers.events + 1
    assert sum(row.transfers or 0 for row in found) == answers.transfers["c0/1"]
    [unread] = [row for row in found if row.kind is None]
    assert (unread.offset, bytes(unread.packet), unread.fault) == (99, b"no packet", "no CBOR: CBORDecodeEOF")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "is no folder; make one with: python -m pipeline generate"),
        ({}, "has no Parquet files"),
        ({"a.parquet": b"no parquet"}, "cannot be read as Parquet"),
        ({"b.parquet": pa.table({"colour": ["red"]})}, "has neither messages .* its columns are colour"),
    ],
)
def test_a_folder_that_holds_nothing_to_read_is_told(spark: SparkSession, tmp_path: Path, content, words: str):
    folder = tmp_path / "events"
    for name, data in (content or {}).items():
        folder.mkdir(exist_ok=True)
        if isinstance(data, bytes):
            (folder / name).write_bytes(data)
        else:
            pq.write_table(data, folder / name)
    if content is not None:
        folder.mkdir(exist_ok=True)
    with pytest.raises(NoSource, match=words):
        folder_stream(spark, str(folder))
