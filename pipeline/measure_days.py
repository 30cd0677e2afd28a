"""``python -m pipeline.measure_days``: what a run costs when one day is added to many.

Makes ``--days`` days of telemetry, all alike and with stalls over midnight or without any, makes their tables, adds one
day more and runs again. Prints the time of both runs, and for the second one the bytes and files that it read and wrote
of the tables. While it runs, the bronze files of the older days are moved away: it could not read them.

For example:

    python -m pipeline.measure_days --days 30 --events 300000

Exit status: 0; 1 when the second run changed a file of an older day.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.generate.files import generate
from pipeline.jobs.contents import BRONZE, Contents, place_of, read_contents
from pipeline.jobs.run import run
from pipeline.jobs.session import session
from pipeline.jobs.sources import folder_stream
from pipeline.tables.records import FLOW_EVENTS, arrow_schema

DAY_US = 86_400 * 1_000_000
TIMES = ("at", "since")
CONNECTIONS, RECORDS = 100, 20
WORKLOADS = ("links", "stalls", "queue", "free")
Files = dict[str, tuple[int, int]]


def day_after(table: pa.Table, days: int) -> pa.Table:
    """The same events so many days later."""
    for name in TIMES:
        at = table.schema.get_field_index(name)
        moved = pc.add(table.column(at).cast(pa.int64()), days * DAY_US).cast(pa.timestamp("us", tz="UTC"))
        table = table.set_column(at, name, moved)
    return table


def made_day(folder: Path, workload: str, events: int) -> pa.Table:
    """One day of telemetry."""
    connections = max(1, min(CONNECTIONS, events // (2 * RECORDS)))
    generate(
        folder, workload, events=events, connections=connections, records=RECORDS, seed=1,
        progress=lambda done, of: None,
    )  # fmt: skip
    schema = arrow_schema(FLOW_EVENTS)
    return pa.concat_tables([pq.read_table(file).cast(schema) for file in sorted(folder.glob("*.parquet"))])


def files_of(warehouse: Path) -> Files:
    """Size and time of change of each file of the tables."""
    found = warehouse.glob("*/day=*/*.parquet")
    return {str(file.relative_to(warehouse)): (file.stat().st_size, file.stat().st_mtime_ns) for file in found}


def contents_of(warehouse: Path) -> Contents:
    """What ``tables.json`` says."""
    found = read_contents(*place_of(str(warehouse)))
    assert found is not None
    return found


@contextmanager
def moved_away(warehouse: Path, place: Path, days: Sequence[str]) -> Iterator[None]:
    """Without the bronze files of some days, until the block ends."""
    place.mkdir()
    for day in days:
        (warehouse / BRONZE / f"day={day}").rename(place / day)
    try:
        yield
    finally:
        for day in days:
            (place / day).rename(warehouse / BRONZE / f"day={day}")


def measure(folder: Path, *, days: int, events: int, workload: str) -> int:
    """Print the figures; returns how many files of older days have changed."""
    stream, warehouse = folder / "events", folder / "warehouse"
    stream.mkdir()
    one = made_day(folder / "day", workload, events)
    for day in range(days):
        pq.write_table(day_after(one, day), stream / f"{day:04}.parquet", compression="zstd")
    spark = session("measure days", master="local[2]")

    def timed() -> float:
        began = time.monotonic()
        run(spark, folder_stream(spark, str(stream)), str(warehouse), benches=None, progress=lambda text: None)
        return time.monotonic() - began

    first = timed()
    before, old_days = files_of(warehouse), sorted(contents_of(warehouse).days)
    whole = sum(size for size, _ in before.values())
    print(f"{days} days of {len(one):,} events: {first:.1f} s, {whole:,} bytes in {len(before):,} files")
    pq.write_table(day_after(one, days), stream / f"{days:04}.parquet", compression="zstd")
    with moved_away(warehouse, folder / "away", old_days[:-1]):
        second = timed()
    spark.stop()
    after, contents = files_of(warehouse), contents_of(warehouse)
    written = {name: size for name, (size, at) in after.items() if before.get(name) != (size, at)}
    touched = [day for day in contents.days if any(f"day={day}/" in name for name in written)]
    read = sum(after[name][0] for day in touched for name in contents.tables[BRONZE].get(day, []))
    made = f"{len(touched)} of {len(contents.days)} days"
    wrote = f"{sum(written.values()):,} bytes in {len(written)} files written"
    print(f"one day added: {second:.1f} s; answers made for {made}, {read:,} bytes of bronze read, {wrote}")
    older = set(old_days[:-1])
    changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    wrong = [name for name in changed if any(f"day={day}/" in name for day in older)]
    print(f"files of the {len(older)} days before the last that have changed: {len(wrong)}")
    return len(wrong)


def main(words: Sequence[str] | None = None) -> int:
    """Read the command line and run; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.measure_days",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--days", type=int, default=30, help="days before the one that is added (30)")
    parser.add_argument("--events", type=int, default=300_000, help="of a day (300000)")
    parser.add_argument("--workload", choices=WORKLOADS, default="links", help="as of pipeline generate (links)")
    found = parser.parse_args(words)
    if found.days < 1 or found.events < 1:
        parser.error(f"--days is {found.days} and --events {found.events}; both must be 1 or more")
    with tempfile.TemporaryDirectory(prefix="pipeline-days-") as name:
        return 1 if measure(Path(name), days=found.days, events=found.events, workload=found.workload) else 0


if __name__ == "__main__":
    sys.exit(main())
