"""The command line. Commands that need no Spark run in this process."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.__main__ import FAILED, USAGE, build_parser, main, words_for
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


def test_the_report_of_tables_is_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The tables are as the run writes them, with one connection that a queue holds up."""
    text, number, real, flag, moment = pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("us", "UTC")
    place = {"node": "n", "connection": "c1", "link": "c1/1", "direction": "in"}
    tables = {
        "event_counts": [{"node": "n", "kind": "stage", "records": 3, "unknown": 0, "dropped": 0, "fault": None}],
        "links": [place | {"address": None, "protocol": "amqp-0-9-1", "first_second": 100, "last_second": 101}],
        "link_timeline": [
            place | {"second": 100 + n, "transfers": 50, "link_credit_min": None, "blocked_us": 0} for n in range(2)
        ],
        "bottlenecks": [
            {"connection": "c1", "link": None, "protocol": "amqp-0-9-1", "container_id": "shop", "address": None,
             "share": 1.0, "bottleneck": "queue", "culprit": "orders", "evidence": "of 2 seconds 2"}
        ],
        "blocked_shares": [{"direction": "in", "reason": "stage-credit", "culprit": "queue orders",
                            "blocked_us": 1_500_000, "intervals": 3}],
        "closed_windows": [],
        "capacity": [],
        "waits": [],
    }  # fmt: skip
    empty = {
        "closed_windows": pa.schema([("session", text), ("side", text), ("since", moment), ("until", moment)]),
        "capacity": pa.schema([("subject", text), ("rate_from", real), ("rate", real), ("knee", flag)]),
        "waits": pa.schema([("link", text), ("direction", text), ("wait_seconds", real), ("answered", number)]),
    }
    for name, rows in tables.items():
        (tmp_path / name).mkdir()
        table = pa.Table.from_pylist(rows, schema=empty.get(name))
        pq.write_table(table, tmp_path / name / "part-0.parquet")
    page = tmp_path / "pages" / "report.html"
    assert main(["report", "--warehouse", str(tmp_path), "--out", str(page)]) == 0
    said = "AMQP 0.9.1, connection c1 (shop): the bottleneck is queue orders"
    assert capsys.readouterr().out == f"{said}\npage: {page}\n"
    html = page.read_text()
    assert said in html
    assert "1.5 s, 3 times" in html
