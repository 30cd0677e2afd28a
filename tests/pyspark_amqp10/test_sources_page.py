"""docs/spark/sources.md against the code: its tables, and its examples, which run."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession

from pyspark_amqp10 import errors
from pyspark_amqp10.data_source import SPARK_SCHEMA
from pyspark_amqp10.lag_gauges import GAUGES
from pyspark_amqp10.offsets import RANGES_MAX
from pyspark_amqp10.options import CONNECTION_OPTIONS, SOURCE_OPTIONS

PAGE = Path(__file__).parents[2] / "docs" / "spark" / "sources.md"
TEXT = PAGE.read_text(encoding="utf-8")
LISTENER = re.search(r"^```text\n(from prometheus_client .*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
EXAMPLES = re.findall(r"^```text\n(\w+ = \(\n.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def section(heading: str) -> str:
    return TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def test_every_option_stands_in_the_table_with_its_default_and_meaning():
    written = [line for line in section("Options").splitlines() if line.startswith("| `")]
    options = (*CONNECTION_OPTIONS, *SOURCE_OPTIONS)
    assert written == [
        f"| `{one.name}` | {'' if one.default is None else f'`{one.default}`'} | {one.meaning} |" for one in options
    ]


def test_every_column_stands_in_the_table_with_its_type():
    described = {}
    for names, kind in re.findall(r"^\| (`.*?`) \| (.*?) \|", section("Columns"), re.MULTILINE):
        described.update(dict.fromkeys(re.findall(r"`(\w+)`", names), kind))
    short = {"smallint": "short", "bigint": "long"}
    actual = {field.name: field.dataType.simpleString() for field in SPARK_SCHEMA.fields}
    assert described == {name: short.get(kind, kind) for name, kind in actual.items()}


def test_the_errors_that_end_a_query_exist():
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?`) \|", section("What ends a query"), re.MULTILINE)))
    assert named
    assert all(issubclass(getattr(errors, name), errors.ClientError) for name in named)


def test_the_gauges_stand_in_the_table_with_their_meaning():
    written = [line for line in section("Lag").splitlines() if line.startswith("| `amqp10_")]
    assert written == [f"| `{name}` | {meaning} |" for name, meaning in GAUGES.values()]


def test_the_number_of_ranges_is_right():
    assert f"{RANGES_MAX} of them are kept" in TEXT


@pytest.mark.slow
def test_the_example_of_the_listener_serves_the_gauges(spark: SparkSession):
    assert LISTENER is not None
    made: dict[str, Any] = {"spark": spark}
    exec(compile(LISTENER[1].replace("9464", "0"), str(PAGE), "exec"), made)
    try:
        with urlopen(f"http://127.0.0.1:{made['server'].server_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        assert all(f"# TYPE {name} gauge" in text for name, _ in GAUGES.values())
    finally:
        spark.streams.removeListener(made["listener"])
        made["server"].shutdown()
        made["server"].server_close()
        made["thread"].join(10)


@pytest.mark.slow
def test_the_examples_run(
    spark: SparkSession, broker_options: dict[str, str], declare: Callable[..., str], tmp_path: Path
):
    declare("orders", "x-sequence=true")
    declare("readings", "x-queue-type=stream")
    assert len(EXAMPLES) == 3
    for example in EXAMPLES:
        for written, meant in (
            ("amqp://broker.example.org", broker_options["url"]),
            ('"spark"', '"guest"'),
            ("/etc/spark/amqp10.password", broker_options["passwordFile"]),
            ("/data", str(tmp_path)),
        ):
            assert written in example or written == "/data"
            example = example.replace(written, meant)
        exec(compile(example, str(PAGE), "exec"), {"spark": spark})
    assert (tmp_path / "checkpoints" / "orders").is_dir()
