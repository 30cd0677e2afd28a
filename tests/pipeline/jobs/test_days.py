"""Days: what a run does to them, what it leaves alone, and that it comes to the same as making all of them at once."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.jobs.contents import BRONZE, IN_EFFECT, Contents, OtherWarehouse, place_of, read_contents, read_table
from pipeline.jobs.run import FILES_MAX, Keep, run
from pipeline.jobs.sources import folder_stream
from pipeline.jobs.warehouse import Warehouse
from pipeline.tables.records import FLOW_EVENTS, arrow_schema

pytestmark = [pytest.mark.spark, pytest.mark.slow]
Row = dict[str, object]
SECOND = 1_000_000
FIRST = datetime(2026, 11, 20, tzinfo=UTC)
DAYS = ("2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23")
KEEP = Keep(today=date(2026, 11, 23))


def at(day: int, hour: float) -> int:
    return round((FIRST + timedelta(days=day, hours=hour)).timestamp() * SECOND)


def record(kind: str, day: int, hour: float, connection: str = "c1", **more: object) -> Row:
    return {"node": "n", "kind": kind, "at": at(day, hour), "connection": connection} | more


LATE = 24 - 1 / 12
"""Five minutes before midnight, in hours."""
LINK = {"link": "c1/0/0", "direction": "in"}
ADDRESS = "/queues/orders"
STALL = LINK | {"address": ADDRESS, "reason": "queue-full", "culprit": "orders"}
OLDER = {"connection": "c2", "link": "c2/1", "direction": "in"}


def opened() -> list[Row]:
    return [
        record("connection-opened", 0, 10, protocol="amqp-1.0", container_id="shop", user="alice"),
        record("link-attached", 0, 10, **LINK, address=ADDRESS),
        record("connection-opened", 0, 10, "c2", protocol="amqp-0-9-1", container_id="old", user="bob"),
        record("stage", 0, LATE, "c2", stage="reader", name="c2", blocks=1, blocked=True, held_up_by="c2/1"),
        record("stage", 1, 24 - LATE, "c2", stage="reader", name="c2", blocked=False),
        record("blocked", 1, LATE, **STALL, since=at(1, LATE)),
        record("unblocked", 2, 24 - LATE, **STALL, since=at(1, LATE), seconds=600.0),
    ]


def active(day: int) -> list[Row]:
    return [
        record("activity", day, 11 + hour, **(place | {"transfers": 10 + hour, "accepted": 10}))
        for hour in range(12)
        for place in (LINK | {"connection": "c1"}, OLDER)
    ]


def of_day(day: int) -> list[Row]:
    begin, end = at(day, 0), at(day + 1, 0)
    return [row for row in opened() if begin <= int(str(row["at"])) < end] + active(day)


def rounded(value: object) -> object:
    """Sums of fractions depend on their order in the last digit."""
    return round(value, 9) if isinstance(value, float) else value


class Place:
    """A folder of events and a folder of tables."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.events, self.tables = folder / "events", folder / "tables"
        self.events.mkdir(parents=True)
        self._spark = spark
        self._number = 0

    def come(self, rows: Sequence[Row]) -> None:
        table = pa.Table.from_pylist(list(rows), schema=arrow_schema(FLOW_EVENTS))
        self._number += 1
        pq.write_table(table, self.events / f"{self._number}.parquet")

    def run(self, keep: Keep = KEEP) -> list[str]:
        told: list[str] = []
        events = folder_stream(self._spark, str(self.events))
        run(self._spark, events, str(self.tables), benches=None, progress=told.append, keep=keep)
        return told

    def contents(self) -> Contents:
        found = read_contents(*place_of(str(self.tables)))
        assert found is not None
        return found

    def rows(self, table: str, *, days: Sequence[str] | None = None) -> list[str]:
        found = read_table(*place_of(str(self.tables)), self.contents(), table, days)
        rows = [] if found is None else found.to_pylist()
        return sorted(str(sorted((name, rounded(value)) for name, value in row.items())) for row in rows)

    def all_rows(self) -> dict[str, list[str]]:
        return {table: self.rows(table) for table in self.contents().tables}

    def files(self) -> dict[str, tuple[int, int]]:
        found = self.tables.glob("*/day=*/*.parquet")
        return {str(one.relative_to(self.tables)): (one.stat().st_ino, one.stat().st_mtime_ns) for one in found}


def answers(told: Sequence[str]) -> list[str]:
    return [line for line in told if line.startswith("answers: 2")]


@pytest.fixture(scope="module")
def places(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Place, list[str]]:
    """The same four days: at once, and in pieces of which one comes late. And what the runs of the pieces told."""
    folder = tmp_path_factory.mktemp("days")
    whole, parts = Place(folder / "whole", spark), Place(folder / "parts", spark)
    whole.come([row for day in range(4) for row in of_day(day)])
    whole.run()
    told = []
    late = [row for row in of_day(0) if row["kind"] == "stage"]
    for rows in ([row for row in of_day(0) if row not in late] + of_day(1), of_day(2) + of_day(3), late):
        parts.come(rows)
        told += answers(parts.run())
    return whole, parts, told


def test_runs_over_new_days_and_late_records_come_to_what_one_run_over_all_does(places):
    whole, parts, told = places
    assert told == [
        "answers: 2026-11-20 to 2026-11-21, 2 of 2 days",
        "answers: 2026-11-21 to 2026-11-23, 3 of 4 days",
        "answers: 2026-11-20 to 2026-11-20, 1 of 4 days",
        "answers: 2026-11-21 to 2026-11-21, 1 of 4 days",
    ]
    wanted, found = whole.all_rows(), parts.all_rows()
    wanted.pop(IN_EFFECT), found.pop(IN_EFFECT)
    assert wanted.keys() == found.keys()
    for table, rows in wanted.items():
        assert found[table] == rows, table
        assert rows or table == "closed_windows"


