"""``python -m pipeline.measure``: the speed of the tables, and a check of their values.

Generates events, adds them up per link and second with Spark on ``local[2]``, and prints times and memory:

- ``--events`` records cold and warm, and the largest resident memory of the Java process and the Python processes;
- with ``--duckdb`` the same with DuckDB, where it is installed, the ratio of the warm times, and how much of Spark's
  time is spent without any grouping: the time for a thousand events, and for the same sums over all events;
- ``--check`` records compared with a reference in plain Python, value by value.

For example:

    python -m pipeline.measure --events 100000000
    python -m pipeline.measure --events 10000000 --duckdb
    python -m pipeline.measure --events 0 --check 1000000

Exit status: 0; 1 when values differ.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

import pyarrow.dataset as ds
from pyspark.sql import DataFrame

from pipeline.generate.files import OPENING_RECORDS, Answers, generate
from pipeline.jobs.session import session
from pipeline.tables.days import with_day
from pipeline.tables.gold import link_seconds, sums

CONNECTIONS = 1_000
RECORDS = 100
"""Records of a link in a second: an interval of 10 ms."""
EVENTS_MIN = OPENING_RECORDS + 1
"""One connection, and one record of its link's activity."""
PROGRESS_PERCENT = 10
"""Without a terminal, progress is a line for each so many percent."""
WARM_RUNS = 3
FEW_EVENTS = 1_000
LOOK_SECONDS = 0.2
BYTES_PER_KIB = 1024
DUCKDB = """
    copy (
        select node, connection, link, direction, floor(epoch("at"))::bigint as second, sum(transfers), sum(accepted),
            sum(coalesce(rejected, 0) + coalesce(released, 0) + coalesce(modified, 0)), sum(granted), min(link_credit),
            max(link_credit)
        from read_parquet('{events}/*.parquet') where kind = 'activity' group by all
    ) to '{out}' (format parquet)
"""


def timed(work: Callable[[], object]) -> float:
    """The seconds that the work takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def warm_time(work: Callable[[], object]) -> float:
    """The seconds of the fastest of some runs, after a first run."""
    return min(timed(work) for _ in range(WARM_RUNS))


@contextmanager
def peak_memory() -> Iterator[Callable[[], str]]:
    """Yields a function whose text has the largest resident memory of Java and of Python so far in the block."""
    peak = {"java": 0, "python": 0}
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            for name, size in resident().items():
                peak[name] = max(peak[name], size)

    watching = threading.Thread(target=look)
    watching.start()
    try:
        yield lambda: ", ".join(f"{name} {size / 2**30:.2f} GiB" for name, size in peak.items())
    finally:
        over.set()
        watching.join()


def resident() -> dict[str, int]:
    """Resident bytes of this process and its descendants now, from /proc: empty where there is none."""
    children: dict[int, list[int]] = {}
    sizes: dict[int, tuple[str, int]] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = status.read_text().splitlines()
        except OSError:
            continue  # the process has ended
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        pid = int(status.parent.name)
        children.setdefault(int(fields["PPid"]), []).append(pid)
        sizes[pid] = (fields["Name"], int(fields.get("VmRSS", "0 kB").split()[0]) * BYTES_PER_KIB)
    found = {"java": 0, "python": 0}
    waiting = [int(Path("/proc/self").resolve().name)] if sizes else []
    while waiting:
        pid = waiting.pop()
        name, size = sizes.get(pid, ("", 0))
        found["java" if name.startswith("java") else "python"] += size
        waiting += children.get(pid, [])
    return found


def make(folder: Path, events: int) -> Answers:
    """Generate so many events, with progress."""
    connections = min(CONNECTIONS, events // EVENTS_MIN)
    return generate(
        folder, "links", events=events, connections=connections, records=RECORDS, seed=1, exactly=True,
        progress=progress_on(sys.stderr),
    )  # fmt: skip


def progress_on(stream: TextIO) -> Callable[[int, int], None]:
    """Reports how many events are generated: in place on a terminal, otherwise in a line for each 10 %."""
    in_place, told = stream.isatty(), 0

    def progress(done: int, of: int) -> None:
        nonlocal told
        text = f"generated {done:,} of {of:,}"
        percent = done * 100 // of
        if in_place:
            stream.write(f"\r{text}" + ("\n" if done >= of else ""))
        elif percent // PROGRESS_PERCENT > told // PROGRESS_PERCENT:
            told = percent
            stream.write(f"{text} ({percent} %)\n")
        stream.flush()

    return progress


def measure(events: int, *, duckdb: bool) -> None:
    """Print cold and warm times, and memory."""
    with tempfile.TemporaryDirectory(prefix="pipeline-measure-") as name:
        folder = Path(name)
        made = make(folder / "events", events)
        began = time.monotonic()
        spark = session("measure", master="local[2]")
        print(f"Spark started in {time.monotonic() - began:.1f} s")

        def spark_once(table: Callable[[DataFrame], DataFrame] = link_seconds) -> None:
            table(with_day(spark.read.parquet(str(folder / "events")))).write.mode("overwrite").parquet(
                str(folder / "spark")
            )

        with peak_memory() as peak:
            cold = timed(spark_once)
            warm = warm_time(spark_once)
        groups = ds.dataset(folder / "spark", format="parquet").count_rows()
        print(f"Spark: {made.events:,} events, {groups:,} link seconds: cold {cold:.1f} s, warm {warm:.1f} s; {peak()}")
        if duckdb:
            few = warm_time(lambda: spark_once(lambda events: link_seconds(events.limit(FEW_EVENTS))))
            ungrouped = warm_time(lambda: spark_once(lambda events: events.filter("kind = 'activity'").agg(*sums())))
            print(f"Of it, without groups: {ungrouped:.1f} s; for {FEW_EVENTS:,} events: {few:.1f} s")
        spark.stop()
        if duckdb:
            other = with_duckdb(folder)
            print(f"DuckDB, 2 threads: warm {other:.1f} s; Spark takes {warm / other:.2f} times as long")


def with_duckdb(folder: Path) -> float:
    """DuckDB's warm time for the same sums."""
    import duckdb  # type: ignore[import-not-found,unused-ignore]

    connection = duckdb.connect(config={"threads": 2})
    connection.execute("set timezone = 'UTC'")
    query = DUCKDB.format(events=folder / "events", out=folder / "duckdb.parquet")
    timed(lambda: connection.execute(query))
    return warm_time(lambda: connection.execute(query))


