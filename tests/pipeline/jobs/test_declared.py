"""``spark-pipelines run`` over the shipped specification and declarations: one triggered run, and its tables."""

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyspark
import pytest

from pipeline.generate.files import generate
from tests.kit.broker_process import ROOT
from tests.pipeline.reference import link_seconds
from tests.pyspark_amqp10.spark_fixtures import JAVA_OPTIONS

LIMIT_SECONDS = 570
"""The longest run on a machine that does other things, too. On an idle one it takes 20 s."""
REFRESHED = ("flow_events", "block_intervals", "link_seconds")
"""Spark checks the other tables and does not compute them: that would take half a minute of small joins."""
FIGURES = ("transfers", "accepted", "not_accepted", "granted", "link_credit_min", "link_credit_max")
Row = dict[str, object]


def specification(folder: Path, events: Path) -> Path:
    """The specification as the page tells users to change it: a copy, with the storage and a folder as the
    source set."""
    shutil.copytree(ROOT / "pipeline" / "jobs", folder / "jobs", ignore=shutil.ignore_patterns("__pycache__"))
    lines = (ROOT / "pipeline" / "spark-pipeline.yml").read_text().splitlines()
    own = {
        "storage:": f"storage: {(folder / 'storage').as_uri()}",
        "headgate.url:": f"  headgate.events: {events}",
        "spark.sql.shuffle.partitions:": '  spark.sql.shuffle.partitions: "1"',
    }
    for start, line in own.items():
        [at] = [number for number, old in enumerate(lines) if old.strip().startswith(start)]
        lines[at] = line
    copy = folder / "spark-pipeline.yml"
    copy.write_text("\n".join(lines) + "\n")
    return copy


def run(folder: Path, events: Path) -> None:
    """Run the command in the folder where its tables are to be."""
    spark = Path(pyspark.__file__).parent
    command = [spark / "bin" / "spark-pipelines", "run", "--remote", "local[2]"]
    command += ["--spec", specification(folder, events), "--refresh", ",".join(REFRESHED)]
    environment = os.environ | {
        "SPARK_HOME": str(spark), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_TOOL_OPTIONS": JAVA_OPTIONS,
    }  # fmt: skip
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]


def rows(folder: Path, table: str) -> list[Row]:
    found: list[Row] = ds.dataset(folder / "spark-warehouse" / table, format="parquet").to_table().to_pylist()
    return found


def microseconds(at: object) -> int:
    """Microseconds since 1970. The times in Spark's files are UTC without saying so."""
    assert isinstance(at, datetime)
    return round(at.replace(tzinfo=UTC).timestamp() * 1e6)


@pytest.mark.spark
@pytest.mark.slow
def test_a_triggered_run_makes_the_tables_that_plain_python_makes(tmp_path: Path):
    events = tmp_path / "events"
    answers = generate(
        events, "stalls", events=200, connections=2, records=5, seed=1, progress=lambda done, of: None
    )  # fmt: skip
    run(tmp_path, events)
    told: list[Row] = pq.read_table(events).to_pylist()
    assert len(rows(tmp_path, "flow_events")) == len(told) == answers.events
    found = {
        (row["node"], row["connection"], row["link"], row["direction"], row["second"]): tuple(
            row[name] for name in FIGURES
        )
        for row in rows(tmp_path, "link_seconds")
    }
    assert len(found) == 2 * answers.seconds
    assert found == link_seconds(told)
    intervals = {
        (row["link"], microseconds(row["since"]), microseconds(row["until"]), row["ended_by"])
        for row in rows(tmp_path, "block_intervals")
    }
    assert len(intervals) == 2 * answers.seconds
    assert intervals == {
        (row["link"], microseconds(row["since"]), microseconds(row["at"]), "unblocked")
        for row in told
        if row["kind"] == "unblocked"
    }
