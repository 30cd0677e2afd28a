"""The command line. Commands that need no Spark run in this process."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.__main__ import FAILED, LIMIT_PASSED, USAGE, build_parser, main, words_for
from pipeline.jobs.contents import Contents, Day
from pyspark_amqp10.errors import LinkRefused, Unreachable

COMMANDS = ("run", "watch", "report", "generate", "archive", "replay")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args([command, "--help"])
    assert ended.value.code == 0
    assert f"python -m pipeline {command} " in capsys.readouterr().out.split("for example:")[1]


def test_events_are_generated_with_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = str(tmp_path / "events")
    assert main(["generate", "--workload", "queue", "--events", "500", "--out", out]) == 0
    said = capsys.readouterr()
    assert said.out.endswith(f"are in {out}, with their answers\n")
    assert "of 1,060 records" in said.err
    assert main(["generate", "--out", out]) == FAILED
    assert capsys.readouterr().err == f"pipeline: {out} is not empty; name a new folder, or remove what is there\n"


def test_a_report_of_no_tables_names_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", "--warehouse", str(tmp_path), "--out", str(tmp_path / "report.html")]) == FAILED
    assert f"make the tables with: python -m pipeline run --warehouse {tmp_path}\n" in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "--warehouse", "w"], "name one source: --url for a broker, or --events for a folder"),
        (["run", "--warehouse", "w", "--url", "u", "--events", "e"], "name one source"),
        (["watch", "--url", "u", "--checkpoint", "c", "--stall-after", "0"], "--stall-after is 0; it must be more"),
        (["run", "--warehouse", "w", "--events", "e", "--bench", "none"], "--bench is none, which is no folder"),
        (["watch", "--url", "u", "--checkpoint", "c", "--option", "x"], "'x' is not NAME=VALUE"),
        (["replay", "--url", "u", "--warehouse", "w", "--address", "a", "--to", "t", "--first-day", "1st"],
         "'1st' is no day; write 2026-11-22"),
        (["run", "--warehouse", "w", "--keep-days", "0"], "'0' is no number of days; write 1 or more"),
        (["report", "--warehouse", "w", "--limit", "20%"], "'20%' is no share; write a number from 0 to 1"),
        (["generate", "--workload", "rain", "--out", "o"], "invalid choice: 'rain'"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_before_spark_starts(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == USAGE
    assert told in capsys.readouterr().err


def test_of_what_spark_wraps_in_a_stack_the_user_is_told_the_connectors_own_line():
    inside = "amqp10.client_core.errors.Unreachable: nobody answers at 127.0.0.1:1"
    wrapped = RuntimeError(
        f"[PYTHON_ERROR] something\nTraceback (most recent call last):\n  File ...\n{inside}\n\n\tat org"
    )
    assert words_for(wrapped) == "nobody answers at 127.0.0.1:1"
    refused = f"{LinkRefused.__module__}.LinkRefused: there is no such queue"
    assert words_for(RuntimeError(f"Traceback\n{refused}\n\tat org")) == "there is no such queue"
    assert words_for(Unreachable("nobody")) == "nobody"
    late = words_for(RuntimeError("[STREAM_FAILED] Query [...]: Python worker failed to connect back. SQLSTATE: XXKST"))
    assert late is not None
    assert late.endswith("Run it again: it goes on")
    assert words_for(RuntimeError("our own mistake")) is None


DAY = "2026-11-27"


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Tables as the run writes them, with one connection that a queue holds up."""
    place = {"node": "n", "connection": "c1", "link": "c1/1", "direction": "in"}
    moved = {"transfers": 50, "granted": 0, "link_credit_min": None, "link_credit_max": None, "blocked_us": 0}
    span = {"first_second": 100, "last_second": 101, "first_us": 100_000_000, "last_us": 102_000_000}
    verdict = {
        "node": "n", "connection": "c1", "link": None, "protocol": "amqp-0-9-1", "container_id": "shop",
        "user": "alice", "address": None, "share": 1.0, "bottleneck": "queue", "culprit": "orders",
        "evidence": "of 2 seconds 2",
    }  # fmt: skip
    rows = {
        "event_counts": [{"node": "n", "kind": "stage", "records": 3, "unknown": 0, "dropped": 0, "fault": None}],
        "links": [place | span | {"address": None, "protocol": "amqp-0-9-1", "container_id": "shop"}],
        "link_timeline": [place | moved | {"second": 100 + n} for n in range(2)],
        "link_seconds": [{"transfers": 50}],
        "bottlenecks": [verdict],
        "bottleneck_seconds": [{"node": "n", "connection": "c1", "second": 100, "reader_us": 400_000}],
        "blocked_shares": [{"direction": "in", "reason": "stage-credit", "culprit": "queue orders", "user": "alice",
                            "address": None, "blocked_us": 1_500_000, "intervals": 3}],
    }  # fmt: skip
    contents = Contents(days={DAY: Day([], True, False, "")})
    for name, own in rows.items():
        file = f"{name}/day={DAY}/v000001-0000.parquet"
        (tmp_path / file).parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(own), tmp_path / file)
        contents.tables[name] = {DAY: [file]}
    (tmp_path / "tables.json").write_text(contents.text())
    return tmp_path


def test_the_report_of_tables_is_a_page(tables: Path, capsys: pytest.CaptureFixture[str]):
    page = tables / "pages" / "report.html"
    assert main(["report", "--warehouse", str(tables), "--out", str(page)]) == 0
    said = "AMQP 0.9.1, connection c1 (shop): the bottleneck is queue orders"
    assert capsys.readouterr().out == f"{said}\npage: {page}\n"
    html = page.read_text()
    assert said in html
    assert "1.5 s, 3 times" in html


def test_the_report_says_by_its_exit_status_that_a_limit_is_passed(tables: Path, capsys: pytest.CaptureFixture[str]):
    words = ["report", "--warehouse", str(tables), "--out", str(tables / "r.html"), "--limit"]
    assert main([*words, "0.5"]) == LIMIT_PASSED
    assert capsys.readouterr().err.startswith("held up for 100%: AMQP 0.9.1, connection c1 (shop)")
    assert main([*words, "1"]) == 0


def test_the_report_writes_a_file_for_prometheus_that_is_never_half(tables: Path):
    file = tables / "flow.prom"
    words = ["report", "--warehouse", str(tables), "--out", str(tables / "r.html"), "--prometheus", str(file)]
    assert main(words) == 0
    assert 'user="alice",address="",culprit="queue orders"} 1.5\n' in file.read_text()
    assert not file.with_name("flow.prom.new").exists()


def test_a_report_of_days_that_are_not_there_names_those_that_are(tables: Path, capsys: pytest.CaptureFixture[str]):
    words = ["report", "--warehouse", str(tables), "--out", str(tables / "r.html"), "--last-day", "2026-11-20"]
    assert main(words) == FAILED
    said = f"pipeline: {tables} has nothing of 2026-11-20 to 2026-11-20; it has {DAY} to {DAY}\n"
    assert capsys.readouterr().err == said


def test_a_report_of_tables_of_another_version_says_so(tables: Path, capsys: pytest.CaptureFixture[str]):
    (tables / "tables.json").write_text("{}")
    assert main(["report", "--warehouse", str(tables), "--out", str(tables / "r.html")]) == FAILED
    assert "tables.json is of another version, or damaged\n" in capsys.readouterr().err