def differences(events: int) -> int:
    """The number of link seconds whose values differ from the reference, or that only one of the two has."""
    with tempfile.TemporaryDirectory(prefix="pipeline-check-") as name:
        folder = Path(name)
        make(folder / "events", events)
        wanted = reference(folder / "events")
        spark = session("measure", master="local[2]")
        rows = link_seconds(with_day(spark.read.parquet(str(folder / "events")))).collect()
        found = {tuple(row[1:6]): tuple(row[6:]) for row in rows}
        spark.stop()
        wrong = sum(found.get(key) != wanted.get(key) for key in found.keys() | wanted.keys())
        print(f"{events:,} events, {len(wanted):,} link seconds: {wrong} differ from the reference in plain Python")
        return wrong


def reference(folder: Path) -> dict[tuple[object, ...], tuple[object, ...]]:
    """The same sums, record by record, for events whose outcomes are all ``accepted``."""
    totals: dict[tuple[object, ...], list[int]] = {}
    columns = [
        "node",
        "connection",
        "link",
        "direction",
        "at",
        "kind",
        "transfers",
        "accepted",
        "granted",
        "link_credit",
    ]
    for batch in ds.dataset(folder, format="parquet").to_batches(columns=columns):
        for *place, at, kind, transfers, accepted, granted, link_credit in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):
            if kind != "activity":
                continue
            key = (*place, int(at.timestamp() // 1))
            one = totals.setdefault(key, [0, 0, 0, 0, link_credit, link_credit])
            one[0] += transfers
            one[1] += accepted
            one[3] += granted
            one[4] = min(one[4], link_credit)
            one[5] = max(one[5], link_credit)
    return {key: tuple(values) for key, values in totals.items()}


def build_parser() -> argparse.ArgumentParser:
    """Make the parser of the options."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.measure", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=10_000_000, help="how many to measure with; 0: none (10000000)")
    parser.add_argument("--duckdb", action="store_true", help="measure DuckDB, too")
    parser.add_argument("--check", type=int, default=0, metavar="EVENTS", help="compare so many with the reference (0)")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Read the command line and run; returns the exit status."""
    parser = build_parser()
    found = parser.parse_args(words)
    for name, events in (("--events", found.events), ("--check", found.check)):
        if events and events < EVENTS_MIN:
            parser.error(
                f"{name} is {events}; it must be 0, or {EVENTS_MIN} or more: a connection opens, its link is attached,"
                " and something moves"
            )
    if found.duckdb and find_spec("duckdb") is None:
        parser.error("DuckDB is not installed; install it with: pip install duckdb")
    if found.events:
        measure(found.events, duckdb=found.duckdb)
    return 1 if found.check and differences(found.check) else 0


if __name__ == "__main__":
    sys.exit(main())