def test_what_stands_still_over_midnight_has_its_part_on_each_day(places):
    whole, _, _ = places
    fs, root = place_of(str(whole.tables))
    table = read_table(fs, root, whole.contents(), "blocked_shares", None)
    assert table is not None
    blocked = {row["day"]: (row["blocked_us"] / 60e6, row["user"], row["open"]) for row in table.to_pylist()}
    assert blocked == {
        "2026-11-21": (5.0, "alice", True), "2026-11-22": (5.0, "alice", False),
    }  # fmt: skip
    table = read_table(fs, root, whole.contents(), "bottleneck_seconds", None, columns=["day", "reader_us"])
    assert table is not None
    minutes: dict[str, float] = {}
    for row in table.to_pylist():
        minutes[row["day"]] = minutes.get(row["day"], 0) + row["reader_us"] / 60e6
    assert minutes == pytest.approx({"2026-11-20": 5.0, "2026-11-21": 5.0})


def test_a_new_day_reads_no_older_bronze_in_a_folder_that_was_moved(places, tmp_path: Path):
    whole, _, _ = places
    before = whole.files()
    moved = tmp_path / "moved"
    whole.tables.rename(moved)
    for day in DAYS[:3]:  # a run that reads them, fails
        (moved / BRONZE / f"day={day}").rename(tmp_path / day)
    whole.come([row | {"at": int(str(row["at"])) + 4 * 86_400 * SECOND} for row in active(0)])
    whole.tables = moved
    assert answers(whole.run(Keep(today=date(2026, 11, 24)))) == ["answers: 2026-11-24 to 2026-11-24, 1 of 5 days"]
    for day in DAYS[:3]:
        (tmp_path / day).rename(moved / BRONZE / f"day={day}")
    after = whole.files()
    assert {name: after.get(name) for name in before} == before
    assert all("day=2026-11-24" in name or IN_EFFECT in name for name in after.keys() - before.keys())
    assert not whole.run()[1:], "a run without new events makes nothing"


def test_old_days_are_removed_their_answers_later_and_records_for_them_are_counted(places):
    _, parts, _ = places
    keep = Keep(bronze_days=2, answer_days=3, today=date(2026, 11, 23))
    kept = parts.rows("link_seconds", days=[DAYS[1]])
    parts.come(active(0) + active(1))
    parts.run(keep)
    contents = parts.contents()
    assert sorted(contents.tables[BRONZE]) == list(DAYS[2:])
    assert sorted(contents.tables["link_seconds"]) == list(DAYS[1:])
    assert contents.too_late == len(active(0) + active(1))
    assert parts.rows("link_seconds", days=[DAYS[1]]) == kept
    assert {name for name in parts.files() if BRONZE in name} == set(contents.files(BRONZE))


def test_many_bronze_files_become_one_and_answers_stay(places):
    _, parts, _ = places
    house = Warehouse(str(parts.tables))
    day = DAYS[3]
    before = parts.rows(BRONZE, days=[day])
    [name] = house.contents.tables[BRONZE][day]
    rows = pq.read_table(parts.tables / name)
    names = [f"{BRONZE}/day={day}/piece-{number:04}.parquet" for number in range(FILES_MAX + 1)]
    step = -(-len(rows) // len(names))
    for number, one in enumerate(names):
        pq.write_table(rows.slice(number * step, step), parts.tables / one)
    house.contents.tables[BRONZE][day] = house.contents.days[day].made_from = names
    house.commit()
    told = parts.run()
    assert f"{BRONZE}: {len(names)} files of {day} become one" in told
    assert not answers(told)
    assert len(parts.contents().tables[BRONZE][day]) == 1
    assert parts.rows(BRONZE, days=[day]) == before


def test_what_a_killed_run_left_does_not_count_and_is_removed(places):
    _, parts, _ = places
    before = parts.all_rows()
    left = parts.tables / "link_seconds" / f"day={DAYS[3]}" / "v999999-0000.parquet"
    left.write_bytes(b"half a file")
    assert parts.all_rows() == before
    parts.run()
    assert not left.exists()


def test_a_batch_that_spark_repeats_is_not_added_again(places):
    _, parts, _ = places
    before = parts.rows(BRONZE)
    commits = sorted((parts.tables / "_checkpoints" / BRONZE / "commits").glob("[0-9]*"), key=lambda one: int(one.name))
    commits[-1].unlink()  # as if Spark had been killed between our commit and its own
    commits[-1].with_name(f".{commits[-1].name}.crc").unlink(missing_ok=True)
    parts.run()
    assert parts.rows(BRONZE) == before


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2}', '{"format": 1, "colour": "red"}'])
def test_tables_of_another_version_are_refused(tmp_path: Path, text: str):
    (tmp_path / "tables.json").write_text(text)
    with pytest.raises(OtherWarehouse, match="of another version, or damaged"):
        Warehouse(str(tmp_path))


def test_tables_of_a_version_before_days_are_refused(tmp_path: Path):
    (tmp_path / BRONZE / "_spark_metadata").mkdir(parents=True)
    with pytest.raises(OtherWarehouse, match="make them anew in another folder"):
        Warehouse(str(tmp_path))
