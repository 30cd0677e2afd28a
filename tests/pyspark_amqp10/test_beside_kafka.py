"""The rows, figures and files of the measurement beside Kafka, without Spark, Kafka or Maven."""

import json
from pathlib import Path

import pytest

from bench.broker import BrokerError
from tests.pyspark_amqp10.beside_kafka.__main__ import main
from tests.pyspark_amqp10.beside_kafka.figures import Pass, checked, missed, ratios, table, to_json
from tests.pyspark_amqp10.beside_kafka.kafka import class_path, settings
from tests.pyspark_amqp10.beside_kafka.rows import KINDS, PROPERTIES


def one(system: str, number: int, rate: float, *, way: str = "source", void: str = "") -> Pass:
    return Pass(
        kind="alike",
        way=way,
        system=system,
        number=number,
        rows=1000,
        seconds=1000 / rate,
        whole_seconds=2000 / rate,
        broker_cpu_us=1.5,
        spark_cpu_us=4.5,
        void=void,
    )


def test_a_ratio_is_that_of_the_runs_of_the_same_round():
    passes = [one("stream", 0, 100), one("kafka", 0, 50), one("stream", 1, 300), one("kafka", 1, 300)]
    passes += [one("stream", 2, 900), one("kafka", 3, 1)]  # without a partner
    found = ratios(passes, "alike", "source", "stream")
    assert found is not None
    assert (found.low, found.median, found.high) == (1.0, 1.5, 2.0)
    assert ratios(passes, "alike", "sink", "stream") is None
    assert ratios(passes, "alike", "source", "queue") is None


def test_a_stream_must_be_as_fast_as_kafka_and_a_queue_half_as_fast():
    passes = [one("stream", 0, 99), one("queue", 0, 50), one("kafka", 0, 100)]
    assert missed(passes) == ["alike rows, source, stream: x0.99 of Kafka's rate, not x1"]
    passes = [one("stream", 0, 100), one("queue", 0, 49), one("kafka", 0, 100)]
    assert missed(passes) == ["alike rows, source, queue: x0.49 of Kafka's rate, not x0.5"]


@pytest.mark.parametrize(
    ("rows", "total", "void"),
    [
        (1000, 7, ""),
        (999, 7, "999 rows instead of 1000"),
        (1001, 7, "1001 rows"),
        (1000, 8, "values"),
        (0, None, "0 rows"),
    ],
)
def test_a_run_that_lost_doubled_or_changed_rows_is_void(rows: int, total: int | None, void: str):
    reason = checked(1000, 7, rows, total)
    assert reason.startswith(void) if void != "values" else "values" in reason
    assert bool(reason) == bool(void)


def test_a_void_run_has_no_figures_in_the_table_and_no_part_in_a_ratio():
    passes = [one("stream", 0, 100), one("stream", 1, 100, void="7 rows instead of 1000"), one("kafka", 0, 100)]
    assert "| alike | source | stream | **VOID**: 7 rows instead of 1000 |" in table(passes)
    assert ratios([one("stream", 1, 100, void="x"), one("kafka", 1, 100)], "alike", "source", "stream") is None


def test_the_table_has_a_line_for_each_way_and_system():
    passes = [one("stream", 0, 2000), one("kafka", 0, 1000), one("stream", 0, 500, way="sink")]
    _, _, *lines = table(passes).splitlines()
    assert lines[0].startswith(
        "| alike | source | stream | 2,000 (2,000–2,000) | ×2.00 (2.00–2.00) | 1,000 | 4.5 | 1.5 |"
    )
    assert lines[1].startswith("| alike | source | kafka | 1,000 (1,000–1,000) |  | 500 |")
    assert lines[2].startswith("| alike | sink | stream | 500 (500–500) |  |  |")


def test_a_result_has_every_run():
    written = json.loads(json.dumps(to_json([one("stream", 4, 250)], {"commit": "c"}, {"rows": 1000})))
    assert written["environment"] == {"commit": "c"}
    assert written["conditions"] == {"rows": 1000}
    assert [(run["number"], run["rows_per_second"], run["void"]) for run in written["runs"]] == [(4, 250, "")]


def test_both_systems_get_the_same_values_and_sum_up_the_same():
    unlike, alike = KINDS
    for value in PROPERTIES.values():
        assert all(value in columns[2] for columns in (unlike.for_headgate, unlike.for_kafka))
    assert unlike.for_headgate[0].split(" as ")[0] == unlike.for_kafka[0].split(" as ")[0]
    for kind, values in ((unlike, 2 + len(PROPERTIES)), (alike, 1)):
        assert kind.sum_of_headgate.count("crc32") == kind.sum_of_kafka.count("crc32") == values


def test_kafka_listens_on_loopback_only_and_keeps_its_data_in_the_folder(tmp_path: Path):
    lines = dict(line.split("=", 1) for line in settings(9092, 9093, tmp_path / "data").splitlines())
    assert lines["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert lines["log.dirs"] == str(tmp_path / "data")


def test_without_maven_the_error_says_what_to_install():
    with pytest.raises(BrokerError, match="apt-get install maven"):
        class_path("broker", version="0", maven="no-such-maven")


@pytest.mark.parametrize("words", [["--rows", "0"], ["--warm", "-1"], ["--kind", "other"], ["--system", "other"]])
def test_wrong_options_are_errors(words: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err
